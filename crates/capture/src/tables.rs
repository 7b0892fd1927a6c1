//! The rows of each table: how facts become columns, and columns facts again.
//!
//! None of them touches a file; `stream`, `parquet_form` and `recording` do.

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use crate::cells::Field;
use crate::convert::Place;
use crate::laws::{self, Laws};
use crate::table::{Column, Table, documented};

/// Declares columns: name, what it holds, when it is NULL, and what its values are.
macro_rules! columns {
    ($vis:vis $columns:ident { $($all:tt)* }) => {
        $vis const $columns: &[$crate::table::Column] = columns!(@list $($all)*);
    };
    (@list $(
        $field:ident $(as $name:literal)?: $kind:ident $(, null $null:literal $($later:ident)?)?, $meaning:literal;
    )*) => {
        &[$($crate::table::Column {
            name: columns!(@name $field $($name)?),
            kind: $crate::table::Kind::$kind,
            null: columns!(@null $($null)?),
            meaning: $meaning,
        }),*]
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@null) => { None };
    (@null $null:literal) => { Some($null) };
}

pub(crate) use columns;

/// Declares a table: its row, its columns, and the fields `of` which they are made; without those each column is a field,
/// by name or `as` another, and what is `later` older captures lack.
macro_rules! table {
    ($table:ident: $row:ident { $($columns:tt)* } of { $($fields:tt)* } $($more:tt)*) => {
        $crate::cells::fields! { $row { $($fields)* } }

        impl $crate::tables::Row for $row {
            const TABLE: $crate::table::Table = $crate::table::Table::$table;
            const COLUMNS: &'static [$crate::table::Column] = columns!(@list $($columns)*);

            $($more)*
        }
    };
    (
        $table:ident: $row:ident {
            $($field:ident $(as $name:literal)?: $kind:ident $(, null $null:literal $($later:ident)?)?, $meaning:literal;)*
        }
        $($more:tt)*
    ) => {
        table! {
            $table: $row {
                $($field $(as $name)?: $kind $(, null $null $($later)?)?, $meaning;)*
            }
            of { $($field $(as $name)? $($(/ $later)?)?),* }
            $($more)*
        }
    };
}

pub(crate) mod halts;
mod host;
mod roster;
mod samples;

type Law<T> = fn(&mut Laws, &T) -> Result<(), laws::Law>;

/// A fact that is a row of a table.
pub(crate) trait Row: Field + Send + 'static {
    const TABLE: Table;
    const COLUMNS: &'static [Column];

    /// Puts the place of its thread where it names that by its number among `places`.
    fn place(&mut self, _places: &[Place]) {}

    /// The law that each of its rows obeys by itself.
    const LAW: Option<Law<Self>> = None;

    /// Those that obey the laws, of the next rows of the table.
    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        match Self::LAW {
            Some(law) => laws.each(rows, law),
            None => rows,
        }
    }
}

pub(crate) fn batch_of<R: Row>(rows: &[R]) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let mut arrays = Vec::with_capacity(R::COLUMNS.len());
    R::arrays(rows.iter(), &mut arrays);
    RecordBatch::try_new_with_options(R::TABLE.schema(), arrays, &options)
}

/// An array behind the pointer that batches hold.
pub(crate) fn array<A: arrow_array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

/// Calls a generic function of the rows of a table that is known only when the program runs.
macro_rules! of_table {
    ($table:expr, $function:ident $arguments:tt) => {{
        use haltwise_core::{event, exit, profile};
        use $crate::table::Table;
        match $table {
            Table::Halts => $function::<event::Halt> $arguments,
            Table::WindowChanges => $function::<event::WindowChange> $arguments,
            Table::HaltCounts => $function::<event::HaltCounts> $arguments,
            Table::Knobs => $function::<event::Knob> $arguments,
            Table::HostSamples => $function::<event::HostSample> $arguments,
            Table::IdleStates => $function::<event::IdleState> $arguments,
            Table::Lost => $function::<event::Lost> $arguments,
            Table::Vms => $function::<event::Vm> $arguments,
            Table::Vcpus => $function::<event::Vcpu> $arguments,
            Table::Exits => $function::<exit::Exits> $arguments,
            Table::SampleFrames => $function::<profile::Frame> $arguments,
            Table::SampleStacks => $function::<profile::Stack> $arguments,
            Table::SampleThreads => $function::<profile::Thread> $arguments,
            Table::Samples => $function::<profile::Sample> $arguments,
        }
    }};
}

pub(crate) use of_table;

impl Table {
    pub fn columns(self) -> &'static [Column] {
        of_table!(self, columns_of())
    }

    pub(crate) fn schema(self) -> SchemaRef {
        static SCHEMAS: LazyLock<Vec<SchemaRef>> = LazyLock::new(|| {
            let fields = |it: Table| it.columns().iter().map(Column::field);
            let made = Table::ALL.map(|it| Arc::new(Schema::new(fields(it).collect::<Vec<_>>())));
            Vec::from(made)
        });
        Arc::clone(&SCHEMAS[self as usize])
    }

    /// The Arrow schema of its columns, with the meaning, the unit and what NULL means as metadata of each.
    pub fn arrow_schema(self) -> SchemaRef {
        documented(self.columns())
    }
}

fn columns_of<R: Row>() -> &'static [Column] {
    R::COLUMNS
}
