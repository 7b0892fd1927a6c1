//! One halt: which settings and windows were possible, and whether one of them explains it.

mod cases;

use super::tally::{Skip, Tally, Transition};
use super::{Did, Difference, Setup, Sight, Verdict};
use crate::event::{Halt, WindowCall, WindowChange};
use crate::ids::{VcpuId, VmIndex};
use crate::kvm::rule::NoPoll;
use crate::kvm::{Arch, Call, Step};

use self::cases::{Case, Ceiling, MOST, Times};

#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    place: Option<(VmIndex, Option<VcpuId>)>,
    end_ns: u64,
    /// Windows that the last halt may have left; empty if unknown.
    windows: Vec<u32>,
    lost_by: Option<Skip>,
    ceiling: Option<Ceiling>,
    /// The last halt that could tell was not allowed to poll.
    vetoed: bool,
}

impl Thread {
    /// Finds out with which window a halt began if the halt before does not tell; whether it can be
    /// checked whatever happened before it.
    ///
    /// A thread's first call tells it; where calls are all that is seen, the first may be that of an
    /// earlier halt. Without a call, a halt under a ceiling of 0 had no window, whatever was left before.
    pub(super) fn begin(&mut self, setup: &Setup, halt: &Halt, found: Option<&Did>) -> bool {
        let Some(found) = found else { return false };
        let first = self.place.is_none();
        let window = match found.call {
            Some(call) => (first && setup.sight == Sight::Vcpu).then_some(call.old),
            None => self.no_window(setup, halt, found),
        };
        if let Some(window) = window {
            self.place = halt.vm.map(|vm| (vm, halt.vcpu));
            self.windows = vec![window];
            self.ceiling = None;
            self.end_ns = halt.start_ns;
        }
        window.is_some() && found.call.is_none()
    }

    /// The window of a halt under a ceiling of 0, of which else nothing is known.
    fn no_window(&self, setup: &Setup, halt: &Halt, found: &Did) -> Option<u32> {
        let unknown = self.not_checked(setup, halt, Some(found)).is_some();
        let in_order = halt.end_ns() >= self.end_ns;
        let window = found.window_ns.unwrap_or(0);
        let stands = setup.rule.entry(window, 0) == window;
        (unknown && in_order && stands && cases::only_zero(setup, halt)).then_some(window)
    }

    pub(super) fn not_checked(
        &self,
        setup: &Setup,
        halt: &Halt,
        found: Option<&Did>,
    ) -> Option<Skip> {
        let Some((vm, vcpu)) = self.place else {
            return Some(Skip::First);
        };
        let another = vcpu.zip(halt.vcpu).is_some_and(|(was, is)| was != is);
        if Some(vm) != halt.vm || another {
            Some(Skip::First)
        } else if halt.end_ns() < self.end_ns {
            Some(Skip::OutOfOrder)
        } else if setup.losses.between(self.end_ns, halt.end_ns()) {
            Some(Skip::Loss)
        } else if found.is_none() {
            Some(Skip::Window)
        } else if self.windows.is_empty() {
            Some(self.lost_by.unwrap_or(Skip::Window))
        } else {
            None
        }
    }

    /// Goes on from a halt that was not checked.
    pub(super) fn start_over(&mut self, halt: &Halt, found: Option<&Did>, why: Skip) {
        let left = found.and_then(Did::left);
        let behind = halt.end_ns() < self.end_ns;
        self.place = halt.vm.map(|vm| (vm, halt.vcpu));
        self.ceiling = Some(Ceiling::of(halt));
        // After a halt that came too late, its end says nothing about what the next one starts from.
        self.windows = left.filter(|_| !behind).into_iter().collect();
        self.lost_by = Some(why).filter(|why| *why != Skip::First);
        self.end_ns = halt.end_ns().max(self.end_ns);
    }

    /// Goes on from a halt that was checked; `windows` is what it may have left.
    pub(super) fn go_on(&mut self, halt: &Halt, found: &Did, windows: Vec<u32>) {
        self.place = halt
            .vm
            .map(|vm| (vm, halt.vcpu.or(self.place.and_then(|(_, vcpu)| vcpu))));
        self.ceiling = Some(Ceiling::of(halt));
        self.windows = match found.left() {
            Some(left) => vec![left],
            None => windows,
        };
        self.lost_by = None;
        self.end_ns = halt.end_ns();
    }

