//! Comparison of two captures: each figure with its name, unit and meaning.

use std::collections::BTreeSet;

use haltwise_core::account::Account;
use haltwise_core::diff::figure::{Exited, Figure, Unit};
use haltwise_core::diff::judge::{Comparison, Verdict, holm};
use haltwise_core::exit::names::Names;
use haltwise_core::exit::{Cause, Isa, Kind};
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::{Missing, Mode, Rung};
use haltwise_core::stats::jackknife::{Estimate, Jackknife};
use haltwise_core::stats::{Interval, folded};
use haltwise_document::figures;

use super::load::{Side, Sums};
use super::pair::{Pair, Pairing};
use super::{SCHEMA, around};
use crate::figures::{INTERVAL, MISSING, PolledBar};

pub(crate) const ABOUT: &[&str] = &[
    "What ends in `_ns` is nanoseconds. A figure is in its `unit`: `nanos`, `percent` or `per-second`.",
    "`null` means not recorded, or too short to compare. It never means zero.",
    "A difference is B minus A.",
    "Figures of halts: `halts`, `blocks` (halts that were scheduled out), `cut-polls`, `grows`, `shrinks` per \
     second; `successful-polls` in % of polls, left out between x86 kernels before and since 6.12; `poll-useful-cpu` and `poll-wasted-cpu` in % of one CPU; \
     `wake-latency-mean`, `wake-latency-p50` and `wake-latency-p99` of halts that waited; `gap-p50`. Percentiles \
     are known to 12.5 % and interpolated within.",
    "Figures of exits of one cause: `exits` per second; `exit-time`, handling, in % of one CPU; `handling-mean`, \
     `handling-p99`. Exits by which a guest halts have the first alone.",
    "The time of each capture, of a VM from its start on, is cut into 32 blocks of equal length. Each figure is \
     computed from everything, and again without each block: the jackknife gives its variance. Correlation of \
     neighbouring blocks widens it. The difference has Welch's interval. Holm's correction keeps the chance that \
     anything at all is called different, of two captures of one process, at 5 %. A process whose phases last a \
     quarter of the capture or longer is more than a capture can show: record longer.",
];

