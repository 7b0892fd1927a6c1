//! `idle_states`: how long and how often the CPUs were in each state of cpuidle.

use arrow_array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use haltwise_core::event::IdleState;

use crate::columns::{Columns, maybe};
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::{Column, Kind, Table};
use crate::tables::{Row, array};

pub(crate) const COLUMNS: &[Column] = &[
    Column::new("time_ns", Kind::U64, "When."),
    Column::new(
        "state",
        Kind::U32,
        "The state's number, from the shallowest on.",
    ),
    Column::new(
        "name",
        Kind::Text,
        "What its driver calls it, for example `POLL`, `C1E`.",
    ),
    Column::new("description", Kind::Text, "How its driver describes it."),
    Column::new("cpus", Kind::U32, "CPUs that have it."),
    Column::new(
        "entries",
        Kind::U64,
        "How often they entered it since boot (`usage`).",
    ),
    Column::new(
        "residency_ns",
        Kind::U64,
        "How long they were in it since boot (`time`).",
    ),
    Column::nullable(
        "above",
        Kind::U64,
        "not counted by this kernel",
        "Entries that ended before the state's target residency, while a shallower one was enabled.",
    ),
    Column::nullable(
        "below",
        Kind::U64,
        "not counted by this kernel",
        "Entries that lasted long enough for the next deeper state.",
    ),
];

impl Row for IdleState {
    const TABLE: Table = Table::IdleStates;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let u64s = |of: fn(&Self) -> u64| array(UInt64Array::from_iter_values(rows.iter().map(of)));
        let u32s = |of: fn(&Self) -> u32| array(UInt32Array::from_iter_values(rows.iter().map(of)));
        let texts =
            |of: fn(&Self) -> &str| array(StringArray::from_iter_values(rows.iter().map(of)));
        let maybe_u64s =
            |of: fn(&Self) -> Option<u64>| array(rows.iter().map(of).collect::<UInt64Array>());
        vec![
            u64s(|row| row.time_ns),
            u32s(|row| row.state),
            texts(|row| &row.name),
            texts(|row| &row.description),
            u32s(|row| row.cpus),
            u64s(|row| row.entries),
            u64s(|row| row.residency_ns),
            maybe_u64s(|row| row.above),
            maybe_u64s(|row| row.below),
        ]
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::idle_state)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.u64s("time_ns")?;
        let state = columns.u32s("state")?;
        let name = columns.texts("name")?;
        let description = columns.texts("description")?;
        let cpus = columns.u32s("cpus")?;
        let entries = columns.u64s("entries")?;
        let residency_ns = columns.u64s("residency_ns")?;
        let above = columns.maybe_u64s("above")?;
        let below = columns.maybe_u64s("below")?;
        let of_row = |row| Self {
            time_ns: time_ns[row],
            state: state[row],
            name: name.value(row).to_owned(),
            description: description.value(row).to_owned(),
            cpus: cpus[row],
            entries: entries[row],
            residency_ns: residency_ns[row],
            above: maybe(above, row),
            below: maybe(below, row),
        };
        Ok((0..columns.len()).map(of_row).collect())
    }
}
