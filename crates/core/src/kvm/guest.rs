//! The guest's own polling: cpuidle's haltpoll governor, `drivers/cpuidle/governors/haltpoll.c`.
//!
//! A guest that polls before it halts saves the exit and the IPI as well as the host's wake-up. Each
//! guest CPU has a limit, `poll_limit_ns`, which starts at 0. cpuidle asks [`select`] what to do
//! with an idle CPU, and tells [`Rule::reflect`] what came of it. Since 5.4; x86 only up to 7.2.
//!
//! Where it differs from the host's rule:
//! * It judges the time in HLT alone, [polling not included](Rule::adjust): with a limit L and the
//!   ceiling G, idle times up to L + G still count as short.
//! * Growth is capped while it happens, a factor of 0 still grows to `grow_start`, equality with the
//!   ceiling grows, and shrinking may be forbidden.
//! * It starts at 50 us, and polls whether or not the host has other work for the CPU.
//! * An interrupt that asks for no rescheduling neither ends a poll nor restarts it. `poll_idle`
//!   (`drivers/cpuidle/poll_state.c`) looks at the clock in every 201st turn of its loop only, so a
//!   poll may pass its limit by that much.
//! * While its driver has a CPU online, the host's polling for it is off:
//!   it writes 0 to `MSR_KVM_POLL_CONTROL`.
//!
//! The general governors that a guest may have instead, menu and teo, nearly always choose HLT: with the driver haltpoll HLT
//! is worth it from a microsecond on. So they are taken for no polling.
//!
//! Left out: the driver's states always number two, so the check for none (up to 6.12) is not here.

use serde::{Deserialize, Serialize};

use super::step::Call;
use super::version::Version;

/// The parameters in `/sys/module/haltpoll/parameters`, without the `guest_halt_poll_` of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Params {
    /// `guest_halt_poll_ns` in nanoseconds: the ceiling of the limit.
    pub guest_halt_poll_ns: u32,
    /// `guest_halt_poll_grow`: the factor by which a limit grows.
    pub grow: u32,
    /// `guest_halt_poll_grow_start` in nanoseconds: the first limit above 0.
    pub grow_start: u32,
    /// `guest_halt_poll_shrink`: the divisor by which a limit shrinks, 0 for "at once to 0".
    pub shrink: u32,
    /// `guest_halt_poll_allow_shrink`. If it is off, lowering the ceiling reaches no limit that has
    /// grown: nothing else lowers one.
    pub allow_shrink: bool,
}

impl Default for Params {
    /// The kernel's defaults, the same in every kernel that has these parameters.
    fn default() -> Self {
        Self {
            guest_halt_poll_ns: 200_000,
            grow: 2,
            grow_start: 50_000,
            shrink: 2,
            allow_shrink: true,
        }
    }
}

/// State of an idle guest CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// State 0, `POLL`: spin until work comes or the limit is over.
    Poll,
    /// State 1, `haltpoll idle`: HLT, which is a halt of the vCPU on its host.
    Halt,
}

/// How the last idle state of a CPU went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Last {
    /// It polled. `timed_out`: until the limit was over (`poll_time_limit`).
    Poll {
        /// Whether the limit ended it, rather than work.
        timed_out: bool,
    },
    /// It was in HLT, for so many nanoseconds: `last_residency_ns`.
    Halt {
        /// From HLT to running again, polling not included.
        residency_ns: u64,
    },
}

/// Result of `adjust_poll_limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Adjusted {
    /// The limit from now on, in nanoseconds.
    pub limit_ns: u32,
    /// Report of the tracepoint `guest_halt_poll_ns` (since 6.0, by the date of its commit); the tracepoint
    /// reports every growing and shrinking, also where nothing changes.
    pub call: Option<Call>,
}

/// The governor of an era.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rule {
    /// Whether a residency is known in whole microseconds only. 5.4, whose `adjust_poll_limit` takes
    /// `block_us`; nanoseconds since. That 5.5 was the next step is inferred; both forms were read.
    pub residency_in_us: bool,
    /// Whether a limit that shrinks below `grow_start` goes to 0. 6.1 lacks it, 6.12 has it; posted
    /// in January 2024, so 6.9, inferred.
    pub shrink_floor: bool,
}

impl Rule {
    /// The governor of an upstream kernel; `None` before 5.4, which has none.
    pub fn of(version: Version) -> Option<Self> {
        (version >= Version::new(5, 4)).then(|| Self {
            residency_in_us: version < Version::new(5, 5),
            shrink_floor: version >= Version::new(6, 9),
        })
    }

    /// The limit of a CPU after an idle period: `haltpoll_reflect`. Only HLT moves the limit.
    pub fn reflect(self, params: &Params, limit_ns: u32, last: Last) -> Adjusted {
        match last {
            Last::Poll { .. } => Adjusted {
                limit_ns,
                call: None,
            },
            Last::Halt { residency_ns } => self.adjust(params, limit_ns, residency_ns),
        }
    }

    /// The limit after a time in HLT: `adjust_poll_limit`.
    ///
    /// The kernel keeps the limit in 64 bits, but every value it stores there went through `unsigned
    /// int`.
    pub fn adjust(self, params: &Params, limit_ns: u32, residency_ns: u64) -> Adjusted {
        let block_ns = if self.residency_in_us {
            residency_ns / 1_000 * 1_000
        } else {
            residency_ns
        };
        let ceiling = params.guest_halt_poll_ns;
        let (grow, new) = if block_ns > u64::from(ceiling) {
            if !params.allow_shrink {
                return Adjusted {
                    limit_ns,
                    call: None,
                };
            }
            (false, self.shrink(params, limit_ns))
        } else if block_ns > u64::from(limit_ns) {
            let product = limit_ns.wrapping_mul(params.grow);
            (true, product.max(params.grow_start).min(ceiling))
        } else {
            return Adjusted {
                limit_ns,
                call: None,
            };
        };
        Adjusted {
            limit_ns: new,
            call: Some(Call {
                grow,
                old: limit_ns,
                new,
            }),
        }
    }

    fn shrink(self, params: &Params, limit_ns: u32) -> u32 {
        let shrunk = limit_ns.checked_div(params.shrink).unwrap_or(0);
        if self.shrink_floor && shrunk < params.grow_start {
            0
        } else {
            shrunk
        }
    }
}

/// Chooses the state of an idle CPU: `haltpoll_select`.
///
/// `latency_req_ns` is the CPU's latency limit (`PM_QOS`); only 0 counts. The same in every era.
pub fn select(limit_ns: u32, last: Last, latency_req_ns: i64) -> State {
    match (latency_req_ns, limit_ns, last) {
        (0, _, _) => State::Poll,
        (_, 0, _) | (_, _, Last::Poll { timed_out: true }) => State::Halt,
        _ => State::Poll,
    }
}

#[cfg(test)]
mod test;
