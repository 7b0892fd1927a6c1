//! What a replay takes of one halt.

use super::latency::{Table, class_of};
use super::overrun::Overrun;
use crate::event::{Halt, WakeSource};

/// One halt, as far as a replay is concerned. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub start_ns: u64,
    /// From there to the wake event.
    pub gap_ns: u64,
    /// The whole halt as recorded.
    pub halt_ns: u64,
    /// From the wake event until it ran, as recorded; 0 if it did not wait.
    pub latency_ns: u64,
    /// How long it slept, by class, where that is known: its own latency holds for that class.
    pub slept_class: Option<u8>,
    /// Where a cut poll stopped; [`u64::MAX`] where none was cut.
    pub cut_ns: u64,
    pub wake: WakeSource,
    /// KVM counted the wake-up as valid.
    pub valid: bool,
    /// The gap had to be guessed: the wake-up latency was not recorded.
    pub gap_guessed: bool,
    /// Its wake-up was pending when it began: it does not sleep, whatever the window.
    pub pending: bool,
}

/// KVM looks for a wake-up once more on its way to sleep (`kvm_vcpu_check_block`), some hundred ns after the halt
/// began. Assumed, not measured: texts have such halts of 210 and 354 ns.
const PENDING_NS: u64 = 500;

/// Whether a halt ended at KVM's first look: it neither slept nor polled, or not for longer than it takes to sleep.
fn is_pending(halt: &Halt) -> bool {
    !halt.waited && (halt.poll_ns == Some(0) || halt.halt_ns <= PENDING_NS)
}

impl Sample {
    /// Takes what matters out of a halt. `turn` is its number, for [`Table::at`].
    pub fn new(halt: &Halt, table: &Table, turn: u64) -> Self {
        let (mut sample, owed) = Self::without_table(halt);
        if let Some(class) = owed {
            sample.settle(table.at(class, turn).0);
        }
        sample
    }

    /// The same before there is a table. Where it takes a latency from there, that is left at 0, and the
    /// class of its sleep comes with it: see [`Self::settle`].
    pub fn without_table(halt: &Halt) -> (Self, Option<usize>) {
        let polled_ns = polled_ns(halt);
        let gap_guessed = halt.waited && halt.wake_latency_ns.is_none();
        let latency_ns = halt.wake_latency_ns.unwrap_or(0);
        let gap_ns = halt.halt_ns.saturating_sub(latency_ns);
        let slept_ns = gap_ns.saturating_sub(polled_ns);
        let sample = Self {
            start_ns: halt.start_ns,
            gap_ns,
            halt_ns: halt.halt_ns,
            latency_ns: latency_ns.min(halt.halt_ns),
            slept_class: short_class(slept_ns).filter(|_| halt.waited && !gap_guessed),
            cut_ns: if halt.is_preempted() {
                polled_ns
            } else {
                u64::MAX
            },
            wake: halt.wake,
            valid: halt.valid,
            gap_guessed,
            pending: is_pending(halt),
        };
        (sample, gap_guessed.then(|| class_of(slept_ns)))
    }

    /// Whether it slept for a length of this class, as far as that is known.
    pub fn slept_in(&self, class: usize) -> bool {
        self.slept_class.map(usize::from) == Some(class)
    }

    /// Up to which time after its window it does not sleep in the host. What was cut was not interrupted by its
    /// wake until then, and slept.
    pub fn overrun(&self, table: &Table) -> Overrun {
        if self.pending {
            Overrun::LONGEST
        } else if self.cut_ns == u64::MAX {
            table.overrun(self.wake)
        } else {
            Overrun::default()
        }
    }

    /// Gives the latency that it lacked, in nanoseconds.
    pub fn settle(&mut self, latency_ns: u64) {
        self.gap_ns = self.halt_ns.saturating_sub(latency_ns);
        self.latency_ns = latency_ns.min(self.halt_ns);
    }
}

/// The class of a sleep of `ns` nanoseconds in little room: a search holds millions of halts.
pub(super) fn short_class(ns: u64) -> Option<u8> {
    u8::try_from(class_of(ns)).ok()
}

/// Time polled, in nanoseconds; where that was not recorded, the window in force.
pub fn polled_ns(halt: &Halt) -> u64 {
    halt.poll_ns
        .unwrap_or_else(|| halt.window_ns.map_or(0, u64::from).min(halt.halt_ns))
}

/// How long a halt slept and how long it took to wake, in nanoseconds, where that is known.
pub fn sleep_and_latency_ns(halt: &Halt) -> Option<(u64, u64)> {
    let latency_ns = halt.wake_latency_ns.filter(|_| halt.waited)?;
    let gap_ns = halt.halt_ns.saturating_sub(latency_ns);
    Some((gap_ns.saturating_sub(polled_ns(halt)), latency_ns))
}
