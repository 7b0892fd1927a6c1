//! All of it together: what to set, what that saves, who would lose, and which hosts are unlike the others.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::{BOUND, Cell, Costed, DEFAULT, IN_FORCE};
use super::choose::{Pair, Verdict, best, interval};
use super::cohort::Cohort;
use super::gather::{Fleet, OfUnit, Unit};
use super::vms::{Chosen, Small, VmAnswer, VmSums};
use crate::account::seen::Fold;
use crate::kvm::Knobs;
use crate::tune::advice::LEAST_GAIN;
use crate::tune::interval::Interval;

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
    /// One setting for all.
    One,
    /// One for each cohort whose verdict is to set it.
    Cohorts,
    /// The same, and ceilings of their own for VMs that gain by them.
    Ceilings,
    /// The least that any policy can cost.
    Bound,
}

/// What comes of it, on the half that validates.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What.
    pub kind: PlanKind,
    /// The sums.
    pub sums: Costed,
    /// By how much less it costs than what is in force, as a share.
    pub gain: Interval,
    /// How many CPUs it saves on the average host.
    pub cpus_saved: Interval,
}

/// A cohort.
#[derive(Debug, Clone)]
pub struct OfCohort {
    /// Which.
    pub cohort: Cohort,
    /// Its hosts.
    pub hosts: usize,
    /// Its VMs; each on each host, and in each cohort it was in.
    pub vms: u64,
    /// The setting that is best on the half that fits.
    pub knobs: Knobs,
    /// What is to be done.
    pub verdict: Verdict,
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
    /// The VM.
    pub vm: VmAnswer,
    /// By how much more its halts cost, as a share.
    pub loss: f64,
}

/// A host whose own best setting is another.
#[derive(Debug, Clone)]
pub struct Unlike {
    /// The host.
    pub host: String,
    /// The cohort.
    pub cohort: Cohort,
    /// Its own best.
    pub knobs: Knobs,
    /// Under its cohort's setting.
    pub of_cohort: Costed,
    /// Under its own.
    pub own: Costed,
}

/// The answer.
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
    /// VMs that would lose under their cohort's setting.
    pub losers: u64,
    /// Those that would lose most.
    pub losing: Vec<Loser>,
    /// Hosts unlike their cohort, what they lose by it first.
    pub unlike: Vec<Unlike>,
}

/// What is chosen for all and for each cohort; `None` without halts.
pub fn choose(fleet: &Fleet) -> Option<Chosen> {
    let places = &fleet.places;
    let cohorts = fleet.cohorts().into_iter();
    let cohorts = cohorts.filter_map(|(cohort, cell)| Some((cohort, best(&cell, places)?.0)));
    Some(Chosen {
        one: Some(best(&fleet.total(), places)?.0),
        cohorts: cohorts.collect(),
    })
}

/// Puts it together.
pub fn answer(fleet: &Fleet, chosen: &Chosen, vms: VmSums) -> Option<Answer> {
    let one = chosen.one?;
    let total = fleet.total();
    let compare = Compare { fleet };
    let everywhere = |_: &Cohort| Some(one);
    let gain = interval(compare.pairs(None, everywhere), Pair::gain);
    let mut cohorts = compare.cohorts(chosen, one);
    let is_set: BTreeSet<&Cohort> = (cohorts.iter())
        .filter(|of| of.verdict == Verdict::Set)
        .map(|of| &of.cohort)
        .collect();
    let of_cohort = |cohort: &Cohort| {
        let own = chosen
            .cohorts
            .get(cohort)
            .filter(|_| is_set.contains(cohort));
        Some(own.copied().unwrap_or(IN_FORCE))
    };
    let mut seen = VmsSeen::default();
    vms.finish().for_each(|vm| seen.see(vm, &is_set));
    let bound = total.judged(BOUND).halts == total.judged(IN_FORCE).halts;
    let mut plans = vec![
        compare.plan(PlanKind::InForce, |_| Some(IN_FORCE)),
        compare.plan(PlanKind::Default, |_| Some(DEFAULT)),
        compare.plan(PlanKind::One, everywhere),
        compare.plan(PlanKind::Cohorts, of_cohort),
        compare.with_ceilings(&seen.with_ceilings),
    ];
    if bound {
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
        verdict: Verdict::of(&gain),
        plans,
        unlike: compare.unlike(chosen),
        cohorts,
        vms: seen.vms,
        with_ceiling: seen.with_ceiling,
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
    losers: u64,
    losing: Vec<Loser>,
    with_ceilings: BTreeMap<Unit, Small>,
}

impl VmsSeen {
    fn see(&mut self, vm: VmAnswer, is_set: &BTreeSet<&Cohort>) {
        let is_set = is_set.contains(&vm.cohort);
        self.vms += u64::from(vm.name.is_some());
        *self.by_cohort.entry(vm.cohort.clone()).or_default() += u64::from(vm.name.is_some());
        self.with_ceiling += u64::from(is_set && vm.ceiling_ns.is_some());
        for (unit, [then, now]) in &vm.with_ceiling {
            // Where nothing is to be set for a cohort, what is in force stays.
            let small = if is_set { then } else { now };
            let sum = self.with_ceilings.entry(unit.clone()).or_default();
            sum.milli = sum.milli.saturating_add(small.milli);
            sum.cpu_ns = sum.cpu_ns.saturating_add(small.cpu_ns);
            sum.latency_ns = sum.latency_ns.saturating_add(small.latency_ns);
        }
        let (now, then) = (vm.in_force.milli as f64, vm.of_cohort.milli as f64);
        if is_set && vm.name.is_some() && then > now * (1.0 + LEAST_GAIN) {
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

    fn cohorts(&self, chosen: &Chosen, one: usize) -> Vec<OfCohort> {
        let cohorts = self.fleet.cohorts().into_iter();
        let mut cohorts: Vec<OfCohort> = cohorts
            .filter_map(|(cohort, cell)| self.of_cohort(cohort, &cell, chosen, one))
            .collect();
        cohorts.sort_by_key(|of| std::cmp::Reverse(of.in_force.milli));
        cohorts
    }

    fn of_cohort(
        &self,
        cohort: Cohort,
        cell: &Cell,
        chosen: &Chosen,
        one: usize,
    ) -> Option<OfCohort> {
        let place = *chosen.cohorts.get(&cohort)?;
        let pairs = self.pairs(Some(&cohort), |_| Some(place));
        let gain = interval(pairs.clone(), Pair::gain);
        let units = self.fleet.units().iter();
        let hosts = units.filter(|(_, of)| of.cohorts.contains_key(&cohort));
        let hosts: BTreeSet<&str> = hosts.map(|(unit, _)| unit.host.as_str()).collect();
        Some(OfCohort {
            hosts: hosts.len(),
            vms: 0,
            knobs: self.fleet.places.knobs(place)?,
            verdict: Verdict::of(&gain),
            in_force: *cell.judged(IN_FORCE),
            own: *cell.judged(place),
            one: *cell.judged(one),
            gain,
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
            let place = *chosen.cohorts.get(cohort)?;
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
