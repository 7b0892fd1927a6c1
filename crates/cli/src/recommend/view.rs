//! Result of a search: each figure with its name, unit and meaning.

use std::collections::BTreeMap;

use haltwise_capture::info::CaptureInfo;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::kvm::Knobs;
use haltwise_core::kvm::guest::Params;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::replay::session::VcpuKey;
use haltwise_core::replay::{Cost, Doubts, GoalName};
use haltwise_core::stats::Interval;
use haltwise_core::tune::advice::{Comparison, Rejected, Verdict};
use haltwise_core::tune::candidates::{Candidate, Reach};
use haltwise_core::tune::caps::{Costs, Group};
use haltwise_core::tune::figures::Played;
use haltwise_core::tune::final_round::{FinalRound, Finalist};
use haltwise_core::tune::wall::Wall;
use haltwise_core::tune::{Advice, Goal, Inputs, Terms, pareto};
use haltwise_document::figures;

use super::basis::SearchBasis;
use super::candidates::{Candidates, SettingRow};
use super::caps::{OwnCeilings, Withheld};
use super::counted::CountedSettings;
use super::reach;
use super::recommendation::Recommendation;
use super::say;
use crate::figures::INTERVAL;
use crate::plan::TuneGoal;
use crate::prices::model::Model;
use crate::words::plural;

pub(crate) const ABOUT: &[&str] = &[
    "Times and lengths are nanoseconds, and their names end in `_ns`.",
    "What ends in `_percent` is in % of **one** CPU, for all vCPUs together.",
    "What ends in `_share` is a share of the other's cost: -0.25 costs a quarter less.",
    "A setting is an object with `halt_poll_ns`, `halt_poll_ns_grow`, `halt_poll_ns_grow_start` and \
     `halt_poll_ns_shrink`, as far as the kernel has them.",
    "A difference has `value`, `low` and `high`: the interval holds the true one in 95 of 100 repetitions. Its ends are \
     `null` where the validation half is too short for an interval.",
    "Figures are those of the validation half: the second half of the capture's time.",
    "Verdicts that change something: `change` (certainly better), `obey-limit` (what is in force polls for more than it \
     may). Those that leave everything as it is: `already-best`, `not-significant` (may be chance), `too-small` (certain, \
     and below 2 %), `too-short` (fewer than eight of fifty time slices of the validation half have halts), \
     `all-rejected`, `unproven` (not known: what is best depends on what was not recorded, so prove `choice` first, see \
     [what tuning can gain](tuning.md#what-was-never-seen)), `no-polling` (the kernel does not poll), `nothing-follows` \
     (every VM has a ceiling of its own, which `halt_poll_ns` does not move).",
    "What `--plan` writes is another object: [the plan file](plan-json.md).",
];

