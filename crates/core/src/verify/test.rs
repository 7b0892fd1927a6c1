//! A made-up kernel that follows the rule, and recordings of it that do not.

use proptest::prelude::*;

use super::*;
use crate::event::{CeilingSource, WindowCall};
use crate::kvm::{Knobs, Observed, Version};
use crate::parameter::{Parameter, Values};

mod carried;

const TID: Tid = Tid(7);
const CPU: VcpuId = VcpuId(0);
const VM: VmIndex = VmIndex(0);

const KNOBS: Knobs = Knobs::of([200_000, 2, 10_000, 2]);

fn rule() -> Rule {
    Rule::of(Version::new(6, 12), Arch::X86)
}

fn setup(sight: Sight) -> Setup {
    Setup {
        rule: rule(),
        arch: Arch::X86,
        sight,
        settings: Settings::fixed(KNOBS),
        cap: None,
        losses: Losses::default(),
        vetoed: BTreeSet::new(),
    }
}

/// The same with a ceiling of every VM, whatever was recorded.
fn capped(cap: u32, sight: Sight) -> Setup {
    let cap = Some(cap);
    Setup {
        cap,
        ..setup(sight)
    }
}

/// A vCPU under a kernel, and what a recorder sees of it.
struct Kernel {
    rule: Rule,
    knobs: Knobs,
    cap: Option<u32>,
    allowed: bool,
    now: u64,
    window: u32,
}

impl Kernel {
    fn new(knobs: Knobs) -> Self {
        Self {
            rule: rule(),
            knobs,
            cap: None,
            allowed: true,
            now: 1_000,
            window: 0,
        }
    }

    fn ceiling(&self) -> u32 {
        self.cap.unwrap_or(self.knobs.halt_poll_ns)
    }

    /// Halts for so long; what changes meanwhile changes after the window was cut.
    fn halt_while(
        &mut self,
        halt_ns: u64,
        change: impl FnOnce(&mut Self),
    ) -> (Halt, Option<WindowChange>) {
        let start_ns = self.now;
        let window = self.rule.entry(self.window, self.ceiling());
        change(self);
        let observed = Observed {
            halt_ns,
            valid: true,
            allowed: self.allowed,
        };
        let ceiling = self.ceiling();
        let step = self.rule.after(&self.knobs, ceiling, window, observed);
        self.window = step.window;
        self.now = start_ns + halt_ns + 500;
        let polled = u64::from(self.allowed) * halt_ns.min(window.into());
        let halt = Halt {
            start_ns,
            halt_ns,
            vm: Some(VM),
            vcpu: Some(CPU),
            tid: TID,
            valid: true,
            window_ns: Some(window),
            window_next_ns: Some(step.window),
            ceiling_ns: Some(ceiling),
            ceiling_source: self
                .cap
                .map_or(CeilingSource::Param, |_| CeilingSource::Cap),
            change: step.call.into(),
            poll_ns: Some(polled),
            ..Halt::default()
        };
        let row = step.call.map(|call| call.row(&halt));
        (halt, row)
    }

    fn halt(&mut self, halt_ns: u64) -> (Halt, Option<WindowChange>) {
        self.halt_while(halt_ns, |_| {})
    }
}

fn verdicts(setup: Setup, rows: &[(Halt, Option<WindowChange>)]) -> (Vec<Verdict>, Tally) {
    let mut verifier = Verifier::new(setup);
    let verdicts = rows
        .iter()
        .map(|(halt, row)| verifier.halt(halt, row.as_ref()));
    (verdicts.collect(), verifier.tally().clone())
}

fn not_checked(tally: &Tally) -> u64 {
    tally.skipped.values().sum()
}

/// A kernel's halts of these lengths, the first of which says where the window stands.
fn halts(kernel: &mut Kernel, lengths: &[u64]) -> Vec<(Halt, Option<WindowChange>)> {
    lengths.iter().map(|ns| kernel.halt(*ns)).collect()
}

fn is_other(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Differs(_))
}

