//! The same where only histograms were kept (`record --mode counts` or `stats`): a fixed threshold, with
//! bounds.

use std::collections::BTreeSet;

use anyhow::anyhow;
use haltwise_capture::info::CaptureInfo;
use haltwise_capture::table::Table;
use haltwise_core::event::HaltCounts;
use haltwise_core::ids::{VcpuId, VmIndex};
use haltwise_core::kvm::{Knobs, Rule};
use haltwise_core::recording::Mode;
use haltwise_core::replay::latency::Table as Latencies;
use haltwise_core::replay::{Cost, Doubts};
use haltwise_core::stats::total;
use haltwise_core::tune::advice::Verdict;
use haltwise_core::tune::candidates::Reach;
use haltwise_core::tune::counted::{Bound, Counted, CountedAdvice, advise};
use haltwise_document::{Rows, Unit, figures, text};

use super::basis::SearchBasis;
use super::candidates::{self, TuneRequest, contended, goals, idle_cpu_percent};
use super::is_partial;
use super::recommendation::Recommendation;
use super::view::{TuneBasis, TuneResult, settings};
use super::{SCHEMA, reach, say};
use crate::exit::{Exit, Failure};
use crate::number::{count, nanos, nanos_f64, share};
use crate::page::Page;
use crate::plan::{Effect, Expected, Interval, TuneGoal};
use crate::prices::model::Model;
use crate::prices::{self, Known};
use crate::reading::given::knobs_of;
use crate::reading::opened::{Broken, Opened, explain_shared};
use crate::reading::pass::{PassEnds, Sink};
use crate::reading::rule::KernelSought;
use crate::reading::select;

figures! {
    pub(crate) struct CountedSettings {
        /// The minimax threshold; 0 does not poll.
        pub(crate) threshold_ns: u64 = Nanos,
        /// Halts of which the gap is known.
        pub(crate) halts: u64 = Count,
        /// Halts of which it is not.
        pub(crate) gap_unknown: u64 = Count,
        /// Figures of the current setting, as counted. Each of the three lies between two ends, wherever in its bucket
        /// each gap lay.
        pub(crate) in_force: BoundedFigures = Record(BoundedFigures::FIGURES),
        /// Figures of the threshold.
        pub(crate) threshold: BoundedFigures = Record(BoundedFigures::FIGURES),
        /// Figures of not polling.
        pub(crate) off: BoundedFigures = Record(BoundedFigures::FIGURES),
    }

    /// Figures between two ends.
    #[derive(Clone, Copy)]
    pub(crate) struct BoundedFigures {
        /// Cost of a halt at the least.
        pub(crate) cost_low_ns: f64 = MeanNanos,
        /// And at the most; `null` where it is not known how long halts polled.
        pub(crate) cost_high_ns: Option<f64> = MeanNanos,
        /// Polling at the least.
        pub(crate) poll_cpu_percent_low: Option<f64> = CpuPercent,
        /// And at the most.
        pub(crate) poll_cpu_percent_high: Option<f64> = CpuPercent,
        /// Mean wake-up latency over all halts, at the least.
        pub(crate) latency_mean_low_ns: f64 = MeanNanos,
        /// And at the most.
        pub(crate) latency_mean_high_ns: f64 = MeanNanos,
    }
}

const NO_VM_GOALS: &str = "Goals of single VMs have no effect here: the histograms are evaluated for all VMs together. \
                           Record with --mode full.";