figures! {
    pub(crate) struct TuneResult {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// Basis of the result.
        pub(crate) basis: TuneBasis = Record(TuneBasis::FIGURES),
        #[serde(flatten)]
        pub(crate) recommendation: Recommendation = Flat(Recommendation::FIGURES),
        /// VMs with a goal of their own: the settings of the host are chosen by the sum of what the halts of all
        /// VMs cost, each by its own goal. Empty for a capture of counts, in which such goals have no effect.
        pub(crate) vm_goals: Vec<VmGoal> = List(VmGoal::FIGURES),
        /// Results of playing each halt; `null` for a capture of counts.
        pub(crate) played: Option<PlayedSettings> = Record(PlayedSettings::FIGURES),
        /// Results from histograms; `null` for all other captures.
        pub(crate) counted: Option<CountedSettings> = Record(CountedSettings::FIGURES),
    }

    /// Results of playing each halt.
    pub(crate) struct PlayedSettings {
        /// How many settings were evaluated.
        pub(crate) looked_at: usize = Count,
        /// The setting to take or to prove; else the best that was not rejected.
        pub(crate) choice: Option<Values> = Object,
        /// It less what is in force. Intervals cover which halts were drawn, both ends of the price of a block, and what
        /// was not recorded: wake-up latencies of lengths that few halts slept for, and how timers follow.
        pub(crate) against_in_force: Option<Comparison> = Record(COMPARISON),
        /// It less the kernel's default, likewise.
        pub(crate) against_default: Option<Comparison> = Record(COMPARISON),
        /// The setting in force is the kernel's default.
        pub(crate) is_default_in_force: bool = Flag,
        /// The settings that are always shown, with their figures.
        pub(crate) rows: Vec<SettingFigures> = List(SettingFigures::FIGURES),
        /// The policy `leader`, which no kernel has; on the first half it learns from the last 65,536 halts
        /// of each vCPU.
        pub(crate) best_policy: Option<BestPolicy> = Record(BestPolicy::FIGURES),
        /// A recommendation for each goal that has a name.
        pub(crate) goals: Vec<GoalAdvice> = List(GoalAdvice::FIGURES),
        /// Settings that no other beats in both polling and latency.
        pub(crate) front: Vec<SettingPoint> = List(SettingPoint::FIGURES),
        /// Candidates that looked better and were not taken.
        pub(crate) rejected: Vec<RejectedSetting> = List(RejectedSetting::FIGURES),
        /// Outcome that ceilings of VMs would have, each VM by its own goal, within the limit of polling; `null` with
        /// fewer than two VMs, with `--ceilings none`, and where the gain depends on what was not recorded.
        pub(crate) caps: Option<VmCeilings> = Record(VmCeilings::FIGURES),
    }

    pub(crate) struct VmGoal {
        /// The VM.
        pub(crate) name: String = Name,
        /// Its VMM's process.
        pub(crate) pid: u32 = Number,
        /// Its goal.
        pub(crate) goal: &'static str = Word,
        /// Nanoseconds of CPU for one of latency.
        pub(crate) lambda: f64 = Real,
    }

    pub(crate) struct TuneBasis {
        #[serde(flatten)]
        pub(crate) search: SearchBasis = Flat(SearchBasis::FIGURES),
        /// The interval of a calibrated `switch_cpu_ns`, low and high: intervals of costs reach to both ends.
        pub(crate) switch_cpu_ends_ns: Option<[u64; 2]> = Words,
        /// Validated halts that under `choice` sleep for a length of which no wake-up was recorded.
        pub(crate) latency_guessed: u64 = Count,
        /// Validated halts that under `choice` sleep for a length of which fewer than sixteen undisturbed wake-ups
        /// were recorded, and none measured.
        pub(crate) latency_thin: u64 = Count,
        /// Validated halts that under `choice` sleep for a length of which fewer than sixteen wake-ups were
        /// recorded, and wake as calibrated or given.
        pub(crate) latency_calibrated: u64 = Count,
        /// Idle time of the host's CPUs while recorded; no setting that polls for more on top of what was recorded
        /// is considered. `null` where it was not sampled.
        pub(crate) idle_cpu_percent: Option<f64> = CpuPercent,
        /// Halts that step back in time, left out.
        pub(crate) out_of_order: u64 = Count,
        /// vCPUs whose guest disabled host polling, left out.
        pub(crate) vetoed_vcpus: u64 = Count,
        /// vCPUs of VMs with a ceiling of their own, which no module parameter moves.
        pub(crate) own_ceiling_vcpus: u64 = Count,
        /// vCPUs whose ceiling was another than the module parameter when recorded.
        pub(crate) other_ceiling_vcpus: u64 = Count,
        /// Running VMs keep the ceiling that they began with (kernels 5.8 to 6.0).
        pub(crate) ceiling_is_snapshot: bool = Flag,
    }

    #[derive(Clone)]
    pub(crate) struct SettingFigures {
        /// `in-force`, `default`, `choice`, `off`, or `clairvoyant`: the oracle, a lower bound.
        pub(crate) row: SettingRow = Word,
        /// Its figures.
        pub(crate) figures: HaltFigures = Record(HaltFigures::FIGURES),
    }

    #[derive(Clone)]
    pub(crate) struct HaltFigures {
        /// Polling.
        pub(crate) poll_cpu_percent: f64 = CpuPercent "polling",
        /// Polling and switching.
        pub(crate) cpu_percent: f64 = CpuPercent "CPU",
        /// Halts that slept, by second.
        pub(crate) blocks_per_s: f64 = PerSecond "sleeps/s",
        /// Mean wake-up latency over all halts, 0 for those that did not sleep.
        pub(crate) latency_mean_ns: f64 = MeanNanos "latency",
        /// Its 99th percentile over all halts.
        pub(crate) latency_p99_ns: u64 = Nanos "p99",
        /// Cost of a halt: polling, switching, and the wake-up latency times the `lambda` of its VM.
        pub(crate) cost_ns_per_halt: f64 = MeanNanos "per halt",
        /// The same over the oracle's.
        pub(crate) ratio: Option<f64> = Real "x oracle",
    }

    pub(crate) struct SettingLine {
        /// The setting: `current`, `default`, `recommended` or `best found`, `off`, `oracle`, or the policy
        /// `leader`.
        pub(crate) setting: String = Name "second half",
        #[serde(flatten)]
        pub(crate) figures: HaltFigures = Flat(HaltFigures::FIGURES),
    }

    pub(crate) struct BestPolicy {
        /// Its name.
        pub(crate) policy: String = Name,
        /// Its figures.
        pub(crate) figures: HaltFigures = Record(HaltFigures::FIGURES),
    }

    #[derive(Clone)]
    pub(crate) struct GoalAdvice {
        /// For what.
        pub(crate) goal: TuneGoal = Record(TuneGoal::FIGURES),
        /// Verdict on a change of the setting, in a word.
        pub(crate) verdict: Verdict = Word,
        /// Whether a setting is to be written.
        pub(crate) changes: bool = Flag,
        /// Action to take, with the setting: `leave`, `off`, `try off`.
        pub(crate) advice: String = Word,
        /// The setting to take or to prove, else the one in force.
        pub(crate) setting: Values = Object,
        /// Polling under it.
        pub(crate) poll_cpu_percent: f64 = CpuPercent "polling",
        /// Mean wake-up latency under it.
        pub(crate) latency_mean_ns: f64 = MeanNanos "latency",
        /// Change of the cost under it, as a share of the cost in force; `null` where nothing is to be taken or proved.
        pub(crate) cost_share: Option<Interval> = Record(INTERVAL),
    }

    #[derive(Clone)]
    pub(crate) struct SettingPoint {
        /// The setting.
        pub(crate) setting: Values = Object,
        /// Polling.
        pub(crate) poll_cpu_percent: f64 = CpuPercent,
        /// Mean wake-up latency.
        pub(crate) latency_mean_ns: f64 = MeanNanos,
        /// Cost of a halt, by the goal that was asked for.
        pub(crate) cost_ns_per_halt: f64 = MeanNanos,
    }

    /// A setting that looked better and was not taken.
    pub(crate) struct RejectedSetting {
        /// The setting.
        pub(crate) setting: Values = Object,
        /// `bistable`, `edge` or `over-limit`.
        pub(crate) why: &'static str = Word,
        /// The same in words, with figures.
        pub(crate) text: String = Word,
    }

    pub(crate) struct VmCeilings {
        /// Why `--plan` leaves them out: `not-settable` (no VM can be given one as it was recorded; then all are
        /// taken as if they could), `over-limit` (they poll for more than is allowed, because VMs that keep their
        /// ceiling do), `no-gain` (less than 2 %, or it may be chance), `same-name` (several VMs have one name);
        /// `null` if it writes them.
        pub(crate) withheld: Option<Withheld> = Word,
        /// The one setting for all VMs that they are compared with.
        pub(crate) one_setting: Values = Object,
        /// The host's parameters that go with them: the best for VMs that follow `halt_poll_ns`.
        pub(crate) setting: Values = Object,
        /// VM by VM; last, without a name, those that follow `halt_poll_ns`.
        pub(crate) vms: Vec<VmCeiling> = List(VmCeiling::FIGURES),
        /// Change of the cost under them, as a share of the cost under the one setting.
        pub(crate) cost_share: Interval = Record(INTERVAL),
        /// They and the parameters that go with them, less what is in force.
        pub(crate) against_in_force: Comparison = Record(COMPARISON),
        /// Under ceilings and the parameters that go with them, polling.
        pub(crate) poll_cpu_percent: f64 = CpuPercent,
        /// The same, mean wake-up latency.
        pub(crate) latency_mean_ns: f64 = MeanNanos,
        /// Cost of a halt, all VMs together.
        pub(crate) costs: Costs = Record(HALT_COSTS),
        /// How much of what the oracle would save on what is in force the one setting saves.
        pub(crate) one_of_oracle: Option<f64> = Real,
        /// The same of ceilings.
        pub(crate) own_of_oracle: Option<f64> = Real,
        /// How much of what the oracle would save on the one setting ceilings save.
        pub(crate) own_beyond_one: Option<f64> = Real,
    }

    pub(crate) struct VmCeiling {
        /// The VM; `null` for those that follow `halt_poll_ns`.
        pub(crate) name: Option<String> = Name "VM",
        /// Its VMM's process.
        pub(crate) pid: Option<u32> = Number,
        /// Its goal.
        pub(crate) goal: String = Word "goal",
        /// Worth of a nanosecond of wake-up latency to it, in nanoseconds of CPU.
        pub(crate) lambda: f64 = Real,
        /// The ceiling.
        pub(crate) ceiling_ns: u32 = Nanos "ceiling",
        /// Halts of the validation half.
        pub(crate) halts: u64 = Count,
        #[serde(flatten)]
        pub(crate) costs: Costs = Flat(HALT_COSTS),
    }
}

