//! The best ceilings under each set of the parameters that ceilings share, within what polling may take.

use super::super::candidates::{self, CEILINGS_NS, with_ceiling};
use super::super::inputs::Inputs;
use super::super::pareto;
use super::super::pool::Pool;
use super::super::search::{self, Aim};
use super::super::stage::{self, CeilingsOf, Entry, Part};
use super::{BATCH, Crowd, Tally, tallies};
use crate::kvm::Knobs;
use crate::replay::Sums;

pub(super) struct Own {
    pub(super) knobs: Knobs,
    pub(super) entries: Vec<Entry>,
    pub(super) tally: Tally,
}

/// A crowd under an entry, on the part that fits.
#[derive(Clone, Copy)]
struct Offer {
    entry: Entry,
    fit: Sums,
}

/// Ceilings are chosen by about so many halts of a vCPU at most, in stretches.
const MOST_HALTS: usize = 1 << 18;

/// Sets of the parameters that ceilings share, tried at most.
const SETS: usize = 8;

/// Those sets, each once, whatever its `halt_poll_ns`.
fn sets(inputs: &Inputs, one: &Knobs, others: &[Knobs]) -> Vec<Knobs> {
    let terms = &inputs.terms;
    if terms.ceiling_only {
        return vec![terms.in_force];
    }
    // A first window above every ceiling: all or nothing, whatever the VM's ceiling.
    let toggle = candidates::toggle(candidates::LONGEST_NS, &terms.in_force);
    let first = [*one, terms.in_force, terms.default_knobs(), toggle];
    let mut sets: Vec<Knobs> = Vec::new();
    for knobs in first.iter().chain(others) {
        let set = with_ceiling(knobs, terms.in_force.halt_poll_ns);
        if !sets.contains(&set) && sets.len() < SETS {
            sets.push(set);
        }
    }
    sets
}

/// How often ceilings that poll for too long on the validation half are chosen anew for less on the part that fits.
const TRIES: usize = 4;

