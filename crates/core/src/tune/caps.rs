//! Ceilings of VMs (`KVM_CAP_HALT_POLL`) and the host's parameters, chosen together.
//!
//! `grow`, `grow_start` and `shrink` stay the host's: there are no others. A few sets of them are tried. Under
//! each, every VM that can have a ceiling has the best for itself, and the others follow the one
//! `halt_poll_ns` that is best for them together. A VM may have a goal of its own.
//!
//! A window that adapts can lock itself in or out, so a setting counts as it does from the worse of both starts.
//! Ceilings are chosen on the part that fits, and all figures are those of the validation half.

use std::collections::{BTreeMap, BTreeSet};

use super::advice::{self, Comparison, Final};
use super::candidates::{self, CEILINGS_NS, Moves};
use super::crew::Crew;
use super::figures;
use super::interval::{Interval, bootstrap};
use super::late;
use super::material::{Material, Seated};
use super::search::Aim;
use super::stage::{self, CeilingsOf, Entry, Part};
use super::sums::Sums;
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::kvm::ceiling::CeilingRule;
use crate::policy::{SpecError, Start};
use crate::replay::Cost;

/// What is wanted of whom.
#[derive(Debug, Clone)]
pub struct Aims<'a> {
    /// For VMs without a goal of their own.
    pub aim: &'a Aim,
    /// What halts cost VMs with one.
    pub costs: &'a BTreeMap<VmIndex, Cost>,
    /// VMs that can be given a ceiling.
    pub settable: &'a BTreeSet<VmIndex>,
}

/// What a VM would get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The VM.
    pub vm: VmIndex,
    /// Its ceiling in nanoseconds.
    pub ceiling_ns: u32,
}

/// What halts cost on average, in nanoseconds of CPU, each VM by its own goal.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Costs {
    /// As recorded.
    pub current: f64,
    /// Under one setting for all.
    pub one: f64,
    /// Under ceilings of their own.
    pub own: f64,
    /// Under the best that is possible, halt by halt.
    pub oracle: f64,
}

/// One VM, or all that follow the host's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// The VM; `None` for those that get no ceiling.
    pub vm: Option<VmIndex>,
    /// Halts of the validation half, as recorded.
    pub halts: u64,
    /// What they cost.
    pub costs: Costs,
}

/// What ceilings of VMs would come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Caps {
    /// The one setting for all: that of the advice, unless VMs have goals of their own.
    pub one: Knobs,
    /// The host's parameters that go with the ceilings.
    pub knobs: Knobs,
    /// VM by VM.
    pub vms: Vec<Cap>,
    /// What they change against the one setting, as a share of its cost.
    pub cost_share: Interval,
    /// They and their parameters against what is in force.
    pub against_in_force: Comparison,
    /// What came of all halts of the validation half.
    pub judged: Sums,
    /// VM by VM, then those without a ceiling, if there are any.
    pub groups: Vec<Group>,
    /// All together.
    pub costs: Costs,
}

/// The vCPUs of a VM, or of all that follow.
struct Crowd<'a> {
    vm: Option<VmIndex>,
    cost: Cost,
    seats: Vec<&'a Seated>,
}

/// Parts of the same halts under one setting, priced.
type Parts = Vec<Sums>;