figures! {
    /// Costs of a halt, by the VM's own goal.
    const HALT_COSTS: Costs {
        /// Under what was in force when recorded.
        current_ns: f64 = MeanNanos "current",
        /// Under the one setting for all.
        one_ns: f64 = MeanNanos "one setting",
        /// Under ceilings of VMs.
        own_ns: f64 = MeanNanos "ceilings",
        /// Under the oracle, the lower bound.
        oracle_ns: f64 = MeanNanos "oracle",
    }
}

figures! {
    /// Differences of two settings: own less other.
    pub(crate) const COMPARISON: Comparison {
        /// Cost of a halt.
        cost_ns_per_halt: Interval = Record(INTERVAL),
        /// The same as a share of the other's.
        cost_share: Interval = Record(INTERVAL),
        /// Polling, in % of one CPU.
        poll_cpu_percent: Interval = Record(INTERVAL),
        /// Mean wake-up latency.
        latency_mean_ns: Interval = Record(INTERVAL),
    }
}

impl HaltFigures {
    /// Figures of an outcome; `bound` is the least cost of a halt.
    pub(crate) fn new(played: &Played, bound: Option<f64>, wall: &Wall, cost: &Cost) -> Self {
        let Played { outcome, sums } = played;
        let cost_ns_per_halt = sums.cost_per_halt_ns(cost);
        Self {
            poll_cpu_percent: wall.poll_cpu_percent(sums),
            cpu_percent: wall.cpu_percent(sums, cost),
            blocks_per_s: sums.blocks as f64 / (wall.under(sums) / 1e9),
            latency_mean_ns: sums.latency_mean_ns(),
            latency_p99_ns: outcome.latency.percentile(0.99).unwrap_or(0),
            cost_ns_per_halt,
            ratio: bound.map(|bound| cost_ns_per_halt / bound),
        }
    }
}

