//! This machine's own idle CPUs: a Linux guest's, or bare metal's (`haltwise record --guest`).
//!
//! What a host sees as a halt of a vCPU begins in the guest's idle loop: cpuidle may poll first, and halts then.
//! Programs of their own (`idle.bpf.c`) tell each idle period; here they become halts of the capture's one VM,
//! this machine, whose vCPUs are its CPUs.

mod record;
mod skel;

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use haltwise_core::event::{Facts, Lost};
use haltwise_core::recording::{Missing, Mode, Roster, Rung};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{OpenObject, ProgramMut};

use self::record::SIZE;
use self::skel::types::idle_lost_cause;
use self::skel::{IdleProgs, IdleSkel, IdleSkelBuilder};
use super::attach::{explain, hush_libbpf};
use super::cost::Cost;
use super::links::Links;
use super::missed::{Missed, OF_IDLE, lost_by};
use super::program::Programs;
use super::ring::Ring;
use crate::clock;
use crate::collector::{CollectError, CollectOptions, Collector};
use crate::cpus;
use crate::idle::{Machine, polls_in_state_0};
use crate::root::Root;

pub use self::record::fuzz_idle;

pub struct IdleCollector {
    skel: IdleSkel<'static>,
    links: Links,
    ring: Ring,
    machine: Machine,
    missing: Vec<Missing>,
    device: Device,
    cost: Cost,
    lost_before: u64,
    missed: Missed,
}

impl std::fmt::Debug for IdleCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdleCollector")
            .field("programs", &self.links.len())
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

impl IdleCollector {
    pub fn start(options: &CollectOptions, root: Root) -> Result<Self, CollectError> {
        if options.mode != Mode::Full {
            return Err(CollectError::Unsupported {
                what: format!("record this machine's idle CPUs in {} mode", options.mode),
                source: None,
            });
        }
        let cpus = cpus::online(&root)?;
        let (skel, device) = load(options, cpus::end(&root, &cpus), polls_in_state_0(&root))?;
        let ring = Ring::map(&[(&skel.maps.periods, SIZE)], options.buffer_bytes)?;
        let (links, missing) = attach(&skel.progs, device)?;
        let mut collector = Self {
            skel,
            links,
            ring,
            machine: Machine::new(root, &cpus),
            missing,
            device,
            cost: Cost::default(),
            lost_before: 0,
            missed: Missed::new(&OF_IDLE),
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
        let total = lost_by(&self.skel.maps.lost, cause)?;
        if total > self.lost_before {
            facts.lost.push(Lost {
                time_ns: now_ns,
                count: total - self.lost_before,
                place: "ring buffer full".to_owned(),
            });
            self.lost_before = total;
        }
        let programs = Self::programs(&self.skel.progs, self.device);
        facts.lost.extend(self.missed.lost(now_ns, &programs));
        Ok(())
    }

    fn programs<'a>(progs: &'a IdleProgs<'static>, device: Device) -> Programs<'a> {
        Programs {
            halt: device.idle(progs).as_fd(),
            window: device.adjusted(progs).as_fd(),
            waking: progs.on_wake_without_ipi.as_fd(),
            others: vec![
                progs.on_local_timer.as_fd(),
                progs.on_reschedule.as_fd(),
                progs.on_call_function.as_fd(),
                progs.on_call_function_single.as_fd(),
                progs.on_irq_handler.as_fd(),
                progs.on_ipi_send.as_fd(),
            ],
            exits: None,
        }
    }

    fn tick_cost(&mut self, now_ns: u64) {
        let programs = Self::programs(&self.skel.progs, self.device);
        self.cost.tick(now_ns, &programs);
    }
}

/// Whether the programs can read cpuidle's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    /// `struct cpuidle_device` of each CPU can be found.
    Known,
    /// The kernel has no address of `cpuidle_devices` to give (it is built without `KALLSYMS_ALL`).
    Unknown,
}

impl Device {
    fn idle<'a>(self, progs: &'a IdleProgs<'static>) -> &'a ProgramMut<'static> {
        match self {
            Self::Known => &progs.on_cpu_idle,
            Self::Unknown => &progs.on_cpu_idle_alone,
        }
    }

    fn adjusted<'a>(self, progs: &'a IdleProgs<'static>) -> &'a ProgramMut<'static> {
        match self {
            Self::Known => &progs.on_guest_halt_poll_ns,
            Self::Unknown => &progs.on_guest_halt_poll_ns_alone,
        }
    }

    /// Whether a program that is here twice is the one that is not wanted.
    fn leaves_out(self, program: &str) -> bool {
        match self {
            Self::Known => matches!(program, "on_cpu_idle_alone" | "on_guest_halt_poll_ns_alone"),
            Self::Unknown => matches!(program, "on_cpu_idle" | "on_guest_halt_poll_ns"),
        }
    }
}

