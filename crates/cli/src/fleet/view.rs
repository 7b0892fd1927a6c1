//! The result: each figure with its name, unit and meaning.

use haltwise_core::fleet::answer::PlanKind;
use haltwise_core::fleet::choose::Takes;
use haltwise_core::fleet::gather::Level;
use haltwise_core::kvm::Knobs;
use haltwise_core::parameter::Values;
use haltwise_core::stats::Interval;
use haltwise_core::tune::advice::Verdict;
use haltwise_document::figures;

use crate::figures::INTERVAL;

pub(crate) const ABOUT: &[&str] = &[
    "Settings are chosen on the first half of each capture; all figures but these choices are of the second half.",
    "Times are whole nanoseconds, and their names end in `_ns`. Shares are of 1.",
    "Intervals hold the true figure in 95 of 100 fleets like this one (jackknife over `unit`); their ends are `null` where there are fewer than eight units.",
    "A gain is by how much less halts cost than under the settings in force, as a share of that cost.",
];

figures! {
    pub(crate) struct FleetResult {
        /// Version of this layout: 3.
        pub(crate) schema: u32 = Number,
        /// Data that was read.
        pub(crate) read: FleetRead = Record(FleetRead::FIGURES),
        /// Assumptions that were made.
        pub(crate) assumed: Assumed = Record(Assumed::FIGURES),
        /// By what VMs are put together: `kernel`, `cpu`, `arch`, `host`, `vmm`, `class`, `goal`, `label:KEY`.
        pub(crate) by: Vec<String> = Words,
        /// The setting that is best for all hosts together.
        pub(crate) one: FleetSetting = Record(FleetSetting::FIGURES),
        /// Verdict on it, in the words of [tune](tune-json.md): `change`, `already-best`, `too-small` (it gains less than
        /// 2 %), `not-significant` (the interval of its gain contains zero), `too-short` (there are too few hosts and days
        /// for an interval). In schema 1 these were `set`, `leave`, `uncertain`, `few-units`.
        pub(crate) verdict: Verdict = Word,
        /// Plans for the hosts: `in-force`, `default`, `off` (`halt_poll_ns` 0 on each host), `one` (the one setting),
        /// `cohorts` (what each cohort `takes`), `ceilings` (the same, with ceilings of their own for VMs that gain at least
        /// 2 % by them; such as `KVM_CAP_HALT_POLL` makes of the cohort's setting),
        /// `bound` (the least that any policy can cost; only for goals that have names).
        pub(crate) plans: Vec<FleetPlan> = List(FleetPlan::FIGURES),
        /// Cohorts, what costs most first.
        pub(crate) cohorts: Vec<FleetCohort> = List(FleetCohort::FIGURES),
        /// VMs with a ceiling of their own in the plan `ceilings`.
        pub(crate) with_ceiling: u64 = Count,
        /// VMs that had a ceiling of their own while recorded, which `halt_poll_ns` does not reach.
        pub(crate) had_ceiling: u64 = Count,
        /// VMs whose halts would cost at least 2 % more under what their cohort takes than now; where no cohort changes,
        /// under the one setting.
        pub(crate) losers: u64 = Count,
        /// The thousand of them that would lose most.
        pub(crate) losing: Vec<LosingVm> = List(LosingVm::FIGURES),
    }

    pub(crate) struct FleetRead {
        /// Costs tables that count.
        pub(crate) tables: usize = Count,
        /// Their rows.
        pub(crate) rows: u64 = Count,
        /// Tables that do not count, each with the reason: damaged, counted already, with a row more than once, or of another
        /// grid.
        pub(crate) refused: Vec<String> = Words,
        /// Rows of settings that the grid does not have, or of another grid, in tables that count.
        pub(crate) rows_of_other_grids: u64 = Count,
        /// The name of the grid.
        pub(crate) grid: &'static str = Word,
        /// Hosts.
        pub(crate) hosts: usize = Count,
        /// VMs; one that was on two hosts counts on each.
        pub(crate) vms: u64 = Count,
        /// Days.
        pub(crate) days: usize = Count,
        /// Captures.
        pub(crate) captures: usize = Count,
        /// Recorded time of the unit with the shortest captures.
        pub(crate) shortest_ns: u64 = Nanos,
        /// The same of the unit with the longest captures, which counts for the most in CPUs saved.
        pub(crate) longest_ns: u64 = Nanos,
        /// Halts of the second halves.
        pub(crate) halts: u64 = Count,
        /// Unit of the intervals: `host`, or with fewer than eight hosts `capture`, `day` beyond 256 captures.
        pub(crate) unit: Level = Word,
    }

    pub(crate) struct Assumed {
        /// Worth of latency to VMs without a goal of their own: `density`, `balanced` or `latency`.
        pub(crate) goal: String = Word,
        /// The same as a number: ns of CPU time for each ns of latency.
        pub(crate) lambda: f64 = Real,
        /// Hosts that the figures of CPUs are for: those that were read, unless `--hosts` says otherwise.
        pub(crate) hosts: u64 = Count,
    }

    pub(crate) struct FleetSetting {
        /// In short: the ceiling, with how windows move where that is not the default since Linux 6.11.
        pub(crate) setting: String = Word,
        /// `halt_poll_ns`.
        pub(crate) halt_poll_ns: u32 = Nanos,
        /// `halt_poll_ns_grow`.
        pub(crate) halt_poll_ns_grow: u32 = Number,
        /// `halt_poll_ns_grow_start`.
        pub(crate) halt_poll_ns_grow_start: u32 = Nanos,
        /// `halt_poll_ns_shrink`.
        pub(crate) halt_poll_ns_shrink: u32 = Number,
    }

    pub(crate) struct FleetPlan {
        /// Which.
        pub(crate) plan: PlanKind = Word,
        /// Average cost of a halt, in ns of CPU.
        pub(crate) cost_per_halt_ns: f64 = MeanNanos "cost/halt",
        /// The same of all halts, in thousandths of a ns of CPU: a whole number, as text since it may exceed 64 bits.
        pub(crate) cost_milli: String = Word,
        /// The gain.
        pub(crate) gain: Interval = Record(INTERVAL),
        /// Mean wake-up latency.
        pub(crate) latency_mean_ns: f64 = MeanNanos "latency",
        /// CPUs that are busy with polling and switching, in all hosts.
        pub(crate) cpus: f64 = Real "CPUs",
        /// CPUs saved in all hosts; negative if it takes more.
        pub(crate) cpus_saved: Interval = Record(INTERVAL),
    }

    pub(crate) struct FleetCohort {
        /// Properties that its VMs have in common.
        pub(crate) cohort: String = Name,
        /// Its hosts.
        pub(crate) hosts: usize = Count,
        /// Its VMs.
        pub(crate) vms: u64 = Count "VMs",
        /// Halts.
        pub(crate) halts: u64 = Count,
        /// The setting that is best for it.
        #[serde(flatten)]
        pub(crate) setting: FleetSetting = Flat(FleetSetting::FIGURES),
        /// Verdict on it, as above; `too-short` also where no halt is in the second halves.
        pub(crate) verdict: Verdict = Word,
        /// Setting that the cohort takes in the plan `cohorts`: `own` (this setting), `one` (the one setting, where
        /// that is certain and this one is not, or where those of all cohorts together cost more), `in-force`.
        pub(crate) takes: Takes = Word,
        /// Cost of a halt now.
        pub(crate) now_per_halt_ns: f64 = MeanNanos "now",
        /// Cost of a halt under this setting.
        pub(crate) cost_per_halt_ns: f64 = MeanNanos "then",
        /// Cost of a halt under the one setting for all.
        pub(crate) one_per_halt_ns: f64 = MeanNanos "one",
        /// The gain.
        pub(crate) gain: Interval = Record(INTERVAL),
        /// Mean wake-up latency now.
        pub(crate) latency_now_mean_ns: f64 = MeanNanos,
        /// And then.
        pub(crate) latency_mean_ns: f64 = MeanNanos,
        /// CPUs saved on the average of its hosts.
        pub(crate) cpus_saved_per_host: Interval = Record(INTERVAL),
    }

    pub(crate) struct LosingVm {
        /// Its name.
        pub(crate) vm: String = Name "VM",
        /// Its host.
        pub(crate) host: String = Name,
        /// Its cohort.
        pub(crate) cohort: String = Name,
        /// Halts.
        pub(crate) halts: u64 = Count,
        /// Cost of a halt now.
        pub(crate) now_per_halt_ns: f64 = MeanNanos "now",
        /// Cost of a halt under its cohort's setting, or the one setting.
        pub(crate) cost_per_halt_ns: f64 = MeanNanos "then",
        /// How much more that is, as a share.
        pub(crate) loss: f64 = Share,
        /// The ceiling that is best for it, where that is better than its cohort's setting by at least 2 %; `null` also where its
        /// kernel has no ceilings of VMs, or it has one already.
        pub(crate) ceiling_ns: Option<u32> = Nanos "own ceiling",
    }
}

impl FleetSetting {
    pub(crate) fn values(&self) -> Values {
        Values::from(Knobs::of([
            self.halt_poll_ns,
            self.halt_poll_ns_grow,
            self.halt_poll_ns_grow_start,
            self.halt_poll_ns_shrink,
        ]))
    }
}