type Edit = fn(&mut Halt, &mut Option<WindowChange>);

const SKIPPED_FIRST: Verdict = Verdict::Skipped(Skip::First);

#[test]
fn every_kind_of_transition_matches_and_is_counted() {
    let mut kernel = Kernel::new(KNOBS);
    // From 0: 10, 20, 40, 80, 160, 320, cut to 200; a short and a long one; then the ceiling goes.
    let lengths = [50_000, 50_000, 50_000, 50_000, 100_000, 190_000];
    let mut rows = halts(&mut kernel, &lengths);
    rows.extend(halts(&mut kernel, &[100, 300_000]));
    let looks = (kernel.now, kernel.now + 100);
    kernel.knobs.halt_poll_ns = 0;
    kernel.now += 200;
    rows.extend(halts(&mut kernel, &[100, 100]));
    let mut setup = setup(Sight::Vcpu);
    let ceiling = setup.settings.track_mut(Parameter::HaltPollNs);
    ceiling.change(looks.0, looks.1, 0);
    let (verdicts, tally) = verdicts(setup, &rows);
    let mut expected = vec![Transition::Grow; 6];
    expected.extend([Transition::Silent, Transition::Shrink]);
    expected.extend([Transition::Silent, Transition::None]);
    let expected: Vec<_> = expected.into_iter().map(Verdict::Matched).collect();
    assert_eq!(verdicts, expected);
    let checked = &tally.checked;
    assert_eq!([tally.halts, checked.checked, checked.matched], [10; 3]);
    let counts = Transition::ALL.map(|it| tally.of(it).matched);
    assert_eq!(counts, [6, 1, 2, 1]);
    assert_eq!((not_checked(&tally), tally.differences()), (0, 0));
    assert_eq!(tally.several_settings, 1);
}

/// Where the ceiling rises while it halts, the same halt cuts and grows.
#[test]
fn a_window_that_is_cut_and_then_grows_counts_twice() {
    let mut kernel = Kernel::new(KNOBS);
    kernel.cap = Some(100_000);
    let mut rows = halts(&mut kernel, &[99_000; 5]);
    rows.push(kernel.halt_while(140_000, |kernel| kernel.cap = Some(150_000)));
    let (verdicts, tally) = verdicts(setup(Sight::Vcpu), &rows);
    assert_eq!(verdicts[5], Verdict::Matched(Transition::Grow));
    assert_eq!(tally.of(Transition::Silent).matched, 1);
    assert_eq!(tally.several_settings, 1);
}

#[test]
fn what_was_edited_differs_by_whichever_fact() {
    let mut kernel = Kernel::new(KNOBS);
    let rows = halts(&mut kernel, &[50_000, 50_000, 100, 300_000, 100]);
    let edits: [(usize, Edit); 9] = [
        (1, |_, row| row.as_mut().unwrap().new_ns += 1),
        (1, |_, row| row.as_mut().unwrap().old_ns += 1),
        (1, |halt, _| halt.window_next_ns = Some(1)),
        (1, |halt, _| halt.window_ns = Some(1)),
        (1, |halt, row| {
            halt.change = WindowCall::Shrink;
            row.as_mut().unwrap().grow = false;
        }),
        (1, |halt, row| {
            (halt.change, *row) = (WindowCall::None, None);
        }),
        (2, |halt, _| halt.change = WindowCall::Grow),
        (2, |halt, _| halt.window_next_ns = Some(0)),
        (3, |halt, _| halt.halt_ns = 200_000),
    ];
    for (number, (at, edit)) in edits.into_iter().enumerate() {
        let mut edited = rows.clone();
        let (halt, row) = &mut edited[at];
        edit(halt, row);
        let (verdicts, tally) = verdicts(setup(Sight::Vcpu), &edited);
        assert!(is_other(&verdicts[at]), "edit {number}: {verdicts:?}");
        assert!(tally.differences() >= 1, "edit {number}");
    }
    let (_, tally) = verdicts(setup(Sight::Vcpu), &rows);
    assert_eq!(tally.differences(), 0);
}

