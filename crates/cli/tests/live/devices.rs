//! `explain` on a stock QEMU whose guest kicks a virtio device without ioeventfd, and with it.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::bench::{Bench, gets_a_cpu};
use crate::ceilings::has_qemu;
use crate::explain::fired;

/// In place of QEMU's firmware, in real mode: maps the registers of the virtio device at PCI slot 4 below 1 MB, where an
/// unset PAM leaves addresses to the bus, and reports a ready driver. AX is then 0, and DS at the device's notifications.
const SET_UP: [u8; 75] = [
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
];

/// Kicks queue 0 again and again.
const KICK: [u8; 5] = [
    0xa3, 0x00, 0x00, // mov %ax, 0 (notify)
    0xeb, 0xfb, // jmp to the line above
];

/// A timer of 1 kHz that wakes the vCPU: the PIT, by the PIC and the local APIC.
const TIMER: [u8; 92] = [
    0xfa, // cli
    0x31, 0xc0, // xor %ax, %ax
    0x8e, 0xd8, // mov %ax, %ds
    0xc7, 0x06, 0x80, 0x00, 0x00, 0x02, // movw $0x200, 0x80 (vector 0x20: TICK)
    0xc7, 0x06, 0x82, 0x00, 0x00, 0xf0, // movw $0xf000, 0x82
    0xb0, 0x11, 0xe6, 0x20, // mov $0x11, %al; out %al, $0x20 (the PIC, from its beginning)
    0xb0, 0x20, 0xe6, 0x21, // vectors from 0x20 on
    0xb0, 0x04, 0xe6, 0x21, // the other PIC is at line 2
    0xb0, 0x01, 0xe6, 0x21, // 8086
    0xb0, 0xfe, 0xe6, 0x21, // line 0 alone
    0xb0, 0x34, 0xe6, 0x43, // mov $0x34, %al; out %al, $0x43 (channel 0, rate)
    0xb0, 0xa9, 0xe6, 0x40, // 1193 of 1,193,182 Hz
    0xb0, 0x04, 0xe6, 0x40, //
    0x66, 0xb9, 0x1b, 0x00, 0x00, 0x00, // mov $0x1b, %ecx (IA32_APIC_BASE)
    0x0f, 0x32, // rdmsr
    0x80, 0xcc, 0x0c, // or $0xc, %ah (x2APIC)
    0x0f, 0x30, // wrmsr
    0x66, 0x31, 0xd2, // xor %edx, %edx
    0xb9, 0x0f, 0x08, // mov $0x80f, %cx (spurious vector, and enabled)
    0x66, 0xb8, 0xff, 0x01, 0x00, 0x00, // mov $0x1ff, %eax
    0x0f, 0x30, // wrmsr
    0xb9, 0x35, 0x08, // mov $0x835, %cx (LINT0, where the PIC is)
    0xb8, 0x00, 0x07, // mov $0x700, %ax (ExtINT)
    0x0f, 0x30, // wrmsr
    0xb8, 0x00, 0x90, // mov $0x9000, %ax
    0x8e, 0xd0, // mov %ax, %ss
    0xbc, 0x00, 0x10, // mov $0x1000, %sp
];

/// Kicks queue 0 once in each tick, and rests.
const REST: [u8; 7] = [
    0xfb, // sti
    0xa3, 0x00, 0x00, // mov %ax, 0 (notify)
    0xf4, // hlt
    0xeb, 0xfa, // jmp to the line before
];

const TICK: [u8; 7] = [
    0x50, // push %ax
    0xb0, 0x20, 0xe6, 0x20, // mov $0x20, %al; out %al, $0x20 (it is done)
    0x58, // pop %ax
    0xcf, // iret
];

/// Firmware that QEMU maps at the end of the address space: as large as QEMU takes it at the least, and the reset vector
/// jumps to its begin.
fn firmware(code: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 0x1_0000];
    image[..code.len()].copy_from_slice(code);
    image[0x200..][..TICK.len()].copy_from_slice(&TICK);
    // ljmp $0xf000, $0
    image[0xfff0..0xfff5].copy_from_slice(&[0xea, 0x00, 0x00, 0x00, 0xf0]);
    image
}

/// The rules that fire on a QEMU with these devices and this code.
fn rules(bench: &Bench, name: &str, devices: &[&str], code: &[&[u8]]) -> BTreeSet<String> {
    let image = bench.path("firmware");
    std::fs::write(&image, firmware(&code.concat())).unwrap();
    let _qemu = Bench::vm(
        "kicker",
        Command::new("qemu-system-x86_64")
            .args(["-name", "guest=kicker,debug-threads=on"])
            .args("-machine pc,accel=kvm -cpu qemu64,+x2apic -m 16".split(' '))
            .args(["-nodefaults", "-display", "none", "-bios"])
            .arg(&image)
            .args(devices)
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    let recorder = bench.recorder(name, "--exits=pio,mmio");
    std::thread::sleep(std::time::Duration::from_secs(1));
    recorder.end(Signal::INT);
    let page = bench.page(&format!("report --findings --json --vm kicker {name}"));
    // Also what cost too little to be shown, and what was not judged.
    let of = |list: &str| page[list].as_array().unwrap().clone();
    assert!(
        of("not_judged")
            .iter()
            .all(|it| it["rule"] != "vmm-devices"),
        "{page:#}"
    );
    fired(&page)
}

#[test]
fn a_device_is_found_that_qemu_serves_while_the_vcpu_waits() {
    let Some(bench) = Bench::set_up().filter(|_| has_qemu()) else {
        return;
    };
    let code: [&[u8]; 2] = [&SET_UP, &KICK];
    let device = "virtio-rng-pci,addr=4,disable-legacy=on";
    let by_itself = format!("{device},ioeventfd=off");
    let waits = rules(&bench, "waits", &["-device", &by_itself], &code);
    assert!(waits.contains("vmm-devices"), "{waits:?}");
    assert!(!waits.contains("emulated-framebuffer"), "{waits:?}");
    let goes_on = rules(&bench, "goes-on", &["-device", device], &code);
    assert!(!goes_on.contains("vmm-devices"), "{goes_on:?}");
}

/// A disk of QEMU's own, with a thread that polls for 4 ms after each of a thousand kicks in a second.
#[test]
fn a_thread_is_found_that_polls_while_the_guest_rests() {
    let Some(bench) = Bench::set_up().filter(|_| has_qemu()) else {
        return;
    };
    let code: [&[u8]; 3] = [&TIMER, &SET_UP, &REST];
    let with = |poll_max_ns: u32| {
        let thread = format!("iothread,id=io,poll-max-ns={poll_max_ns}");
        let blockdev = "driver=null-co,node-name=d,size=1048576";
        let device = "virtio-blk-pci,drive=d,iothread=io,addr=4,disable-legacy=on";
        let devices = ["-object", &thread, "-blockdev", blockdev, "-device", device];
        rules(&bench, &format!("polls-{poll_max_ns}"), &devices, &code)
    };
    let polls = with(4_000_000);
    if !polls.contains("vmm-threads") && !gets_a_cpu() {
        println!("skipped: other work leaves a thread that polls too little of a CPU");
        return;
    }
    assert!(polls.contains("vmm-threads"), "{polls:?}");
    let sleeps = with(0);
    assert!(!sleeps.contains("vmm-threads"), "{sleeps:?}");
}