/// Seeks them. `None` where there are fewer than two VMs, or none of them can have a ceiling, or the kernel has no
/// ceilings of VMs, or where what they gain hangs on a calibration ([`super::late`]) or takes more polling than
/// is allowed.
pub fn seek(
    material: &Material,
    of: &Final,
    base: &Entry,
    aims: &Aims<'_>,
    crew: &impl Crew,
) -> Result<Option<Caps>, SpecError> {
    let crowds = crowds(material, aims);
    let vms: BTreeSet<Option<VmIndex>> = material.seats.iter().map(|it| it.seat.vm).collect();
    let is_moot = vms.len() < 2 || crowds.iter().all(|crowd| crowd.vm.is_none());
    if is_moot || material.terms.rule().ceiling == CeilingRule::Param {
        return Ok(None);
    }
    let others: Vec<Knobs> = of.others.iter().map(|finalist| finalist.knobs).collect();
    let in_force = Entry {
        ceilings: CeilingsOf::Recorded,
        start: of.in_force.start,
        ..Entry::new(of.in_force.knobs)
    };
    let mut entries = vec![*base];
    if !aims.costs.is_empty() {
        entries.push(in_force);
        entries.extend(others.iter().copied().map(Entry::new));
    }
    let current = play(material, &crowds, &[in_force], crew);
    let (one, common) = one(material, &crowds, &entries, crew);
    let Some(found) = own(material, &crowds, &one.knobs, &others, crew) else {
        return Ok(None);
    };
    let raw = add(&found.parts);
    let polls = material
        .judged_wall
        .poll_cpu_percent(&Sums::total(&raw[1..]));
    if polls > aims.aim.limit_percent() {
        return Ok(None);
    }
    let owned = found.parts.iter().zip(&crowds);
    let owned: Vec<Parts> = owned
        .map(|(parts, crowd)| price(parts, &crowd.cost))
        .collect();
    let oracle: Vec<Sums> = (crowds.iter())
        .map(|crowd| figures::oracle(material, &crowd.seats, &crowd.cost, crew))
        .collect::<Result<_, _>>()?;
    let current: Vec<Parts> = current
        .into_iter()
        .map(|mut it| it.swap_remove(0))
        .collect();
    let groups = groups(&crowds, [&current, &common, &owned], &oracle);
    let (current, common, own) = (add(&current), add(&common), add(&owned));
    let seed = material.terms.seed;
    let share =
        |than: &[Sums]| bootstrap(&own[1..], &than[1..], seed, |a, b| -a.gain_on(b, &PRICED));
    let caps = Caps {
        one: one.knobs,
        knobs: found.knobs,
        vms: found.caps,
        cost_share: share(&common),
        against_in_force: Comparison {
            cost_ns_per_halt: bootstrap(&own[1..], &current[1..], seed, |a, b| {
                a.cost_per_halt_ns(&PRICED) - b.cost_per_halt_ns(&PRICED)
            }),
            cost_share: share(&current),
            ..advice::compare(material, &raw[1..], of.in_force.blocks(), aims.aim)
        },
        judged: Sums::total(&raw[1..]),
        costs: total(&groups),
        groups,
    };
    let hangs = caps.cost_share.value < 0.0
        && late::is_asked(material)
        && late_gain(material, &crowds, &caps, &one, crew) <= 0.0;
    Ok((!hangs).then_some(caps))
}

