//! `fixed:50us`: polls every halt for up to the same time; `fixed:always` until it is woken.
//!
//! Wins where most gaps lie below the threshold and the rest far above it are few. Loses on gaps just
//! above it: each pays the threshold and the block too. Source: KVM 4.0 to 4.2 (commit f7819512996361);
//! since 5.1 reachable through the parameters, by grow 1, `grow_start` and ceiling at the threshold,
//! shrink 1.

use super::{Ask, Entry, Policy, Seen, Side};

pub(super) const ENTRY: Entry = Entry {
    name: "fixed",
    form: "TIME, or fixed:always",
    summary: "polls up to the same time at every halt",
    build: |args, _| {
        let always = args.word("", &[("always", u64::MAX)], "a time");
        let threshold_ns = match always {
            Ok(threshold) => threshold,
            Err(_) => args.time("")?,
        };
        match threshold_ns {
            Some(threshold_ns) => Ok(Box::new(Fixed::of_host(threshold_ns))),
            None => Err(args.missing("a time")),
        }
    },
};

/// A policy whose window never changes.
#[derive(Debug, PartialEq)]
pub(super) struct Fixed {
    window_ns: u64,
    side: Side,
    exit_latency_ns: Option<u64>,
}

impl Fixed {
    pub(super) fn of_host(window_ns: u64) -> Self {
        Self {
            window_ns,
            side: Side::Host,
            exit_latency_ns: None,
        }
    }

    /// A guest that keeps its CPU: it polls, or it sleeps in a C-state of this exit latency.
    pub(super) fn of_guest(exit_latency_ns: Option<u64>) -> Self {
        Self {
            window_ns: u64::MAX,
            side: Side::Guest,
            exit_latency_ns,
        }
    }
}

impl Policy for Fixed {
    fn window(&mut self, _: &Ask) -> u64 {
        self.window_ns
    }

    fn learn(&mut self, _: &Seen) {}

    fn side(&self) -> Side {
        self.side
    }

    fn sleeps_in_guest(&self) -> Option<u64> {
        self.exit_latency_ns
    }
}