/// A setting by the kernel's names, without what it lacks.
pub(crate) fn settings(knobs: &Knobs, reach: Reach) -> Values {
    let has = |it: &(Parameter, u32)| match it.0 {
        Parameter::HaltPollNs => reach.polls,
        Parameter::GrowStart => reach.adapts && reach.grow_start,
        _ => reach.adapts,
    };
    Values::from(*knobs).iter().filter(has).collect()
}

/// A setting of one side: of KVM in a host, or of a guest's governor.
pub(super) trait OfSide: Candidate {
    const SIDE: &'static str;

    /// The setting by the kernel's names, without what the kernel lacks.
    fn values(&self, terms: &Terms) -> Values;
}

impl OfSide for Knobs {
    const SIDE: &'static str = "host";

    fn values(&self, terms: &Terms) -> Values {
        settings(self, Reach::of(terms.rule()))
    }
}

impl OfSide for Params {
    const SIDE: &'static str = "guest";

    fn values(&self, _: &Terms) -> Values {
        (*self).into()
    }
}

impl TuneResult {
    /// The settings that a host can set by this recommendation; `None` where that is to leave it.
    pub(crate) fn for_host(&self) -> Option<Values> {
        let of = &self.recommendation;
        match (self.ceilings(), of.recommended) {
            (Some(own), _) => Some(own.setting),
            (None, Some(setting)) if of.reaches_no_vm() => {
                reach::without_ceiling(setting, &of.in_force)
            }
            (None, setting) => setting,
        }
    }