#[test]
fn a_difference_says_what_was_expected_and_found() {
    let mut kernel = Kernel::new(KNOBS);
    let mut rows = halts(&mut kernel, &[50_000, 50_000]);
    rows[1].0.window_next_ns = Some(30_000);
    rows[1].1.as_mut().unwrap().new_ns = 30_000;
    // The next halt starts from what was found.
    kernel.window = 30_000;
    rows.push(kernel.halt(50_000));
    let (verdicts, tally) = verdicts(setup(Sight::Vcpu), &rows);
    assert_eq!((tally.checked.checked, tally.differences()), (3, 1));
    let Verdict::Differs(difference) = &verdicts[1] else {
        panic!("{verdicts:?}");
    };
    let calls = [difference.expected.call, difference.found.call];
    let calls = calls.map(|call| call.map(|call| (call.grow, call.old, call.new)));
    assert_eq!(calls, [20_000, 30_000].map(|new| Some((true, 10_000, new))));
    let from = (difference.before_ns, difference.ceiling_ns);
    assert_eq!((from, difference.settings), ((10_000, 200_000), 1));
}

/// A call tells the window that its halt began with; a halt without one, and the first call of a
/// recording in which calls are all that is seen, does not.
#[test]
fn a_first_halt_is_checked_where_its_call_tells_the_window() {
    let mut kernel = Kernel::new(KNOBS);
    let rows = halts(&mut kernel, &[50_000, 15_000, 15_000]);
    let first = |sight, rows: &[_]| verdicts(setup(sight), rows).0[0].clone();
    let grew = Verdict::Matched(Transition::Grow);
    assert_eq!(first(Sight::Vcpu, &rows), grew);
    assert_eq!(first(Sight::Vcpu, &rows[1..]), grew);
    assert_eq!(first(Sight::Vcpu, &rows[2..]), SKIPPED_FIRST);
    assert_eq!(first(Sight::Calls, &rows), SKIPPED_FIRST);
    // The call of an earlier halt: one as short as this would have changed nothing.
    let mut wrong = rows;
    wrong[0].0.halt_ns = 0;
    assert!(is_other(&first(Sight::Vcpu, &wrong)));
}

/// Under a ceiling of 0 there is no window, from the first halt on and whatever is lost in between.
#[test]
fn under_a_ceiling_of_zero_every_halt_is_checked() {
    let mut zero = KNOBS;
    zero.halt_poll_ns = 0;
    for version in ["4.9", "5.10", "6.0", "6.12"] {
        let rule = Rule::of(version.parse().unwrap(), Arch::X86);
        for (sight, source, ceiling_ns) in [
            (Sight::Vcpu, CeilingSource::Param, Some(0)),
            (Sight::Calls, CeilingSource::Unknown, None),
            (Sight::Calls, CeilingSource::Param, Some(0)),
            (Sight::Vcpu, CeilingSource::Cap, Some(0)),
        ] {
            if source == CeilingSource::Cap && version == "4.9" {
                // No such capability yet.
                break;
            }
            let mut kernel = Kernel::new(zero);
            kernel.rule = rule;
            let mut rows = halts(&mut kernel, &[50_000, 100, 300_000, 0, 7_000]);
            for (halt, _) in &mut rows {
                (halt.ceiling_source, halt.ceiling_ns) = (source, ceiling_ns);
                if sight == Sight::Calls {
                    (halt.window_ns, halt.window_next_ns) = (None, None);
                }
            }
            // The module's value says nothing about the VM's own ceiling.
            let is_cap = source == CeilingSource::Cap;
            let mut setup = Setup {
                rule,
                settings: Settings::fixed(if is_cap { KNOBS } else { zero }),
                ..setup(sight)
            };
            let (start, end) = (rows[1].0.start_ns, rows[2].0.end_ns());
            setup.losses.add(start, end);
            let (verdicts, tally) = verdicts(setup, &rows);
            let expected = vec![Verdict::Matched(Transition::None); rows.len()];
            assert_eq!(verdicts, expected, "{version} {sight:?}");
            assert_eq!(tally.differences(), 0, "{version} {sight:?}");
        }
    }
}

