//! All of it together: what to set, what that saves, and who would lose.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::{BOUND, Cell, Costed, DEFAULT, IN_FORCE};
use super::choose::{Choice, Chosen, Pair, Takes, best, interval, verdict};
use super::cohort::Cohort;
use super::gather::{Fleet, OfUnit, Unit};
use super::vms::VmAnswer;
use crate::costs::grid::OFF;
use crate::kvm::Knobs;
use crate::stats::{Fold, Interval, folded};
use crate::tune::advice::{LEAST_GAIN, Verdict};

const NAMED: usize = 1_000;

/// Kind of a plan for the hosts.
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
    /// The choice of each cohort: the setting that is best for it, the one setting, or what is in force.
    Cohorts,
    /// The same, and ceilings of their own for VMs that gain by them.
    Ceilings,
    /// The least that any policy can cost.
    Bound,
}

/// Result of a plan, on the half that validates.
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
    pub verdict: Verdict,
    /// Setting that the cohort takes.
    pub takes: Takes,
    /// Cost of the setting in force, on the half that validates.
    pub in_force: Costed,
    pub own: Costed,
    /// The one setting for all.
    pub one: Costed,
    /// By how much less the setting costs than what is in force.
    pub gain: Interval,
    /// How many CPUs it saves on the average host that has the cohort.
    pub cpus_saved: Interval,
}

#[derive(Debug, Clone)]
pub struct Loser {
    pub vm: VmAnswer,
    /// By how much more its halts cost, as a share.
    pub loss: f64,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub one: Knobs,
    pub verdict: Verdict,
    /// In the order of [`PlanKind`].
    pub plans: Vec<Plan>,
    /// Cohorts, the most expensive first.
    pub cohorts: Vec<OfCohort>,
    pub seen: VmsSeen,
}

