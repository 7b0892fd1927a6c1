//! Contents of a column: a field's type as an array of its table, and back.

use std::cell::RefCell;

use arrow_array::{Array, ArrayRef, BooleanArray, StringArray, UInt32Array, UInt64Array};
use haltwise_core::event::{CeilingSource, Paused, WakeSource, WindowCall};
use haltwise_core::exit::{Cause, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::profile::{Event, Hit, Phase, Space};
use haltwise_core::vmm::{Machine, Threads, VcpuTime};

use crate::columns::{Columns, name_array};
use crate::error::CaptureReadError;
use crate::tables::halt_counts::{bucket_lists, number_lists};
use crate::tables::{array, columns};

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
pub(crate) fn computed<R, T: Cell>(
    rows: impl IntoIterator<Item = R>,
    of: impl Fn(R) -> T,
) -> ArrayRef {
    let cells: Vec<T> = rows.into_iter().map(of).collect();
    T::array(cells.iter())
}

/// A field of a row that is several columns.
pub(crate) trait Group: Sized {
    fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>)
    where
        Self: 'a;

    /// Reads its columns. `field` is its name in the row, after which those of some groups are named.
    fn read<'a>(columns: &Columns<'a>, field: &str) -> Result<At<'a, Self>, CaptureReadError>;
}

/// A group of columns that was read. Each row is asked for once.
pub(crate) struct At<'a, T>(Box<dyn Fn(usize) -> T + 'a>);

impl<'a, T> At<'a, T> {
    pub(crate) fn new(at: impl Fn(usize) -> T + 'a) -> Self {
        Self(Box::new(at))
    }

    pub(crate) fn at(&self, row: usize) -> T {
        (self.0)(row)
    }
}

/// Declares structures whose fields are columns of the same names.
macro_rules! groups {
    ($($group:ident { $($field:ident),* })*) => {$(
        impl Group for $group {
            fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
                $(to.push(Cell::array(cells.clone().map(|cell| &cell.$field)));)*
            }

            fn read<'a>(columns: &Columns<'a>, _: &str) -> Result<At<'a, Self>, CaptureReadError> {
                $(let $field = columns.reader(stringify!($field))?;)*
                Ok(At::new(move |row| Self { $($field: $field.at(row)),* }))
            }
        }
    )*};
}

groups! {
    Cause { kind, isa, reason, sub }
    VmKey { pid, start_ticks, ordinal }
}

/// A field of a structure that a row may lack. Where its column is NULL there is no structure, unless the field is optional.
trait Part: Sized {
    type Of;

    fn cell(&self) -> Option<Self::Of>;

    fn of(cell: Option<Self::Of>) -> Option<Self>;
}

impl<T: Clone> Part for Option<T> {
    type Of = T;

    fn cell(&self) -> Self {
        self.clone()
    }

    fn of(cell: Self) -> Option<Self> {
        Some(cell)
    }
}

macro_rules! parts {
    ($($part:ty as $of:ty: $from:expr;)*) => {$(
        impl Part for $part {
            type Of = $of;

            fn cell(&self) -> Option<$of> {
                Some((*self).into())
            }

            fn of(cell: Option<$of>) -> Option<Self> {
                cell.map($from)
            }
        }
    )*};
}

parts! {
    bool as bool: |it| it;
    u64 as u64: |it| it;
    u32 as u64: |it| Self::try_from(it).unwrap_or(Self::MAX);
}

/// Declares structures that a row may lack, of columns that older captures lack.
macro_rules! optional_groups {
    ($($group:ident { $($field:ident $(as $name:literal)?),* })*) => {$(
        impl Group for Option<$group> {
            fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
                $(to.push(computed(cells.clone(), |group: &Self| group.as_ref()?.$field.cell()));)*
            }

            fn read<'a>(columns: &Columns<'a>, _: &str) -> Result<At<'a, Self>, CaptureReadError> {
                $(let $field = columns.later(columns!(@name $field $($name)?))?;)*
                Ok(At::new(move |row| Some($group { $($field: Part::of($field.at(row))?),* })))
            }
        }
    )*};
}

optional_groups! {
    Machine { hpet, no_ioeventfd, iothreads, vhost, huge_pages, cpu_pm }
    Paused { over_ns as "paused_ns", from_ns as "paused_from_ns" }
    Threads {
        over_ns as "threads_ns", vcpu_cpu_ns, main_cpu_ns, main_runs, others_cpu_ns, busiest as "busiest_thread",
        busiest_cpu_ns
    }
    VcpuTime { cpu_ns, queued_ns, guest_ns, real_time }
}

/// Three columns: counts by bucket, their sum and the largest.
impl Group for LogHist {
    fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
        let computed = |of: fn(&Self) -> u64| {
            let numbers = cells.clone().map(of);
            array(UInt64Array::from_iter_values(numbers))
        };
        let (sums, maxima) = (computed(Self::sum), computed(Self::max));
        to.extend([bucket_lists(cells), sums, maxima]);
    }

    fn read<'a>(columns: &Columns<'a>, field: &str) -> Result<At<'a, Self>, CaptureReadError> {
        let hists = RefCell::new(columns.hists(field)?);
        Ok(At::new(move |row| {
            std::mem::take(&mut hists.borrow_mut()[row])
        }))
    }
}

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

    pub(crate) fn group<T: Group>(&self, field: &str) -> Result<At<'a, T>, CaptureReadError> {
        T::read(self, field)
    }

    pub(crate) fn later<T>(&self, name: &str) -> Result<Later<'a, T>, CaptureReadError>
    where
        Option<T>: Cell,
    {
        let is_there = self.batch.column_by_name(name).is_some();
        Ok(Later(is_there.then(|| self.reader(name)).transpose()?))
    }
}

/// Declares types that are values of an array, the one column where each row has a value and where a row may lack it.
macro_rules! values {
    ($($type:ty: $array:ident, $cell:ident => $to:expr, $value:ident => $from:expr;)*) => {$(
        impl Cell for $type {
            type Read<'a> = &'a $array;

            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                array(cells.map(|$cell| Some($to)).collect::<$array>())
            }

            fn read<'a>(columns: &Columns<'a>, name: &str) -> Result<Self::Read<'a>, CaptureReadError> {
                columns.full(name)
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
                columns.maybe(name)
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
    u64: UInt64Array, cell => *cell, value => value;
    u32: UInt32Array, cell => *cell, value => value;
    Pid: UInt32Array, cell => cell.0, value => Pid(value);
    Tid: UInt32Array, cell => cell.0, value => Tid(value);
    VmIndex: UInt32Array, cell => cell.0, value => VmIndex(value);
    VcpuId: UInt32Array, cell => cell.0, value => VcpuId(value);
    bool: BooleanArray, cell => *cell, value => value;
    String: StringArray, cell => cell.as_str(), value => value.to_owned();
    VmmKind: StringArray, cell => cell.as_str(), value => VmmKind::from_name(value).unwrap_or_default();
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