    /// Holds a halt against the rule; the window before it is known. Gives also the windows that it may have
    /// left.
    pub(super) fn judge(
        &mut self,
        setup: &Setup,
        tally: &mut Tally,
        halt: &Halt,
        found: &Did,
    ) -> (Verdict, Vec<u32>) {
        let times = Times::of(self.end_ns, halt);
        let ceiling = Ceiling::of(halt);
        let cases = cases::possible(setup, times, self.ceiling.unwrap_or(ceiling), ceiling);
        let Some((cases, newest)) = cases.and_then(|all| all.last().copied().map(|it| (all, it)))
        else {
            return (Verdict::Skipped(Skip::Settings), Vec::new());
        };
        // While settings change, the recorder's own idea of the window in force is a guess too.
        let certain = cases.len() == 1 || found.call.is_some();
        let found = Did {
            window_ns: found.window_ns.filter(|_| certain),
            ..*found
        };
        let veto = self.veto(setup, halt);
        let differs = |as_if_vetoed| {
            let difference = Difference {
                found,
                settings: cases.len(),
                as_if_vetoed,
                ..self.difference(setup, halt, newest)
            };
            (Verdict::Differs(Box::new(difference)), Vec::new())
        };
        // Where both answers explain a halt, what is known of the vCPU decides: its halts are all
        // counted alike.
        let likely = veto != Veto::Seen;
        for allowed in [likely, !likely] {
            let Some(answers) = self.answers(setup, halt, &found, &cases, allowed) else {
                continue;
            };
            match (allowed, veto) {
                (true, _) | (false, Veto::Seen) => {
                    tally.matched(cases.len(), answers.also_cut, answers.end);
                    tally.vetoed += u64::from(!allowed);
                    // Too many windows to carry along are as good as none.
                    let few = Some(answers.windows).filter(|windows| windows.len() <= MOST);
                    return (Verdict::Matched(answers.end), few.unwrap_or_default());
                }
                (false, Veto::Unseen) => return (Verdict::Skipped(Skip::Veto), answers.windows),
                (false, Veto::No) => return differs(true),
            }
        }
        differs(false)
    }

    /// The cases that explain what was found, if the vCPU was `allowed` to poll, or was not.
    fn answers(
        &self,
        setup: &Setup,
        halt: &Halt,
        found: &Did,
        cases: &[Case],
        allowed: bool,
    ) -> Option<Answers> {
        let mut answers: Option<Answers> = None;
        for case in cases {
            for &before in &self.windows {
                let (window, step) = case.step(setup, halt, before, allowed);
                if !found.fits(window, step) {
                    continue;
                }
                let answers = answers.get_or_insert_with(|| Answers {
                    also_cut: step.call.is_some() && window != before,
                    end: Transition::of(step.call, before, Some(step.window)),
                    windows: Vec::new(),
                });
                if !answers.windows.contains(&step.window) {
                    answers.windows.push(step.window);
                }
            }
        }
        answers
    }

    /// Difference that holds only what the rule does with a halt; `found` is left empty.
    fn difference(&self, setup: &Setup, halt: &Halt, case: Case) -> Difference {
        let before_ns = self.windows.last().copied().unwrap_or(0);
        let (window, step) = case.step(setup, halt, before_ns, true);
        Difference {
            halt: *halt,
            before_ns,
            expected: Did {
                window_ns: Some(window),
                call: step.call,
                next_ns: Some(step.window),
            },
            found: Did::default(),
            ceiling_ns: case.ceiling,
            settings: 1,
            as_if_vetoed: false,
        }
    }

    /// Evidence on whether the vCPU was allowed to poll.
    fn veto(&mut self, setup: &Setup, halt: &Halt) -> Veto {
        if setup.rule.no_poll != NoPoll::Freezes {
            return Veto::No;
        }
        // A poll that sees its event at the first look lasts 0 ns, and so does its halt.
        let polls = halt.window_next_ns.is_some_and(|ns| ns > 0) && halt.halt_ns > 0;
        if setup.sight == Sight::Vcpu && polls && halt.change == WindowCall::None {
            self.vetoed = halt.poll_ns == Some(0);
        }
        let looked = halt.vm.zip(halt.vcpu);
        let looked = looked.is_some_and(|place| setup.vetoed.contains(&place));
        if self.vetoed || looked {
            Veto::Seen
        } else if setup.arch == Arch::S390 {
            Veto::Unseen
        } else {
            Veto::No
        }
    }
}

/// Evidence on whether a vCPU was allowed to poll, in a kernel that does not change the window of a vCPU
/// that was not allowed to poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Veto {
    /// Nothing speaks against it.
    No,
    /// It was not, at least at times: the recorder saw that, or it did not poll with a window.
    Seen,
    /// It depends on steal time, which no recording has.
    Unseen,
}

/// Results of the cases that explain a halt: the transitions of the first case, and the windows that the cases leave.
#[derive(Debug)]
struct Answers {
    also_cut: bool,
    end: Transition,
    windows: Vec<u32>,
}

impl Did {
    /// The evidence in a halt; `None` where a call lacks its windows. Where there is no call, the window in
    /// force is only as good as the recorder's idea of the ceiling.
    pub(super) fn found(halt: &Halt, row: Option<&WindowChange>, sight: Sight) -> Option<Self> {
        let grow = halt.change == WindowCall::Grow;
        if halt.change == WindowCall::None {
            let seen = sight == Sight::Vcpu && halt.window_next_ns.is_some();
            return Some(Self {
                call: None,
                window_ns: halt.window_ns.filter(|_| seen),
                next_ns: halt.window_next_ns.filter(|_| seen),
            });
        }
        let call = match row.filter(|row| row.grow == grow) {
            Some(row) => row.into(),
            None => Call {
                grow,
                old: halt.window_ns?,
                new: halt.window_next_ns?,
            },
        };
        Some(Self {
            call: Some(call),
            window_ns: halt.window_ns.or(Some(call.old)),
            next_ns: halt.window_next_ns.or(Some(call.new)),
        })
    }

    /// Window that the next halt starts from, if certain.
    fn left(&self) -> Option<u32> {
        self.next_ns.or(self.call.map(|call| call.new))
    }

    pub(super) fn fits(&self, window: u32, step: Step) -> bool {
        self.call == step.call
            && self.window_ns.is_none_or(|found| found == window)
            && self.next_ns.is_none_or(|found| found == step.window)
    }
}
