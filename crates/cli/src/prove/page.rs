//! A comparison, on a screen and on the page of `report --html`: the verdict, what was measured, what replay had said, and what it rests on.

mod basis;

use haltwise_core::prove::compare::{Prediction, Verdict};
use haltwise_core::prove::figure::{Figure, Unit};
use haltwise_core::recording::Side;
use haltwise_document::{Document, Rows, Table, Unit as Is, Untrusted, prose};
use serde_json::json;

use crate::figures::PolledBar;
use crate::number::{nanos, three_digits};
use crate::proof::{self, MeasuredFigure, Proof, ProvenScope, figure};
use crate::words::plural;

pub(crate) fn document(view: &Proof, top: usize) -> Document {
    let mut document = Document::new();
    let (a, b) = (Untrusted::from(&view.a.spec), Untrusted::from(&view.b.spec));
    document.heading(prose!["A: ", a, "   B: ", b]);
    document.advice(verdict(view));
    if view.partial {
        let wanted = plural(u64::from(view.design.rounds_wanted), "round");
        let ended_by = Untrusted::from(&view.ended_by);
        let after = format!(" after {} of {wanted}.", view.design.rounds);
        document.prose(prose!["Partial: ended by ", ended_by, after]);
    }
    measured(&mut document, view, top);
    PolledBar::show(&mut document, &view.polled);
    predicted(&mut document, view);
    scopes(&mut document, view);
    basis::rests(&mut document, view);
    document
}

fn verdict(view: &Proof) -> String {
    let main = view
        .figures
        .iter()
        .find(|one| one.comparison.figure == Figure::Cost);
    let Some(main) = main else {
        return "No verdict: the cost of halts is not known in any round.".to_owned();
    };
    let effect = main.comparison.effect;
    let unit = main.unit;
    let share = |ns: f64| {
        let percent = main
            .comparison
            .share_of_a(ns)
            .map(|share| share.abs() * 100.0);
        percent.map_or_else(String::new, |percent| {
            format!("{} % of A", three_digits(percent))
        })
    };
    let rounds = plural(view.design.rounds, "round");
    let by = || {
        let [one, other] = [effect.low, effect.high].map(&share);
        let (least, most) = if effect.estimate < 0.0 {
            (other, one)
        } else {
            (one, other)
        };
        let least = least.trim_end_matches(" of A").to_owned();
        format!(
            "by {} ({}; {least} to {most})",
            figure::value(unit, effect.estimate.abs()),
            share(effect.estimate),
        )
    };
    match view.verdict {
        Verdict::Better => format!("B is better: a halt costs less, {}.", by()),
        Verdict::Worse => format!("B is worse: a halt costs more, {}.", by()),
        Verdict::NoDifference { .. } if effect.excludes_zero() => format!(
            "No difference beyond the noise: in the cost of a halt, B differs from A by {} ({}), and A \
             measured against itself by up to {} ({}). A larger difference would have been detected.",
            figure::difference(unit, effect.estimate),
            share(effect.estimate),
            figure::value(unit, main.comparison.noise.reach()),
            share(main.comparison.noise.reach()),
        ),
        Verdict::NoDifference { seen_from } => format!(
            "No difference detected in {rounds}: a difference of {} or more ({}) in the cost of a halt \
             would have been detected.",
            figure::value(unit, seen_from),
            share(seen_from),
        ),
        Verdict::TooNoisy { noise } => format!(
            "The {} was too noisy: in the cost of a halt, A measured against itself differs by up to \
             {} ({}). B differs from it by {}; the limit is {} % of A. Use longer blocks, more rounds, \
             or a quieter {0}.",
            machine(view),
            figure::value(unit, noise),
            share(noise),
            figure::value(unit, effect.estimate.abs()),
            three_digits(view.design.detect_percent),
        ),
        Verdict::TooFewRounds { needed } => format!(
            "No verdict: {rounds}, and at least {needed} are needed. The intervals below have only {} \
             % confidence.",
            (effect.confidence * 100.0).floor(),
        ),
    }
}

