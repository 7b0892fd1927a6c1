//! Exits and idle states of a text, counted as a recorder counts them: exits by thread and cause, with the times from
//! exit to entry, idle states as cpuidle's counters have them.

use std::collections::BTreeMap;
use std::fmt;

use haltwise_core::event::IdleState;
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use serde::{Serialize, Serializer};

/// Entries at one address that show a loop.
const MANY: u64 = 100;

/// A reason, where its name is known.
pub(super) type Reason = Option<(Isa, u32)>;

#[derive(Debug, Default)]
pub(super) struct ExitCounts {
    threads: BTreeMap<Tid, OfThread>,
    pub(super) exits: u64,
}

#[derive(Debug, Default)]
struct OfThread {
    /// The exit whose entry has not come yet.
    open: Option<(u64, Reason)>,
    causes: BTreeMap<Reason, (u64, LogHist)>,
    entered_ns: Option<u64>,
    entries: u64,
    address: Option<u64>,
    moves: bool,
}

/// A thread that enters its guest at one address alone and never halts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spinning {
    pub vm: String,
    pub vcpu: Option<VcpuId>,
    /// How often it entered the guest.
    pub entries: u64,
    pub address: u64,
}

impl fmt::Display for Spinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spins: ")?;
        match self.vcpu {
            Some(vcpu) => write!(f, "vCPU {vcpu}")?,
            None => f.write_str("a vCPU")?,
        }
        let (vm, entries, address) = (&self.vm, self.entries, self.address);
        write!(
            f,
            " of {vm}: {entries} entries at one address ({address:#x}), no HLT; look in the guest, no \
             setting of KVM helps"
        )
    }
}

impl Serialize for Spinning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl ExitCounts {
    /// Takes an exit; false if it is the last one again.
    pub(super) fn exit(&mut self, tid: Tid, time_ns: u64, reason: Reason) -> bool {
        let thread = self.threads.entry(tid).or_default();
        if thread.open == Some((time_ns, reason)) {
            return false;
        }
        thread.open = Some((time_ns, reason));
        thread.causes.entry(reason).or_default().0 += 1;
        self.exits += 1;
        true
    }

    /// Takes an entry; false if it is the last one again.
    pub(super) fn entry(&mut self, tid: Tid, time_ns: u64, address: Option<u64>) -> bool {
        let thread = self.threads.entry(tid).or_default();
        if thread.open.is_none() && thread.entered_ns == Some(time_ns) {
            return false;
        }
        thread.entered_ns = Some(time_ns);
        thread.entries += 1;
        let before = thread.address.replace(address.unwrap_or_default());
        thread.moves |=
            address.is_none() || before.is_some_and(|before| thread.address != Some(before));
        if let Some((exit_ns, reason)) = thread.open.take()
            && let Some((_, times)) = thread.causes.get_mut(&reason)
        {
            times.record(time_ns.saturating_sub(exit_ns));
        }
        true
    }

    /// Events of some CPU are missing: what is open stays without a time.
    pub(super) fn gap(&mut self) {
        for thread in self.threads.values_mut() {
            thread.open = None;
        }
    }

    /// All counts, over the whole text.
    pub(super) fn rows(
        &self,
        (start_ns, end_ns): (u64, u64),
        place: impl Fn(Tid) -> (Option<VmIndex>, Option<VcpuId>),
    ) -> Vec<Exits> {
        let row = |tid: Tid, kind: Kind, reason: Reason, (count, times): &(u64, LogHist)| {
            let (vm, vcpu) = place(tid);
            let (isa, reason) = reason.unzip();
            Exits {
                time_ns: end_ns,
                interval_ns: end_ns.saturating_sub(start_ns),
                vm,
                vcpu,
                tid,
                cause: Cause {
                    kind,
                    isa: isa.unwrap_or_default(),
                    reason,
                    sub: None,
                },
                count: *count,
                user_ns: 0,
                handling_ns: times.clone(),
            }
        };
        let mut rows = Vec::new();
        for (&tid, thread) in &self.threads {
            let causes = thread.causes.iter();
            rows.extend(causes.map(|(reason, counted)| row(tid, Kind::Exit, *reason, counted)));
            let entries = (thread.entries, LogHist::default());
            rows.extend((entries.0 > 0).then(|| row(tid, Kind::Entry, None, &entries)));
        }
        rows
    }

    /// Threads that spin, and where.
    pub(super) fn spinning(&self) -> impl Iterator<Item = (Tid, u64, u64)> {
        let is_halt = |(isa, reason): &(Isa, u32)| isa.halt_reasons().contains(reason);
        self.threads.iter().filter_map(move |(tid, thread)| {
            let halts = thread.causes.keys().flatten().any(is_halt);
            let spins = !thread.moves && !halts && thread.entries >= MANY;
            thread
                .address
                .filter(|_| spins)
                .map(|address| (*tid, thread.entries, address))
        })
    }
}

/// CPUs, and states of them, at most.
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