pub(crate) fn search(
    opened: &Opened,
    request: &TuneRequest,
    histograms: Histograms,
) -> Result<TuneResult, Failure> {
    let info = opened.info();
    let version = KernelSought::new(opened)?.finish(&PassEnds::default());
    let arch = prices::arch_of(info);
    let (in_force, knobs_assumed) = knobs_of(&info.knobs, version, arch);
    let reach = Reach::of(Rule::of(version, arch));
    let rows = histograms.finish()?;
    let (own_ceilings, follows) = own_ceilings(info, &rows);
    let price = info.price.as_deref();
    let known = prices::of_latency(&request.costs, price, latency_seen_ns(&rows))?;
    let (counted, otherwise) = counted(&rows, info, &in_force, &known)?;
    let idle_cpu_percent = idle_cpu_percent(opened);
    let polls = counted.poll_ns.map_or(0.0, |ns| counted.percent(ns));
    let free = idle_cpu_percent.map(|idle| idle + polls);
    let [asked, ..] = goals(request, &known, free, contended(opened));
    let advice = advise(&counted, &otherwise, reach, &in_force, &asked.aim);
    let advice = advice.ok_or_else(prices::nothing_known)?;
    let recommended = (advice.changes && follows).then(|| settings(&advice.knobs, reach));
    let in_force_values = settings(&in_force, reach);
    let changes = recommended.map(|to| to.beyond(&in_force_values));
    let note = (!request.goals.is_empty()).then(|| NO_VM_GOALS.to_owned());
    let of_search = || (verdict(&advice), reason(&counted, &advice));
    let (verdict, reason) = reach::judged(follows, of_search);
    let kernel = [version.to_string(), arch.to_string()];
    let basis = TuneBasis {
        search: SearchBasis {
            model: Model::new(info, kernel, knobs_assumed, &known),
            halts: total([counted.halts, counted.gap_unknown]),
            judged_halts: counted.halts,
            judged_ns: counted.wall.span_ns,
            blocks_recorded: counted.blocks,
            blocks_replayed: counted.blocks,
            doubts: Doubts::default(),
            skipped: 0,
            lost: total(info.lost.values()),
            partial: is_partial(opened),
        },
        switch_cpu_ends_ns: known.switch_cpu_ends_ns,
        other_ceiling_vcpus: 0,
        latency_guessed: 0,
        latency_thin: 0,
        latency_calibrated: otherwise.first().map_or(0, |_| sleeps(&counted, &advice)),
        idle_cpu_percent,
        out_of_order: 0,
        vetoed_vcpus: reach::disabled(info).len() as u64,
        own_ceiling_vcpus: own_ceilings,
        ceiling_is_snapshot: say::is_snapshot(Rule::of(version, arch)),
    };
    Ok(TuneResult {
        schema: SCHEMA,
        basis,
        recommendation: Recommendation {
            changes: recommended.is_some(),
            follows: Some(follows),
            reason,
            notes: note.into_iter().collect(),
            commands: changes.as_ref().map_or_else(Vec::new, say::commands),
            recommended,
            ..Recommendation::leave("host", (TuneGoal::of(&asked), verdict), in_force_values)
        },
        vm_goals: Vec::new(),
        played: None,
        counted: Some(view(&counted, &advice, &asked.aim.cost)),
    })
}

/// Takes the histograms in, but for those of vCPUs that no setting reaches.
#[derive(Debug)]
pub(crate) struct Histograms {
    vms: Option<Vec<VmIndex>>,
    disabled: BTreeSet<(VmIndex, VcpuId)>,
    rows: Vec<HaltCounts>,
    left_out: bool,
    broken: Option<Broken>,
}

impl Histograms {
    pub(crate) fn new(opened: &Opened, request: &TuneRequest) -> Self {
        Self {
            vms: request.vms.clone(),
            disabled: reach::disabled(opened.info()),
            rows: Vec::new(),
            left_out: false,
            broken: None,
        }
    }

    pub(crate) fn ended(&mut self, ends: &PassEnds) {
        self.broken = ends.broken(Table::HaltCounts).cloned();
    }

    fn finish(self) -> Result<Vec<HaltCounts>, Failure> {
        if let Some(broken) = &self.broken {
            return Err(explain_shared(broken));
        }
        if self.rows.is_empty() && self.left_out {
            return Err(candidates::all_disabled());
        }
        if self.rows.is_empty() {
            let error = anyhow!("this capture contains no halts: nothing to tune");
            return Err(Failure::new(Exit::Failed, error).hint("`haltwise report` says why"));
        }
        Ok(self.rows)
    }
}

impl Sink for Histograms {
    fn wants(&self, table: Table) -> bool {
        table == Table::HaltCounts
    }

    fn counts(&mut self, row: &HaltCounts) {
        if reach::is_of(&self.disabled, row.vm, row.vcpu) {
            self.left_out |= row.halts > 0;
            return;
        }
        let wanted = select::is_among(self.vms.as_deref(), row.vm);
        if wanted && row.halts > 0 {
            self.rows.push(row.clone());
        }
    }
}

