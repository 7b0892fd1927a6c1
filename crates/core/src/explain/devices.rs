//! Devices that the VMM emulates in the vCPU's own time: no ioeventfd, no thread of its own.
//!
//! Without ioeventfd a guest's kick of a virtio queue returns to QEMU, and the vCPU waits until QEMU's device
//! has done its work; with it the vCPU goes on at once and another thread works. Disk DMA that no longer blocked
//! the vCPU brought 8 %, a network device woken in place of polled a factor of 10 to 40 (Intel Technology Journal
//! 10(3), 2006).

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "vmm-devices",
    title: "devices that the VMM serves while the vCPU waits",
    source: "Intel Technology Journal 10(3), 2006; Documentation/virt/kvm/api.rst, KVM_IOEVENTFD",
    look,
};

/// An access that QEMU answers from a register takes less; one that does a device's work takes more.
const BLOCKS_NS: u64 = 20_000;

/// Ports below are those of the PC's own devices (console, timers), which no ioeventfd and no thread would serve.
const DEVICE_PORTS: u64 = 0x400;

const IN_THREADS: Remedy = Remedy::new(
    Does::SparesExits,
    "Leave ioeventfd on (no `ioeventfd=off`); give disks a thread (`-object iothread,id=io1`, \
     `iothread=io1`; libvirt `<iothreads>`), and the network vhost (`vhost=on`).",
    "These threads take CPU time of their own, and a kick reaches its device a switch later.",
    "Overcommitted hosts, where the vCPUs compete with these threads for CPUs.",
);

fn look(evidence: &Evidence<'_>) -> Judgement {
    if evidence.tells(SubKey::Mmio) {
        evidence.each_about(SubKey::Mmio, of_guest)
    } else {
        evidence.each_exits(of_guest)
    }
}

fn of_guest(_: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let machine = guest.vm.machine?;
    let accesses = tally(exits, |cause| {
        let is_device = cause.sub.is_some_and(|port| port >= DEVICE_PORTS);
        cause.kind == Kind::MmioWrite || cause.kind == Kind::PioWrite && is_device
    });
    let per_s = guest.storm(accesses.count)?;
    let each_ns = accesses.time_ns().checked_div(accesses.count)?;
    let is_blocking = machine.no_ioeventfd || (machine.iothreads == 0 && each_ns >= BLOCKS_NS);
    if !is_blocking {
        return None;
    }
    let has = |is: bool| if is { "yes" } else { "no" };
    let each = match each_ns {
        0 => String::new(),
        ns => format!(", {} each", nanos(ns)),
    };
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} writes to ports and device memory, {}; they {}{each}. QEMU: ioeventfd off {}, iothreads {}, vhost \
             {}.",
            accesses.count,
            rate(per_s),
            took(accesses.time_ns()),
            has(machine.no_ioeventfd),
            machine.iothreads,
            has(machine.vhost),
        ),
        cause: "A vCPU that kicks a device returns to the VMM and waits there until the VMM has served it."
            .to_owned(),
        remedies: vec![IN_THREADS],
        cost: (accesses.time_ns() > 0).then(|| Cost::cpu(guest.per_s(accesses.time_ns()))),
        sure: Sure::likely_if(machine.no_ioeventfd),
    })
}