/// Settings chosen for all and for each cohort; `None` without halts. A cohort whose own gain is not certain takes the
/// setting for all, if that is to be set; so do all cohorts, if their own settings cost more together.
pub fn choose(fleet: &Fleet) -> Option<Chosen> {
    let places = &fleet.places;
    let one = best(&fleet.total(), places)?.0;
    let whole = fleet.plan(PlanKind::One, |_| Some(one)).gain;
    let is_set = verdict(&whole).changes();
    let cells = fleet.cohorts();
    let choice = |(cohort, cell): (&Cohort, &Cell)| {
        let best = best(cell, places)?.0;
        let gain = interval(fleet.pairs(Some(cohort), |_| Some(best)), Pair::gain);
        let (takes, place) = match verdict(&gain) {
            Verdict::Change => (Takes::Own, best),
            Verdict::NotSignificant | Verdict::TooShort if is_set => (Takes::One, one),
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

pub fn answer(fleet: &Fleet, chosen: &Chosen, mut seen: VmsSeen) -> Option<Answer> {
    let one = chosen.one;
    let total = fleet.total();
    let of_one = fleet.plan(PlanKind::One, |_| Some(one));
    let verdict = verdict(&of_one.gain);
    let mut cohorts = fleet.of_cohorts(chosen);
    let taken = |cohort: &Cohort| Some(chosen.cohorts.get(cohort)?.place);
    let by_cohort = fleet.plan(PlanKind::Cohorts, taken);
    let mut ceilings = fleet.with_ceilings(&seen.with_ceilings);
    if ceilings.sums.milli > by_cohort.sums.milli {
        ceilings = fleet.plan(PlanKind::Ceilings, taken);
        seen.with_ceiling = 0;
    }
    let mut plans = vec![
        fleet.plan(PlanKind::InForce, |_| Some(IN_FORCE)),
        fleet.plan(PlanKind::Default, |_| Some(DEFAULT)),
        fleet.plan(PlanKind::Off, |_| fleet.places.place(&OFF)),
        of_one,
        by_cohort,
        ceilings,
    ];
    if total.judged(BOUND).halts == total.judged(IN_FORCE).halts {
        plans.push(fleet.plan(PlanKind::Bound, |_| Some(BOUND)));
    }
    for of in &mut cohorts {
        of.vms = seen.by_cohort.get(&of.cohort).copied().unwrap_or(0);
    }
    seen.keep_those_that_lose_most();
    Some(Answer {
        one: fleet.places.knobs(one)?,
        verdict,
        plans,
        cohorts,
        seen,
    })
}

/// Result of a pass over all VMs.
#[derive(Debug, Clone, Default)]
pub struct VmsSeen {
    /// VMs, each on each host and in each cohort it was in.
    pub vms: u64,
    by_cohort: BTreeMap<Cohort, u64>,
    /// VMs with a ceiling of their own in [`PlanKind::Ceilings`].
    pub with_ceiling: u64,
    /// VMs that had a ceiling of their own while recorded, which `halt_poll_ns` does not reach.
    pub had_ceiling: u64,
    /// VMs that would lose under what their cohort takes; where no cohort changes, under the one setting.
    pub losers: u64,
    /// Those that would lose most.
    pub losing: Vec<Loser>,
    with_ceilings: BTreeMap<Unit, Costed>,
}

impl VmsSeen {
    pub fn see(&mut self, vm: VmAnswer) {
        let is_named = u64::from(vm.name.is_some());
        self.vms += is_named;
        *self.by_cohort.entry(vm.cohort.clone()).or_default() += is_named;
        self.with_ceiling += u64::from(vm.ceiling_ns.is_some());
        self.had_ceiling += u64::from(vm.has_ceiling);
        for (unit, costed) in &vm.with_ceiling {
            let sum = self.with_ceilings.entry(unit.clone());
            sum.or_default().fold(costed);
        }
        let (now, then) = (vm.in_force.milli as f64, vm.then.milli as f64);
        if vm.name.is_some() && then > now * (1.0 + LEAST_GAIN) {
            self.losers += 1;
            self.losing.push(Loser {
                loss: then / now.max(1.0) - 1.0,
                vm,
            });
            if self.losing.len() >= 4 * NAMED {
                self.keep_those_that_lose_most();
            }
        }
    }

    fn keep_those_that_lose_most(&mut self) {
        let loses = |it: &Loser| it.vm.then.milli - it.vm.in_force.milli;
        self.losing.sort_by(|a, b| {
            let by_loss = loses(b).cmp(&loses(a));
            let by_host = by_loss.then_with(|| a.vm.host.cmp(&b.vm.host));
            by_host.then_with(|| a.vm.name.cmp(&b.vm.name))
        });
        self.losing.truncate(NAMED);
    }
}

/// Settings against what is in force, unit by unit.
impl Fleet {
    /// Pairs of one cohort or of all, unit by unit: the cost at the place that the cohort gets, and the cost in force.
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
        self.units().values().filter_map(pair).collect()
    }

    fn plan(&self, kind: PlanKind, place: impl Fn(&Cohort) -> Option<usize>) -> Plan {
        of_pairs(kind, self.pairs(None, place))
    }

    fn with_ceilings(&self, sums: &BTreeMap<Unit, Costed>) -> Plan {
        let mut pairs = self.pairs(None, |_| Some(IN_FORCE));
        for (pair, unit) in pairs.iter_mut().zip(self.units().keys()) {
            pair.own = Costed {
                halts: pair.own.halts,
                ..sums.get(unit).copied().unwrap_or_default()
            };
        }
        of_pairs(PlanKind::Ceilings, pairs)
    }

    fn of_cohorts(&self, chosen: &Chosen) -> Vec<OfCohort> {
        let cohorts = self.cohorts().into_iter();
        let mut cohorts: Vec<OfCohort> = cohorts
            .filter_map(|(cohort, cell)| self.of_cohort(cohort, &cell, chosen))
            .collect();
        cohorts.sort_by_key(|of| std::cmp::Reverse(of.in_force.milli));
        cohorts
    }

    fn of_cohort(&self, cohort: Cohort, cell: &Cell, chosen: &Chosen) -> Option<OfCohort> {
        let choice = chosen.cohorts.get(&cohort)?;
        let pairs = self.pairs(Some(&cohort), |_| Some(choice.best));
        let units = self.units().iter();
        let hosts = units.filter(|(_, of)| of.cohorts.contains_key(&cohort));
        let hosts: BTreeSet<&str> = hosts.map(|(unit, _)| unit.host.as_str()).collect();
        Some(OfCohort {
            hosts: hosts.len(),
            vms: 0,
            knobs: self.places.knobs(choice.best)?,
            // Without halts in the second halves nothing was evaluated.
            verdict: if cell.judged(IN_FORCE).halts == 0 {
                Verdict::TooShort
            } else {
                verdict(&choice.gain)
            },
            takes: choice.takes,
            in_force: *cell.judged(IN_FORCE),
            own: *cell.judged(choice.best),
            one: *cell.judged(chosen.one),
            gain: choice.gain,
            cpus_saved: interval(pairs, Pair::cpus_saved),
            cohort,
        })
    }
}

fn of_pairs(kind: PlanKind, pairs: Vec<Pair>) -> Plan {
    Plan {
        kind,
        sums: folded::<Pair>(&pairs).own,
        gain: interval(pairs.clone(), Pair::gain),
        cpus_saved: interval(pairs, Pair::cpus_saved),
    }
}
