//! How long after its window a halt is still woken without having slept.
//!
//! KVM looks for a wake before it looks at the time (`kvm_vcpu_halt`, before 5.17 `kvm_vcpu_block`), and once more before
//! it sleeps (`kvm_vcpu_check_block`). The interrupt of a vCPU's own timer runs on the CPU that polls: what interrupts
//! the poll within its window is met, however long the handler takes, and the recorded gap ends with the handler. How long
//! that is, a recording tells: halts that were woken after their window without having slept, and those that had gone to
//! sleep. The overrun is the time that tells the two apart with the fewest errors. It depends on the wake source and on
//! whether the halt polled at all; it belongs to the host, not to the guest, and all halts of a host are counted together.

use super::latency::ENOUGH;
use crate::event::{Halt, WakeSource};

/// Up to which time after its window a halt that ends so does not sleep, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overrun {
    /// Where it polls; no less than where it does not.
    pub polling_ns: u32,
    /// Where its window is 0.
    pub unpolled_ns: u32,
}

impl Overrun {
    /// The longest that is told from a preemption.
    pub const LONGEST: Self = Self {
        polling_ns: LONGEST_NS,
        unpolled_ns: LONGEST_NS,
    };

    /// That of a window of this length.
    pub fn of_window_ns(&self, window_ns: u64) -> u64 {
        u64::from(if window_ns > 0 {
            self.polling_ns
        } else {
            self.unpolled_ns
        })
    }
}

/// The overruns of a host in nanoseconds, by wake source: where the window is 0, and where it polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overruns([[Option<u32>; 2]; WakeSource::ALL.len()]);

impl Overruns {
    #[cfg(test)]
    pub(crate) fn of_each(of: impl Fn(WakeSource) -> Overrun) -> Self {
        Self(WakeSource::ALL.map(|wake| [of(wake).unpolled_ns, of(wake).polling_ns].map(Some)))
    }

    /// The same; another's where nothing is known.
    pub(super) fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|source| {
            let (own, other) = (self.0[source], other.0[source]);
            std::array::from_fn(|polls| own[polls].or(other[polls]))
        }))
    }

    /// Overrun of halts with this wake source; 0 if unknown. With or without a poll, KVM looks again before a sleep.
    pub fn of(&self, wake: WakeSource) -> Overrun {
        let shown = self.0[usize::from(wake.code())];
        let [unpolled_ns, polling_ns] = shown.map(Option::unwrap_or_default);
        Overrun {
            polling_ns: polling_ns.max(unpolled_ns),
            unpolled_ns,
        }
    }
}

/// Times that are told apart, in nanoseconds: an interrupt takes 1 to 12 us.
const STEP_NS: u32 = 256;

/// Number of these steps: longer overruns (64 us) are preemptions of the CPU, which end nothing sooner.
const STEPS: usize = 256;
const LONGEST_NS: u32 = 65_536;

/// Share that limits the overrun, in percent of the halts that were woken after their window without having slept:
/// something else held up the rest, and where no halt slept so soon, nothing else limits the overrun.
const TYPICAL_PERCENT: u64 = 90;

/// Halts by how long after their window they were woken.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts {
    awake: [u32; STEPS],
    slept: [u32; STEPS],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            awake: [0; STEPS],
            slept: [0; STEPS],
        }
    }
}

impl Counts {
    fn add(&mut self, after_ns: u64, slept: bool) {
        let Some(after_ns) = after_ns.checked_sub(1) else {
            return;
        };
        let row = if slept {
            &mut self.slept
        } else {
            &mut self.awake
        };
        let step = usize::try_from(after_ns / u64::from(STEP_NS)).ok();
        if let Some(count) = step.and_then(|step| row.get_mut(step)) {
            *count = count.saturating_add(1);
        }
    }

    /// `None` where they are too few to show any, or that there is none.
    fn overrun_ns(&self) -> Option<u32> {
        let sum = |row: &[u32; STEPS]| row.iter().map(|&halts| u64::from(halts)).sum::<u64>();
        let awake = sum(&self.awake);
        if awake < ENOUGH {
            return (sum(&self.slept) >= ENOUGH).then_some(0);
        }
        let (mut wrong, mut so_far) = (i128::from(awake), 0);
        let (mut least, mut overrun_ns) = (wrong, 0);
        let mut end_ns = 0;
        for (&of_awake, &of_slept) in self.awake.iter().zip(&self.slept) {
            let is_typical = so_far * 100 < awake * TYPICAL_PERCENT;
            so_far += u64::from(of_awake);
            wrong += i128::from(of_slept) - i128::from(of_awake);
            end_ns += STEP_NS;
            if is_typical && wrong < least {
                (least, overrun_ns) = (wrong, end_ns);
            }
        }
        Some(overrun_ns)
    }
}

/// Evidence that recorded halts show for the overruns, in the order of [`Overruns`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HaltEnds([Option<Box<[Counts; 2]>>; WakeSource::ALL.len()]);

