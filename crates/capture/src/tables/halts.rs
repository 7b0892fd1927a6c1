//! `halts`: one row for each halt.

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array, UInt64Array};
use haltwise_core::event::{CeilingSource, Halt, WakeSource, WindowCall};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use crate::columns::{Columns, maybe, name_array};
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::{Column, Kind, Table};
use crate::tables::{Row, array};

pub(crate) const COLUMNS: &[Column] = &[
    Column::new(
        "start_ns",
        Kind::U64,
        "When the halt began: its end less `halt_ns`.",
    ),
    Column::new(
        "halt_ns",
        Kind::U64,
        "KVM's measure of the whole halt, polling and wake-up latency included (`kvm_vcpu_wakeup.ns`).",
    ),
    Column::nullable("vm", Kind::U32, "thread not placed", "The VM."),
    Column::nullable("vcpu", Kind::U32, "thread not placed", "The vCPU."),
    Column::new(
        "tid",
        Kind::U32,
        "The thread that ran the vCPU, in the root PID namespace.",
    ),
    Column::new(
        "waited",
        Kind::Bool,
        "The vCPU was really scheduled out (`kvm_vcpu_wakeup.waited`).",
    ),
    Column::new(
        "valid",
        Kind::Bool,
        "KVM counted the wake-up as valid (`kvm_vcpu_wakeup.valid`); false on s390 only.",
    ),
    Column::nullable(
        "window_ns",
        Kind::U32,
        "not readable",
        "Polling window in force at entry, clamped to the ceiling as KVM does.",
    ),
    Column::nullable(
        "window_next_ns",
        Kind::U32,
        "not readable",
        "Polling window that the rule left behind.",
    ),
    Column::nullable("ceiling_ns", Kind::U32, "not readable", "Ceiling in force."),
    Column::new(
        "ceiling_source",
        Kind::Name,
        "Who set the ceiling: `param` (module parameter), `cap` (`KVM_CAP_HALT_POLL` of this VM), `snapshot` (taken when the VM was made, Linux 5.8 to 6.0), `unknown`.",
    ),
    Column::new(
        "change",
        Kind::Name,
        "Which rule KVM called for this halt: `none`, `grow`, `shrink`.",
    ),
    Column::nullable(
        "poll_ns",
        Kind::U64,
        "not known",
        "Time polled, as KVM booked it; 0 where the vCPU was not allowed to poll. Where `poll_cut` and `polled` are NULL and the vCPU slept, the longest that the poll can have taken.",
    ),
    Column::nullable(
        "polled",
        Kind::Bool,
        "not read",
        "KVM counted an attempted poll (`halt_attempted_poll`). A poll that is met at its first look takes 0 ns; a guest that disabled host polling does not poll whatever its window. Older captures lack it.",
    ),
    Column::nullable(
        "wake_latency_ns",
        Kind::U64,
        "not known",
        "From the wake event until KVM had the vCPU running again; 0 if it did not wait.",
    ),
    Column::new(
        "wake",
        Kind::Name,
        "What ended the halt: `timer`, `ipi`, `device`, `other`, `unknown`.",
    ),
    Column::nullable(
        "poll_cut",
        Kind::Bool,
        "not known",
        "Polling stopped because another task wanted the CPU (`kvm_vcpu_can_poll`).",
    ),
];

