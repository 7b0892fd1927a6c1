//! The decoder against halts made up by KVM's own rule, whose answers are known exactly.

use proptest::prelude::*;

use super::*;
use crate::event::WindowCall;

const TID: Tid = Tid(7);
const MAX: u32 = 200_000;
const GROW_START: u32 = 10_000;

/// One vCPU under the rule of 6.1 and later, with grow 2 and shrink 2, and the events of each halt.
struct Kvm {
    now: u64,
    window: u32,
    ceiling: u32,
    events: Vec<Event>,
}

/// What really happened in a halt.
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
        self.rule(end, truth.halt_ns);
        self.emit(
            end + 300,
            What::VcpuWakeup {
                tid: TID,
                ns: truth.halt_ns,
                waited,
                valid: true,
            },
        );
        self.now = end + 3_000;
        truth
    }

    fn rule(&mut self, end: u64, halt_ns: u64) {
        let (old, max) = (self.window, u64::from(self.ceiling));
        let grow = if self.ceiling == 0 {
            self.window = 0;
            return;
        } else if halt_ns <= u64::from(old) {
            return;
        } else if old > 0 && halt_ns > max {
            let shrunk = old / 2;
            self.window = if shrunk < GROW_START { 0 } else { shrunk };
            false
        } else if old < self.ceiling && halt_ns < max {
            self.window = (old * 2).max(GROW_START);
            true
        } else {
            return;
        };
        let new = self.window;
        self.emit(
            end,
            What::HaltPollNs {
                tid: TID,
                vcpu: VcpuId(3),
                grow,
                old,
                new,
            },
        );
    }
}

fn decoder(param: u32) -> Decoder {
    let mut decoder = Decoder::new(Rules {
        clamps_at_entry: true,
    });
    decoder.set_param(Some(param));
    decoder.watch(TID, 0);
    decoder
}

fn halts(decoder: &mut Decoder, events: &[Event]) -> Vec<Halt> {
    let facts = events.iter().filter_map(|event| decoder.push(event));
    facts
        .filter_map(|fact| match fact {
            Fact::Halt(halt) => Some(halt),
            Fact::Window(_) => None,
        })
        .collect()
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
            if !known {
                prop_assert_eq!((halt.window_ns, halt.poll_ns), (None, None));
                continue;
            }
            prop_assert_eq!(halt.window_ns, Some(truth.window_ns));
            // So is the start, and a cut so close to the window's end is not called one.
            let poll = halt.poll_ns.unwrap();
            prop_assert!(poll.abs_diff(truth.poll_ns) <= 2_300, "{:?} for {:?}", halt, truth);
            if halt.poll_cut != truth.poll_cut {
                prop_assert!(u64::from(truth.window_ns) - truth.poll_ns <= 2_300);
            }
            let told = [WakeSource::Unknown, WakeSource::Timer];
            prop_assert_eq!(halt.wake, told[usize::from(truth.waited)]);
        }
    }

    /// Events in any order, lost or made up: no panic, and a halt for every wake-up.
    #[test]
    fn no_events_make_it_panic(events in prop::collection::vec(any_event(), 0..200)) {
        let wakeups = events.iter().filter(|e| matches!(e.what, What::VcpuWakeup { .. })).count();
        prop_assert_eq!(halts(&mut decoder(MAX), &events).len(), wakeups);
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let tid = (0..4_u32).prop_map(Tid);
    let what = prop_oneof![
        (tid.clone(), any::<u64>(), any::<bool>()).prop_map(|(tid, ns, waited)| {
            What::VcpuWakeup {
                tid,
                ns,
                waited,
                valid: true,
            }
        }),
        (tid.clone(), any::<u32>(), any::<u32>(), any::<bool>()).prop_map(
            |(tid, old, new, grow)| What::HaltPollNs {
                tid,
                vcpu: VcpuId(0),
                grow,
                old,
                new
            }
        ),
        tid.clone().prop_map(|tid| What::Waking {
            tid,
            source: WakeSource::Ipi
        }),
        tid.clone().prop_map(|tid| What::Slept { tid }),
        tid.prop_map(|tid| What::PutAside { tid }),
        Just(What::Gap),
    ];
    (any::<u64>(), what).prop_map(|(time_ns, what)| Event { time_ns, what })
}

