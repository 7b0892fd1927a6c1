//! What a search says: the JSON, and all that the text shows.

use haltwise_capture::info::CaptureInfo;
use haltwise_core::kvm::Knobs;
use haltwise_core::replay::session::Seat;
use haltwise_core::replay::{Cost, Doubts, Outcome};
use haltwise_core::stats::total;
use haltwise_core::tune::advice::{Comparison, Finalist, Rejected};
use haltwise_core::tune::candidates::Reach;
use haltwise_core::tune::caps::Caps;
use haltwise_core::tune::interval::Interval;
use haltwise_core::tune::sums::Wall;
use haltwise_core::tune::{Advice, Sums, pareto};
use serde::Serialize;

use super::candidates::{self, Candidates, SettingRow};
use super::counted::CountedView;
use super::follow;
use super::say;
use crate::costs::model::Model;
use crate::plan::Settings;

/// The whole result.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    /// Version of this shape.
    pub(crate) schema: u32,
    /// What it rests on.
    pub(crate) basis: Basis,
    /// What was asked for.
    pub(crate) goal: GoalView,
    /// What to do, in a word.
    pub(crate) verdict: &'static str,
    /// Whether a setting is to be written.
    pub(crate) changes: bool,
    /// Whether any VM follows `halt_poll_ns`; if none does, that parameter is in no plan.
    pub(crate) follows: bool,
    /// Why, in a sentence.
    pub(crate) reason: String,
    /// What must be known beside it, each a sentence or two.
    pub(crate) notes: Vec<String>,
    /// The parameters in force when recorded.
    pub(crate) in_force: Settings,
    /// The parameters to write; `None` to leave them.
    pub(crate) recommended: Option<Settings>,
    /// What was found by playing each halt.
    pub(crate) played: Option<PlayedView>,
    /// What histograms tell, where there is no more.
    pub(crate) counted: Option<CountedView>,
    /// How to follow the recommendation by hand.
    pub(crate) commands: Vec<String>,
}

/// What was found by playing each halt.
#[derive(Debug, Serialize)]
pub(crate) struct PlayedView {
    /// Settings that were looked at.
    pub(crate) looked_at: usize,
    /// The best setting that was not rejected, recommended or not.
    pub(crate) choice: Option<Settings>,
    /// It against what is in force.
    pub(crate) against_in_force: Option<ComparisonView>,
    /// It against the kernel's default.
    pub(crate) against_default: Option<ComparisonView>,
    /// The share of `against_in_force`, were what was calibrated twice as late; `None` where neither rests
    /// on it.
    pub(crate) late_cost_share: Option<f64>,
    /// What is in force is the kernel's default.
    pub(crate) is_default_in_force: bool,
    /// In force, default, the choice, the clairvoyant.
    pub(crate) rows: Vec<RowView>,
    /// The cheapest policy of any kind.
    pub(crate) best_policy: Option<PolicyView>,
    /// A recommendation for each goal that has a name.
    pub(crate) goals: Vec<GoalAdvice>,
    /// Settings that no other beats in both polling and latency.
    pub(crate) front: Vec<PointView>,
    /// Rejected candidates.
    pub(crate) rejected: Vec<RejectedView>,
    /// What ceilings for each VM of its own would add.
    pub(crate) caps: Option<CapsView>,
}

/// What was asked for.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GoalView {
    /// Its name; `lambda` for a weight of the user's own.
    pub(crate) name: String,
    /// Nanoseconds of CPU for one of latency.
    pub(crate) lambda: f64,
    /// The most that polling may take, in % of one CPU.
    pub(crate) max_poll_cpu_percent: Option<f64>,
}

