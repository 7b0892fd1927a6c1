//! `vms`: the VMs that were seen, as the roster in `capture.json` names them.

use arrow_array::{Array, ArrayRef, BooleanArray, StringArray, UInt32Array, UInt64Array};
use haltwise_core::event::{Observable, Paused, Vm};
use haltwise_core::ids::{Pid, VmIndex, VmKey, VmmKind};

use crate::columns::Columns;
use crate::error::CaptureReadError;
use crate::table::{Column, Kind, Table};
use crate::tables::{Row, array};

/// The columns.
pub(crate) const COLUMNS: &[Column] = &[
    Column::new("vm", Kind::U32, "The number that `vm` columns hold."),
    Column::new(
        "name",
        Kind::Text,
        "What its VMM calls it; else the process's name and number.",
    ),
    Column::new(
        "vmm",
        Kind::Text,
        "`qemu`, `crosvm`, `firecracker`, `cloud-hypervisor`, `haltwise-lab`, `other`.",
    ),
    Column::new(
        "pid",
        Kind::U32,
        "The VMM's process, in the root PID namespace.",
    ),
    Column::new(
        "start_ticks",
        Kind::U64,
        "Start of that process since boot (field 22 of `/proc/PID/stat`); distinguishes it from later \
         ones with the same number.",
    ),
    Column::new(
        "ordinal",
        Kind::U32,
        "0 for the first VM of the process, 1 for its second, and so on.",
    ),
    Column::new("observable", Kind::Bool, "Whether its halts can be seen."),
    Column::nullable(
        "unobservable_reason",
        Kind::Text,
        "observable",
        "Why they cannot.",
    ),
    Column::nullable(
        "from_ns",
        Kind::U64,
        "it was there when the recording began",
        "When it came. Older captures lack it.",
    ),
    Column::nullable(
        "to_ns",
        Kind::U64,
        "it was there when the recording ended",
        "When it was gone. Older captures lack it.",
    ),
    Column::nullable(
        "paused_ns",
        Kind::U64,
        "not known",
        "How long none of its vCPUs was in `KVM_RUN`, in pauses that were over when the recording ended. Older captures lack it.",
    ),
    Column::nullable(
        "paused_from_ns",
        Kind::U64,
        "not paused, or not known",
        "Since when none was, if that lasted until the recording ended. Older captures lack it.",
    ),
];

impl Row for Vm {
    const TABLE: Table = Table::Vms;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let u32s = |of: fn(&Self) -> u32| array(UInt32Array::from_iter_values(rows.iter().map(of)));
        let maybe_u64s =
            |of: fn(&Self) -> Option<u64>| array(rows.iter().map(of).collect::<UInt64Array>());
        let observable = rows.iter().map(|vm| Some(vm.observable == Observable::Yes));
        let reason = rows.iter().map(|vm| match &vm.observable {
            Observable::Yes => None,
            Observable::No(reason) => Some(reason),
        });
        vec![
            u32s(|vm| vm.index.0),
            array(StringArray::from_iter_values(
                rows.iter().map(|vm| &vm.name),
            )),
            array(StringArray::from_iter_values(
                rows.iter().map(|vm| vm.vmm.as_str()),
            )),
            u32s(|vm| vm.key.pid.0),
            array(UInt64Array::from_iter_values(
                rows.iter().map(|vm| vm.key.start_ticks),
            )),
            u32s(|vm| vm.key.ordinal),
            array(observable.collect::<BooleanArray>()),
            array(reason.collect::<StringArray>()),
            maybe_u64s(|vm| vm.from_ns),
            maybe_u64s(|vm| vm.to_ns),
            maybe_u64s(|vm| Some(vm.paused?.over_ns)),
            maybe_u64s(|vm| vm.paused?.from_ns),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let index = columns.u32s("vm")?;
        let name = columns.texts("name")?;
        let vmm = columns.texts("vmm")?;
        let pid = columns.u32s("pid")?;
        let start_ticks = columns.u64s("start_ticks")?;
        let ordinal = columns.u32s("ordinal")?;
        let observable = columns.bools("observable")?;
        let reason = columns.maybe_texts("unobservable_reason")?;
        let (from_ns, to_ns) = (columns.later_u64s("from_ns")?, columns.later_u64s("to_ns")?);
        let over_ns = columns.later_u64s("paused_ns")?;
        let paused_from_ns = columns.later_u64s("paused_from_ns")?;
        let at = |array: Option<&UInt64Array>, row: usize| {
            let array = array.filter(|array| array.is_valid(row))?;
            Some(array.value(row))
        };
        let vm = |row: usize| Self {
            index: VmIndex(index[row]),
            key: VmKey {
                pid: Pid(pid[row]),
                start_ticks: start_ticks[row],
                ordinal: ordinal[row],
            },
            name: name.value(row).to_owned(),
            vmm: VmmKind::from_name(vmm.value(row)),
            observable: if observable.value(row) {
                Observable::Yes
            } else {
                let known = reason.is_valid(row).then(|| reason.value(row));
                Observable::No(known.unwrap_or_default().to_owned())
            },
            from_ns: at(from_ns, row),
            to_ns: at(to_ns, row),
            paused: at(over_ns, row).map(|over_ns| Paused {
                over_ns,
                from_ns: at(paused_from_ns, row),
            }),
        };
        Ok((0..columns.len()).map(vm).collect())
    }
}
