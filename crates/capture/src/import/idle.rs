//! Times that CPUs spent in idle states (`power:cpu_idle`), summed up as cpuidle's counters are.

use std::collections::BTreeMap;

use haltwise_core::event::IdleState;

const MOST: usize = 1 << 13;

#[derive(Debug, Default)]
pub(super) struct IdleTimes {
    /// The state that each CPU is in, and since when.
    now: BTreeMap<u32, Option<(u32, u64)>>,
    /// Entries into each state, and time there.
    states: BTreeMap<u32, (u64, u64)>,
}

impl IdleTimes {
    pub(super) fn see(&mut self, cpu: u32, state: Option<u32>, time_ns: u64) {
        if !self.now.contains_key(&cpu) && self.now.len() >= MOST {
            return;
        }
        let before = self.now.insert(cpu, state.map(|state| (state, time_ns)));
        if let Some((state, since_ns)) = before.flatten()
            && (self.states.contains_key(&state) || self.states.len() < MOST)
        {
            let (entries, residency_ns) = self.states.entry(state).or_default();
            *entries += 1;
            *residency_ns = residency_ns.saturating_add(time_ns.saturating_sub(since_ns));
        }
    }

    /// Each state as read before the text began and at its end.
    pub(super) fn rows(&self, (start_ns, end_ns): (u64, u64)) -> Vec<IdleState> {
        let row = |time_ns: u64, state: u32, entries: u64, residency_ns: u64| IdleState {
            time_ns,
            state,
            name: format!("state{state}"),
            description: String::new(),
            cpus: u32::try_from(self.now.len()).unwrap_or(u32::MAX),
            entries,
            residency_ns,
            above: None,
            below: None,
        };
        let states = self.states.iter();
        let rows = states.flat_map(|(&state, &(entries, residency_ns))| {
            [
                row(start_ns, state, 0, 0),
                row(end_ns, state, entries, residency_ns),
            ]
        });
        rows.collect()
    }
}
