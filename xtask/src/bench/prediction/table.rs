//! What was measured and predicted, side by side, and how far apart.

use super::predict::Predicted;
use super::{Cells, SETTINGS};
use crate::bench::cell::{Measured, PerHalt};
use crate::bench::kept::{Figures, Row};

/// Columns of the raw figures: a row for each run, and for each prediction made from it.
pub(super) const COLUMNS: [&str; 11] = [
    "load",
    "setting",
    "kind",
    "from",
    "halts",
    "met",
    "blocks",
    "poll_ns",
    "trip_p50_ns",
    "trip_p95_ns",
    "bistable",
];

/// All tables, and the errors over all cells.
pub(super) fn figures(all: &[Cells<'_>]) -> Figures {
    let mut figures = Figures::new(String::new());
    let mut errors = Errors::default();
    for cells in all {
        let head = format!(
            "\n{}\n{:<8} {:>15} {:>17} {:>17} {:>17}\n",
            cells.load.name,
            "ceiling",
            "met by poll, %",
            "poll/halt, us",
            "trip p50, us",
            "trip p95, us"
        );
        figures.summary.push_str(&head);
        for (setting, name) in SETTINGS.iter().enumerate() {
            raw(&mut figures.rows, cells, setting);
            let line = line(
                name,
                &cells.measured[setting],
                &cells.predicted[setting],
                &mut errors,
            );
            figures.summary.push_str(&line);
            figures.summary.push('\n');
        }
    }
    figures.summary.push_str(&errors.summary());
    figures
}

fn raw(rows: &mut Vec<Row>, cells: &Cells<'_>, setting: usize) {
    let mut add = |kind: &str,
                   from: &str,
                   halts: f64,
                   of: &PerHalt,
                   trip: Option<[f64; 2]>,
                   bistable: &str| {
        let trip = |p: usize| trip.map_or(String::new(), |trip| format!("{:.0}", trip[p]));
        rows.push(vec![
            cells.load.name.to_string(),
            SETTINGS[setting].to_owned(),
            kind.to_owned(),
            from.to_owned(),
            format!("{halts:.0}"),
            format!("{:.4}", of.met),
            format!("{:.4}", of.blocks),
            format!("{:.0}", of.poll_ns),
            trip(0),
            trip(1),
            bistable.to_owned(),
        ]);
    };
    for run in &cells.measured[setting] {
        add("measured", "", run.halts, &run.per_halt, run.trip_ns, "");
    }
    for said in &cells.predicted[setting] {
        let (from, bistable) = (SETTINGS[said.from], said.bistable.to_string());
        add(
            "predicted",
            from,
            0.0,
            &said.per_halt,
            said.trip_ns,
            &bistable,
        );
        add(
            "predicted-polling",
            from,
            0.0,
            &said.polling,
            None,
            &bistable,
        );
    }
}

/// Errors over all cells, each as a multiple of what it is compared with.
#[derive(Default)]
struct Errors {
    met: Vec<f64>,
    poll_ns: Vec<f64>,
    trip_p50: Vec<f64>,
    trip_p95: Vec<f64>,
    cells: u32,
    outside: u32,
    two_states: u32,
    two_states_missed: u32,
}

impl Errors {
    fn summary(&self) -> String {
        let show = |name: &str, errors: &[f64], unit: &str| {
            let mut sorted: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
            sorted.sort_by(f64::total_cmp);
            let at = |p: f64| haltwise_core::stats::percentile_of_sorted(&sorted, p).unwrap_or(0.0);
            format!(
                "  {name:<24} half of the cells within {:.2} {unit}, 9 in 10 within {:.2} {unit}, worst {:.2} {unit}\n",
                at(0.5),
                at(0.9),
                at(1.0)
            )
        };
        let mut text = format!(
            "\nerrors of the median prediction over {} cells with one state; in {} of them something \
             lies outside the spread of repetitions\n{} cells with two states; in {} of them a run lay \
             outside both\n",
            self.cells, self.outside, self.two_states, self.two_states_missed
        );
        text.push_str(&show("met by a poll", &self.met, "points"));
        text.push_str(&show("polling for each halt", &self.poll_ns, "us"));
        text.push_str(&show("round trip, median", &self.trip_p50, "us"));
        text.push_str(&show("round trip, 95th", &self.trip_p95, "us"));
        text
    }
}

fn spread(values: impl Iterator<Item = f64>) -> Option<[f64; 3]> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let median = haltwise_core::stats::percentile_of_sorted(&sorted, 0.5)?;
    Some([median, *sorted.first()?, *sorted.last()?])
}

