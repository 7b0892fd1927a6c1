//! What recording costs the guest: time for each round trip, CPU time of the vCPU for each halt, and bytes
//! for each halt on disk.
//!
//! Goals: one guest for all watchers of a round, which take turns in an order drawn anew; the difference
//! to nobody in the same round, who comes twice. Two loads: one whose waker spins on a CPU of its own, and
//! one as a VMM's device makes it, whose waker sleeps and whose interrupts go through the IOAPIC. Non-goals:
//! throughput of the recorder (see `loss`), and machines at rest (a shared machine gives wide intervals,
//! and they are printed).

mod guest;
mod table;

use std::time::Duration;

use anyhow::{Context, Result};
use haltwise_core::workload::SplitMix64;

use self::guest::{Guest, LOADS, Load, Trips, Window};
use super::kept::{Figures, Kept};
use super::run::{Programs, bench};
use super::watcher::Watcher;
use crate::say;

/// Options of the overhead benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds of all watchers, for each load
    #[arg(long, default_value_t = 13)]
    rounds: u32,
    /// Milliseconds that each watcher watches in each round
    #[arg(long, default_value_t = 1500)]
    slice_ms: u64,
    /// Ceiling of the guest's VM; 0 makes every halt sleep
    #[arg(long, default_value = "200us")]
    cap: String,
    /// Only this load: spinning, device
    #[arg(long)]
    load: Option<String>,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// One watcher in one round.
struct Figure {
    load: Load,
    round: u32,
    watcher: Watcher,
    trips: Trips,
    bytes_per_halt: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    bench(args.discard, |programs| {
        let mut watchers = Vec::new();
        for watcher in Watcher::ALL {
            match watcher.obstacle(programs) {
                None => watchers.push(watcher),
                Some(reason) => say::skipped(&format!("{}: {reason}", watcher.name())),
            }
        }
        let mut order = SplitMix64(u64::from(args.rounds));
        let mut figures = Vec::new();
        let wanted = |load: &&Load| args.load.as_deref().is_none_or(|name| name == load.name);
        for round in 0..args.rounds {
            say::step(&format!("round {} of {}", round + 1, args.rounds));
            for load in LOADS.iter().filter(wanted) {
                let turns = shuffled(&watchers, &mut order);
                figures.extend(one_round(args, programs, *load, round, &turns)?);
            }
        }
        let summary = table::summary(args, &watchers, &figures);
        Ok(kept(&figures, summary))
    })
}

/// Every watcher once and nobody twice, in an order drawn anew.
fn shuffled(watchers: &[Watcher], order: &mut SplitMix64) -> Vec<Watcher> {
    let turns = watchers.iter().copied().chain([Watcher::Nobody]);
    let mut keyed: Vec<_> = turns.map(|w| (order.next_u64(), w)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, watcher)| watcher).collect()
}

/// One guest, all watchers in turn.
fn one_round(
    args: &Args,
    programs: &Programs,
    load: Load,
    round: u32,
    turns: &[Watcher],
) -> Result<Vec<Figure>> {
    let guest = Guest::start(programs, load, &args.cap)?;
    let length = Duration::from_millis(args.slice_ms);
    // Until its caches are warm and its window is open.
    guest.watch(length / 2)?;
    let mut windows: Vec<(Watcher, Window, u64)> = Vec::new();
    for &watcher in turns {
        let folder = tempfile::tempdir().context("create a folder for the watcher")?;
        let watching = watcher.start(programs, folder.path().to_owned())?;
        let window = guest.watch(length)?;
        windows.push((watcher, window, watching.stop()?));
    }
    let rounds = guest.end()?;
    let mut figures: Vec<Figure> = Vec::new();
    for &(watcher, _, bytes) in &windows {
        if figures.iter().any(|figure| figure.watcher == watcher) {
            continue;
        }
        let of_watcher = windows.iter().filter(|(who, ..)| *who == watcher);
        let own: Vec<Window> = of_watcher.map(|(_, window, _)| *window).collect();
        let trips = rounds
            .within(&own)
            .with_context(|| format!("no round trip under {}", watcher.name()))?;
        figures.push(Figure {
            load,
            round,
            watcher,
            trips,
            // What was written before and after the window is part of it.
            bytes_per_halt: bytes as f64 / trips.count as f64,
        });
    }
    Ok(figures)
}

fn kept(figures: &[Figure], summary: String) -> Kept<'static> {
    let rows = figures
        .iter()
        .map(|f| {
            vec![
                f.load.name.to_owned(),
                f.round.to_string(),
                f.watcher.name(),
                f.trips.count.to_string(),
                format!("{:.0}", f.trips.mean_ns),
                format!("{:.0}", f.trips.median_ns),
                format!("{:.0}", f.trips.cpu_ns),
                format!("{:.2}", f.bytes_per_halt),
            ]
        })
        .collect();
    Kept {
        name: "overhead",
        method: "For each load and round one pingpong guest, pinned to CPU 1; what wakes it and the watcher \
                 run on CPU 0. All watchers come in turn, in an order drawn anew, nobody twice. `mean_ns` \
                 and `median_ns` are round trips from signal to answer, `cpu_ns` is CPU time of the vCPU's \
                 thread for each of them; what is added is the difference to nobody in the same round.",
        columns: &[
            "load",
            "round",
            "watcher",
            "round_trips",
            "mean_ns",
            "median_ns",
            "cpu_ns",
            "bytes_per_halt",
        ],
        figures: Figures { rows, summary },
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_watcher_comes_once_in_each_order_and_nobody_twice() {
        let mut order = SplitMix64(1);
        for _ in 0..20 {
            let drawn = shuffled(&Watcher::ALL, &mut order);
            assert_eq!(drawn.len(), Watcher::ALL.len() + 1);
            assert!(Watcher::ALL.iter().all(|watcher| drawn.contains(watcher)));
            let nobody = drawn.iter().filter(|watcher| **watcher == Watcher::Nobody);
            assert_eq!(nobody.count(), 2);
        }
    }
}
