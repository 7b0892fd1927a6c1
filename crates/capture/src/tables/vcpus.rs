//! `vcpus`: the vCPUs that were seen, as the roster in `capture.json` names them.

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array, UInt64Array};
use haltwise_core::event::{CeilingSource, Vcpu};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::vmm::VcpuTime;

use crate::cells::Cell;
use crate::columns::{Columns, maybe};
use crate::error::CaptureReadError;
use crate::table::Table;
use crate::tables::{Row, array};

columns! {
    pub(crate) COLUMNS {
        vm: U32, "Its VM.";
        vcpu: U32, "Its number.";
        tid: U32, "The thread that runs it.";
        window_ns: U32, null "not readable", "Window when last looked at.";
        ceiling_ns: U32, null "not readable", "Ceiling when last looked at.";
        ceiling_source: Name, "Who set it, as in `halts`.";
        guest_veto: Bool, null "not readable",
            "The guest switched host polling off (x86 `MSR_KVM_POLL_CONTROL`, bit 0 clear).";
        cpu_ns: U64, null "not known", "CPU time of its thread in the VM's `threads_ns`. Older captures lack it.";
        queued_ns: U64, null "not known",
            "Time in which its thread was runnable and waited for a CPU. Older captures lack it.";
        guest_ns: U64, null "not known",
            "CPU time in the guest, as the kernel's tick samples it: 0 where the kernel counts none. Older captures lack it.";
        real_time: Bool, null "not known",
            "Its thread has the policy `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE`. Older captures lack it.";
    }
}

impl Row for Vcpu {
    const TABLE: Table = Table::Vcpus;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let u32s = |of: fn(&Self) -> u32| array(UInt32Array::from_iter_values(rows.iter().map(of)));
        let maybe_u32s =
            |of: fn(&Self) -> Option<u32>| array(rows.iter().map(of).collect::<UInt32Array>());
        let times = |of: fn(VcpuTime) -> u64| {
            let each = rows.iter().map(|v| v.time.map(of));
            array(each.collect::<UInt64Array>())
        };
        let guest_veto: BooleanArray = rows.iter().map(|v| v.guest_veto).collect();
        let real_time = rows.iter().map(|v| v.time.and_then(|it| it.real_time));
        let real_time: BooleanArray = real_time.collect();
        vec![
            u32s(|v| v.vm.0),
            u32s(|v| v.id.0),
            u32s(|v| v.tid.0),
            maybe_u32s(|v| v.window_ns),
            maybe_u32s(|v| v.ceiling_ns),
            Cell::array(rows.iter().map(|v| &v.ceiling_source)),
            array(guest_veto),
            times(|it| it.cpu_ns),
            times(|it| it.queued_ns),
            times(|it| it.guest_ns),
            array(real_time),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let vm = columns.u32s("vm")?;
        let id = columns.u32s("vcpu")?;
        let tid = columns.u32s("tid")?;
        let window_ns = columns.maybe_u32s("window_ns")?;
        let ceiling_ns = columns.maybe_u32s("ceiling_ns")?;
        let ceiling_source = columns.names("ceiling_source", CeilingSource::from_name)?;
        let guest_veto = columns.maybe_bools("guest_veto")?;
        let cpu_ns = columns.later_u64s("cpu_ns")?;
        let queued_ns = columns.later_u64s("queued_ns")?;
        let guest_ns = columns.later_u64s("guest_ns")?;
        let real_time = columns.later_bools("real_time")?;
        let time = |row| {
            Some(VcpuTime {
                cpu_ns: maybe(cpu_ns?, row)?,
                queued_ns: maybe(queued_ns?, row)?,
                guest_ns: maybe(guest_ns?, row)?,
                real_time: real_time.and_then(|it| it.is_valid(row).then(|| it.value(row))),
            })
        };
        let vcpu = |row| Self {
            vm: VmIndex(vm[row]),
            id: VcpuId(id[row]),
            tid: Tid(tid[row]),
            window_ns: maybe(window_ns, row),
            ceiling_ns: maybe(ceiling_ns, row),
            ceiling_source: ceiling_source[row],
            guest_veto: guest_veto.is_valid(row).then(|| guest_veto.value(row)),
            time: time(row),
        };
        Ok((0..columns.len()).map(vcpu).collect())
    }
}
