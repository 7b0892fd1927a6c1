//! Laws that hold for every load.

use super::*;
use crate::replay::Sums;
use crate::stats::Fold;
use crate::tune::figures::{LEADER, Played, Subject, figures, figures_after};
use crate::tune::inputs::Recorded;
use crate::tune::stage::CeilingsOf;

fn some_load() -> impl proptest::strategy::Strategy<Value = (Vec<Halt>, u64)> {
    use proptest::prelude::*;
    let spec = prop_oneof![
        Just("fixed:20us"),
        Just("exp:60us"),
        Just("uniform:5us:400us"),
        Just("bimodal:0.8:15us:2ms"),
        Just("phases:20us*20:3ms*5"),
    ];
    let weight = prop_oneof![Just(0_u64), Just(1_000), Just(10_000)];
    (spec, 2_usize..300, any::<u64>(), weight)
        .prop_map(|(spec, count, seed, weight)| (load(0, spec, count, seed), weight))
}

/// A halt of one of four stretches costs what one of all does, to 3 %; so does one of VMs with a stretch each, where each
/// fourth has another load.
#[test]
fn stretches_stand_for_the_others() {
    let busy = load(0, "exp:60us", 100_000, 7);
    let small = (1..3_000).flat_map(|vm| {
        let gaps = ["exp:30us", "exp:60us"][usize::from(vm % 4 > 0)];
        load(vm, gaps, 40, u64::from(vm))
    });
    for halts in [busy, small.collect()] {
        let inputs = inputs(terms("6.12"), &halts);
        let settings = [0, 50_000, 200_000].map(candidates::fixed).map(Entry::new);
        let play = |part| stage::play(&inputs, &settings, part, "", &Serial);
        for part in [Part::Fit(4), Part::FitOfEach(12_500)] {
            for (some, all) in play(part).iter().zip(play(Part::Fit(1))) {
                let [some, all] = [some[0], all[0]].map(|of| of.cost_per_halt_ns(&COST));
                assert!((some / all - 1.0).abs() < 0.03, "{some} of {all}, {part:?}");
            }
        }
    }
}

