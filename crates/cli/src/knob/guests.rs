//! In which guests parameters are set, from their host.

use haltwise_core::parameter::Parameter;
use haltwise_host::discovery::{self, VmSelector};
use haltwise_host::knob::InGuest;
use haltwise_host::root::Root;

use crate::exit::{Exit, Failure};

/// Each parameter in the guest of each VM that is meant. All must be there.
pub(crate) fn of_vms(
    root: &Root,
    wanted: &[VmSelector],
    parameters: &[(Parameter, u32)],
) -> Result<Vec<(InGuest, u32)>, Failure> {
    let vms = discovery::scan(root)?.vms;
    let mut guests = Vec::new();
    for selector in wanted {
        let vm = selector
            .select(&vms)
            .map_err(|error| Failure::new(Exit::Usage, anyhow::Error::new(error)))?
            .key;
        let of_vm = parameters.iter();
        guests.extend(of_vm.map(|(parameter, value)| {
            let parameter = *parameter;
            (InGuest { vm, parameter }, *value)
        }));
    }
    guests.sort_unstable();
    guests.dedup();
    Ok(guests)
}
