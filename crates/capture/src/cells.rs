//! Fields of rows as columns: a field's type as an array of its table, and back.

use arrow_array::{ArrayRef, BooleanArray, StringArray, UInt32Array, UInt64Array};
use haltwise_core::event::{CeilingSource, Paused, WakeSource, WindowCall};
use haltwise_core::exit::{Cause, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::profile::{Event, Hit, Phase, Space};
use haltwise_core::vmm::{Machine, Threads, VcpuTime};

use crate::columns::{Columns, name_array};
use crate::error::CaptureReadError;
use crate::tables::halts::{bucket_lists, number_lists};
use crate::tables::{array, columns};

/// A type that is one column.
pub(crate) trait Cell: Sized {
    fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a;

    /// Reads a column of a batch.
    fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError>;
}

/// Cells that are not fields of their row.
pub(crate) fn computed<R, T: Cell>(
    rows: impl IntoIterator<Item = R>,
    of: impl Fn(R) -> T,
) -> ArrayRef {
    let cells: Vec<T> = rows.into_iter().map(of).collect();
    T::array(cells.iter())
}

/// A type that is one column or several.
pub(crate) trait Field: Sized {
    fn arrays<'a>(fields: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>)
    where
        Self: 'a;

    /// Reads its columns of a batch. `name` is the field's name in the row.
    fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError>;
}

impl<T: Cell> Field for T {
    fn arrays<'a>(fields: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>)
    where
        Self: 'a,
    {
        to.push(T::array(fields));
    }

    fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError> {
        <T as Cell>::read(columns, name)
    }
}

/// Declares structures, the rows of tables among them, by their fields in the order of the columns. A field is named as
/// its column, or its column is named `as` something else. Older captures lack `later` columns.
macro_rules! fields {
    ($($group:ty { $($field:ident $(as $name:literal)? $(/ $how:ident)?),* $(,)? })*) => {$(
        impl $crate::cells::Field for $group {
            fn arrays<'a>(
                fields: impl Iterator<Item = &'a Self> + Clone,
                to: &mut Vec<arrow_array::ArrayRef>,
            ) {
                $($crate::cells::fields!(@arrays fields.clone().map(|it| &it.$field), to $(, $how)?);)*
            }

            fn read(
                columns: &$crate::columns::Columns<'_>,
                _: &str,
            ) -> Result<Vec<Self>, $crate::error::CaptureReadError> {
                $(let $field = $crate::cells::fields!(@read columns, $crate::tables::columns!(@name $field $($name)?) $(, $how)?)?;
                let mut $field = $field.into_iter();)*
                let mut all = Vec::with_capacity(columns.len());
                while let ($(Some($field),)*) = ($($field.next(),)*) {
                    all.push(Self { $($field),* });
                }
                Ok(all)
            }
        }
    )*};
    (@arrays $fields:expr, $to:ident $(, later)?) => { $crate::cells::Field::arrays($fields, $to) };
    (@arrays $fields:expr, $to:ident, $how:ident) => { $to.push($how::array($fields)) };
    (@read $columns:ident, $name:expr) => { $crate::cells::Field::read($columns, $name) };
    (@read $columns:ident, $name:expr, later) => { $columns.later($name) };
    (@read $columns:ident, $name:expr, $how:ident) => { $how::read($columns, $name) };
}

pub(crate) use fields;

fields! {
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
macro_rules! optional_fields {
    ($($group:ident { $($field:ident $(as $name:literal)?),* })*) => {$(
        impl Field for Option<$group> {
            fn arrays<'a>(groups: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
                $(to.push(computed(groups.clone(), |group| group.as_ref()?.$field.cell()));)*
            }

            fn read(columns: &Columns<'_>, _: &str) -> Result<Vec<Self>, CaptureReadError> {
                $(let mut $field = columns.later(columns!(@name $field $($name)?))?.into_iter();)*
                let mut all = Vec::with_capacity(columns.len());
                while let ($(Some($field),)*) = ($($field.next(),)*) {
                    let group = || Some($group { $($field: Part::of($field)?),* });
                    all.push(group());
                }
                Ok(all)
            }
        }
    )*};
}

optional_fields! {
    Machine { hpet, no_ioeventfd, iothreads, vhost, huge_pages, cpu_pm }
    Paused { over_ns as "paused_ns", from_ns as "paused_from_ns" }
    Threads {
        over_ns as "threads_ns", vcpu_cpu_ns, main_cpu_ns, main_runs, others_cpu_ns, busiest as "busiest_thread",
        busiest_cpu_ns
    }
    VcpuTime { cpu_ns, queued_ns, guest_ns, real_time }
}

/// Three columns: counts by bucket, their sum and the largest.
impl Field for LogHist {
    fn arrays<'a>(hists: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
        to.push(bucket_lists(hists.clone()));
        to.push(computed(hists.clone(), Self::sum));
        to.push(computed(hists, Self::max));
    }

    fn read(columns: &Columns<'_>, field: &str) -> Result<Vec<Self>, CaptureReadError> {
        columns.hists(field)
    }
}

impl Columns<'_> {
    /// A column that older captures of this schema lack.
    pub(crate) fn later<T: Clone>(&self, name: &str) -> Result<Vec<Option<T>>, CaptureReadError>
    where
        Option<T>: Cell,
    {
        match self.batch.column_by_name(name) {
            Some(_) => Cell::read(self, name),
            None => Ok(vec![None; self.len()]),
        }
    }
}

/// Declares types that are values of an array, the one column where each row has a value and where a row may lack it.
macro_rules! values {
    ($($type:ty: $array:ident, $cell:ident => $to:expr, $value:ident => $from:expr;)*) => {$(
        impl Cell for $type {
            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                array(cells.map(|$cell| Some($to)).collect::<$array>())
            }

            fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError> {
                let values: &$array = columns.full(name)?;
                Ok(values.iter().flatten().map(|$value| $from).collect())
            }
        }

        impl Cell for Option<$type> {
            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let values = cells.map(|cell| cell.as_ref().map(|$cell| $to));
                array(values.collect::<$array>())
            }

            fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError> {
                let values: &$array = columns.maybe(name)?;
                Ok(values.iter().map(|cell| cell.map(|$value| $from)).collect())
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
            fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
                name_array(&<$type>::ALL.map(<$type>::as_str), cells.map(|cell| *cell as u8))
            }

            fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError> {
                columns.names(name, <$type>::from_name)
            }
        }
    )*};
}

named! { CeilingSource WakeSource WindowCall Kind Isa Event Hit Phase Space }

impl Cell for Vec<u64> {
    fn array<'a>(cells: impl Iterator<Item = &'a Self>) -> ArrayRef {
        number_lists(cells)
    }

    fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<Self>, CaptureReadError> {
        columns.lists(name)
    }
}