/// Where the search plays a sample of the halts, no other ceiling costs less than the recommended one, to 1 %.
#[test]
fn a_sampled_search_recommends_as_well() {
    let mut terms = terms("6.12");
    terms.ceiling_only = true;
    let inputs = inputs(terms, &load(0, "bimodal:0.8:15us:2ms", 1_100_000, 7));
    assert!(search::one_in(&inputs, search::MOST_HALTS) > 1);
    let (_, advice) = tune(&inputs, AIM);
    assert_eq!(advice.verdict, Verdict::Change);
    let ceilings = candidates::grid(&inputs.terms);
    let ceilings: Vec<Entry> = ceilings.into_iter().map(Entry::new).collect();
    let played = stage::play(&inputs, &ceilings, Part::Whole, "", &Serial);
    let costs = (played.iter()).map(|parts| Sums::total(&parts[1..]).cost_per_halt_ns(&COST));
    let least = costs.fold(f64::INFINITY, f64::min);
    let own = advice.choice.unwrap().judged().cost_per_halt_ns(&COST);
    assert!(own <= least * 1.01, "{own} instead of {least}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]

    /// On the part that fits, the best that was found costs no more than any member of the grid.
    #[test]
    fn no_member_of_the_grid_is_cheaper((halts, weight) in some_load()) {
        let cost = Cost { latency_weight_milli: weight, ..COST };
        let aim = Aim { cost, ..AIM };
        let inputs = inputs(terms("6.12"), &halts);
        let found: Vec<search::Found> = search(&inputs, &[aim], &Serial);
        let best = search::best(&found, &aim, &inputs, 1)[0];
        let entries: Vec<Entry> = candidates::grid(&inputs.terms).into_iter().map(Entry::new).collect();
        for sums in stage::play(&inputs, &entries, Part::Fit(1), "", &Serial) {
            proptest::prop_assert!(best.fit.milli(&cost) <= sums[0].milli(&cost));
        }
    }

    /// Parts of the whole add up to a replay of the whole, whichever function plays them.
    #[test]
    fn parts_add_up((halts, _) in some_load(), other in 0_u64..1_000) {
        let mut both = halts.clone();
        both.extend(load(1, "exp:40us", 100, other));
        let inputs = inputs(terms("6.12"), &both);
        let seats: Vec<_> = inputs.seats.iter().collect();
        let knobs = inputs.terms.default_knobs();
        let entries = [Entry::new(knobs), Entry { start: Start::Ceiling, ..Entry::new(knobs) }];
        let parts = stage::play(&inputs, &entries, Part::Whole, "", &Serial);
        for (entry, parts) in entries.iter().zip(&parts) {
            let mut expected = Sums::default();
            for seated in &inputs.seats {
                let mut run = stage::kvm(&inputs.terms, seated, entry).unwrap();
                let frame = stage::frame(seated, COST);
                for sample in &seated.samples {
                    run.step(sample, &frame);
                }
                expected.fold(&Sums::of(run.outcome()));
            }
            proptest::prop_assert_eq!(Sums::total(parts), expected);
        }
        // Each group by itself, and all of them at once.
        let alone = seats.iter().map(|seated| vec![*seated]);
        let groups: Vec<_> = alone.chain([seats.clone()]).collect();
        let each = stage::play_each(&inputs, &groups, &entries, Part::Whole, "", &Serial);
        for (group, sums) in groups.iter().zip(each) {
            let alone = std::slice::from_ref(group);
            let by_itself = stage::play_each(&inputs, alone, &entries, Part::Whole, "", &Serial);
            proptest::prop_assert_eq!(&sums, &by_itself[0]);
        }
    }

    /// A subject's figures are the same whichever other subjects are looked at, itself included.
    #[test]
    fn company_changes_no_figures((halts, weight) in some_load()) {
        let cost = Cost { latency_weight_milli: weight, ..COST };
        let inputs = inputs(terms("6.12"), &halts);
        let in_force = Entry::new(inputs.terms.in_force);
        let recorded = Entry { ceilings: CeilingsOf::Recorded, ..in_force };
        let high = Entry { start: Start::Ceiling, ..in_force };
        let settings = [in_force, recorded, high, in_force].map(Subject::Setting);
        let policies = ["leader", "leader", "fixed:50us"].map(|name| Subject::Policy(name.parse().unwrap()));
        let all: Vec<Subject> = settings.into_iter().chain(policies).collect();
        let of = |subjects: &[Subject]| figures(&inputs, subjects, &cost, &Serial).unwrap();
        let together = of(&all);
        for (subject, figures) in all.iter().zip(together) {
            proptest::prop_assert_eq!(&of(std::slice::from_ref(subject))[0], &figures);
        }
    }

    /// The same halts give the same recommendation, and one that obeys what it was told: never worse
    /// than what is in force by its own judgement, never above the limit, never bistable.
    #[test]
    fn a_recommendation_keeps_its_word((halts, weight) in some_load(), limit in 0.0..20.0_f64) {
        let aim = Aim {
            cost: Cost { latency_weight_milli: weight, ..COST },
            max_poll_cpu_percent: Some(limit),
            ..AIM
        };
        let inputs = inputs(terms("6.12"), &halts);
        let (of, advice) = tune(&inputs, aim);
        proptest::prop_assert_eq!(&tune(&inputs, aim), &(of, advice.clone()));
        if let Some(choice) = advice.choice.filter(|_| advice.verdict == Verdict::Change) {
            let polls = inputs.judged_wall.poll_cpu_percent(&choice.judged());
            proptest::prop_assert!(polls <= limit);
            proptest::prop_assert!(choice.two_states(&aim.cost).is_none());
            let against = advice.against_in_force.unwrap();
            proptest::prop_assert!(against.cost_share.high < 0.0);
        }
    }
}

/// Every kernel has a grid of its own, without parameters that it lacks, and no setting twice.
#[test]
fn grids_hold_only_what_a_kernel_has() {
    for (version, arch, least) in [
        ("3.19", Arch::X86, 0),
        ("4.1", Arch::X86, 20),
        ("4.19", Arch::X86, 200),
        ("5.0", Arch::S390, 200),
        ("5.1", Arch::X86, 1_000),
        ("5.15", Arch::X86, 1_000),
        ("6.12", Arch::Arm64, 1_000),
    ] {
        let version: Version = version.parse().unwrap();
        let defaults = Knobs::defaults(version, arch);
        let terms = Terms::new(version, arch, defaults);
        let reach = Reach::of(terms.rule());
        let grid = candidates::grid(&terms);
        assert!(grid.len() >= least, "{version}: {}", grid.len());
        assert!(grid.len() < 2_048);
        for (number, knobs) in grid.iter().enumerate() {
            assert!(reach.grow_start || knobs.grow_start == defaults.grow_start);
            assert!(reach.adapts || knobs.grow == defaults.grow);
            assert!(!grid[..number].contains(knobs), "{version}: {knobs:?}");
            for around in candidates::neighbours(&terms, knobs, &[0.5, 2.0]) {
                assert!(reach.grow_start || around.grow_start == defaults.grow_start);
                assert!(around.halt_poll_ns <= candidates::LONGEST_NS);
                assert!(around.halt_poll_ns > 0);
            }
        }
    }
}

/// A wake-up latency that was not recorded comes from a table that is whole only in the end.
#[test]
fn what_a_pass_owes_is_paid_as_a_second_pass_would_have_it() {
    let mut halts = load(0, "exp:60us", 3_000, 14);
    for halt in halts.iter_mut().step_by(3) {
        halt.wake_latency_ns = None;
        halt.poll_ns = Some(1_000);
    }
    let inputs = inputs(terms("6.12"), &halts);
    let seated = &inputs.seats[0];
    let mut recorded = Recorded::default();
    for ((turn, halt), sample) in (0..).zip(&halts).zip(&seated.samples) {
        let again = Sample::new(halt, &seated.table, turn);
        assert_eq!(*sample, again);
        recorded.halt(halt);
    }
    assert_eq!(seated.samples.len(), halts.len());
    assert_eq!(seated.recorded, recorded);
    assert!(seated.samples[0].is_gap_guessed() && seated.samples[0].latency_ns > 0);
}

/// Policies that forget do the same whether they learned from all halts before or from the last ones, within a
/// hundredth.
#[test]
fn what_policies_learned_long_ago_is_forgotten() {
    let some = ["exp:60us", "bimodal:0.8:15us:2ms", "phases:20us*200:3ms*50"];
    for (spec, seed) in some.into_iter().zip(1..) {
        let inputs = inputs(terms("6.12"), &load(0, spec, 60_000, seed));
        let mut subjects = vec![Subject::Setting(Entry::new(inputs.terms.default_knobs()))];
        let others = [LEADER, "clairvoyant"];
        subjects.extend(others.map(|spec| Subject::Policy(spec.parse().unwrap())));
        let after = |warm_up| figures_after(warm_up, &inputs, &subjects, &COST, &Serial).unwrap();
        let (all, last) = (after(usize::MAX), after(5_000));
        for ((subject, all), last) in subjects.iter().zip(&all).zip(&last) {
            let cost = |played: &Played| played.sums.milli(&COST) as f64;
            let apart = cost(last) / cost(all) - 1.0;
            let name = format!("{spec} {subject:?}: {apart}");
            assert_eq!(all.sums.halts, last.sums.halts, "{name}");
            match subject {
                Subject::Setting(_) | Subject::Guest(_) => assert_eq!(all, last, "{name}"),
                Subject::Policy(_) => assert!(apart.abs() < 0.01, "{name}"),
            }
        }
    }
}
