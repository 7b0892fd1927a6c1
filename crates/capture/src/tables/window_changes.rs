//! `window_changes`: one row for each call of grow or shrink.

use arrow_array::ArrayRef;
use haltwise_core::event::WindowChange;

use crate::cells::computed;
use crate::columns::{Columns, name_array};
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::Table;
use crate::tables::Row;

columns! {
    pub(crate) COLUMNS {
        time_ns: U64, "When.";
        vm: U32, null "thread not placed", "The VM.";
        vcpu: U32, null "unknown", "The vCPU, as the tracepoint names it.";
        tid: U32, "The thread that ran the vCPU.";
        change: Name, "`grow` or `shrink`.";
        old_ns: U32, "Window before.";
        new_ns: U32, "Window after; may exceed the ceiling from Linux 6.1 on, where the clamp comes at the next halt.";
    }
}

impl Row for WindowChange {
    const TABLE: Table = Table::WindowChanges;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            computed(rows, |row| row.time_ns),
            computed(rows, |row| row.vm),
            computed(rows, |row| row.vcpu),
            computed(rows, |row| row.tid),
            name_array(
                &["shrink", "grow"],
                rows.iter().map(|row| u8::from(row.grow)),
            ),
            computed(rows, |row| row.old_ns),
            computed(rows, |row| row.new_ns),
        ]
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::window_change)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.reader("time_ns")?;
        let vm = columns.reader("vm")?;
        let vcpu = columns.reader("vcpu")?;
        let tid = columns.reader("tid")?;
        let grow = columns.names("change", |name| match name {
            "grow" => Some(true),
            "shrink" => Some(false),
            _ => None,
        })?;
        let old_ns = columns.reader("old_ns")?;
        let new_ns = columns.reader("new_ns")?;
        let change = |row| Self {
            time_ns: time_ns.at(row),
            vm: vm.at(row),
            vcpu: vcpu.at(row),
            tid: tid.at(row),
            grow: grow[row],
            old_ns: old_ns.at(row),
            new_ns: new_ns.at(row),
        };
        Ok((0..columns.len()).map(change).collect())
    }
}
