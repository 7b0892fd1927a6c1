//! `vcpus`: the vCPUs that were seen, as the roster in `capture.json` names them.

use arrow_array::ArrayRef;
use haltwise_core::event::Vcpu;
use haltwise_core::vmm::VcpuTime;

use crate::cells::computed;
use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::table::Table;
use crate::tables::Row;

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
        vec![
            computed(rows, |row| row.vm),
            computed(rows, |row| row.id),
            computed(rows, |row| row.tid),
            computed(rows, |row| row.window_ns),
            computed(rows, |row| row.ceiling_ns),
            computed(rows, |row| row.ceiling_source),
            computed(rows, |row| row.guest_veto),
            computed(rows, |row| Some(row.time?.cpu_ns)),
            computed(rows, |row| Some(row.time?.queued_ns)),
            computed(rows, |row| Some(row.time?.guest_ns)),
            computed(rows, |row| row.time?.real_time),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let vm = columns.reader("vm")?;
        let id = columns.reader("vcpu")?;
        let tid = columns.reader("tid")?;
        let window_ns = columns.reader("window_ns")?;
        let ceiling_ns = columns.reader("ceiling_ns")?;
        let ceiling_source = columns.reader("ceiling_source")?;
        let guest_veto = columns.reader("guest_veto")?;
        let cpu_ns = columns.later("cpu_ns")?;
        let queued_ns = columns.later("queued_ns")?;
        let guest_ns = columns.later("guest_ns")?;
        let real_time = columns.later("real_time")?;
        let time = |row| {
            Some(VcpuTime {
                cpu_ns: cpu_ns.at(row)?,
                queued_ns: queued_ns.at(row)?,
                guest_ns: guest_ns.at(row)?,
                real_time: real_time.at(row),
            })
        };
        let vcpu = |row| Self {
            vm: vm.at(row),
            id: id.at(row),
            tid: tid.at(row),
            window_ns: window_ns.at(row),
            ceiling_ns: ceiling_ns.at(row),
            ceiling_source: ceiling_source.at(row),
            guest_veto: guest_veto.at(row),
            time: time(row),
        };
        Ok((0..columns.len()).map(vcpu).collect())
    }
}