fn machine(view: &Proof) -> &'static str {
    match view.side {
        Side::Host => "host",
        Side::Guest => "guest",
    }
}

fn scopes(document: &mut Document, view: &Proof) {
    if view.scopes.is_empty() {
        return;
    }
    document.heading("Cost of a halt by VM");
    let value = |ns| figure::value(Unit::Nanos, ns);
    let follow = "those that follow halt_poll_ns";
    let table = Rows::new("Cost of a halt", &view.scopes, usize::MAX)
        .with("", Is::Name, |scope: &ProvenScope| {
            scope.vm.clone().unwrap_or_else(|| follow.to_owned())
        })
        .with("ceiling", Is::Shown, |scope| {
            let (a, b) = (scope.a_halt_poll_ns, scope.b_halt_poll_ns);
            format!("{} -> {}", nanos(a.into()), nanos(b.into()))
        })
        .with("A", Is::Shown, |scope| value(scope.a))
        .with("B", Is::Shown, |scope| value(scope.b))
        .with("B - A", Is::Shown, |scope| {
            figure::difference(Unit::Nanos, scope.effect.estimate)
        })
        .with("noise", Is::Shown, |scope| value(scope.noise.reach()))
        .with("predicted", Is::Shown, |scope| {
            scope.predicted.map_or_else(dash, value)
        });
    document.table(table.spare(&["noise", "predicted", "ceiling"]).finish());
    document.prose(
        "Each VM by its own goal. KVM cannot take a ceiling away: a VM that followed halt_poll_ns has its value \
         as a ceiling of its own from now on, until it is restarted.",
    );
}

fn measured(document: &mut Document, view: &Proof, top: usize) {
    document.heading("Measured");
    document.table(figures(view, top));
    let confidences = view
        .figures
        .iter()
        .map(|one| one.comparison.effect.confidence);
    let confidence = confidences.fold(1.0, f64::min);
    document.prose(format!(
        "* larger than the noise, which is the difference of A against itself. A and B are medians \
         over {}; B - A is the typical difference within a round, with its {:.0} % confidence \
         interval. The verdict is about the cost alone.",
        plural(view.design.rounds, "round"),
        (100.0 * confidence).floor(),
    ));
}

fn figures(view: &Proof, top: usize) -> Table {
    Rows::new("Figures of A and B", &view.figures, top)
        .with("", Is::Word, |one: &MeasuredFigure| {
            let mark = if one.differs { "* " } else { "  " };
            format!("{mark}{}", figure::name(one.comparison.figure))
        })
        .with("A", Is::Shown, |one| {
            figure::value(one.unit, one.comparison.a)
        })
        .with("B", Is::Shown, |one| {
            figure::value(one.unit, one.comparison.b)
        })
        .with("B - A", Is::Shown, |one| {
            figure::difference(one.unit, one.comparison.effect.estimate)
        })
        .with("interval", Is::Shown, |one| {
            let effect = &one.comparison.effect;
            figure::span(one.unit, effect.low, effect.high)
        })
        .with("about zero", Is::Drawn, |one| {
            let (effect, noise) = (&one.comparison.effect, &one.comparison.noise);
            let reach = effect.low.abs().max(effect.high.abs()).max(noise.reach());
            json!([effect.estimate, effect.low, effect.high, reach])
        })
        .with("noise", Is::Shown, |one| {
            figure::value(one.unit, one.comparison.noise.reach())
        })
        .spare(&["noise", "interval"])
        .finish()
}

fn dash() -> String {
    "-".to_owned()
}

struct Predicted {
    figure: Figure,
    of: [Option<Prediction>; 2],
}

