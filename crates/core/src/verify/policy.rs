//! Holds recorded halts against a policy of [`crate::policy`], of a kernel that has it (`contrib/kernel`).
//!
//! A policy has a state that no recording shows. A vCPU is therefore checked from its first halt on, which is taken to
//! be its first of all unless it had a window; after lost events it is not checked any more.

use std::collections::BTreeMap;

use super::loss::Losses;
use super::tally::{Skip, Tally, Transition};
use super::{Did, Difference, Sight, Verdict};
use crate::event::{Halt, WindowChange};
use crate::ids::Tid;
use crate::kvm::{Call, Step};
use crate::policy::{Policy, Seen, Setting, Spec, SpecError};

/// A policy in the state of one vCPU, or why that state is not known.
#[derive(Debug)]
struct Thread {
    policy: Result<Box<dyn Policy>, Skip>,
    end_ns: u64,
}

/// Holds halts against a policy, one by one.
#[derive(Debug)]
pub struct Verifier {
    spec: Spec,
    setting: Setting,
    sight: Sight,
    losses: Losses,
    threads: BTreeMap<Tid, Thread>,
    tally: Tally,
}

impl Verifier {
    /// Fails where the policy cannot have this setting.
    pub fn new(
        spec: Spec,
        setting: Setting,
        (sight, losses): (Sight, Losses),
    ) -> Result<Self, SpecError> {
        spec.build(&setting)?;
        Ok(Self {
            spec,
            setting,
            sight,
            losses,
            threads: BTreeMap::new(),
            tally: Tally::default(),
        })
    }

    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next halt, in order for each thread, with the call that it made where that was recorded.
    pub fn halt(&mut self, halt: &Halt, row: Option<&WindowChange>) -> Verdict {
        let verdict = self.judge(halt, row);
        self.tally.add(&verdict);
        verdict
    }

    fn judge(&mut self, halt: &Halt, row: Option<&WindowChange>) -> Verdict {
        let found = Did::found(halt, row, self.sight);
        let first = || Thread {
            policy: match found.and_then(|did| did.window_ns) {
                None | Some(0) => self.spec.build(&self.setting).map_err(|_| Skip::First),
                Some(_) => Err(Skip::First),
            },
            end_ns: halt.start_ns,
        };
        let thread = self.threads.entry(halt.tid).or_insert_with(first);
        let end_ns = std::mem::replace(&mut thread.end_ns, halt.end_ns());
        if self.losses.between(end_ns, halt.end_ns()) {
            thread.policy = Err(Skip::Loss);
        } else if halt.end_ns() < end_ns {
            thread.policy = Err(Skip::OutOfOrder);
        }
        let policy = match &mut thread.policy {
            Ok(policy) => policy,
            Err(why) => return Verdict::Skipped(*why),
        };
        let (window, step) = step(&mut **policy, halt);
        match found {
            None => Verdict::Skipped(Skip::Window),
            Some(found) if found.fits(window, step) => {
                let end = Transition::of(step.call, window, None);
                self.tally.matched(1, false, end);
                Verdict::Matched(end)
            }
            Some(found) => Verdict::Differs(Box::new(Difference {
                halt: *halt,
                before_ns: window,
                expected: Did {
                    window_ns: Some(window),
                    call: step.call,
                    next_ns: Some(step.window),
                },
                found,
                ceiling_ns: self.setting.ceiling_ns,
                settings: 1,
                as_if_vetoed: false,
            })),
        }
    }
}

/// The window of a halt, and what the policy makes of it: a kernel tells each change as a call of grow or shrink.
fn step(policy: &mut dyn Policy, halt: &Halt) -> (u32, Step) {
    let window = |policy: &mut dyn Policy| u32::try_from(policy.window(None)).unwrap_or(u32::MAX);
    let old = window(policy);
    policy.learn(&Seen {
        halt_ns: halt.halt_ns,
        poll_ns: halt.halt_ns.min(old.into()),
        wake_latency_ns: halt.wake_latency_ns.unwrap_or(0),
        waited: halt.waited,
        valid: halt.valid,
    });
    let new = window(policy);
    let call = (new != old).then_some(Call {
        grow: new > old,
        old,
        new,
    });
    (old, Step { window: new, call })
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::ids::{VcpuId, VmIndex};
    use crate::kvm::{Arch, Version};
    use crate::workload::SplitMix64;

    /// Halts of a vCPU under a policy, as a kernel that has the policy would tell them.
    fn told(spec: &Spec) -> Vec<(Halt, Option<WindowChange>)> {
        let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
        let mut policy = spec.build(&setting).unwrap();
        let (mut draw, mut start_ns, mut window) = (SplitMix64(9), 1_000, 0);
        let halt = |_| {
            let gap_ns = [5_000, 12_000, 300_000][usize::try_from(draw.below(3)).unwrap()];
            let waited = gap_ns > u64::from(window);
            let latency_ns = if waited { 8_000 + draw.below(4_000) } else { 0 };
            let mut halt = Halt {
                start_ns,
                halt_ns: gap_ns + latency_ns,
                vm: Some(VmIndex(0)),
                vcpu: Some(VcpuId(0)),
                waited,
                valid: true,
                wake_latency_ns: Some(latency_ns),
                window_ns: Some(window),
                ..Halt::default()
            };
            let (_, step) = step(&mut *policy, &halt);
            (halt.change, halt.window_next_ns) = (step.call.into(), Some(step.window));
            (start_ns, window) = (halt.end_ns() + 500, step.window);
            (halt, step.call.map(|call| call.row(&halt)))
        };
        (0..2_000).map(halt).collect()
    }

    fn checked(spec: &Spec, told: &[(Halt, Option<WindowChange>)]) -> (u64, u64, u64) {
        let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 0);
        let evidence = (Sight::Vcpu, Losses::default());
        let mut verifier = Verifier::new(spec.clone(), setting, evidence).unwrap();
        for (halt, row) in told {
            verifier.halt(halt, row.as_ref());
        }
        let tally = verifier.tally();
        (tally.halts, tally.checked.matched, tally.differences())
    }

    #[test]
    fn a_kernel_with_the_policy_matches_and_one_nanosecond_does_not() {
        let [leader, kvm] = ["leader", "kvm"].map(|name| name.parse::<Spec>().unwrap());
        let mut of = told(&leader);
        assert_eq!(checked(&leader, &of), (2_000, 2_000, 0));
        assert!(checked(&kvm, &of).2 > 100);
        // From a window on, nothing is known of the state.
        let later = of.iter().position(|(halt, _)| halt.window_ns != Some(0));
        assert_eq!(checked(&leader, &of[later.unwrap()..]).1, 0);
        let (halt, _) = &mut of[1_000];
        halt.window_next_ns = halt.window_next_ns.map(|ns| ns + 1);
        assert_eq!(checked(&leader, &of), (2_000, 1_999, 1));
    }
}
