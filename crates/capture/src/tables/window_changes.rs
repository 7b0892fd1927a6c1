//! `window_changes`: one row for each call of grow or shrink.

use arrow_array::ArrayRef;
use haltwise_core::event::WindowChange;

use crate::cells::{At, Group};
use crate::columns::{Columns, name_array};
use crate::error::CaptureReadError;
use crate::laws::Laws;

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

row! {
    WindowChange of WindowChanges { time_ns, vm, vcpu, tid, grow/group, old_ns, new_ns }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::window_change)
    }
}

/// Whether the window grew: the column `change`.
impl Group for bool {
    fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
        let words = ["shrink", "grow"];
        to.push(name_array(&words, cells.map(|grow| u8::from(*grow))));
    }

    fn read<'a>(columns: &Columns<'a>, _: &str) -> Result<At<'a, Self>, CaptureReadError> {
        let grow = columns.names("change", |name| match name {
            "grow" => Some(true),
            "shrink" => Some(false),
            _ => None,
        })?;
        Ok(At::new(move |row| grow[row]))
    }
}