/// The best ceilings under the best of the sets. Where none are within the limit of polling, those that come
/// nearest to it.
pub(super) fn own(
    inputs: &Inputs,
    crowds: &[Crowd<'_>],
    (one, others): (&Knobs, &[Knobs]),
    aim: &Aim,
    pool: &impl Pool,
) -> Option<Own> {
    let mut ceilings = CEILINGS_NS.to_vec();
    ceilings.extend([one.halt_poll_ns, inputs.terms.in_force.halt_poll_ns]);
    ceilings.sort_unstable();
    ceilings.dedup();
    let sets = sets(inputs, one, others);
    let offers = offers(inputs, crowds, (&sets, &ceilings), aim, pool);
    let offered: Vec<(Knobs, Vec<Vec<Offer>>)> = sets.into_iter().zip(offers).collect();
    let limit = aim.limit_percent();
    let mut asked = *aim;
    let mut last = None;
    for _ in 0..TRIES {
        let chosen = offered.iter().map(|(set, offers)| {
            let chosen = within(inputs, offers, &asked);
            let fit: Vec<Sums> = chosen.iter().map(|offer| offer.fit).collect();
            let fit = Sums::total(&fit);
            let is_over = !search::is_within(&asked, inputs, &fit);
            ((is_over, fit.milli(&aim.cost)), *set, chosen)
        });
        let (_, set, chosen) = chosen.min_by_key(|(fit, ..)| *fit)?;
        let entries: Vec<Entry> = chosen.iter().map(|offer| offer.entry).collect();
        let [tally] = tallies(inputs, crowds, [&entries], Part::Whole, pool);
        let polls = (inputs.judged_wall).poll_cpu_percent(&Sums::total(tally.blocks()));
        let follow = crowds.last().filter(|crowd| crowd.vm.is_none());
        last = Some(Own {
            // Where no VM follows it, halt_poll_ns stays as it is.
            knobs: follow.and(entries.last()).map_or(set, |entry| entry.knobs),
            entries,
            tally,
        });
        if polls <= limit {
            break;
        }
        let less = asked.limit_percent().min(limit) * limit / polls;
        asked.max_poll_cpu_percent = Some(less);
    }
    last
}

/// Result of each crowd's halts under each set and ceiling: ceilings of VMs are caps, the ceiling of all followers is
/// the parameter. By set, then by crowd.
fn offers(
    inputs: &Inputs,
    crowds: &[Crowd<'_>],
    (sets, ceilings): (&[Knobs], &[u32]),
    aim: &Aim,
    pool: &impl Pool,
) -> Vec<Vec<Vec<Offer>>> {
    let (vms, follow) = crowds.split_at(crowds.partition_point(|crowd| crowd.vm.is_some()));
    let as_cap = |set: Knobs, ns: u32| Entry {
        ceilings: CeilingsOf::Caps(ns),
        ..Entry::new(set)
    };
    let as_param = |set: Knobs, ns: u32| Entry::new(with_ceiling(&set, ns));
    let from_both = |entry: &dyn Fn(Knobs, u32) -> Entry| -> Vec<Entry> {
        let of_set = |set: &Knobs| {
            let of = ceilings.iter().map(|&ns| entry(*set, ns).from_both());
            of.collect::<Vec<_>>()
        };
        sets.iter().flat_map(of_set).flatten().collect()
    };
    let (caps, params) = (from_both(&as_cap), from_both(&as_param));
    let mut offers = vec![Vec::new(); sets.len()];
    let batches = vms.chunks(BATCH).map(|batch| (batch, &caps));
    let follow = Some((follow, &params)).filter(|(follow, _)| !follow.is_empty());
    for (batch, entries) in batches.chain(follow) {
        let vcpus: Vec<_> = batch.iter().map(|crowd| crowd.seats.clone()).collect();
        let part = Part::FitOfEach(MOST_HALTS);
        for played in stage::play_each(inputs, &vcpus, entries, part, "caps", pool) {
            let offer = |(entry, parts): (&Entry, &Vec<Sums>)| Offer {
                entry: *entry,
                fit: Sums::total(parts),
            };
            let all: Vec<Offer> = entries.iter().zip(&played).map(offer).collect();
            let of_sets = all.chunks(2 * ceilings.len());
            for (offers, of_set) in offers.iter_mut().zip(of_sets) {
                let of_set = of_set.chunks(2).map(|pair| worse(pair, aim));
                offers.push(undominated(&of_set.collect::<Vec<_>>(), aim));
            }
        }
    }
    offers
}

/// The costlier of the two starts; the first start if both cost the same.
fn worse(pair: &[Offer], aim: &Aim) -> Offer {
    let [zero, ceiling] = [pair[0], pair[pair.len() - 1]];
    if ceiling.fit.milli(&aim.cost) > zero.fit.milli(&aim.cost) {
        ceiling
    } else {
        zero
    }
}

/// The offers that can be best at some price of polling: a host may have 100,000 VMs, each with 120 offers.
fn undominated(offers: &[Offer], aim: &Aim) -> Vec<Offer> {
    let points = offers
        .iter()
        .map(|it| (it.fit.poll_ns, it.fit.milli(&aim.cost)));
    let mut front = pareto::front(&points.collect::<Vec<_>>());
    front.sort_unstable();
    front.into_iter().map(|at| offers[at]).collect()
}

/// The greatest price of polling that is asked: no VM polls at that price without need.
const MOST_PRICE: u128 = 1 << 40;

/// Crowd by crowd the best offer, where polling is made so much dearer that all of it is within the limit. What
/// polling is worth to one VM more than to another decides who goes on polling.
fn within(inputs: &Inputs, offers: &[Vec<Offer>], aim: &Aim) -> Vec<Offer> {
    let at_price = |price: u128| -> Vec<Offer> {
        let cost = |offer: &Offer| {
            let dearer = u128::from(offer.fit.poll_ns) * price;
            offer.fit.milli(&aim.cost).saturating_add(dearer)
        };
        let best = |of: &Vec<Offer>| of.iter().min_by_key(|offer| cost(offer)).copied();
        offers.iter().filter_map(best).collect()
    };
    let is_within = |chosen: &[Offer]| {
        let fits: Vec<Sums> = chosen.iter().map(|offer| offer.fit).collect();
        search::is_within(aim, inputs, &Sums::total(&fits))
    };
    let free = at_price(0);
    if is_within(&free) {
        return free;
    }
    let (mut low, mut high) = (0, MOST_PRICE);
    while high - low > 1 {
        let price = low.midpoint(high);
        if is_within(&at_price(price)) {
            high = price;
        } else {
            low = price;
        }
    }
    at_price(high)
}
