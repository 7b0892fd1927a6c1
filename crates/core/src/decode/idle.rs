//! Folds what a CPU's idle loop does into idle periods, each a halt of the machine's one VM. Pure; the clock is in
//! the events.
//!
//! Order of the kernel's events (`do_idle` in `kernel/sched/idle.c`, `cpuidle_enter_state` in
//! `drivers/cpuidle/cpuidle.c`), all in the CPU's idle task:
//!
//! ```text
//! cpu_idle(state) -> [interrupts] -> cpu_idle(-1) -> [guest_halt_poll_ns] -> sched_switch, or cpu_idle(state)
//! ```
//!
//! A poll that ends by its limit and the state after it are one period. So a period is complete when the CPU is next
//! idle. The BPF source folds in the kernel by the same rules (`crates/host/src/bpf/idle.bpf.c`), and gives a
//! [`Period`]; here the tracepoint source's events become one.

use std::collections::BTreeMap;

use crate::event::{CeilingSource, Halt, WakeSource};
use crate::ids::{Tid, VcpuId, VmIndex};
use crate::kvm::Call;

/// The VM that this machine is: the only one of its capture.
pub const THIS_VM: VmIndex = VmIndex(0);

/// One idle period of a CPU: the polling state, if it was entered, and the state after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    pub cpu: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub poll_ns: u64,
    /// Time in the other.
    pub halt_ns: u64,
    pub polled: bool,
    /// Another state was entered, after it or at once.
    pub halted: bool,
    /// It is known which part of the time was in which of the two.
    pub told_apart: bool,
    /// The governor's limit when it began.
    pub limit_ns: Option<u32>,
    /// And when the next one began.
    pub limit_next_ns: Option<u32>,
    pub change: Option<Call>,
    pub wake: WakeSource,
    /// When that was due or was sent.
    pub wake_ns: Option<u64>,
}

impl Period {
    /// From when what ended it was due or sent; 0 of a poll, which looks all the time.
    fn wake_latency_ns(&self) -> Option<u64> {
        if !self.halted {
            return Some(0);
        }
        // A timer that was due later, or an interrupt that was sent before, is not what ended it.
        let since_halt = self.end_ns.saturating_sub(self.halt_ns);
        let known = (self.wake_ns).filter(|at| (since_halt..=self.end_ns).contains(at));
        known.map(|at| self.end_ns - at)
    }

    /// The period as a halt: see `docs/guest.md` for what each field is in a guest.
    ///
    /// `not_before_ns`: when the CPU's last one ended. cpuidle's clock and ours differ by some parts in a million.
    /// `ceiling_ns`: `guest_halt_poll_ns`, where the governor has one.
    pub fn halt(&self, not_before_ns: u64, ceiling_ns: Option<u32>) -> Halt {
        Halt {
            start_ns: self.start_ns.max(not_before_ns),
            halt_ns: self.poll_ns.saturating_add(self.halt_ns),
            vm: Some(THIS_VM),
            vcpu: Some(VcpuId(self.cpu)),
            tid: Tid(self.cpu),
            waited: self.halted,
            valid: true,
            window_ns: self.limit_ns,
            window_next_ns: self.limit_next_ns,
            ceiling_ns,
            ceiling_source: match ceiling_ns {
                Some(_) => CeilingSource::Param,
                None => CeilingSource::Unknown,
            },
            change: self.change.into(),
            // For a poll alone, any clock is accurate enough; if a halt follows, the two parts must be told apart.
            poll_ns: (self.told_apart || !self.polled || !self.halted).then_some(self.poll_ns),
            polled: Some(self.polled),
            wake_latency_ns: self.wake_latency_ns(),
            wake: self.wake,
            poll_cut: Some(false),
            cpu: None,
            waker_cpu: None,
        }
    }
}

/// Something that a CPU did, or that was done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleEvent {
    /// When, on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    pub cpu: u32,
    pub what: Did,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// `power:cpu_idle`: it enters a state.
    Enter { polls: bool },
    /// `power:cpu_idle` with -1: it leaves the state.
    Leave,
    /// `power:guest_halt_poll_ns`: its governor called grow or shrink.
    Adjust(Call),
    /// An interrupt reached it while its idle task ran.
    Interrupt(WakeSource),
    /// `timer:hrtimer_expire_entry` in its idle task: a timer is handled that was due then.
    Expire {
        /// On `CLOCK_MONOTONIC`.
        due_ns: u64,
    },
    /// `sched:sched_wake_idle_without_ipi`: another CPU wakes it by a store.
    Store,
    /// `ipi:ipi_send_cpu`: another CPU sends it an interrupt.
    Send,
    /// `sched:sched_switch`: its idle task gives way to another.
    Switch,
}

#[derive(Debug, Default)]
pub struct IdleDecoder {
    cpus: BTreeMap<u32, Cpu>,
}

impl IdleDecoder {
    /// Takes the next event. Gives the period that it completes.
    pub fn push(&mut self, event: &IdleEvent) -> Option<Period> {
        let cpu = self.cpus.entry(event.cpu).or_default();
        let now = event.time_ns;
        match event.what {
            Did::Enter { polls } => return cpu.enter(event.cpu, polls, now),
            Did::Leave => cpu.leave(now),
            Did::Adjust(change) => cpu.adjust(change),
            Did::Interrupt(wake) => cpu.interrupt(wake),
            Did::Expire { due_ns } => cpu.expire(due_ns),
            Did::Store => cpu.store(now),
            Did::Send => cpu.send(now),
            Did::Switch => cpu.switched = true,
        }
        None
    }

