//! The settings in force: KVM's module parameters, the guest governor's, cpuidle, the vendor module.
//!
//! Reads only. A parameter that this kernel does not have gives no row; one that may not be read is an
//! error, because a capture without the ceiling in force is worth little.

use std::collections::BTreeMap;

use haltwise_core::event::{Knob, KnobScope};

use crate::root::{Root, RootError};

/// A file that holds one setting.
#[derive(Debug)]
struct Source {
    name: &'static str,
    scope: KnobScope,
    path: &'static str,
}

const fn kvm(name: &'static str, path: &'static str) -> Source {
    Source {
        name,
        scope: KnobScope::Host,
        path,
    }
}

const fn guest(name: &'static str, path: &'static str) -> Source {
    Source {
        name,
        scope: KnobScope::GuestOfOther,
        path,
    }
}

const SOURCES: [Source; 18] = [
    kvm("halt_poll_ns", "sys/module/kvm/parameters/halt_poll_ns"),
    kvm(
        "halt_poll_ns_grow",
        "sys/module/kvm/parameters/halt_poll_ns_grow",
    ),
    kvm(
        "halt_poll_ns_grow_start",
        "sys/module/kvm/parameters/halt_poll_ns_grow_start",
    ),
    kvm(
        "halt_poll_ns_shrink",
        "sys/module/kvm/parameters/halt_poll_ns_shrink",
    ),
    kvm(
        "halt_poll_max_steal",
        "sys/module/kvm/parameters/halt_poll_max_steal",
    ),
    kvm("kvm_intel.nested", "sys/module/kvm_intel/parameters/nested"),
    kvm(
        "kvm_intel.enable_apicv",
        "sys/module/kvm_intel/parameters/enable_apicv",
    ),
    kvm(
        "kvm_intel.enable_ipiv",
        "sys/module/kvm_intel/parameters/enable_ipiv",
    ),
    kvm("kvm_amd.nested", "sys/module/kvm_amd/parameters/nested"),
    kvm("kvm_amd.avic", "sys/module/kvm_amd/parameters/avic"),
    kvm(
        "cpuidle.current_driver",
        "sys/devices/system/cpu/cpuidle/current_driver",
    ),
    kvm(
        "cpuidle.current_governor",
        "sys/devices/system/cpu/cpuidle/current_governor_ro",
    ),
    guest(
        "guest_halt_poll_ns",
        "sys/module/haltpoll/parameters/guest_halt_poll_ns",
    ),
    guest(
        "guest_halt_poll_grow",
        "sys/module/haltpoll/parameters/guest_halt_poll_grow",
    ),
    guest(
        "guest_halt_poll_grow_start",
        "sys/module/haltpoll/parameters/guest_halt_poll_grow_start",
    ),
    guest(
        "guest_halt_poll_shrink",
        "sys/module/haltpoll/parameters/guest_halt_poll_shrink",
    ),
    guest(
        "guest_halt_poll_allow_shrink",
        "sys/module/haltpoll/parameters/guest_halt_poll_allow_shrink",
    ),
    guest(
        "cpuidle_haltpoll.force",
        "sys/module/cpuidle_haltpoll/parameters/force",
    ),
];

/// The modules that give KVM its processor.
const VENDORS: [&str; 3] = ["kvm_intel", "kvm_amd", "kvm_pvm"];

