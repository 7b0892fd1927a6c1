//! All of it together: what to set, what that saves, who would lose, and which hosts are unlike the others.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::{BOUND, Cell, Costed, DEFAULT, IN_FORCE};
use super::choose::{Choice, Chosen, Pair, Takes, Verdict, best, interval};
use super::cohort::Cohort;
use super::gather::{Fleet, OfUnit, Unit};
use super::vms::{Small, VmAnswer, VmSums};
use crate::costs::grid::OFF;
use crate::kvm::Knobs;
use crate::stats::Fold;
use crate::stats::Interval;
use crate::tune::advice::LEAST_GAIN;

/// VMs and hosts that are named at most.
const NAMED: usize = 1_000;

/// A host whose own best setting costs less than its cohort's by this share is unlike it.
const UNLIKE: f64 = 0.05;

/// What the hosts could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanKind {
    /// Leave what is in force.
    InForce,
    /// Each kernel's default.
    Default,
    /// No polling where `halt_poll_ns` reaches.
    Off,
    /// One setting for all.
    One,
    /// What each cohort takes: the setting that is best for it, the one setting, or what is in force.
    Cohorts,
    /// The same, and ceilings of their own for VMs that gain by them.
    Ceilings,
    /// The least that any policy can cost.
    Bound,
}

/// What comes of it, on the half that validates.
#[derive(Debug, Clone)]
pub struct Plan {
    pub kind: PlanKind,
    pub sums: Costed,
    /// By how much less it costs than what is in force, as a share.
    pub gain: Interval,
    /// How many CPUs it saves on the average host.
    pub cpus_saved: Interval,
}

#[derive(Debug, Clone)]
pub struct OfCohort {
    pub cohort: Cohort,
    pub hosts: usize,
    /// Its VMs; each on each host, and in each cohort it was in.
    pub vms: u64,
    /// The setting that is best on the half that fits.
    pub knobs: Knobs,
    /// What is to be done with it.
    pub verdict: Verdict,
    /// What the cohort takes instead.
    pub takes: Takes,
    /// What is in force, on the half that validates.
    pub in_force: Costed,
    /// The setting.
    pub own: Costed,
    /// The one setting for all.
    pub one: Costed,
    /// By how much less the setting costs than what is in force.
    pub gain: Interval,
    /// How many CPUs it saves on the average host that has the cohort.
    pub cpus_saved: Interval,
}

/// A VM that would lose.
#[derive(Debug, Clone)]
pub struct Loser {
    pub vm: VmAnswer,
    /// By how much more its halts cost, as a share.
    pub loss: f64,
}

/// A host whose own best setting is another.
#[derive(Debug, Clone)]
pub struct Unlike {
    pub host: String,
    pub cohort: Cohort,
    /// Its own best.
    pub knobs: Knobs,
    /// Under its cohort's setting.
    pub of_cohort: Costed,
    /// Under its own.
    pub own: Costed,
}

#[derive(Debug, Clone)]
pub struct Answer {
    /// The one setting.
    pub one: Knobs,
    /// What to do with it.
    pub verdict: Verdict,
    /// In the order of [`PlanKind`].
    pub plans: Vec<Plan>,
    /// What cost most first.
    pub cohorts: Vec<OfCohort>,
    /// VMs, each on each host and in each cohort it was in.
    pub vms: u64,
    /// VMs with a ceiling of their own in [`PlanKind::Ceilings`].
    pub with_ceiling: u64,
    /// VMs that had a ceiling of their own while recorded, which `halt_poll_ns` does not reach.
    pub had_ceiling: u64,
    /// VMs that would lose under what their cohort takes.
    pub losers: u64,
    /// Those that would lose most.
    pub losing: Vec<Loser>,
    /// Hosts unlike their cohort, what they lose by it first.
    pub unlike: Vec<Unlike>,
}

/// What is chosen for all and for each cohort; `None` without halts. A cohort whose own gain is not certain takes the setting
/// of the whole, where that is to be set; so do all, where the settings of their own cost more together.
pub fn choose(fleet: &Fleet) -> Option<Chosen> {
    let places = &fleet.places;
    let compare = Compare { fleet };
    let one = best(&fleet.total(), places)?.0;
    let whole = compare.plan(PlanKind::One, |_| Some(one)).gain;
    let is_set = Verdict::of(&whole) == Verdict::Set;
    let cells = fleet.cohorts();
    let choice = |(cohort, cell): (&Cohort, &Cell)| {
        let best = best(cell, places)?.0;
        let gain = interval(compare.pairs(Some(cohort), |_| Some(best)), Pair::gain);
        let (takes, place) = match Verdict::of(&gain) {
            Verdict::Set => (Takes::Own, best),
            Verdict::Uncertain | Verdict::FewUnits if is_set => (Takes::One, one),
            _ => (Takes::InForce, IN_FORCE),
        };
        let choice = Choice {
            best,
            gain,
            takes,
            place,
        };
        Some((cohort.clone(), choice))
    };
    let mut cohorts: BTreeMap<Cohort, Choice> = cells.iter().filter_map(choice).collect();
    let costs = |place: &dyn Fn(&Choice) -> usize| {
        let of = |(cohort, choice)| cells[cohort].judged(place(choice)).milli;
        cohorts.iter().map(of).sum::<u128>()
    };
    if is_set && costs(&|choice| choice.place) > costs(&|_| one) {
        for choice in cohorts.values_mut() {
            (choice.takes, choice.place) = (Takes::One, one);
        }
    }
    Some(Chosen { one, cohorts })
}