    /// Events were lost: what was under way is not known any more, nor are the limits.
    pub fn forget(&mut self) {
        self.cpus.clear();
    }
}

#[derive(Debug, Default)]
struct Cpu {
    /// The period under way, or over and not yet given; `None` before the first.
    period: Option<Period>,
    polls: bool,
    entered_ns: u64,
    /// When it was left; `None` while it lasts.
    left_ns: Option<u64>,
    /// Its governor's limit, since a call of grow or shrink said it.
    limit_ns: Option<u32>,
    switched: bool,
    stored_ns: Option<u64>,
    sent_ns: Option<u64>,
    /// The interrupt that counts is the timer's, and it is not known yet when its first timer was due.
    asks_due: bool,
}

impl Cpu {
    fn enter(&mut self, number: u32, polls: bool, now: u64) -> Option<Period> {
        let left_ns = self.left_ns.take();
        let goes_on = left_ns.is_some_and(|left_ns| {
            self.add_state(left_ns);
            // Under the governor haltpoll another state follows a poll only if that ended by its limit.
            self.polls && !polls && !self.switched
        });
        let mut given = None;
        match &mut self.period {
            // A wake source seen during the poll did not end the poll.
            Some(period) if goes_on => (period.wake, period.wake_ns) = (WakeSource::Unknown, None),
            slot => {
                // A state that was never left says that an event is missing: nothing is known of it.
                given = slot.take().filter(|_| left_ns.is_some());
                if let Some(period) = &mut given {
                    period.limit_next_ns = self.limit_ns;
                }
                *slot = Some(Period {
                    cpu: number,
                    start_ns: now,
                    limit_ns: self.limit_ns,
                    told_apart: true,
                    ..Period::default()
                });
            }
        }
        // Work may have come since the last state, and ends this one at once; unless it was that of a task that ran.
        let came_since = |stored_ns: &u64| left_ns.is_some_and(|left_ns| *stored_ns >= left_ns);
        self.stored_ns = self
            .stored_ns
            .filter(|stored| !self.switched && came_since(stored));
        (self.polls, self.entered_ns) = (polls, now);
        (self.switched, self.sent_ns, self.asks_due) = (false, None, false);
        given
    }

    fn leave(&mut self, now: u64) {
        if self.period.is_none() || self.left_ns.is_some() {
            return;
        }
        self.left_ns = Some(now);
        if let Some(stored_ns) = self.stored_ns.take() {
            self.woken_by_store(stored_ns, now);
        }
    }

    /// Takes the state that was left last into the period.
    fn add_state(&mut self, left_ns: u64) {
        let Some(period) = &mut self.period else {
            return;
        };
        let ns = left_ns.saturating_sub(self.entered_ns);
        if self.polls {
            (period.polled, period.poll_ns) = (true, ns);
        } else {
            (period.halted, period.halt_ns) = (true, ns);
        }
        period.end_ns = left_ns;
        // A waker tells of its store after it: often when the poll has seen it and is over.
        let unwoken = period.wake == WakeSource::Unknown;
        if let Some(stored_ns) = self
            .stored_ns
            .filter(|at| unwoken && *at >= self.entered_ns)
        {
            self.stored_ns = None;
            self.woken_by_store(stored_ns, left_ns);
        }
    }

    fn woken_by_store(&mut self, stored_ns: u64, left_ns: u64) {
        if let Some(period) = &mut self.period {
            period.wake = WakeSource::Ipi;
            period.wake_ns = Some(stored_ns.min(left_ns));
        }
    }

    /// Only the time in a state that does not poll moves the limit, so that it was the same when the period began.
    fn adjust(&mut self, change: Call) {
        self.limit_ns = Some(change.new);
        if self.left_ns.is_none() {
            return;
        }
        if let Some(period) = &mut self.period {
            period.change = Some(change);
            period.limit_ns.get_or_insert(change.old);
        }
    }

    /// In a state that halts the first interrupt ends it; a poll goes on until one of them has brought work, the last. Some
    /// drivers take the interrupt that ended a state only after they have left it: that one counts as well.
    fn interrupt(&mut self, wake: WakeSource) {
        let Some(period) = &mut self.period else {
            return;
        };
        if self.switched {
            return;
        }
        self.asks_due = false;
        let is_woken = period.wake != WakeSource::Unknown;
        if is_woken && (self.left_ns.is_some() || !self.polls) {
            return;
        }
        period.wake = wake;
        period.wake_ns = self.sent_ns.filter(|_| wake == WakeSource::Ipi);
        self.asks_due = wake == WakeSource::Timer;
    }

    fn expire(&mut self, due_ns: u64) {
        if !std::mem::take(&mut self.asks_due) {
            return;
        }
        if let Some(period) = &mut self.period {
            period.wake_ns = Some(due_ns);
        }
    }

    fn store(&mut self, now: u64) {
        if self.period.is_some() && (self.stored_ns.is_none() || self.left_ns.is_some()) {
            self.stored_ns = Some(now);
        }
    }

    fn send(&mut self, now: u64) {
        if self.period.is_some() && self.left_ns.is_none() {
            self.sent_ns.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod test;
