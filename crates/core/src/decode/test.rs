//! The decoder against halts made up by KVM's own rule, whose answers are known exactly.

use proptest::prelude::*;

use super::*;
use crate::event::{CeilingSource, WindowCall};
use crate::fuzz::must_be_sound;
use crate::kvm::{Arch, Call, Knobs, Observed, Rule, Version};

const TID: Tid = Tid(7);
const MAX: u32 = 200_000;

/// One vCPU under the rule of 6.1 and later, with grow 2 and shrink 2, and the events of each halt.
struct Kvm {
    now: u64,
    window: u32,
    ceiling: u32,
    /// How long the thread is held up between a call of grow or shrink and the wake-up that follows,
    /// taken from the end; nothing where it is empty.
    held_up: Vec<u64>,
    events: Vec<Event>,
}

#[derive(Debug, PartialEq)]
struct Truth {
    halt_ns: u64,
    waited: bool,
    window_ns: u32,
    poll_ns: u64,
    wake_latency_ns: u64,
    poll_cut: bool,
}

impl Kvm {
    fn new(ceiling: u32) -> Self {
        Self {
            now: 1_000_000,
            window: 0,
            ceiling,
            held_up: Vec::new(),
            events: Vec::new(),
        }
    }

    fn emit(&mut self, time_ns: u64, what: What) {
        self.events.push(Event { time_ns, what });
    }

    /// Halts, is woken after `gap` and runs `latency` later; another task comes at `cut_at`.
    fn halt(&mut self, gap: u64, latency: u64, cut_at: Option<u64>) -> Truth {
        let start = self.now;
        self.window = self.window.min(self.ceiling);
        let window = u64::from(self.window);
        let poll_end = cut_at.map_or(window, |cut| cut.min(window));
        let waited = gap > poll_end;
        let truth = Truth {
            halt_ns: if waited { gap + latency } else { gap },
            waited,
            window_ns: self.window,
            poll_ns: if waited { poll_end } else { gap },
            wake_latency_ns: if waited { latency } else { 0 },
            poll_cut: waited && poll_end < window,
        };
        if waited {
            self.emit(start + poll_end, What::Slept { tid: TID });
            let source = WakeSource::Timer;
            self.emit(start + gap, What::Waking { tid: TID, source });
        }
        let end = start + truth.halt_ns;
        let told = self.events.len();
        self.rule(end, truth.halt_ns);
        let called = self.events.len() > told;
        let held_up = called.then(|| self.held_up.pop()).flatten().unwrap_or(0);
        self.emit(end + 300 + held_up, wakeup(TID, truth.halt_ns, waited));
        self.now = end + 3_000 + held_up;
        truth
    }

    fn rule(&mut self, end: u64, halt_ns: u64) {
        let version = Version::new(6, 12);
        let (rule, knobs) = (
            Rule::of(version, Arch::X86),
            Knobs::defaults(version, Arch::X86),
        );
        let observed = Observed::valid(halt_ns);
        let step = rule.after(&knobs, self.ceiling, self.window, observed);
        self.window = step.window;
        if let Some(Call { grow, old, new }) = step.call {
            self.emit(end, called(TID, grow, old, new));
        }
    }
}

fn called(tid: Tid, grow: bool, old: u32, new: u32) -> What {
    let vcpu = VcpuId(3);
    What::HaltPollNs {
        tid,
        vcpu,
        grow,
        old,
        new,
    }
}

fn wakeup(tid: Tid, ns: u64, waited: bool) -> What {
    What::VcpuWakeup {
        tid,
        ns,
        waited,
        valid: true,
        latency_ns: None,
    }
}

fn decoder(param: u32) -> Decoder {
    let mut decoder = Decoder::new(Clamp::AtEntry);
    decoder.set_param(Some(param));
    decoder.watch(TID, 0);
    decoder
}

fn halts(decoder: &mut Decoder, events: &[Event]) -> Vec<Halt> {
    let facts = events.iter().filter_map(|event| decoder.push(event));
    let halt = |fact| match fact {
        Fact::Halt(halt) => Some(halt),
        Fact::Window(_) => None,
    };
    facts.filter_map(halt).collect()
}

