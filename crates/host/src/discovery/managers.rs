//! Information about a VM that its manager keeps: in the cgroup of its VMM, and in files of libvirt and the kubelet, read
//! and never written.
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
use roxmltree::Document;

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

pub(super) fn cgroup(root: &Root, pid: Pid) -> Cgroup {
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
        .find_map(|part| pod_uid(part));
    Cgroup {
        path: printable_within(&format!("/{}", kept.join("/")), LONGEST),
        vmid,
        pod_uid,
    }
}

/// `kubepods-burstable-podUID.slice`, in which systemd wants `_` for `-`, or `podUID`.
fn pod_uid(part: &str) -> Option<String> {
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

const DOMAINS: &str = "run/libvirt/qemu";

/// A longer file is not libvirt's: a domain of a hundred disks has 200 kB.
const LONGEST_STATUS: u64 = 2 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Domain {
    pub(super) uuid: Option<String>,
    pub(super) instance: Option<String>,
}

/// The domain `name` that this process runs; nothing where libvirt has none.
///
/// libvirt's own file (`domstatus`) holds what a command line does not: the display name that OpenStack's Nova gave
/// (`nova:name` in the domain's metadata). A VMM says itself what its domain is called, so a name finds a file only among
/// those that the directory lists, and what the file says counts only if it names this very process.
pub(super) fn domain(root: &Root, pid: Pid, name: &str) -> Domain {
    let wanted = format!("{name}.xml");
    let files = root.list(DOMAINS).unwrap_or_default();
    let Some(file) = files.iter().find(|file| file.to_str() == Some(&wanted)) else {
        return Domain::default();
    };
    let path = std::path::Path::new(DOMAINS).join(file);
    let bytes = root.long_bytes(path, LONGEST_STATUS).unwrap_or_default();
    status(&String::from_utf8_lossy(&bytes), pid).unwrap_or_default()
}

fn status(text: &str, pid: Pid) -> Option<Domain> {
    let document = Document::parse(text).ok()?;
    let status = document.root_element();
    let is_it = status.attribute("pid") == Some(pid.to_string().as_str());
    let domain = status.children().find(|node| node.has_tag_name("domain"));
    let domain = domain.filter(|_| status.has_tag_name("domstatus") && is_it)?;
    let child = |name: &str| domain.children().find(|node| node.has_tag_name(name));
    // The namespace carries the version of Nova's format.
    let instance = child("metadata")
        .into_iter()
        .flat_map(|it| it.descendants());
    let mut instance = instance.filter(|node| {
        let space = node.tag_name().namespace().unwrap_or_default();
        node.tag_name().name() == "name" && space.starts_with("http://openstack.org/")
    });
    Some(Domain {
        uuid: child("uuid").and_then(|it| well_formed_uuid(it.text()?.trim())),
        instance: instance.find_map(|it| it.text().map(str::to_owned)),
    })
}

const POD_LOGS: &str = "var/log/pods";

/// `NAMESPACE/NAME` of a domain's name; `None` if that is not KubeVirt's, whose domains are named `NAMESPACE_NAME`: neither
/// name of a Kubernetes object may hold a `_`.
pub(super) fn in_pod(domain: &str) -> Option<String> {
    let (namespace, name) = domain.split_once('_')?;
    let is_label = |text: &str| {
        let allowed =
            |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
        !text.is_empty() && text.bytes().all(allowed)
    };
    (is_label(namespace) && is_label(name)).then(|| format!("{namespace}/{name}"))
}

/// Name of a pod: that of the directory that the kubelet keeps for its logs, `NAMESPACE_POD_UID`.
pub(super) fn pod(root: &Root, uid: &str) -> Option<String> {
    let folders = root.list(POD_LOGS).ok()?;
    folders.iter().find_map(|folder| {
        let (pod, of) = folder.to_str()?.rsplit_once('_')?;
        let (_, name) = pod.split_once('_')?;
        (of == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::root::made_up;

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

    const STATUS: &str = include_str!("fixtures/instance-00000a1b.xml");
    const FILE: &str = "run/libvirt/qemu/instance-00000a1b.xml";
    const UUID: &str = "6f1d2c3a-0b4e-4c5d-8e7f-a1b2c3d4e5f6";

    #[test]
    fn an_instance_has_the_name_that_its_owner_gave() {
        let (_dir, root) = made_up(&[(FILE, STATUS)]);
        let found = domain(&root, Pid(110), "instance-00000a1b");
        assert_eq!(found.instance.as_deref(), Some("shop-frontend"));
        assert_eq!(found.uuid.as_deref(), Some(UUID));
    }

    #[test]
    fn a_file_of_another_process_says_nothing() {
        let (_dir, root) = made_up(&[(FILE, STATUS)]);
        assert_eq!(
            domain(&root, Pid(4212), "instance-00000a1b"),
            Domain::default()
        );
        assert_eq!(domain(&root, Pid(110), "other"), Domain::default());
    }

    #[test]
    fn a_name_is_no_path() {
        let (_dir, root) = made_up(&[(FILE, STATUS), ("run/secret.xml", STATUS)]);
        for name in [
            "../../secret",
            "/run/secret",
            "..",
            ".",
            "",
            "./instance-00000a1b",
        ] {
            assert_eq!(domain(&root, Pid(110), name), Domain::default(), "{name}");
        }
    }

    #[test]
    fn what_is_no_status_file_says_nothing() {
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><domstatus pid='1'>&b;</domstatus>";
        for text in [
            "",
            "<",
            "<domain pid='110'><name>x</name></domain>",
            "<domstatus pid='110'/>",
            bomb,
        ] {
            assert_eq!(status(text, Pid(110)), None, "{text}");
        }
        let deep = "<a>".repeat(100_000);
        assert_eq!(status(&deep, Pid(1)), None);
    }
}
