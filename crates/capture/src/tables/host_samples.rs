//! `host_samples`: the host's own state, once per flush.

use haltwise_core::event::HostSample;

use crate::laws::Laws;

table! {
    COLUMNS of HostSamples: HostSample {
        time_ns: U64, "When.";
        cpus: U32, "CPUs online.";
        busy_ns: U64, "CPU time of all CPUs that was not idle, since boot.";
        total_ns: U64, "CPU time of all CPUs, since boot.";
        cpu_pressure_ns: U64, null "no pressure stall information",
            "Time in which some task waited for a CPU, since boot.";
        recorder_cpu_ns: U64, "CPU time that the recorder itself has used since it started.";
        bpf_cpu_ns: U64, null "not accounted", "CPU time of the recorder's BPF programs.";
        recorder_rss_bytes: U64, "Resident memory of the recorder.";
        steal_ns: U64, null "not accounted, or recorded before this column" later,
            "CPU time of all CPUs in which a hypervisor ran something else while they had work, since boot; part of `busy_ns`.";
        idle_ns: U64, null "no cpuidle, not looked at in this row, or recorded before this column" later,
            "Time that CPUs stood still, all of them together, since boot: all states of cpuidle but `POLL`. Looked at every \
             10 s, at the beginning and at the end.";
        package_uj: U64, null "no RAPL, not looked at in this row, or recorded before this column" later,
            "Energy that CPU packages used since the recording began, in microjoules.";
        cycles: U64, null "no PMU or not permitted, not looked at in this row, or recorded before this column" later,
            "Cycles that CPUs ran since the recording began, all of them together (perf's `cycles`, which stand still with the \
             CPU). Looked at like `idle_ns`.";
        instructions: U64, null "the same" later, "Instructions that CPUs retired since the recording began.";
    }
    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::host_sample)
    }
}