figures! {
    /// Everything that is said of two captures.
    pub(crate) struct Differences {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// The first capture.
        pub(crate) a: ComparedCapture = Record(ComparedCapture::FIGURES),
        /// The second capture.
        pub(crate) b: ComparedCapture = Record(ComparedCapture::FIGURES),
        /// Circumstances that differ and are no figures: settings, kernel, source, length, losses.
        pub(crate) circumstances: Vec<Circumstance> = List(Circumstance::FIGURES),
        /// VMs that only the first has, by name.
        pub(crate) only_a: Vec<String> = Words,
        /// VMs that only the second has, by name.
        pub(crate) only_b: Vec<String> = Words,
        /// Figures that could be compared, among which the correction chose.
        pub(crate) compared: usize = Count,
        /// How many of them differ.
        pub(crate) different: usize = Count,
        /// Every figure: those that differ first, each kind by its `size`.
        pub(crate) comparisons: Vec<ComparedFigure> = List(ComparedFigure::FIGURES),
        /// Windows and time polled by powers of two, of all that is compared.
        pub(crate) polled: Vec<PolledBar> = List(PolledBar::FIGURES),
    }

    pub(crate) struct ComparedCapture {
        /// The directory, as it was given.
        pub(crate) path: String = Name,
        /// The host's name.
        pub(crate) host: String = Name,
        /// Its kernel's release.
        pub(crate) kernel: String = Name,
        /// Where the facts come from.
        pub(crate) rung: Rung = Word,
        /// Whether each halt is a row (`full`), or halts were counted.
        pub(crate) mode: Mode = Word,
        /// When it began.
        pub(crate) started_utc: Option<String> = Name,
        /// Its length.
        pub(crate) duration_ns: u64 = Nanos,
        /// Length of a block of halts of the first pair compared.
        pub(crate) block_ns: u64 = Nanos,
        /// VMs that were seen.
        pub(crate) vms: usize = Count,
        /// Halts that it holds.
        pub(crate) halts: u64 = Count,
        /// Whether it holds exits.
        pub(crate) exits: bool = Flag,
        /// The recorder did not end the recording itself.
        pub(crate) cut: bool = Flag,
        /// A part cannot be read.
        pub(crate) damaged: bool = Flag,
        /// Events lost, and halts that are counts only.
        pub(crate) lost: u64 = Count,
        /// Fields that this recording cannot hold.
        pub(crate) missing: Vec<Missing> = List(MISSING),
        /// Other findings of the reader of the capture.
        pub(crate) notes: Vec<String> = Words,
    }

    /// Something that differs and is no figure.
    pub(crate) struct Circumstance {
        /// For example `halt_poll_ns`, `ceiling of web-1`, `kernel`.
        pub(crate) what: String = Name,
        /// Its value in A, for people.
        pub(crate) a: String = Name "A",
        /// Its value in B.
        pub(crate) b: String = Name "B",
    }

    pub(crate) struct ComparedFigure {
        /// The VM's name in A; `null` for the host. Where each capture has a single VM and every halt is one of
        /// its, the host is not compared besides.
        pub(crate) vm: Option<String> = Name "VM",
        /// The same VM's name in B.
        pub(crate) vm_b: Option<String> = Name,
        /// Which figure, as listed above.
        pub(crate) figure: Figure = Word,
        /// Cause of the exits, if it is a figure of exits.
        pub(crate) cause: Option<ExitCause> = Record(ExitCause::FIGURES),
        /// Unit that it is counted in.
        pub(crate) unit: Unit = Word,
        /// `different`; `may-be-chance`; `too-short` (too few blocks hold samples of it); `not-told` (by one of
        /// the captures); `in-neither` (0 in both, and not among the `compared`).
        pub(crate) verdict: Verdict = Word,
        /// The figure in A.
        pub(crate) a: Option<Estimated> = Record(Estimated::FIGURES),
        /// The figure in B.
        pub(crate) b: Option<Estimated> = Record(Estimated::FIGURES),
        /// B minus A. The interval holds the true difference of this figure in 95 of 100 comparisons.
        pub(crate) difference: Option<Interval> = Record(INTERVAL),
        /// B as a multiple of A.
        pub(crate) ratio: Option<f64> = Real,
        /// The difference as a share of both together: the same whichever comes first.
        pub(crate) size: f64 = Share,
        /// How likely chance makes as large a difference, of this figure by itself.
        pub(crate) p: Option<f64> = Share,
        /// The same among all `compared` figures (Holm): at most 0.05 is `different`.
        pub(crate) p_adjusted: Option<f64> = Share,
    }

    #[derive(Clone)]
    pub(crate) struct ExitCause {
        /// Kind that was counted, as in [exits](exits-json.md).
        pub(crate) kind: Kind = Word,
        /// Architecture of the reason.
        pub(crate) isa: Isa = Word,
        /// Its number.
        pub(crate) reason: Option<u32> = Number,
        /// Its name.
        pub(crate) name: String = Name,
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Estimated {
        /// The figure, of the whole capture.
        pub(crate) estimate: f64 = Real,
        /// How far it can be trusted.
        pub(crate) standard_error: f64 = Real,
        /// Blocks that hold samples of it, of at most 32, each as long as one or more of the recorded intervals.
        pub(crate) blocks: usize = Count,
        /// How many independent blocks these are worth.
        pub(crate) worth_blocks: f64 = Real,
    }
}

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
    // A cause that one of the filters leaves out may have happened all the same.
    let same_filters = match (recorded, &b.opened.info().exits) {
        (Some(a), Some(b)) => a.reasons == b.reasons && a.vcpus == b.vcpus,
        _ => false,
    };
    let polls_compare = around::polls_compare(a, b);
    let mut rows: Vec<JudgedFigure> = Vec::new();
    for ((pair, a), b) in pairing.pairs.iter().zip(&sums_a).zip(&sums_b) {
        halts(&mut rows, pair, a, b, polls_compare);
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
        polled: PolledBar::of([
            &account(a, &pairing.vms(|[a, _]| a)),
            &account(b, &pairing.vms(|[_, b]| b)),
        ]),
        comparisons: rows.iter().map(|row| row.view(&names)).collect(),
        only_a: pairing.only_a,
        only_b: pairing.only_b,
    }
}

/// The host, if it is compared, else the sum of the VMs.
fn account(side: &Side<'_>, vms: &[Option<&[VmIndex]>]) -> Account {
    let of_vms = |vm: VmIndex| vms.iter().flatten().any(|vms| vms.contains(&vm));
    let is_host = vms.contains(&None);
    let places = side.recording.ledger.places();
    folded(
        places
            .filter(|(place, _)| is_host || place.vm.is_some_and(of_vms))
            .map(|(_, account)| account),
    )
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

fn halts<'a>(
    rows: &mut Vec<JudgedFigure<'a>>,
    pair: &'a Pair,
    a: &Sums,
    b: &Sums,
    polls_compare: bool,
) {
    let compares = |figure: &&Figure| polls_compare || **figure != Figure::SuccessfulPolls;
    for &figure in Figure::OF_HALTS.iter().filter(compares) {
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
        lost: recording.reported.lost,
        missing: reported.missing,
        notes: reported.notes,
    }
}
