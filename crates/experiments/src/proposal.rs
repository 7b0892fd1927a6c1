//! Rules that no kernel has: proposed on the list in August and September 2015 and not taken, and one of Intel's words.
//!
//! The list's are here because their failures explain the rule that was
//! taken: v3 polls longest where nothing ever comes, v4 always polls as long as it may. The rule of 4.3
//! decides on the length of the halt instead.
//!
//! **Documented** (thread of 2015-09-01): v3 grows on long halts, so that the window of an idle vCPU
//! goes 0, 500 us, 1 ms, 2 ms, 4 ms, 0; v4 grows on every interrupt, so that the window is always at the
//! ceiling and never follows the halts down; toggling (Matlack) knows two windows, 0 and the ceiling.
//!
//! **Our reading** is all else, and each rule below says what of it: the patches themselves were not
//! at hand.

use haltwise_core::kvm::{self, Arch, Knobs, Observed, Version};
use haltwise_core::policy::{Policy, Seen, Setting, Spec};

/// The first window above 0, behind the walk reported of v3.
const GROW_START: u32 = 500_000;
const GROW: u32 = 2;

/// A proposal, and the window of the vCPU that it serves.
#[derive(Debug, PartialEq)]
struct Proposal {
    rule: Rule,
    ceiling: u32,
    window: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// A window that was too short grows; one that cannot grow any more starts again.
    ///
    /// Documented: the walk of an idle vCPU. Our reading: a halt is long if it outlasts its window; the
    /// window goes to 0 when the next step would pass the ceiling, rather than being cut to it; a
    /// successful poll changes nothing.
    V3,
    /// Every wake-up by an interrupt grows the window.
    ///
    /// Documented: that it grows then, and that the window ends at the ceiling and stays. Our reading:
    /// growth is cut to the ceiling. No halt loop tells interrupts from other wake-ups: each valid one counts.
    V4,
    /// The rule that was taken, but its window never falls below its first step.
    ///
    /// Our reading of Intel's "not between 0 and 10 us"; the other is the kernel's, where it falls to 0 from there.
    AtLeast(Knobs),
}

pub(crate) fn v3() -> Box<dyn Policy> {
    Box::new(Proposal::new(Rule::V3, 4_000_000))
}

pub(crate) fn v4() -> Box<dyn Policy> {
    Box::new(Proposal::new(Rule::V4, 4_000_000))
}

pub(crate) fn at_least_10us() -> Box<dyn Policy> {
    let knobs = Knobs {
        halt_poll_ns: 160_000,
        grow: GROW,
        grow_start: 10_000,
        shrink: 2,
    };
    let rule = Rule::AtLeast(knobs);
    Box::new(Proposal::new(rule, knobs.halt_poll_ns))
}

/// All or nothing, by whether the halt would have fitted under the ceiling.
///
/// Documented: the two windows. Our reading: the conditions are those of the rule that was taken, whose first step
/// is the ceiling here.
///
/// # Panics
/// Never: the core has that rule.
pub(crate) fn toggle() -> Box<dyn Policy> {
    let taken = "kvm:max=2ms,grow=2,grow_start=2ms,shrink=2".parse::<Spec>();
    let setting = Setting::upstream(Version::LAST_READ, Arch::X86, 0);
    let taken = taken.and_then(|spec| spec.build(&setting));
    taken.expect("a policy of the core")
}

impl Proposal {
    fn new(rule: Rule, ceiling: u32) -> Self {
        let window = 0;
        Self {
            rule,
            ceiling,
            window,
        }
    }

    fn next(&self, seen: &Seen) -> u32 {
        let fits = seen.halt_ns <= u64::from(self.window);
        let grown = match self.window {
            0 => GROW_START,
            window => window.saturating_mul(GROW),
        };
        match self.rule {
            Rule::V3 if fits => self.window,
            Rule::V3 if grown > self.ceiling => 0,
            Rule::V3 => grown,
            Rule::V4 if seen.valid => grown.min(self.ceiling),
            Rule::V4 => self.window,
            Rule::AtLeast(knobs) => {
                let observed = Observed {
                    halt_ns: seen.halt_ns,
                    valid: seen.valid,
                    allowed: true,
                };
                let taken = kvm::Rule::of(Version::LAST_READ, Arch::X86);
                let step = taken.after(&knobs, self.ceiling, self.window, observed);
                step.window.max(knobs.grow_start)
            }
        }
    }
}

impl Policy for Proposal {
    fn window(&mut self, _: Option<u64>) -> u64 {
        self.window.into()
    }

    fn learn(&mut self, seen: &Seen) {
        self.window = self.next(seen);
    }
}

#[cfg(test)]
mod test;
