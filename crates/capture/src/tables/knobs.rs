//! `knobs`: settings in force, when first read and whenever they change.

use arrow_array::ArrayRef;
use haltwise_core::event::{Knob, KnobScope};

use crate::cells::{Cell, computed};
use crate::columns::{Columns, name_array};
use crate::error::CaptureReadError;
use crate::table::Table;
use crate::tables::Row;

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
        let scopes = rows.iter().map(|row| match row.scope {
            KnobScope::Host => 0,
            KnobScope::GuestOfOther => 1,
            KnobScope::Vm(_) => 2,
        });
        vec![
            computed(rows, |row| row.time_ns),
            Cell::array(rows.iter().map(|row| &row.name)),
            name_array(&SCOPES, scopes),
            computed(rows, |row| match row.scope {
                KnobScope::Vm(vm) => Some(vm),
                KnobScope::Host | KnobScope::GuestOfOther => None,
            }),
            Cell::array(rows.iter().map(|row| &row.value)),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.reader("time_ns")?;
        let name = columns.reader("name")?;
        let scope = columns.names("scope", |name| SCOPES.iter().position(|s| *s == name))?;
        let vm = columns.reader("vm")?;
        let value = columns.reader("value")?;
        let scope_of = |row: usize| match (scope[row], vm.at(row)) {
            (0, _) => Ok(KnobScope::Host),
            (1, _) => Ok(KnobScope::GuestOfOther),
            (_, Some(vm)) => Ok(KnobScope::Vm(vm)),
            (_, None) => Err(columns.bad_value("vm", row, "NULL in the scope `vm`".to_owned())),
        };
        let knob = |row| {
            Ok(Self {
                time_ns: time_ns.at(row),
                name: name.at(row),
                scope: scope_of(row)?,
                value: value.at(row),
            })
        };
        (0..columns.len()).map(knob).collect()
    }
}
