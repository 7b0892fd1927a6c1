//! QEMU's HPET: its main thread wakes a thousand times a second for a timer that the guest does not listen to.
//!
//! A guest that has once programmed the HPET's periodic timer (firmware, Windows, or Linux on its way to a
//! better clock) leaves it running with its interrupt masked. QEMU pulses the masked line all the same, from
//! its main loop: about 1000 wake-ups of that thread in a second, 3 to 10 % of a CPU, and no vCPU halts
//! differently for it. So the signature is in the VMM's own threads, and that no device woke the guest as
//! often rules out the main loop's other work, which ends in an interrupt.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "qemu-hpet",
    title: "QEMU's main thread wakes for an HPET that the guest does not use",
    source: "hw/timer/hpet.c of QEMU; systemd/mkosi#3811, virt-manager#205",
    look,
};

/// The timer is set to 1 ms by those that set it; on a busy host a wake-up that comes late serves several. QEMU 7.2
/// on two busy CPUs: 919 in a second, against 131 with the timer never started and 133 with `hpet=off`.
const PERIODIC_PER_S: f64 = 700.0;

/// A main thread that takes this much of a CPU while its guest rests does what the guest did not ask for.
const MUCH: f64 = 0.03;

/// The guest rests: its vCPUs are halted for this share of the time.
const RESTS: f64 = 0.8;

/// The main thread's work for devices ends in an interrupt: as many device wakes as this share of its own
/// wake-ups explain them.
const EXPLAINED: f64 = 0.5;

const WITHOUT_HPET: Remedy = Remedy::new(
    Does::SparesVmm,
    "QEMU: `-machine hpet=off`; libvirt: `<timer name='hpet' present='no'/>` in `<clock>`; Proxmox \
     VE: `args: -machine hpet=off`.",
    "It holds from the VM's next start; a guest with kvm-clock, an invariant TSC or Hyper-V's clock misses nothing.",
    "An old guest whose only good clock is the HPET: it falls back to the ACPI PM timer, whose every reading exits.",
);

fn look(evidence: &Evidence<'_>) -> Judgement {
    let is_unknown = |guest: &Guest<'_>| is_qemu(guest) && guest.vm.threads.is_none();
    let unknown = evidence.guests.is_empty() || evidence.guests.iter().any(is_unknown);
    Judgement {
        found: evidence.each(of_guest),
        blind: unknown.then(|| "the VMM's other threads were not recorded".to_owned()),
    }
}

fn is_qemu(guest: &Guest<'_>) -> bool {
    guest.vm.vmm == VmmKind::Qemu
}

fn of_guest(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let threads = guest.vm.threads.as_ref().filter(|_| is_qemu(guest))?;
    let machine = guest.vm.machine.as_ref();
    if machine.and_then(|machine| machine.hpet) == Some(false) {
        return None;
    }
    let runs = threads.per_s(threads.main_runs);
    let cpu_ns = threads.per_s(threads.main_cpu_ns);
    let (is_periodic, is_much) = (runs >= PERIODIC_PER_S, cpu_ns / 1e9 >= MUCH);
    let (rests, device) = (guest.rests(), guest.device_wakes_per_s());
    if !(is_periodic || is_much) || rests < RESTS || device >= EXPLAINED * runs {
        return None;
    }
    let told = machine.is_some();
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "QEMU's main thread ran {} and took {} of a CPU; the vCPUs were halted {} of the time, and \
             devices woke them {}.",
            rate(runs),
            percent(cpu_ns / 1e9),
            percent(rests.min(1.0)),
            rate(device),
        ),
        cause: "The machine has an HPET whose periodic timer the guest has left running with its interrupt \
                masked: QEMU serves it all the same. No vCPU is woken by it, so that no setting of halt \
                polling changes anything."
            .to_owned(),
        remedies: vec![WITHOUT_HPET],
        cost: Some(Cost::cpu(cpu_ns)),
        sure: Sure::likely_if(is_periodic && told),
    })
}
