//! Threads of a VMM that run no vCPU and take CPU time while the guest rests: they poll.
//!
//! An iothread of QEMU polls for up to poll-max-ns after each event before it sleeps, a worker of vhost-net for up
//! to its busy loop's limit (`poll-us`). With limits that reach from one event to the next they take a CPU each, for
//! a guest that has hardly anything to do. The main thread is `qemu-hpet`'s. A worker of vhost is a thread of the
//! VMM since Linux 6.4; the process of a vhost-user device (DPDK, SPDK, virtiofsd) is not, and no recording shows it.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "vmm-threads",
    title: "threads of the VMM that take CPU time while the guest rests",
    source: "iothread.c and util/aio-posix.c of QEMU; vhost_net_busy_poll in drivers/vhost/net.c, 441abde4cd84",
    look: |evidence| {
        let lacks = "the VMM's other threads were not recorded";
        evidence.each_threads(|threads| threads.others_cpu_ns, lacks, of_guest)
    },
};

/// These threads take at least this much of a CPU beyond what wake-ups of the guest explain. With QEMU's default
/// limit a thread needs 6100 events in a second to poll for so long, and at most two of them belong to one wake-up.
const MUCH: f64 = 0.2;

/// The guest rests: its vCPUs are halted for this share of the time, as in `qemu-hpet`.
const RESTS: f64 = 0.8;

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
fn remedy(guest: &Guest<'_>, name: &str) -> Option<(Remedy, Sure)> {
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

fn of_guest(_: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
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
    let (remedy, sure) = remedy(guest, name)?;
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
