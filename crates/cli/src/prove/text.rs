//! A comparison on a page: the verdict, what was measured, what replay had said, and what it rests on.

mod rests;

use haltwise_core::prove::compare::Verdict;
use haltwise_core::prove::figure::{Figure, Unit};
use haltwise_core::prove::predict::Prediction;
use haltwise_core::recording::Side;
use haltwise_document::text::Style;

use crate::number::{nanos, three_digits};
use crate::page::{Page, Stands, harmless};
use crate::proof::{self, MeasuredFigure, Proof, figure};
use crate::words::plural;

/// Lays a result out, with so many figures.
pub(crate) fn render(view: &Proof, top: usize, style: Style) -> String {
    let mut page = Page::styled(style);
    let (a, b) = (harmless(&view.a.spec), harmless(&view.b.spec));
    page.heading(&format!("A: {a}   B: {b}"));
    page.advice("  ", &verdict(view), 2);
    if view.partial {
        let wanted = plural(u64::from(view.design.rounds_wanted), "round");
        let text = format!(
            "Partial: ended by {} after {} of {wanted}.",
            harmless(&view.ended_by),
            view.design.rounds
        );
        page.wrapped("  ", &text, 2);
    }
    measured(&mut page, view, top);
    predicted(&mut page, view);
    scopes(&mut page, view);
    rests::rests(&mut page, view);
    page.finish()
}

pub(crate) fn verdict(view: &Proof) -> String {
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

fn scopes(page: &mut Page, view: &Proof) {
    if view.scopes.is_empty() {
        return;
    }
    page.heading("Cost of a halt by VM");
    let head = ["", "ceiling", "A", "B", "B - A", "noise", "predicted"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(view.scopes.iter().map(|scope| {
        let follow = "those that follow halt_poll_ns";
        let (a, b) = (scope.a_halt_poll_ns, scope.b_halt_poll_ns);
        let value = |ns| figure::value(Unit::Nanos, ns);
        vec![
            harmless(scope.vm.as_deref().unwrap_or(follow)),
            format!("{} -> {}", nanos(a.into()), nanos(b.into())),
            value(scope.a),
            value(scope.b),
            figure::difference(Unit::Nanos, scope.effect.estimate),
            value(scope.noise.reach()),
            scope.predicted.map_or_else(|| "-".to_owned(), value),
        ]
    }));
    page.table(0, &STANDS, &rows);
    page.gap();
    let text = "Each VM by its own goal. KVM cannot take a ceiling away: a VM that followed halt_poll_ns has its value \
                as a ceiling of its own from now on, until it is restarted.";
    page.wrapped("  ", text, 2);
}

const STANDS: [Stands; 7] = Stands::of_numbers();

fn measured(page: &mut Page, view: &Proof, top: usize) {
    page.heading("Measured");
    let head = ["", "A", "B", "B - A", "interval", "noise"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(view.figures.iter().take(top).map(row));
    page.table(0, &STANDS[..6], &rows);
    if let Some(more) = view.figures.len().checked_sub(top).filter(|more| *more > 0) {
        page.wrapped("  ", &format!("and {more} more (--rows all)"), 2);
    }
    page.gap();
    let confidences = view
        .figures
        .iter()
        .map(|one| one.comparison.effect.confidence);
    let confidence = confidences.fold(1.0, f64::min);
    let text = format!(
        "* larger than the noise, which is the difference of A against itself. A and B are medians \
         over {}; B - A is the typical difference within a round, with its {:.0} % confidence \
         interval. The verdict is about the cost alone.",
        plural(view.design.rounds, "round"),
        (100.0 * confidence).floor(),
    );
    page.wrapped("  ", &text, 2);
}

fn row(view: &MeasuredFigure) -> Vec<String> {
    let one = &view.comparison;
    let unit = view.unit;
    let mark = if view.differs { "* " } else { "  " };
    vec![
        format!("{mark}{}", figure::name(one.figure)),
        figure::value(unit, one.a),
        figure::value(unit, one.b),
        figure::difference(unit, one.effect.estimate),
        figure::span(unit, one.effect.low, one.effect.high),
        figure::value(unit, one.noise.reach()),
    ]
}

fn dash() -> String {
    "-".to_owned()
}

fn predicted(page: &mut Page, view: &Proof) {
    let told = &view.predictions;
    if told.of_a.is_empty() && told.of_b.is_empty() {
        page.heading("Not predicted");
    } else {
        page.heading("Prediction by replay");
        let head = ["", "B pred.", "meas.", "error", "A pred.", "meas.", "error"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for wanted in Figure::PREDICTED {
            let find = |of: &[Prediction]| of.iter().find(|one| one.figure == wanted).copied();
            let (of_b, of_a) = (find(&told.of_b), find(&told.of_a));
            if of_b.is_none() && of_a.is_none() {
                continue;
            }
            let outside = [of_b, of_a].iter().flatten().any(|one| !one.within);
            let mark = if outside { "! " } else { "  " };
            let mut row = vec![format!("{mark}{}", figure::name(wanted))];
            row.extend(cells(wanted.unit(), of_b));
            row.extend(cells(wanted.unit(), of_a));
            rows.push(row);
        }
        page.table(0, &STANDS, &rows);
        page.gap();
        page.wrapped("  ", &within(view), 2);
    }
    for (name, rounds) in [("B", told.bistable_b), ("A", told.bistable_a)] {
        if rounds > 0 {
            let text = format!(
                "Replay predicts two steady states for {name} in {rounds} of {}: a vCPU may end in \
                 either. Shown is the one that starts with a window of 0.",
                plural(view.design.rounds, "round")
            );
            page.wrapped("  ", &text, 2);
        }
    }
    for note in &told.notes {
        page.wrapped("  ", &format!("{}.", harmless(note)), 2);
    }
}

fn cells(unit: Unit, prediction: Option<Prediction>) -> [String; 3] {
    let Some(prediction) = prediction else {
        return [dash(), dash(), dash()];
    };
    let error = prediction.predicted - prediction.measured;
    // A share of a share misleads: those are told in points.
    let off = match (unit, prediction.relative_error()) {
        (Unit::Percent, _) | (_, None) => figure::difference(unit, error),
        (_, Some(share)) => figure::percent(share * 100.0),
    };
    [
        figure::value(unit, prediction.predicted),
        figure::value(unit, prediction.measured),
        off,
    ]
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
pub(crate) fn not_judged(view: &Proof) -> Option<String> {
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
