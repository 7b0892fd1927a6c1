//! CPU time and context switches of a thread: an account of waits that KVM has no part in.
//!
//! A vCPU that waits is scheduled out of its own accord, so its voluntary context switches bear
//! independent cross-check to the waits of the stats fd. A few more come from the VMM's own system calls.

use std::io;

use crate::clock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    pub voluntary: u64,
    /// Another task was given its CPU.
    pub involuntary: u64,
}

/// Resources that a thread has used so far, or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUse {
    pub cpu_ns: u64,
    /// Context switches; `None` if `/proc` does not tell.
    pub switches: Option<Switches>,
}

impl ThreadUse {
    /// Resources that the calling thread has used so far.
    pub fn of_this_thread() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/thread-self/status")?;
        Ok(Self {
            cpu_ns: clock::thread_cpu_ns(),
            switches: parse_switches(&status),
        })
    }

    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let switches = self.switches.zip(before.switches);
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            switches: switches.map(|(after, before)| Switches {
                voluntary: after.voluntary.saturating_sub(before.voluntary),
                involuntary: after.involuntary.saturating_sub(before.involuntary),
            }),
        }
    }
}

/// Finds the context switches in the text of a `/proc/…/status`.
pub fn parse_switches(status: &str) -> Option<Switches> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().parse().ok()
    };
    Some(Switches {
        voluntary: field("voluntary_ctxt_switches")?,
        involuntary: field("nonvoluntary_ctxt_switches")?,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn both_kinds_are_found_and_neither_is_taken_for_the_other() {
        let text = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        let found = parse_switches(text).unwrap();
        assert_eq!((found.voluntary, found.involuntary), (150, 7));
        assert_eq!(parse_switches("voluntary_ctxt_switches:\t1\n"), None);
        assert_eq!(parse_switches(""), None);
    }

    #[test]
    fn a_thread_sees_its_own_time_grow() {
        let before = ThreadUse::of_this_thread().unwrap();
        while clock::thread_cpu_ns() == before.cpu_ns {}
        let used = ThreadUse::of_this_thread().unwrap().since(&before);
        assert!(used.cpu_ns > 0 && used.switches.is_some());
    }
}
