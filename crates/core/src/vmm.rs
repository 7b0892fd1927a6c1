//! Activity of a VMM beside running vCPUs: the CPU time of its threads, and the devices on its command line.
//! A recording's rules of advice ask for these; halts do not.

use serde::{Deserialize, Serialize};

/// Activity of the threads of a VMM, by the scheduler's own counts (`/proc/PID/task/TID/schedstat`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Threads {
    /// From the first look to the last.
    pub over_ns: u64,
    /// CPU time of the threads that run vCPUs; `None` where not all of these are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpu_cpu_ns: Option<u64>,
    /// CPU time of the process's first thread: QEMU's main loop, which serves its timers.
    pub main_cpu_ns: u64,
    /// How often that thread was given a CPU.
    pub main_runs: u64,
    /// CPU time of all threads that run no vCPU, the first one's with it; `None` as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpu_ns: Option<u64>,
    /// The thread that took most CPU time among those that are neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_cpu_ns: Option<u64>,
}

/// Activity of the thread of a vCPU in the time of the VM's [`Threads`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VcpuTime {
    pub cpu_ns: u64,
    /// Time in which it was runnable and waited for a CPU.
    pub queued_ns: u64,
    /// CPU time in the guest, as the kernel's tick samples it (`guest_time` of `/proc/PID/task/TID/stat`).
    pub guest_ns: u64,
    /// Whether it has a real-time scheduling policy, and so waits for no other task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time: Option<bool>,
}

/// The CPU time of a VM by what it was spent on, in CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuUse {
    pub all: f64,
    /// The guest; `None` where the kernel counts no guest time, as where KVM virtualises in software.
    pub guest: Option<f64>,
    /// The rest of the threads that run vCPUs, without polling: exits, and what KVM and the VMM do about them.
    pub exits: Option<f64>,
    /// Threads that run no vCPU.
    pub vmm: f64,
}

/// With so much CPU time of vCPUs a tick has found one in its guest, if the kernel counts guest time.
const SAMPLED_NS: u64 = 100_000_000;

impl Threads {
    /// CPU use of a VM whose vCPUs polled on so many CPUs; `None` where the vCPUs' threads are not known.
    pub fn cpu_use(
        &self,
        vcpus: impl Iterator<Item = Option<VcpuTime>>,
        polling: Option<f64>,
    ) -> Option<CpuUse> {
        let cpus = |ns: u64| self.per_s(ns) / 1e9;
        let (vcpu_ns, vmm_ns) = (self.vcpu_cpu_ns?, self.others_cpu_ns?);
        let guest = self.guest_ns(vcpus).map(cpus);
        let exits = guest.zip(polling);
        if self.over_ns == 0 {
            return None;
        }
        Some(CpuUse {
            all: cpus(self.cpu_ns()?),
            guest,
            exits: exits.map(|(guest, polling)| (cpus(vcpu_ns) - guest - polling).max(0.0)),
            vmm: cpus(vmm_ns),
        })
    }

    /// CPU time of the guest; `None` where the kernel counts none.
    pub fn guest_ns(&self, vcpus: impl Iterator<Item = Option<VcpuTime>>) -> Option<u64> {
        let all_ns = self.vcpu_cpu_ns?;
        let guest_ns: Option<u64> = vcpus.map(|time| Some(time?.guest_ns)).sum();
        let counted = guest_ns.filter(|ns| *ns > 0 || all_ns < SAMPLED_NS);
        counted.map(|ns| ns.min(all_ns))
    }

    pub fn cpu_ns(&self) -> Option<u64> {
        Some(self.vcpu_cpu_ns?.saturating_add(self.others_cpu_ns?))
    }

    pub fn per_s(&self, count: u64) -> f64 {
        if self.over_ns == 0 {
            return 0.0;
        }
        count as f64 * 1e9 / self.over_ns as f64
    }
}

/// Facts about the machine from QEMU's command line, as far as rules ask for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own on a command line"
)]
pub struct Machine {
    /// Whether there is an HPET; `None` where the machine's default decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpet: Option<bool>,
    /// A virtio device has `ioeventfd=off`.
    pub no_ioeventfd: bool,
    /// Threads for devices (`-object iothread`).
    pub iothreads: u32,
    /// A network device is served by the kernel, or by another process (vhost).
    pub vhost: bool,
    /// Memory is on huge pages by request (`hugetlbfs`).
    pub huge_pages: bool,
    /// Halts stay inside the guest (`-overcommit cpu-pm=on`).
    pub cpu_pm: bool,
}

#[cfg(test)]
mod test {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn cpu_time_is_told_by_what_it_was_spent_on() {
        let threads = Threads {
            over_ns: 2 * SECOND,
            vcpu_cpu_ns: Some(SECOND),
            others_cpu_ns: Some(SECOND / 2),
            ..Threads::default()
        };
        let time = |guest_ns| {
            let rest = VcpuTime::default();
            Some(VcpuTime { guest_ns, ..rest })
        };
        let of = |times: &[_], polling| threads.cpu_use(times.iter().copied(), polling).unwrap();
        let known = of(&[time(SECOND / 4), time(SECOND / 4)], Some(0.125));
        let expected = CpuUse {
            all: 0.75,
            guest: Some(0.25),
            exits: Some(0.125),
            vmm: 0.25,
        };
        assert_eq!(known, expected);
        // A tick samples: no part is above its whole.
        let much = of(&[time(3 * SECOND)], Some(0.1));
        assert_eq!((much.guest, much.exits), (Some(0.5), Some(0.0)));
        for times in [&[time(0)][..], &[time(SECOND), None]] {
            let unknown = of(times, Some(0.1));
            let parts = (unknown.all, unknown.guest, unknown.exits);
            assert_eq!(parts, (0.75, None, None));
        }
        assert_eq!(of(&[time(SECOND)], None).exits, None);
        let no_looks = Threads::default();
        assert_eq!(no_looks.cpu_use([].into_iter(), Some(0.0)), None);
    }
}
