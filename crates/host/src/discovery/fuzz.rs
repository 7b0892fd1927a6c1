//! Entry point for fuzzing how VMs are named: any bytes as what `/proc` says of a process.
//!
//! Not part of the library's interface.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::arguments::Arguments;
use super::{LONGEST_NAME, VmSelector, fallback_name, printable, program_name, start_ticks, vmm};
use haltwise_core::ids::Pid;

const PROGRAMS: [&str; 6] = [
    "qemu-system-x86_64",
    "crosvm",
    "firecracker",
    "cloud-hypervisor",
    "haltwise-lab",
    "lkvm",
];

/// Reads bytes as a command line, and each of its parts as a thread's name, a `stat` and a path;
/// gives how many names, numbers and times were found.
///
/// # Panics
/// If a name may not be shown.
pub fn cmdline(bytes: &[u8]) -> u64 {
    let arguments = Arguments::parse(bytes);
    let mut found = 0;
    for known in arguments.program().into_iter().chain(PROGRAMS) {
        let vmm = vmm::recognise([known]);
        for given in [
            (vmm.name)(&arguments),
            (vmm.uuid)(&arguments),
            (vmm.vmid)(&arguments),
        ] {
            found += u64::from(is_shown(given.as_deref()));
        }
        for part in bytes.split(|byte| *byte == 0) {
            found += u64::from((vmm.vcpu)(&String::from_utf8_lossy(part)).is_some());
        }
    }
    for part in bytes.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(part);
        is_shown(Some(&fallback_name(
            &printable(&text).unwrap_or_default(),
            Pid(1),
        )));
        is_shown(program_name(Path::new(OsStr::from_bytes(part))).as_deref());
        found += u64::from(start_ticks(&text).is_some());
        let selected = text.parse::<VmSelector>().map(|vm| vm.select(&[]).is_err());
        assert_eq!(selected, Ok(true), "a VM where there is none");
    }
    found
}

/// Whether a name is left of a text; it must be one that does no harm.
fn is_shown(given: Option<&str>) -> bool {
    let Some(name) = given.and_then(printable) else {
        return false;
    };
    let length = name.chars().count();
    assert!((1..=LONGEST_NAME).contains(&length), "{length} characters");
    assert!(!name.chars().any(char::is_control), "{name:?}");
    assert_eq!(printable(&name).as_deref(), Some(name.as_str()));
    true
}
