//! Every fixed threshold of ten million halts.

use haltwise_core::replay::Sample;
use haltwise_core::replay::thresholds::Thresholds;

use super::load::{Load, samples, table};
use super::policy::COST;
use super::rounds::{Rounds, Scale, TIMES, timed};

const SORT: &str = "sort";
const CURVE: &str = "1000 thresholds";
const BEST: &str = "best of all";

pub(crate) fn measure(loads: &[&Load], scale: &Scale, rounds: &mut Rounds) {
    let millions = (scale.drawn as u64 * TIMES) as f64 / 1e6;
    for load in loads {
        let halts = load.halts(scale.drawn);
        let table = table(&halts);
        let samples = samples(&halts, &table);
        let all = || {
            (0..TIMES)
                .flat_map(|_| samples.iter().copied())
                .collect::<Vec<Sample>>()
        };
        for round in 0..scale.rounds {
            let samples = all();
            let (seconds, thresholds) = timed(|| Thresholds::new(samples, &table));
            rounds.add(load.name, SORT, round, seconds);
            let (seconds, _) = timed(|| thresholds.curve((0..1_000).map(|n| n * 1_000)));
            rounds.add(load.name, CURVE, round, seconds);
            let (seconds, _) = timed(|| thresholds.best(&COST, 10_000_000));
            rounds.add(load.name, BEST, round, seconds);
        }
    }
    println!("fixed thresholds of {millions} million halts, seconds (95 % interval)");
    println!("{:<8} {SORT:>18} {CURVE:>18} {BEST:>18}", "load");
    for load in loads {
        let cell = |what| rounds.cell(load.name, what);
        println!(
            "{:<8} {:>18} {:>18} {:>18}",
            load.name,
            cell(SORT),
            cell(CURVE),
            cell(BEST)
        );
    }
    println!();
}
