//! `knobs`: settings in force, when first read and whenever they change.

use arrow_array::ArrayRef;
use haltwise_core::event::{Knob, KnobScope};
use haltwise_core::ids::VmIndex;

use crate::cells::{Cell, Field, computed};
use crate::columns::{Columns, name_array};
use crate::error::CaptureReadError;

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

row! {
    Knob of Knobs, COLUMNS { time_ns, name, scope, value }
}

impl Field for KnobScope {
    fn arrays<'a>(cells: impl Iterator<Item = &'a Self> + Clone, to: &mut Vec<ArrayRef>) {
        let scopes = cells.clone().map(|scope| match scope {
            Self::Host => 0,
            Self::GuestOfOther => 1,
            Self::Vm(_) => 2,
        });
        to.push(name_array(&SCOPES, scopes));
        to.push(computed(cells, |scope| match scope {
            Self::Vm(vm) => Some(*vm),
            Self::Host | Self::GuestOfOther => None,
        }));
    }

    fn read(columns: &Columns<'_>, _: &str) -> Result<Vec<Self>, CaptureReadError> {
        let scopes = columns.names("scope", |name| SCOPES.iter().position(|s| *s == name))?;
        let vms = Cell::read(columns, "vm")?;
        let scope = |(row, (scope, vm)): (usize, (usize, Option<VmIndex>))| match (scope, vm) {
            (0, _) => Ok(Self::Host),
            (1, _) => Ok(Self::GuestOfOther),
            (_, Some(vm)) => Ok(Self::Vm(vm)),
            (_, None) => Err(columns.bad_value("vm", row, "NULL in the scope `vm`")),
        };
        let scopes = scopes.into_iter().zip(vms).enumerate();
        scopes.map(scope).collect()
    }
}
