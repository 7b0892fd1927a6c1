//! The rule itself: what a window is when a halt begins, and what becomes of it when the halt is over.
//!
//! Transcribes `kvm_vcpu_halt` (up to 5.16 `kvm_vcpu_block`), `grow_halt_poll_ns` and
//! `shrink_halt_poll_ns` of `virt/kvm/kvm_main.c`. How long to poll is decided at [`Rule::entry`].
//!
//! Knobs and ceiling may change during a halt. The kernel reads them anew where it ends, so
//! [`Rule::after`] takes those of the end. (Before 6.1 it reads the ceiling up to five times there, and
//! a change between two of them mixes old and new; the reference model takes all reads for one.)
//!
//! Left open: 4.3 to 4.5 compute in `int`, which differs from this above 2^31 ns. That the very first
//! 4.3 sets the window to 0 at a ceiling of 0, as all read kernels do, is from memory.

use super::knobs::{GROW_START, Knobs};
use super::rule::{Clamp, GrowStart, GrowthCap, NoPoll, Rule, WindowOf};
use crate::event::{Halt, WindowCall, WindowChange};

/// KVM's view of a halt when the halt is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observed {
    /// The whole halt in nanoseconds, polling and wake-up latency included; what [`Rule::counted_ns`] leaves of it.
    ///
    /// The clock is read once for each turn of the polling loop, after the check: a halt that a poll
    /// ended is measured up to the last turn that found nothing. A success in the first turn is 0 ns.
    pub halt_ns: u64,
    /// Whether the wakeup was valid. Always so but on s390: elsewhere the rule does not look.
    pub valid: bool,
    /// Whether the vCPU was allowed to poll, as `kvm_arch_no_poll` has it. Always so but on x86 and s390:
    /// elsewhere the rule does not look. (Before 5.17 the kernel asks twice, at both ends of the halt,
    /// and this is the answer at its end; since then it asks once, where the halt begins.)
    pub allowed: bool,
}

impl Observed {
    /// A halt with a valid wakeup of a vCPU that may poll: all there is on most ports.
    pub const fn valid(halt_ns: u64) -> Self {
        Self {
            halt_ns,
            valid: true,
            allowed: true,
        }
    }
}

/// A call of grow or shrink, as the tracepoint `kvm_halt_poll_ns` tells it.
///
/// There is one for every call, also where `new == old`: an invalid wakeup at a window of 0, a factor
/// of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// Whether it is grow rather than shrink.
    pub grow: bool,
    /// The window before in nanoseconds, as it was during the halt.
    pub old: u32,
    /// The window after in nanoseconds. Where growth is not capped, it may exceed the ceiling.
    pub new: u32,
}

impl Call {
    /// The row that a recorder writes of the call that a halt made.
    pub fn row(self, halt: &Halt) -> WindowChange {
        WindowChange {
            time_ns: halt.end_ns(),
            vm: halt.vm,
            vcpu: halt.vcpu,
            tid: halt.tid,
            grow: self.grow,
            old_ns: self.old,
            new_ns: self.new,
        }
    }
}

impl From<&WindowChange> for Call {
    fn from(row: &WindowChange) -> Self {
        Self {
            grow: row.grow,
            old: row.old_ns,
            new: row.new_ns,
        }
    }
}

impl From<Option<Call>> for WindowCall {
    fn from(call: Option<Call>) -> Self {
        match call {
            None => Self::None,
            Some(call) if call.grow => Self::Grow,
            Some(_) => Self::Shrink,
        }
    }
}

/// Effect of a halt on a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// The window after the halt in nanoseconds, as the kernel keeps it: possibly above the ceiling.
    /// [`Rule::entry`] of the next halt makes it the window in force.
    pub window: u32,
    /// The call that moved it; `None` if nothing did, or the kernel wrote the window itself.
    pub call: Option<Call>,
}

impl Step {
    const fn silent(window: u32) -> Self {
        Self { window, call: None }
    }

    const fn called(grow: bool, old: u32, new: u32) -> Self {
        Self {
            window: new,
            call: Some(Call { grow, old, new }),
        }
    }
}

impl Rule {
    /// The length of a halt as the rule counts it, in nanoseconds. `latency_ns` is the wake-up latency, 0 where KVM does not know it.
    pub fn counted_ns(&self, halt_ns: u64, latency_ns: u64) -> u64 {
        if self.until_wake {
            halt_ns.saturating_sub(latency_ns)
        } else {
            halt_ns
        }
    }

    /// The window in force in nanoseconds: for how long this halt polls, if it may. 0 is not at all.
    ///
    /// `window` is what the last halt left, 0 for a new vCPU; `ceiling` is that of this moment.
    pub fn entry(&self, window: u32, ceiling: u32) -> u32 {
        match (self.window, self.clamp) {
            (WindowOf::NoPolling, _) => 0,
            (WindowOf::Param, _) => ceiling,
            (_, Clamp::AtEntry) => window.min(ceiling),
            (_, Clamp::Never) => window,
        }
    }

    /// The step of the window at the end of a halt.
    ///
    /// `window` is the window in force during the halt, as [`Rule::entry`] gave it; `knobs` and
    /// `ceiling` are those of the halt's end. `knobs.halt_poll_ns` is looked at only where growth is
    /// capped at the module parameter.
    pub fn after(&self, knobs: &Knobs, ceiling: u32, window: u32, observed: Observed) -> Step {
        match self.window {
            WindowOf::NoPolling => Step::silent(0),
            WindowOf::Param => Step::silent(ceiling),
            WindowOf::Vcpu => self.adapt(knobs, ceiling, window, observed),
        }
    }

    fn adapt(self, knobs: &Knobs, ceiling: u32, window: u32, observed: Observed) -> Step {
        let halt_ns = observed.halt_ns;
        if self.no_poll == NoPoll::Freezes && !observed.allowed {
            Step::silent(window)
        } else if self.invalid_wakeups && !observed.valid {
            self.shrink(knobs, window)
        } else if ceiling == 0 {
            Step::silent(0)
        } else if halt_ns <= u64::from(window) {
            Step::silent(window)
        } else if window > 0 && halt_ns > u64::from(ceiling) {
            self.shrink(knobs, window)
        } else if window < ceiling && halt_ns < u64::from(ceiling) {
            // That the window is below the ceiling follows; the kernel asks all the same.
            self.grow(knobs, ceiling, window)
        } else {
            Step::silent(window)
        }
    }

    /// `grow_halt_poll_ns`.
    fn grow(self, knobs: &Knobs, ceiling: u32, old: u32) -> Step {
        let product = old.wrapping_mul(knobs.grow);
        let grown = match (self.grow_start, old, knobs.grow) {
            // Leaves before the cap: a window that is above it stays there.
            (GrowStart::Param, _, 0) => return Step::called(true, old, old),
            (GrowStart::Param, _, _) => product.max(knobs.grow_start),
            (GrowStart::Fixed, 0, 1..) => GROW_START,
            (GrowStart::Fixed, _, _) => product,
        };
        let new = match self.growth_cap {
            GrowthCap::None => grown,
            GrowthCap::Param => grown.min(knobs.halt_poll_ns),
            GrowthCap::Ceiling => grown.min(ceiling),
        };
        Step::called(true, old, new)
    }

    /// `shrink_halt_poll_ns`.
    fn shrink(self, knobs: &Knobs, old: u32) -> Step {
        let shrunk = old.checked_div(knobs.shrink).unwrap_or(0);
        let new = if self.shrink_floor && shrunk < knobs.grow_start {
            0
        } else {
            shrunk
        };
        Step::called(false, old, new)
    }
}