/// vCPUs with a ceiling of their VM's own, and whether there is any other.
fn own_ceilings(info: &CaptureInfo, rows: &[HaltCounts]) -> (u64, bool) {
    let own = reach::own(info);
    let is_own = |row: &&HaltCounts| reach::is_of(&own, row.vm, row.vcpu);
    let owners = rows.iter().filter(is_own);
    let owners: BTreeSet<_> = owners.map(|row| (row.vm, row.vcpu)).collect();
    (owners.len() as u64, !rows.iter().all(|row| is_own(&row)))
}

fn verdict(advice: &CountedAdvice) -> Verdict {
    match () {
        () if advice.changes => Verdict::Change,
        () if advice.hangs_on_calibration => Verdict::Unproven,
        () => Verdict::NotSignificant,
    }
}

/// How many halts the threshold lets sleep, at the most.
fn sleeps(counted: &Counted, advice: &CountedAdvice) -> u64 {
    let latency_ns = counted.latency_mean_ns().unwrap_or(0);
    let sleeps = advice.bounds.high.latency_ns.checked_div(latency_ns);
    sleeps.unwrap_or(0)
}

/// The mean wake-up latency that was counted, if any was.
fn latency_seen_ns(rows: &[HaltCounts]) -> Option<[u64; 2]> {
    let seen = rows.iter().map(|row| &row.wake_latency_ns);
    let (sum, count) = seen.fold((0_u64, 0_u64), |(sum, count), hist| {
        (total([sum, hist.sum()]), total([count, hist.count()]))
    });
    sum.checked_div(count).map(|ns| [ns; 2])
}

fn counted(
    rows: &[HaltCounts],
    info: &CaptureInfo,
    in_force: &Knobs,
    known: &Known,
) -> Result<(Counted, Vec<Counted>), Failure> {
    let vcpus: BTreeSet<_> = rows.iter().map(|row| (row.vm, row.vcpu, row.tid)).collect();
    let first = (rows.iter())
        .map(|row| row.time_ns.saturating_sub(row.interval_ns))
        .min();
    let last = rows.iter().map(|row| row.time_ns).max();
    let span_ns = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
    let vcpus = vcpus.len() as u64;
    if info.mode == Mode::Counts {
        return Ok((Counted::of_counts(rows, vcpus, span_ns), Vec::new()));
    }
    let latencies = known.elsewhere.as_ref().and_then(Latencies::of_price);
    let latencies = latencies.ok_or_else(prices::nothing_known)?;
    // The longest time that any vCPU may have polled.
    let ceilings = info.roster.vcpus.iter().filter_map(|vcpu| vcpu.ceiling_ns);
    let window_ns = ceilings.max().unwrap_or(in_force.halt_poll_ns);
    let window_ns = u64::from(window_ns);
    let counted = |latencies: &_| Counted::of_kvm(rows, vcpus, span_ns, window_ns, latencies);
    let otherwise = [latencies.early(), latencies.late()].map(|it| it.unwrap_or(latencies.clone()));
    Ok((counted(&latencies), otherwise.iter().map(counted).collect()))
}

fn per_halt(milli: u128, counted: &Counted) -> f64 {
    milli as f64 / 1e3 / counted.halts.max(1) as f64
}

fn view(counted: &Counted, advice: &CountedAdvice, cost: &Cost) -> CountedSettings {
    let ends = |low: &Bound, high: &Bound| BoundedFigures {
        cost_low_ns: per_halt(low.milli, counted),
        cost_high_ns: Some(per_halt(high.milli, counted)),
        poll_cpu_percent_low: Some(counted.percent(low.poll_ns.min(high.poll_ns))),
        poll_cpu_percent_high: Some(counted.percent(low.poll_ns.max(high.poll_ns))),
        latency_mean_low_ns: low.latency_ns as f64 / counted.halts.max(1) as f64,
        latency_mean_high_ns: high.latency_ns as f64 / counted.halts.max(1) as f64,
    };
    let in_force = advice.in_force;
    let polls = counted.poll_ns.map(|ns| counted.percent(ns));
    let latency = counted.latency_ns as f64 / (counted.halts + counted.gap_unknown).max(1) as f64;
    let off = counted.bounds(0, cost).unwrap_or_default();
    CountedSettings {
        threshold_ns: advice.threshold_ns,
        halts: counted.halts,
        gap_unknown: counted.gap_unknown,
        in_force: BoundedFigures {
            cost_low_ns: per_halt(in_force.least_milli, counted),
            cost_high_ns: in_force.known_milli.map(|milli| per_halt(milli, counted)),
            poll_cpu_percent_low: polls,
            poll_cpu_percent_high: polls,
            latency_mean_low_ns: latency,
            latency_mean_high_ns: latency,
        },
        threshold: ends(&advice.bounds.low, &advice.bounds.high),
        off: ends(&off.low, &off.high),
    }
}

