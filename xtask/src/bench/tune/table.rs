//! The recommended ceiling beside all others and beside what can be gained at all, and in how many cells
//! it keeps what is promised.

use std::fmt::{self, Write as _};

use haltwise_core::stats::Estimate;
use haltwise_core::units::Nanos;

use super::judged::{Judged, Law, NEAR, Stand};
use super::{Account, GOALS, Tuned};
use crate::bench::kept::Figures;

/// How it was measured, for whoever finds the figures.
pub(super) const METHOD: &str = "\
Each load of the lab is recorded once under the ceiling in force; `haltwise tune --ceiling-only` \
recommends a ceiling for each goal from that capture. Then every load runs under every ceiling of a sweep, \
the one in force and the recommended ones among them (KVM_CAP_HALT_POLL), in an order drawn anew in each \
round. Polling and blocks are KVM's own counters, wake-up latency is the recorder's; a block costs what \
`haltwise-lab calibrate` measured in the same run. Loads named by a goal have gaps of so many of its \
break-evens (what a halt costs that sleeps).

Where the interval of a ratio straddles a line that a promise draws (1.02 and, where the rule says so, 0.5 of \
the cost in force; 1.10 of the best), or rests on fewer than six rounds, the ceilings on which that hangs run \
again, as long as there is time. What is on one side of its line by all of its interval is so \"for sure\". The best of a sweep is picked and measured in the same runs, which favours it.

Beside what was measured stands what can be: the clairvoyant's cost (`haltwise replay` on the runs without \
polling), below which no policy comes, and what the rule of docs/tuning.md gives for not polling, from the \
account in force and the calibration: c / (p + b c), with a halt that sleeps at c, p polled a halt and b of \
the halts asleep.";

/// Columns of the raw figures: a row for each run, for its clairvoyants, and for each recommendation.
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

/// All tables, and what holds over all cells.
pub(super) fn figures(all: &[Tuned]) -> Figures {
    let mut figures = Figures::new(String::new());
    let mut kept = Kept::default();
    for tuned in all {
        raw(&mut figures, tuned);
        let text = &mut figures.summary;
        // Writing to a String cannot fail.
        let _written = writeln!(
            text,
            "\n{} ({}): cost of a halt in us (a block {} us)\n{:<9} {:>8} {:>7} {:>15} {:>15} {:>6} {:>17} {:>6} \
             {:>6} {:>17}",
            tuned.load.name,
            tuned.load.gap,
            us(tuned.said.switch_cpu_ns),
            "goal",
            "in force",
            "off",
            "best of sweep",
            "tune says",
            "said",
            "/in force",
            "law",
            "least",
            "/best"
        );
        for (index, (name, _)) in GOALS.into_iter().enumerate() {
            let line = line(tuned, index, name, &mut kept);
            text.push_str(&line);
        }
    }
    figures.summary.push_str(&kept.summary());
    figures
}

fn raw(figures: &mut Figures, tuned: &Tuned) {
    let row = |kind: &str, goal: &str, ceiling_ns: u64| {
        let ceiling = ceiling_ns.to_string();
        let name = tuned.load.name.to_string();
        vec![name, kind.to_owned(), goal.to_owned(), ceiling]
    };
    let of = |account: &Account| {
        [
            format!("{:.0}", account.poll_ns),
            format!("{:.4}", account.blocks),
            format!("{:.0}", account.latency_ns),
        ]
    };
    for ceiling in &tuned.ceilings {
        for run in &ceiling.runs {
            let place = [run.round.to_string(), format!("{:.0}", run.halts)];
            let mut measured = row("measured", "", ceiling.ns);
            measured.extend(place.clone());
            measured.extend(of(&run.account));
            let trip = |p: usize| run.trip_ns.map(|ns| format!("{:.0}", ns[p]));
            measured.extend([trip(0), trip(1)].map(Option::unwrap_or_default));
            figures.rows.push(measured);
            for (least, (goal, _)) in run.least.iter().flatten().zip(GOALS) {
                let mut clairvoyant = row("clairvoyant", goal, ceiling.ns);
                clairvoyant.extend(place.clone());
                clairvoyant.extend(of(least));
                clairvoyant.resize(COLUMNS.len(), String::new());
                figures.rows.push(clairvoyant);
            }
        }
    }
    for (said, (goal, _)) in tuned.said.goals.iter().zip(GOALS) {
        let mut said = row(&said.verdict, goal, said.ceiling_ns);
        said.resize(COLUMNS.len(), String::new());
        figures.rows.push(said);
    }
}

/// Cells of which the law says the same.
#[derive(Debug, Default)]
struct ByLaw {
    cells: u32,
    twice: u32,
    /// The oracle's smallest share.
    least: Option<f64>,
}

impl ByLaw {
    fn add(&mut self, judged: &Judged) {
        self.cells += 1;
        self.twice += u32::from(judged.is_twice());
        self.least = Some(self.least.unwrap_or(f64::INFINITY).min(judged.least));
    }
}

