//! Folds tracepoints into halts: a state machine per thread. Pure; the clock is in the events.
//!
//! Works on any source of KVM's tracepoints: perf events on a running host, text of other tools. What
//! such a source must do for itself is to read events; [`Order`] puts them in order of time, [`waker`]
//! judges who woke a thread, [`group`] which threads are one VM. The events of one halt, in the order in which KVM emits them:
//!
//! ```text
//!   start                    window ends          woken            running again
//!     │────── polling ─────────│─ sched_switch ──── sched_waking ────│ kvm_halt_poll_ns
//!                                (slept)             (who, when)       kvm_vcpu_wakeup(ns)
//! ```
//!
//! `kvm_vcpu_wakeup` alone says that there was a halt, and how long it was; the start is its time less
//! its length. All else is looked up in what the thread did since. The window at entry is the `old` of
//! the halt's own `kvm_halt_poll_ns`; without one it is what the last one left, clamped to the ceiling
//! as KVM does (since 6.1) at entry. A ceiling below what the rule left shows itself by that clamp.

pub mod group;
pub mod idle;
mod order;
mod thread;
pub mod waker;

use std::collections::BTreeMap;

use crate::account::Ceiling;
use crate::event::{Halt, WakeSource, WindowChange};
use crate::ids::{Tid, VcpuId};
use crate::kvm::rule::Clamp;

pub use self::order::Order;
use self::thread::{Assumed, Thread};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// `kvm:kvm_vcpu_wakeup`: a halt of the running thread ended.
    VcpuWakeup {
        tid: Tid,
        ns: u64,
        waited: bool,
        valid: bool,
        /// Wake-up latency, 0 where KVM does not know it; `None` in a kernel that does not tell.
        latency_ns: Option<u64>,
    },
    /// `kvm:kvm_halt_poll_ns`: the rule of the window was called for the running thread.
    HaltPollNs {
        tid: Tid,
        vcpu: VcpuId,
        grow: bool,
        old: u32,
        new: u32,
    },
    /// `sched:sched_waking`: a thread that sleeps was woken.
    Waking {
        tid: Tid,
        /// By what, as far as the waker's context tells.
        source: WakeSource,
    },
    /// `sched:sched_switch`: a thread gave up its CPU to sleep (not because it was preempted, which says
    /// nothing here).
    Slept { tid: Tid },
    /// Events of some CPU are missing up to here.
    Gap,
    /// Events of this thread are missing up to here.
    ThreadGap { tid: Tid },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fact {
    /// A halt ended. VM and vCPU are left open except what the events said.
    Halt(Halt),
    Window(WindowChange),
}

#[derive(Debug)]
pub struct Decoder {
    clamps_at_entry: bool,
    param_halt_poll_ns: Option<u32>,
    told: Option<Ceiling>,
    threads: BTreeMap<Tid, Thread>,
}

impl Decoder {
    /// A decoder before its first event, for a kernel with this rule of clamping.
    pub fn new(clamp: Clamp) -> Self {
        Self {
            clamps_at_entry: clamp == Clamp::AtEntry,
            param_halt_poll_ns: None,
            told: None,
            threads: BTreeMap::new(),
        }
    }

    /// Tells the module's ceiling, now and whenever it changes.
    pub fn set_param(&mut self, param_halt_poll_ns: Option<u32>) {
        if self.param_halt_poll_ns != param_halt_poll_ns {
            self.param_halt_poll_ns = param_halt_poll_ns;
            for thread in self.threads.values_mut() {
                thread.forget_ceiling();
            }
        }
    }

    /// Tells the ceiling of every vCPU. It is believed of all whose windows do not speak against it.
    pub fn tell_ceiling(&mut self, told: Ceiling) {
        self.set_param(Some(told.ns));
        self.told = Some(told);
    }

    /// From `since_ns` on, no [`What::Waking`] and [`What::Slept`] of this thread is held back.
    pub fn watch(&mut self, tid: Tid, since_ns: u64) {
        let thread = self.threads.entry(tid).or_default();
        thread.watched_since.get_or_insert(since_ns);
    }

    pub fn forget(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }

    pub fn push(&mut self, event: &Event) -> Option<Fact> {
        let now = event.time_ns;
        match event.what {
            What::VcpuWakeup {
                tid,
                ns,
                waited,
                valid,
                latency_ns,
            } => {
                let thread = self.threads.entry(tid).or_default();
                let ended = thread::Ended {
                    time_ns: now,
                    halt_ns: ns,
                    waited,
                    valid,
                    latency_ns,
                };
                let assumed = Assumed {
                    clamp: self.param_halt_poll_ns.filter(|_| self.clamps_at_entry),
                    told: self.told,
                };
                Some(Fact::Halt(thread.end(tid, ended, assumed)))
            }
            What::HaltPollNs {
                tid,
                vcpu,
                grow,
                old,
                new,
            } => {
                let change = WindowChange {
                    time_ns: now,
                    vm: None,
                    vcpu: Some(vcpu),
                    tid,
                    grow,
                    old_ns: old,
                    new_ns: new,
                };
                let thread = self.threads.entry(tid).or_default();
                thread.change(change, self.clamps_at_entry);
                Some(Fact::Window(change))
            }
            What::Gap => {
                for thread in self.threads.values_mut() {
                    thread.gap(now);
                }
                None
            }
            What::Waking { tid, source } => {
                self.threads.get_mut(&tid)?.woken = Some((now, source));
                None
            }
            What::Slept { tid } => {
                self.threads.get_mut(&tid)?.slept.push(now);
                None
            }
            What::ThreadGap { tid } => {
                self.threads.get_mut(&tid)?.gap(now);
                None
            }
        }
    }
}

#[cfg(test)]
mod test;