#[test]
fn a_failed_poll_in_full() {
    let mut kvm = Kvm::new(MAX);
    for _ in 0..3 {
        kvm.halt(30_000, 5_000, None);
    }
    let truth = kvm.halt(70_000, 30_000, None);
    let halt = halts(&mut decoder(MAX), &kvm.events)[3];
    assert_eq!(truth.window_ns, 40_000);
    assert_eq!(halt.vcpu, Some(VcpuId(3)));
    assert_eq!(
        (halt.window_ns, halt.window_next_ns),
        (Some(40_000), Some(80_000))
    );
    assert_eq!(
        (halt.poll_ns, halt.wake_latency_ns),
        (Some(40_000), Some(30_000))
    );
    assert_eq!(
        (halt.gap_ns(), halt.sleep_ns()),
        (Some(70_000), Some(30_000))
    );
    assert_eq!((halt.change, halt.poll_cut), (WindowCall::Grow, false));
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
    assert_eq!(
        (got[4].window_ns, got[4].ceiling_ns),
        (Some(50_000), Some(50_000))
    );
    assert_eq!(
        (got[5].window_ns, got[5].poll_ns),
        (Some(25_000), Some(20_000))
    );
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
    assert_eq!((halt.poll_ns, halt.wake_latency_ns), (None, None));
    assert_eq!(halt.gap_ns(), None);
}

#[test]
fn a_wake_up_seen_counts_even_if_the_halt_began_unwatched() {
    let mut kvm = Kvm::new(MAX);
    kvm.halt(30_000, 5_000, None);
    let truth = kvm.halt(30_000, 5_000, None);
    let mut decoder = decoder(MAX);
    decoder.forget(TID);
    decoder.watch(TID, kvm.now - 20_000);
    let halt = halts(&mut decoder, &kvm.events)[1];
    assert_eq!(halt.poll_ns, None);
    assert_eq!(halt.wake_latency_ns, Some(truth.wake_latency_ns));
    assert_eq!(halt.gap_ns(), Some(30_000));
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
    assert_eq!(
        halts(&mut decoder, &kvm.events[..last])
            .last()
            .unwrap()
            .window_ns,
        Some(160_000)
    );
    let after = halts(&mut decoder, &kvm.events[last..])[0];
    assert_eq!((after.window_ns, after.poll_ns), (None, None));
    assert_eq!((after.halt_ns, after.wake_latency_ns), (50_000, Some(0)));
}

#[test]
fn a_change_whose_halt_was_lost_belongs_to_no_other() {
    let events = [
        (
            1_000,
            What::HaltPollNs {
                tid: TID,
                vcpu: VcpuId(0),
                grow: true,
                old: 0,
                new: 10_000,
            },
        ),
        (
            90_000,
            What::VcpuWakeup {
                tid: TID,
                ns: 5_000,
                waited: false,
                valid: true,
            },
        ),
    ]
    .map(|(time_ns, what)| Event { time_ns, what });
    let halt = halts(&mut decoder(MAX), &events)[0];
    assert_eq!(
        (halt.change, halt.window_ns),
        (WindowCall::None, Some(10_000))
    );
    assert_eq!(halt.start_ns, 85_000);
}

/// Seen on 6.12 under emulation: 4 ms between the two events of a halt of 2.5 ms.
#[test]
fn a_thread_put_aside_between_the_two_events_of_its_halt_keeps_its_change() {
    let events = |woken_ns| {
        [
            (500_000, What::Slept { tid: TID }),
            (
                woken_ns,
                What::Waking {
                    tid: TID,
                    source: WakeSource::Device,
                },
            ),
            (
                900_000,
                What::HaltPollNs {
                    tid: TID,
                    vcpu: VcpuId(0),
                    grow: true,
                    old: 0,
                    new: 10_000,
                },
            ),
            (
                5_000_000,
                What::VcpuWakeup {
                    tid: TID,
                    ns: 450_000,
                    waited: true,
                    valid: true,
                },
            ),
        ]
        .map(|(time_ns, what)| Event { time_ns, what })
    };
    let halt = halts(&mut decoder(MAX), &events(870_000))[0];
    assert_eq!((halt.change, halt.window_ns), (WindowCall::Grow, Some(0)));
    assert_eq!(
        (halt.end_ns(), halt.wake_latency_ns),
        (900_000, Some(30_000))
    );
    // A wake-up after the change is that of a later halt.
    let mut later = events(4_900_000);
    later.swap(1, 2);
    let halt = halts(&mut decoder(MAX), &later)[0];
    assert_eq!((halt.change, halt.end_ns()), (WindowCall::None, 5_000_000));
}

