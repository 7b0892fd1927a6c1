//! The account of a recording's exits: how many, how long, and whose.
//!
//! Rows go in one by one, in any order. What comes out is as large as there are causes, or VMs, or
//! vCPUs, or seconds: never as there are rows.
//!
//! A halt's exit lasts until something wakes the guest: time in which its CPU is free for others. So
//! the halt account is taken in its place: what the vCPU polled and what its wake-up took is the
//! host's work, what it slept is not.

use std::collections::BTreeMap;

use super::{Cause, Exits, Isa, Kind};
use crate::account::parts::Parts;
use crate::account::sums::folds;
use crate::hist::LogHist;
use crate::ids::{VcpuId, VmIndex};
use crate::stats::{Fold, folded, total};

/// By what exits are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    #[default]
    Reason,
    Vm,
    Vcpu,
    Second,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    pub count: u64,
    /// The part of `handling_ns` spent in user space.
    pub user_ns: u64,
    /// Times, of those whose time is known.
    pub handling_ns: LogHist,
}

impl Tally {
    fn add(&mut self, row: &Exits) {
        self.count.fold(&row.count);
        self.user_ns.fold(&row.user_ns);
        self.handling_ns.merge(&row.handling_ns);
    }

    pub fn time_ns(&self) -> u64 {
        self.handling_ns.sum()
    }

    pub fn kernel_ns(&self) -> u64 {
        self.time_ns().saturating_sub(self.user_ns)
    }

    /// Those whose time is not known.
    pub fn untimed(&self) -> u64 {
        self.count.saturating_sub(self.handling_ns.count())
    }
}

/// VM and vCPU of the exits; `None` where they are not told apart by it, or where it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Group {
    pub vm: Option<VmIndex>,
    pub vcpu: Option<VcpuId>,
    /// The second of the recording, from 0.
    pub second: Option<u64>,
}

/// Events between the guests and the host, for one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Passed {
    /// Exits other than those by which the guest halted.
    pub exits: Tally,
    pub halts: Tally,
    /// Returns of `KVM_RUN` to the VMM.
    pub userspace: Tally,
    pub entries: u64,
    /// Entries after another, with no exit told between them.
    pub lone_entries: u64,
    pub injections: u64,
    /// Instructions emulated, or tried.
    pub emulations: u64,
    /// Exits that found no room in the recorder's table: neither whose nor which is known.
    pub other: u64,
}

impl Passed {
    /// All exits that were told apart.
    pub fn exits_in_all(&self) -> u64 {
        self.exits.count.saturating_add(self.halts.count)
    }

    fn add(&mut self, row: &Exits) {
        let more = |sum: &mut u64| sum.fold(&row.count);
        match row.cause.kind {
            Kind::Exit if row.cause.is_halt() => self.halts.add(row),
            Kind::Exit => self.exits.add(row),
            Kind::UserspaceExit => self.userspace.add(row),
            Kind::Entry => more(&mut self.entries),
            Kind::LoneEntry => more(&mut self.lone_entries),
            Kind::InjVirq => more(&mut self.injections),
            Kind::EmulateInsn => more(&mut self.emulations),
            Kind::Other => more(&mut self.other),
            // A sub-key of an exit counts nothing of its own.
            _ => {}
        }
    }
}

folds! {
    Tally { count, user_ns, handling_ns }
    Passed { exits, halts, userspace, entries, lone_entries, injections, emulations, other }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// By cause; sub-keys are causes of their own.
    pub causes: BTreeMap<Cause, Tally>,
    /// By group. One group, all `None`, if they are told apart by reason.
    pub groups: BTreeMap<Group, Passed>,
    by: By,
    start_ns: u64,
}

/// Both accounts have the same [`By`].
impl Fold for Account {
    fn fold(&mut self, other: &Self) {
        self.causes.fold(&other.causes);
        self.groups.fold(&other.groups);
    }
}

impl Account {
    /// An empty account of a recording that began at `start_ns`.
    pub fn new(by: By, start_ns: u64) -> Self {
        Self {
            by,
            start_ns,
            ..Self::default()
        }
    }

    pub fn add(&mut self, row: &Exits) {
        self.causes.entry(row.cause).or_default().add(row);
        if !row.cause.kind.is_sub() {
            self.groups.entry(self.group(row)).or_default().add(row);
        }
    }

    fn group(&self, row: &Exits) -> Group {
        match self.by {
            By::Reason => Group::default(),
            By::Vm => Group {
                vm: row.vm,
                ..Group::default()
            },
            By::Vcpu => Group {
                vm: row.vm,
                vcpu: row.vcpu,
                second: None,
            },
            // The middle of an interval, whose ends lie near those of seconds.
            By::Second => Group {
                second: Some(
                    row.time_ns
                        .saturating_sub(row.interval_ns / 2)
                        .saturating_sub(self.start_ns)
                        / 1_000_000_000,
                ),
                ..Group::default()
            },
        }
    }

    pub fn total(&self) -> Passed {
        folded(self.groups.values())
    }

    /// Causes of a kind, the longest time first, then the most frequent, then by number. A halt's
    /// exits stand by what they cost the host: see [`Account::host_ns`].
    pub fn ranked(&self, wanted: impl Fn(&Cause) -> bool, halted: &Parts) -> Vec<(Cause, &Tally)> {
        let mut rows: Vec<_> = self
            .causes
            .iter()
            .filter(|(cause, _)| wanted(cause))
            .map(|(cause, tally)| (*cause, tally))
            .collect();
        rows.sort_by_cached_key(|(cause, tally)| {
            let first = std::cmp::Reverse((self.host_ns(cause, halted), tally.count));
            (first, *cause)
        });
        rows
    }

    /// Host time that exits of a cause cost: all of their time, except the sleep of halts and the time of halts whose
    /// use is not known.
    ///
    /// `halted` is the halted time of the halts whose exits these are ([`super::halted`]). Where guests halt by exits
    /// of two reasons, each has its part of the sleep, by its time; the parts add up.
    pub fn host_ns(&self, cause: &Cause, halted: &Parts) -> u64 {
        let time_ns = self.causes.get(cause).map_or(0, Tally::time_ns);
        if !cause.is_halt() {
            return time_ns;
        }
        let (mut before, mut whole) = (0_u128, 0_u128);
        for (other, tally) in self.causes.iter().filter(|(other, _)| other.is_halt()) {
            whole += u128::from(tally.time_ns());
            before += u128::from(if other < cause { tally.time_ns() } else { 0 });
        }
        let asleep_ns = u128::from(halted.sleep_ns) + u128::from(halted.unknown_ns);
        let slept = |ns: u128| asleep_ns * ns / whole.max(1);
        let part = slept(before + u128::from(time_ns)) - slept(before);
        time_ns.saturating_sub(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// The instruction set of the exits, if there were any.
    pub fn isa(&self) -> Option<Isa> {
        let mut exits = self.causes.keys().filter(|cause| cause.kind == Kind::Exit);
        exits.next().map(|cause| cause.isa)
    }
}

/// Over how long exits were counted: the intervals of all readings. A reading is known by its time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted(BTreeMap<u64, u64>);

impl Counted {
    pub fn row(&mut self, row: &Exits) {
        self.0.insert(row.time_ns, row.interval_ns);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The length of all of them; `None` without a reading.
    pub fn length_ns(&self) -> Option<u64> {
        let sum = total(self.0.values());
        (sum > 0).then_some(sum)
    }
}

#[cfg(test)]
pub(crate) mod test;
