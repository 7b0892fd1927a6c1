//! Laws of costs tables.

use super::grid::{OFF, Shape, is_made_by_cap, settings};
use super::*;
use crate::event::Halt;
use crate::kvm::{Arch, Knobs, Observed, Rule, Version};
use crate::replay::GoalName;
use crate::replay::Sums;
use crate::stats::Fold;
use crate::tune::search::{self, Aim, Found};
use crate::tune::stage::{self, Entry, Part};
use crate::tune::test::{AIM, COST, load, taken, terms};
use crate::tune::{Gather, Inputs, Keep, Serial};
use crate::workload::SplitMix64;

pub(crate) mod seeded;

/// When a recording of [`vm`] ends.
const END_NS: u64 = 200_000_000;

/// Halts of a VM from 1 ms to [`END_NS`], whose wake-ups all take as long, so that one capture says the same of them as
/// another.
fn vm(vm: u32, spec: &str, seed: u64) -> Vec<Halt> {
    let mut halts = load(vm, spec, 8_000, seed);
    let mut now_ns = 1_000_000;
    for halt in &mut halts {
        let gap_ns = halt.halt_ns - halt.wake_latency_ns.unwrap();
        halt.start_ns = now_ns;
        halt.wake_latency_ns = Some(20_000);
        halt.halt_ns = gap_ns + 20_000;
        now_ns = halt.end_ns() + 5_000;
    }
    halts.retain(|halt| halt.end_ns() < END_NS - 500_000);
    let last = Halt {
        start_ns: END_NS - 400_000,
        halt_ns: 400_000,
        ..halts[0]
    };
    halts.push(last);
    halts
}

fn gathered(in_force: Option<Knobs>, halts: &[Halt]) -> Inputs {
    let terms = terms("6.12");
    let in_force = in_force.unwrap_or(terms.in_force);
    let terms = crate::tune::Terms { in_force, ..terms };
    taken(terms, Gather::new(Keep::ALL).with_recorded(), halts)
}

fn of(inputs: &Inputs) -> Vec<VmCosts> {
    costs(inputs, COST.switch_cpu_ns, &Serial).unwrap()
}

fn line(vm: &VmCosts, kind: Kind, knobs: Option<Knobs>) -> &[Figures; 2] {
    let found = |line: &&super::play::Line| line.kind == kind && line.knobs == knobs;
    &vm.lines.iter().find(found).unwrap().halves
}

#[test]
fn the_grid_of_this_name_is_this_one() {
    let all = settings();
    assert_eq!((GRID, all.len(), all[0]), ("kvm-1", 65, OFF));
    for (at, knobs) in all.iter().enumerate() {
        assert!(!all[..at].contains(knobs), "{knobs:?} comes twice");
        let shape = Shape::of(knobs).map(|shape| shape.with(knobs.halt_poll_ns));
        assert_eq!(shape.unwrap_or(OFF), *knobs);
    }
    let sum: u64 = all.iter().map(|it| u64::from(it.halt_poll_ns)).sum();
    let starts: u64 = all.iter().map(|it| u64::from(it.grow_start)).sum();
    let rest: u32 = all.iter().map(|it| 10 * it.grow + it.shrink).sum();
    let sums = (sum, starts, rest);
    assert_eq!(
        sums,
        (14_560_000, 7_610_000, 1_190),
        "a changed grid has another name"
    );
}

/// The windows of random halts under a host's parameters and a ceiling.
fn windows(rule: Rule, knobs: &Knobs, ceiling: u32) -> Vec<u32> {
    let mut draw = SplitMix64(u64::from(ceiling));
    let (mut window, mut all) = (0, Vec::new());
    for _ in 0..2_000 {
        window = rule.entry(window, ceiling);
        all.push(window);
        let long = draw.below(4) == 0;
        let halt_ns = draw.below(if long { 3_000_000 } else { 60_000 });
        let observed = Observed::valid(halt_ns);
        window = rule.after(knobs, ceiling, window, observed).window;
    }
    all
}

/// [`is_made_by_cap`] holds for settings that a VM's own ceiling makes of a host's setting, and for no others.
#[test]
fn a_ceiling_makes_the_settings_that_it_is_taken_to_make() {
    let mut taken = 0;
    for kernel in ["5.13", "6.0", "6.1", "6.12", "7.2"] {
        let rule = Rule::of(kernel.parse().unwrap(), Arch::X86);
        assert!(rule.takes_caps(), "{kernel}");
        for host in settings() {
            for wanted in settings() {
                let ceiling = wanted.halt_poll_ns;
                let is_the_same = windows(rule, &host, ceiling) == windows(rule, &wanted, ceiling);
                if is_made_by_cap(&host, &wanted) {
                    assert!(is_the_same, "{kernel}: {host:?} {wanted:?}");
                    taken += u32::from(wanted != OFF && wanted != host);
                }
            }
        }
        // A window of one length needs its `grow_start`, where shrinking below that is to 0.
        let [host, wanted] = [100_000, 20_000].map(|ns| Shape::Fixed.with(ns));
        let all = [host, wanted].map(|knobs| windows(rule, &knobs, wanted.halt_poll_ns));
        assert_eq!(all[0] != all[1], rule.shrink_floor, "{kernel}");
        assert!(!is_made_by_cap(&host, &wanted));
    }
    // Both that shrink from 10 us on, from each ceiling to each; all or nothing to each that is lower.
    assert_eq!(taken, 5 * (2 * 16 * 15 + 16 + 16 * 15 / 2));
    for kernel in ["4.19", "5.7", "5.8", "5.12"] {
        let rule = Rule::of(kernel.parse().unwrap(), Arch::X86);
        assert!(!rule.takes_caps(), "{kernel}");
    }
}