proptest! {
    /// Whatever the gaps, once a window was seen all of a halt is known, and right.
    #[test]
    fn halts_come_out_as_they_were(
        gaps in prop::collection::vec((0..400_000_u64, 1_000..60_000_u64, prop::option::of(20_000..190_000_u64)), 1..80),
        ceiling in prop_oneof![Just(MAX), 30_000..MAX],
    ) {
        let mut kvm = Kvm::new(ceiling);
        let truths: Vec<Truth> = gaps.iter().map(|&(gap, latency, cut)| kvm.halt(gap, latency, cut)).collect();
        let got = halts(&mut decoder(ceiling), &kvm.events);
        prop_assert_eq!(got.len(), truths.len());
        let mut known = false;
        for (halt, truth) in got.iter().zip(&truths) {
            prop_assert_eq!((halt.halt_ns, halt.waited), (truth.halt_ns, truth.waited));
            // The end is known to 300 ns: that much later comes the event, but within its halt.
            let late = halt.wake_latency_ns.unwrap() - truth.wake_latency_ns;
            let latest = 300.min(truth.halt_ns - truth.wake_latency_ns);
            prop_assert!(late == 0 || (late == latest && truth.waited));
            known |= halt.change != WindowCall::None;
            prop_assert_eq!(halt.window_ns, known.then_some(truth.window_ns));
            // So is the start, and a cut so close to the window's end is not called one.
            let poll = halt.poll_ns.unwrap();
            prop_assert!(poll.abs_diff(truth.poll_ns) <= 2_300, "{:?} for {:?}", halt, truth);
            if halt.poll_cut.is_some_and(|cut| cut != truth.poll_cut) {
                prop_assert!(u64::from(truth.window_ns) - truth.poll_ns <= 2_300);
            }
            let told = [WakeSource::Unknown, WakeSource::Timer];
            prop_assert_eq!(halt.wake, told[usize::from(truth.waited)]);
        }
    }

    /// A delay between a halt's call and its wake-up, however long, changes nothing of any halt but
    /// when the later ones begin.
    #[test]
    fn time_lost_between_call_and_wake_up_changes_nothing(
        gaps in prop::collection::vec((0..400_000_u64, 1_000..60_000_u64, prop::option::of(20_000..190_000_u64)), 1..60),
        delays in prop::collection::vec(prop_oneof![0..10_000_u64, 0..u64::from(u32::MAX)], 60),
        ceiling in prop_oneof![Just(MAX), 30_000..MAX],
    ) {
        let (mut smooth, mut held_up) = (Kvm::new(ceiling), Kvm::new(ceiling));
        held_up.held_up = delays;
        let mut later = Vec::new();
        for (gap, latency, cut) in gaps {
            later.push(held_up.now - smooth.now);
            smooth.halt(gap, latency, cut);
            held_up.halt(gap, latency, cut);
        }
        let expected = halts(&mut decoder(ceiling), &smooth.events);
        let got = halts(&mut decoder(ceiling), &held_up.events);
        prop_assert_eq!(got.len(), expected.len());
        for ((expected, got), later) in expected.into_iter().zip(got).zip(later) {
            let start_ns = expected.start_ns + later;
            prop_assert_eq!(got, Halt { start_ns, ..expected });
        }
    }

    /// Events in any order, lost or made up, threads that come and go, ceilings that change: no panic, and for every
    /// wake-up a halt that does not contradict itself.
    #[test]
    fn no_events_make_a_halt_contradict_itself(
        mut time_ns in any::<u64>(),
        steps in prop::collection::vec((any_ns(), any_what(), 0..40_u32), 0..200),
    ) {
        let mut decoder = decoder(MAX);
        for (wait_ns, what, turn) in steps {
            time_ns = time_ns.saturating_add(wait_ns);
            match turn {
                0 => decoder.forget(TID),
                1 => decoder.watch(TID, time_ns),
                2..4 => decoder.set_param((turn == 2).then_some(30_000)),
                _ => {}
            }
            let halts = halts(&mut decoder, &[Event { time_ns, what }]);
            for halt in &halts {
                must_be_sound(halt, time_ns);
            }
            prop_assert_eq!(halts.len(), usize::from(matches!(what, What::VcpuWakeup { .. })));
        }
    }
}

fn any_ns() -> impl Strategy<Value = u64> {
    prop_oneof![0..5_000_u64, 0..100_000_u64]
}

fn any_what() -> impl Strategy<Value = What> {
    let tid = || prop_oneof![Just(TID), Just(Tid(8))];
    let window = || (0..8_u32).prop_map(|steps| steps * 10_000);
    let source = WakeSource::Ipi;
    let ns = prop_oneof![9 => any_ns(), 1 => any::<u64>()];
    prop_oneof![
        (tid(), ns, any::<bool>()).prop_map(|(tid, ns, waited)| wakeup(tid, ns, waited)),
        (tid(), window(), window(), any::<bool>())
            .prop_map(|(tid, old, new, grow)| called(tid, grow, old, new)),
        tid().prop_map(move |tid| What::Waking { tid, source }),
        tid().prop_map(|tid| What::Slept { tid }),
        Just(What::Gap),
    ]
}

