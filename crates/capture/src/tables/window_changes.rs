//! `window_changes`: one row for each call of grow or shrink.

use haltwise_core::event::WindowChange;

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
    WindowChange of WindowChanges, COLUMNS { time_ns, vm, vcpu, tid, grow as "change" / change, old_ns, new_ns }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::window_change)
    }
}

/// The column `change`: whether the window grew.
mod change {
    use arrow_array::ArrayRef;

    use crate::columns::{Columns, name_array};
    use crate::error::CaptureReadError;

    pub(super) fn array<'a>(grew: impl Iterator<Item = &'a bool>) -> ArrayRef {
        name_array(&["shrink", "grow"], grew.map(|grew| u8::from(*grew)))
    }

    pub(super) fn read(columns: &Columns<'_>, name: &str) -> Result<Vec<bool>, CaptureReadError> {
        columns.names(name, |name| match name {
            "grow" => Some(true),
            "shrink" => Some(false),
            _ => None,
        })
    }
}
