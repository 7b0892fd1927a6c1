//! The columns of a costs table.

use crate::tables::columns;

columns! {
    pub COLUMNS {
        host: Text, "The host's name; empty where the capture does not keep it.";
        date: Text, null "not known", "The day on which the capture began, in UTC: `2026-11-25`.";
        start_unix_ns: U64, "When the capture began, since 1970; 0 where that is not known.";
        end_unix_ns: U64, "When it ended; as long after `start_unix_ns` as it lasted.";
        kernel: Text, "The kernel whose algorithm was replayed, with what it carries of later ones.";
        kernel_release: Text, "`uname -r` of the host.";
        arch: Text, "The architecture whose algorithm was replayed: `x86`, `arm64`, …";
        cpu_model: Text, null "not known", "The CPU's name.";
        cpus: U32, "CPUs online.";
        switch_cpu_ns: U64, "CPU time of one sleep and wake-up on this host: the calibration, as a whole number.";
        switch_cpu_source: Text, "Where that comes from: `calibrated`, `given`, `assumed`, `bounded`.";
        labels: Text, null "none", "What the operator says of the host: `key=value`, by comma, in order of keys.";
        vm: Text, null "halts whose VM is not known", "The VM's name.";
        vmm: Text, null "halts whose VM is not known", "Its VMM, as in a capture's `vms`.";
        domain: Text, null "none, or not known", "As in a capture's `vms`.";
        uuid: Text, null "none, or not known", "As in a capture's `vms`.";
        vmid: Text, null "none, or not known", "As in a capture's `vms`.";
        pod: Text, null "none, or not known", "As in a capture's `vms`.";
        pod_uid: Text, null "none, or not known", "As in a capture's `vms`.";
        cgroup: Text, null "none, or not known", "As in a capture's `vms`.";
        vcpus: U32, "Its vCPUs that halted in the capture.";
        class: Text, null "none", "What the operator calls VMs of this kind (`fleet add --class`).";
        goal: Text, null "none of its own", "Its goal: `density`, `balanced` or `latency` (`fleet add --goal`).";
        own_ceiling_ns: U32, null "none",
            "The VM's own ceiling (`KVM_CAP_HALT_POLL`), which no module parameter changes.";
        grid: Text, "The name of the grid of settings.";
        kind: Text, "What the row is of, see [the rows](costs-format.md#rows).";
        halt_poll_ns: U32, null "`recorded` and bounds", "The setting.";
        grow: U32, null "`recorded` and bounds", "The setting: `halt_poll_ns_grow`.";
        grow_start_ns: U32, null "`recorded` and bounds", "The setting: `halt_poll_ns_grow_start`.";
        shrink: U32, null "`recorded` and bounds", "The setting: `halt_poll_ns_shrink`.";
        half: Text,
            "`fit`: the first half of the capture's time, on which settings are chosen; `validate`: the second.";
        halts: U64, "Halts.";
        sleeps: U64, "Halts that slept.";
        failed_polls: U64, "Of these, those that had polled.";
        poll_ns: U64, "Time polled.";
        latency_ns: U64, "Wake-up latency in all.";
        halt_ns: U64, "Time of the halts in all.";
        latency_hist: Numbers,
            "Wake-up latency of every 17th halt of each vCPU, 0 for halts that did not sleep: counts by bucket, as in [the capture](capture-format.md#buckets).";
        latency_sum: U64, "Their sum, in nanoseconds.";
        latency_max: U64, "The largest, in nanoseconds.";
    }
}

/// The columns of the histogram, which those do not read who sum costs.
pub(super) const OF_HISTOGRAM: [&str; 3] = ["latency_hist", "latency_sum", "latency_max"];
