//! Name of a VM: from its VMM's command line, its cgroup, and libvirt's and the kubelet's files.

use haltwise_core::identity::Identity;
use haltwise_core::ids::Pid;

use super::arguments::Arguments;
use super::vmm::Vmm;
use super::{managers, printable};
use crate::root::Root;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Named {
    pub(super) name: Option<String>,
    pub(super) identity: Identity,
}

pub(super) fn of(root: &Root, pid: Pid, vmm: &Vmm, arguments: &Arguments) -> Named {
    let raw = (vmm.name)(arguments);
    let given = raw.as_deref().and_then(printable);
    let cgroup = managers::cgroup(root, pid);
    let of_libvirt = match raw {
        Some(name) if vmm.is_managed => managers::domain(root, pid, &name),
        _ => managers::Domain::default(),
    };
    let number = (vmm.vmid)(arguments).filter(|number| managers::is_vmid(number));
    let vmid = cgroup.vmid.or(number);
    let pod_uid = cgroup.pod_uid;
    let pod = pod_uid.as_deref().and_then(|of| managers::pod(root, of));
    let in_pod = || managers::in_pod(given.as_deref().filter(|_| pod_uid.is_some())?);
    let name = match (&vmid, &given) {
        (Some(vmid), Some(name)) if name != vmid => Some(format!("{vmid} ({name})")),
        (Some(vmid), _) => Some(vmid.clone()),
        (None, _) => of_libvirt
            .instance
            .or_else(in_pod)
            .or_else(|| given.clone()),
    };
    let name = name.and_then(|name| printable(&name));
    let uuid = (vmm.uuid)(arguments).and_then(|uuid| well_formed_uuid(&uuid));
    Named {
        identity: Identity {
            domain: given.filter(|given| name.as_ref() != Some(given)),
            uuid: uuid.or(of_libvirt.uuid),
            vmid,
            pod: pod.and_then(|pod| printable(&pod)),
            pod_uid,
            cgroup: cgroup.path,
        },
        name,
    }
}

pub(super) fn well_formed_uuid(text: &str) -> Option<String> {
    let mut parts = text.split('-').map(|part| {
        let is_hex = part.bytes().all(|c| c.is_ascii_hexdigit());
        is_hex.then_some(part.len())
    });
    let lengths = [8, 4, 4, 4, 12].map(Some);
    let is_it = lengths
        .into_iter()
        .all(|length| parts.next() == Some(length));
    (is_it && parts.next().is_none()).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod test;
