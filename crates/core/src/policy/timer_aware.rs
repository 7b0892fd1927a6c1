//! `timer-aware|kvm:max=50us`: does by a timer that is known what can be known of it, and asks another
//! policy about the rest: `learned`, unless one is given after the bar.
//!
//! KVM knows when a vCPU's own timer is due. The other policy is asked for a window; that is meant for
//! wake-ups that come before the timer, since of those by a timer it hears as if nothing had come.
//! * If the timer is due no later than the break-even after that window, it is polled for: to block
//!   when only that little is left would cost more. The window is both together, so that an
//!   interrupt that is a little late is still met. So a timer within the break-even is always
//!   polled for.
//! * If it is due later, or not known, the other policy's window stands.
//!
//! If timers are never late, no single halt costs more than under the other policy's window alone.
//!
//! A wake-up counts as the timer's if it came no earlier than 1 us before it was due: halts are timed
//! by samples. Of timers due within the break-even the other policy hears nothing at all: they are
//! polled for whatever it says. A budget therefore goes outside: `budget:2%|timer-aware`.
//! Wins where ticks and sleeps mix with requests: neither spoils what is learned of the other. Loses
//! where the timer is reprogrammed while the vCPU is halted, which is rare. Source: the sleep length
//! that cpuidle's menu and TEO governors go by (`drivers/cpuidle/governors`); for halt polling, ours.

use super::spec::Spec;
use super::{Ask, Entry, Policy, Seen, Side};

pub(super) const ENTRY: Entry = Entry {
    name: "timer-aware",
    form: "|POLICY, or timer-aware alone for timer-aware|learned",
    summary: "polls for a timer due soon, otherwise by another policy",
    build: |args, setting| {
        let inner = match args.inner(setting)? {
            Some(inner) => inner,
            None => "learned".parse::<Spec>()?.build(setting)?,
        };
        Ok(Box::new(TimerAware {
            inner,
            break_even_ns: setting.break_even_ns,
            timer_ns: None,
        }))
    },
};

/// How much earlier than due a wake-up may seem and yet be the timer's.
const EARLY_NS: u64 = 1_000;

#[derive(Debug)]
struct TimerAware {
    inner: Box<dyn Policy>,
    break_even_ns: u64,
    /// Time until the timer, as known when the halt began.
    timer_ns: Option<u64>,
}

impl PartialEq for TimerAware {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            inner,
            break_even_ns,
            timer_ns,
        } = self;
        (*break_even_ns, *timer_ns) == (other.break_even_ns, other.timer_ns)
            && **inner == *other.inner
    }
}

impl Policy for TimerAware {
    fn window(&mut self, ask: &Ask) -> u64 {
        self.timer_ns = ask.timer_ns;
        let window_ns = self.inner.window(ask);
        let reach_ns = window_ns.saturating_add(self.break_even_ns);
        match ask.timer_ns {
            Some(timer_ns) if timer_ns <= reach_ns => reach_ns,
            _ => window_ns,
        }
    }

    fn learn(&mut self, seen: &Seen) {
        let is_timers = |timer_ns: &u64| seen.gap_ns().saturating_add(EARLY_NS) >= *timer_ns;
        match self.timer_ns.filter(is_timers) {
            None => self.inner.learn(seen),
            Some(timer_ns) if timer_ns <= self.break_even_ns => {}
            Some(_) => self.inner.learn(&Seen {
                halt_ns: u64::MAX,
                ..*seen
            }),
        }
    }

    fn side(&self) -> Side {
        self.inner.side()
    }
}

#[cfg(test)]
mod test;
