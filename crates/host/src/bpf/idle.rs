//! This machine's own idle CPUs: a Linux guest's, or bare metal's (`haltwise record --guest`).
//!
//! A halt of a vCPU, as a host sees it, begins in the guest's idle loop: cpuidle may poll first, and halts then.
//! Programs of their own (`idle.bpf.c`) tell each idle period; here they become halts of the capture's one VM,
//! this machine, whose vCPUs are its CPUs.

mod record;

use haltwise_core::event::Facts;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};
use libbpf_rs::skel::OpenSkel;

use self::record::SIZE;
use super::attach::{explain, open};
use super::cost::Cost;
use super::links::Links;
use super::missed::{count_of, missed, of_idle};
use super::program::{Program, Role};
use super::ring::Ring;
use super::skel::idle::types::idle_lost_cause;
use super::skel::idle::{IdleProgs, IdleSkel, IdleSkelBuilder};
use crate::clock;
use crate::collector::{CollectError, CollectOptions, Collector};
use crate::cpus;
use crate::idle::{Machine, polls_in_state_0};
use crate::losses::Losses;
use crate::opaque::Opaque;
use crate::root::Root;

pub use self::record::fuzz_idle;

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
        if options.mode != Mode::Full {
            let what = format!("record this machine's idle CPUs in {} mode", options.mode);
            return Err(CollectError::unsupported(what));
        }
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
            for period in bytes.chunks_exact(SIZE).filter_map(record::decode) {
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
    let mut links = Links::none();
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
