//! `lost`: events that never reached the recorder.

use arrow_array::{ArrayRef, StringArray, UInt64Array};
use haltwise_core::event::Lost;

use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::table::{Column, Kind, Table};
use crate::tables::{Row, array};

pub(crate) const COLUMNS: &[Column] = &[
    Column::new("time_ns", Kind::U64, "When the loss was noticed."),
    Column::new("count", Kind::U64, "How many events."),
    Column::new(
        "place",
        Kind::Text,
        "Which stage lost them, for example `ring buffer full`.",
    ),
];

impl Row for Lost {
    const TABLE: Table = Table::Lost;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            array(UInt64Array::from_iter_values(
                rows.iter().map(|l| l.time_ns),
            )),
            array(UInt64Array::from_iter_values(rows.iter().map(|l| l.count))),
            array(StringArray::from_iter_values(rows.iter().map(|l| &l.place))),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.u64s("time_ns")?;
        let count = columns.u64s("count")?;
        let place = columns.texts("place")?;
        let lost = |row| Self {
            time_ns: time_ns[row],
            count: count[row],
            place: place.value(row).to_owned(),
        };
        Ok((0..columns.len()).map(lost).collect())
    }
}