/// Without the scheduler's events a failed poll is as long as its window at most, and without windows
/// a halt that never slept polled all the time.
#[test]
fn polls_are_told_by_windows_or_by_the_wake_up_alone() {
    let mut kvm = Kvm::new(MAX);
    for gap in [30_000, 70_000, 90_000, 15_000, 500] {
        kvm.halt(gap, 5_000, Some(5_000).filter(|_| gap == 90_000));
    }
    let told = |kinds: fn(&What) -> bool| {
        let mut decoder = Decoder::new(Clamp::AtEntry);
        let events = kvm.events.iter().filter(|event| kinds(&event.what));
        let halts = halts(&mut decoder, &events.copied().collect::<Vec<_>>());
        let polls = halts.iter().map(|halt| (halt.poll_ns, halt.poll_cut));
        polls.collect::<Vec<_>>()
    };
    let (sure, open) = (Some(false), None);
    let of_kvm = |what: &What| matches!(what, What::VcpuWakeup { .. } | What::HaltPollNs { .. });
    let ns = [0, 10_000, 20_000, 15_000, 500].map(Some);
    let polls: Vec<_> = ns.into_iter().zip([sure, open, open, sure, sure]).collect();
    assert_eq!(told(of_kvm), polls);
    let alone = |what: &What| matches!(what, What::VcpuWakeup { .. });
    let unknown = (None, open);
    let known = [(Some(15_000), sure), (Some(0), sure)];
    assert_eq!(told(alone), [&[unknown; 3][..], &known].concat());
}

#[test]
fn a_clamp_shows_a_ceiling_of_the_vms_own() {
    // The module allows 200 us, the VM 50 us: the window goes 10, 20, 40, 80 and back to 50.
    let mut kvm = Kvm::new(50_000);
    for _ in 0..4 {
        kvm.halt(45_000, 1_000, None);
    }
    kvm.halt(60_000, 1_000, None);
    kvm.halt(20_000, 1_000, None);
    let got = halts(&mut decoder(MAX), &kvm.events);
    assert_eq!((got[3].window_ns, got[3].ceiling_ns), (Some(40_000), None));
    let found = (got[4].window_ns, got[4].ceiling_ns);
    assert_eq!(found, (Some(50_000), Some(50_000)));
    let found = (got[5].window_ns, got[5].poll_ns);
    assert_eq!(found, (Some(25_000), Some(20_000)));
}

#[test]
fn before_a_thread_is_watched_its_sleep_is_unknown_and_not_zero() {
    let mut kvm = Kvm::new(MAX);
    kvm.halt(30_000, 5_000, None);
    kvm.halt(30_000, 5_000, None);
    let mut decoder = decoder(MAX);
    decoder.forget(TID);
    decoder.watch(TID, kvm.now);
    let hidden = |e: &&Event| !matches!(e.what, What::Slept { .. } | What::Waking { .. });
    let events: Vec<Event> = kvm.events.iter().filter(hidden).copied().collect();
    let halt = halts(&mut decoder, &events)[1];
    assert_eq!(halt.window_ns, Some(10_000));
    assert_eq!((halt.poll_ns, halt.poll_cut), (Some(10_000), None));
    assert_eq!((halt.wake_latency_ns, halt.gap_ns()), (None, None));
}

#[test]
fn after_a_gap_nothing_old_is_believed() {
    let mut kvm = Kvm::new(MAX);
    for _ in 0..6 {
        kvm.halt(100_000, 5_000, None);
    }
    let last = kvm.events.len();
    kvm.emit(kvm.now, What::Gap);
    kvm.now += 1;
    kvm.halt(50_000, 5_000, None);
    let mut decoder = decoder(MAX);
    let before = halts(&mut decoder, &kvm.events[..last]);
    assert_eq!(before[before.len() - 1].window_ns, Some(160_000));
    let after = halts(&mut decoder, &kvm.events[last..])[0];
    assert_eq!((after.window_ns, after.poll_ns), (None, Some(50_000)));
    assert_eq!((after.halt_ns, after.wake_latency_ns), (50_000, Some(0)));
}

const CALLED_NS: u64 = 100_000_000;

/// The call of a halt, other events, and a wake-up 800 us later than the call.
fn late(halt_ns: u64, waited: bool, between: &[(u64, What)]) -> Halt {
    let first = [(CALLED_NS, called(TID, true, 0, 10_000))];
    let last = [(CALLED_NS + 800_000, wakeup(TID, halt_ns, waited))];
    let events = [&first[..], between, &last].concat().into_iter();
    let events = events.map(|(time_ns, what)| Event { time_ns, what });
    halts(&mut decoder(MAX), &events.collect::<Vec<_>>())[0]
}