/// Two states that fewer than one prediction in so many sees are not counted as predicted.
const FEW: usize = 6;

/// What one cell of the table compares.
struct Pair {
    truth: Option<[f64; 3]>,
    said: Option<[f64; 3]>,
    scale: f64,
    decimals: usize,
}

impl Pair {
    /// The cell, how far the two medians are apart, and whether their spreads do not meet.
    fn show(&self) -> (String, Option<(f64, bool)>) {
        let (Some(truth), Some(said)) = (self.truth, self.said) else {
            return (format!("{:>17}", "-"), None);
        };
        let [truth, least, most] = truth.map(|value| value * self.scale);
        let [said, said_least, said_most] = said.map(|value| value * self.scale);
        let apart = said_least > most || said_most < least;
        let decimals = self.decimals;
        let cell = format!("{truth:>7.decimals$} -> {said:>6.decimals$}");
        (cell, Some((said - truth, apart)))
    }
}

fn pairs(measured: &[Measured], predicted: &[Predicted]) -> [Pair; 4] {
    let truth = |get: fn(&PerHalt) -> f64| spread(measured.iter().map(|run| get(&run.per_halt)));
    let said = |get: fn(&PerHalt) -> f64| spread(predicted.iter().map(|said| get(&said.per_halt)));
    let trips = |p: usize| Pair {
        truth: spread(measured.iter().filter_map(|run| Some(run.trip_ns?[p]))),
        said: spread(predicted.iter().filter_map(|said| Some(said.trip_ns?[p]))),
        scale: 1e-3,
        decimals: 1,
    };
    let met = Pair {
        truth: truth(|of| of.met),
        said: said(|of| of.met),
        scale: 100.0,
        decimals: 1,
    };
    let poll = Pair {
        truth: truth(|of| of.poll_ns),
        said: said(|of| of.poll_ns),
        scale: 1e-3,
        decimals: 2,
    };
    [met, poll, trips(0), trips(1)]
}

fn line(name: &str, measured: &[Measured], predicted: &[Predicted], errors: &mut Errors) -> String {
    let bistable = predicted.iter().filter(|said| said.bistable).count();
    let shown = pairs(measured, predicted).map(|pair| pair.show());
    let cells: Vec<&str> = shown.iter().map(|(cell, _)| cell.as_str()).collect();
    let text = format!("{name:<8} {}", cells.join(" "));
    if bistable * FEW > predicted.len() {
        return text + &two_states(measured, predicted, bistable, errors);
    }
    let into = [
        &mut errors.met,
        &mut errors.poll_ns,
        &mut errors.trip_p50,
        &mut errors.trip_p95,
    ];
    let mut marks = String::new();
    for ((_, error), into) in shown.iter().zip(into) {
        if let Some((error, apart)) = error {
            into.push(*error);
            marks.push(if *apart { '!' } else { '.' });
        }
    }
    errors.cells += 1;
    errors.outside += u32::from(marks.contains('!'));
    format!("{text} {marks}")
}

/// Where two steady states are predicted, chance chooses: what was measured must lie between them.
fn two_states(
    measured: &[Measured],
    predicted: &[Predicted],
    bistable: usize,
    errors: &mut Errors,
) -> String {
    let said = predicted.iter().filter(|said| said.bistable);
    let ends = said.flat_map(|said| [said.per_halt.met, said.polling.met]);
    let Some([_, least, most]) = spread(ends) else {
        return String::new();
    };
    let inside = |run: &&Measured| (least - SLACK..=most + SLACK).contains(&run.per_halt.met);
    let between = measured.iter().filter(inside).count();
    errors.two_states += 1;
    errors.two_states_missed += u32::from(between < measured.len());
    format!(
        " two states ({:.0} to {:.0} % met) said by {bistable} of {}; {between} of {} runs between",
        least * 100.0,
        most * 100.0,
        predicted.len(),
        measured.len()
    )
}

/// How far beyond a steady state a run may lie, as a share of its halts: the first halts and cut polls.
const SLACK: f64 = 0.03;
