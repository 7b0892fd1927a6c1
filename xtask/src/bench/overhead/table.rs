//! The overhead benchmark's figures as a table for each load.

use std::fmt::Write as _;

use haltwise_core::stats::{Estimate, median_estimate};

use super::guest::{LOADS, Load};
use super::{Args, Figure};
use crate::bench::watcher::Watcher;

/// What is added beyond nobody in the same round, by what `of` gives.
fn added(figures: &[Figure], figure: &Figure, of: impl Fn(&Figure) -> f64) -> Option<f64> {
    let alone = |f: &&Figure| {
        f.load == figure.load && f.round == figure.round && f.watcher == Watcher::Nobody
    };
    Some(of(figure) - of(figures.iter().find(alone)?))
}

/// The median over the rounds of one watcher under one load.
fn over_rounds(
    figures: &[Figure],
    load: Load,
    watcher: Watcher,
    of: impl Fn(&Figure) -> Option<f64>,
) -> Option<Estimate> {
    let own = figures.iter();
    let own = own.filter(|f| f.load == load && f.watcher == watcher);
    let samples: Vec<f64> = own.filter_map(of).collect();
    median_estimate(&samples)
}

fn us(estimate: Estimate) -> String {
    format!(
        "{:+.2} [{:+.2}, {:+.2}]",
        estimate.median / 1e3,
        estimate.low / 1e3,
        estimate.high / 1e3
    )
}

pub(super) fn summary(args: &Args, watchers: &[Watcher], figures: &[Figure]) -> String {
    let mut text = String::new();
    for load in LOADS {
        if figures.iter().any(|figure| figure.load == load) {
            text.push_str(&of_load(args, load, watchers, figures));
        }
    }
    text
}

fn of_load(args: &Args, load: Load, watchers: &[Watcher], figures: &[Figure]) -> String {
    let mut text = format!(
        "{}: {}; ceiling {}, {} rounds of {} ms;\nmedians over rounds [95 % interval], in us\n\
         {:<28} {:>6} {:>22} {:>22} {:>22} {:>6}\n",
        load.name,
        load.about,
        args.cap,
        args.rounds,
        args.slice_ms,
        "watcher",
        "trip",
        "added to the mean",
        "added to the median",
        "vCPU time, a halt",
        "B/halt",
    );
    for &watcher in watchers {
        let of = |what: fn(&Figure) -> f64| over_rounds(figures, load, watcher, |f| Some(what(f)));
        let more = |what: fn(&Figure) -> f64| {
            over_rounds(figures, load, watcher, |f| added(figures, f, what))
        };
        let (Some(trip), Some(bytes)) = (of(|f| f.trips.mean_ns), of(|f| f.bytes_per_halt)) else {
            continue;
        };
        let (Some(mean), Some(median), Some(cpu)) = (
            more(|f| f.trips.mean_ns),
            more(|f| f.trips.median_ns),
            more(|f| f.trips.cpu_ns),
        ) else {
            continue;
        };
        // Writing to a String cannot fail.
        let _written = writeln!(
            text,
            "{:<28} {:>6.2} {:>22} {:>22} {:>22} {:>6.1}",
            watcher.name(),
            trip.median / 1e3,
            us(mean),
            us(median),
            us(cpu),
            bytes.median,
        );
    }
    text
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::bench::overhead::guest::Trips;

    fn figure(round: u32, watcher: Watcher, mean_ns: f64) -> Figure {
        Figure {
            load: LOADS[0],
            round,
            watcher,
            trips: Trips {
                count: 1,
                mean_ns,
                median_ns: 0.0,
                cpu_ns: 0.0,
            },
            bytes_per_halt: 0.0,
        }
    }

    #[test]
    fn a_difference_is_taken_within_its_own_round() {
        let perf = Watcher::ALL[6];
        let figures = [
            figure(0, Watcher::Nobody, 5_000.0),
            figure(0, perf, 7_000.0),
            figure(1, Watcher::Nobody, 50_000.0),
            figure(1, perf, 52_500.0),
        ];
        let mean = |f: &Figure| f.trips.mean_ns;
        assert_eq!(added(&figures, &figures[1], mean), Some(2_000.0));
        assert_eq!(added(&figures, &figures[3], mean), Some(2_500.0));
        assert_eq!(added(&figures[3..], &figures[3], mean), None);
    }
}