/// In how many cells a ratio is on which side of its line.
#[derive(Debug, Default)]
struct Sides {
    /// Below it by the median.
    by_median: u32,
    below: u32,
    above: u32,
    open: u32,
}

impl Sides {
    fn add(&mut self, by_median: bool, stand: Stand) {
        self.by_median += u32::from(by_median);
        match stand {
            Stand::Below => self.below += 1,
            Stand::Above => self.above += 1,
            Stand::Open => self.open += 1,
        }
    }
}

impl fmt::Display for Sides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            by_median,
            below,
            above,
            open,
        } = self;
        write!(
            f,
            "{by_median} by the median; for sure {below}, surely not {above}, open {open}"
        )
    }
}

/// In how many cells a promise is kept.
#[derive(Debug, Default)]
struct Kept {
    cells: u32,
    not_worse: Sides,
    near_best: Sides,
    worst: Option<(f64, String)>,
    undecided: Vec<String>,
    /// All cells, by what the law says of them: twice, never, open.
    by_law: [ByLaw; 3],
    /// The same, of those whose gaps lie between break-even and ceiling.
    between: [ByLaw; 3],
}

impl Kept {
    fn add(&mut self, judged: &Judged, cell: &str) {
        self.cells += 1;
        self.not_worse
            .add(judged.is_not_worse(), judged.not_worse());
        self.near_best
            .add(judged.is_near_best(), judged.near_best());
        if judged.is_undecided() {
            self.undecided.push(cell.to_owned());
        }
        let over = judged.to_best.median;
        if self.worst.as_ref().is_none_or(|(worst, _)| over > *worst) {
            self.worst = Some((over, cell.to_owned()));
        }
        let law = match judged.law() {
            Law::Twice => 0,
            Law::Never => 1,
            Law::Open => 2,
        };
        self.by_law[law].add(judged);
        if judged.is_between {
            self.between[law].add(judged);
        }
    }

    fn summary(&self) -> String {
        let worst = self.worst.as_ref();
        let worst = worst.map_or(String::new(), |(over, cell)| {
            format!("\n    the worst: {over:.2} ({cell})")
        });
        let undecided = match self.undecided.len() {
            0 => "none".to_owned(),
            n => format!("{n}: {}", self.undecided.join("; ")),
        };
        format!(
            "\n{} cells (loads and goals)\n  the recommended ceiling costs no more than the one in \
             force: {}\n  within {:.0} % of the best of the sweep: {}{worst}\n  more rounds would tell: \
             {undecided}\n\ntwice as cheap as in force\n  in all cells\n{}  in those whose gaps lie \
             between the goal's break-even and the ceiling in force\n{}",
            self.cells,
            self.not_worse,
            (NEAR - 1.0) * 100.0,
            self.near_best,
            by_law(&self.by_law),
            by_law(&self.between),
        )
    }
}

fn by_law([twice, never, open]: &[ByLaw; 3]) -> String {
    let least = |of: &ByLaw| {
        let least = of.least;
        least.map_or(String::new(), |least| {
            format!(" (its smallest share {least:.2})")
        })
    };
    format!(
        "    not polling is, by the law: {}; so is the recommended ceiling in {}\n    not even the clairvoyant \
         is: {}{}; the recommended ceiling in {}\n    only the clairvoyant is, or a higher ceiling: {}; the \
         recommended one in {}\n",
        twice.cells,
        twice.twice,
        never.cells,
        least(never),
        never.twice,
        open.cells,
        open.twice
    )
}

fn line(tuned: &Tuned, index: usize, name: &str, kept: &mut Kept) -> String {
    let said = &tuned.said.goals[index];
    let Some(judged) = tuned.judged(index) else {
        return format!("{name:<9} not measured: time was over\n");
    };
    kept.add(&judged, &format!("{}, {name}", tuned.load.name));
    let predicted = said
        .cost_share
        .map_or("as is".to_owned(), |share| format!("{:.2}", 1.0 + share));
    let at = |cost_ns: f64, ns: u64| format!("{} at {}", us(cost_ns), Nanos(ns));
    format!(
        "{name:<9} {:>8} {:>7} {:>15} {:>15} {:>6} {:>17} {:>6.2} {:>6.2} {:>17}\n",
        us(judged.in_force_ns),
        us(judged.off_ns),
        at(judged.best.1, judged.best.0),
        at(judged.own_ns, said.ceiling_ns),
        predicted,
        shown(&judged.to_force),
        judged.off_by_law,
        judged.least,
        shown(&judged.to_best)
    )
}

fn us(ns: f64) -> String {
    format!("{:.1}", ns / 1e3)
}

fn shown(ratio: &Estimate) -> String {
    if ratio.low < ratio.high {
        format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.low, ratio.high)
    } else {
        format!("{:.2}", ratio.median)
    }
}

#[cfg(test)]
mod test;