/// A window that was recorded, or a call, is a difference under a ceiling of 0.
#[test]
fn polling_under_a_ceiling_of_zero_differs() {
    let mut kernel = Kernel::new(KNOBS);
    let mut rows = halts(&mut kernel, &[100, 50_000]);
    (rows[0].0.change, rows[0].1) = (WindowCall::None, None);
    let found = |sight, rows: &[_]| verdicts(capped(0, sight), rows).0;
    let both = found(Sight::Calls, &rows);
    assert_eq!(both[0], Verdict::Matched(Transition::None));
    assert!(is_other(&both[1]), "{both:?}");
    // The first call may be that of an earlier halt, made before the ceiling was set.
    assert_eq!(found(Sight::Calls, &rows[1..]), [SKIPPED_FIRST]);
    let mut halt = rows[1].0;
    halt.change = WindowCall::None;
    (halt.window_ns, halt.window_next_ns) = (Some(0), Some(10_000));
    assert!(is_other(&found(Sight::Vcpu, &[(halt, None)])[0]));
}

#[test]
fn between_two_looks_a_halt_follows_no_setting_that_never_was() {
    let mut kernel = Kernel::new(KNOBS);
    let mut rows = halts(&mut kernel, &[50_000]);
    kernel.knobs.grow = 4;
    rows.push(kernel.halt(50_000));
    let mut setup = setup(Sight::Vcpu);
    let grow = setup.settings.track_mut(Parameter::Grow);
    grow.change(0, u64::MAX, 3);
    assert_eq!(verdicts(setup, &rows).1.differences(), 1);
}

#[test]
fn settings_that_change_too_often_since_the_last_halt_are_not_tried() {
    let mut kernel = Kernel::new(KNOBS);
    let mut rows = halts(&mut kernel, &[50_000]);
    kernel.now += 10_000_000;
    rows.push(kernel.halt(50_000));
    let mut setup = setup(Sight::Vcpu);
    for round in 0..20 {
        let at = 1_000_000 + 10_000 * u64::from(round);
        for parameter in [Parameter::Grow, Parameter::GrowStart, Parameter::Shrink] {
            let track = setup.settings.track_mut(parameter);
            track.change(at, at + 1, round + 3);
        }
    }
    let (verdicts, _) = verdicts(setup, &rows);
    assert_eq!(verdicts[1], Verdict::Skipped(Skip::Settings));
}

#[test]
fn after_a_loss_the_first_halt_is_not_checked() {
    let mut kernel = Kernel::new(KNOBS);
    let mut rows = halts(&mut kernel, &[50_000, 50_000]);
    // Lost: two halts.
    let lost = (kernel.now, kernel.now + 120_000);
    halts(&mut kernel, &[50_000, 50_000]);
    rows.extend(halts(&mut kernel, &[90_000, 90_000]));
    assert!(verdicts(setup(Sight::Vcpu), &rows).1.differences() > 0);
    let mut setup = setup(Sight::Vcpu);
    setup.losses.add(lost.0, lost.1);
    let (verdicts, tally) = verdicts(setup, &rows);
    assert_eq!(verdicts[2], Verdict::Skipped(Skip::Loss));
    assert_eq!(verdicts[3], Verdict::Matched(Transition::None));
    assert_eq!((not_checked(&tally), tally.skipped[&Skip::Loss]), (1, 1));
}

#[test]
fn halts_out_of_order_and_a_clock_that_steps_are_not_checked() {
    let mut kernel = Kernel::new(KNOBS);
    let mut rows = halts(&mut kernel, &[50_000, 50_000, 50_000, 50_000, 90_000]);
    rows.swap(1, 2);
    let (verdicts, _) = verdicts(setup(Sight::Vcpu), &rows);
    // The one that comes early differs, for its window is not the one left before it.
    assert!(is_other(&verdicts[1]));
    let skipped = [const { Verdict::Skipped(Skip::OutOfOrder) }; 2];
    assert_eq!(verdicts[2..4], skipped);
    assert_eq!(verdicts[4], Verdict::Matched(Transition::Grow));
}

