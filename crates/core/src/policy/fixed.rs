//! `fixed:50us`: polls every halt for up to the same time; `fixed:always` until it is woken.
//!
//! Wins where most gaps lie below the threshold and the rest far above it are few. Loses on gaps just
//! above it: each pays the threshold and the block too. Source: KVM 4.0 to 4.2 (commit f7819512996361);
//! since 5.1 reachable through the parameters, by grow 1, `grow_start` and ceiling at the threshold,
//! shrink 1.

use super::{Ask, Entry, Policy, Seen};

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
            Some(threshold_ns) => Ok(Box::new(Fixed { threshold_ns })),
            None => Err(args.missing("a time")),
        }
    },
};

#[derive(Debug, PartialEq)]
struct Fixed {
    threshold_ns: u64,
}

impl Policy for Fixed {
    fn window(&mut self, _: &Ask) -> u64 {
        self.threshold_ns
    }

    fn learn(&mut self, _: &Seen) {}
}
