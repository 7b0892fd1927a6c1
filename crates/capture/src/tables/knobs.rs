//! `knobs`: settings in force, when first read and whenever they change.

use arrow_array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use haltwise_core::event::{Knob, KnobScope};
use haltwise_core::ids::VmIndex;

use crate::columns::{Columns, maybe, name_array};
use crate::error::CaptureReadError;
use crate::table::Table;
use crate::tables::{Row, array};

columns! {
    pub(crate) COLUMNS {
        time_ns: U64, "When it had this value.";
        name: Text, "KVM's or the governor's name for it, for example `halt_poll_ns`.";
        scope: Name,
            "What it applies to: `host` (module `kvm`), `guest-of-other` (module `haltpoll`: this machine \
         as a guest), `vm` (one VM).";
        vm: U32, null "scope is not `vm`", "The VM.";
        value: Text, "Its value as the kernel prints it.";
    }
}

const SCOPES: [&str; 3] = ["host", "guest-of-other", "vm"];

impl Row for Knob {
    const TABLE: Table = Table::Knobs;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let vms = rows.iter().map(|k| match k.scope {
            KnobScope::Vm(vm) => Some(vm.0),
            KnobScope::Host | KnobScope::GuestOfOther => None,
        });
        let scopes = rows.iter().map(|k| match k.scope {
            KnobScope::Host => 0,
            KnobScope::GuestOfOther => 1,
            KnobScope::Vm(_) => 2,
        });
        vec![
            array(UInt64Array::from_iter_values(
                rows.iter().map(|k| k.time_ns),
            )),
            array(StringArray::from_iter_values(rows.iter().map(|k| &k.name))),
            name_array(&SCOPES, scopes),
            array(vms.collect::<UInt32Array>()),
            array(StringArray::from_iter_values(rows.iter().map(|k| &k.value))),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.u64s("time_ns")?;
        let name = columns.texts("name")?;
        let scope = columns.names("scope", |name| SCOPES.iter().position(|s| *s == name))?;
        let vm = columns.maybe_u32s("vm")?;
        let value = columns.texts("value")?;
        let scope_of = |row: usize| match (scope[row], maybe(vm, row)) {
            (0, _) => Ok(KnobScope::Host),
            (1, _) => Ok(KnobScope::GuestOfOther),
            (_, Some(vm)) => Ok(KnobScope::Vm(VmIndex(vm))),
            (_, None) => Err(columns.bad_value("vm", row, "NULL in the scope `vm`".to_owned())),
        };
        let knob = |row| {
            Ok(Self {
                time_ns: time_ns[row],
                name: name.value(row).to_owned(),
                scope: scope_of(row)?,
                value: value.value(row).to_owned(),
            })
        };
        (0..columns.len()).map(knob).collect()
    }
}
