//! `vcpus`: the vCPUs that were seen, as the roster in `capture.json` names them.

use haltwise_core::event::Vcpu;

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

row! {
    Vcpu of Vcpus, COLUMNS {
        vm, id as "vcpu", tid, window_ns, ceiling_ns, ceiling_source, guest_veto, time
    }
}