/// What each crowd's halts cost: as recorded, under the one setting, with ceilings; and the oracle.
fn groups(crowds: &[Crowd<'_>], priced: [&[Parts]; 3], oracle: &[Sums]) -> Vec<Group> {
    let group = |(at, crowd): (usize, &Crowd<'_>)| {
        let [current, one, own] = priced.map(|parts| per_halt(&parts[at][1..]));
        Group {
            vm: crowd.vm,
            halts: Sums::total(&priced[0][at][1..]).halts,
            costs: Costs {
                current,
                one,
                own,
                oracle: oracle[at].cost_per_halt_ns(&crowd.cost),
            },
        }
    };
    crowds.iter().enumerate().map(group).collect()
}

/// Each VM that can have a ceiling, then all others by their goals.
fn crowds<'a>(material: &'a Material, aims: &Aims<'_>) -> Vec<Crowd<'a>> {
    let mut by_vm: BTreeMap<(bool, Option<VmIndex>, u64), Crowd<'a>> = BTreeMap::new();
    for seated in &material.seats {
        let named = seated.seat.vm;
        let cost = named
            .and_then(|vm| aims.costs.get(&vm))
            .unwrap_or(&aims.aim.cost);
        let vm = named.filter(|vm| aims.settable.contains(vm));
        let key = (vm.is_none(), vm, cost.latency_weight_milli);
        let crowd = by_vm.entry(key).or_insert_with(|| Crowd {
            vm,
            cost: *cost,
            seats: Vec::new(),
        });
        crowd.seats.push(seated);
    }
    by_vm.into_values().collect()
}

/// The cost of sums that are priced.
const PRICED: Cost = Cost::FREE;

/// Sums as what they cost, in nanoseconds of CPU that polls: so that VMs with different goals add up.
fn priced(sums: &Sums, cost: &Cost) -> Sums {
    let ns = sums.milli(cost) / 1_000;
    Sums {
        halts: sums.halts,
        blocks: 0,
        poll_ns: u64::try_from(ns).unwrap_or(u64::MAX),
        latency_ns: 0,
        halt_ns: sums.halt_ns,
    }
}

fn per_halt(parts: &[Sums]) -> f64 {
    Sums::total(parts).cost_per_halt_ns(&PRICED)
}

fn add(crowds: &[Parts]) -> Parts {
    let mut all = Vec::new();
    for parts in crowds {
        Sums::add_parts(&mut all, parts);
    }
    all
}

/// What all cost together, by halts.
fn total(groups: &[Group]) -> Costs {
    let halts: u64 = groups.iter().map(|group| group.halts).sum();
    let mean = |of: fn(&Costs) -> f64| {
        let sum: f64 = (groups.iter())
            .map(|group| of(&group.costs) * group.halts as f64)
            .sum();
        sum / halts.max(1) as f64
    };
    Costs {
        current: mean(|costs| costs.current),
        one: mean(|costs| costs.one),
        own: mean(|costs| costs.own),
        oracle: mean(|costs| costs.oracle),
    }
}

/// Plays entries on each crowd; priced, crowd by crowd.
fn play(
    material: &Material,
    crowds: &[Crowd<'_>],
    entries: &[Entry],
    crew: &impl Crew,
) -> Vec<Vec<Parts>> {
    let seats: Vec<Vec<&Seated>> = crowds.iter().map(|crowd| crowd.seats.clone()).collect();
    let played = stage::play_each(material, &seats, entries, Part::Whole, "caps", crew);
    let priced = played.iter().zip(crowds).map(|(entries, crowd)| {
        let parts = |parts: &Parts| price(parts, &crowd.cost);
        entries.iter().map(parts).collect()
    });
    priced.collect()
}

fn price(parts: &[Sums], cost: &Cost) -> Parts {
    parts.iter().map(|part| priced(part, cost)).collect()
}

/// The best of these for all by their own goals, and what comes of it crowd by crowd.
fn one(
    material: &Material,
    crowds: &[Crowd<'_>],
    entries: &[Entry],
    crew: &impl Crew,
) -> (Entry, Vec<Parts>) {
    let mut played = play(material, crowds, entries, crew);
    let fit = |at: usize| -> u64 { played.iter().map(|crowd| crowd[at][0].poll_ns).sum() };
    let best = (0..entries.len())
        .min_by_key(|&at| (fit(at), at))
        .unwrap_or(0);
    let parts = played.iter_mut().map(|crowd| crowd.swap_remove(best));
    (entries[best], parts.collect())
}

/// Ceilings, and what comes of them.
struct Own {
    knobs: Knobs,
    caps: Vec<Cap>,
    /// Crowd by crowd, not priced.
    parts: Vec<Parts>,
    /// What the part that fits costs.
    fit: u128,
}

/// Sets of the parameters that ceilings share, tried at most.
const SETS: usize = 8;

/// Those sets, each once, whatever its `halt_poll_ns`.
fn sets(material: &Material, one: &Knobs, others: &[Knobs]) -> Vec<Knobs> {
    let terms = &material.terms;
    if terms.moves() == Moves::Ceiling {
        return vec![terms.in_force];
    }
    // A first window above every ceiling: all or nothing, whatever the VM's ceiling.
    let toggle = candidates::toggle(candidates::LONGEST_NS, &terms.in_force);
    let first = [*one, terms.in_force, terms.default_knobs(), toggle];
    let mut sets: Vec<Knobs> = Vec::new();
    for knobs in first.iter().chain(others) {
        let set = Knobs {
            halt_poll_ns: terms.in_force.halt_poll_ns,
            ..*knobs
        };
        if !sets.contains(&set) && sets.len() < SETS {
            sets.push(set);
        }
    }
    sets
}

/// The best ceilings under the best of the sets.
fn own(
    material: &Material,
    crowds: &[Crowd<'_>],
    one: &Knobs,
    others: &[Knobs],
    crew: &impl Crew,
) -> Option<Own> {
    let mut ceilings = CEILINGS_NS.to_vec();
    ceilings.extend([one.halt_poll_ns, material.terms.in_force.halt_poll_ns]);
    ceilings.sort_unstable();
    ceilings.dedup();
    let seats: Vec<Vec<&Seated>> = crowds.iter().map(|crowd| crowd.seats.clone()).collect();
    let under = |set: Knobs| {
        let entries: Vec<Entry> = (ceilings.iter()).flat_map(|&ns| entries(set, ns)).collect();
        let played = stage::play_each(material, &seats, &entries, Part::Whole, "caps", crew);
        choose(crowds, set, &ceilings, &played)
    };
    let tried = sets(material, one, others).into_iter().map(under);
    tried.min_by_key(|own| own.fit)
}

/// How a ceiling is played: as a VM's own and as the parameter's, from both starts.
fn entries(set: Knobs, ns: u32) -> [Entry; ENTRIES] {
    let halt_poll_ns = ns;
    let param = Entry::new(Knobs {
        halt_poll_ns,
        ..set
    });
    let cap = Entry {
        ceilings: CeilingsOf::Caps(ns),
        ..Entry::new(set)
    };
    let start = Start::Ceiling;
    [cap, Entry { start, ..cap }, param, Entry { start, ..param }]
}

const ENTRIES: usize = 4;

/// Each VM's best ceiling, and the one that is best for those that follow.
fn choose(crowds: &[Crowd<'_>], set: Knobs, ceilings: &[u32], played: &[Vec<Parts>]) -> Own {
    // What a crowd costs under one of the ceilings, by the worse start, and its parts from there.
    let under = |crowd: usize, at: usize| {
        let Crowd { vm, cost, .. } = &crowds[crowd];
        let first = at * ENTRIES + if vm.is_some() { 0 } else { 2 };
        let fit = |parts: &Parts| parts.first().map_or(0, |fit| fit.milli(cost));
        let [zero, ceiling] = [first, first + 1].map(|at| &played[crowd][at]);
        if fit(ceiling) > fit(zero) {
            (fit(ceiling), ceiling)
        } else {
            (fit(zero), zero)
        }
    };
    let best = |of: &dyn Fn(usize) -> u128| {
        let all = 0..ceilings.len();
        all.min_by_key(|&at| (of(at), at)).unwrap_or(0)
    };
    let follow: Vec<usize> = (0..crowds.len())
        .filter(|&crowd| crowds[crowd].vm.is_none())
        .collect();
    let common = best(&|at| follow.iter().map(|&crowd| under(crowd, at).0).sum());
    let mut own = Own {
        // Where nobody follows it, it stays as it is.
        knobs: Knobs {
            halt_poll_ns: if follow.is_empty() {
                set.halt_poll_ns
            } else {
                ceilings[common]
            },
            ..set
        },
        caps: Vec::new(),
        parts: Vec::new(),
        fit: 0,
    };
    for (crowd, Crowd { vm, .. }) in crowds.iter().enumerate() {
        let at = vm.map_or(common, |_| best(&|at| under(crowd, at).0));
        own.caps.extend(vm.map(|vm| Cap {
            vm,
            ceiling_ns: ceilings[at],
        }));
        let (fit, parts) = under(crowd, at);
        own.fit += fit;
        own.parts.push(parts.clone());
    }
    own
}

/// What they gain were what was calibrated as late as [`late`] asks.
fn late_gain(
    material: &Material,
    crowds: &[Crowd<'_>],
    caps: &Caps,
    one: &Entry,
    crew: &impl Crew,
) -> f64 {
    let (mut own, mut common) = (Vec::new(), Vec::new());
    for crowd in crowds {
        let cap = caps.vms.iter().find(|cap| Some(cap.vm) == crowd.vm);
        let capped = Entry {
            ceilings: cap.map_or(CeilingsOf::Param, |cap| CeilingsOf::Caps(cap.ceiling_ns)),
            ..Entry::new(caps.knobs)
        };
        let entries = [capped, *one];
        let part = Part::WholeIfLate;
        let parts = stage::play(material, &crowd.seats, &entries, part, "doubt", crew);
        Sums::add_parts(&mut own, &price(&parts[0], &crowd.cost));
        Sums::add_parts(&mut common, &price(&parts[1], &crowd.cost));
    }
    Sums::total(&own[1..]).gain_on(&Sums::total(&common[1..]), &PRICED)
}
