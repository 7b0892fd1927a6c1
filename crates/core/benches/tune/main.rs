//! How long a recommendation takes: `cargo bench -p haltwise-core --bench tune`.
//!
//! Ten million halts of one vCPU, the whole grid with its refinement, the final from both starts, and
//! all policies of any kind, on as many threads as the machine has. Printed are medians of the rounds
//! with the interval that holds the true one in 95 of 100 cases. Not measured: reading a capture.
//!
//! Without `--bench`, which `cargo bench` gives, all of it runs once on few halts, and the figures mean
//! nothing. `--load NAME` leaves out other loads.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../replay/load.rs"]
#[expect(dead_code, reason = "the other benchmark uses all of it")]
mod load;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use haltwise_core::event::Halt;
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::replay::session::Survey;
use haltwise_core::replay::{Arrivals, Cost};
use haltwise_core::stats::median_estimate;
use haltwise_core::tune::advice::{self, Goal};
use haltwise_core::tune::figures::{self, OF_ANY_KIND, Subject};
use haltwise_core::tune::finalist;
use haltwise_core::tune::search::{self, Aim};
use haltwise_core::tune::stage::Entry;
use haltwise_core::tune::{Crew, Gather, Keep, Material, Terms};
use load::{LOADS, Load};

/// How often the drawn halts come, one behind the other.
const TIMES: u64 = 10;

/// A thread for each CPU.
struct Threads(usize);

impl Crew for Threads {
    fn hands(&self) -> usize {
        self.0
    }

    fn each<T: Send>(&self, _: &str, count: usize, piece: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut results = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return results;
                }
                results.push((number, piece(number)));
            }
        };
        let mut results: Vec<(usize, T)> = thread::scope(|scope| {
            let all: Vec<_> = (0..self.0).map(|_| scope.spawn(work)).collect();
            all.into_iter()
                .flat_map(|one| one.join().expect("no panic"))
                .collect()
        });
        results.sort_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measures = arguments.iter().any(|argument| argument == "--bench");
    let only = arguments.iter().position(|argument| argument == "--load");
    let only = only.and_then(|place| arguments.get(place + 1));
    let (drawn, rounds) = if measures { (1_000_000, 3) } else { (500, 1) };
    let crew = Threads(thread::available_parallelism().map_or(1, usize::from));
    println!(
        "a recommendation from {} halts on {} threads, seconds (95 % interval)",
        drawn as u64 * TIMES,
        crew.0
    );
    println!(
        "{:<8} {:>9} {:>18} {:>18} {:>18} {:>18} {:>18}",
        "load", "settings", "one pass", "search", "final", "policies", "all"
    );
    for load in LOADS
        .iter()
        .filter(|load| only.is_none_or(|name| name == load.name))
    {
        let rounds: Vec<[f64; 6]> = (0..rounds).map(|_| round(load, drawn, &crew)).collect();
        let cell = |column: usize| {
            let values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
            median_estimate(&values).map_or_else(String::new, |of| {
                format!("{:.2} ({:.2}..{:.2})", of.median, of.low, of.high)
            })
        };
        println!(
            "{:<8} {:>9} {:>18} {:>18} {:>18} {:>18} {:>18}",
            load.name,
            rounds[0][5],
            cell(0),
            cell(1),
            cell(2),
            cell(3),
            cell(4)
        );
    }
}

/// Seconds of each step, of all of them, and how many settings were looked at.
fn round(load: &Load, drawn: usize, crew: &Threads) -> [f64; 6] {
    let halts = load.halts(drawn);
    let mut seconds = [0.0; 6];
    let mut clock = Instant::now();
    let mut lap = |column: usize| {
        seconds[column] = clock.elapsed().as_secs_f64();
        clock = Instant::now();
    };
    let material = material(&halts);
    drop(halts);
    lap(0);
    let aims = [0, 1_000, 10_000].map(|latency_weight_milli| Aim {
        cost: Cost {
            switch_cpu_ns: 10_000,
            latency_weight_milli,
            ..Cost::FREE
        },
        switch_cpu_ends_ns: None,
        max_poll_cpu_percent: None,
        possible_poll_cpu_percent: None,
    });
    let found = search::search(&material, &aims, crew);
    lap(1);
    let of = finalist::play_final(&material, &found, &aims, crew);
    let goal = Goal {
        name: "balanced".to_owned(),
        aim: aims[1],
    };
    let advice = advice::advise(&material, &of, &goal);
    lap(2);
    let choice = advice
        .choice
        .map_or(material.terms.in_force, |choice| choice.knobs);
    let mut subjects = vec![
        Subject::Setting(Entry::new(material.terms.in_force)),
        Subject::Setting(Entry::new(choice)),
        Subject::Policy("clairvoyant".parse().expect("a policy")),
    ];
    let policies = OF_ANY_KIND
        .iter()
        .map(|name| name.parse().expect("a policy"));
    subjects.extend(policies.map(Subject::Policy));
    let outcomes = figures::figures(&material, &subjects, &aims[1].cost, crew);
    assert!(outcomes.is_ok_and(|outcomes| outcomes.len() == subjects.len()));
    lap(3);
    seconds[4] = seconds[..4].iter().sum();
    seconds[5] = found.len() as f64;
    seconds
}

/// The pass over the halts, which come ten times over.
fn material(halts: &[Halt]) -> Material {
    let version = Version::new(6, 12);
    let length_ns = halts.last().map_or(0, |last| last.end_ns() + 5_000);
    let all = || {
        (0..TIMES).flat_map(move |time| {
            halts.iter().map(move |halt| Halt {
                start_ns: halt.start_ns + time * length_ns,
                ..*halt
            })
        })
    };
    let (mut survey, mut gather) = (Survey::default(), Gather::new(Keep::ALL));
    for halt in all() {
        survey.halt(&halt);
        gather.halt(&halt);
    }
    let terms = Terms {
        version,
        arch: Arch::X86,
        in_force: Knobs::defaults(version, Arch::X86),
        arrivals: Arrivals::BySource,
        elsewhere: Some(load::elsewhere()),
        seed: 1,
        ceiling_only: false,
        weights_milli: BTreeMap::new(),
    };
    gather.finish(terms, survey).expect("sleeps to learn from")
}
