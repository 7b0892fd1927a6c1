//! What recording costs the guest: time per round trip, and bytes per halt on disk.
//!
//! Goals: the same guest, every poll successful, with each watcher in turn within each round, in an
//! order drawn anew; the difference to nobody in the same round. Non-goals: throughput of the recorder
//! (see `loss`), and machines at rest (a shared machine gives wide intervals, and they are printed).

use std::fmt::Write as _;

use anyhow::{Context, Result};
use haltwise_core::stats::{Estimate, median_estimate};
use haltwise_core::workload::SplitMix64;

use super::kept::{Figures, Kept};
use super::run::{Programs, bench, number};
use super::watcher::Watcher;
use crate::say;

/// Options of the overhead benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds of all watchers
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Round trips of the guest in each run
    #[arg(long, default_value_t = 30_000)]
    trips: u32,
    /// Gap between an answer and the next wake-up
    #[arg(long, default_value = "fixed:20us")]
    gap: String,
    /// Ceiling of the guest's VM; 0 makes every halt sleep
    #[arg(long, default_value = "200us")]
    cap: String,
    /// Do not keep the figures under measurements/
    #[arg(long)]
    discard: bool,
}

/// One run.
struct Figure {
    round: u32,
    watcher: Watcher,
    trip_ns: f64,
    p99_ns: f64,
    bytes_per_halt: f64,
    successful: f64,
}

/// Measures.
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
        for round in 0..args.rounds {
            say::step(&format!("round {} of {}", round + 1, args.rounds));
            for watcher in shuffled(&watchers, &mut order) {
                figures.push(measure(args, programs, round, watcher)?);
            }
        }
        let summary = summary(args, &watchers, &figures);
        Ok(kept(&figures, summary))
    })
}

fn shuffled(watchers: &[Watcher], order: &mut SplitMix64) -> Vec<Watcher> {
    let mut keyed: Vec<_> = watchers.iter().map(|w| (order.next_u64(), *w)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, watcher)| watcher).collect()
}

fn measure(args: &Args, programs: &Programs, round: u32, watcher: Watcher) -> Result<Figure> {
    let folder = tempfile::tempdir().context("create a folder for the watcher")?;
    let watching = watcher.start(programs, folder.path().to_owned())?;
    let trips = args.trips.to_string();
    let outcome = programs.lab(&[
        "pingpong",
        "--rounds",
        &trips,
        "--gap",
        &args.gap,
        "--cap",
        &args.cap,
        "--pin",
        "1",
        "--host-pin",
        "0",
        "--host-wait",
        "spin",
    ])?;
    let bytes = watching.stop()?;
    let halts = number(&outcome, "/vms/0/vcpus/0/halts")?;
    Ok(Figure {
        round,
        watcher,
        trip_ns: number(&outcome, "/vms/0/round_trip_ns/p50")?,
        p99_ns: number(&outcome, "/vms/0/round_trip_ns/p99")?,
        bytes_per_halt: bytes as f64 / halts.max(1.0),
        successful: number(&outcome, "/vms/0/vcpus/0/stats/halt_successful_poll")? / halts.max(1.0),
    })
}

/// The median of what `of` gives for one watcher.
fn of_watcher(
    figures: &[Figure],
    watcher: Watcher,
    of: impl Fn(&Figure) -> Option<f64>,
) -> Option<Estimate> {
    let samples: Vec<f64> = figures
        .iter()
        .filter(|f| f.watcher == watcher)
        .filter_map(of)
        .collect();
    median_estimate(&samples)
}

/// Time per round trip beyond that of nobody in the same round.
fn added(figures: &[Figure], figure: &Figure) -> Option<f64> {
    let alone = |f: &&Figure| f.round == figure.round && f.watcher == Watcher::Nobody;
    Some(figure.trip_ns - figures.iter().find(alone)?.trip_ns)
}

fn summary(args: &Args, watchers: &[Watcher], figures: &[Figure]) -> String {
    let mut text = format!(
        "pingpong, gap {}, ceiling {}, {} rounds of {} round trips; medians [95 % interval]\n\
         {:<26} {:>9} {:>24} {:>9} {:>8}\n",
        args.gap,
        args.cap,
        args.rounds,
        args.trips,
        "watcher",
        "trip us",
        "added us",
        "polls ok",
        "B/halt",
    );
    for &watcher in watchers {
        let trip = of_watcher(figures, watcher, |f| Some(f.trip_ns / 1e3));
        let more = of_watcher(figures, watcher, |f| added(figures, f).map(|ns| ns / 1e3));
        let bytes = of_watcher(figures, watcher, |f| Some(f.bytes_per_halt));
        let polls = of_watcher(figures, watcher, |f| Some(f.successful * 100.0));
        let (Some(trip), Some(more), Some(bytes), Some(polls)) = (trip, more, bytes, polls) else {
            continue;
        };
        let more = format!("{:+.2} [{:+.2}, {:+.2}]", more.median, more.low, more.high);
        // Writing to a String cannot fail.
        let _written = writeln!(
            text,
            "{:<26} {:>9.2} {more:>24} {:>7.0} % {:>8.1}",
            watcher.name(),
            trip.median,
            polls.median,
            bytes.median,
        );
    }
    text
}

fn kept(figures: &[Figure], summary: String) -> Kept<'static> {
    let rows = figures
        .iter()
        .map(|f| {
            vec![
                f.round.to_string(),
                f.watcher.name(),
                format!("{:.0}", f.trip_ns),
                format!("{:.0}", f.p99_ns),
                format!("{:.2}", f.bytes_per_halt),
                format!("{:.4}", f.successful),
            ]
        })
        .collect();
    Kept {
        name: "overhead",
        method: "One pingpong guest, pinned to CPU 1, woken by a spinning thread on CPU 0; the watcher \
                 runs on CPU 0. In each round every watcher comes once, in an order drawn anew. \
                 `trip_ns` is the median round trip of a run; `added` is its difference to nobody in \
                 the same round.",
        columns: &[
            "round",
            "watcher",
            "trip_ns",
            "p99_ns",
            "bytes_per_halt",
            "successful_polls",
        ],
        figures: Figures { rows, summary },
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn figure(round: u32, watcher: Watcher, trip_ns: f64) -> Figure {
        Figure {
            round,
            watcher,
            trip_ns,
            p99_ns: 0.0,
            bytes_per_halt: 0.0,
            successful: 1.0,
        }
    }

    #[test]
    fn a_difference_is_taken_within_its_own_round() {
        let figures = [
            figure(0, Watcher::Nobody, 5_000.0),
            figure(0, Watcher::Perf, 7_000.0),
            figure(1, Watcher::Nobody, 50_000.0),
            figure(1, Watcher::Perf, 52_500.0),
        ];
        assert_eq!(added(&figures, &figures[1]), Some(2_000.0));
        assert_eq!(added(&figures, &figures[3]), Some(2_500.0));
        assert_eq!(added(&figures[3..], &figures[3]), None);
    }

    #[test]
    fn every_watcher_comes_once_in_each_order() {
        let mut order = SplitMix64(1);
        for _ in 0..20 {
            let drawn = shuffled(&Watcher::ALL, &mut order);
            assert_eq!(drawn.len(), Watcher::ALL.len());
            assert!(Watcher::ALL.iter().all(|watcher| drawn.contains(watcher)));
        }
    }
}