/// What the figures rest on.
#[derive(Debug, Serialize)]
pub(crate) struct Basis {
    /// Whose algorithm, with which costs.
    #[serde(flatten)]
    pub(crate) model: Model,
    /// The ends of its interval, where it was calibrated: intervals of costs reach to both.
    pub(crate) switch_cpu_ends_ns: Option<[u64; 2]>,
    /// Halts that were looked at.
    pub(crate) halts: u64,
    /// Of them, those that judge.
    pub(crate) judged_halts: u64,
    /// Time of the part that judges.
    pub(crate) judged_ns: u64,
    /// Blocks that halts of VMs made, as recorded and as the replay of the setting in force has them.
    pub(crate) blocks_recorded: u64,
    /// The same, replayed.
    pub(crate) blocks_replayed: u64,
    /// On how many of the validated halts assumptions rest, under the setting in force.
    pub(crate) doubts: Doubts,
    /// Of the judging halts, those that under the choice sleep for a length of which no wake-up was
    /// recorded.
    pub(crate) latency_guessed: u64,
    /// Of the judging halts, those that under the choice sleep for a length of which fewer than sixteen
    /// undisturbed wake-ups were recorded.
    pub(crate) latency_thin: u64,
    /// Of the judging halts, those that under the choice sleep for a length of which too few wake-ups were
    /// recorded, and wake as calibrated.
    pub(crate) latency_calibrated: u64,
    /// What the host's CPUs were idle, in % of one CPU; nobody is told to poll for more on top.
    pub(crate) idle_cpu_percent: Option<f64>,
    /// Halts left out because there were too many to keep.
    pub(crate) skipped: u64,
    /// Halts that step back in time, left out.
    pub(crate) out_of_order: u64,
    /// vCPUs whose guest switched host polling off, left out.
    pub(crate) vetoed_vcpus: u64,
    /// vCPUs of VMs with a ceiling of their own, which no module parameter moves.
    pub(crate) own_ceiling_vcpus: u64,
    /// vCPUs whose ceiling was another than the module parameter when recorded.
    pub(crate) other_ceiling_vcpus: u64,
    /// Running VMs keep the ceiling that they began with (kernels 5.8 to 6.0).
    pub(crate) ceiling_is_snapshot: bool,
    /// Events lost while recording.
    pub(crate) lost: u64,
    /// The capture is not whole.
    pub(crate) partial: bool,
}

/// The figures of a setting or policy on the part that judges.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RowView {
    /// Whose.
    pub(crate) row: SettingRow,
    /// Its figures.
    pub(crate) figures: Figures,
}

/// Figures of the part that judges.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    /// Polling, in % of one CPU for all vCPUs together.
    pub(crate) poll_cpu_percent: f64,
    /// Polling and switching, in the same way.
    pub(crate) cpu_percent: f64,
    /// Blocks by second, all vCPUs together.
    pub(crate) blocks_per_s: f64,
    /// Wake-up latency: mean over all halts.
    pub(crate) latency_mean_ns: f64,
    /// Its 99th percentile over all halts.
    pub(crate) latency_p99_ns: u64,
    /// Cost of a halt.
    pub(crate) cost_ns_per_halt: f64,
    /// The same over the clairvoyant's.
    pub(crate) ratio: Option<f64>,
}

impl Figures {
    /// Of an outcome; `bound` is what a halt costs at the least.
    pub(crate) fn new(outcome: &Outcome, bound: Option<f64>, wall: &Wall, cost: &Cost) -> Self {
        let sums = Sums::of_outcome(outcome);
        let cost_ns_per_halt = sums.cost_per_halt_ns(cost);
        Self {
            poll_cpu_percent: wall.poll_cpu_percent(&sums),
            cpu_percent: wall.cpu_percent(&sums, cost),
            blocks_per_s: sums.blocks as f64 / (wall.under(&sums) / 1e9),
            latency_mean_ns: sums.latency_mean_ns(),
            latency_p99_ns: outcome.latency.percentile(0.99).unwrap_or(0),
            cost_ns_per_halt,
            ratio: bound.map(|bound| cost_ns_per_halt / bound),
        }
    }
}

/// A policy of any kind.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyView {
    /// Its name.
    pub(crate) policy: String,
    /// Its figures.
    pub(crate) figures: Figures,
}

/// A difference, and the interval that holds the true one in 95 of 100 repetitions; `None` where the
/// part that judges is too short for one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct IntervalView {
    /// The difference.
    pub(crate) value: f64,
    /// Lower end.
    pub(crate) low: Option<f64>,
    /// Upper end.
    pub(crate) high: Option<f64>,
}

impl IntervalView {
    fn new(interval: &Interval) -> Self {
        let known = |end: f64| end.is_finite().then_some(end);
        Self {
            value: interval.value,
            low: known(interval.low),
            high: known(interval.high),
        }
    }
}