    /// Difference of these settings from the setting in force.
    pub(crate) fn changes_on_host(&self) -> Option<Values> {
        let setting = self.for_host()?;
        Some(setting.beyond(&self.recommendation.in_force))
    }

    pub(crate) fn ceilings(&self) -> Option<&VmCeilings> {
        let own = self.played.as_ref()?.caps.as_ref();
        own.filter(|own| own.withheld.is_none())
    }

    /// Whether no VM of the capture could follow a plan for the host.
    pub(crate) fn has_no_plan(&self) -> bool {
        self.recommendation.reaches_no_vm() && self.for_host().is_none()
    }

    /// The recommendation, ceilings of VMs included, in half a sentence.
    pub(crate) fn what(&self) -> String {
        let Some(own) = self.ceilings() else {
            return self.recommendation.what();
        };
        let named = own.vms.iter().filter(|vm| vm.name.is_some());
        let vms = plural(named.count() as u64, "VM");
        match self.changes_on_host().filter(|host| !host.is_empty()) {
            None => format!("Set the ceilings of {vms}, below; keep the host's parameters"),
            Some(host) => format!(
                "Set {}, and the ceilings of {vms}, below",
                say::parameters(&host)
            ),
        }
    }
}

pub(crate) fn view(info: &CaptureInfo, candidates: &Candidates, partial: bool) -> TuneResult {
    let inputs = &candidates.inputs;
    let (advice, in_force) = (&candidates.advice, &candidates.of.in_force);
    let found = Recommendation::of_search(inputs, in_force, advice);
    let choice = advice.choice.as_ref().unwrap_or(in_force);
    let recommended = (advice.verdict.changes()).then(|| choice.knobs.values(&inputs.terms));
    let own = reach::own(info);
    let is_own = |seat: &VcpuKey| reach::is_of(&own, seat.vm, seat.vcpu);
    let follows = !inputs.seats.iter().all(|seated| is_own(&seated.seat));
    // A ceiling that was searched for VMs with their own is reported, and left to their VMMs.
    let recommended = match recommended {
        Some(of) if !follows && !inputs.terms.ceiling_only => {
            reach::without_ceiling(of, &found.in_force)
        }
        of => of,
    };
    let is_moot = !follows && recommended.is_none() && !inputs.terms.ceiling_only;
    let of_search = || (advice.verdict, say::reason(inputs, advice, in_force));
    let (verdict, reason) = reach::judged(!is_moot, of_search);
    let mut view = TuneResult {
        schema: super::SCHEMA,
        basis: basis(info, candidates, partial),
        recommendation: Recommendation {
            verdict,
            changes: recommended.is_some(),
            follows: Some(follows),
            reason,
            notes: say::notes(candidates),
            recommended,
            ..found
        },
        vm_goals: vm_goals(info, &candidates.goals),
        played: Some(played(info, candidates)),
        counted: None,
    };
    if view.ceilings().is_none() {
        let changes = view.changes_on_host().unwrap_or_default();
        view.recommendation.commands = say::commands(&changes);
    }
    view
}

fn played(info: &CaptureInfo, candidates: &Candidates) -> PlayedSettings {
    let (inputs, advice) = (&candidates.inputs, &candidates.advice);
    let terms = &inputs.terms;
    let cost = &advice.goal.aim.cost;
    let bound = candidates
        .rows
        .iter()
        .find(|(row, _)| *row == SettingRow::Clairvoyant);
    let bound = bound.map(|(_, played)| played.sums.cost_per_halt_ns(cost));
    let bound = bound.filter(|&bound| bound > 0.0);
    let figures = |played: &Played| HaltFigures::new(played, bound, &inputs.judged_wall, cost);
    let row = |(row, played): &(SettingRow, Played)| SettingFigures {
        row: *row,
        figures: figures(played),
    };
    PlayedSettings {
        looked_at: candidates.looked_at,
        choice: (advice.choice.as_ref()).map(|choice| choice.knobs.values(terms)),
        against_in_force: advice.against_in_force,
        against_default: advice.against_default,
        is_default_in_force: terms.in_force.is_same(&terms.default_knobs(), terms),
        rows: candidates.rows.iter().map(row).collect(),
        best_policy: candidates
            .best_policy
            .as_ref()
            .map(|(name, played)| BestPolicy {
                policy: name.clone(),
                figures: figures(played),
            }),
        goals: goals(inputs, &candidates.of, &candidates.others),
        front: front(candidates, cost),
        rejected: rejected(inputs, advice),
        caps: (candidates.caps.as_ref()).map(|of| ceilings(info, candidates, of)),
    }
}

