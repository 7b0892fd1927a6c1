//! This machine's own idle CPUs: a Linux guest's, or bare metal's (`haltwise record --guest`).
//!
//! A halt of a vCPU, as a host sees it, begins in the guest's idle loop: cpuidle may poll first, and halts then.
//! Programs of their own (`idle.bpf.c`) tell each idle period; here they become halts of the capture's one VM,
//! this machine, whose vCPUs are its CPUs.

use std::mem::{offset_of, size_of};

use haltwise_core::decode::idle::Period;
use haltwise_core::event::{Facts, Halt, WakeSource, WindowChange};
use haltwise_core::kvm::Call;
use haltwise_core::recording::{Missing, Roster, Rung};
use libbpf_rs::skel::OpenSkel;

use super::attach::{explain, open};
use super::program::{Cost, Links, Program, Role, count_of, missed, of_idle};
use super::ring::Ring;
use super::skel::idle::types::{idle_flag, idle_lost_cause, idle_record};
use super::skel::idle::{IdleProgs, IdleSkel, IdleSkelBuilder};
use crate::bytes::{u32_at, u64_at};
use crate::collector::{CollectError, CollectOptions, Collector, Losses};
use crate::cpuidle::{Machine, polls_in_state_0};
use crate::opaque::Opaque;
use crate::root::Root;
use crate::{clock, cpus};

#[derive(Debug)]
pub struct IdleCollector {
    skel: Opaque<IdleSkel<'static>>,
    links: Links,
    ring: Ring,
    machine: Machine,
    missing: Vec<Missing>,
    cost: Cost,
    losses: Losses,
}

impl IdleCollector {
    pub fn start(options: &CollectOptions, root: Root) -> Result<Self, CollectError> {
        let cpus = cpus::online(&root)?;
        let skel = load(options, cpus::end(&root, &cpus), polls_in_state_0(&root))?;
        let ring = Ring::map(&[(&skel.maps.periods, SIZE)], options.buffer_bytes)?;
        let (links, missing) = attach(&skel.progs)?;
        let mut collector = Self {
            skel: Opaque(skel),
            links,
            ring,
            machine: Machine::new(root, &cpus),
            missing,
            cost: Cost::default(),
            losses: Losses::default(),
        };
        collector.tick_cost(clock::monotonic_ns());
        Ok(collector)
    }

    fn drain_ring(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let ceiling_ns = self.machine.ceiling_ns();
        for bytes in self.ring.take()? {
            for period in bytes.chunks_exact(SIZE).filter_map(decode) {
                self.machine.take(&period, ceiling_ns, facts);
            }
        }
        Ok(())
    }

    fn drain_lost(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        let cause = idle_lost_cause::IDLE_LOST_RING_FULL.0;
        let total = count_of(&self.skel.maps.lost, cause, "read the count of losses")?;
        let programs = programs(&self.skel.progs);
        let missed = missed(&programs, of_idle);
        let counts = std::iter::once((total, "ring buffer full")).chain(missed);
        self.losses.report(&mut facts.lost, now_ns, counts);
        Ok(())
    }

    fn tick_cost(&mut self, now_ns: u64) {
        let programs = programs(&self.skel.progs);
        self.cost.tick(now_ns, &programs);
    }
}

/// Programs that read cpuidle's own numbers.
const OF_DEVICE: [&str; 2] = ["on_cpu_idle", "on_guest_halt_poll_ns"];
/// The same where the kernel has no address of `cpuidle_devices` to give (it is built without `KALLSYMS_ALL`).
const ALONE: [&str; 2] = ["on_cpu_idle_alone", "on_guest_halt_poll_ns_alone"];

fn load(
    options: &CollectOptions,
    cpus: u32,
    has_polling_state: bool,
) -> Result<IdleSkel<'static>, CollectError> {
    let load_without = |left_out| load_one(options, cpus, has_polling_state, left_out);
    // Only the kernel knows whether it can find the device: it says so when it loads.
    match load_without(ALONE) {
        Err(CollectError::Unsupported { .. }) => load_without(OF_DEVICE),
        loaded => loaded,
    }
}

fn load_one(
    options: &CollectOptions,
    cpus: u32,
    has_polling_state: bool,
    left_out: [&str; 2],
) -> Result<IdleSkel<'static>, CollectError> {
    let mut open = open(IdleSkelBuilder::default()).map_err(explain("open the BPF programs"))?;
    if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
        settings.has_polling_state = has_polling_state;
    }
    for mut program in open.open_object_mut().progs_mut() {
        let is_left_out = left_out.iter().any(|name| program.name() == *name);
        program.set_autoload(!is_left_out);
    }
    let sized = open.maps.periods.set_max_entries(options.buffer_bytes);
    sized.map_err(explain("size the ring"))?;
    let sized = open.maps.cpus.set_max_entries(cpus);
    sized.map_err(explain("size the map of CPUs"))?;
    open.load().map_err(explain("load the BPF programs"))
}