/// Differences of two settings: own less other.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ComparisonView {
    /// Cost of a halt.
    pub(crate) cost_ns_per_halt: IntervalView,
    /// The same as a share of the other's.
    pub(crate) cost_share: IntervalView,
    /// Polling in % of one CPU.
    pub(crate) poll_cpu_percent: IntervalView,
    /// Mean wake-up latency.
    pub(crate) latency_mean_ns: IntervalView,
}

impl ComparisonView {
    fn new(of: &Comparison) -> Self {
        Self {
            cost_ns_per_halt: IntervalView::new(&of.cost_ns_per_halt),
            cost_share: IntervalView::new(&of.cost_share),
            poll_cpu_percent: IntervalView::new(&of.poll_cpu_percent),
            latency_mean_ns: IntervalView::new(&of.latency_mean_ns),
        }
    }
}

/// A recommendation in a line.
#[derive(Debug, Serialize)]
pub(crate) struct GoalAdvice {
    /// For what.
    pub(crate) goal: GoalView,
    /// What to do, in a word.
    pub(crate) verdict: &'static str,
    /// Whether a setting is to be written.
    pub(crate) changes: bool,
    /// The setting that stands afterwards.
    pub(crate) setting: Settings,
    /// Polling under it, in % of one CPU.
    pub(crate) poll_cpu_percent: f64,
    /// Mean wake-up latency under it.
    pub(crate) latency_mean_ns: f64,
    /// What it changes of the cost, as a share of the cost in force; `None` where nothing changes.
    pub(crate) cost_share: Option<IntervalView>,
}

/// A point of the front, or one that it is held against.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PointView {
    /// The setting.
    pub(crate) setting: Settings,
    /// Polling, in % of one CPU.
    pub(crate) poll_cpu_percent: f64,
    /// Mean wake-up latency.
    pub(crate) latency_mean_ns: f64,
    /// Cost of a halt, by the goal that was asked for.
    pub(crate) cost_ns_per_halt: f64,
}

/// A setting that looked better and was not taken.
#[derive(Debug, Serialize)]
pub(crate) struct RejectedView {
    /// The setting.
    pub(crate) setting: Settings,
    /// `bistable`, `over-fitted`, `over-limit`, `calibrated` or `within-error`.
    pub(crate) why: &'static str,
    /// The same in words, with figures.
    pub(crate) text: String,
}

/// Ceilings for each VM of its own.
#[derive(Debug, Serialize)]
pub(crate) struct CapsView {
    /// The host's other parameters that go with them.
    pub(crate) setting: Settings,
    /// VM by VM.
    pub(crate) vms: Vec<CapView>,
    /// What they change of the cost against the one setting, as a share of it.
    pub(crate) cost_share: IntervalView,
}

/// One VM's ceiling.
#[derive(Debug, Serialize)]
pub(crate) struct CapView {
    /// The VM.
    pub(crate) name: Option<String>,
    /// Its VMM's process.
    pub(crate) pid: Option<u32>,
    /// The ceiling.
    pub(crate) ceiling_ns: u32,
}

/// A setting by the kernel's names, without what it lacks.
pub(crate) fn settings(knobs: &Knobs, reach: Reach) -> Settings {
    Settings {
        halt_poll_ns: reach.polls.then_some(knobs.halt_poll_ns),
        halt_poll_ns_grow: reach.adapts.then_some(knobs.grow),
        halt_poll_ns_grow_start: (reach.adapts && reach.grow_start).then_some(knobs.grow_start),
        halt_poll_ns_shrink: reach.adapts.then_some(knobs.shrink),
    }
}

/// How to write by hand what differs.
pub(crate) fn commands(recommended: Option<Settings>, in_force: Settings) -> Vec<String> {
    let changes = recommended.map(|setting| setting.beyond(&in_force));
    changes.as_ref().map_or_else(Vec::new, say::commands)
}

impl View {
    /// The settings that a host can set by this recommendation; `None` where that is to leave it.
    pub(crate) fn for_host(&self) -> Option<Settings> {
        match self.recommended {
            Some(of) if !self.follows => follow::without_ceiling(of, &self.in_force),
            of => of,
        }
    }

    /// Whether no VM of the capture could follow a plan for the host.
    pub(crate) fn has_no_plan(&self) -> bool {
        !self.follows && self.for_host().is_none()
    }
}