fn reason(counted: &Counted, advice: &CountedAdvice) -> String {
    let low = nanos_f64(per_halt(advice.bounds.low.milli, counted));
    let high = nanos_f64(per_halt(advice.bounds.high.milli, counted));
    let in_force = per_halt(advice.in_force.least_milli, counted);
    let least = match advice.in_force.known_milli {
        Some(_) => nanos_f64(in_force),
        None => format!("{} or more", nanos_f64(in_force)),
    };
    let name = match advice.threshold_ns {
        0 => "Without polling".to_owned(),
        ns => format!("Under a fixed threshold of {}", nanos(ns)),
    };
    let verdict = match () {
        () if advice.changes => "",
        () if advice.hangs_on_calibration => {
            ", but the calibration is not precise enough to be sure: measure both first \
             (`haltwise prove`)"
        }
        () => ", which is not significantly better",
    };
    let costs = if low == high {
        low
    } else {
        format!("{low} to {high}, depending on where each gap lies in its bucket")
    };
    format!(
        "{name} a halt costs {costs}; the current setting {least}{verdict}. Histograms do not \
         contain the order of gaps, so windows that grow and shrink cannot be evaluated: record \
         with --mode full for that."
    )
}

pub(crate) fn show(page: &mut Page, view: &CountedSettings) {
    let threshold = match view.threshold_ns {
        0 => "off".to_owned(),
        ns => format!("fixed {}", nanos(ns)),
    };
    let mut rows = vec![
        ("current, as counted".to_owned(), &view.in_force),
        (threshold, &view.threshold),
    ];
    if view.threshold_ns > 0 {
        rows.push(("no polling".to_owned(), &view.off));
    }
    let percent = |of: Option<f64>| of.map(|percent| share(percent / 100.0));
    let table = Rows::undeclared("Settings", &rows, usize::MAX)
        .with("from histograms", Unit::Word, |(name, _)| name.clone())
        .with("polling", Unit::Shown, |(_, ends)| {
            let high = percent(ends.poll_cpu_percent_high);
            between(percent(ends.poll_cpu_percent_low), high)
        })
        .with("latency", Unit::Shown, |(_, ends)| {
            let high = nanos_f64(ends.latency_mean_high_ns);
            between(Some(nanos_f64(ends.latency_mean_low_ns)), Some(high))
        })
        .with("cost/halt", Unit::Shown, |(_, ends)| {
            let high = ends.cost_high_ns.map(nanos_f64);
            between(Some(nanos_f64(ends.cost_low_ns)), high)
        })
        .finish();
    page.gap();
    text::table(page, &table);
    if view.gap_unknown > 0 {
        let text = format!(
            "{} more halts have no known gap and are not included.",
            count(view.gap_unknown)
        );
        page.wrapped("  ", &text, 2);
    }
}

/// Two ends in words; `None` is not known.
fn between(low: Option<String>, high: Option<String>) -> String {
    let [low, high] = [low, high].map(|end| end.unwrap_or_else(|| "?".to_owned()));
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

impl CountedSettings {
    /// Expected effects for a plan; `None` where it is not known how long halts polled.
    pub(crate) fn expected(&self) -> Option<Expected> {
        let (own, other) = (&self.threshold, &self.in_force);
        let effect = |before: f64, low: f64, high: f64| Effect {
            before,
            after: high,
            change_low: low - before,
            change_high: high - before,
        };
        Some(Expected {
            interval: Interval::Bounds,
            halts: self.halts,
            cost_ns_per_halt: effect(other.cost_high_ns?, own.cost_low_ns, own.cost_high_ns?),
            poll_cpu_percent: effect(
                other.poll_cpu_percent_high?,
                own.poll_cpu_percent_low?,
                own.poll_cpu_percent_high?,
            ),
            wake_latency_mean_ns: effect(
                other.latency_mean_high_ns,
                own.latency_mean_low_ns,
                own.latency_mean_high_ns,
            ),
        })
    }
}
