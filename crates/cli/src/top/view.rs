//! A step as data: each figure with its name, unit and meaning.

use std::collections::BTreeMap;

use haltwise_core::account::Spread;
use haltwise_core::account::parts::Parts;
use haltwise_core::event::{CeilingSource, Vcpu, Vm};
use haltwise_core::exit::names::Names;
use haltwise_core::identity::Identity;
use haltwise_core::ids::VmmKind;
use haltwise_core::recording::{Missing, Mode, Rung};
use haltwise_document::figures;

use super::figures::{self as of_step, Figures as StepFigures};
use super::model::Model;
use super::rows::{self, Key};
use super::step::{Cell, Step, lost_by_place, lost_count};
use crate::figures::{MISSING, PARTS, SPREAD};
use crate::pilot_state::PilotVm;

const SCHEMA: u32 = 1;

/// What the page of documentation says before its tables.
pub(crate) const ABOUT: &[&str] = &[
    "One object for each interval, a line each; with `--once` one, over several lines. With `DIR` the intervals are those \
     of a capture, and `--once` takes all of it as one.",
    "Times are whole nanoseconds, and their names end in `_ns`.",
    "`null` means that it is not known. It never means zero: the halts of a VM that cannot be observed are `null`.",
    "Percentiles are known to 12.5 %; `max` is the upper edge of its bucket where the kernel counted.",
    "Intervals follow each other without a gap, and what is summed up in them adds up to what `haltwise report` says of \
     the whole.",
];

