//! What a VMM does beside running vCPUs: the CPU time of its threads, and what its command line says of its
//! devices. A recording's rules of advice ask for these; halts do not.

use serde::{Deserialize, Serialize};

/// What the threads of a VMM did, by the scheduler's own counts (`/proc/PID/task/TID/schedstat`).
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
    /// CPU time of that thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_cpu_ns: Option<u64>,
}

impl Threads {
    /// A count in each second of those looks.
    pub fn per_s(&self, count: u64) -> f64 {
        if self.over_ns == 0 {
            return 0.0;
        }
        count as f64 * 1e9 / self.over_ns as f64
    }
}

/// What QEMU's command line says of the machine, as far as rules ask for it.
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
