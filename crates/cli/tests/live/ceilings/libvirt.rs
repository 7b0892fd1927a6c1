//! A domain of libvirt whose `<emulator>` is a link to `haltwise-exec`. libvirt starts the emulator with an environment
//! of its own, under QEMU's sandbox, and asks it before what it can do.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::super::bench::{Bench, Running, haltwise, told, until};
use super::{Host, assert_own, doctor, library};

const DOMAIN: &str = "of-libvirt";

/// Programs that it takes, and their packages in Debian.
const TOOLS: [(&str, &str); 4] = [
    ("libvirtd", "libvirt-daemon-system"),
    ("virsh", "libvirt-clients"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("unshare", "util-linux"),
];

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|it| it.status.success())
}

fn start(bench: &Bench, link: &std::path::Path) -> Running {
    let namespaces = "--mount --net --pid --fork --kill-child --mount-proc";
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/live/ceilings/libvirt.sh"
    );
    Running::start(
        Command::new("unshare")
            .args(namespaces.split(' '))
            .args(["sh", script])
            .arg(bench.dir.path())
            .arg(DOMAIN)
            .arg(link)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    )
}

/// By the one that libvirt gave it.
fn is_known_by_its_uuid(bench: &Bench, vm: &Value) {
    // libvirt is asked after the VM is there.
    let uuid = until("its UUID", || {
        let uuid = fs::read_to_string(bench.path("uuid")).ok()?;
        uuid.ends_with('\n').then_some(uuid)
    });
    assert_eq!(vm["identity"]["uuid"], uuid.trim(), "{vm}");
    let output = bench.ran(&format!(
        "record --duration 1s --vm {} -o by-uuid",
        uuid.trim()
    ));
    assert!(output.status.success(), "{}", told(&output));
    let capture = bench.capture("by-uuid");
    let vms = capture.info().roster.vms.iter();
    assert_eq!(vms.map(|vm| &vm.name).collect::<Vec<_>>(), [DOMAIN]);
}

#[test]
fn a_domain_of_libvirt_by_the_wrapper() {
    let Some(bench) = Bench::set_up() else { return };
    if let Some((program, package)) = TOOLS.iter().find(|(program, _)| !has(program)) {
        println!("skipped: no {program} (package {package})");
        return;
    }
    // As installed: the library beside the program, and nothing in the environment.
    let [exec, link] = ["haltwise-exec", "qemu-system-x86_64"].map(|name| bench.path(name));
    fs::copy(haltwise().with_file_name("haltwise-exec"), &exec).unwrap();
    fs::copy(library(), bench.path("libhaltwise_preload.so")).unwrap();
    std::os::unix::fs::symlink(&exec, &link).unwrap();
    let libvirt = start(&bench, &link);
    let host = Host::new();
    Bench::wait_for(DOMAIN);
    let vm = doctor(|vm| vm["name"] == DOMAIN);
    assert_eq!(vm["ceiling_settable"], true, "{vm}");
    is_known_by_its_uuid(&bench, &vm);
    host.set(DOMAIN, "0");
    assert_own(DOMAIN, 0);
    host.says(0, "undo");
    assert_own(DOMAIN, host.ceiling());
    // Closes its stdin.
    let output = libvirt.output();
    assert!(output.status.success(), "{}", told(&output));
    let said = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
    assert_eq!(said("state").trim(), "paused");
    assert_eq!(said("of-link"), said("of-stock"));
    assert_eq!(said("after"), said("before"));
    let log = said("log");
    let is_quiet = !log.contains("haltwise-exec:") && !log.contains("ERROR: ld.so");
    assert!(is_quiet, "{log}");
}
