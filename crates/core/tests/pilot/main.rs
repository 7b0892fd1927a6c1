//! The pilot in simulated fleets: whatever happens, no guard is broken, nothing is set that the journal does not know,
//! `undo` restores everything, regret stays within its bound, and no setting goes back and forth.
//!
//! A world that breaks a law prints its seed: `HALTWISE_SEED=N cargo test -p haltwise-core --test pilot` runs it alone.
//! `HALTWISE_DAYS=N` runs so many days instead of the few of the gate.

#![expect(
    clippy::print_stdout,
    reason = "the figures of a run are what it is for"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

mod goals;
mod guarded;
mod held;
mod host;
mod journal;
mod law;
mod looks;
mod model;
mod refused;
mod saved;
mod shared;
mod takes_over;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use haltwise_core::pilot::decision::Kind;

use self::world::{Calm, World};

const DAYS: u64 = 5;

const GATE: u64 = 100;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// One seed for each world, or the one that is asked for.
fn seeds(worlds: u64) -> Range<u64> {
    match number("HALTWISE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + worlds,
    }
}

/// Lets some days of a world pass.
fn run(seed: u64, calm: Option<Calm>) -> World {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, calm);
        (0..DAYS).for_each(|_| world.day());
        if calm.is_some() {
            world.laws.is_settled();
        }
        world.end();
        world
    }));
    ran.unwrap_or_else(|_| panic!("HALTWISE_SEED={seed} repeats it ({calm:?})"))
}

#[test]
fn whatever_happens_the_laws_hold() {
    let days = number("HALTWISE_DAYS").unwrap_or(GATE);
    let seeds = seeds(days.div_ceil(DAYS));
    let (mut kept, mut tried, mut lives, mut lost) = (0, 0, 0, (0.0_f64, 0));
    let (mut actual, mut found) = (0.0, 0.0);
    for seed in seeds {
        let world = run(seed, None);
        kept += world.count(Kind::Keep) + world.count(Kind::Again);
        tried += world.count(Kind::Try);
        lives += world.lives;
        if world.laws.largest_loss > lost.0 {
            lost = (world.laws.largest_loss, seed);
        }
        (actual, found) = (actual + world.laws.all.actual, found + world.laws.all.found);
    }
    println!(
        "{days} days, {lives} lives of the daemon: {tried} trials, {kept} kept; cost {:.1} % less than as found; the \
         largest loss of a VM {:.1} % (seed {})",
        100.0 * (1.0 - actual / found),
        100.0 * lost.0,
        lost.1
    );
    assert!(kept > 0 && actual < found, "it is of use");
}

/// Days of all calm worlds in the gate.
const CALM: u64 = 80;

/// Whatever predictions are off by, and whether others want the CPUs now and then.
#[test]
fn while_loads_stay_as_they_are_no_setting_goes_back_and_forth() {
    let days = number("HALTWISE_DAYS").map_or(CALM, |days| days.div_ceil(5));
    let seeds = seeds(days.div_ceil(2 * DAYS));
    let mut kept = 0;
    for seed in seeds {
        for calm in [Calm::Quiet, Calm::Pressed] {
            kept += run(seed, Some(calm)).count(Kind::Keep);
        }
    }
    assert!(kept > 0 || number("HALTWISE_SEED").is_some());
}
