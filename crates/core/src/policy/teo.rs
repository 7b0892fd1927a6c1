//! `teo:hz=250`: cpuidle's governor teo in a guest with the driver haltpoll, in front of a host that does not poll.
//!
//! Keys are those of `menu`. The next timer is known where a timer ended the idle period; else there is none.
//! It polls where most idle periods last less than a microsecond, and chooses HLT otherwise. Source:
//! [`crate::kvm::guest::teo`].

use super::Entry;
use super::cpuidle::{FORM, Guest, driver, kernel};
use crate::kvm::guest::teo::{Rule, Teo};

pub(super) const ENTRY: Entry = Entry {
    name: "teo",
    form: FORM,
    summary: "cpuidle's governor teo in a guest, between POLL and HLT",
    build: |args, setting| {
        let Some(rule) = Rule::of(kernel(args, setting)?) else {
            return Err(args.refuse("kernel", "a kernel whose teo is known (5.14 or later)"));
        };
        let driver = driver(args)?;
        Ok(Box::new(Guest {
            governor: Teo::new(rule, driver),
            limit_ns: driver.poll_limit_ns(),
        }))
    },
};