fn load(
    options: &CollectOptions,
    cpus: u32,
    has_polling_state: bool,
) -> Result<(IdleSkel<'static>, Device), CollectError> {
    let load_with = |device| {
        let loaded = load_one(options, cpus, has_polling_state, device)?;
        loaded
            .map(|skel| (skel, device))
            .map_err(|error| explain("load the BPF programs", &error))
    };
    // Only the kernel knows whether it can find the device: it says so when it loads.
    match load_with(Device::Known) {
        Err(CollectError::Unsupported { .. }) => load_with(Device::Unknown),
        loaded => loaded,
    }
}

type Loaded = Result<IdleSkel<'static>, libbpf_rs::Error>;

fn load_one(
    options: &CollectOptions,
    cpus: u32,
    has_polling_state: bool,
    device: Device,
) -> Result<Loaded, CollectError> {
    hush_libbpf();
    // As the halt collector's: a few words, once or twice in the life of a process.
    let place: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = IdleSkelBuilder::default()
        .open(place)
        .map_err(|error| explain("open the BPF programs", &error))?;
    if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
        settings.has_polling_state = has_polling_state;
    }
    for mut program in open.open_object_mut().progs_mut() {
        let left_out = program
            .name()
            .to_str()
            .is_some_and(|name| device.leaves_out(name));
        program.set_autoload(!left_out);
    }
    let sized = open.maps.periods.set_max_entries(options.buffer_bytes);
    sized.map_err(|error| explain("size the ring", &error))?;
    let sized = open.maps.cpus.set_max_entries(cpus);
    sized.map_err(|error| explain("size the map of CPUs", &error))?;
    Ok(open.load())
}

/// Tracepoints that a recording can do without: program, tracepoint, field, what is missing then.
fn optional<'a>(
    progs: &'a IdleProgs<'static>,
    device: Device,
) -> [(
    &'a ProgramMut<'static>,
    &'static str,
    &'static str,
    &'static str,
); 8] {
    let interrupts = "what ended some idle periods is unknown";
    [
        (
            device.adjusted(progs),
            "guest_halt_poll_ns",
            "change",
            "the governor's calls of grow and shrink are not seen",
        ),
        (
            &progs.on_local_timer,
            "local_timer_entry",
            "wake",
            interrupts,
        ),
        (&progs.on_reschedule, "reschedule_entry", "wake", interrupts),
        (
            &progs.on_call_function,
            "call_function_entry",
            "wake",
            interrupts,
        ),
        (
            &progs.on_call_function_single,
            "call_function_single_entry",
            "wake",
            interrupts,
        ),
        (
            &progs.on_irq_handler,
            "irq_handler_entry",
            "wake",
            interrupts,
        ),
        (
            &progs.on_wake_without_ipi,
            "sched_wake_idle_without_ipi",
            "wake",
            "polls that another CPU ended are not distinguished from others",
        ),
        (
            &progs.on_ipi_send,
            "ipi_send_cpu",
            "wake_latency_ns",
            "wake-up latencies of halts that an IPI ended are unknown",
        ),
    ]
}

fn attach(
    progs: &IdleProgs<'static>,
    device: Device,
) -> Result<(Links, Vec<Missing>), CollectError> {
    let mut links = Links::none();
    let mut missing = vec![Missing::new(
        "wake_latency_ns",
        "a guest does not see when a device's interrupt reached its host: the wake-up latency of \
                 halts that devices ended is unknown",
    )];
    if device == Device::Unknown {
        missing.push(Missing::new(
            "window_ns",
            "cpuidle's limits and residencies are unknown: this kernel does not say where \
                     cpuidle_devices is (CONFIG_KALLSYMS_ALL)",
        ));
    }
    for (program, tracepoint, field, without_it) in optional(progs, device) {
        match program.attach() {
            Ok(link) => links.push(link),
            Err(error) => missing.push(Missing {
                field: field.to_owned(),
                reason: format!(
                    "{without_it}: tracepoint {tracepoint} cannot be attached ({error})"
                ),
            }),
        }
    }
    links.push(
        device
            .idle(progs)
            .attach()
            .map_err(|error| explain("attach cpu_idle", &error))?,
    );
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
        let programs = Self::programs(&self.skel.progs, self.device);
        self.cost.rest(now_ns, &programs);
        self.end(facts)?;
        self.links.detach();
        self.drain_ring(facts)?;
        self.drain_lost(facts, now_ns)
    }

    fn forget_ended(&mut self, _: u64) -> usize {
        0
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
