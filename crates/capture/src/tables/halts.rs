//! `halts`: one row for each halt.

use haltwise_core::event::Halt;

use crate::laws::Laws;

table! {
    COLUMNS of Halts: Halt {
        start_ns: U64, "When the halt began: its end less `halt_ns`.";
        halt_ns: U64, "KVM's measure of the whole halt, polling and wake-up latency included (`kvm_vcpu_wakeup.ns`).";
        vm: U32, null "thread not placed", "The VM.";
        vcpu: U32, null "thread not placed", "The vCPU.";
        tid: U32, "The thread that ran the vCPU, in the root PID namespace.";
        waited: Bool, "The vCPU was really scheduled out (`kvm_vcpu_wakeup.waited`).";
        valid: Bool, "KVM counted the wake-up as valid (`kvm_vcpu_wakeup.valid`); false on s390 only.";
        window_ns: U32, null "not readable", "Polling window in force at entry, clamped to the ceiling as KVM does.";
        window_next_ns: U32, null "not readable", "Polling window that the rule left behind.";
        ceiling_ns: U32, null "not readable", "Ceiling in force.";
        ceiling_source: Name,
            "Who set the ceiling: `param` (module parameter), `cap` (`KVM_CAP_HALT_POLL` of this VM), `snapshot` (taken when the VM was made, Linux 5.8 to 6.0), `unknown`.";
        change: Name, "Which rule KVM called for this halt: `none`, `grow`, `shrink`.";
        poll_ns: U64, null "not known",
            "Time polled, as KVM booked it; 0 where the vCPU was not allowed to poll. Where `poll_cut` and `polled` are NULL and the vCPU slept, the longest that the poll can have taken.";
        polled: Bool, null "not read" later,
            "KVM counted an attempted poll (`halt_attempted_poll`). A poll that is met at its first look takes 0 ns; a guest that disabled host polling does not poll whatever its window. Older captures lack it.";
        wake_latency_ns: U64, null "not known",
            "From the wake event until KVM had the vCPU running again; 0 if it did not wait.";
        wake: Name, "What ended the halt: `timer`, `ipi`, `device`, `other`, `unknown`.";
        poll_cut: Bool, null "not known", "Polling stopped because another task wanted the CPU (`kvm_vcpu_can_poll`).";
        cpu: U32, null "not recorded" later, "CPU on which the vCPU ran when the halt ended. Older captures lack it.";
        waker_cpu: U32, null "not recorded, or it did not sleep" later,
            "CPU from which the vCPU was woken; `roster.cpus` of `capture.json` has the host's cores and caches. Older captures lack it.";
    }
    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.halts(rows)
    }
}
