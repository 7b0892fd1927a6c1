//! `menu:hz=250`: cpuidle's governor menu in a guest with the driver haltpoll, in front of a host that does not poll.
//!
//! `residency` and `exit_latency` are those of HLT (1 us both), `hz` is the guest's tick, a sixteenth of which is the limit of
//! a poll. The next timer is known where a timer ended the idle period; else it is taken to be 4 ms away.
//! It chooses HLT nearly always: a prediction of less than a microsecond is rare. So it costs what `off` costs, with idle
//! times that short excepted. Source: [`crate::kvm::guest::menu`].

use super::Entry;
use super::cpuidle::{FORM, Guest, driver, kernel};
use crate::kvm::guest::menu::{Menu, Rule};

pub(super) const ENTRY: Entry = Entry {
    name: "menu",
    form: FORM,
    summary: "cpuidle's governor menu in a guest, between POLL and HLT",
    build: |args, setting| {
        let rule = Rule::of(kernel(args, setting)?);
        let driver = driver(args)?;
        Ok(Box::new(Guest {
            governor: Menu::new(rule, driver),
            limit_ns: driver.poll_limit_ns(),
        }))
    },
};