/// A setting's figures are those that `tune` has of it, half by half.
#[test]
fn the_figures_are_those_of_tune() {
    let halts = [vm(0, "bimodal:0.7:20us:150us", 5), vm(1, "exp:60us", 6)].concat();
    let default = Knobs::defaults(Version::new(6, 12), Arch::X86);
    let inputs = gathered(Some(default), &halts);
    let entries: Vec<Entry> = settings().into_iter().map(Entry::new).collect();
    let played = stage::play(&inputs, &entries, Part::Whole, "", &Serial);
    let vms = of(&inputs);
    assert_eq!(vms.len(), 2);
    let figures = |of: &Sums| {
        let times = [of.poll_ns, of.latency_ns, of.halt_ns];
        ([of.halts, of.blocks], times)
    };
    for (knobs, parts) in settings().into_iter().zip(played) {
        let mut halves = [Sums::default(); 2];
        for vm in &vms {
            for (sum, half) in halves.iter_mut().zip(line(vm, Kind::Grid, Some(knobs))) {
                sum.fold(&half.sums);
                let sampled = half.latency.count();
                assert!(sampled.abs_diff(half.sums.halts / 17) <= 1, "{sampled}");
            }
        }
        let judged = Sums::total(&parts[1..]);
        for (half, tuned) in halves.iter().zip([parts[0], judged]) {
            assert_eq!(figures(half), figures(&tuned), "{knobs:?}");
            assert!(half.failed_polls <= half.blocks);
        }
    }
}

/// The cheapest setting by sums of the costs of single captures is the one that `tune` takes, of the same settings,
/// where these captures are one: of other VMs, over the same time.
#[test]
fn the_best_by_sums_is_the_best_of_all_halts_together() {
    for seed in 0..3 {
        let captures = [
            vm(0, "bimodal:0.8:15us:90us", seed),
            vm(1, "exp:45us", seed + 7),
            vm(2, "fixed:70us", seed + 9),
        ];
        for weight in GoalName::ALL.map(GoalName::weight_milli) {
            let mut cost = COST;
            cost.latency_weight_milli = weight;
            let apart: Vec<VmCosts> = (captures.iter())
                .flat_map(|halts| of(&gathered(None, halts)))
                .collect();
            let sum = |knobs: &Knobs| -> u128 {
                let each = apart.iter().map(|vm| line(vm, Kind::Grid, Some(*knobs)));
                each.map(|halves| halves[0].sums.milli(&cost)).sum()
            };
            let best = settings().into_iter().min_by_key(sum).unwrap();
            let together = gathered(None, &captures.concat());
            let entries: Vec<Entry> = settings().into_iter().map(Entry::new).collect();
            let played = stage::play(&together, &entries, Part::Fit(1), "", &Serial);
            let found = settings().into_iter().zip(played).map(|(knobs, parts)| {
                let fit = parts[0];
                Found { knobs, fit }
            });
            let found: Vec<Found> = found.collect();
            let aim = Aim { cost, ..AIM };
            let tuned = search::best(&found, &aim, &together, 1)[0];
            assert_eq!(tuned.fit.milli(&cost), sum(&best), "{best:?} {tuned:?}");
        }
    }
}

/// Halts and recorded figures of a capture that was cut into two add up to those of the whole.
#[test]
fn what_was_recorded_adds_up_over_a_cut() {
    let halts = vm(0, "exp:60us", 3);
    let recorded = |halts: &[Halt]| {
        let vms = of(&gathered(None, halts));
        let mut sum = Sums::default();
        for half in line(&vms[0], Kind::Recorded, None) {
            sum.fold(&half.sums);
        }
        sum
    };
    let whole = recorded(&halts);
    assert_eq!(whole.halts, halts.len() as u64);
    assert_eq!(whole.blocks, whole.halts, "there was no poll");
    for at in [500, 1_000, halts.len() / 2] {
        let mut parts = recorded(&halts[..at]);
        parts.fold(&recorded(&halts[at..]));
        assert_eq!(parts, whole);
    }
}

/// No setting costs less than the bound for the same goal.
#[test]
fn nothing_beats_the_bounds() {
    let inputs = gathered(None, &vm(0, "bimodal:0.6:25us:300us", 4));
    let vms = of(&inputs);
    for (kind, latency_weight_milli) in Kind::ORACLES {
        let mut cost = COST;
        cost.latency_weight_milli = latency_weight_milli;
        let bound = line(&vms[0], kind, None);
        for it in vms[0].lines.iter().filter(|line| line.knobs.is_some()) {
            for (half, bound) in it.halves.iter().zip(bound) {
                assert_eq!(half.sums.halts, bound.sums.halts);
                assert!(bound.sums.milli(&cost) <= half.sums.milli(&cost), "{it:?}");
            }
        }
    }
}

#[test]
fn labels_are_read_as_they_were_written() {
    let labels = [("a", "b"), ("a=b", "c"), ("rack", "")];
    let labels = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let text = table::labels_text(&labels).unwrap();
    assert_eq!(table::labels_of(&text), labels);
}