impl Row for Halt {
    const TABLE: Table = Table::Halts;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let u64s = |of: fn(&Self) -> u64| array(UInt64Array::from_iter_values(rows.iter().map(of)));
        let maybe_u64s =
            |of: fn(&Self) -> Option<u64>| array(rows.iter().map(of).collect::<UInt64Array>());
        let maybe_u32s =
            |of: fn(&Self) -> Option<u32>| array(rows.iter().map(of).collect::<UInt32Array>());
        let maybe_bools =
            |of: fn(&Self) -> Option<bool>| array(rows.iter().map(of).collect::<BooleanArray>());
        let bools = |of: fn(&Self) -> bool| {
            array(rows.iter().map(|h| Some(of(h))).collect::<BooleanArray>())
        };
        vec![
            u64s(|h| h.start_ns),
            u64s(|h| h.halt_ns),
            maybe_u32s(|h| h.vm.map(|vm| vm.0)),
            maybe_u32s(|h| h.vcpu.map(|vcpu| vcpu.0)),
            array(UInt32Array::from_iter_values(rows.iter().map(|h| h.tid.0))),
            bools(|h| h.waited),
            bools(|h| h.valid),
            maybe_u32s(|h| h.window_ns),
            maybe_u32s(|h| h.window_next_ns),
            maybe_u32s(|h| h.ceiling_ns),
            ceiling_sources(rows.iter().map(|h| h.ceiling_source)),
            name_array(
                &WindowCall::ALL.map(WindowCall::as_str),
                rows.iter().map(|h| window_call_place(h.change)),
            ),
            maybe_u64s(|h| h.poll_ns),
            maybe_bools(|h| h.polled),
            maybe_u64s(|h| h.wake_latency_ns),
            name_array(
                &WakeSource::ALL.map(WakeSource::as_str),
                rows.iter().map(|h| h.wake.code()),
            ),
            maybe_bools(|h| h.poll_cut),
        ]
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.halts(rows)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let start_ns = columns.u64s("start_ns")?;
        let halt_ns = columns.u64s("halt_ns")?;
        let vm = columns.maybe_u32s("vm")?;
        let vcpu = columns.maybe_u32s("vcpu")?;
        let tid = columns.u32s("tid")?;
        let waited = columns.bools("waited")?;
        let valid = columns.bools("valid")?;
        let window_ns = columns.maybe_u32s("window_ns")?;
        let window_next_ns = columns.maybe_u32s("window_next_ns")?;
        let ceiling_ns = columns.maybe_u32s("ceiling_ns")?;
        let ceiling_source = columns.names("ceiling_source", ceiling_source_of)?;
        let change = columns.names("change", |name| {
            WindowCall::ALL.into_iter().find(|c| c.as_str() == name)
        })?;
        let poll_ns = columns.maybe_u64s("poll_ns")?;
        let polled = columns.later_bools("polled")?;
        let wake_latency_ns = columns.maybe_u64s("wake_latency_ns")?;
        let wake = columns.names("wake", |name| {
            WakeSource::ALL.into_iter().find(|w| w.as_str() == name)
        })?;
        let poll_cut = columns.maybe_bools("poll_cut")?;
        let truth = |column: &BooleanArray, row| column.is_valid(row).then(|| column.value(row));
        let halt = |row| Self {
            start_ns: start_ns[row],
            halt_ns: halt_ns[row],
            vm: maybe(vm, row).map(VmIndex),
            vcpu: maybe(vcpu, row).map(VcpuId),
            tid: Tid(tid[row]),
            waited: waited.value(row),
            valid: valid.value(row),
            window_ns: maybe(window_ns, row),
            window_next_ns: maybe(window_next_ns, row),
            ceiling_ns: maybe(ceiling_ns, row),
            ceiling_source: ceiling_source[row],
            change: change[row],
            poll_ns: maybe(poll_ns, row),
            polled: polled.and_then(|polled| truth(polled, row)),
            wake_latency_ns: maybe(wake_latency_ns, row),
            wake: wake[row],
            poll_cut: truth(poll_cut, row),
        };
        Ok((0..columns.len()).map(halt).collect())
    }
}

fn window_call_place(call: WindowCall) -> u8 {
    match call {
        WindowCall::None => 0,
        WindowCall::Grow => 1,
        WindowCall::Shrink => 2,
    }
}

/// A column of [`CeilingSource`]; vCPUs have one too.
pub(crate) fn ceiling_sources(sources: impl Iterator<Item = CeilingSource>) -> ArrayRef {
    name_array(
        &CeilingSource::ALL.map(CeilingSource::as_str),
        sources.map(CeilingSource::code),
    )
}

pub(crate) fn ceiling_source_of(name: &str) -> Option<CeilingSource> {
    CeilingSource::ALL.into_iter().find(|s| s.as_str() == name)
}