fn predicted(document: &mut Document, view: &Proof) {
    let told = &view.predictions;
    let rows = Figure::PREDICTED.map(|figure| {
        let find = |of: &[Prediction]| of.iter().find(|one| one.figure == figure).copied();
        Predicted {
            figure,
            of: [find(&told.of_b), find(&told.of_a)],
        }
    });
    let rows: Vec<Predicted> = rows
        .into_iter()
        .filter(|row| row.of.iter().any(Option::is_some))
        .collect();
    if rows.is_empty() {
        document.heading("Not predicted");
    } else {
        document.heading("Prediction by replay");
        document.table(predictions(&rows));
        document.prose(within(view));
    }
    for (name, rounds) in [("B", told.bistable_b), ("A", told.bistable_a)] {
        if rounds > 0 {
            document.prose(format!(
                "Replay predicts two steady states for {name} in {rounds} of {}: a vCPU may end in \
                 either. Shown is the one that starts with a window of 0.",
                plural(view.design.rounds, "round")
            ));
        }
    }
    for note in &told.notes {
        document.prose(prose![Untrusted::from(note), "."]);
    }
}

fn predictions(rows: &[Predicted]) -> Table {
    let mut table = Rows::undeclared("Predicted and measured", rows, usize::MAX);
    table = table.with("", Is::Word, |row| {
        let outside = row.of.iter().flatten().any(|one| !one.within);
        let mark = if outside { "! " } else { "  " };
        format!("{mark}{}", figure::name(row.figure))
    });
    for (n, paths) in PREDICTIONS.iter().enumerate() {
        let value = |row: &Predicted, of: fn(&Prediction) -> f64| {
            let value = |one: &Prediction| figure::value(row.figure.unit(), of(one));
            row.of[n].as_ref().map_or_else(dash, value)
        };
        table = table
            .with(paths[0], Is::Shown, |row| value(row, |one| one.predicted))
            .with(paths[1], Is::Shown, |row| value(row, |one| one.measured))
            .with(paths[2], Is::Shown, |row| {
                row.of[n].as_ref().map_or_else(dash, error)
            })
            .titled(paths[1], "meas.")
            .titled(paths[2], "error");
    }
    table.spare(&PREDICTIONS[1]).finish()
}

const PREDICTIONS: [[&str; 3]; 2] = [
    ["B pred.", "B meas.", "B error"],
    ["A pred.", "A meas.", "A error"],
];

fn error(of: &Prediction) -> String {
    let error = of.predicted - of.measured;
    // A share of a share misleads: shares are compared in points.
    match (of.figure.unit(), of.relative_error()) {
        (Unit::Percent, _) | (_, None) => figure::difference(of.figure.unit(), error),
        (_, Some(share)) => figure::percent(share * 100.0),
    }
}

fn within(view: &Proof) -> String {
    let told = &view.predictions;
    let all = || told.of_a.iter().chain(&told.of_b);
    let within = all().filter(|one| one.within).count();
    let mut text = format!(
        "{within} of {} measured differences fell within the predicted interval, widened by the noise",
        all().count()
    );
    if within < all().count() {
        text.push_str("; ! marks those that did not");
    }
    text.push('.');
    if let Some(apart) = not_judged(view) {
        text.push(' ');
        text.push_str(&apart);
    }
    text
}

/// Why lying within an interval says nothing of the predictions. `None` where it does.
fn not_judged(view: &Proof) -> Option<String> {
    if let Some(share) = view
        .host
        .cpu_pressure
        .filter(|_| proof::is_pressed(view.host.cpu_pressure))
    {
        return Some(format!(
            "Some task waited for a CPU for {:.0} % of the time: what was measured is of a busy {}, and the ledger does not \
             count it.",
            share * 100.0,
            machine(view),
        ));
    }
    let why = match view.verdict {
        Verdict::TooNoisy { .. } => {
            "The noise makes these intervals too wide to test a prediction: the ledger does not count \
             them."
        }
        Verdict::TooFewRounds { .. } => {
            "Too few rounds to test a prediction: the ledger does not count them."
        }
        Verdict::Better | Verdict::Worse | Verdict::NoDifference { .. } => return None,
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod test;
