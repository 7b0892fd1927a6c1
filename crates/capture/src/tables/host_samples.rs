//! `host_samples`: the host's own state, once per flush.

use arrow_array::{ArrayRef, UInt32Array, UInt64Array};
use haltwise_core::event::HostSample;

use crate::columns::{Columns, maybe};
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::{Column, Kind, Table};
use crate::tables::{Row, array};

pub(crate) const COLUMNS: &[Column] = &[
    Column::new("time_ns", Kind::U64, "When."),
    Column::new("cpus", Kind::U32, "CPUs online."),
    Column::new(
        "busy_ns",
        Kind::U64,
        "CPU time of all CPUs that was not idle, since boot.",
    ),
    Column::new("total_ns", Kind::U64, "CPU time of all CPUs, since boot."),
    Column::nullable(
        "cpu_pressure_ns",
        Kind::U64,
        "no pressure stall information",
        "Time in which some task waited for a CPU, since boot.",
    ),
    Column::new(
        "recorder_cpu_ns",
        Kind::U64,
        "CPU time that the recorder itself has used since it started.",
    ),
    Column::nullable(
        "bpf_cpu_ns",
        Kind::U64,
        "not accounted",
        "CPU time of the recorder's BPF programs.",
    ),
    Column::new(
        "recorder_rss_bytes",
        Kind::U64,
        "Resident memory of the recorder.",
    ),
    Column::nullable(
        "steal_ns",
        Kind::U64,
        "not accounted, or recorded before this column",
        "CPU time of all CPUs in which a hypervisor ran something else while they had work, since boot; part of `busy_ns`.",
    ),
    Column::nullable(
        "idle_ns",
        Kind::U64,
        "no cpuidle, not looked at in this row, or recorded before this column",
        "Time that CPUs stood still, all of them together, since boot: all states of cpuidle but `POLL`. Looked at every \
         10 s, at the beginning and at the end.",
    ),
    Column::nullable(
        "package_uj",
        Kind::U64,
        "no RAPL, not looked at in this row, or recorded before this column",
        "Energy that CPU packages used since the recording began, in microjoules.",
    ),
    Column::nullable(
        "cycles",
        Kind::U64,
        "no PMU or not permitted, not looked at in this row, or recorded before this column",
        "Cycles that CPUs ran since the recording began, all of them together (perf's `cycles`, which stand still with the \
         CPU). Looked at like `idle_ns`.",
    ),
    Column::nullable(
        "instructions",
        Kind::U64,
        "the same",
        "Instructions that CPUs retired since the recording began.",
    ),
];

impl Row for HostSample {
    const TABLE: Table = Table::HostSamples;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let u64s = |of: fn(&Self) -> u64| array(UInt64Array::from_iter_values(rows.iter().map(of)));
        let maybe_u64s =
            |of: fn(&Self) -> Option<u64>| array(rows.iter().map(of).collect::<UInt64Array>());
        vec![
            u64s(|s| s.time_ns),
            array(UInt32Array::from_iter_values(rows.iter().map(|s| s.cpus))),
            u64s(|s| s.busy_ns),
            u64s(|s| s.total_ns),
            maybe_u64s(|s| s.cpu_pressure_ns),
            u64s(|s| s.recorder_cpu_ns),
            maybe_u64s(|s| s.bpf_cpu_ns),
            u64s(|s| s.recorder_rss_bytes),
            maybe_u64s(|s| s.steal_ns),
            maybe_u64s(|s| s.idle_ns),
            maybe_u64s(|s| s.package_uj),
            maybe_u64s(|s| s.cycles),
            maybe_u64s(|s| s.instructions),
        ]
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::host_sample)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.u64s("time_ns")?;
        let cpus = columns.u32s("cpus")?;
        let busy_ns = columns.u64s("busy_ns")?;
        let total_ns = columns.u64s("total_ns")?;
        let cpu_pressure_ns = columns.maybe_u64s("cpu_pressure_ns")?;
        let recorder_cpu_ns = columns.u64s("recorder_cpu_ns")?;
        let bpf_cpu_ns = columns.maybe_u64s("bpf_cpu_ns")?;
        let recorder_rss_bytes = columns.u64s("recorder_rss_bytes")?;
        let steal_ns = columns.later_u64s("steal_ns")?;
        let idle_ns = columns.later_u64s("idle_ns")?;
        let package_uj = columns.later_u64s("package_uj")?;
        let cycles = columns.later_u64s("cycles")?;
        let instructions = columns.later_u64s("instructions")?;
        let sample = |row| Self {
            time_ns: time_ns[row],
            cpus: cpus[row],
            busy_ns: busy_ns[row],
            total_ns: total_ns[row],
            cpu_pressure_ns: maybe(cpu_pressure_ns, row),
            recorder_cpu_ns: recorder_cpu_ns[row],
            bpf_cpu_ns: maybe(bpf_cpu_ns, row),
            recorder_rss_bytes: recorder_rss_bytes[row],
            steal_ns: steal_ns.and_then(|column| maybe(column, row)),
            idle_ns: idle_ns.and_then(|column| maybe(column, row)),
            package_uj: package_uj.and_then(|column| maybe(column, row)),
            cycles: cycles.and_then(|column| maybe(column, row)),
            instructions: instructions.and_then(|column| maybe(column, row)),
        };
        Ok((0..columns.len()).map(sample).collect())
    }
}
