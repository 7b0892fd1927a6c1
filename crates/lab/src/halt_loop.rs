//! Halts handled by the VMM: a halt loop in user space, driven by any policy.
//!
//! Where KVM has no irqchip, a HLT comes out to the VMM, which decides how long to poll before it sleeps:
//! so a policy that no kernel has can be tried on a real vCPU. What a VMM author may lift out is
//! [`HaltLoop`] with a [`World`] of his own.
//!
//! A halt goes as in KVM (`kvm_vcpu_halt`): the policy gives a window; within it the loop looks for a
//! wake event again and again; then it sleeps. The length that the policy is told is from the HLT to the
//! last look at the clock: polling, sleep and wake-up latency. Two things differ. A poll here does not end
//! because another task wants the CPU, for user space cannot see that; and a HLT costs an exit to the VMM
//! and back more than one that KVM handles.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::{Ask, Policy, Seen, Setting, Spec, SpecError};
use serde::{Deserialize, Serialize};

use crate::bell::Bell;
use crate::clock;

/// Wake-up latency and CPU of a block at a weight of 1: some 25 us and 6 us (`haltwise-lab calibrate`,
/// measurements/2026-11-21-vm-calibrate).
const BREAK_EVEN_NS: u64 = 31_000;

/// Environment that a halt loop waits in: a clock, and something that may come.
pub trait World {
    /// Now, in nanoseconds of a clock that only advances.
    fn now_ns(&mut self) -> u64;
    /// Whether something has come. Never waits.
    fn is_woken(&mut self) -> bool;
    fn relax(&mut self, deadline_ns: u64);
    /// Sleeps until something comes; says whether it slept at all.
    fn sleep(&mut self) -> io::Result<bool>;
    /// When that came, of what has come.
    fn raised_ns(&mut self) -> u64;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserHalt {
    /// When it began, on `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    pub window_ns: u64,
    /// From the HLT until running again.
    pub halt_ns: u64,
    pub poll_ns: u64,
    /// From the wake event until running again, if it slept.
    pub wake_latency_ns: u64,
    pub waited: bool,
}

#[derive(Debug)]
pub struct HaltLoop(pub Box<dyn Policy>);

impl HaltLoop {
    pub fn halt(&mut self, world: &mut impl World) -> io::Result<UserHalt> {
        let start_ns = world.now_ns();
        let window_ns = self.0.window(&Ask {
            now_ns: start_ns,
            ..Ask::default()
        });
        let (mut now_ns, mut waited) = (start_ns, false);
        let mut woken = false;
        if window_ns > 0 {
            let deadline_ns = start_ns.saturating_add(window_ns);
            loop {
                // A wake-up that is found at once was there before the clock was looked at again.
                woken = world.is_woken();
                if woken || now_ns >= deadline_ns {
                    break;
                }
                world.relax(deadline_ns);
                now_ns = world.now_ns();
            }
        }
        let poll_ns = now_ns.saturating_sub(start_ns);
        if !woken {
            waited = world.sleep()?;
            now_ns = world.now_ns();
        }
        let halt = UserHalt {
            start_ns,
            window_ns,
            halt_ns: now_ns.saturating_sub(start_ns),
            poll_ns,
            wake_latency_ns: if waited {
                now_ns.saturating_sub(world.raised_ns().max(start_ns))
            } else {
                0
            },
            waited,
        };
        self.0.learn(&Seen {
            halt_ns: halt.halt_ns,
            poll_ns: halt.poll_ns,
            wake_latency_ns: halt.wake_latency_ns,
            waited: halt.waited,
            valid: true,
        });
        Ok(halt)
    }
}

#[derive(Debug, Clone)]
pub enum HaltPolicy {
    Core(Spec, Setting),
    /// Another one, and what it is called.
    Own(&'static str, fn() -> Box<dyn Policy>),
}

impl HaltPolicy {
    /// As this kernel would have it where the spec is silent: its version and that version's own
    /// parameters. What a block is worth matters to a few policies only, and is what the lab measured
    /// on the host that it was built on.
    pub fn here(spec: Spec) -> Self {
        let release = rustix::system::uname();
        let version = release.release().to_string_lossy().parse();
        let version = version.unwrap_or(Version::LAST_READ);
        Self::Core(spec, Setting::upstream(version, Arch::X86, BREAK_EVEN_NS))
    }