/// Seen on 6.12 with the emulated CPUs in turn: a halt that did not wait, and a preemption between its
/// two events that lasted longer than the halt.
#[test]
fn a_short_halt_put_aside_between_its_two_events_keeps_its_change() {
    let change = What::HaltPollNs {
        tid: TID,
        vcpu: VcpuId(0),
        grow: true,
        old: 0,
        new: 10_000,
    };
    let wakeup = What::VcpuWakeup {
        tid: TID,
        ns: 5_000,
        waited: false,
        valid: true,
    };
    let aside = What::PutAside { tid: TID };
    let slept = What::Slept { tid: TID };
    let told = |events: &[(u64, What)]| {
        let events = events.iter();
        let events: Vec<_> = events
            .map(|&(time_ns, what)| Event { time_ns, what })
            .collect();
        let halt = halts(&mut decoder(MAX), &events)[0];
        (halt.change, halt.window_ns, halt.end_ns())
    };
    let kept = (WindowCall::Grow, Some(0), 100_000);
    let left = (WindowCall::None, Some(10_000), 900_000);
    let (begun, ended) = ((100_000, change), (900_000, wakeup));
    assert_eq!(told(&[begun, (100_200, aside), ended]), kept);
    // Put aside before, or asleep since: the change is that of a halt whose end was lost.
    assert_eq!(told(&[(99_000, aside), begun, ended]), left);
    assert_eq!(
        told(&[begun, (100_200, aside), (300_000, slept), ended]),
        left
    );
    assert_eq!(told(&[begun, ended]), left);
    // What is missing may have been anything.
    let (_, window, _) = told(&[begun, (100_200, aside), (200_000, What::Gap), ended]);
    assert_eq!(window, None);
}

#[test]
fn a_halt_shorter_than_the_time_between_its_events_keeps_its_change() {
    // The window was 0 and the interrupt pending. Text may round both times to microseconds besides.
    let change = What::HaltPollNs {
        tid: TID,
        vcpu: VcpuId(0),
        grow: true,
        old: 0,
        new: 10_000,
    };
    let wakeup = What::VcpuWakeup {
        tid: TID,
        ns: 210,
        waited: false,
        valid: true,
    };
    let events =
        [(50_000, change), (50_460, wakeup)].map(|(time_ns, what)| Event { time_ns, what });
    let halt = halts(&mut decoder(MAX), &events)[0];
    assert_eq!(halt.change, WindowCall::Grow);
    assert_eq!(
        (halt.window_ns, halt.window_next_ns),
        (Some(0), Some(10_000))
    );
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
        let wakeup = What::VcpuWakeup {
            tid: TID,
            ns: 5_000,
            waited: false,
            valid: true,
        };
        let events = [gap, wakeup].map(|what| Event { time_ns, what });
        assert_eq!(halts(&mut decoder, &events)[0].window_ns, window);
    }
}

#[test]
fn a_ceiling_that_was_told_is_the_ceiling_of_each_halt() {
    let mut kvm = Kvm::new(MAX);
    for _ in 0..8 {
        kvm.halt(150_000, 5_000, None);
    }
    let mut decoder = decoder(0);
    decoder.tell_ceiling(ToldCeiling {
        ns: MAX,
        source: CeilingSource::Param,
    });
    for halt in halts(&mut decoder, &kvm.events) {
        assert_eq!(
            (halt.ceiling_ns, halt.ceiling_source),
            (Some(MAX), CeilingSource::Param)
        );
    }
}
