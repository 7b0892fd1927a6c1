//! The grid of settings, next to a plain loop and `NumPy`.

use haltwise_core::replay::Sample;
use haltwise_core::replay::arrivals::{Arrivals, Evidence, Follow};
use haltwise_core::replay::grid::{Choice, Grid};
use haltwise_core::replay::latency::Table;

use super::load::{Load, samples, table};
use super::numpy::NumPy;
use super::plain::{self, Sums};
use super::rounds::{Rounds, Scale, timed};
use super::settings::{choices, rule};

const GRID: &str = "grid";
const BY_SOURCE: &str = "grid by source";
const PLAIN: &str = "plain loop";
const NUMPY: &str = "NumPy";

pub(crate) fn measure(loads: &[&Load], scale: &Scale, rounds: &mut Rounds) {
    let choices = choices();
    let numpy = NumPy::find();
    for round in 0..scale.rounds {
        for load in loads {
            measure_round(load, scale, &choices, numpy.as_ref().ok(), round, rounds);
        }
    }
    println!(
        "{} settings, million halt-settings per second (95 % interval)",
        choices.len()
    );
    println!(
        "{:<8} {:>22} {:>22} {:>18} {:>18}",
        "load", GRID, "by source", PLAIN, NUMPY
    );
    for load in loads {
        let cell = |what| rounds.cell(load.name, what);
        println!(
            "{:<8} {:>22} {:>22} {:>18} {:>18}",
            load.name,
            cell(GRID),
            cell(BY_SOURCE),
            cell(PLAIN),
            cell(NUMPY)
        );
    }
    for (peer, name) in [(PLAIN, "a plain loop"), (NUMPY, "NumPy")] {
        let times = |load: &&Load| {
            let of = |what| rounds.median(load.name, what);
            Some(format!("{} {:.0}", load.name, of(GRID)? / of(peer)?))
        };
        let times: Vec<String> = loads.iter().filter_map(times).collect();
        if !times.is_empty() {
            println!("grid as a multiple of {name}: {}", times.join(", "));
        }
    }
    match numpy {
        Ok(numpy) => println!("NumPy {}\n", numpy.version),
        Err(reason) => println!("NumPy: skipped: {reason}\n"),
    }
}

fn measure_round(
    load: &Load,
    scale: &Scale,
    choices: &[Choice],
    numpy: Option<&NumPy>,
    round: usize,
    rounds: &mut Rounds,
) {
    let halts = load.halts(scale.grid);
    let table = table(&halts);
    let samples = samples(&halts, &table);
    let rate = |count: usize, seconds: f64| (count * choices.len()) as f64 / seconds / 1e6;
    for (what, arrivals) in [(GRID, Arrivals::FixedGap), (BY_SOURCE, Arrivals::BySource)] {
        let (seconds, _) = timed(|| play(choices, &samples, &table, arrivals));
        rounds.add(load.name, what, round, rate(samples.len(), seconds));
    }
    if load.is_cut() {
        // The peers know nothing of cut polls.
        return;
    }
    let few = &samples[..scale.peers.min(samples.len())];
    let expected = play(choices, few, &table, Arrivals::FixedGap);
    let (seconds, sums) = timed(|| plain::play(rule(), choices, few, &table));
    assert_eq!(
        sums, expected,
        "grid and plain loop differ on {}",
        load.name
    );
    rounds.add(load.name, PLAIN, round, rate(few.len(), seconds));
    if let Some(numpy) = numpy {
        let (seconds, sums) = numpy.play(choices, few, &table);
        assert_eq!(sums, expected, "grid and NumPy differ on {}", load.name);
        rounds.add(load.name, NUMPY, round, rate(few.len(), seconds));
    }
}

fn play(choices: &[Choice], samples: &[Sample], table: &Table, arrivals: Arrivals) -> Sums {
    let mut grid = Grid::new(rule(), choices).expect("a rule with a window");
    let follow = Follow::new(arrivals, &Evidence::default());
    grid.play(samples, table, &follow);
    let mut sums = Sums::default();
    for tally in grid.tallies() {
        sums.blocks += tally.blocks;
        sums.poll_ns += tally.poll_ns;
        sums.latency_ns += tally.latency_ns;
    }
    sums
}