    pub fn halt_loop(&self) -> Result<HaltLoop, SpecError> {
        Ok(HaltLoop(match self {
            Self::Core(spec, setting) => spec.build(setting)?,
            Self::Own(_, make) => make(),
        }))
    }
}

impl fmt::Display for HaltPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(spec, _) => spec.fmt(f),
            Self::Own(name, _) => f.pad(name),
        }
    }
}

/// A vCPU's own lines, and the wish that it end.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    pub(crate) bell: &'a Bell,
    pub(crate) kicked: &'a AtomicBool,
}

impl World for Lines<'_> {
    fn now_ns(&mut self) -> u64 {
        clock::now_ns()
    }

    fn is_woken(&mut self) -> bool {
        self.bell.is_raised() || self.kicked.load(Ordering::Relaxed)
    }

    fn relax(&mut self, _: u64) {
        std::hint::spin_loop();
    }

    fn sleep(&mut self) -> io::Result<bool> {
        let mut slept = false;
        while !self.is_woken() {
            slept |= self.bell.sleep()?;
        }
        Ok(slept)
    }

    fn raised_ns(&mut self) -> u64 {
        self.bell.raised_ns()
    }
}

/// The halts of one vCPU that the VMM handles.
#[derive(Debug)]
pub(crate) struct UserHalts {
    pub(crate) halt_loop: HaltLoop,
    pub(crate) bell: Arc<Bell>,
    pub(crate) halts: Vec<UserHalt>,
}

impl UserHalts {
    /// Handles a HLT; the vector to inject, or `None` if the vCPU was kicked.
    pub(crate) fn halt(&mut self, kicked: &AtomicBool) -> io::Result<Option<u8>> {
        let mut lines = Lines {
            bell: &self.bell,
            kicked,
        };
        let halt = self.halt_loop.halt(&mut lines)?;
        self.halts.push(halt);
        Ok(self.bell.take())
    }
}

/// Recorded halts, to be gone through once more: each event comes at the time recorded.
#[derive(Debug)]
struct Recorded {
    now_ns: u64,
    until_ns: u64,
}

impl World for Recorded {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn is_woken(&mut self) -> bool {
        self.now_ns >= self.until_ns
    }

    fn relax(&mut self, deadline_ns: u64) {
        self.now_ns = self.until_ns.min(deadline_ns);
    }

    fn sleep(&mut self) -> io::Result<bool> {
        let sleeps = self.now_ns < self.until_ns;
        self.now_ns = self.until_ns;
        Ok(sleeps)
    }

    fn raised_ns(&mut self) -> u64 {
        self.until_ns
    }
}

/// The windows that a halt loop gives halts of these lengths, one after the other.
pub fn windows_of(policy: &HaltPolicy, halts_ns: &[u64]) -> Result<Vec<u64>, SpecError> {
    let mut halt_loop = policy.halt_loop()?;
    let mut now_ns = 0_u64;
    let mut windows = Vec::with_capacity(halts_ns.len());
    for halt_ns in halts_ns {
        let mut world = Recorded {
            now_ns,
            until_ns: now_ns.saturating_add(*halt_ns),
        };
        // This world never fails.
        let Ok(halt) = halt_loop.halt(&mut world) else {
            break;
        };
        windows.push(halt.window_ns);
        now_ns = world.now_ns.saturating_add(1);
    }
    Ok(windows)
}

#[cfg(test)]
mod test;
