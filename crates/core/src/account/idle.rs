//! How long and how often the CPUs were in each state of cpuidle.

use serde::Serialize;

use super::seen::{Bounded, Ends, Newest};
use super::sums::folds;
use crate::event::IdleState;
use crate::stats::Fold;

/// States told apart; a machine has at most ten of each kind of its CPUs.
const STATES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdleStates(Bounded<(u32, String), StateSeen, STATES>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct StateSeen {
    /// CPUs that have it, and its description.
    last: Newest<(u32, String)>,
    entries: Ends,
    residency: Ends,
    above: Ends,
    below: Ends,
}

/// A state between its first reading and its last.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateUse {
    pub state: u32,
    pub name: String,
    pub description: String,
    pub cpus: u32,
    /// How often it was entered, by all CPUs together.
    pub entries: u64,
    pub entries_per_s: f64,
    /// How long they were in it, all together.
    pub residency_ns: u64,
    /// The share of its CPUs' time that was spent in it.
    pub share: f64,
    pub mean_ns: Option<u64>,
    /// Entries that were too short for it, see [`IdleState::above`].
    pub above: Option<u64>,
    /// Entries that were long enough for the next deeper one.
    pub below: Option<u64>,
}

impl IdleStates {
    pub(super) fn see(&mut self, read: &IdleState) {
        let mut seen = StateSeen {
            last: Newest::default(),
            entries: Ends::at(read.time_ns, Some(read.entries)),
            residency: Ends::at(read.time_ns, Some(read.residency_ns)),
            above: Ends::at(read.time_ns, read.above),
            below: Ends::at(read.time_ns, read.below),
        };
        let known = (read.cpus, read.description.clone());
        seen.last.see(read.time_ns, known);
        self.0.add((read.state, read.name.clone()), &seen);
    }

    /// The states of which there are two readings, the shallowest first. A counter that has shrunk (a CPU went
    /// offline) leaves its state out.
    pub fn used(&self) -> impl Iterator<Item = StateUse> {
        self.0.rows().filter_map(|((state, name), seen)| {
            let (cpus, description) = seen.last.value()?;
            let (entries, time_ns) = seen.entries.grown()?;
            let grown = |ends: &Ends| ends.grown().map(|(count, _)| count);
            let residency_ns = grown(&seen.residency)?;
            let available_ns = time_ns as f64 * f64::from((*cpus).max(1));
            Some(StateUse {
                state: *state,
                name: name.clone(),
                description: description.clone(),
                cpus: *cpus,
                entries,
                entries_per_s: entries as f64 * 1e9 / time_ns as f64,
                residency_ns,
                share: (residency_ns as f64 / available_ns).clamp(0.0, 1.0),
                mean_ns: residency_ns.checked_div(entries),
                above: grown(&seen.above),
                below: grown(&seen.below),
            })
        })
    }
}

impl Fold for IdleStates {
    fn fold(&mut self, other: &Self) {
        self.0.fold(&other.0);
    }
}

folds! {
    StateSeen { last, entries, residency, above, below }
}

#[cfg(test)]
mod test {
    use super::*;

    fn read(time_ns: u64, state: u32, name: &str, entries: u64, residency_ns: u64) -> IdleState {
        IdleState {
            time_ns,
            state,
            name: name.to_owned(),
            description: format!("the state {name}"),
            cpus: 2,
            entries,
            residency_ns,
            above: Some(entries / 10),
            below: None,
        }
    }

    /// Whatever is read in between and in whatever order, a state's use is what its counters grew by.
    #[test]
    fn a_state_was_used_by_what_its_counters_grew() {
        let readings = [
            read(1_000, 1, "C1", 100, 5_000),
            read(2_000, 1, "C1", 150, 5_400),
            read(3_000, 1, "C1", 300, 6_000),
            read(1_000, 0, "POLL", 7, 70),
            read(3_000, 0, "POLL", 7, 70),
        ];
        let [mut forwards, mut backwards] = [(); 2].map(|()| IdleStates::default());
        for it in &readings {
            forwards.see(it);
        }
        readings.iter().rev().for_each(|it| backwards.see(it));
        assert_eq!(forwards, backwards);
        let used: Vec<_> = forwards.used().collect();
        let names: Vec<_> = used.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["POLL", "C1"]);
        let c1 = &used[1];
        assert_eq!((c1.entries, c1.residency_ns), (200, 1_000));
        assert_eq!((c1.above, c1.below), (Some(20), None));
        assert!((c1.share - 0.25).abs() < 1e-12);
        assert!((c1.entries_per_s - 1e8).abs() < 1e-3);
        assert_eq!((used[0].entries, used[0].residency_ns), (0, 0));
    }
}
