//! `vcpus`: the vCPUs that were seen, as the roster in `capture.json` names them.

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use haltwise_core::event::Vcpu;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};

use crate::columns::{Columns, maybe};
use crate::error::CaptureReadError;
use crate::table::{Column, Kind, Table};
use crate::tables::halts::{ceiling_source_of, ceiling_sources};
use crate::tables::{Row, array};

pub(crate) const COLUMNS: &[Column] = &[
    Column::new("vm", Kind::U32, "Its VM."),
    Column::new("vcpu", Kind::U32, "Its number."),
    Column::new("tid", Kind::U32, "The thread that runs it."),
    Column::nullable(
        "window_ns",
        Kind::U32,
        "not readable",
        "Window when last looked at.",
    ),
    Column::nullable(
        "ceiling_ns",
        Kind::U32,
        "not readable",
        "Ceiling when last looked at.",
    ),
    Column::new("ceiling_source", Kind::Name, "Who set it, as in `halts`."),
    Column::nullable(
        "guest_veto",
        Kind::Bool,
        "not readable",
        "The guest switched host polling off (x86 `MSR_KVM_POLL_CONTROL`, bit 0 clear).",
    ),
];

impl Row for Vcpu {
    const TABLE: Table = Table::Vcpus;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let u32s = |of: fn(&Self) -> u32| array(UInt32Array::from_iter_values(rows.iter().map(of)));
        let maybe_u32s =
            |of: fn(&Self) -> Option<u32>| array(rows.iter().map(of).collect::<UInt32Array>());
        let guest_veto: BooleanArray = rows.iter().map(|v| v.guest_veto).collect();
        vec![
            u32s(|v| v.vm.0),
            u32s(|v| v.id.0),
            u32s(|v| v.tid.0),
            maybe_u32s(|v| v.window_ns),
            maybe_u32s(|v| v.ceiling_ns),
            ceiling_sources(rows.iter().map(|v| v.ceiling_source)),
            array(guest_veto),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let vm = columns.u32s("vm")?;
        let id = columns.u32s("vcpu")?;
        let tid = columns.u32s("tid")?;
        let window_ns = columns.maybe_u32s("window_ns")?;
        let ceiling_ns = columns.maybe_u32s("ceiling_ns")?;
        let ceiling_source = columns.names("ceiling_source", ceiling_source_of)?;
        let guest_veto = columns.maybe_bools("guest_veto")?;
        let vcpu = |row| Self {
            vm: VmIndex(vm[row]),
            id: VcpuId(id[row]),
            tid: Tid(tid[row]),
            window_ns: maybe(window_ns, row),
            ceiling_ns: maybe(ceiling_ns, row),
            ceiling_source: ceiling_source[row],
            guest_veto: guest_veto.is_valid(row).then(|| guest_veto.value(row)),
        };
        Ok((0..columns.len()).map(vcpu).collect())
    }
}