impl TuneGoal {
    pub(super) fn of(goal: &Goal) -> Self {
        Self {
            name: goal.name.clone(),
            lambda: goal.aim.cost.latency_weight_milli as f64 / 1e3,
            max_poll_cpu_percent: goal.aim.max_poll_cpu_percent,
        }
    }
}

fn vm_goals(info: &CaptureInfo, goals: &BTreeMap<VmIndex, GoalName>) -> Vec<VmGoal> {
    let goal = |vm: &Vm| {
        goals.get(&vm.index).map(|goal| VmGoal {
            name: vm.name.clone(),
            pid: vm.key.pid.0,
            goal: goal.as_str(),
            lambda: goal.weight_milli() as f64 / 1e3,
        })
    };
    info.roster.vms.iter().filter_map(goal).collect()
}

/// The recommendation for each goal that has a name.
pub(super) fn goals<S: OfSide>(
    inputs: &Inputs,
    of: &FinalRound<S>,
    advices: &[Advice<S>],
) -> Vec<GoalAdvice> {
    let each = advices.iter();
    each.map(|advice| goal_advice(inputs, of, advice)).collect()
}

fn goal_advice<S: OfSide>(inputs: &Inputs, of: &FinalRound<S>, advice: &Advice<S>) -> GoalAdvice {
    let changes = advice.verdict.changes();
    let is_told = changes || advice.verdict == Verdict::Unproven;
    let choice = advice.choice.as_ref().filter(|_| is_told);
    let stands = choice.unwrap_or(&of.in_force);
    let judged = stands.judged();
    let poll_cpu_percent = inputs.judged_wall.poll_cpu_percent(&judged);
    let setting = stands.knobs.values(&inputs.terms);
    let named = say::played(&setting, poll_cpu_percent);
    GoalAdvice {
        goal: TuneGoal::of(&advice.goal),
        verdict: advice.verdict,
        changes,
        advice: match choice {
            None => "leave".to_owned(),
            Some(_) if changes => named,
            Some(_) => format!("try {named}"),
        },
        setting,
        poll_cpu_percent,
        latency_mean_ns: judged.latency_mean_ns(),
        cost_share: (advice.against_in_force.as_ref())
            .filter(|_| is_told)
            .map(|against| against.cost_share),
    }
}

/// The front on the validation half, of all that came into the final and has one state.
fn front(candidates: &Candidates, cost: &Cost) -> Vec<SettingPoint> {
    let stable: Vec<&Finalist> = (candidates.of.others.iter())
        .filter(|finalist| finalist.two_states(cost).is_none())
        .collect();
    let judged = stable.iter().map(|finalist| finalist.judged());
    let points: Vec<pareto::Point> = judged.map(|sums| (sums.poll_ns, sums.latency_ns)).collect();
    let point = |at: usize| SettingPoint::new(&candidates.inputs, stable[at], cost);
    pareto::front(&points).into_iter().map(point).collect()
}

impl SettingPoint {
    pub(super) fn new<S: OfSide>(inputs: &Inputs, finalist: &Finalist<S>, cost: &Cost) -> Self {
        let judged = finalist.judged();
        Self {
            setting: finalist.knobs.values(&inputs.terms),
            poll_cpu_percent: inputs.judged_wall.poll_cpu_percent(&judged),
            latency_mean_ns: judged.latency_mean_ns(),
            cost_ns_per_halt: judged.cost_per_halt_ns(cost),
        }
    }
}

/// Candidates that looked better and were not taken.
pub(super) fn rejected<S: OfSide>(inputs: &Inputs, advice: &Advice<S>) -> Vec<RejectedSetting> {
    let rejected = |(setting, why): &(S, Rejected)| RejectedSetting {
        setting: setting.values(&inputs.terms),
        why: match why {
            Rejected::Bistable(..) => "bistable",
            Rejected::Edge(..) => "edge",
            Rejected::OverLimit(_) => "over-limit",
        },
        text: say::rejected(why),
    };
    advice.rejected.iter().map(rejected).collect()
}