impl HaltEnds {
    /// Adds a halt of the host.
    pub fn halt(&mut self, halt: &Halt) {
        let (Some(window_ns), Some(gap_ns)) = (halt.window_ns, halt.gap_ns()) else {
            return;
        };
        if halt.is_preempted() || halt.has_polled() != Some(window_ns > 0) {
            return;
        }
        let Some(after_ns) = gap_ns.checked_sub(u64::from(window_ns)) else {
            return;
        };
        let of = self.0[usize::from(halt.wake.code())].get_or_insert_default();
        of[usize::from(window_ns > 0)].add(after_ns, halt.waited);
    }

    /// The overruns that they show.
    pub fn overruns(&self) -> Overruns {
        Overruns(std::array::from_fn(|source| {
            let of = self.0[source].as_ref();
            of.map_or([None; 2], |of| of.each_ref().map(Counts::overrun_ns))
        }))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const WINDOW_NS: u32 = 20_000;

    fn halt(after_ns: u64, waited: bool) -> Halt {
        let gap_ns = u64::from(WINDOW_NS) + after_ns;
        let latency_ns = if waited { 30_000 } else { 0 };
        Halt {
            halt_ns: gap_ns + latency_ns,
            window_ns: Some(WINDOW_NS),
            poll_ns: Some(if waited { WINDOW_NS.into() } else { gap_ns }),
            wake_latency_ns: Some(latency_ns),
            wake: WakeSource::Timer,
            waited,
            ..Halt::default()
        }
    }

    fn learned(halts: impl IntoIterator<Item = Halt>) -> u32 {
        let mut ends = HaltEnds::default();
        halts.into_iter().for_each(|halt| ends.halt(&halt));
        for wake in WakeSource::ALL.into_iter().skip(1) {
            assert_eq!(ends.overruns().of(wake), Overrun::default(), "{wake:?}");
        }
        let Overrun {
            polling_ns,
            unpolled_ns,
        } = ends.overruns().of(WakeSource::Timer);
        assert_eq!(unpolled_ns, 0);
        polling_ns
    }

    #[test]
    fn a_few_polls_that_something_else_held_up_show_nothing() {
        let few = (1..ENOUGH).map(|_| halt(4_000, false));
        assert_eq!(learned(few), 0);
        let ends_of = |slept: u64| {
            let mut ends = HaltEnds::default();
            (0..slept).for_each(|n| ends.halt(&halt(1_000 + n, true)));
            ends.overruns()
        };
        let others = Overruns::of_each(|_| Overrun {
            polling_ns: 9_000,
            unpolled_ns: 0,
        });
        let known = |own: Overruns| own.or(others).of(WakeSource::Timer).polling_ns;
        assert_eq!(known(ends_of(ENOUGH - 1)), 9_000, "others know");
        assert_eq!(known(ends_of(ENOUGH)), 0, "it has none");
        let held_up = (0..50).map(|n| halt(1_000 * n + 1, false));
        let failed = (0..5_000).map(|n| halt(10 * n + 1, true));
        assert_eq!(
            learned(held_up.chain(failed)),
            0,
            "most fail from the first on"
        );
        let typical = (0..90).map(|_| halt(3_000, false));
        let late = (0..10).map(|n| halt(10_000 + 5_000 * n, false));
        assert_eq!(learned(typical.chain(late)), 3_072);
    }

    #[test]
    fn what_did_not_poll_to_the_end_of_its_window_shows_nothing() {
        let mut cut = halt(4_000, false);
        cut.poll_cut = Some(true);
        let vetoed = Halt {
            poll_ns: Some(0),
            polled: Some(false),
            ..halt(4_000, false)
        };
        let mut unknown = halt(4_000, false);
        unknown.poll_ns = None;
        let mut within = halt(0, false);
        within.halt_ns = u64::from(WINDOW_NS);
        for halt in [cut, vetoed, unknown, within] {
            assert_eq!(learned([halt; 100]), 0, "{halt:?}");
        }
    }

    /// Woken before it sleeps: within a quarter of a microsecond by anything, and while a handler runs.
    #[test]
    fn a_halt_that_does_not_poll_looks_once_before_it_sleeps() {
        let unpolled = |gap_ns: u64, waited| Halt {
            halt_ns: gap_ns + if waited { 20_000 } else { 0 },
            window_ns: Some(0),
            poll_ns: Some(0),
            ..halt(0, waited)
        };
        let overrun = |halts: &[Halt]| {
            let mut ends = HaltEnds::default();
            for halt in halts {
                ends.halt(halt);
            }
            ends.overruns().of(WakeSource::Timer)
        };
        let at_once = [unpolled(230, false); 40];
        let in_handler = [unpolled(11_000, false); 20];
        let slept = [unpolled(11_000, true); 100];
        let shown = overrun(&[&at_once[..], &in_handler, &slept].concat());
        let either = Overrun {
            polling_ns: 256,
            unpolled_ns: 256,
        };
        assert_eq!(shown, either, "what polls looks once more, too");
        let polled: Vec<Halt> = (0..100).map(|n| halt(100 * n, false)).collect();
        let shown = overrun(&[&at_once[..], &slept, &polled].concat());
        assert_eq!((shown.unpolled_ns, shown.polling_ns), (256, 9_216));
    }
}
