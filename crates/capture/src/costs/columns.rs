//! The columns of a costs table.

use arrow_schema::SchemaRef;

use crate::table::{Column, Kind, documented};

/// All of them, in order.
pub const COLUMNS: &[Column] = &[
    Column::new(
        "host",
        Kind::Text,
        "The host's name; empty where the capture does not keep it.",
    ),
    Column::nullable(
        "date",
        Kind::Text,
        "not known",
        "The day on which the capture began, in UTC: `2026-11-25`.",
    ),
    Column::new(
        "start_unix_ns",
        Kind::U64,
        "When the capture began, since 1970; 0 where that is not known.",
    ),
    Column::new(
        "end_unix_ns",
        Kind::U64,
        "When it ended; as long after `start_unix_ns` as it lasted.",
    ),
    Column::new(
        "kernel",
        Kind::Text,
        "The kernel whose algorithm was replayed, with what it carries of later ones.",
    ),
    Column::new("kernel_release", Kind::Text, "`uname -r` of the host."),
    Column::new(
        "arch",
        Kind::Text,
        "The architecture whose algorithm was replayed: `x86`, `arm64`, …",
    ),
    Column::nullable("cpu_model", Kind::Text, "not known", "The CPU's name."),
    Column::new("cpus", Kind::U32, "CPUs online."),
    Column::new(
        "switch_cpu_ns",
        Kind::U64,
        "CPU time of one sleep and wake-up on this host: the calibration, as a whole number.",
    ),
    Column::new(
        "switch_cpu_source",
        Kind::Text,
        "Where that comes from: `calibrated`, `given`, `assumed`, `bounded`.",
    ),
    Column::nullable(
        "labels",
        Kind::Text,
        "none",
        "What the operator says of the host: `key=value`, by comma, in order of keys.",
    ),
    Column::nullable(
        "vm",
        Kind::Text,
        "halts whose VM is not known",
        "The VM's name.",
    ),
    Column::nullable(
        "vmm",
        Kind::Text,
        "halts whose VM is not known",
        "Its VMM, as in a capture's `vms`.",
    ),
    Column::nullable(
        "domain",
        Kind::Text,
        "none, or not known",
        "As in a capture's `vms`.",
    ),
    Column::nullable(
        "uuid",
        Kind::Text,
        "none, or not known",
        "As in a capture's `vms`.",
    ),
    Column::nullable(
        "vmid",
        Kind::Text,
        "none, or not known",
        "As in a capture's `vms`.",
    ),
    Column::nullable(
        "pod",
        Kind::Text,
        "none, or not known",
        "As in a capture's `vms`.",
    ),
    Column::nullable(
        "pod_uid",
        Kind::Text,
        "none, or not known",
        "As in a capture's `vms`.",
    ),
    Column::nullable(
        "cgroup",
        Kind::Text,
        "none, or not known",
        "As in a capture's `vms`.",
    ),
    Column::new("vcpus", Kind::U32, "Its vCPUs that halted in the capture."),
    Column::nullable(
        "class",
        Kind::Text,
        "none",
        "What the operator calls VMs of this kind (`costs --class`).",
    ),
    Column::nullable(
        "goal",
        Kind::Text,
        "none of its own",
        "Its goal: `density`, `balanced` or `latency` (`costs --goal`).",
    ),
    Column::nullable(
        "own_ceiling_ns",
        Kind::U32,
        "none",
        "The VM's own ceiling (`KVM_CAP_HALT_POLL`), which no module parameter changes.",
    ),
    Column::new("grid", Kind::Text, "The name of the grid of settings."),
    Column::new("kind", Kind::Text, "What the row is of, see below."),
    Column::nullable(
        "halt_poll_ns",
        Kind::U32,
        "`recorded` and bounds",
        "The setting.",
    ),
    Column::nullable(
        "grow",
        Kind::U32,
        "`recorded` and bounds",
        "The setting: `halt_poll_ns_grow`.",
    ),
    Column::nullable(
        "grow_start_ns",
        Kind::U32,
        "`recorded` and bounds",
        "The setting: `halt_poll_ns_grow_start`.",
    ),
    Column::nullable(
        "shrink",
        Kind::U32,
        "`recorded` and bounds",
        "The setting: `halt_poll_ns_shrink`.",
    ),
    Column::new(
        "half",
        Kind::Text,
        "`fit`: the first half of the capture's time, on which settings are chosen; `validate`: the second.",
    ),
    Column::new("halts", Kind::U64, "Halts."),
    Column::new("sleeps", Kind::U64, "Halts that slept."),
    Column::new(
        "failed_polls",
        Kind::U64,
        "Of these, those that had polled.",
    ),
    Column::new("poll_ns", Kind::U64, "Time polled."),
    Column::new("latency_ns", Kind::U64, "Wake-up latency in all."),
    Column::new("halt_ns", Kind::U64, "Time of the halts in all."),
    Column::new(
        "latency_hist",
        Kind::Numbers,
        "Wake-up latency of every 17th halt of each vCPU, 0 for halts that did not sleep: counts by bucket, as in [the capture](capture-format.md#halt_counts).",
    ),
    Column::new("latency_sum", Kind::U64, "Their sum, in nanoseconds."),
    Column::new("latency_max", Kind::U64, "The largest, in nanoseconds."),
];

/// The columns of the histogram, which those do not read who sum costs.
pub(super) const OF_HISTOGRAM: [&str; 3] = ["latency_hist", "latency_sum", "latency_max"];

/// The Arrow schema, with what each column holds.
pub fn schema() -> SchemaRef {
    documented(COLUMNS)
}
