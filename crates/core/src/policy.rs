//! Rules that decide how long a halted vCPU polls: KVM's own, the literature's and ours.
//!
//! `kvm` is the reference model, this is opinion. A policy is asked before each halt for its window, and told
//! afterwards what came of it, exactly what a kernel or a VMM could know at that moment. So the same
//! value drives a replay and the halt loop of a real VMM. One policy serves one vCPU.
//!
//! A policy is one file and one line of [`POLICIES`]; the text that names one is a [`Spec`].

pub mod spec;

mod fixed;
mod guest_haltpoll;
mod kvm;
mod leader;
mod payback;
mod smart_idle_poll;

use crate::kvm::{Arch, Knobs, Version};
pub use crate::recording::Side;

pub use guest_haltpoll::guest_haltpoll;
use spec::Args;
pub use spec::{Spec, SpecError};

/// Makes a policy for one vCPU out of its arguments.
pub type Build = fn(&mut Args<'_>, &Setting) -> Result<Box<dyn Policy>, SpecError>;

/// A policy by name.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The word before the colon.
    pub name: &'static str,
    /// Form of the arguments after the colon, as the help prints it; empty if there are none.
    pub form: &'static str,
    /// Its rule in half a line.
    pub summary: &'static str,
    pub build: Build,
}

/// Every policy, in the order in which the help lists them.
pub const POLICIES: &[Entry] = &[
    fixed::OFF,
    fixed::FIXED,
    kvm::ENTRY,
    guest_haltpoll::ENTRY,
    fixed::IDLE_POLL,
    fixed::CPU_PM,
    smart_idle_poll::ENTRY,
    payback::ENTRY,
    leader::ENTRY,
    fixed::CLAIRVOYANT,
];

/// Result of a halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// The whole halt in nanoseconds: polling, sleep and wake-up latency (KVM's `halt_ns`).
    pub halt_ns: u64,
    /// Time polled in nanoseconds.
    pub poll_ns: u64,
    /// From the wake event until running, in nanoseconds; 0 if it did not wait.
    pub wake_latency_ns: u64,
    /// It was scheduled out.
    pub waited: bool,
    /// KVM counted the wake-up as valid; false on s390 only.
    pub valid: bool,
}

impl Seen {
    /// Time until the wake event, in nanoseconds.
    pub fn gap_ns(&self) -> u64 {
        self.halt_ns.saturating_sub(self.wake_latency_ns)
    }
}

/// A rule that decides how long to poll.
pub trait Policy: std::fmt::Debug + Send {
    /// How long this halt may poll, in nanoseconds. 0: not at all. [`u64::MAX`]: until it is woken.
    ///
    /// `best_ns` is the window that costs least for this very halt. Only a replay knows it, and only the oracle may look:
    /// `no_policy_but_the_clairvoyant_sees_the_future` holds all others to that.
    fn window(&mut self, best_ns: Option<u64>) -> u64;

    /// Takes note of what came of it.
    fn learn(&mut self, seen: &Seen);

    /// Whether it looks at the best window. Only a lower bound does.
    fn sees_the_future(&self) -> bool {
        false
    }

    fn side(&self) -> Side {
        Side::Host
    }

    /// How long its idle CPU takes to wake, in nanoseconds, where it sleeps while it stays the guest's: its window takes
    /// the CPU from the host as polling does, but is no polling. `None` of a policy that polls.
    fn sleeps_in_guest(&self) -> Option<u64> {
        None
    }
}

/// Where a policy that adapts begins. The two ends of a replay: if they end differently, the load has
/// two steady states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// With no window, as a new vCPU does.
    #[default]
    Zero,
    /// With its largest window.
    Ceiling,
}

impl Start {
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Zero => Self::Ceiling,
            Self::Ceiling => Self::Zero,
        }
    }

    /// The first window of a vCPU under a ceiling, in nanoseconds.
    pub fn window<T: Default>(self, ceiling: T) -> T {
        match self {
            Self::Zero => T::default(),
            Self::Ceiling => ceiling,
        }
    }
}

/// Inputs from which a policy may be built: the machine on which the policy would run, and the cost of a block there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The kernel whose rule `kvm` means, or of halts recorded in a guest `guest-haltpoll`, unless given.
    pub version: Version,
    /// Where halts were recorded: that side's kernel is known.
    pub side: Side,
    pub arch: Arch,
    /// The parameters that `kvm` means unless told otherwise: those in force when recorded.
    pub knobs: Knobs,
    /// The ceiling in force when recorded, in nanoseconds: `knobs.halt_poll_ns` unless the VM had its
    /// own.
    pub ceiling_ns: u32,
    /// Cost of one block, in nanoseconds of CPU: `switch_cpu + lambda x wake-up latency`. A poll
    /// that lasts as long breaks even.
    pub break_even_ns: u64,
    pub start: Start,
}

impl Setting {
    /// An upstream kernel with its own defaults, for tests and examples.
    pub fn upstream(version: Version, arch: Arch, break_even_ns: u64) -> Self {
        let knobs = Knobs::defaults(version, arch);
        Self {
            version,
            side: Side::Host,
            arch,
            knobs,
            ceiling_ns: knobs.halt_poll_ns,
            break_even_ns,
            start: Start::Zero,
        }
    }
}

#[cfg(test)]
mod test;
