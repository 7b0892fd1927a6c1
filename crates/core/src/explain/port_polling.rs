//! One I/O port that takes most port accesses: a driver that polls an emulated device.
//!
//! Tuning VT-x guests on Xen brought 7 to 14 % by moving a port's emulation nearer and factors of 10
//! to 40 by a device that is woken instead of polled (Intel Technology Journal 10(3), 2006).

use super::hyperv_timers::{self, is_clock};
use super::prelude::*;
use super::terms::HYPERV;

pub(super) const RULE: Rule = Rule {
    id: "port-polling",
    title: "an emulated port that is polled",
    source: "Intel Technology Journal 10(3), 2006; trace_kvm_pio in arch/x86/kvm/x86.c",
    look: |evidence| evidence.each_about(SubKey::Pio, of_guest),
};

/// Share of all port accesses.
const DOMINANT: f64 = 0.5;

const CLOCK: Remedy = Remedy::new(
    Does::ForLinux,
    "Linux guest: kvm-clock or the TSC as its clocksource.",
    "None while it runs; a guest that has it on its command line has to boot again.",
    "The TSC, where the host's is not invariant or the VM migrates to a host with another frequency that it does not \
     scale to.",
);

const DEVICE: Terms = Terms::new(
    "It holds from the VM's next start, and the guest needs a driver for the other device.",
    "A guest without that driver, and firmware or a boot loader that knows the old device alone.",
);

fn device(port: u64) -> (&'static str, &'static str) {
    match port {
        0x3f8..=0x3ff | 0x2f8..=0x2ff => (
            "a serial port: the guest writes its console to it character by character",
            "a virtio console (`console=hvc0`), or `quiet` and no `console=ttyS0` in the guest",
        ),
        0x1f0..=0x1f7 | 0x170..=0x177 => (
            "an IDE disk in PIO mode",
            "a virtio-blk or virtio-scsi disk; in the guest, DMA for that disk",
        ),
        0x3b0..=0x3df => (
            "the VGA registers",
            "a virtio-gpu display, or none (`-vga none`)",
        ),
        0x20..=0x21 | 0xa0..=0xa1 => (
            "the interrupt controllers of the PC (PIC)",
            "the APIC: boot the guest without `noapic`, and KVM with an in-kernel irqchip",
        ),
        0x60..=0x64 => (
            "the keyboard controller",
            "USB or virtio input, and `i8042=off` for the machine",
        ),
        0x402 | 0x510..=0x511 => (
            "firmware's debug or configuration port",
            "a firmware built without debug output",
        ),
        port if is_clock(port) => ("a clock: PIT, RTC or ACPI PM timer", ""),
        _ => (
            "an emulated device",
            "the device's virtio counterpart, or a driver that waits for its interrupt",
        ),
    }
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let ports = grouped(exits, &[Kind::PioRead, Kind::PioWrite], |port| port);
    let all = total(ports.values().map(|tally| tally.count));
    let (&port, tally) = ports.iter().max_by_key(|(_, tally)| tally.count)?;
    let share = Share::of(tally.count, all)?;
    let per_s = guest.storm(tally.count)?;
    if !share.is_from(DOMINANT) {
        return None;
    }
    // Accesses that `hyperv_timers` explains better are not reported twice.
    if is_clock(port) && hyperv_timers::explains(evidence, guest) {
        return None;
    }
    let (whose, instead) = device(port);
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} of the port accesses are to port {port:#x}: {}, {}; they {}.",
            percent(share.share),
            tally.count,
            rate(per_s),
            took(tally.time_ns()),
        ),
        cause: format!("Port {port:#x} is {whose}."),
        remedies: if is_clock(port) {
            vec![
                CLOCK,
                Remedy::under(
                    Does::ForWindows,
                    "Windows guest: QEMU `-cpu host,hv-time`.",
                    HYPERV,
                ),
            ]
        } else {
            vec![Remedy::with_text(
                Does::SparesExits,
                format!("Use {instead}."),
                DEVICE,
            )]
        },
        cost: (tally.time_ns() > 0).then(|| Cost::cpu(guest.per_s(tally.time_ns()))),
        sure: Sure::likely_if(whose != "an emulated device"),
    })
}