fn ceilings(info: &CaptureInfo, candidates: &Candidates, of: &OwnCeilings) -> VmCeilings {
    let (caps, of_all) = (&of.caps, &candidates.advice.goal);
    let terms = &candidates.inputs.terms;
    // The first of two with one index.
    let known = info.roster.vms.iter().rev();
    let known: BTreeMap<VmIndex, &Vm> = known.map(|vm| (vm.index, vm)).collect();
    let group = |group: &Group| {
        let vm = group.vm.and_then(|vm| known.get(&vm));
        let goal = vm.and_then(|vm| candidates.goals.get(&vm.index));
        let weight = of_all.aim.cost.latency_weight_milli;
        VmCeiling {
            name: vm.map(|vm| vm.name.clone()),
            pid: vm.map(|vm| vm.key.pid.0),
            goal: goal.map_or(&*of_all.name, |goal| goal.as_str()).to_owned(),
            lambda: goal.map_or(weight, |goal| goal.weight_milli()) as f64 / 1e3,
            ceiling_ns: group.ceiling_ns,
            halts: group.halts,
            costs: group.costs,
        }
    };
    let Costs {
        current_ns,
        one_ns,
        own_ns,
        oracle_ns,
    } = caps.costs;
    let share = |from_ns: f64, to_ns: f64| {
        (from_ns > oracle_ns).then(|| (from_ns - to_ns) / (from_ns - oracle_ns))
    };
    VmCeilings {
        withheld: of.withheld,
        one_setting: caps.one.values(terms),
        setting: caps.knobs.values(terms),
        vms: caps.groups.iter().map(group).collect(),
        cost_share: caps.cost_share,
        against_in_force: caps.against_in_force,
        poll_cpu_percent: (candidates.inputs.judged_wall).poll_cpu_percent(&caps.judged),
        latency_mean_ns: caps.judged.latency_mean_ns(),
        costs: caps.costs,
        one_of_oracle: share(current_ns, one_ns),
        own_of_oracle: share(current_ns, own_ns),
        own_beyond_one: share(one_ns, own_ns),
    }
}

fn basis(info: &CaptureInfo, candidates: &Candidates, partial: bool) -> TuneBasis {
    let inputs = &candidates.inputs;
    let terms = &inputs.terms;
    let others =
        (inputs.seats.iter()).filter(|seated| seated.ceiling_ns != terms.in_force.halt_poll_ns);
    let choice = candidates
        .rows
        .iter()
        .find(|(row, _)| *row == SettingRow::Choice);
    let of_choice = choice.map_or_else(Doubts::default, |(_, played)| played.outcome.doubts);
    let in_force = candidates.rows.first();
    let own = inputs
        .seats
        .iter()
        .filter(|seated| seated.own_ceiling_ns.is_some());
    let model = Model::new(
        info,
        [terms.version.to_string(), terms.arch.to_string()],
        candidates.knobs_assumed.clone(),
        &candidates.known,
    );
    let search = SearchBasis::of_search(info, model, inputs, &candidates.of.in_force, partial);
    TuneBasis {
        search: SearchBasis {
            doubts: in_force.map_or_else(Doubts::default, |(_, played)| played.outcome.doubts),
            ..search
        },
        switch_cpu_ends_ns: candidates.known.switch_cpu_ends_ns,
        latency_guessed: of_choice.latency_guessed,
        latency_thin: of_choice.latency_thin,
        latency_calibrated: of_choice.latency_calibrated,
        idle_cpu_percent: candidates.idle_cpu_percent,
        out_of_order: inputs.out_of_order,
        vetoed_vcpus: candidates.vetoed_vcpus,
        own_ceiling_vcpus: own.count() as u64,
        other_ceiling_vcpus: others.count() as u64,
        ceiling_is_snapshot: say::is_snapshot(terms.rule()),
    }
}

impl PlayedSettings {
    pub(crate) fn figures(&self, of: SettingRow) -> Option<&HaltFigures> {
        let found = self.rows.iter().find(|row| row.row == of);
        found.map(|row| &row.figures)
    }
}
