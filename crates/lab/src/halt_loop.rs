//! Halts handled by the VMM: a halt loop in user space, driven by any policy.
//!
//! Where KVM has no irqchip, a HLT comes out to the VMM, which decides how long to poll before it sleeps:
//! so a policy that no kernel has can be tried on a real vCPU.
//!
//! A halt goes as in KVM (`kvm_vcpu_halt`): the policy gives a window; within it the loop looks for a
//! wake event again and again; then it sleeps. The length that the policy learns is from the HLT to the
//! last look at the clock: polling, sleep and wake-up latency. Two things differ. A poll here does not end
//! because another task wants the CPU, for user space cannot see that; and a HLT costs an exit to the VMM
//! and back more than one that KVM handles.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::{Policy, Seen, Setting, Spec, SpecError};

use crate::bell::Bell;
use crate::clock;

/// Wake-up latency and CPU of a block at a weight of 1: some 25 us and 6 us (`haltwise-lab calibrate`,
/// measurements/2026-11-21-vm-calibrate).
const BREAK_EVEN_NS: u64 = 31_000;

#[derive(Debug, Clone, Copy)]
pub struct UserHalt {
    /// When it began, on `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    pub window_ns: u64,
    /// As its policy learnt it.
    pub seen: Seen,
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

    pub fn build(&self) -> Result<Box<dyn Policy>, SpecError> {
        match self {
            Self::Core(spec, setting) => spec.build(setting),
            Self::Own(_, make) => Ok(make()),
        }
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

/// The halts of one vCPU that the VMM handles.
#[derive(Debug)]
pub(crate) struct UserHalts {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) halts: Vec<UserHalt>,
}

impl UserHalts {
    /// Handles a HLT; the vector to inject, or `None` if the vCPU was kicked.
    pub(crate) fn halt(&mut self, kicked: &AtomicBool) -> io::Result<Option<u8>> {
        let is_woken = || self.bell.is_raised() || kicked.load(Ordering::Relaxed);
        let start_ns = clock::now_ns();
        let window_ns = self.policy.window(None);
        let deadline_ns = start_ns.saturating_add(window_ns);
        let (mut now_ns, mut woken, mut waited) = (start_ns, false, false);
        if window_ns > 0 {
            loop {
                // A wake-up that is found at once was there before the clock was looked at again.
                woken = is_woken();
                if woken || now_ns >= deadline_ns {
                    break;
                }
                std::hint::spin_loop();
                now_ns = clock::now_ns();
            }
        }
        let poll_ns = now_ns.saturating_sub(start_ns);
        if !woken {
            while !is_woken() {
                waited |= self.bell.sleep()?;
            }
            now_ns = clock::now_ns();
        }
        let since_raised_ns = now_ns.saturating_sub(self.bell.raised_ns().max(start_ns));
        let seen = Seen {
            halt_ns: now_ns.saturating_sub(start_ns),
            poll_ns,
            wake_latency_ns: if waited { since_raised_ns } else { 0 },
            waited,
            valid: true,
        };
        self.policy.learn(&seen);
        self.halts.push(UserHalt {
            start_ns,
            window_ns,
            seen,
        });
        Ok(self.bell.take())
    }
}