/// The programs that are loaded, in the order in which they are attached but for the first.
fn programs<'a>(progs: &'a IdleProgs<'static>) -> Vec<Program<'a>> {
    let interrupt = |program| {
        let without_it = "what ended some idle periods is unknown";
        (Role::Other, program, Some(("wake", without_it)))
    };
    let adjusted = |program| {
        let without_it = "the governor's calls of grow and shrink are not seen";
        (Role::Window, program, Some(("change", without_it)))
    };
    let all = [
        (Role::Halt, &progs.on_cpu_idle, None),
        (Role::Halt, &progs.on_cpu_idle_alone, None),
        adjusted(&progs.on_guest_halt_poll_ns),
        adjusted(&progs.on_guest_halt_poll_ns_alone),
        interrupt(&progs.on_local_timer),
        interrupt(&progs.on_reschedule),
        interrupt(&progs.on_call_function),
        interrupt(&progs.on_call_function_single),
        interrupt(&progs.on_irq_handler),
        (
            Role::Waking,
            &progs.on_wake_without_ipi,
            Some((
                "wake",
                "polls that another CPU ended are not distinguished from others",
            )),
        ),
        (
            Role::Other,
            &progs.on_ipi_send,
            Some((
                "wake_latency_ns",
                "wake-up latencies of halts that an IPI ended are unknown",
            )),
        ),
    ];
    let loaded = all.into_iter().filter(|(_, program, _)| program.autoload());
    loaded.collect()
}

fn attach(progs: &IdleProgs<'static>) -> Result<(Links, Vec<Missing>), CollectError> {
    let mut links = Links::default();
    let mut missing = vec![Missing::new(
        "wake_latency_ns",
        "a guest does not see when a device's interrupt reached its host: the wake-up latency of \
                 halts that devices ended is unknown",
    )];
    if progs.on_cpu_idle_alone.autoload() {
        missing.push(Missing::new(
            "window_ns",
            "cpuidle's limits and residencies are unknown: this kernel does not say where \
                     cpuidle_devices is (CONFIG_KALLSYMS_ALL)",
        ));
    }
    let programs = programs(progs);
    missing.extend(links.attach_all(&programs));
    let (_, idle, _) = &programs[0];
    let idle = idle.attach();
    links.push(idle.map_err(explain("attach cpu_idle"))?);
    Ok((links, missing))
}

impl Collector for IdleCollector {
    fn rung(&self) -> Rung {
        Rung::Bpf
    }

    fn confine(&mut self) {
        self.cost.hand_over(self.machine.root());
        self.ring.keep_empty();
    }

    fn drain(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let now_ns = clock::monotonic_ns();
        self.drain_ring(facts)?;
        self.drain_lost(facts, now_ns)?;
        self.tick_cost(now_ns);
        Ok(())
    }

    fn begin(&mut self) -> Result<u64, CollectError> {
        let mut before = Facts::default();
        let began_ns = clock::monotonic_ns();
        self.drain_ring(&mut before)?;
        self.drain_lost(&mut before, began_ns)?;
        self.machine.begin(began_ns);
        Ok(began_ns)
    }

    fn end(&mut self, facts: &mut Facts) -> Result<u64, CollectError> {
        if let Some(ended_ns) = self.machine.counting.ended_ns {
            return Ok(ended_ns);
        }
        self.drain_ring(facts)?;
        let ended_ns = clock::monotonic_ns();
        self.machine.counting.ended_ns = Some(ended_ns);
        Ok(ended_ns)
    }

    fn stop(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let now_ns = clock::monotonic_ns();
        let programs = programs(&self.skel.progs);
        self.cost.rest(now_ns, &programs);
        self.end(facts)?;
        self.links.detach();
        self.drain_ring(facts)?;
        self.drain_lost(facts, now_ns)
    }

    fn roster(&self) -> &Roster {
        self.machine.roster()
    }

    fn missing(&self) -> Vec<Missing> {
        self.missing.clone()
    }

    fn kernel_cpu_ns(&self) -> Option<u64> {
        self.cost.total_ns(clock::monotonic_ns())
    }

    /// A period takes two runs: one where it begins, one where it ends.
    fn added_ns_per_halt(&self) -> Option<f64> {
        self.cost.per_halt_ns().map(|each| each * 2.0)
    }
}

const SIZE: usize = size_of::<idle_record>();
const _: () = assert!(
    SIZE == 64,
    "idle_record in idle_intf.h changed: look at this decoder"
);

