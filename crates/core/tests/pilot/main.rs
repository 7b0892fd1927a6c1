//! The pilot in simulated fleets: whatever happens, no guard is broken, nothing is set that the journal does not know,
//! `undo` restores everything, regret stays within its bound, and no setting goes back and forth.
//!
//! A fleet that breaks a law prints its seed: `HALTWISE_SEED=N cargo test -p haltwise-core --test pilot` runs it alone.
//! `HALTWISE_DAYS=N` runs so many days instead of the few of the gate.

#![expect(
    clippy::print_stdout,
    reason = "the figures of a run are what it is for"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

mod fate;
mod goals;
mod guarded;
mod held;
mod journal;
mod law;
mod looks;
mod model;
mod others;
mod refused;
mod shared;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use haltwise_core::pilot::decision::Kind;

use self::fate::{Calm, Fate};

/// Days of each fleet.
const DAYS: u64 = 5;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// One seed for each of so many fleets, or the one that is asked for.
fn seeds(fleets: u64) -> Range<u64> {
    number("HALTWISE_SEED").map_or(1..1 + fleets, |seed| seed..seed + 1)
}

/// Lets some days of a fleet pass.
fn run(seed: u64, calm: Option<Calm>) -> Fate {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut fate = Fate::new(seed, calm);
        (0..DAYS).for_each(|_| fate.day());
        if calm.is_some() {
            fate.world.laws.is_settled();
        }
        fate.end();
        fate
    }));
    ran.unwrap_or_else(|_| panic!("HALTWISE_SEED={seed} repeats it ({calm:?})"))
}

#[test]
fn whatever_happens_the_laws_hold() {
    let days = number("HALTWISE_DAYS").unwrap_or(100);
    let (mut kept, mut tried, mut lives, mut loss) = (0, 0, 0, 0.0_f64);
    let (mut actual, mut found) = (0.0, 0.0);
    for seed in seeds(days.div_ceil(DAYS)) {
        let Fate {
            world, lives: of, ..
        } = run(seed, None);
        kept += world.decisions(Kind::Keep) + world.decisions(Kind::Again);
        tried += world.decisions(Kind::Try);
        (lives, loss) = (lives + of, loss.max(world.laws.largest_loss));
        (actual, found) = (actual + world.laws.all.actual, found + world.laws.all.found);
    }
    println!(
        "{days} days, {lives} lives of the daemon: {tried} trials, {kept} kept; cost {:.1} % less than as found; the \
         largest loss of a VM {:.1} %",
        100.0 * (1.0 - actual / found),
        100.0 * loss
    );
    assert!(kept > 0 && actual < found, "it is of use");
}

/// Whatever predictions are off by, and whether others want the CPUs now and then.
#[test]
fn while_loads_stay_as_they_are_no_setting_goes_back_and_forth() {
    let days = number("HALTWISE_DAYS").map_or(80, |days| days.div_ceil(5));
    let mut kept = 0;
    for seed in seeds(days.div_ceil(2 * DAYS)) {
        for calm in [Calm::Quiet, Calm::Pressed] {
            kept += run(seed, Some(calm)).world.decisions(Kind::Keep);
        }
    }
    assert!(kept > 0 || number("HALTWISE_SEED").is_some());
}
