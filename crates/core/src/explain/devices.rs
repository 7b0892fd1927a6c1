//! Rules about emulated devices: in the vCPU's own time, and in threads of the VMM.

use super::clocks::{is_clock, is_without_stimer};
use super::prelude::*;
use super::terms::HYPERV;

/// One port that takes most port accesses is a driver that polls an emulated device. A device that is woken in place of
/// polled was 10 to 40 times as fast on Xen.
pub(super) const PORT_POLLING: Rule = Rule {
    id: "port-polling",
    title: "an emulated port that is polled",
    source: "Intel Technology Journal 10(3), 2006; trace_kvm_pio in arch/x86/kvm/x86.c",
    look: |evidence| evidence.each_about(SubKey::Pio, port_polling),
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

fn port_polling(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let ports = grouped(exits, &[Kind::PioRead, Kind::PioWrite], |port| port);
    let all = total(ports.values().map(|tally| tally.count));
    let (&port, tally) = ports.iter().max_by_key(|(_, tally)| tally.count)?;
    let share = Share::of(tally.count, all)?;
    let per_s = guest.storm(tally.count)?;
    if !share.is_from(DOMINANT) {
        return None;
    }
    // Accesses that [`super::clocks::WITHOUT_STIMER`] explains better are not reported twice.
    if is_clock(port) && is_without_stimer(evidence, guest) {
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

/// Each access to the VGA window (0xa0000 to 0xbffff), or to a frame buffer that is not plain memory, exits, and the VMM
/// does it. Elsewhere than in the VGA window it is a frame buffer if most accesses fall into one contiguous run of at least
/// 16 pages: 64 KiB, VGA's smallest window. Registers of devices lie in fewer.
pub(super) const FRAMEBUFFER: Rule = Rule {
    id: "emulated-framebuffer",
    title: "video memory emulated access by access",
    source: "Intel Technology Journal 10(3), 2006; handle_ept_misconfig, npf_interception",
    look: |evidence| evidence.each_about(SubKey::Mmio, framebuffer),
};

const PAGES: u64 = 16;

const PAGE: u64 = 4096;

const VGA: std::ops::RangeInclusive<u64> = 0xa0..=0xbf;

const LINEAR: Remedy = Remedy::new(
    Does::SparesExits,
    "A linear frame buffer or virtio-gpu: QEMU `-device virtio-vga`; in the guest a graphics \
     driver in place of VGA text mode, or a serial console.",
    "It holds from the VM's next start; a frame buffer takes host memory of the size of the screen.",
    "A guest without a driver for it shows no picture; a serial console exits for each character.",
);

/// A run of pages that follow each other, and what went to them.
#[derive(Default)]
struct Run {
    first: u64,
    last: u64,
    tally: Tally,
}

impl Run {
    fn is_video(&self) -> bool {
        self.is_vga() || self.last - self.first + 1 >= PAGES
    }

    fn is_vga(&self) -> bool {
        VGA.contains(&self.first) && VGA.contains(&self.last)
    }
}

fn runs(exits: &ExitAccount) -> Vec<Run> {
    let pages = grouped(exits, &[Kind::MmioRead, Kind::MmioWrite], |address| {
        address / PAGE
    });
    let mut runs: Vec<Run> = Vec::new();
    for (page, tally) in pages {
        match runs.last_mut() {
            Some(run) if run.last + 1 == page => {
                run.last = page;
                run.tally.fold(&tally);
            }
            _ => runs.push(Run {
                first: page,
                last: page,
                tally,
            }),
        }
    }
    runs
}

fn framebuffer(_: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let runs = runs(exits);
    let all = total(runs.iter().map(|run| run.tally.count));
    let run = runs.iter().max_by_key(|run| run.tally.count)?;
    let share = Share::of(run.tally.count, all)?;
    let per_s = guest.storm(run.tally.count)?;
    if !share.is_from(DOMINANT) || !run.is_video() {
        return None;
    }
    let time_ns = run.tally.time_ns();
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "{} of the accesses to emulated memory are within {:#x} to {:#x}: {}, {}; they {}.",
            percent(share.share),
            run.first * PAGE,
            run.last * PAGE + PAGE - 1,
            run.tally.count,
            rate(per_s),
            took(run.tally.time_ns()),
        ),
        cause: if run.is_vga() {
            "That is the VGA window: in text mode and planar modes every byte drawn is an exit to the \
             VMM."
        } else {
            "A run of pages as long as a frame buffer is emulated access by access instead of being \
             mapped as memory."
        }
        .to_owned(),
        remedies: vec![LINEAR],
        cost: (time_ns > 0).then(|| Cost::cpu(guest.per_s(time_ns))),
        sure: if run.is_vga() {
            Sure::Certain
        } else {
            Sure::Possible
        },
    })
}

