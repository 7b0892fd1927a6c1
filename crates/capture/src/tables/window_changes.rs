//! `window_changes`: one row for each call of grow or shrink.

use arrow_array::{ArrayRef, UInt32Array, UInt64Array};
use haltwise_core::event::WindowChange;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use crate::columns::{Columns, maybe, name_array};
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::Table;
use crate::tables::{Row, array};

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
        let maybe_u32s =
            |of: fn(&Self) -> Option<u32>| array(rows.iter().map(of).collect::<UInt32Array>());
        let u32s = |of: fn(&Self) -> u32| array(UInt32Array::from_iter_values(rows.iter().map(of)));
        vec![
            array(UInt64Array::from_iter_values(
                rows.iter().map(|w| w.time_ns),
            )),
            maybe_u32s(|w| w.vm.map(|vm| vm.0)),
            maybe_u32s(|w| w.vcpu.map(|vcpu| vcpu.0)),
            u32s(|w| w.tid.0),
            name_array(&["shrink", "grow"], rows.iter().map(|w| u8::from(w.grow))),
            u32s(|w| w.old_ns),
            u32s(|w| w.new_ns),
        ]
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::window_change)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.u64s("time_ns")?;
        let vm = columns.maybe_u32s("vm")?;
        let vcpu = columns.maybe_u32s("vcpu")?;
        let tid = columns.u32s("tid")?;
        let grow = columns.names("change", |name| match name {
            "grow" => Some(true),
            "shrink" => Some(false),
            _ => None,
        })?;
        let old_ns = columns.u32s("old_ns")?;
        let new_ns = columns.u32s("new_ns")?;
        let change = |row| Self {
            time_ns: time_ns[row],
            vm: maybe(vm, row).map(VmIndex),
            vcpu: maybe(vcpu, row).map(VcpuId),
            tid: Tid(tid[row]),
            grow: grow[row],
            old_ns: old_ns[row],
            new_ns: new_ns[row],
        };
        Ok((0..columns.len()).map(change).collect())
    }
}
