//! Names of a VM: those given by its VMM, by its management software, and by the kernel.
//!
//! Its [`crate::event::Vm::name`] is the one name that tables show: what its operator types. That is libvirt's
//! domain, OpenStack's display name, `NAMESPACE/NAME` of KubeVirt, `VMID (NAME)` of Proxmox VE. All others are
//! here, and each of them says which VM is meant, too.

use serde::{Deserialize, Serialize};

use crate::event::Vm;

/// Names of a VM besides its main name. `None` where the VM has no such name, or the name is not known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The name that its VMM was given, where its operator knows it by another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its UUID, in lower case; that of an OpenStack instance is the instance's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Proxmox VE's number of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vmid: Option<String>,
    /// KubeVirt's pod: the name, where the host's logs of pods tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The UID of its pod, which its cgroup tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The cgroup of its VMM, from the root of the hierarchy to the scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

impl Identity {
    pub const KINDS: usize = 6;

    /// Each kind of name, as captures call it, and the name.
    pub fn names(&self) -> [(&'static str, Option<&str>); Self::KINDS] {
        [
            ("domain", self.domain.as_deref()),
            ("uuid", self.uuid.as_deref()),
            ("vmid", self.vmid.as_deref()),
            ("pod", self.pod.as_deref()),
            ("pod_uid", self.pod_uid.as_deref()),
            ("cgroup", self.cgroup.as_deref()),
        ]
    }

    /// The inverse of [`Identity::names`], in its order.
    pub fn from_names(
        [domain, uuid, vmid, pod, pod_uid, cgroup]: [Option<String>; Self::KINDS],
    ) -> Self {
        Self {
            domain,
            uuid,
            vmid,
            pod,
            pod_uid,
            cgroup,
        }
    }

    #[must_use]
    pub fn known(&self) -> Option<Self> {
        (!self.is_empty()).then(|| self.clone())
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether one of its names is `text`; of a cgroup the last part is enough.
    pub fn has(&self, text: &str) -> bool {
        let mut names = self.names().into_iter().filter_map(|(_, name)| name);
        let last = self.cgroup.as_deref().and_then(|it| it.rsplit('/').next());
        let is_uuid = |uuid: &str| uuid.eq_ignore_ascii_case(text);
        !text.is_empty()
            && (names.any(|name| name == text)
                || last == Some(text)
                || self.uuid.as_deref().is_some_and(is_uuid)
                || self.pod_uid.as_deref().is_some_and(is_uuid))
    }
}

impl Vm {
    /// Leaves nothing of its VMM's command line, cgroup and manager but the name that its VMM was given.
    pub fn forget_command(&mut self) {
        self.machine = None;
        if let Some(domain) = std::mem::take(&mut self.identity).domain {
            self.name = domain;
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn known() -> Identity {
        Identity {
            domain: Some("instance-00000a1b".into()),
            uuid: Some("6f1d2c3a-0b4e-4c5d-8e7f-a1b2c3d4e5f6".into()),
            vmid: Some("104".into()),
            pod: Some("virt-launcher-web-x7k2p".into()),
            pod_uid: Some("0d9c8b7a-6f5e-4d3c-8b2a-190807060504".into()),
            cgroup: Some(r"/machine.slice/machine-qemu\x2d3\x2dweb.scope".into()),
        }
    }

    #[test]
    fn every_name_says_which_vm_is_meant() {
        let known = known();
        let names = known.names();
        for name in names.into_iter().filter_map(|(_, name)| name) {
            assert!(known.has(name), "{name}");
            assert!(!known.has(&name[1..]), "{name}");
        }
        assert!(known.has("6F1D2C3A-0B4E-4C5D-8E7F-A1B2C3D4E5F6"));
        assert!(known.has(r"machine-qemu\x2d3\x2dweb.scope"));
        assert!(!known.has("") && !Identity::default().has(""));
    }

    #[test]
    fn names_come_back_and_nothing_is_written_of_nothing() {
        let known = known();
        let names = known.names().map(|(_, name)| name.map(str::to_owned));
        assert_eq!(Identity::from_names(names), known);
        let text = serde_json::to_string(&Vm::default()).unwrap();
        assert!(!text.contains("identity"), "{text}");
        let text = serde_json::to_string(&known).unwrap();
        let back: Identity = serde_json::from_str(&text).unwrap();
        assert_eq!(back, known);
    }

    #[test]
    fn what_is_forgotten_is_gone() {
        let mut vm = Vm {
            name: "shop".into(),
            identity: known(),
            machine: Some(crate::vmm::Machine::default()),
            ..Vm::default()
        };
        vm.forget_command();
        assert_eq!(vm.name, "instance-00000a1b");
        assert!(vm.identity.is_empty() && vm.machine.is_none());
    }
}
