//! The recommended ceiling beside all others, and in how many cells it keeps what is promised.

use std::fmt::Write as _;

use haltwise_core::stats::{Estimate, median_estimate};
use haltwise_core::units::Nanos;

use super::{Ceiling, GOALS, Run, Tuned};
use crate::bench::kept::Figures;

/// Columns of the raw figures: a row for each run, and for each recommendation.
pub(super) const COLUMNS: [&str; 11] = [
    "load",
    "kind",
    "goal",
    "ceiling_ns",
    "round",
    "halts",
    "poll_ns",
    "blocks",
    "latency_ns",
    "trip_p50_ns",
    "trip_p95_ns",
];

/// A cost within this share of another is no worse: repetitions of one setting differ by as much.
const EQUAL: f64 = 0.02;

/// How near the best of the sweep a recommendation should come.
const NEAR: f64 = 0.10;

/// All tables, and what holds over all cells.
pub(super) fn figures(all: &[Tuned<'_>]) -> Figures {
    let mut figures = Figures::new(String::new());
    let mut kept = Kept::default();
    for tuned in all {
        raw(&mut figures, tuned);
        let text = &mut figures.summary;
        // Writing to a String cannot fail.
        let _written = writeln!(
            text,
            "\n{}: cost of a halt in us (a block {} us)\n{:<9} {:>8} {:>13} {:>7} {:>18} {:>16} {:>9} {:>7}",
            tuned.load.name,
            us(tuned.said.switch_cpu_ns),
            "goal",
            "in force",
            "",
            "off",
            "tune says",
            "best of sweep",
            "/in force",
            "/best"
        );
        for (index, (name, lambda)) in GOALS.into_iter().enumerate() {
            let line = line(tuned, index, name, lambda, &mut kept);
            text.push_str(&line);
        }
    }
    figures.summary.push_str(&kept.summary());
    figures
}

fn raw(figures: &mut Figures, tuned: &Tuned<'_>) {
    for ceiling in &tuned.ceilings {
        for (round, run) in ceiling.runs.iter().enumerate() {
            let trip = |p: usize| {
                run.trip_ns
                    .map_or(String::new(), |ns| format!("{:.0}", ns[p]))
            };
            figures.rows.push(vec![
                tuned.load.name.to_owned(),
                "measured".to_owned(),
                String::new(),
                ceiling.ns.to_string(),
                round.to_string(),
                format!("{:.0}", run.halts),
                format!("{:.0}", run.poll_ns),
                format!("{:.4}", run.blocks),
                format!("{:.0}", run.latency_ns),
                trip(0),
                trip(1),
            ]);
        }
    }
    for (said, (name, _)) in tuned.said.goals.iter().zip(GOALS) {
        let mut row = vec![
            tuned.load.name.to_owned(),
            said.verdict.clone(),
            name.to_owned(),
            said.ceiling_ns.to_string(),
        ];
        row.resize(COLUMNS.len(), String::new());
        figures.rows.push(row);
    }
}

/// In how many cells a promise is kept.
#[derive(Default)]
struct Kept {
    cells: u32,
    not_worse: u32,
    between: u32,
    twice: u32,
    near_best: u32,
    worst: Option<(f64, String)>,
}

impl Kept {
    fn summary(&self) -> String {
        let worst = self.worst.as_ref();
        let worst = worst.map_or(String::new(), |(over, cell)| {
            format!("; worst {over:.2} ({cell})")
        });
        format!(
            "\n{} cells (loads and goals)\n  the recommended ceiling costs no more than the one in \
             force: {}\n  at least twice as cheap, of {} whose gaps lie between the goal's break-even \
             and the ceiling in force: {}\n  within {:.0} % of the best of the sweep: {}{worst}\n",
            self.cells,
            self.not_worse,
            self.between,
            self.twice,
            NEAR * 100.0,
            self.near_best
        )
    }
}

fn line(tuned: &Tuned<'_>, index: usize, name: &str, lambda: f64, kept: &mut Kept) -> String {
    let switch_ns = tuned.said.switch_cpu_ns;
    let said = &tuned.said.goals[index];
    let costs = |ceiling: &Ceiling| -> Vec<f64> {
        let cost = |run: &Run| run.cost_ns(switch_ns, lambda);
        ceiling.runs.iter().map(cost).collect()
    };
    let at = |ns: u64| {
        let found = tuned.ceilings.iter().find(|ceiling| ceiling.ns == ns);
        found.map(costs).unwrap_or_default()
    };
    let median = |costs: &[f64]| median_estimate(costs).map_or(f64::NAN, |it| it.median);
    let (in_force, off, own) = (at(tuned.said.in_force_ns), at(0), at(said.ceiling_ns));
    let best = tuned
        .ceilings
        .iter()
        .map(|ceiling| (median(&costs(ceiling)), ceiling.ns))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or((f64::NAN, 0));
    let ratio = |other: &[f64]| {
        let ratios: Vec<f64> = own
            .iter()
            .zip(other)
            .map(|(own, other)| own / other)
            .collect();
        median_estimate(&ratios)
    };
    let to_force = ratio(&in_force);
    let to_best = ratio(&at(best.1));
    judge(tuned, name, lambda, [to_force, to_best], kept);
    let predicted = said.cost_share.map_or("as it is".to_owned(), |share| {
        format!("x{:.2} said", 1.0 + share)
    });
    format!(
        "{name:<9} {:>8} {:>13} {:>7} {:>18} {:>16} {:>9} {:>7}\n",
        us(median(&in_force)),
        predicted,
        us(median(&off)),
        format!("{} at {}", us(median(&own)), Nanos(said.ceiling_ns)),
        format!("{} at {}", us(best.0), Nanos(best.1)),
        shown(to_force),
        shown(to_best)
    )
}

/// Books what is promised of a recommendation.
fn judge(
    tuned: &Tuned<'_>,
    name: &str,
    lambda: f64,
    [to_force, to_best]: [Option<Estimate>; 2],
    kept: &mut Kept,
) {
    let (Some(to_force), Some(to_best)) = (to_force, to_best) else {
        return;
    };
    kept.cells += 1;
    kept.not_worse += u32::from(to_force.median <= 1.0 + EQUAL);
    kept.near_best += u32::from(to_best.median <= 1.0 + NEAR);
    if kept
        .worst
        .as_ref()
        .is_none_or(|(over, _)| to_best.median > *over)
    {
        kept.worst = Some((to_best.median, format!("{}, {name}", tuned.load.name)));
    }
    // Without polling a halt costs the break-even; with it, its gap where that is met.
    let runs = |ns: u64| {
        let found = tuned.ceilings.iter().find(move |ceiling| ceiling.ns == ns);
        found.map_or(&[][..], |ceiling| &ceiling.runs[..])
    };
    let mean = |runs: &[Run], get: fn(&Run) -> f64| {
        runs.iter().map(get).sum::<f64>() / runs.len().max(1) as f64
    };
    let off = runs(0);
    let break_even = tuned.said.switch_cpu_ns + lambda * mean(off, |run| run.latency_ns);
    let met = mean(runs(tuned.said.in_force_ns), |run| 1.0 - run.blocks);
    let polled = mean(runs(tuned.said.in_force_ns), |run| run.poll_ns);
    // Most polls are met in force, and last longer than the break-even.
    if met > 0.5 && polled / met > break_even {
        kept.between += 1;
        kept.twice += u32::from(to_force.median <= 0.5);
    }
}

fn us(ns: f64) -> String {
    format!("{:.1}", ns / 1e3)
}

fn shown(ratio: Option<Estimate>) -> String {
    ratio.map_or("-".to_owned(), |it| format!("{:.2}", it.median))
}
