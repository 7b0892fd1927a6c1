//! Laws of the kernel's rule, each in one sentence.

use std::cmp::Ordering;

use haltwise_core::kvm::guest;
use haltwise_core::kvm::{Arch, Backport, Knobs, Observed, Rule, Version};
use proptest::prelude::*;

/// Nanoseconds of every size that a knob can hold, with its edges.
fn knob() -> impl Strategy<Value = u32> {
    prop_oneof![
        1 => Just(0),
        4 => 1..20_u32,
        8 => 1..1_000_000_u32,
        2 => any::<u32>(),
        1 => Just(u32::MAX),
    ]
}

fn factor() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..5_u32, 1 => any::<u32>()]
}

fn halt() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        4 => 1..20_u64,
        8 => 1..1_000_000_u64,
        2 => 0..1_u64 << 33,
        1 => Just(u64::MAX),
    ]
}

prop_compose! {
    fn knobs()(
        halt_poll_ns in knob(), grow in factor(), grow_start in knob(), shrink in factor(),
    ) -> Knobs {
        Knobs { halt_poll_ns, grow, grow_start, shrink }
    }
}

prop_compose! {
    fn observed()((halt_ns, valid, allowed) in (halt(), any::<bool>(), any::<bool>())) -> Observed {
        Observed { halt_ns, valid, allowed }
    }
}

fn port() -> impl Strategy<Value = Arch> {
    proptest::sample::select(Arch::ALL.to_vec())
}

/// Kernels from `first` to `last`, where all minor numbers below 20 stand for themselves.
fn kernels(first: (u32, u32), last: (u32, u32)) -> impl Strategy<Value = Version> {
    let all = (4..=7).flat_map(|major| (0..20).map(move |minor| (major, minor)));
    let chosen: Vec<_> = all.filter(|it| (first..=last).contains(it)).collect();
    proptest::sample::select(chosen).prop_map(|(major, minor)| Version::new(major, minor))
}

/// The windows in force at each halt of a length, and after the last; the ceiling is the parameter.
fn walk(rule: Rule, knobs: &Knobs, window: u32, halts: &[u64]) -> Vec<u32> {
    let ceiling = knobs.halt_poll_ns;
    let mut windows = vec![rule.entry(window, ceiling)];
    for halt_ns in halts {
        let last = windows[windows.len() - 1];
        let step = rule.after(knobs, ceiling, last, Observed::valid(*halt_ns));
        windows.push(rule.entry(step.window, ceiling));
    }
    windows
}

