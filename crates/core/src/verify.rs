//! Holds recorded halts against the kernel's own rule: what KVM did with each window, and what
//! [`crate::kvm`] says that it does.
//!
//! For every halt, the window that the previous halt left is known; for a first halt that made a call, the window
//! that the call tells; under a ceiling of 0, that there is no window. From this window the rule derives the window in
//! force, the call of grow or shrink (or none), and the window left behind; all recorded values must be equal, to the
//! nanosecond. A halt that cannot be checked is counted with the reason and never taken for a match.
//!
//! **Settings in doubt.** A recorder looks at the parameters now and then, and at a VM's ceiling when a
//! halt ends. While one changes, two values are possible; a halt then matches if one of them explains
//! all of it, and is counted as judged against several settings.
//!
//! **Windows in doubt.** Where only calls are seen, a window that changed in silence shows at the next
//! call. Until then every window that is possible is carried along.
//!
//! **vCPUs that may not poll.** Since 5.4 KVM leaves the window alone of a vCPU whose guest disabled host
//! polling, and that is what its halts are held against. On s390 steal time decides, which no recording
//! has: there a halt that only such a rule explains is not checked.
//!
//! **vCPUs are told apart by their threads.** A vCPU that moves to another thread and back within a
//! recording would be taken for two that alternate; no VMM is known to do that.

pub mod calls;
pub mod carried;
pub mod guest;
mod judge;
pub mod loss;
pub mod policy;
pub mod settings;
pub mod tally;

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Halt, WindowChange};
use crate::ids::{Tid, VcpuId, VmIndex};
use crate::kvm::{Arch, Backport, Call, Rule};

use self::judge::Thread;
use self::loss::Losses;
use self::settings::Settings;
use self::tally::{Skip, Tally, Transition};

/// How much of a window a recording shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// `vcpu->halt_poll_ns` itself, after every halt.
    Vcpu,
    /// Only calls of grow and shrink. Windows of halts without a call are what a decoder made of them,
    /// and no evidence.
    Calls,
}

/// Rule, settings and circumstances that halts are checked against.
#[derive(Debug, Clone)]
pub struct Setup {
    pub rule: Rule,
    /// The port it is the rule of.
    pub arch: Arch,
    /// How much of a window the recording shows.
    pub sight: Sight,
    pub settings: Settings,
    /// The ceiling of every VM, whatever was recorded.
    pub cap: Option<u32>,
    /// When events were lost.
    pub losses: Losses,
    /// vCPUs whose guest switched polling off, as far as the recorder looked.
    pub vetoed: BTreeSet<(VmIndex, VcpuId)>,
}

/// Holds halts against the rule, one by one.
#[derive(Debug, Clone)]
pub struct Verifier {
    setup: Setup,
    threads: BTreeMap<Tid, Thread>,
    tally: Tally,
}

/// Result of checking a halt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All that was recorded is as the rule has it.
    Matched(Transition),
    /// It could not be checked.
    Skipped(Skip),
    /// The kernel did something else.
    Differs(Box<Difference>),
}

/// A halt that is not as the rule has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub halt: Halt,
    /// The window that the halt before left.
    pub before_ns: u32,
    /// Action of the rule, under the newest settings that are possible.
    pub expected: Did,
    pub found: Did,
    /// The ceiling that the rule was given.
    pub ceiling_ns: u32,
    pub settings: usize,
    /// KVM did as it does with a vCPU that must not poll.
    pub as_if_vetoed: bool,
}

/// Window in force in a halt, the call at its end, and the window left; `None` where not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Did {
    pub window_ns: Option<u32>,
    /// The call that was made, if any.
    pub call: Option<Call>,
    pub next_ns: Option<u32>,
}

impl Verifier {
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            threads: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// The same, with all that was found so far, for a kernel that carries one more change.
    fn carrying(&self, backport: Backport) -> Self {
        let mut other = self.clone();
        other.setup.rule = other.setup.rule.with(backport);
        other
    }

    /// Counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Setup that the halts are checked against.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The next halt, in order for each thread, with the call that it made where that was recorded.
    pub fn halt(&mut self, halt: &Halt, row: Option<&WindowChange>) -> Verdict {
        let verdict = self.judge(halt, row);
        self.tally.add(&verdict);
        verdict
    }

    fn judge(&mut self, halt: &Halt, row: Option<&WindowChange>) -> Verdict {
        if halt.vm.is_none() {
            return Verdict::Skipped(Skip::Unplaced);
        }
        let thread = self.threads.entry(halt.tid).or_default();
        let found = Did::found(halt, row, self.setup.sight);
        let begun = thread.begin(&self.setup, halt, found.as_ref());
        let why = thread.not_checked(&self.setup, halt, found.as_ref());
        if let Some(why) = why.filter(|_| !begun) {
            thread.start_over(halt, found.as_ref(), why);
            return Verdict::Skipped(why);
        }
        // Without evidence it was not checked, see above.
        let Some(found) = found else {
            return Verdict::Skipped(Skip::Window);
        };
        let (verdict, windows) = thread.judge(&self.setup, &mut self.tally, halt, &found);
        thread.go_on(halt, &found, windows);
        verdict
    }
}

#[cfg(test)]
mod test;
