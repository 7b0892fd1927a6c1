//! `explain` on a stock QEMU whose guest kicks a virtio device without ioeventfd, and with it.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Bench, Running, haltwise, told};

/// A guest in place of QEMU's firmware, in real mode: maps the registers of the virtio device at PCI slot 4 below 1 MB,
/// where an unset PAM leaves addresses to the bus, reports a ready driver, and kicks queue 0 again and again.
const KICKER: [u8; 80] = [
    0xba, 0xf8, 0x0c, // mov $0xcf8, %dx
    0x66, 0xb8, 0x20, 0x20, 0x00, 0x80, // mov $0x80002020, %eax (its BAR 4)
    0x66, 0xef, // out %eax, %dx
    0xb2, 0xfc, // mov $0xfc, %dl
    0x66, 0xb8, 0x00, 0x00, 0x0d, 0x00, // mov $0xd0000, %eax
    0x66, 0xef, // out %eax, %dx
    0xb2, 0xf8, // mov $0xf8, %dl
    0x66, 0xb8, 0x24, 0x20, 0x00, 0x80, // mov $0x80002024, %eax (its upper half)
    0x66, 0xef, // out %eax, %dx
    0xb2, 0xfc, // mov $0xfc, %dl
    0x66, 0x31, 0xc0, // xor %eax, %eax
    0x66, 0xef, // out %eax, %dx
    0xb2, 0xf8, // mov $0xf8, %dl
    0x66, 0xb8, 0x04, 0x20, 0x00, 0x80, // mov $0x80002004, %eax (its command)
    0x66, 0xef, // out %eax, %dx
    0xb2, 0xfc, // mov $0xfc, %dl
    0x66, 0xb8, 0x06, 0x00, 0x00, 0x00, // mov $6, %eax (memory, bus master)
    0x66, 0xef, // out %eax, %dx
    0xb8, 0x00, 0xd0, // mov $0xd000, %ax
    0x8e, 0xd8, // mov %ax, %ds
    0xc6, 0x06, 0x14, 0x00, 0x07, // movb $7, 0x14 (device_status)
    0xb8, 0x00, 0xd3, // mov $0xd300, %ax
    0x8e, 0xd8, // mov %ax, %ds
    0x31, 0xc0, // xor %ax, %ax
    0xa3, 0x00, 0x00, // mov %ax, 0 (notify)
    0xeb, 0xfb, // jmp to the line above
];

/// Firmware that QEMU maps at the end of the address space: as large as QEMU takes it at the least, and the reset vector
/// jumps to its begin.
fn firmware() -> Vec<u8> {
    let mut image = vec![0; 0x1_0000];
    image[..KICKER.len()].copy_from_slice(&KICKER);
    // ljmp $0xf000, $0
    image[0xfff0..0xfff5].copy_from_slice(&[0xea, 0x00, 0x00, 0x00, 0xf0]);
    image
}

/// The rules that fire on a QEMU with a device like this.
fn rules(bench: &Bench, device: &str) -> BTreeSet<String> {
    let image = bench.path("firmware");
    std::fs::write(&image, firmware()).unwrap();
    let _qemu = Running::start(
        Command::new("qemu-system-x86_64")
            .args(["-name", "guest=kicker,debug-threads=on"])
            .args(["-machine", "pc,accel=kvm", "-m", "16"])
            .args(["-nodefaults", "-display", "none", "-bios"])
            .arg(&image)
            .args(["-device", device])
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    Bench::wait_for("kicker");
    let recorder = bench.recorder(device, &["--exits=pio,mmio"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    recorder.end(Signal::INT);
    let output = Command::new(haltwise())
        .args(["explain", "--json", "--vm", "kicker"])
        .arg(bench.path(device))
        .output()
        .unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 5)),
        "{}",
        told(&output)
    );
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Also what cost too little to be shown, and what was not judged.
    let of = |list: &str| page[list].as_array().unwrap().clone();
    assert!(
        of("not_judged")
            .iter()
            .all(|it| it["rule"] != "vmm-devices"),
        "{page:#}"
    );
    let fired = [of("findings"), of("small")].concat();
    let ids = fired
        .iter()
        .map(|it| it["rule"].as_str().unwrap().to_owned());
    ids.collect()
}

#[test]
fn a_device_is_found_that_qemu_serves_while_the_vcpu_waits() {
    let Some(bench) = Bench::set_up() else {
        return;
    };
    if Command::new("qemu-system-x86_64")
        .arg("-version")
        .output()
        .is_err()
    {
        println!("skipped: no qemu-system-x86_64");
        return;
    }
    let device = "virtio-rng-pci,addr=4,disable-legacy=on";
    let waits = rules(&bench, &format!("{device},ioeventfd=off"));
    assert!(waits.contains("vmm-devices"), "{waits:?}");
    assert!(!waits.contains("emulated-framebuffer"), "{waits:?}");
    let goes_on = rules(&bench, device);
    assert!(!goes_on.contains("vmm-devices"), "{goes_on:?}");
}