figures! {
    pub(crate) struct Interval {
        /// Version of this layout: 1.
        schema: u32 = Number,
        /// `live`, or `capture`.
        source: &'static str = Word,
        /// The host.
        host: WatchedHost = Record(WatchedHost::FIGURES),
        /// Where the facts come from: `bpf`, `tracepoints`, `stats`, `import`.
        rung: Rung = Word,
        /// `counts`: the kernel counted; `full`: each halt was recorded.
        mode: Mode = Word,
        /// Start of the interval, on the host's `CLOCK_MONOTONIC`.
        start_ns: u64 = Nanos,
        /// Its end.
        end_ns: u64 = Nanos,
        /// The same in RFC 3339, to the second; `null` where a capture does not know.
        end_utc: Option<String> = Name,
        /// Its length.
        span_ns: u64 = Nanos,
        /// Settings of the host in force at its end, by KVM's names: `halt_poll_ns`, `halt_poll_ns_grow`,
        /// `halt_poll_ns_grow_start`, `halt_poll_ns_shrink`, and others that it has; the values are strings, as the
        /// kernel prints them.
        knobs: BTreeMap<String, String> = Object,
        /// What watching cost.
        cost: WatchingCost = Record(WatchingCost::FIGURES),
        /// All halts, also those of no known VM.
        total: IntervalFigures = Record(IntervalFigures::FIGURES),
        /// The VMs that were there or did something.
        vms: Vec<WatchedVm> = List(WatchedVm::FIGURES),
        /// Halts that could be given to no VM; `null` if there were none.
        unplaced: Option<IntervalFigures> = Record(IntervalFigures::FIGURES),
        /// Events reported as lost in this interval.
        lost: u64 = Count,
        /// Events lost since the start, without halts that are counts only.
        lost_in_all: u64 = Count,
        /// The same by place.
        lost_by_place: Vec<LossSoFar> = List(LossSoFar::FIGURES),
        /// What is not known.
        missing: Vec<Missing> = List(MISSING),
        /// What else must be known of a capture, in words.
        notes: Vec<String> = Words,
    }

    struct WatchedHost {
        /// Its name.
        name: String = Name,
        /// Its kernel's release.
        kernel: String = Name,
        /// CPUs online.
        cpus: Option<u32> = Count,
        /// CPUs busy on average.
        busy_cpus: Option<f64> = Real,
        /// Share of the interval in which some task waited for a CPU.
        cpu_pressure: Option<f64> = Share,
    }

    struct WatchingCost {
        /// CPU that the recorder's process took.
        recorder_cpu_percent: Option<f64> = CpuPercent,
        /// Its resident memory.
        recorder_rss_bytes: Option<u64> = Count,
        /// Time that its BPF programs add to a halt, measured.
        added_ns_per_halt: Option<f64> = MeanNanos,
    }

    struct LossSoFar {
        /// Where.
        place: String = Name,
        /// How many.
        count: u64 = Count,
    }

    struct WatchedVm {
        /// Its number within this output.
        index: u32 = Number,
        /// What its operator calls it.
        name: String = Name,
        /// Its other names, as far as there are any: `domain` (what its VMM was given), `uuid`, `vmid` (Proxmox VE),
        /// `pod` and `pod_uid` (KubeVirt), `cgroup`; `null` where none is known.
        identity: Option<Identity> = Object,
        /// Which VMM: `qemu`, `crosvm`, `firecracker`, `cloud-hypervisor`, `haltwise-lab`, `other`.
        vmm: VmmKind = Word,
        /// The VMM's process.
        pid: u32 = Number,
        /// Why its halts cannot be seen; `null` if they can.
        not_observable: Option<String> = Name,
        /// Whether none of its vCPUs was in `KVM_RUN` when the interval ended: it is paused, not started, or stopped
        /// after an error; `null` where that is not known.
        paused: Option<bool> = Flag,
        /// What the pilot said of it last, as in `vms` of [the pilot's state](pilot-json.md): its setting, since when, why,
        /// and what that saved. `null` in a capture, where no pilot runs, and where its state cannot be read.
        pilot: Option<PilotVm> = Object,
        #[serde(flatten)]
        figures: IntervalFigures = Flat(IntervalFigures::FIGURES),
        /// Its vCPUs.
        vcpus: Vec<WatchedVcpu> = List(WatchedVcpu::FIGURES),
    }

    struct WatchedVcpu {
        /// KVM's number of it.
        id: u32 = Number,
        /// The thread that runs it.
        tid: Option<u32> = Number,
        /// The guest disabled host polling.
        guest_veto: Option<bool> = Flag,
        #[serde(flatten)]
        figures: IntervalFigures = Flat(IntervalFigures::FIGURES),
    }

    /// What is said of everybody.
    struct IntervalFigures {
        /// CPU time of all threads of the VM's VMM, or of the vCPU's thread. A capture has that of all of it: with
        /// `--once`.
        cpu_percent: Option<f64> = CpuPercent,
        /// Halts that ended in the interval.
        halts: Option<u64> = Count,
        /// The same in a second.
        halts_per_s: Option<f64> = PerSecond,
        /// Of these, those in which the vCPU was scheduled out.
        waits: Option<u64> = Count,
        /// Halts that polled.
        polled: Option<u64> = Count,
        /// Polls that a wake event ended before the vCPU was scheduled out.
        successful_polls: Option<u64> = Count,
        /// Time of successful polls.
        useful_cpu_percent: Option<f64> = CpuPercent,
        /// Time of failed polls, which ended in a wait.
        wasted_cpu_percent: Option<f64> = CpuPercent,
        /// Halted time by what it was spent on.
        parts: Option<Parts> = Record(PARTS),
        /// Halts by what ended them: `timer`, `ipi`, `device`, `other`, `unknown`.
        wakes: Option<BTreeMap<&'static str, u64>> = Object,
        /// Wake-up latency of the halts that waited.
        wake_latency_ns: Option<Spread> = Record(SPREAD),
        /// Mean polling window of the halts; live, of the vCPUs as last seen.
        window_ns: Option<u64> = Nanos,
        /// The ceilings in force.
        ceiling: Option<CeilingRange> = Record(CeilingRange::FIGURES),
        /// Exits; `null` unless they are counted.
        exits: Option<CountedExits> = Record(CountedExits::FIGURES),
    }

    struct CeilingRange {
        /// The lowest.
        low_ns: u32 = Nanos,
        /// The highest.
        high_ns: u32 = Nanos,
        /// `param`, `cap`, `snapshot`, or `unknown` where vCPUs differ.
        source: CeilingSource = Word,
    }

    struct CountedExits {
        /// `exits`, as the tracepoint `kvm_exit` reports them, or `emulated-instructions` where it reports none. For
        /// an instruction that KVM emulates it does not fire, while KVM's counter `exits` grows.
        counts: &'static str = Word,
        /// How many.
        count: u64 = Count,
        /// The same in a second. Exits are read once a second, and the rate is over the time between readings.
        per_s: f64 = PerSecond,
        /// The five most frequent reasons.
        reasons: Vec<CountedReason> = List(CountedReason::FIGURES),
    }

    struct CountedReason {
        /// As the kernel prints it.
        name: String = Name,
        /// How often.
        count: u64 = Count,
        /// The same in a second.
        per_s: f64 = PerSecond,
        /// Time from these exits to the next entries; `null` for halts, whose time is mostly sleep.
        time_ns: Option<u64> = Nanos,
        /// Of that, time in the VMM.
        user_ns: u64 = Nanos,
    }
}

