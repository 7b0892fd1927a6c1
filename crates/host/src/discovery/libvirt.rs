//! libvirt's account of a domain that runs: `/run/libvirt/qemu/NAME.xml`, read and never written.
//!
//! The file is libvirt's own (`domstatus`), readable by root. It holds what a command line does not: the
//! display name that OpenStack's Nova gave (`nova:name` in the domain's metadata). A VMM says itself what its
//! domain is called, so a name finds a file only among those that the directory lists, and what the file
//! says counts only if it names this very process.

use haltwise_core::ids::Pid;
use roxmltree::Document;

use super::identity::well_formed_uuid;
use crate::root::Root;

const FOLDER: &str = "run/libvirt/qemu";

/// A longer file is not libvirt's: a domain of a hundred disks has 200 kB.
const LONGEST: u64 = 2 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Domain {
    pub(super) uuid: Option<String>,
    pub(super) instance: Option<String>,
}

/// The domain `name` that this process runs; nothing where libvirt has none.
pub(super) fn domain(root: &Root, pid: Pid, name: &str) -> Domain {
    let wanted = format!("{name}.xml");
    let files = root.list(FOLDER).unwrap_or_default();
    let Some(file) = files.iter().find(|file| file.to_str() == Some(&wanted)) else {
        return Domain::default();
    };
    let path = std::path::Path::new(FOLDER).join(file);
    let bytes = root.long_bytes(path, LONGEST).unwrap_or_default();
    read(&String::from_utf8_lossy(&bytes), pid).unwrap_or_default()
}

fn read(text: &str, pid: Pid) -> Option<Domain> {
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

#[cfg(test)]
mod test {
    use super::*;
    use crate::root::made_up;

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
            assert_eq!(read(text, Pid(110)), None, "{text}");
        }
        let deep = "<a>".repeat(100_000);
        assert_eq!(read(&deep, Pid(1)), None);
    }
}
