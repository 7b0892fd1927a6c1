//! How the guest `poller` polls: its rule and parameters, and the words that tell it.

use std::fmt;
use std::str::FromStr;

use haltwise_core::kvm::guest::Params;
use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::{Setting, Spec, SpecError};
use haltwise_core::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::memory::{GuestMemory, poll, vcpu_page};
use crate::vcpu::STOP_GRACE;

/// How long a guest that never idles polls before it halts once. It looks for its stop line at that halt alone, so this is
/// well below [`STOP_GRACE`] at any rate of the TSC; and long, since work that comes late on a busy host must not end it.
const ALWAYS_NS: u32 = 1_000_000_000;

const _: () = assert!(ALWAYS_NS as u64 <= STOP_GRACE.0 / 2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollRule {
    Never,
    /// None: it polls until work comes.
    Always,
    Haltpoll(Params),
    Smart {
        /// Idle times above it are long, in nanoseconds; also the most that it polls.
        threshold_ns: u32,
        grow: u32,
        shrink: u32,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct GuestPoll {
    pub rule: PollRule,
    /// Whether the host may poll for it as well: what it writes to `MSR_KVM_POLL_CONTROL`.
    pub host_polls: bool,
    /// Whether vCPU 0 notes what its rule judges: exact, and some microseconds slower.
    pub takes_notes: bool,
    spec: Spec,
}

/// Why a text says no way to poll.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GuestPollError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("a guest polls by off, fixed:always, guest-haltpoll or smart-idle-poll, not by `{0}`")]
    NotInGuest(String),
}

impl FromStr for GuestPoll {
    type Err = GuestPollError;

    /// As the core's policies are written; the host does not poll for it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let spec: Spec = text.parse()?;
        // Says what is wrong with an argument, so that below every one can be read.
        spec.build(&Setting::upstream(Version::LAST_READ, Arch::X86, 0))?;
        let time = |key: &str, default: u32| {
            let time = spec.arg(key).and_then(|text| text.parse::<Nanos>().ok());
            time.map_or(default, |time| u32::try_from(time.0).unwrap_or(u32::MAX))
        };
        let whole = |key: &str, default: u32| {
            spec.arg(key)
                .and_then(|text| text.parse().ok())
                .unwrap_or(default)
        };
        let default = Params::default();
        let rule = match (spec.name(), spec.arg("")) {
            ("off", _) => PollRule::Never,
            ("fixed", Some("always")) => PollRule::Always,
            ("guest-haltpoll", _) => PollRule::Haltpoll(Params {
                guest_halt_poll_ns: time("max", default.guest_halt_poll_ns),
                grow: whole("grow", default.grow),
                grow_start: time("grow_start", default.grow_start),
                shrink: whole("shrink", default.shrink),
                allow_shrink: spec.arg("allow_shrink") != Some("N"),
            }),
            ("smart-idle-poll", _) => PollRule::Smart {
                threshold_ns: time("paravirt_poll_threshold_ns", 100_000),
                grow: whole("paravirt_poll_grow", 2),
                shrink: whole("paravirt_poll_shrink", 2),
            },
            _ => return Err(GuestPollError::NotInGuest(text.to_owned())),
        };
        Ok(Self {
            rule,
            host_polls: false,
            takes_notes: false,
            spec,
        })
    }
}

impl fmt::Display for GuestPoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl Default for GuestPoll {
    /// The governor with its own parameters, and host polling vetoed, as its driver does.
    fn default() -> Self {
        "guest-haltpoll".parse().expect("a policy of the core")
    }
}

impl GuestPoll {
    pub(crate) fn tell(
        &self,
        memory: &GuestMemory,
        vcpu: u32,
        next: u32,
        tsc_khz: u32,
    ) -> anyhow::Result<()> {
        let ticks = |ns| ticks(ns, tsc_khz);
        let mut words = vec![
            (poll::TSC_KHZ, tsc_khz.max(1)),
            (poll::MILLION, 1_000_000),
            (poll::HOST_POLLS, u32::from(self.host_polls)),
            (poll::NEXT_SEGMENT, vcpu_page(next) >> 4),
            (poll::IS_FIRST, u32::from(vcpu == 0)),
            (poll::TAKES_NOTES, u32::from(vcpu == 0 && self.takes_notes)),
        ];
        match self.rule {
            PollRule::Never => {}
            PollRule::Always => {
                words.extend([
                    (poll::LIMIT_NS, ALWAYS_NS),
                    (poll::LIMIT_TICKS, ticks(ALWAYS_NS)),
                ]);
            }
            PollRule::Haltpoll(params) => words.extend([
                (poll::RULE, poll::RULE_HALTPOLL),
                (poll::CEILING_NS, params.guest_halt_poll_ns),
                (poll::GROW, params.grow),
                (poll::GROW_START_NS, params.grow_start),
                (poll::SHRINK, params.shrink),
                (poll::ALLOW_SHRINK, u32::from(params.allow_shrink)),
            ]),
            PollRule::Smart {
                threshold_ns,
                grow,
                shrink,
            } => words.extend([
                (poll::RULE, poll::RULE_SMART),
                (poll::CEILING_NS, threshold_ns),
                (poll::CEILING_TICKS, ticks(threshold_ns)),
                (poll::GROW, grow),
                (poll::SHRINK, shrink),
            ]),
        }
        let mut words = words.into_iter();
        words.try_for_each(|(word, value)| memory.set_word(vcpu, word, value))
    }
}

/// A time in ticks of the TSC, of which the guest compares 32 bits.
fn ticks(ns: u32, tsc_khz: u32) -> u32 {
    let ticks = u64::from(ns) * u64::from(tsc_khz) / 1_000_000;
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GuestPollCounts {
    pub rounds: u64,
    /// Those of them that a poll found.
    pub successful_polls: u64,
    pub ipis_sent: u64,
    /// IPIs that the next vCPU did not need.
    pub ipis_spared: u64,
    /// Interrupts that the host did not need to raise.
    pub interrupts_spared: u64,
    /// The limit at the end, in nanoseconds.
    pub limit_ns: u64,
}

/// A time that the guest's rule judged, and the limit after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollNote {
    /// In HLT (haltpoll), or idle in all (smart idle poll), in nanoseconds.
    pub judged_ns: u32,
    /// The limit from then on, in nanoseconds.
    pub limit_ns: u32,
}

/// The notes of vCPU 0, in order; empty if it took more than its table holds.
pub(crate) fn notes(memory: &GuestMemory) -> anyhow::Result<Vec<PollNote>> {
    let taken = memory.word(0, poll::NOTES)? as usize;
    if taken > crate::memory::TABLE_ENTRIES {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; taken * 8];
    memory.read(crate::memory::TABLE, &mut bytes)?;
    let words = bytes.as_chunks().0.iter();
    let words: Vec<u32> = words.map(|word| u32::from_le_bytes(*word)).collect();
    let note = |&[judged_ns, limit_ns]: &[u32; 2]| PollNote {
        judged_ns,
        limit_ns,
    };
    Ok(words.as_chunks().0.iter().map(note).collect())
}

#[cfg(test)]
mod test {
    use super::*;

    /// Also where 32 bits of a slow TSC outlast the time in which a guest must stop.
    #[test]
    fn a_guest_that_always_polls_halts_before_it_must_have_stopped() {
        for tsc_khz in [1, 1_000_000, 2_100_000, 2_147_483, 3_000_000, 5_000_000] {
            let ns = u64::from(ticks(ALWAYS_NS, tsc_khz)) * 1_000_000 / u64::from(tsc_khz);
            assert!(ns <= STOP_GRACE.0 / 2, "{tsc_khz} kHz: {ns} ns");
        }
        assert_eq!(ticks(ALWAYS_NS, 2_100_000), 2_100_000_000);
    }

    #[test]
    fn the_ways_to_poll_are_the_cores_policies() {
        let of = |text: &str| text.parse::<GuestPoll>().map(|poll| poll.rule);
        assert_eq!(of("off"), Ok(PollRule::Never));
        assert_eq!(of("fixed:always"), Ok(PollRule::Always));
        assert_eq!(
            of("guest-haltpoll"),
            Ok(PollRule::Haltpoll(Params::default()))
        );
        let five = "guest-haltpoll:max=1ms,grow=3,\
                    grow_start=20us,shrink=0,\
                    allow_shrink=N";
        let params = Params {
            guest_halt_poll_ns: 1_000_000,
            grow: 3,
            grow_start: 20_000,
            shrink: 0,
            allow_shrink: false,
        };
        assert_eq!(of(five), Ok(PollRule::Haltpoll(params)));
        assert_eq!(five.parse::<GuestPoll>().unwrap().to_string(), five);
        let smart = PollRule::Smart {
            threshold_ns: 50_000,
            grow: 2,
            shrink: 2,
        };
        assert_eq!(
            of("smart-idle-poll:paravirt_poll_threshold_ns=50us"),
            Ok(smart)
        );
        for wrong in ["fixed:50us", "kvm", "guest-haltpoll:most=1us", "linux", ""] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