/// `None` if there are too few bytes; more are ignored (the ring pads to eight).
pub(super) fn decode(bytes: &[u8]) -> Option<Period> {
    let u32_of = |offset| u32_at(bytes, offset);
    let u64_of = |offset| u64_at(bytes, offset);
    let flags = u32_of(offset_of!(idle_record, flags))?;
    let has = |flag: idle_flag| flags & flag.0 != 0;
    let limit = |ns: u32| has(idle_flag::IDLE_LIMIT_KNOWN).then_some(ns);
    let change = Call {
        grow: has(idle_flag::IDLE_GREW),
        old: u32_of(offset_of!(idle_record, change_old_ns))?,
        new: u32_of(offset_of!(idle_record, change_new_ns))?,
    };
    let wake_ns = u64_of(offset_of!(idle_record, wake_ns))?;
    Some(Period {
        cpu: u32_of(offset_of!(idle_record, cpu))?,
        start_ns: u64_of(offset_of!(idle_record, start_ns))?,
        end_ns: u64_of(offset_of!(idle_record, end_ns))?,
        poll_ns: u64_of(offset_of!(idle_record, poll_ns))?,
        halt_ns: u64_of(offset_of!(idle_record, halt_ns))?,
        polled: has(idle_flag::IDLE_POLLED),
        halted: has(idle_flag::IDLE_HALTED),
        told_apart: has(idle_flag::IDLE_RESIDENCY_KNOWN),
        limit_ns: limit(u32_of(offset_of!(idle_record, limit_ns))?),
        limit_next_ns: limit(u32_of(offset_of!(idle_record, limit_next_ns))?),
        change: (change.grow || has(idle_flag::IDLE_SHRANK)).then_some(change),
        wake: wake(has),
        wake_ns: (wake_ns > 0).then_some(wake_ns),
    })
}

fn wake(has: impl Fn(idle_flag) -> bool) -> WakeSource {
    if has(idle_flag::IDLE_WAKE_STORE) || has(idle_flag::IDLE_WAKE_IPI) {
        WakeSource::Ipi
    } else if has(idle_flag::IDLE_WAKE_TIMER) {
        WakeSource::Timer
    } else if has(idle_flag::IDLE_WAKE_DEVICE) {
        WakeSource::Device
    } else {
        WakeSource::Unknown
    }
}

#[doc(hidden)]
pub fn fuzz_idle(bytes: &[u8]) -> Option<(Halt, Option<WindowChange>)> {
    let period = decode(bytes)?;
    let halt = period.halt(0, None);
    Some((halt, period.change.map(|call| call.row(&halt))))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::bytes::made_of;

    /// A record as the kernel side writes it; no two fields are equal, so that each is read from its own place.
    fn bytes(flags: &[idle_flag], wake_ns: u64) -> Vec<u8> {
        let longs = [
            (offset_of!(idle_record, start_ns), 1_000_000),
            (offset_of!(idle_record, end_ns), 1_300_000),
            (offset_of!(idle_record, poll_ns), 50_000),
            (offset_of!(idle_record, halt_ns), 250_000),
            (offset_of!(idle_record, wake_ns), wake_ns),
        ];
        let flags = flags.iter().fold(0, |all, flag| all | flag.0);
        let words = [
            (offset_of!(idle_record, cpu), 3),
            (offset_of!(idle_record, limit_ns), 60_000),
            (offset_of!(idle_record, limit_next_ns), 120_000),
            (offset_of!(idle_record, change_old_ns), 70_000),
            (offset_of!(idle_record, change_new_ns), 130_000),
            (offset_of!(idle_record, flags), flags),
        ];
        made_of(SIZE, &longs, &words)
    }

    #[test]
    fn a_record_is_a_period() {
        let bytes = bytes(
            &[
                idle_flag::IDLE_POLLED,
                idle_flag::IDLE_HALTED,
                idle_flag::IDLE_LIMIT_KNOWN,
                idle_flag::IDLE_RESIDENCY_KNOWN,
                idle_flag::IDLE_GREW,
                idle_flag::IDLE_WAKE_TIMER,
            ],
            1_280_000,
        );
        let expected = Period {
            cpu: 3,
            start_ns: 1_000_000,
            end_ns: 1_300_000,
            poll_ns: 50_000,
            halt_ns: 250_000,
            polled: true,
            halted: true,
            told_apart: true,
            limit_ns: Some(60_000),
            limit_next_ns: Some(120_000),
            change: Some(Call {
                grow: true,
                old: 70_000,
                new: 130_000,
            }),
            wake: WakeSource::Timer,
            wake_ns: Some(1_280_000),
        };
        assert_eq!(decode(&bytes), Some(expected));
        assert_eq!(decode(&bytes[..SIZE - 1]), None);
    }

    #[test]
    fn what_is_not_known_is_none_and_a_store_is_an_ipi_that_was_not_sent() {
        let period = decode(&bytes(&[idle_flag::IDLE_WAKE_STORE], 0)).unwrap();
        assert_eq!((period.limit_ns, period.limit_next_ns), (None, None));
        assert_eq!((period.change, period.wake_ns), (None, None));
        assert_eq!((period.wake, period.told_apart), (WakeSource::Ipi, false));
        let shrank = decode(&bytes(&[idle_flag::IDLE_SHRANK], 0)).unwrap();
        assert_eq!(shrank.change.map(|change| change.grow), Some(false));
    }
}
