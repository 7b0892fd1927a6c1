//! What a column holds: a field's type as an array of its table, and back.

use arrow_array::{Array, ArrayRef, BooleanArray, StringArray, UInt32Array, UInt64Array};
use haltwise_core::event::{CeilingSource, WakeSource, WindowCall};
use haltwise_core::exit::{Isa, Kind};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};
use haltwise_core::profile::{Event, Hit, Phase, Space};

use crate::columns::{Columns, maybe, name_array};
use crate::error::CaptureReadError;
use crate::tables::array;
use crate::tables::halt_counts::number_lists;

pub(crate) trait Cell: Sized {
    /// A column of them that was read.
    type Read<'a>;

    fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a;

    fn read<'a>(columns: &Columns<'a>, name: &str) -> Result<Self::Read<'a>, CaptureReadError>;

    fn at(read: &Self::Read<'_>, row: usize) -> Self;
}

/// Cells that are not fields of their row.
pub(crate) fn computed<R, T: Cell>(rows: &[R], of: impl Fn(&R) -> T) -> ArrayRef {
    let cells: Vec<T> = rows.iter().map(of).collect();
    T::array(cells.iter())
}

/// A column that was read.
pub(crate) struct Reader<'a, T: Cell>(T::Read<'a>);

impl<T: Cell> Reader<'_, T> {
    pub(crate) fn at(&self, row: usize) -> T {
        T::at(&self.0, row)
    }
}

/// A column that older captures of this schema lack.
pub(crate) struct Later<'a, T>(Option<Reader<'a, Option<T>>>)
where
    Option<T>: Cell;

impl<T> Later<'_, T>
where
    Option<T>: Cell,
{
    pub(crate) fn at(&self, row: usize) -> Option<T> {
        self.0.as_ref()?.at(row)
    }
}

impl<'a> Columns<'a> {
    pub(crate) fn reader<T: Cell>(&self, name: &str) -> Result<Reader<'a, T>, CaptureReadError> {
        T::read(self, name).map(Reader)
    }

    pub(crate) fn later<T>(&self, name: &str) -> Result<Later<'a, T>, CaptureReadError>
    where
        Option<T>: Cell,
    {
        let is_there = self.batch.column_by_name(name).is_some();
        Ok(Later(is_there.then(|| self.reader(name)).transpose()?))
    }
}

macro_rules! numbers {
    ($($type:ty: $raw:ty, $array:ident $all:ident $maybe:ident, $cell:ident => $to:expr, $number:ident => $from:expr;)*) => {$(
        impl Cell for $type {
            type Read<'a> = &'a [$raw];

            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                array($array::from_iter_values(cells.map(|$cell| $to)))
            }

            fn read<'a>(columns: &Columns<'a>, name: &str) -> Result<Self::Read<'a>, CaptureReadError> {
                columns.$all(name)
            }

            fn at(read: &Self::Read<'_>, row: usize) -> Self {
                let $number = read[row];
                $from
            }
        }

        impl Cell for Option<$type> {
            type Read<'a> = &'a $array;

            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let numbers = cells.map(|cell| cell.as_ref().map(|$cell| $to));
                array(numbers.collect::<$array>())
            }

            fn read<'a>(columns: &Columns<'a>, name: &str) -> Result<Self::Read<'a>, CaptureReadError> {
                columns.$maybe(name)
            }

            fn at(read: &Self::Read<'_>, row: usize) -> Self {
                maybe(read, row).map(|$number| $from)
            }
        }
    )*};
}

numbers! {
    u64: u64, UInt64Array u64s maybe_u64s, cell => *cell, number => number;
    u32: u32, UInt32Array u32s maybe_u32s, cell => *cell, number => number;
    Pid: u32, UInt32Array u32s maybe_u32s, cell => cell.0, number => Pid(number);
    Tid: u32, UInt32Array u32s maybe_u32s, cell => cell.0, number => Tid(number);
    VmIndex: u32, UInt32Array u32s maybe_u32s, cell => cell.0, number => VmIndex(number);
    VcpuId: u32, UInt32Array u32s maybe_u32s, cell => cell.0, number => VcpuId(number);
}

macro_rules! values {
    ($($type:ty: $array:ident $all:ident $maybe:ident, $cell:ident => $to:expr, $value:ident => $from:expr;)*) => {$(
        impl Cell for $type {
            type Read<'a> = &'a $array;

            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                array(cells.map(|$cell| Some($to)).collect::<$array>())
            }

            fn read<'a>(columns: &Columns<'a>, name: &str) -> Result<Self::Read<'a>, CaptureReadError> {
                columns.$all(name)
            }

            fn at(read: &Self::Read<'_>, row: usize) -> Self {
                let $value = read.value(row);
                $from
            }
        }

        impl Cell for Option<$type> {
            type Read<'a> = &'a $array;

            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let values = cells.map(|cell| cell.as_ref().map(|$cell| $to));
                array(values.collect::<$array>())
            }

            fn read<'a>(columns: &Columns<'a>, name: &str) -> Result<Self::Read<'a>, CaptureReadError> {
                columns.$maybe(name)
            }

            fn at(read: &Self::Read<'_>, row: usize) -> Self {
                read.is_valid(row).then(|| {
                    let $value = read.value(row);
                    $from
                })
            }
        }
    )*};
}

values! {
    bool: BooleanArray bools maybe_bools, cell => *cell, value => value;
    String: StringArray texts maybe_texts, cell => cell.as_str(), value => value.to_owned();
}

macro_rules! named {
    ($($type:ty)*) => {$(
        impl Cell for $type {
            type Read<'a> = Vec<Self>;

            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                name_array(&<$type>::ALL.map(<$type>::as_str), cells.map(|cell| *cell as u8))
            }

            fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError> {
                columns.names(name, <$type>::from_name)
            }

            fn at(read: &Vec<Self>, row: usize) -> Self {
                read[row]
            }
        }
    )*};
}

named! { CeilingSource WakeSource WindowCall Kind Isa Event Hit Phase Space }

impl Cell for Vec<u64> {
    type Read<'a> = Vec<Self>;

    fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
        number_lists(cells)
    }

    fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError> {
        columns.lists(name)
    }

    fn at(read: &Vec<Self>, row: usize) -> Self {
        read[row].clone()
    }
}
