//! What this process may do: its effective capabilities and the sysctls that stand in for them.

use crate::root::{Root, RootError};

/// A capability that some rung asks for, with its bit in `/proc/self/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Look into other users' processes.
    SysPtrace = 19,
    /// Everything, before the others were split off (5.8).
    SysAdmin = 21,
    /// Trace the kernel.
    Perfmon = 38,
    /// Load BPF programs.
    Bpf = 39,
}

/// The rights of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    effective: u64,
    /// `kernel.perf_event_paranoid`; `None` where perf events are not built in.
    pub perf_event_paranoid: Option<i32>,
    /// Processes have the numbers here that the kernel's events give them.
    pub initial_pid_namespace: bool,
}

impl Rights {
    /// Reads them.
    pub fn read(root: &Root) -> Result<Self, RootError> {
        const PATH: &str = "proc/self/status";
        let status = root.text(PATH)?;
        let effective = effective(&status)
            .ok_or_else(|| root.malformed(PATH, &status, "a status with CapEff"))?;
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

    /// Whether a capability is effective.
    pub fn has(&self, capability: Capability) -> bool {
        self.effective & (1 << (capability as u64)) != 0
    }

    /// May load and attach the BPF programs of the first rung.
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