#[test]
fn halts_that_nothing_is_known_of_are_not_checked() {
    let mut kernel = Kernel::new(KNOBS);
    let mut rows = halts(&mut kernel, &[50_000, 50_000, 50_000]);
    rows[1].0.vm = None;
    let (verdicts, _) = verdicts(setup(Sight::Vcpu), &rows);
    assert_eq!(verdicts[1], Verdict::Skipped(Skip::Unplaced));
    rows[1].0.vm = Some(VM);
    (rows[1].0.window_ns, rows[1].1) = (None, None);
    let (verdicts, _) = self::verdicts(setup(Sight::Vcpu), &rows);
    assert_eq!(verdicts[1..], [const { Verdict::Skipped(Skip::Window) }; 2]);
    // Another vCPU in the same thread begins anew.
    rows[1].0.vcpu = Some(VcpuId(1));
    let (verdicts, _) = self::verdicts(setup(Sight::Vcpu), &rows);
    assert_eq!(verdicts[1], SKIPPED_FIRST);
}

#[test]
fn a_vcpu_that_may_not_poll_is_known_by_its_polls_or_by_who_looked() {
    let mut kernel = Kernel::new(KNOBS);
    let mut rows = halts(&mut kernel, &[50_000, 50_000, 90_000]);
    kernel.allowed = false;
    rows.extend(halts(&mut kernel, &[150_000, 300_000]));
    // It polled for 0 ns with a window of 40 us.
    let (found, tally) = verdicts(setup(Sight::Vcpu), &rows);
    let stays = [const { Verdict::Matched(Transition::None) }; 2];
    assert_eq!(found[3..], stays);
    assert_eq!((tally.differences(), tally.vetoed), (0, 2));
    // Such a window must stay, to the nanosecond.
    let mut moved = rows.clone();
    moved[4].0.window_next_ns = Some(39_999);
    assert_eq!(verdicts(setup(Sight::Vcpu), &moved).1.differences(), 1);
    // On s390 no recording shows why.
    let s390 = Setup {
        rule: Rule::of(Version::new(6, 12), Arch::S390),
        arch: Arch::S390,
        ..setup(Sight::Calls)
    };
    let mut untold = rows.clone();
    for (halt, row) in &mut untold {
        if row.is_none() {
            (halt.window_ns, halt.window_next_ns) = (None, None);
        }
    }
    let (found, _) = verdicts(s390, &untold);
    assert_eq!(found[3..], [const { Verdict::Skipped(Skip::Veto) }; 2]);
    // With a window of 0 only the guest's own word tells.
    let mut kernel = Kernel::new(KNOBS);
    kernel.allowed = false;
    let rows = halts(&mut kernel, &[50_000, 50_000]);
    let (found, tally) = verdicts(setup(Sight::Vcpu), &rows);
    assert!(matches!(&found[1], Verdict::Differs(it) if it.as_if_vetoed));
    assert_eq!(tally.as_if_vetoed, 1);
    let mut setup = setup(Sight::Vcpu);
    setup.vetoed.insert((VM, CPU));
    let (found, tally) = verdicts(setup, &rows);
    assert_eq!(found[1], Verdict::Matched(Transition::None));
    assert_eq!((tally.vetoed, not_checked(&tally)), (1, 1));
}

