//! Rights of this process: its effective capabilities and the sysctls that stand in for them.

use rustix::thread::{CapabilitySet, capabilities};

use crate::root::{Root, RootError};

#[derive(Debug)]
pub struct Capability {
    pub name: &'static str,
    pub own: CapabilitySet,
    pub gives: &'static str,
}

pub const CAPABILITIES: [Capability; 8] = [
    Capability {
        name: "CAP_BPF",
        own: CapabilitySet::BPF,
        gives: "with CAP_PERFMON: source bpf, the modes events, counts and stats, --exits, and VMs of all users",
    },
    Capability {
        name: "CAP_PERFMON",
        own: CapabilitySet::PERFMON,
        gives: "source tracepoints; --profile; with CAP_BPF: source bpf",
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        own: CapabilitySet::SYS_PTRACE,
        gives: "with CAP_DAC_READ_SEARCH: names of other users' VMs, and their processes for source tracepoints",
    },
    Capability {
        name: "CAP_DAC_READ_SEARCH",
        own: CapabilitySet::DAC_READ_SEARCH,
        gives: "with CAP_SYS_PTRACE: names of other users' VMs; tracefs, for source tracepoints",
    },
    Capability {
        name: "CAP_IPC_LOCK",
        own: CapabilitySet::IPC_LOCK,
        gives: "source tracepoints and --profile: buffers larger than kernel.perf_event_mlock_kb",
    },
    Capability {
        name: "CAP_SYSLOG",
        own: CapabilitySet::SYSLOG,
        gives: "--profile: names of kernel functions where their addresses are hidden",
    },
    Capability {
        name: "CAP_CHECKPOINT_RESTORE",
        own: CapabilitySet::CHECKPOINT_RESTORE,
        gives: "--profile: function names of VMMs whose files are deleted, in a container or on btrfs",
    },
    Capability {
        name: "CAP_SYS_ADMIN",
        own: CapabilitySet::SYS_ADMIN,
        gives: "what the BPF programs cost; mounting tracefs; read-only mounts for the recorder. Before Linux 5.8 \
                also what CAP_BPF and CAP_PERFMON give, before 5.9 what CAP_CHECKPOINT_RESTORE gives",
    },
];

const STATUS: &str = "proc/self/status";

/// Whether this very process may trace the kernel now.
pub(crate) fn may_trace_now() -> bool {
    capabilities(None).is_ok_and(|sets| has_either(sets.effective, CapabilitySet::PERFMON))
}

pub(crate) fn may_load_now() -> bool {
    capabilities(None).is_ok_and(|sets| has_either(sets.effective, TO_LOAD))
}

/// Whether a filter of system calls (seccomp) stands over it, as container engines install one.
pub(crate) fn is_filtered_now() -> bool {
    let status = Root::host().text(STATUS);
    status.is_ok_and(|status| is_filtered(&status))
}

const TO_LOAD: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

/// Whether these capabilities are held, or the one that stood for them before.
fn has_either(held: CapabilitySet, wanted: CapabilitySet) -> bool {
    held.contains(wanted) || held.contains(CapabilitySet::SYS_ADMIN)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    effective: CapabilitySet,
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

    pub fn has(&self, capabilities: CapabilitySet) -> bool {
        self.effective.contains(capabilities)
    }

    /// May load and attach the BPF programs of the BPF source.
    pub fn may_load_bpf(&self) -> bool {
        has_either(self.effective, TO_LOAD)
    }

    /// May read the raw data of tracepoints on whole CPUs (`perf_paranoid_tracepoint_raw` of Linux).
    pub fn may_trace(&self) -> bool {
        has_either(self.effective, CapabilitySet::PERFMON)
            || self.perf_event_paranoid.is_some_and(|level| level < 0)
    }
}

fn effective(status: &str) -> Option<CapabilitySet> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(CapabilitySet::from_bits_retain(bits))
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

    #[test]
    fn a_container_engines_filter_is_seen() {
        assert!(is_filtered(
            "CapEff:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n"
        ));
        for without in ["", "Seccomp:\t0\nSeccomp_filters:\t0\n", "Seccomp:\t1\n"] {
            assert!(!is_filtered(without), "{without}");
        }
    }
}
