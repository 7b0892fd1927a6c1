//! What this process may do: its effective capabilities and the sysctls that stand in for them.

use rustix::thread::{CapabilitySet, capabilities};

use crate::root::{Root, RootError};

/// A capability that a recorder makes use of, with its bit in `/proc/self/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    DacReadSearch = 2,
    /// Lock memory beyond the limit.
    IpcLock = 14,
    SysPtrace = 19,
    /// Everything, before the others were split off (5.8).
    SysAdmin = 21,
    Syslog = 34,
    Perfmon = 38,
    Bpf = 39,
    /// Open the files that a process has mapped (5.9).
    CheckpointRestore = 40,
}

impl Capability {
    /// All of them, the most needed first.
    pub const ALL: [Self; 8] = [
        Self::Bpf,
        Self::Perfmon,
        Self::SysPtrace,
        Self::DacReadSearch,
        Self::IpcLock,
        Self::Syslog,
        Self::CheckpointRestore,
        Self::SysAdmin,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Syslog => "CAP_SYSLOG",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
            Self::CheckpointRestore => "CAP_CHECKPOINT_RESTORE",
        }
    }

    /// Which sources, modes and names a recording has by it.
    pub fn gives(self) -> &'static str {
        match self {
            Self::Bpf => {
                "with CAP_PERFMON: source bpf, the modes events, counts and stats, --exits, and VMs of all users"
            }
            Self::Perfmon => "source tracepoints; --profile; with CAP_BPF: source bpf",
            Self::SysPtrace => {
                "with CAP_DAC_READ_SEARCH: names of other users' VMs, and their processes for source tracepoints"
            }
            Self::DacReadSearch => {
                "with CAP_SYS_PTRACE: names of other users' VMs; tracefs, for source tracepoints"
            }
            Self::IpcLock => {
                "source tracepoints and --profile: buffers larger than kernel.perf_event_mlock_kb"
            }
            Self::Syslog => "--profile: names of kernel functions where their addresses are hidden",
            Self::CheckpointRestore => {
                "--profile: function names of VMMs whose files are deleted, in a container or on btrfs"
            }
            Self::SysAdmin => {
                "what the BPF programs cost; mounting tracefs; read-only mounts for the recorder. Before Linux 5.8 \
                 also what CAP_BPF and CAP_PERFMON give, before 5.9 what CAP_CHECKPOINT_RESTORE gives"
            }
        }
    }
}

const STATUS: &str = "proc/self/status";

/// Whether this very process may trace the kernel now.
pub(crate) fn may_trace_now() -> bool {
    holds(CapabilitySet::PERFMON) || holds(CapabilitySet::SYS_ADMIN)
}

/// Whether it may load BPF programs.
pub(crate) fn may_load_now() -> bool {
    holds(CapabilitySet::BPF | CapabilitySet::PERFMON) || holds(CapabilitySet::SYS_ADMIN)
}

/// Whether a filter of system calls (seccomp) stands over it, as container engines install one.
pub(crate) fn is_filtered_now() -> bool {
    let status = Root::host().text(STATUS);
    status.is_ok_and(|status| is_filtered(&status))
}

fn holds(wanted: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    effective: u64,
    /// `kernel.perf_event_paranoid`; `None` where perf events are not built in.
    pub perf_event_paranoid: Option<i32>,
    /// Processes have the numbers here that the kernel's events give them.
    pub initial_pid_namespace: bool,
}

impl Rights {
    pub fn read(root: &Root) -> Result<Self, RootError> {
        let status = root.text(STATUS)?;
        let effective = effective(&status)
            .ok_or_else(|| root.malformed(STATUS, &status, "a status with CapEff"))?;
        let paranoid = match root.number("proc/sys/kernel/perf_event_paranoid") {
            Ok(level) => Some(level),
            Err(error) if error.is_absent() => None,
            Err(error) => return Err(error),
        };
        // PROC_PID_INIT_INO in include/linux/proc_ns.h: the number of the first namespace.
        let namespace = root.link("proc/self/ns/pid");
        Ok(Self {
            effective,
            perf_event_paranoid: paranoid,
            initial_pid_namespace: namespace
                .map_or(true, |link| link.as_os_str() == "pid:[4026531836]"),
        })
    }

    pub fn has(&self, capability: Capability) -> bool {
        self.effective & (1 << (capability as u64)) != 0
    }

    /// May load and attach the BPF programs of the BPF source.
    pub fn may_load_bpf(&self) -> bool {
        self.has(Capability::SysAdmin)
            || (self.has(Capability::Bpf) && self.has(Capability::Perfmon))
    }

    /// May read the raw data of tracepoints on whole CPUs (`perf_paranoid_tracepoint_raw` in
    /// `include/linux/perf_event.h`).
    pub fn may_trace(&self) -> bool {
        self.has(Capability::SysAdmin)
            || self.has(Capability::Perfmon)
            || self.perf_event_paranoid.is_some_and(|level| level < 0)
    }
}

fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// `SECCOMP_MODE_FILTER` in `include/uapi/linux/seccomp.h` is 2.
fn is_filtered(status: &str) -> bool {
    let mut modes = status
        .lines()
        .filter_map(|line| line.strip_prefix("Seccomp:"));
    modes.any(|mode| mode.trim() == "2")
}

#[cfg(test)]
mod test {
    use super::*;

    fn with(effective: u64, paranoid: Option<i32>) -> Rights {
        Rights {
            effective,
            perf_event_paranoid: paranoid,
            initial_pid_namespace: true,
        }
    }

    #[test]
    fn the_mask_is_read_as_the_kernel_writes_it() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t000001fffeffffff\nCapBnd:\t0\n";
        assert_eq!(effective(status), Some(0x1ff_feff_ffff));
        for bad in ["", "CapEff:", "CapEff:\tzz", "CapPrm:\t1"] {
            assert_eq!(effective(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_container_engines_filter_is_seen() {
        assert!(is_filtered(
            "CapEff:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n"
        ));
        for without in ["", "Seccomp:\t0\nSeccomp_filters:\t0\n", "Seccomp:\t1\n"] {
            assert!(!is_filtered(without), "{without}");
        }
    }

    #[test]
    fn who_may_do_what() {
        let (bpf, perfmon, admin) = (1 << 39, 1 << 38, 1 << 21);
        assert!(with(admin, Some(2)).may_load_bpf());
        assert!(with(bpf | perfmon, Some(2)).may_load_bpf());
        assert!(!with(bpf, Some(2)).may_load_bpf());
        assert!(with(perfmon, Some(2)).may_trace());
        assert!(with(0, Some(-1)).may_trace());
        assert!(!with(0, Some(0)).may_trace());
        assert!(!with(0, None).may_trace());
    }
}