#[test]
fn where_only_calls_are_seen_a_silent_change_shows_at_the_next_call() {
    let mut kernel = Kernel::new(KNOBS);
    kernel.window = 160_000;
    let mut rows = halts(&mut kernel, &[190_000, 100, 100, 300_000]);
    for (halt, row) in &mut rows {
        (halt.ceiling_ns, halt.ceiling_source) = (None, CeilingSource::Unknown);
        if row.is_none() {
            // Windows that a decoder derives for such a halt are no evidence.
            (halt.window_ns, halt.window_next_ns) = (Some(1), Some(1));
        }
    }
    let (found, tally) = verdicts(setup(Sight::Calls), &rows);
    let expected = [Transition::Silent, Transition::None, Transition::Shrink];
    assert_eq!(found[1..], expected.map(Verdict::Matched));
    assert_eq!(tally.differences(), 0);
    let (halt, row) = &mut rows[3];
    let row = row.as_mut().unwrap();
    (row.old_ns, row.new_ns) = (100_000, 50_000);
    (halt.window_ns, halt.window_next_ns) = (Some(100_000), Some(50_000));
    assert_eq!(verdicts(setup(Sight::Calls), &rows).1.differences(), 1);
}

#[test]
fn a_told_cap_takes_the_place_of_what_was_recorded() {
    let mut kernel = Kernel::new(KNOBS);
    kernel.cap = Some(50_000);
    let mut rows = halts(&mut kernel, &[20_000, 45_000, 45_000, 60_000]);
    for (halt, _) in &mut rows {
        (halt.ceiling_ns, halt.ceiling_source) = (None, CeilingSource::Unknown);
    }
    assert!(verdicts(setup(Sight::Calls), &rows).1.differences() > 0);
    let (_, tally) = verdicts(capped(50_000, Sight::Calls), &rows);
    assert_eq!((tally.checked.checked, tally.differences()), (3, 0));
}

fn knob() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1..20_u32, 1..400_000_u32, any::<u32>()]
}

prop_compose! {
    fn knobs()(halt_poll_ns in knob(), grow in 0..4_u32, grow_start in knob(), shrink in 0..4_u32) -> Knobs {
        Knobs { halt_poll_ns, grow, grow_start, shrink }
    }
}

/// Events that may happen before a halt, beside the length of the halt.
#[derive(Debug, Clone)]
enum Turn {
    Halt(u64),
    Knobs(Knobs),
    Cap(u32),
    Look,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        16 => prop_oneof![0..100_u64, 0..500_000_u64].prop_map(Turn::Halt),
        1 => knobs().prop_map(Turn::Knobs),
        1 => knob().prop_map(Turn::Cap),
        4 => Just(Turn::Look),
    ];
    prop::collection::vec(turn, 1..120)
}

/// Plays the turns. Parameters change at most once between two looks: a value that no look saw is not known.
fn play(first: Knobs, turns: &[Turn]) -> (Settings, Vec<(Halt, Option<WindowChange>)>) {
    let mut kernel = Kernel::new(first);
    let mut settings = Settings::fixed(first);
    let (mut looked, mut changed) = (0, false);
    let mut rows = Vec::new();
    let mut cap_since_halt = false;
    // The last look sees what was changed.
    for turn in turns.iter().chain([&Turn::Look]) {
        kernel.now += 10;
        match turn {
            Turn::Halt(ns) => {
                rows.push(kernel.halt(*ns));
                cap_since_halt = false;
            }
            Turn::Knobs(knobs) if !changed => (kernel.knobs, changed) = (*knobs, true),
            Turn::Cap(cap) if !cap_since_halt => {
                (kernel.cap, cap_since_halt) = (Some(*cap), true);
            }
            Turn::Look => {
                for (parameter, value) in Values::from(kernel.knobs).iter() {
                    let track = settings.track_mut(parameter);
                    track.change(looked, kernel.now, value);
                }
                (looked, changed) = (kernel.now, false);
            }
            Turn::Knobs(_) | Turn::Cap(_) => {}
        }
    }
    (settings, rows)
}