pub(crate) fn of(model: &Model) -> Option<Interval> {
    let step = model.step()?;
    let origin = &model.origin;
    let names = origin.names.as_ref();
    let used = step.host_use();
    let sample = step.last_sample();
    let cpus = sample.map(|sample| sample.cpus).filter(|cpus| *cpus > 0);
    let places = lost_by_place(&step.around.lost).into_iter();
    Some(Interval {
        schema: SCHEMA,
        source: if origin.is_live() { "live" } else { "capture" },
        host: WatchedHost {
            name: origin.hostname.clone(),
            kernel: origin.kernel.clone(),
            cpus,
            busy_cpus: used.busy_cpus(),
            cpu_pressure: used.cpu_pressure(),
        },
        rung: origin.rung,
        mode: origin.mode,
        start_ns: step.start_ns,
        end_ns: step.end_ns,
        end_utc: origin.utc(step.end_ns),
        span_ns: step.length_ns(),
        knobs: (*step.around.knobs).clone(),
        cost: WatchingCost {
            recorder_cpu_percent: step.recorder_cpus().map(|cpus| cpus * 100.0),
            recorder_rss_bytes: sample.map(|sample| sample.recorder_rss_bytes),
            added_ns_per_halt: step.around.added_ns_per_halt,
        },
        total: figures(&rows::host(step, names), &step.total(), true),
        vms: (step.around.vms.iter())
            .map(|vm| vm_view(step, vm, names))
            .collect(),
        unplaced: unplaced(step, names),
        lost: lost_count(&step.lost),
        lost_in_all: lost_count(&step.around.lost),
        lost_by_place: places
            .map(|(place, count)| LossSoFar {
                place: place.to_owned(),
                count,
            })
            .collect(),
        missing: origin.missing.clone(),
        notes: origin.notes.clone(),
    })
}

fn unplaced(step: &Step, names: Option<&Names>) -> Option<IntervalFigures> {
    let cell = step.unplaced()?;
    let rows = rows::of_host(step, names);
    let row = rows.iter().find(|row| row.key == Key::Unplaced(None))?;
    Some(figures(&row.figures, &cell, true))
}

fn vm_view(step: &Step, vm: &Vm, names: Option<&Names>) -> WatchedVm {
    let known = |id| -> Option<&Vcpu> {
        let mut vcpus = step.around.vcpus.iter();
        vcpus.find(|vcpu| vcpu.vm == vm.index && vcpu.id == id)
    };
    let vcpus = rows::of_vcpus(step, vm, names).into_iter();
    let vcpus = vcpus.filter_map(|row| {
        let Key::Vcpu(_, id) = row.key else {
            return None;
        };
        let nothing = Cell::default();
        let cell = step.vcpu(vm.index, id).unwrap_or(&nothing);
        Some(WatchedVcpu {
            id: id.0,
            tid: known(id).map(|vcpu| vcpu.tid.0),
            guest_veto: known(id).and_then(|vcpu| vcpu.guest_veto),
            figures: figures(&row.figures, cell, row.blind.is_none()),
        })
    });
    let row = rows::of_vm(step, vm, names);
    WatchedVm {
        index: vm.index.0,
        name: vm.name.clone(),
        identity: vm.identity.known(),
        vmm: vm.vmm,
        pid: vm.key.pid.0,
        not_observable: match &vm.observable {
            haltwise_core::event::Observable::Yes => None,
            haltwise_core::event::Observable::No(reason) => Some(reason.clone()),
        },
        paused: rows::paused(step, vm),
        pilot: row.pilot.as_deref().cloned(),
        figures: figures(&row.figures, &step.vm(vm.index), row.blind.is_none()),
        vcpus: vcpus.collect(),
    }
}

/// `seen`: its halts can be observed. Of others nothing is known, which is not zero.
fn figures(figures: &StepFigures, cell: &Cell, seen: bool) -> IntervalFigures {
    let halts = &cell.halts;
    let seen = seen || halts.halts > 0;
    let polls = seen && (halts.poll_known > 0 || halts.halts == 0);
    let percent = |cpus: Option<f64>| cpus.filter(|_| seen).map(|cpus| cpus * 100.0);
    let wakes = of_step::wakes(halts).into_iter();
    IntervalFigures {
        cpu_percent: figures.cpu.map(|cpus| cpus * 100.0),
        halts: seen.then_some(figures.halts),
        halts_per_s: seen.then_some(figures.halts_per_s),
        waits: seen.then_some(halts.waits),
        polled: polls.then_some(halts.polled),
        successful_polls: polls.then_some(halts.successful_polls),
        useful_cpu_percent: percent(figures.useful),
        wasted_cpu_percent: percent(figures.wasted),
        parts: seen.then_some(halts.parts),
        wakes: seen.then(|| wakes.map(|(source, n)| (source.as_str(), n)).collect()),
        wake_latency_ns: figures.latency,
        window_ns: figures.window_ns,
        ceiling: figures.ceilings.map(|ceilings| CeilingRange {
            low_ns: ceilings.low_ns,
            high_ns: ceilings.high_ns,
            source: ceilings.source,
        }),
        exits: figures.exits.as_ref().map(|exits| CountedExits {
            counts: if exits.emulated {
                "emulated-instructions"
            } else {
                "exits"
            },
            count: exits.count,
            per_s: exits.per_s,
            reasons: (exits.reasons.iter())
                .map(|reason| CountedReason {
                    name: reason.name.clone(),
                    count: reason.count,
                    per_s: reason.per_s,
                    time_ns: reason.time_ns,
                    user_ns: reason.user_ns,
                })
                .collect(),
        }),
    }
}
