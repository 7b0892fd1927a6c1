//! A load, the description of a run: which guest, how many, how long, in which rhythm.

use haltwise_core::policy::SpecError;
use haltwise_core::units::{HaltPollNs, Nanos};
use haltwise_core::workload::{GapSpec, GapSpecError, Gaps};

use crate::clock::HostWait;
use crate::guest::{Guest, Known, Stamps, known};
use crate::guest_poll::{GuestPoll, GuestPollError};
use crate::halt_loop::HaltPolicy;
use crate::memory::TABLE_ENTRIES;
use crate::routing::Interrupts;

/// KVM's PIT and APIC timers do not tick faster (`min_timer_period_us`, default).
const MIN_PERIOD: Nanos = Nanos(200_000);
const PIT_HZ: u64 = 1_193_182;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Rounds(u32),
    Duration(Nanos),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rhythm {
    pub spec: GapSpec,
    /// The gaps of its file, if it is a trace.
    pub trace: Vec<Nanos>,
    /// The seed of the first stream of gaps; the next stream takes the next seed.
    pub seed: u64,
}

impl Rhythm {
    pub fn gaps(&self, stream: u32) -> Result<Gaps, GapSpecError> {
        match &self.spec {
            GapSpec::Trace(name) => Gaps::from_trace(name, self.trace.clone()),
            spec => Gaps::new(spec.clone(), self.seed.wrapping_add(stream.into())),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Load {
    pub guest: Guest,
    pub vms: u32,
    pub vcpus: u32,
    pub length: Length,
    pub rhythm: Rhythm,
    /// Ceiling of halt polling of each VM; the module parameter if `None`.
    pub vm_max_halt_poll_ns: Option<HaltPollNs>,
    /// Ceilings that each VM is given while it runs, in turn and again and again.
    pub caps: Vec<HaltPollNs>,
    pub caps_every: Nanos,
    /// Gaps that each VM has while it runs, in turn and again and again, in place of `rhythm`'s.
    pub gaps: Vec<GapSpec>,
    pub gaps_every: Nanos,
    /// CPUs that vCPU threads are pinned to, in turn; not pinned if empty.
    pub vcpu_cpus: Vec<u32>,
    /// CPU that the host's own threads are pinned to.
    pub host_cpu: Option<u32>,
    /// Name of the VM; with several, `-0`, `-1` … are appended in order of creation.
    pub name: String,
    pub host_wait: HostWait,
    /// A vCPU that makes no progress for so long has hung.
    pub timeout: Nanos,
    pub guest_poll: GuestPoll,
    pub ioapic: bool,
    /// How long the VMs are kept after their vCPUs have ended, for those who read their statistics.
    pub linger: Nanos,
    /// Handler of halts in place of KVM, which then has no irqchip.
    pub halt_policy: Option<HaltPolicy>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    #[error("`{guest}` takes {low} to {high} vCPUs per VM, not {vcpus}")]
    Vcpus {
        guest: Guest,
        vcpus: u32,
        low: u32,
        high: u32,
    },
    #[error("a run needs at least one VM and one round")]
    Nothing,
    #[error("`{0}` has a periodic timer: its gap is `fixed:T`")]
    NotFixed(Guest),
    #[error("`{guest}` cannot tick every {period}: from {low} to {high} is possible")]
    Period {
        guest: Guest,
        period: Nanos,
        low: Nanos,
        high: Nanos,
    },
    #[error("`{0}` does not read its gaps while it runs: `tick` and the timed guests do")]
    GapsInTurn(Guest),
    #[error("`{0}` needs a local APIC: a halt loop in the VMM runs `pingpong` only")]
    NeedsApic(Guest),
    #[error("a halt loop in the VMM has no IOAPIC")]
    NoIoapic,
    #[error("guest polling")]
    GuestPoll(#[from] GuestPollError),
    #[error("halt loop")]
    Policy(#[from] SpecError),
    #[error("draw gaps")]
    Gaps(#[from] GapSpecError),
}

impl Load {
    /// Load of a guest if nothing else is asked of the guest.
    pub fn new(guest: Guest) -> Self {
        let Known { gap_us, rounds, .. } = known(guest);
        Self {
            guest,
            vms: 1,
            vcpus: if guest.is_ring() { 2 } else { 1 },
            length: Length::Rounds(rounds),
            rhythm: Rhythm {
                spec: GapSpec::Fixed(Nanos(gap_us * 1_000)),
                trace: Vec::new(),
                seed: 1,
            },
            vm_max_halt_poll_ns: None,
            caps: Vec::new(),
            caps_every: Nanos(100_000_000),
            gaps: Vec::new(),
            gaps_every: Nanos(1_000_000_000),
            vcpu_cpus: Vec::new(),
            host_cpu: None,
            name: "lab".to_owned(),
            host_wait: HostWait::Block,
            timeout: Nanos(10_000_000_000),
            linger: Nanos(0),
            halt_policy: None,
            guest_poll: GuestPoll::default(),
            ioapic: false,
        }
    }

    pub fn interrupts(&self) -> Interrupts {
        match (self.halt_policy.is_some(), self.ioapic) {
            (true, _) => Interrupts::Vmm,
            (false, true) => Interrupts::Ioapic,
            (false, false) => Interrupts::Msi,
        }
    }

    /// Whether it can be run at all.
    pub fn check(&self) -> Result<(), LoadError> {
        let guest = self.guest;
        let most = self.interrupts().max_vcpus();
        let (low, high) = match guest {
            _ if guest.is_ring() => (2, most),
            _ if guest.has_pit() => (1, 1),
            _ => (1, most),
        };
        let vcpus = self.vcpus;
        if self.vms == 0 || self.length == Length::Rounds(0) {
            return Err(LoadError::Nothing);
        }
        if !(low..=high).contains(&vcpus) {
            return Err(LoadError::Vcpus {
                guest,
                vcpus,
                low,
                high,
            });
        }
        if let Some(policy) = &self.halt_policy {
            if guest != Guest::Pingpong(Stamps::None) {
                return Err(LoadError::NeedsApic(guest));
            }
            if self.ioapic {
                return Err(LoadError::NoIoapic);
            }
            policy.build()?;
        }
        self.rhythm.gaps(0)?;
        if !self.gaps.is_empty() && !guest.has_deadlines() {
            return Err(LoadError::GapsInTurn(guest));
        }
        self.period().map(|_| ())
    }

    /// Value that the guest programs into its periodic timer; 0 if the guest has none.
    pub fn period(&self) -> Result<u32, LoadError> {
        let guest = self.guest;
        let high = match guest {
            _ if guest.has_pit() => Nanos(u64::from(u16::MAX) * 1_000_000_000 / PIT_HZ),
            Guest::Idle => Nanos(u32::MAX.into()),
            _ => return Ok(0),
        };
        let GapSpec::Fixed(period) = self.rhythm.spec else {
            return Err(LoadError::NotFixed(guest));
        };
        let low = MIN_PERIOD;
        let out_of_reach = LoadError::Period {
            guest,
            period,
            low,
            high,
        };
        if !(low..=high).contains(&period) {
            return Err(out_of_reach);
        }
        let units = match guest {
            Guest::Idle => period.0,
            _ => (period.0 * PIT_HZ + 500_000_000) / 1_000_000_000,
        };
        u32::try_from(units).map_err(|_| out_of_reach)
    }

    /// Rounds that the guest itself counts to.
    pub fn rounds(&self) -> Option<u32> {
        match self.length {
            Length::Rounds(rounds) => Some(rounds),
            Length::Duration(_) => None,
        }
    }

    pub fn vm_name(&self, vm: u32) -> String {
        if self.vms == 1 {
            self.name.clone()
        } else {
            format!("{}-{vm}", self.name)
        }
    }

    pub fn cpu_of(&self, vm: u32, vcpu: u32) -> Option<u32> {
        let index = (vm * self.vcpus + vcpu) as usize;
        let cpus = &self.vcpu_cpus;
        (!cpus.is_empty()).then(|| cpus[index % cpus.len()])
    }

    /// Timer deltas of a VM with these gaps in TSC ticks, at least one.
    pub(crate) fn ticks(
        &self,
        spec: &GapSpec,
        vm: u32,
        tsc_khz: u32,
    ) -> Result<Vec<u64>, GapSpecError> {
        let rhythm = Rhythm {
            spec: spec.clone(),
            ..self.rhythm.clone()
        };
        let mut gaps = rhythm.gaps(vm)?;
        let ticks = |gap: Nanos| {
            let ticks = u128::from(gap.0) * u128::from(tsc_khz) / 1_000_000;
            u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
        };
        Ok((0..TABLE_ENTRIES).map(|_| ticks(gaps.draw())).collect())
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::guest::Timer;

    #[test]
    fn every_guest_runs_as_it_is() {
        for guest in Guest::all() {
            assert_eq!(Load::new(guest).check(), Ok(()), "{guest}");
        }
    }

    #[test]
    fn periods_become_what_the_timer_takes() {
        let mut pit = Load::new(Guest::Tick(Timer::Pit));
        assert_eq!(pit.period(), Ok(11_932));
        let mut idle = Load::new(Guest::Idle);
        assert_eq!(idle.period(), Ok(100_000_000));
        for (load, gap) in [(&mut pit, "fixed:55ms"), (&mut idle, "fixed:5s")] {
            load.rhythm.spec = gap.parse().unwrap();
            assert!(matches!(load.check(), Err(LoadError::Period { .. })));
            load.rhythm.spec = "exp:1ms".parse().unwrap();
            assert!(matches!(load.check(), Err(LoadError::NotFixed(_))));
        }
    }

    #[test]
    fn gaps_in_turn_are_for_guests_that_read_them_while_they_run() {
        for guest in Guest::all() {
            let load = Load {
                gaps: vec!["exp:1ms".parse().unwrap()],
                ..Load::new(guest)
            };
            let expected = if guest.has_deadlines() {
                Ok(())
            } else {
                Err(LoadError::GapsInTurn(guest))
            };
            assert_eq!(load.check(), expected, "{guest}");
        }
    }

    #[test]
    fn deltas_are_ticks_of_the_tsc_and_every_vm_draws_its_own() {
        let tick = Load::new(Guest::Tick(Timer::TscDeadline));
        let fixed = tick.ticks(&tick.rhythm.spec, 0, 2_600_000).unwrap();
        assert_eq!(fixed[..2], [2_600_000, 2_600_000]);
        let drawn = GapSpec::Exp(Nanos(60_000));
        let [first, second] = [0, 1].map(|vm| tick.ticks(&drawn, vm, 1_000_000));
        assert_ne!(first, second);
    }

    #[test]
    fn vms_and_cpus_go_in_order() {
        let load = Load {
            vms: 2,
            vcpus: 2,
            vcpu_cpus: vec![1, 0, 5],
            ..Load::new(Guest::Pingpong(Stamps::None))
        };
        assert_eq!(load.vm_name(1), "lab-1");
        let cpus = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(vm, vcpu)| load.cpu_of(vm, vcpu));
        assert_eq!(cpus, [Some(1), Some(0), Some(5), Some(1)]);
    }
}
