//! The part of an account that lies within the interval of observation.
//!
//! KVM tells of a halt when it ends, and of how long it was: the first halt of a recording began before it.
//! Shares of time are taken of what lies within, so that none exceeds its whole.
//!
//! Example: watched from 100 to 300 us; a halt from 0 to 150 us, which polled 50 us and slept the rest, and
//! one from 200 to 260 us. Halted within: 50 + 60 us of 200.

use super::Account;
use super::ledger::{Ledger, Place};
use super::parts::Parts;
use super::seen::Span;
use crate::event::{Halt, Vm};
use crate::stats::Fold;

/// Clock ticks in which `/proc/PID/stat` counts: `USER_HZ` is 100 wherever KVM runs.
pub const TICK_NS: u64 = 10_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Interval {
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// How often in a second of it.
    pub fn per_s(&self, count: u64) -> f64 {
        match self.length_ns() {
            0 => 0.0,
            ns => count as f64 / (ns as f64 / 1e9),
        }
    }

    /// While a VM was there, which is all of it where nothing else is known. A first halt in the middle does
    /// not mean that the VM came then.
    #[must_use]
    pub fn of_vm(&self, vm: &Vm) -> Self {
        // Older recorders noted only when its process began.
        let began_ns = Some(vm.key.start_ticks.saturating_mul(TICK_NS));
        let began_ns = began_ns.filter(|came_ns| (self.start_ns..self.end_ns).contains(came_ns));
        self.meet(Self {
            start_ns: vm.from_ns.or(began_ns).unwrap_or(self.start_ns),
            end_ns: vm.to_ns.unwrap_or(self.end_ns),
        })
    }

    /// How long a VM was paused in it, where that is known.
    pub fn paused_of(&self, vm: &Vm) -> Option<u64> {
        let there = self.of_vm(vm);
        let paused = vm.paused?;
        let now = paused.from_ns.map_or(0, |from_ns| {
            there.end_ns.saturating_sub(from_ns.max(there.start_ns))
        });
        Some(paused.over_ns.saturating_add(now).min(there.length_ns()))
    }

    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        Self {
            start_ns: self.start_ns.min(other.start_ns),
            end_ns: self.end_ns.max(other.end_ns),
        }
    }

    /// The part of it that lies in another; empty where they do not meet.
    #[must_use]
    pub fn meet(&self, other: Self) -> Self {
        let start_ns = self.start_ns.max(other.start_ns);
        Self {
            start_ns,
            end_ns: self.end_ns.min(other.end_ns).max(start_ns),
        }
    }

    /// The shortest that holds it and a span, if that is of anything.
    #[must_use]
    pub fn holding(self, span: Span) -> Self {
        if span.count == 0 {
            return self;
        }
        Self {
            start_ns: self.start_ns.min(span.first_ns),
            end_ns: self.end_ns.max(span.last_ns),
        }
    }
}

/// The first halt of a vCPU and its last: the two that may cross an end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Edges {
    first: Option<Edge>,
    last: Option<Edge>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    start_ns: u64,
    end_ns: u64,
    parts: Parts,
}

impl Edges {
    pub(super) fn of(halt: &Halt, parts: Parts) -> Self {
        let edge = Some(Edge {
            start_ns: halt.start_ns,
            end_ns: halt.end_ns(),
            parts,
        });
        Self {
            first: edge,
            last: edge,
        }
    }

    fn outside(&self, interval: Interval) -> Parts {
        let mut outside = Parts::default();
        if let Some(first) = &self.first {
            let before = interval.start_ns.min(first.end_ns);
            outside.fold(&first.parts.first(before.saturating_sub(first.start_ns)));
        }
        if let Some(last) = &self.last {
            let after = interval.end_ns.max(last.start_ns);
            outside.fold(&last.parts.last(last.end_ns.saturating_sub(after)));
        }
        outside
    }
}

impl Fold for Edges {
    // Compared in place: most halts are neither, and copies of both edges took a tenth of `report`.
    fn fold(&mut self, other: &Self) {
        if let Some(first) = &other.first
            && self.first.as_ref().is_none_or(|own| first < own)
        {
            self.first = Some(*first);
        }
        if let Some(last) = &other.last
            && self
                .last
                .as_ref()
                .is_none_or(|own| (own.end_ns, own) < (last.end_ns, last))
        {
            self.last = Some(*last);
        }
    }
}

impl Account {
    /// Halted time of one vCPU within an interval.
    ///
    /// For counts, it is not known how much of the first halt lies before the counts: there, time that exceeds
    /// the interval is cut off.
    pub fn within(&self, interval: Interval) -> Parts {
        let inside = self.parts.less(&self.edges.outside(interval));
        inside.at_most(interval.length_ns())
    }
}

impl Ledger {
    /// Halted time of all places that are picked, each within the interval in which it was watched.
    pub fn within(&self, of: impl Fn(&Place) -> Option<Interval>) -> Parts {
        let mut sum = Parts::default();
        for (place, account) in self.places() {
            if let Some(interval) = of(&place) {
                sum.fold(&account.within(interval));
            }
        }
        sum
    }

    /// The shortest interval that holds everything the kernel told of halts, and this one.
    ///
    /// Recorders used to note the beginning of a recording when halts had been recorded for a while.
    pub fn widened(&self, interval: Interval) -> Interval {
        let told = self.places().map(|(_, account)| account.told);
        told.fold(interval, Interval::holding)
    }
}

impl Parts {
    fn in_order(&mut self) -> [&mut u64; 6] {
        [
            &mut self.poll_success_ns,
            &mut self.poll_fail_ns,
            &mut self.unknown_ns,
            &mut self.sleep_ns,
            &mut self.wake_latency_ns,
            &mut self.turned_back_ns,
        ]
    }

    fn first(mut self, mut ns: u64) -> Self {
        for part in self.in_order() {
            *part = ns.min(*part);
            ns -= *part;
        }
        self
    }

    fn last(self, ns: u64) -> Self {
        self.less(&self.first(self.total_ns().saturating_sub(ns)))
    }

    fn less(mut self, other: &Self) -> Self {
        let mut other = *other;
        for (part, less) in self.in_order().into_iter().zip(other.in_order()) {
            *part = part.saturating_sub(*less);
        }
        self
    }

    /// The part of it that falls on `some` of `all` halts.
    #[must_use]
    pub fn part(mut self, some: u64, all: u64) -> Self {
        for part in self.in_order() {
            let share = u128::from(*part) * u128::from(some) / u128::from(all.max(1));
            *part = u64::try_from(share).unwrap_or(u64::MAX);
        }
        self
    }

    /// So much of it at most. What is too much was slept, as far as can be told.
    #[must_use]
    pub fn at_most(mut self, limit_ns: u64) -> Self {
        let mut left = limit_ns;
        for part in [
            &mut self.poll_success_ns,
            &mut self.poll_fail_ns,
            &mut self.wake_latency_ns,
            &mut self.turned_back_ns,
            &mut self.unknown_ns,
            &mut self.sleep_ns,
        ] {
            *part = left.min(*part);
            left -= *part;
        }
        self
    }
}