/// Puts it together.
pub(crate) fn view(info: &CaptureInfo, candidates: &Candidates, partial: bool) -> View {
    let material = &candidates.material;
    let reach = Reach::of(&material.terms.rule());
    let (advice, in_force) = (&candidates.advice, &material.terms.in_force);
    let recommended =
        (advice.verdict.changes()).then(|| settings(&candidates::base(advice, in_force), reach));
    let in_force_now = settings(in_force, reach);
    let own = follow::own(info);
    let is_own = |seat: &Seat| {
        let named = seat.vm.zip(seat.vcpu);
        named.is_some_and(|named| own.contains(&named))
    };
    let follows = !material.seats.iter().all(|seated| is_own(&seated.seat));
    // A ceiling that was sought for VMs with their own is told, and left to their VMMs.
    let recommended = match recommended {
        Some(of) if !follows && !material.terms.ceiling_only => {
            follow::without_ceiling(of, &in_force_now)
        }
        of => of,
    };
    let is_moot = !follows && recommended.is_none() && !material.terms.ceiling_only;
    let mut view = View {
        schema: super::SCHEMA,
        basis: basis(info, candidates, partial),
        goal: goal(advice),
        verdict: follow::verdict(!is_moot, advice.verdict),
        changes: recommended.is_some(),
        follows,
        reason: follow::reason(!is_moot, || {
            say::reason(material, advice, &candidates.of.in_force, reach)
        }),
        notes: say::notes(candidates),
        in_force: in_force_now,
        commands: Vec::new(),
        recommended,
        played: Some(played(info, candidates, reach)),
        counted: None,
    };
    view.commands = commands(view.for_host(), view.in_force);
    view
}

fn played(info: &CaptureInfo, candidates: &Candidates, reach: Reach) -> PlayedView {
    let (material, advice) = (&candidates.material, &candidates.advice);
    let cost = &advice.goal.aim.cost;
    let bound = candidates
        .rows
        .iter()
        .find(|(row, _)| *row == SettingRow::Clairvoyant);
    let bound = bound.map(|(_, outcome)| Sums::of_outcome(outcome).cost_per_halt_ns(cost));
    let bound = bound.filter(|&bound| bound > 0.0);
    let figures = |outcome: &Outcome| Figures::new(outcome, bound, &material.judged_wall, cost);
    let row = |(row, outcome): &(SettingRow, Outcome)| RowView {
        row: *row,
        figures: figures(outcome),
    };
    PlayedView {
        looked_at: candidates.looked_at,
        choice: (advice.choice.as_ref()).map(|choice| settings(&choice.knobs, reach)),
        against_in_force: advice.against_in_force.as_ref().map(ComparisonView::new),
        against_default: advice.against_default.as_ref().map(ComparisonView::new),
        late_cost_share: advice.late_gain.map(|gain| -gain),
        is_default_in_force: reach
            .is_same(&material.terms.in_force, &material.terms.default_knobs()),
        rows: candidates.rows.iter().map(row).collect(),
        best_policy: candidates
            .best_policy
            .as_ref()
            .map(|(name, outcome)| PolicyView {
                policy: name.clone(),
                figures: figures(outcome),
            }),
        goals: (candidates.others.iter())
            .map(|advice| goal_advice(candidates, advice, reach))
            .collect(),
        front: front(candidates, cost, reach),
        rejected: (advice.rejected.iter())
            .map(|(knobs, why)| rejected(settings(knobs, reach), why))
            .collect(),
        caps: candidates.caps.as_ref().map(|of| caps(info, of, reach)),
    }
}

fn goal(advice: &Advice) -> GoalView {
    GoalView {
        name: advice.goal.name.clone(),
        lambda: advice.goal.aim.cost.latency_weight_milli as f64 / 1e3,
        max_poll_cpu_percent: advice.goal.aim.max_poll_cpu_percent,
    }
}

fn goal_advice(candidates: &Candidates, advice: &Advice, reach: Reach) -> GoalAdvice {
    let material = &candidates.material;
    let changes = advice.verdict.changes();
    let choice = advice.choice.as_ref().filter(|_| changes);
    let judged = choice.unwrap_or(&candidates.of.in_force).judged();
    GoalAdvice {
        goal: goal(advice),
        verdict: say::verdict(advice.verdict),
        changes,
        setting: settings(&candidates::base(advice, &material.terms.in_force), reach),
        poll_cpu_percent: material.judged_wall.poll_cpu_percent(&judged),
        latency_mean_ns: judged.latency_mean_ns(),
        cost_share: (advice.against_in_force.as_ref())
            .filter(|_| changes)
            .map(|against| IntervalView::new(&against.cost_share)),
    }
}

