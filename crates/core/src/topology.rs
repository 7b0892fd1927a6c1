//! CPUs of the host: which of them share a core or a cache, and how far a waker was from the vCPU that it woke.

use serde::{Deserialize, Serialize};

use crate::account::ledger::Ledger;
use crate::stats::Fold;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cpu {
    pub id: u32,
    /// The first CPU of its core: CPUs of one core are siblings.
    pub core: u32,
    /// The first CPU of those that share its last-level cache.
    #[serde(default)]
    pub cache: Option<u32>,
    /// Time that it was not idle while recorded; `None` while that is going on.
    #[serde(default)]
    pub busy_ns: Option<u64>,
}

impl Cpu {
    pub fn is_sibling(&self, other: &Self) -> bool {
        self.core == other.core && self.id != other.id
    }
}

crate::names! {
    /// How far a waker's CPU is from that on which the woken vCPU ran then.
    pub enum Distance {
        Same = "same-cpu",
        /// Another thread of the same core.
        Sibling = "sibling",
        /// Another core, the same last-level cache.
        Cache = "same-cache",
        Other = "other",
        /// One of the CPUs, or its place, was not recorded.
        Unknown = "unknown",
    }
}

impl Distance {
    fn between(cpus: &[Cpu], one: u32, other: u32) -> Self {
        let find = |id| cpus.iter().find(|cpu| cpu.id == id);
        match (find(one), find(other)) {
            _ if one == other => Self::Same,
            (Some(one), Some(other)) if one.core == other.core => Self::Sibling,
            (Some(one), Some(other)) if one.cache.is_some() && one.cache == other.cache => {
                Self::Cache
            }
            (Some(_), Some(_)) => Self::Other,
            _ => Self::Unknown,
        }
    }

    /// Wake-ups that had a waker, by its distance, in the order of [`Distance::ALL`].
    pub fn of_wakers(cpus: &[Cpu], ledger: &Ledger) -> [u64; Self::ALL.len()] {
        let mut counts = [0; Self::ALL.len()];
        for (&(cpu, waker), seen) in ledger.cpus.rows() {
            if let Some(waker) = waker {
                let distance = Self::between(cpus, cpu, waker);
                counts[distance as usize].fold(&seen.halts);
            }
        }
        counts
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::event::Halt;

    #[test]
    fn the_distance_of_a_waker_is_that_of_cores_and_caches() {
        let cpu = |id, core, cache| Cpu {
            id,
            core,
            cache,
            busy_ns: None,
        };
        let cpus = [
            cpu(0, 0, Some(0)),
            cpu(1, 0, Some(0)),
            cpu(2, 2, Some(0)),
            cpu(3, 3, Some(3)),
        ];
        let mut ledger = Ledger::default();
        for waker in [Some(0), Some(1), Some(2), Some(3), Some(9), None] {
            ledger.halt(&Halt {
                cpu: Some(0),
                waker_cpu: waker,
                ..Halt::default()
            });
        }
        assert_eq!(Distance::of_wakers(&cpus, &ledger), [1; 5]);
        assert_eq!(Distance::of_wakers(&[], &ledger), [1, 0, 0, 0, 4]);
        assert!(cpus[0].is_sibling(&cpus[1]) && !cpus[0].is_sibling(&cpus[0]));
    }
}