/// Reads every setting that this kernel has.
pub fn read(root: &Root, time_ns: u64) -> Result<Vec<Knob>, RootError> {
    let mut knobs = Vec::new();
    for source in &SOURCES {
        match root.value(source.path) {
            Ok(value) => knobs.push(Knob {
                time_ns,
                name: source.name.to_owned(),
                scope: source.scope,
                value,
            }),
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(vendor) = vendor_module(root) {
        knobs.push(Knob {
            time_ns,
            name: "kvm.vendor_module".to_owned(),
            scope: KnobScope::Host,
            value: vendor.to_owned(),
        });
    }
    Ok(knobs)
}

/// The module that gives KVM its processor, where there is one.
pub fn vendor_module(root: &Root) -> Option<&'static str> {
    VENDORS
        .into_iter()
        .find(|name| root.exists(format!("sys/module/{name}")))
}

/// Whether KVM is there, as a module or built in: its parameters are.
pub fn kvm_is_loaded(root: &Root) -> bool {
    root.exists("sys/module/kvm")
}

/// The module parameter `halt_poll_ns`: the ceiling of every VM without its own.
pub fn param_halt_poll_ns(root: &Root) -> Result<u32, RootError> {
    root.number("sys/module/kvm/parameters/halt_poll_ns")
}

/// Reads the settings again and again and tells what changed.
#[derive(Debug, Default)]
pub struct Watch {
    last: BTreeMap<(String, KnobScope), String>,
}

impl Watch {
    /// Rows for the settings that are new or have another value than the last time.
    ///
    /// A setting that went away with its module is forgotten, and told again when it comes back.
    pub fn changes(&mut self, root: &Root, time_ns: u64) -> Result<Vec<Knob>, RootError> {
        let now = read(root, time_ns)?;
        let last = std::mem::take(&mut self.last);
        let mut changed = Vec::new();
        for knob in now {
            let id = (knob.name.clone(), knob.scope);
            self.last.insert(id.clone(), knob.value.clone());
            if last.get(&id) != Some(&knob.value) {
                changed.push(knob);
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod test {
    use std::fs;

    use super::*;

    fn root_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn what_is_there_is_read_and_the_rest_gives_no_row() {
        let (_dir, root) = root_with(&[
            ("sys/module/kvm/parameters/halt_poll_ns", "200000\n"),
            ("sys/module/haltpoll/parameters/guest_halt_poll_ns", "0\n"),
            ("sys/module/kvm_amd/parameters/avic", "N\n"),
        ]);
        let rows: Vec<_> = read(&root, 5)
            .unwrap()
            .into_iter()
            .map(|k| (k.name, k.scope, k.value))
            .collect();
        let expected = [
            ("halt_poll_ns", KnobScope::Host, "200000"),
            ("kvm_amd.avic", KnobScope::Host, "N"),
            ("guest_halt_poll_ns", KnobScope::GuestOfOther, "0"),
            ("kvm.vendor_module", KnobScope::Host, "kvm_amd"),
        ]
        .map(|(n, s, v)| (n.to_owned(), s, v.to_owned()));
        assert_eq!(rows, expected);
        assert_eq!(param_halt_poll_ns(&root).unwrap(), 200_000);
    }

    #[test]
    fn a_host_without_kvm_has_no_rows() {
        let (_dir, root) = root_with(&[]);
        assert!(read(&root, 0).unwrap().is_empty());
        assert!(param_halt_poll_ns(&root).unwrap_err().is_absent());
    }

    #[test]
    fn only_changes_are_told() {
        let path = "sys/module/kvm/parameters/halt_poll_ns";
        let (dir, root) = root_with(&[(path, "200000\n")]);
        let mut watch = Watch::default();
        assert_eq!(watch.changes(&root, 1).unwrap().len(), 1);
        assert_eq!(watch.changes(&root, 2).unwrap(), []);
        fs::write(dir.path().join(path), "50000\n").unwrap();
        let changed = watch.changes(&root, 3).unwrap();
        assert_eq!(
            (changed[0].time_ns, changed[0].value.as_str()),
            (3, "50000")
        );
        fs::remove_file(dir.path().join(path)).unwrap();
        assert_eq!(watch.changes(&root, 4).unwrap(), []);
        fs::write(dir.path().join(path), "50000\n").unwrap();
        assert_eq!(watch.changes(&root, 5).unwrap().len(), 1);
    }

    #[test]
    fn a_negative_parameter_is_an_error_that_shows_it() {
        let (_dir, root) = root_with(&[("sys/module/kvm/parameters/halt_poll_ns", "-1\n")]);
        let error = param_halt_poll_ns(&root).unwrap_err().to_string();
        assert!(error.ends_with("`-1` is not a number"), "{error}");
    }
}
