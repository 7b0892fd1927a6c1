//! The view, computed from the sums of both captures.

use std::collections::BTreeSet;

use haltwise_core::diff::figure::{Exited, Figure};
use haltwise_core::diff::judge::{Comparison, Verdict, holm};
use haltwise_core::exit::Cause;
use haltwise_core::exit::names::Names;
use haltwise_core::stats::jackknife::{Estimate, Jackknife};

use super::load::{Side, Sums};
use super::pair::{Pair, Pairing};
use super::view::{ComparedCapture, ComparedFigure, Differences, Estimated, ExitCause};
use super::{SCHEMA, around};

pub(crate) fn build(
    (a, sums_a): (&Side<'_>, Vec<Sums>),
    (b, sums_b): (&Side<'_>, Vec<Sums>),
    pairing: Pairing,
) -> Differences {
    let recorded = a.opened.info().exits.as_ref();
    let mut names = Names::default();
    for side in [b, a] {
        let told = side.opened.info().exits.iter().flat_map(|it| &it.names);
        told.for_each(|named| names.tell(named.isa, named.reason, &named.name));
    }
    // A cause that one of them was told to leave out did not fail to happen there.
    let same_filters = match (recorded, &b.opened.info().exits) {
        (Some(a), Some(b)) => a.reasons == b.reasons && a.vcpus == b.vcpus,
        _ => false,
    };
    let mut rows: Vec<JudgedFigure> = Vec::new();
    for ((pair, a), b) in pairing.pairs.iter().zip(&sums_a).zip(&sums_b) {
        halts(&mut rows, pair, a, b);
        exits(&mut rows, pair, a, b, same_filters);
    }
    holm(rows.iter_mut().map(|row| &mut row.comparison));
    rows.sort_by(|one, other| {
        let (one, other) = (&one.comparison, &other.comparison);
        let sizes = (other.size()).total_cmp(&one.size());
        one.verdict.cmp(&other.verdict).then(sizes)
    });
    let compared = rows.iter().filter(|row| row.comparison.p.is_some()).count();
    let is_different = |row: &&JudgedFigure| row.comparison.verdict == Verdict::Different;
    Differences {
        schema: SCHEMA,
        a: capture(a, sums_a.first()),
        b: capture(b, sums_b.first()),
        circumstances: around::circumstances(a, b, &pairing),
        compared,
        different: rows.iter().filter(is_different).count(),
        comparisons: rows.iter().map(|row| row.view(&names)).collect(),
        only_a: pairing.only_a,
        only_b: pairing.only_b,
    }
}

struct JudgedFigure<'a> {
    pair: &'a Pair,
    figure: Figure,
    cause: Option<Cause>,
    comparison: Comparison,
}

impl JudgedFigure<'_> {
    fn view(&self, names: &Names) -> ComparedFigure {
        let it = &self.comparison;
        let [vm, vm_b] = match self.pair {
            Some(both) => both.each_ref().map(|named| Some(named.name.clone())),
            None => [None, None],
        };
        ComparedFigure {
            vm,
            vm_b,
            figure: self.figure,
            cause: self.cause.map(|cause| ExitCause {
                kind: cause.kind,
                isa: cause.isa,
                reason: cause.reason,
                name: cause.name(names),
            }),
            unit: self.figure.unit(),
            verdict: it.verdict,
            a: it.a.map(estimate),
            b: it.b.map(estimate),
            difference: it.difference,
            ratio: it.ratio(),
            size: it.size(),
            p: it.p,
            p_adjusted: it.p_adjusted,
        }
    }
}

fn estimate(it: Estimate) -> Estimated {
    Estimated {
        estimate: it.value,
        standard_error: it.variance.sqrt(),
        blocks: it.blocks,
        worth_blocks: it.worth,
    }
}

fn halts<'a>(rows: &mut Vec<JudgedFigure<'a>>, pair: &'a Pair, a: &Sums, b: &Sums) {
    for &figure in Figure::OF_HALTS {
        let of = |sums: &Sums| sums.halts.estimate(|it| it.figure(figure));
        row(rows, pair, figure, None, of(a), of(b));
    }
}

fn exits<'a>(
    rows: &mut Vec<JudgedFigure<'a>>,
    pair: &'a Pair,
    a: &Sums,
    b: &Sums,
    same_filters: bool,
) {
    let (Some(exits_a), Some(exits_b)) = (&a.exits, &b.exits) else {
        return;
    };
    let causes: BTreeSet<Cause> = exits_a.keys().chain(exits_b.keys()).copied().collect();
    for cause in causes {
        let (in_a, in_b) = (exits_a.get(&cause), exits_b.get(&cause));
        if !same_filters && (in_a.is_none() || in_b.is_none()) {
            continue;
        }
        let (in_a, in_b) = (in_a.unwrap_or(&a.no_exits), in_b.unwrap_or(&b.no_exits));
        for &figure in Figure::OF_EXITS {
            // How long a halt takes says nothing of its exit.
            if figure == Figure::Exits || !cause.is_halt() {
                let of = |it: &Jackknife<Exited>| it.estimate(|sums| sums.figure(figure));
                row(rows, pair, figure, Some(cause), of(in_a), of(in_b));
            }
        }
    }
}

/// Adds a row, if one of them tells the figure.
fn row<'a>(
    rows: &mut Vec<JudgedFigure<'a>>,
    pair: &'a Pair,
    figure: Figure,
    cause: Option<Cause>,
    a: Option<Estimate>,
    b: Option<Estimate>,
) {
    if a.is_some() || b.is_some() {
        rows.push(JudgedFigure {
            pair,
            figure,
            cause,
            comparison: Comparison::new(a, b),
        });
    }
}

fn capture(side: &Side<'_>, first: Option<&Sums>) -> ComparedCapture {
    let recording = &side.recording;
    let reported = recording.reported.clone();
    ComparedCapture {
        path: side.opened.named().display().to_string(),
        host: recording.hostname(),
        kernel: recording.kernel(),
        rung: reported.rung,
        mode: reported.mode,
        started_utc: reported.started_utc,
        duration_ns: reported.duration_ns,
        block_ns: first.map_or(0, |sums| sums.block_ns),
        vms: recording.info.roster.vms.len(),
        halts: recording.ledger.total().halts,
        exits: side.opened.info().exits.is_some(),
        cut: reported.cut,
        damaged: recording.damaged,
        lost: recording.without_row(),
        missing: reported.missing,
        notes: reported.notes,
    }
}