/// Puts it together.
pub fn answer(fleet: &Fleet, chosen: &Chosen, vms: VmSums) -> Option<Answer> {
    let one = chosen.one;
    let total = fleet.total();
    let compare = Compare { fleet };
    let of_one = compare.plan(PlanKind::One, |_| Some(one));
    let verdict = Verdict::of(&of_one.gain);
    let mut cohorts = compare.cohorts(chosen);
    let taken = |cohort: &Cohort| Some(chosen.cohorts.get(cohort)?.place);
    let mut seen = VmsSeen::default();
    vms.finish().for_each(|vm| seen.see(vm));
    let by_cohort = compare.plan(PlanKind::Cohorts, taken);
    let mut ceilings = compare.with_ceilings(&seen.with_ceilings);
    if ceilings.sums.milli > by_cohort.sums.milli {
        ceilings = compare.plan(PlanKind::Ceilings, taken);
        seen.with_ceiling = 0;
    }
    let mut plans = vec![
        compare.plan(PlanKind::InForce, |_| Some(IN_FORCE)),
        compare.plan(PlanKind::Default, |_| Some(DEFAULT)),
        compare.plan(PlanKind::Off, |_| fleet.places.place(&OFF)),
        of_one,
        by_cohort,
        ceilings,
    ];
    if total.judged(BOUND).halts == total.judged(IN_FORCE).halts {
        plans.push(compare.plan(PlanKind::Bound, |_| Some(BOUND)));
    }
    for of in &mut cohorts {
        of.vms = seen.by_cohort.get(&of.cohort).copied().unwrap_or(0);
    }
    seen.losing
        .sort_by_key(|it| std::cmp::Reverse(it.vm.of_cohort.milli - it.vm.in_force.milli));
    seen.losing.truncate(NAMED);
    Some(Answer {
        one: fleet.places.knobs(one)?,
        verdict,
        plans,
        unlike: compare.unlike(chosen),
        cohorts,
        vms: seen.vms,
        with_ceiling: seen.with_ceiling,
        had_ceiling: seen.had_ceiling,
        losers: seen.losers,
        losing: seen.losing,
    })
}

/// What a pass over all VMs gives.
#[derive(Debug, Default)]
struct VmsSeen {
    vms: u64,
    by_cohort: BTreeMap<Cohort, u64>,
    with_ceiling: u64,
    had_ceiling: u64,
    losers: u64,
    losing: Vec<Loser>,
    with_ceilings: BTreeMap<Unit, Small>,
}

impl VmsSeen {
    fn see(&mut self, vm: VmAnswer) {
        let is_named = u64::from(vm.name.is_some());
        self.vms += is_named;
        *self.by_cohort.entry(vm.cohort.clone()).or_default() += is_named;
        self.with_ceiling += u64::from(vm.ceiling_ns.is_some());
        self.had_ceiling += u64::from(vm.has_ceiling);
        for (unit, small) in &vm.with_ceiling {
            self.with_ceilings
                .entry(unit.clone())
                .or_default()
                .add(small);
        }
        let (now, then) = (vm.in_force.milli as f64, vm.of_cohort.milli as f64);
        if vm.name.is_some() && then > now * (1.0 + LEAST_GAIN) {
            self.losers += 1;
            self.losing.push(Loser {
                loss: then / now.max(1.0) - 1.0,
                vm,
            });
            if self.losing.len() >= 4 * NAMED {
                let most = |it: &Loser| it.vm.of_cohort.milli - it.vm.in_force.milli;
                self.losing.sort_by_key(|it| std::cmp::Reverse(most(it)));
                self.losing.truncate(NAMED);
            }
        }
    }
}

/// Settings against what is in force, unit by unit.
struct Compare<'a> {
    fleet: &'a Fleet,
}