/// Without ioeventfd a guest's kick of a virtio queue returns to QEMU, and the vCPU waits until QEMU's device has done its
/// work; with it the vCPU goes on at once and another thread works.
pub(super) const VMM_DEVICES: Rule = Rule {
    id: "vmm-devices",
    title: "devices that the VMM serves while the vCPU waits",
    source: "Intel Technology Journal 10(3), 2006; Documentation/virt/kvm/api.rst, KVM_IOEVENTFD",
    look: look_at_devices,
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

fn look_at_devices(evidence: &Evidence<'_>) -> Judgement {
    if evidence.tells(SubKey::Mmio) {
        evidence.each_about(SubKey::Mmio, vmm_devices)
    } else {
        evidence.each_exits(vmm_devices)
    }
}

fn vmm_devices(_: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
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

/// A guest that has once programmed the HPET's periodic timer (firmware, Windows, or Linux on its way to a better clock)
/// leaves it running with its interrupt masked. QEMU pulses the masked line all the same: about 1000 wake-ups of its main
/// thread in a second, and no vCPU halts differently for it. That no device woke the guest as often rules out the main
/// loop's other work, which ends in an interrupt.
pub(super) const HPET: Rule = Rule {
    id: "qemu-hpet",
    title: "QEMU's main thread wakes for an HPET that the guest does not use",
    source: "hw/timer/hpet.c of QEMU; systemd/mkosi#3811, virt-manager#205",
    look: look_for_hpet,
};

/// The timer is set to 1 ms by those that set it; on a busy host a wake-up that comes late serves several. QEMU 7.2
/// on two busy CPUs: 919 in a second, against 131 with the timer never started and 133 with `hpet=off`.
const PERIODIC_PER_S: f64 = 700.0;

/// A main thread that takes this much of a CPU while its guest rests does what the guest did not ask for.
const MUCH_FOR_REST: f64 = 0.03;

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

fn look_for_hpet(evidence: &Evidence<'_>) -> Judgement {
    let is_unknown = |guest: &Guest<'_>| is_qemu(guest) && guest.vm.threads.is_none();
    let unknown = evidence.guests.is_empty() || evidence.guests.iter().any(is_unknown);
    Judgement {
        found: evidence.each(hpet),
        blind: unknown.then(|| "the VMM's other threads were not recorded".to_owned()),
    }
}

fn is_qemu(guest: &Guest<'_>) -> bool {
    guest.vm.vmm == VmmKind::Qemu
}

fn hpet(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let threads = guest.vm.threads.as_ref().filter(|_| is_qemu(guest))?;
    let machine = guest.vm.machine.as_ref();
    if machine.and_then(|machine| machine.hpet) == Some(false) {
        return None;
    }
    let runs = threads.per_s(threads.main_runs);
    let cpu_ns = threads.per_s(threads.main_cpu_ns);
    let (is_periodic, is_much) = (runs >= PERIODIC_PER_S, cpu_ns / 1e9 >= MUCH_FOR_REST);
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

/// An iothread of QEMU polls for up to poll-max-ns after each event before it sleeps, a worker of vhost-net for up to
/// `poll-us`. With limits that reach from one event to the next they take a CPU each, for a guest that has hardly anything
/// to do. A worker of vhost is a thread of the VMM since Linux 6.4; the process of a vhost-user device (DPDK, SPDK,
/// virtiofsd) is not, and no recording shows it.
pub(super) const VMM_THREADS: Rule = Rule {
    id: "vmm-threads",
    title: "threads of the VMM that take CPU time while the guest rests",
    source: "iothread.c and util/aio-posix.c of QEMU; vhost_net_busy_poll in drivers/vhost/net.c, 441abde4cd84",
    look: |evidence| {
        let lacks = "the VMM's other threads were not recorded";
        evidence.each_threads(|threads| threads.others_cpu_ns, lacks, vmm_threads)
    },
};

/// These threads take at least this much of a CPU beyond what wake-ups of the guest explain. With QEMU's default
/// limit a thread needs 6100 events in a second to poll for so long, and at most two of them belong to one wake-up.
const MUCH: f64 = 0.2;

/// Time that a device wake-up of the guest explains: two events, the guest's kick and the completion, after each of
/// which an iothread polls for up to 32.768 us (`IOTHREAD_POLL_MAX_NS_DEFAULT`), and 20 us of work for each, from
/// which on `vmm-devices` calls an access blocking.
const WAKE_NS: f64 = 2.0 * (32_768.0 + 20_000.0);

/// Threads whose work is not for devices: migration, displays, and requests that block (QEMU's thread pool).
const OTHERS: [&str; 7] = [
    "live_migration",
    "mig/",
    "multifd",
    "return path",
    "vnc_worker",
    "SPICE Worker",
    "worker",
];

const IOTHREAD: Remedy = Remedy::new(
    Does::SparesVmm,
    "QEMU's monitor: `qom-set /objects/ID poll-max-ns 0`, where `info iothreads` lists ID; for good \
     `-object iothread,id=ID,poll-max-ns=0`. libvirt: `virsh iothreadset VM N --poll-max-ns 0 --live`.",
    "Latency: a request then waits until the thread has woken, as long as a wake-up takes on this host.",
    "Fast disks (NVMe) with few requests in flight: their throughput falls.",
);

const VHOST: Remedy = Remedy::new(
    Does::SparesVmm,
    "QEMU: `-netdev tap,vhost=on` without `poll-us=`, so that vhost-net's busy loop (busyloop_timeout) is \
     off; or fewer queues (`queues=`).",
    "Latency: a packet then waits until the worker has woken; it holds from the VM's next start.",
    "Guests that exchange small packets at a high rate: each then takes a kick and an interrupt.",
);

const UNNAMED: Remedy = Remedy::new(
    Does::SparesVmm,
    "See what the thread does: `haltwise record --profile`, then `haltwise report --profile`; then have that device \
     wait for events in place of polling (interrupt mode), or give it fewer queues.",
    "CPU time of a recording with samples; a device that waits for events answers a wake-up later.",
    "Recordings whose wake-up latencies are to be compared: sampling wakes idle CPUs and changes them.",
);

/// The remedy for a thread, by its name and the VMM's command line, and how sure that is; `None` where the thread's work
/// is not for devices.
fn remedy_for_thread(guest: &Guest<'_>, name: &str) -> Option<(Remedy, Sure)> {
    let machine = guest.vm.machine.as_ref();
    let has_iothread = machine.is_some_and(|machine| machine.iothreads > 0);
    match name {
        _ if OTHERS.iter().any(|other| name.starts_with(other)) => None,
        _ if name.starts_with("IO ") => Some((IOTHREAD, Sure::Likely)),
        _ if name.starts_with("vhost-") => Some((VHOST, Sure::Likely)),
        // Without debug-threads=on QEMU's threads all have its own name.
        _ if has_iothread => Some((IOTHREAD, Sure::Possible)),
        _ => Some((UNNAMED, Sure::Possible)),
    }
}

fn vmm_threads(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let threads = guest.vm.threads.as_ref()?;
    // The main thread's time is qemu-hpet's.
    let others_ns = threads.others_cpu_ns?.saturating_sub(threads.main_cpu_ns);
    let cpu_ns = threads.per_s(others_ns);
    let (rests, device) = (guest.rests(), guest.device_wakes_per_s());
    let beyond_ns = cpu_ns - device * WAKE_NS;
    if beyond_ns < MUCH * 1e9 || rests < RESTS || guest.vm.observable != Observable::Yes {
        return None;
    }
    let name = threads.busiest.as_deref().unwrap_or_default();
    let (remedy, sure) = remedy_for_thread(guest, name)?;
    let busiest = match (name, threads.busiest_cpu_ns) {
        ("", _) | (_, None) => String::new(),
        (name, Some(ns)) => format!(", of which `{name}` {}", percent(threads.per_s(ns) / 1e9)),
    };
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "The VMM's threads beside vCPUs and the main thread took {} of a CPU{busiest}; the vCPUs were halted \
             {} of the time, and devices woke them {}.",
            percent(cpu_ns / 1e9),
            percent(rests.min(1.0)),
            rate(device),
        ),
        cause: "A thread that serves devices polls for the guest's next request, or for the device's next reply, in \
                place of a sleep; the guest sends few. No setting of halt polling changes that."
            .to_owned(),
        remedies: vec![remedy],
        cost: Some(Cost::cpu(beyond_ns)),
        sure,
    })
}