/// Seen on 5.10, 6.1 and 6.12: an interrupt, another task or the host's own hypervisor takes the CPU
/// between the two events of a halt, for microseconds or milliseconds, and with or without a switch
/// that is recorded.
#[test]
fn a_call_belongs_to_the_next_wake_up_of_its_thread() {
    let source = WakeSource::Timer;
    let woken = What::Waking { tid: TID, source };
    let others = Tid(8);
    let of_another = [
        (CALLED_NS + 200_000, What::Slept { tid: others }),
        (CALLED_NS + 300_000, What::ThreadGap { tid: others }),
    ];
    for (halt_ns, waited) in [
        (0, false),
        (2_250, false),
        (60_000, true),
        (5_000_000, true),
    ] {
        for between in [
            &[][..],
            // Clocks of two CPUs may differ by more than a wake-up takes.
            &[(CALLED_NS + 100, woken)],
            &of_another,
        ] {
            let halt = late(halt_ns, waited, between);
            let told = (halt.change, halt.window_ns, halt.window_next_ns);
            let expected = (WindowCall::Grow, Some(0), Some(10_000));
            assert_eq!(told, expected, "{halt_ns} {between:?}");
            assert_eq!((halt.halt_ns, halt.end_ns()), (halt_ns, CALLED_NS));
        }
    }
}

#[test]
fn a_call_whose_own_wake_up_is_missing_belongs_to_no_other() {
    let slept = What::Slept { tid: TID };
    for between in [What::Gap, What::ThreadGap { tid: TID }] {
        let halt = late(5_000, false, &[(CALLED_NS + 100_000, between)]);
        assert_eq!((halt.change, halt.window_ns), (WindowCall::None, None));
        assert_eq!(halt.end_ns(), CALLED_NS + 800_000);
    }
    // Nothing sleeps between the two events of one halt.
    let halt = late(5_000, false, &[(CALLED_NS + 200_000, slept)]);
    let told = (halt.change, halt.window_ns, halt.end_ns());
    assert_eq!(told, (WindowCall::None, Some(10_000), CALLED_NS + 800_000));
}

#[test]
fn a_gap_in_one_threads_events_leaves_the_others_alone() {
    const OTHER: Tid = Tid(8);
    let mut kvm = Kvm::new(MAX);
    for _ in 0..3 {
        kvm.halt(30_000, 5_000, None);
    }
    for (gap, window) in [(TID, None), (OTHER, Some(40_000))] {
        let mut decoder = decoder(MAX);
        halts(&mut decoder, &kvm.events);
        let time_ns = kvm.now;
        let gap = What::ThreadGap { tid: gap };
        let events = [gap, wakeup(TID, 5_000, false)].map(|what| Event { time_ns, what });
        assert_eq!(halts(&mut decoder, &events)[0].window_ns, window);
    }
}

/// KVM's own latency goes before that of `sched_waking`; 0 is not known.
#[test]
fn a_told_latency_goes_first() {
    for (told_ns, latency_ns) in [
        (Some(9_000), Some(9_000)),
        (Some(0), None),
        (None, Some(20_000)),
    ] {
        let mut decoder = decoder(MAX);
        decoder.watch(TID, 0);
        let (tid, source) = (TID, WakeSource::Device);
        let mut woken = wakeup(TID, 50_000, true);
        if let What::VcpuWakeup { latency_ns, .. } = &mut woken {
            *latency_ns = told_ns;
        }
        let events = [(80_000, What::Waking { tid, source }), (100_000, woken)];
        let events = events.map(|(time_ns, what)| Event { time_ns, what });
        assert_eq!(halts(&mut decoder, &events)[0].wake_latency_ns, latency_ns);
    }
}

/// A told ceiling of 0: KVM leaves a window of 0 without a word, and since 6.1 begins with one too.
#[test]
fn under_a_told_ceiling_of_zero_windows_are_known_from_the_start() {
    let mut kvm = Kvm::new(0);
    for gap in [30_000, 0, 400_000] {
        kvm.halt(gap, 5_000, None);
    }
    let told = Ceiling {
        ns: 0,
        source: CeilingSource::Param,
    };
    for clamp in [Clamp::AtEntry, Clamp::Never] {
        let mut decoder = Decoder::new(clamp);
        decoder.tell_ceiling(told);
        let got = halts(&mut decoder, &kvm.events);
        let windows: Vec<_> = got.iter().map(|it| (it.window_ns, it.poll_ns)).collect();
        let known = (Some(0), Some(0));
        let first = [known, (None, None)][usize::from(clamp == Clamp::Never)];
        assert_eq!(windows, [first, known, known]);
        let after = |it: &Halt| [it.window_next_ns, it.ceiling_ns];
        assert!(got.iter().all(|it| after(it) == [Some(0); 2]));
    }
    // Observed windows take precedence over a told ceiling.
    let mut kvm = Kvm::new(MAX);
    for _ in 0..3 {
        kvm.halt(30_000, 5_000, None);
    }
    kvm.halt(100, 0, None);
    let mut decoder = decoder(0);
    decoder.tell_ceiling(told);
    let last = halts(&mut decoder, &kvm.events)[3];
    assert_eq!((last.change, last.ceiling_ns), (WindowCall::None, None));
}