proptest! {
    /// Since 6.1 the window in force never exceeds the ceiling, however both move.
    #[test]
    fn since_6_1_no_poll_passes_the_ceiling(
        version in kernels((6, 1), (7, 2)),
        arch in port(),
        knobs in knobs(),
        start in knob(),
        halts in proptest::collection::vec((knob(), knob(), observed()), 1..40),
    ) {
        let rule = Rule::of(version, arch);
        let mut left = start;
        for (at_entry, at_end, observed) in halts {
            let window = rule.entry(left, at_entry);
            prop_assert!(window <= at_entry);
            left = rule.after(&knobs, at_end, window, observed).window;
        }
    }

    /// From 4.6 to 6.0 a window that starts below a ceiling that stays never passes it, if the cap of
    /// the era is that ceiling.
    #[test]
    fn capped_growth_stays_below_a_ceiling_that_stays(
        version in kernels((4, 6), (6, 0)),
        arch in port(),
        knobs in knobs(),
        halts in proptest::collection::vec(observed(), 1..40),
    ) {
        let rule = Rule::of(version, arch);
        let mut window = 0;
        for observed in halts {
            window = rule.entry(window, knobs.halt_poll_ns);
            window = rule.after(&knobs, knobs.halt_poll_ns, window, observed).window;
            prop_assert!(window <= knobs.halt_poll_ns);
        }
    }

    /// A call tells the window before and the window after.
    #[test]
    fn a_call_tells_what_happened(
        version in kernels((4, 0), (7, 2)), arch in port(), knobs in knobs(), ceiling in knob(),
        window in knob(), observed in observed(),
    ) {
        let rule = Rule::of(version, arch);
        let step = rule.after(&knobs, ceiling, window, observed);
        if let Some(call) = step.call {
            prop_assert_eq!(call.old, window);
            prop_assert_eq!(call.new, step.window);
            prop_assert!(call.grow || call.new <= call.old, "a shrink raises nothing");
        } else if rule.is_traced() {
            prop_assert!(step.window == window || step.window == 0 && ceiling == 0);
        }
    }

    /// A halt that fits its window changes nothing, so a window never follows the halts down.
    #[test]
    fn a_halt_within_its_window_changes_nothing(
        version in kernels((4, 3), (7, 2)), knobs in knobs(), ceiling in 1..u32::MAX,
        window in knob(), percent in 0..=100_u64,
    ) {
        let halt_ns = u64::from(window) * percent / 100;
        let step = Rule::of(version, Arch::X86)
            .after(&knobs, ceiling, window, Observed::valid(halt_ns));
        prop_assert_eq!((step.window, step.call), (window, None));
    }

    /// A halt as long as the ceiling neither grows nor shrinks.
    #[test]
    fn a_halt_of_exactly_the_ceiling_changes_nothing(
        version in kernels((4, 3), (7, 2)), knobs in knobs(), ceiling in 1..=u32::MAX,
        window in knob(),
    ) {
        let step = Rule::of(version, Arch::X86)
            .after(&knobs, ceiling, window, Observed::valid(u64::from(ceiling)));
        prop_assert_eq!((step.window, step.call), (window, None));
    }

    /// With factor 1, divisor 1 and the start at the ceiling, the rule since 5.1 is a fixed threshold,
    /// armed by the first halt that is shorter and longer than nothing.
    #[test]
    fn any_fixed_threshold_can_be_set(
        version in kernels((5, 1), (7, 2)), tau in 2..=u32::MAX,
        first in 1..u32::MAX, halts in proptest::collection::vec(halt(), 0..40),
    ) {
        let knobs = Knobs { halt_poll_ns: tau, grow: 1, grow_start: tau, shrink: 1 };
        let first = u64::from(first % (tau - 1) + 1);
        let halts: Vec<u64> = std::iter::once(first).chain(halts).collect();
        let windows = walk(Rule::of(version, Arch::Arm64), &knobs, 0, &halts);
        prop_assert_eq!(windows[0], 0);
        prop_assert!(windows[1..].iter().all(|window| *window == tau), "{:?}", windows);
    }

    /// With the start at the ceiling and a divisor of 2 or more, the rule since 5.16, or with the floor
    /// taken back, is a toggle.
    #[test]
    fn a_start_at_the_ceiling_is_a_toggle(
        version in kernels((5, 1), (7, 2)), ceiling in 1..=u32::MAX, grow in 1..5_u32,
        shrink in prop_oneof![Just(0), 2..5_u32], halts in proptest::collection::vec(halt(), 1..40),
    ) {
        let knobs = Knobs { halt_poll_ns: ceiling, grow, grow_start: ceiling, shrink };
        let rule = Rule::of(version, Arch::X86).with(Backport::ShrinkFloor);
        let mut expected = vec![0];
        for halt_ns in &halts {
            let window: u32 = expected[expected.len() - 1];
            expected.push(match halt_ns.cmp(&u64::from(ceiling)) {
                _ if *halt_ns <= u64::from(window) => window,
                Ordering::Less => ceiling,
                Ordering::Equal => window,
                Ordering::Greater => 0,
            });
        }
        prop_assert_eq!(walk(rule, &knobs, 0, &halts), expected);
    }

    /// A constant gap below the ceiling is polled for in every halt, after at most 32 misses.
    #[test]
    fn a_constant_gap_below_the_ceiling_is_polled_for_always(
        version in kernels((4, 3), (7, 2)), ceiling in 20_001..1_u32 << 31, gap in 1..1_u32 << 31,
        grow in 2..5_u32,
    ) {
        let gap = gap % (ceiling - 1) + 1;
        let knobs = Knobs { halt_poll_ns: ceiling, grow, grow_start: 10_000, shrink: 2 };
        // A factor above 2 may step over 2^32, and wrap, before it reaches a gap this long.
        prop_assume!(u64::from(gap) * u64::from(grow) < 1 << 32);
        let windows = walk(Rule::of(version, Arch::X86), &knobs, 0, &[u64::from(gap); 64]);
        prop_assert!(windows[32..].iter().all(|window| *window >= gap), "{:?}", windows);
        prop_assert!(windows[32..].iter().all(|window| *window == windows[32]));
    }

    /// Polling locks itself out where a gap fits under the ceiling and the gap with its wake-up latency
    /// does not: a window of 0 stays 0, and a grown one stays grown.
    #[test]
    fn a_ceiling_below_gap_and_latency_has_two_steady_states(
        version in kernels((4, 3), (7, 2)), ceiling in 1_000..1_000_000_u32,
        gap in 1..1_000_000_u32, latency in 1..1_000_000_u32,
    ) {
        let gap = u64::from(gap % ceiling);
        let slept = gap + u64::from(latency);
        prop_assume!(slept > u64::from(ceiling));
        let knobs = Knobs { halt_poll_ns: ceiling, grow: 2, grow_start: 10_000, shrink: 2 };
        let rule = Rule::of(version, Arch::X86);
        for start in [0, ceiling] {
            let halt_ns = if start == 0 { slept } else { gap };
            let windows = walk(rule, &knobs, start, &[halt_ns; 8]);
            prop_assert_eq!(windows, [start; 9]);
        }
    }

    /// Only s390 looks at `valid`, and only x86 and s390 at `allowed`.
    #[test]
    fn flags_are_looked_at_only_where_the_port_has_them(
        version in kernels((4, 0), (7, 2)), arch in port(), knobs in knobs(), ceiling in knob(),
        window in knob(), observed in observed(),
    ) {
        let rule = Rule::of(version, arch);
        let after = |observed| rule.after(&knobs, ceiling, window, observed);
        if arch != Arch::S390 {
            prop_assert_eq!(after(observed), after(Observed { valid: true, ..observed }));
        }
        if !matches!(arch, Arch::S390 | Arch::X86) {
            prop_assert_eq!(after(observed), after(Observed { allowed: true, ..observed }));
        }
    }

    /// Text that is read as a kernel, a port or a backport prints as text that reads back the same.
    #[test]
    fn what_reads_prints_back(
        text in prop_oneof!["[0-9v ]{0,11}[.][0-9]{0,11}[-+.a-z]{0,6}", "[a-z0-9_-]{0,12}", any::<String>()],
    ) {
        if let Ok(version) = text.parse::<Version>() {
            prop_assert_eq!(version.to_string().parse(), Ok(version));
            prop_assert!(text.trim().starts_with(|first: char| first.is_ascii_digit()));
        }
        if let Ok(arch) = text.parse::<Arch>() {
            prop_assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        if let Ok(backport) = text.parse::<Backport>() {
            prop_assert_eq!(backport.to_string(), text);
        }
    }

    /// A guest's limit never passes a ceiling that stays.
    #[test]
    fn a_guests_limit_stays_below_its_ceiling(
        version in kernels((5, 4), (7, 2)), knobs in knobs(), allow_shrink in any::<bool>(),
        halts in proptest::collection::vec(halt(), 1..40),
    ) {
        let rule = guest::Rule::of(version).unwrap();
        let params = guest::Params {
            guest_halt_poll_ns: knobs.halt_poll_ns,
            grow: knobs.grow,
            grow_start: knobs.grow_start,
            shrink: knobs.shrink,
            allow_shrink,
        };
        let mut limit = 0;
        for residency_ns in halts {
            let last = guest::Last::Halt { residency_ns };
            limit = rule.reflect(&params, limit, last).limit_ns;
            prop_assert!(limit <= params.guest_halt_poll_ns);
        }
    }
}
