//! Information about a VM in the cgroup of its VMM.
//!
//! | manager | cgroup |
//! |---|---|
//! | libvirt under systemd | `/machine.slice/machine-qemu\x2d3\x2dweb.scope/libvirt/emulator` |
//! | Proxmox VE | `/qemu.slice/104.scope` |
//! | Kubernetes, systemd driver | `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope` |
//! | Kubernetes, cgroupfs driver | `/kubepods/burstable/podUID/ID` |
//!
//! A process that may write to its cgroup's parent may choose these names: they are names and nothing else.

use haltwise_core::ids::Pid;

use super::identity::well_formed_uuid;
use super::name::printable_within;
use crate::root::Root;

/// Longest path kept: three slices of Kubernetes and the 64 digits of a container's scope have room.
const LONGEST: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cgroup {
    pub(super) path: Option<String>,
    pub(super) vmid: Option<String>,
    pub(super) pod_uid: Option<String>,
}

/// That of a process; nothing where it is the hierarchy's root, or cannot be read.
pub(super) fn of(root: &Root, pid: Pid) -> Cgroup {
    let text = root.text(format!("proc/{pid}/cgroup")).unwrap_or_default();
    path(&text).map(read).unwrap_or_default()
}

/// The path in the unified hierarchy, else in systemd's own of version 1.
fn path(text: &str) -> Option<&str> {
    let in_hierarchy = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let named = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let of_systemd = || {
        let mut named = named;
        named.find_map(|(name, path)| (name == "name=systemd").then_some(path))
    };
    in_hierarchy("0::")
        .filter(|path| *path != "/")
        .or_else(of_systemd)
        .filter(|path| path.len() > 1)
}

fn read(path: &str) -> Cgroup {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    // Kubernetes may itself run in a container (kind), or below a root of its own (`--cgroup-root`).
    let is_kubernetes = parts.iter().any(|part| part.contains("kubepods"));
    let is_scope = |part: &&str| part.strip_suffix(".scope").is_some();
    let scope = if is_kubernetes {
        parts.iter().rposition(is_scope)
    } else {
        parts.iter().position(is_scope)
    };
    let kept = &parts[..scope.map_or(parts.len(), |at| at + 1)];
    let vmid = kept.windows(2).find_map(|pair| {
        let number = pair[1].strip_suffix(".scope")?;
        (pair[0] == "qemu.slice" && is_vmid(number)).then(|| number.to_owned())
    });
    let pod_uid = kept
        .iter()
        .filter(|_| is_kubernetes)
        .find_map(|part| pod(part));
    Cgroup {
        path: printable_within(&format!("/{}", kept.join("/")), LONGEST),
        vmid,
        pod_uid,
    }
}

/// `kubepods-burstable-podUID.slice`, in which systemd wants `_` for `-`, or `podUID`.
fn pod(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let (_, uid) = part.rsplit_once("pod")?;
    well_formed_uuid(&uid.replace('_', "-"))
}

/// Proxmox VE numbers VMs from 100 to 999999999.
pub(super) fn is_vmid(text: &str) -> bool {
    (3..=9).contains(&text.len())
        && !text.starts_with('0')
        && text.bytes().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod test {
    use super::*;

    const POD: &str = "0d9c8b7a-6f5e-4d3c-8b2a-190807060504";

    fn of_text(text: &str) -> Cgroup {
        path(text).map(read).unwrap_or_default()
    }

    /// The usual forms of each manager are in the test of `identity`.
    #[test]
    fn each_manager_names_its_cgroup() {
        let container = "3f".repeat(32);
        let in_kind = format!(
            "0::/system.slice/docker-{container}.scope/kubelet.slice/kubelet-kubepods.slice/\
             kubelet-kubepods-pod{}.slice/cri-containerd-{container}.scope\n",
            POD.replace('-', "_")
        );
        let kind_path = in_kind.trim_start_matches("0::").trim();
        let kind_path = printable_within(kind_path, LONGEST).unwrap();
        let cgroupfs = format!("0::/kubepods/besteffort/pod{POD}/{container}\n");
        for (text, path, vmid, pod) in [
            (
                "12:cpuset:/machine.slice/x\n1:name=systemd:/machine.slice/machine-qemu\\x2d7\\x2da.scope\n",
                r"/machine.slice/machine-qemu\x2d7\x2da.scope",
                None,
                None,
            ),
            (
                "1:name=systemd:/qemu.slice/2001.scope\n0::/\n",
                "/qemu.slice/2001.scope",
                Some("2001"),
                None,
            ),
            (
                "0::/user.slice/user-1000.slice/session-2.scope\n",
                "/user.slice/user-1000.slice/session-2.scope",
                None,
                None,
            ),
            (&in_kind, &kind_path, None, Some(POD)),
            (
                &cgroupfs,
                cgroupfs.trim_start_matches("0::").trim(),
                None,
                Some(POD),
            ),
        ] {
            let cgroup = of_text(text);
            assert_eq!(cgroup.path.as_deref(), Some(path));
            assert_eq!(
                (cgroup.vmid.as_deref(), cgroup.pod_uid.as_deref()),
                (vmid, pod),
                "{text}"
            );
        }
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in [
            "",
            "0::/\n",
            "0::\n",
            "nonsense",
            "1:cpu:/qemu.slice/104.scope\n",
        ] {
            assert_eq!(of_text(text), Cgroup::default(), "{text:?}");
        }
        for text in [
            "0::/qemu.slice/web.scope\n",
            "0::/qemu.slice/007.scope\n",
            "0::/qemu.slice/9999999999.scope\n",
            "0::/user.slice/104.scope\n",
            "0::/kubepods/podnonsense/x\n",
            "0::/user.slice/pod0d9c8b7a-6f5e-4d3c-8b2a-190807060504/x\n",
        ] {
            let cgroup = of_text(text);
            assert_eq!((cgroup.vmid, cgroup.pod_uid), (None, None), "{text:?}");
        }
        let long = of_text(&format!("0::/\x1b[2J{}\n", "x".repeat(100_000)));
        let path = long.path.unwrap();
        assert_eq!(path.chars().count(), LONGEST);
        assert!(!path.contains('\x1b'));
    }
}
