//! Common part of the policies of cpuidle's general governors: the driver's two states, and a governor's inputs.

use super::spec::{Args, SpecError};
use super::{Ask, Policy, Seen, Setting, Side};
use crate::kvm::Version;
use crate::kvm::guest::State;
use crate::kvm::guest::cpuidle::{Driver, Ended, Governor};

pub(super) const FORM: &str =
    "residency=TIME, exit_latency=TIME, hz=N, kernel=VERSION, each optional";

/// The guest's kernel: that of a recording made in the guest, else the last one read, unless given.
pub(super) fn kernel(args: &mut Args<'_>, setting: &Setting) -> Result<Version, SpecError> {
    let recorded = match setting.side {
        Side::Host => Version::LAST_READ,
        Side::Guest => setting.version,
    };
    Ok(args.kernel("kernel")?.unwrap_or(recorded))
}

/// The driver: haltpoll's, unless told otherwise.
pub(super) fn driver(args: &mut Args<'_>) -> Result<Driver, SpecError> {
    let of = Driver::HALTPOLL;
    let hz = args.whole("hz")?;
    if hz == Some(0) {
        return Err(args.refuse("hz", "a frequency of the tick, 100 to 1000 in Linux"));
    }
    Ok(Driver {
        target_residency_ns: args.time("residency")?.unwrap_or(of.target_residency_ns),
        exit_latency_ns: args.time("exit_latency")?.unwrap_or(of.exit_latency_ns),
        tick_ns: hz.map_or(of.tick_ns, |hz| 1_000_000_000 / u64::from(hz)),
    })
}

/// A guest under a governor that chooses between `POLL` and HLT. After a poll that ends by its limit it halts; the kernel
/// asks the governor once more, which rarely chooses `POLL` again.
#[derive(Debug, PartialEq)]
pub(super) struct Guest<G> {
    pub(super) governor: G,
    pub(super) limit_ns: u64,
}

impl<G: Governor + std::fmt::Debug + PartialEq + Send + 'static> Policy for Guest<G> {
    fn window(&mut self, ask: &Ask) -> u64 {
        match self.governor.select(ask.timer_ns) {
            State::Poll => self.limit_ns,
            State::Halt => 0,
        }
    }

    fn learn(&mut self, seen: &Seen) {
        let halted_ns = seen.halt_ns.saturating_sub(seen.poll_ns);
        if seen.poll_ns > 0 {
            self.governor.reflect(&Ended {
                state: State::Poll,
                residency_ns: seen.poll_ns,
                timed_out: seen.waited,
            });
        }
        if seen.poll_ns > 0 && seen.waited {
            self.governor.select(None);
        }
        if seen.waited || seen.poll_ns == 0 {
            self.governor.reflect(&Ended {
                state: State::Halt,
                residency_ns: halted_ns,
                timed_out: false,
            });
        }
    }

    fn side(&self) -> Side {
        Side::Guest
    }
}