/// The front on the part that judges, of all that came into the final and has one state.
fn front(candidates: &Candidates, cost: &Cost, reach: Reach) -> Vec<PointView> {
    let stable: Vec<&Finalist> = (candidates.of.others.iter())
        .filter(|finalist| finalist.two_states(cost).is_none())
        .collect();
    let judged = stable.iter().map(|finalist| finalist.judged());
    let points: Vec<pareto::Point> = judged.map(|sums| (sums.poll_ns, sums.latency_ns)).collect();
    let front = pareto::front(&points).into_iter();
    front
        .map(|index| point(candidates, stable[index], reach))
        .collect()
}

/// A setting with its figures on the part that judges.
pub(crate) fn point(candidates: &Candidates, finalist: &Finalist, reach: Reach) -> PointView {
    let judged = finalist.judged();
    PointView {
        setting: settings(&finalist.knobs, reach),
        poll_cpu_percent: candidates.material.judged_wall.poll_cpu_percent(&judged),
        latency_mean_ns: judged.latency_mean_ns(),
        cost_ns_per_halt: judged.cost_per_halt_ns(&candidates.advice.goal.aim.cost),
    }
}

fn rejected(setting: Settings, why: &Rejected) -> RejectedView {
    RejectedView {
        setting,
        why: match why {
            Rejected::Bistable(..) => "bistable",
            Rejected::OverFitted(..) => "over-fitted",
            Rejected::OverLimit(_) => "over-limit",
            Rejected::Calibrated(..) => "calibrated",
            Rejected::WithinError(..) => "within-error",
        },
        text: say::rejected(why),
    }
}

fn caps(info: &CaptureInfo, of: &Caps, reach: Reach) -> CapsView {
    let vms = of.vms.iter().map(|cap| {
        let vm = info.roster.vms.iter().find(|vm| vm.index == cap.vm);
        CapView {
            name: vm.map(|vm| vm.name.clone()),
            pid: vm.map(|vm| vm.key.pid.0),
            ceiling_ns: cap.ceiling_ns,
        }
    });
    CapsView {
        setting: settings(&of.knobs, reach),
        vms: vms.collect(),
        cost_share: IntervalView::new(&of.cost_share),
    }
}

fn basis(info: &CaptureInfo, candidates: &Candidates, partial: bool) -> Basis {
    let material = &candidates.material;
    let terms = &material.terms;
    let recorded = material.seats.iter().map(|seated| seated.recorded.blocks);
    let others =
        (material.seats.iter()).filter(|seated| seated.ceiling_ns != terms.in_force.halt_poll_ns);
    let choice = candidates
        .rows
        .iter()
        .find(|(row, _)| *row == SettingRow::Choice);
    let of_choice = choice.map_or_else(Doubts::default, |(_, outcome)| outcome.doubts);
    let doubts = candidates.rows.first().map(|(_, outcome)| outcome.doubts);
    let own = material
        .seats
        .iter()
        .filter(|seated| seated.own_ceiling_ns.is_some());
    Basis {
        model: Model::new(
            info,
            [terms.version.to_string(), terms.arch.to_string()],
            candidates.knobs_assumed.clone(),
            &candidates.known,
            terms.arrivals,
        ),
        switch_cpu_ends_ns: candidates.known.switch_cpu_ends_ns,
        halts: material.halts(),
        judged_halts: candidates.of.in_force.judged().halts,
        judged_ns: material.judged_wall.span_ns,
        blocks_recorded: recorded.sum(),
        blocks_replayed: Sums::total(&candidates.of.in_force.parts).blocks,
        doubts: doubts.unwrap_or_default(),
        latency_guessed: of_choice.latency_guessed,
        latency_thin: of_choice.latency_thin,
        latency_calibrated: of_choice.latency_calibrated,
        idle_cpu_percent: candidates.idle_cpu_percent,
        skipped: material.skipped,
        out_of_order: material.out_of_order,
        vetoed_vcpus: candidates.vetoed_vcpus,
        own_ceiling_vcpus: own.count() as u64,
        other_ceiling_vcpus: others.count() as u64,
        ceiling_is_snapshot: say::is_snapshot(&terms.rule()),
        lost: total(info.lost.values()),
        partial,
    }
}