impl Compare<'_> {
    /// Of one cohort or of all: what each has under the place that its cohort gets, beside what is in force.
    fn pairs(&self, only: Option<&Cohort>, place: impl Fn(&Cohort) -> Option<usize>) -> Vec<Pair> {
        let pair = |of: &OfUnit| {
            let mut pair = Pair {
                span_ns: of.span_ns / 2,
                ..Pair::default()
            };
            let mut any = only.is_none();
            for (cohort, cell) in &of.cohorts {
                if only.is_none_or(|only| only == cohort) {
                    any = true;
                    let place = place(cohort).unwrap_or(IN_FORCE);
                    pair.own.fold(cell.judged(place));
                    pair.other.fold(cell.judged(IN_FORCE));
                }
            }
            any.then_some(pair)
        };
        self.fleet.units().values().filter_map(pair).collect()
    }

    fn plan(&self, kind: PlanKind, place: impl Fn(&Cohort) -> Option<usize>) -> Plan {
        of_pairs(kind, self.pairs(None, place))
    }

    fn with_ceilings(&self, sums: &BTreeMap<Unit, Small>) -> Plan {
        let mut pairs = self.pairs(None, |_| Some(IN_FORCE));
        for (pair, unit) in pairs.iter_mut().zip(self.fleet.units().keys()) {
            let small = sums.get(unit).copied().unwrap_or_default();
            pair.own = Costed {
                milli: small.milli,
                cpu_ns: small.cpu_ns,
                latency_ns: small.latency_ns,
                ..pair.own
            };
        }
        of_pairs(PlanKind::Ceilings, pairs)
    }

    fn cohorts(&self, chosen: &Chosen) -> Vec<OfCohort> {
        let cohorts = self.fleet.cohorts().into_iter();
        let mut cohorts: Vec<OfCohort> = cohorts
            .filter_map(|(cohort, cell)| self.of_cohort(cohort, &cell, chosen))
            .collect();
        cohorts.sort_by_key(|of| std::cmp::Reverse(of.in_force.milli));
        cohorts
    }

    fn of_cohort(&self, cohort: Cohort, cell: &Cell, chosen: &Chosen) -> Option<OfCohort> {
        let choice = chosen.cohorts.get(&cohort)?;
        let pairs = self.pairs(Some(&cohort), |_| Some(choice.best));
        let units = self.fleet.units().iter();
        let hosts = units.filter(|(_, of)| of.cohorts.contains_key(&cohort));
        let hosts: BTreeSet<&str> = hosts.map(|(unit, _)| unit.host.as_str()).collect();
        Some(OfCohort {
            hosts: hosts.len(),
            vms: 0,
            knobs: self.fleet.places.knobs(choice.best)?,
            verdict: Verdict::of(&choice.gain),
            takes: choice.takes,
            in_force: *cell.judged(IN_FORCE),
            own: *cell.judged(choice.best),
            one: *cell.judged(chosen.one),
            gain: choice.gain,
            cpus_saved: interval(pairs, Pair::cpus_saved),
            cohort,
        })
    }

    /// Hosts whose own best setting is cheaper than that of their cohort by [`UNLIKE`].
    fn unlike(&self, chosen: &Chosen) -> Vec<Unlike> {
        let mut by_host = BTreeMap::<(&str, &Cohort), Cell>::new();
        for (unit, of) in self.fleet.units() {
            for (cohort, cell) in &of.cohorts {
                let sum = by_host.entry((&unit.host, cohort));
                sum.or_insert_with(|| Cell::new(&self.fleet.places))
                    .fold(cell);
            }
        }
        let one = |((host, cohort), cell): ((&str, &Cohort), Cell)| {
            let place = chosen.cohorts.get(cohort)?.best;
            let (own, knobs) = best(&cell, &self.fleet.places)?;
            let (own, of_cohort) = (*cell.judged(own), *cell.judged(place));
            (own.gain_on(&of_cohort) >= UNLIKE).then(|| Unlike {
                host: host.to_owned(),
                cohort: cohort.clone(),
                knobs,
                of_cohort,
                own,
            })
        };
        let mut unlike: Vec<Unlike> = by_host.into_iter().filter_map(one).collect();
        let loses = |it: &Unlike| it.of_cohort.milli.saturating_sub(it.own.milli);
        unlike.sort_by_key(|it| std::cmp::Reverse(loses(it)));
        unlike.truncate(NAMED);
        unlike
    }
}

fn of_pairs(kind: PlanKind, pairs: Vec<Pair>) -> Plan {
    let mut sum = Pair::default();
    for pair in &pairs {
        sum.fold(pair);
    }
    Plan {
        kind,
        sums: sum.own,
        gain: interval(pairs.clone(), Pair::gain),
        cpus_saved: interval(pairs, Pair::cpus_saved),
    }
}