proptest! {
    /// Whatever the settings and however they change, what the rule did is never called a difference.
    #[test]
    fn the_rules_own_halts_match(first in knobs(), turns in turns()) {
        let (settings, rows) = play(first, &turns);
        for sight in [Sight::Vcpu, Sight::Calls] {
            let setup = Setup { settings: settings.clone(), ..setup(sight) };
            let (found, tally) = verdicts(setup, &rows);
            prop_assert_eq!(tally.differences(), 0, "{:?} {:?}", sight, found);
            prop_assert_eq!(tally.checked.checked + not_checked(&tally), tally.halts);
            // All is known but what a first without a call started from, unless the ceiling was 0, and
            // mixtures that are too many.
            if sight == Sight::Vcpu {
                let of = |why| tally.skipped.get(&why).copied().unwrap_or(0);
                let untold = rows.first().is_some_and(|(_, call)| call.is_none());
                prop_assert!(of(Skip::First) <= u64::from(untold));
                prop_assert_eq!(not_checked(&tally), of(Skip::Settings) + of(Skip::First));
            }
        }
    }

    /// For a vCPU whose guest is known to have disabled host polling, every halt but the first is checked
    /// and counted as such, whatever their lengths and wherever its window stood.
    #[test]
    fn halts_that_may_not_poll_are_counted_alike(
        window in prop_oneof![Just(0), 0..400_000_u32],
        lengths in prop::collection::vec(0..500_000_u64, 1..60),
    ) {
        let mut kernel = Kernel::new(KNOBS);
        kernel.allowed = false;
        kernel.window = window;
        let rows = halts(&mut kernel, &lengths);
        let mut setup = setup(Sight::Vcpu);
        setup.vetoed.insert((VM, CPU));
        let (_, tally) = verdicts(setup, &rows);
        let rest = lengths.len() as u64 - 1;
        prop_assert_eq!((tally.checked.matched, tally.vetoed), (rest, rest));
        prop_assert_eq!(tally.skipped.get(&Skip::First), Some(&1));
    }

    /// Under settings that stay, no window can be changed by a nanosecond without a difference.
    #[test]
    fn a_nanosecond_is_a_difference(
        first in knobs(),
        lengths in prop::collection::vec(0..500_000_u64, 2..40),
        at in any::<prop::sample::Index>(),
        up in any::<bool>(),
    ) {
        let mut kernel = Kernel::new(first);
        let mut rows = halts(&mut kernel, &lengths);
        let at = 1 + at.index(rows.len() - 1);
        let next = rows[at].0.window_next_ns.unwrap();
        let next = if up { next.wrapping_add(1) } else { next.wrapping_sub(1) };
        rows[at].0.window_next_ns = Some(next);
        let setup = Setup { settings: Settings::fixed(first), ..setup(Sight::Vcpu) };
        let (found, _) = verdicts(setup, &rows);
        prop_assert!(is_other(&found[at]), "{:?}", found);
    }

    /// Any rows at all: no panic, and every halt is counted once.
    #[test]
    fn every_halt_is_counted_once(
        raw in prop::collection::vec((any::<[u64; 2]>(), any::<[u32; 4]>(), 0..3_u8), 0..60),
        sight in prop_oneof![Just(Sight::Vcpu), Just(Sight::Calls)],
    ) {
        let mut verifier = Verifier::new(setup(sight));
        for ([start_ns, halt_ns], [tid, window, next, ceiling], change) in raw.iter().copied() {
            let halt = Halt {
                start_ns,
                halt_ns,
                vm: (tid % 5 > 0).then_some(VM),
                vcpu: Some(VcpuId(tid % 2)),
                tid: Tid(tid % 3),
                window_ns: (window % 3 > 0).then_some(window),
                window_next_ns: (next % 3 > 0).then_some(next),
                ceiling_ns: (ceiling % 3 > 0).then_some(ceiling),
                change: WindowCall::ALL[usize::from(change)],
                ..Halt::default()
            };
            verifier.halt(&halt, None);
        }
        let tally = verifier.tally().clone();
        prop_assert_eq!(tally.halts, raw.len() as u64);
        prop_assert_eq!(tally.checked.checked + not_checked(&tally), tally.halts);
    }
}
