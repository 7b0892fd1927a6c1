//! A step as data: each figure with its name, unit and meaning.

use std::collections::BTreeMap;

use haltwise_core::event::{Observable, Vm};
use haltwise_core::exit::names::Names;
use haltwise_core::identity::Identity;
use haltwise_core::ids::VmmKind;
use haltwise_core::recording::{Missing, Mode, Rung};
use haltwise_document::figures;

use super::figures::IntervalFigures;
use super::model::Model;
use super::rows;
use super::step::{Key, Step, lost_by_place, lost_count};
use crate::figures::MISSING;
use crate::report::view::ReportedLoss;
use haltwise_core::pilot::standing::PilotVm;

const SCHEMA: u32 = 1;

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
        /// Cost of watching.
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
        lost_by_place: Vec<ReportedLoss> = List(ReportedLoss::FIGURES),
        /// Fields that are not known.
        missing: Vec<Missing> = List(MISSING),
        /// Other facts that must be known of a capture, in words.
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

    struct WatchedVm {
        /// Its number within this output.
        index: u32 = Number,
        /// Name that its operator uses for it.
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
        /// The pilot's last report on it, as in `vms` of [the pilot's state](pilot-json.md): its setting, since when,
        /// why, and what that saved. `null` in a capture, where no pilot runs, and where its state cannot be read.
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
}

pub(crate) fn of(model: &Model) -> Option<Interval> {
    let step = model.step()?;
    let origin = &model.origin;
    let names = origin.names.as_ref();
    let used = &step.host;
    let sample = step.host.last_sample();
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
            recorder_cpu_percent: step.host.recorder_cpus().map(|cpus| cpus * 100.0),
            recorder_rss_bytes: sample.map(|sample| sample.recorder_rss_bytes),
            added_ns_per_halt: step.around.added_ns_per_halt,
        },
        total: rows::of_all(step, names).figures,
        vms: (step.around.vms.iter())
            .map(|vm| vm_view(step, vm, names))
            .collect(),
        unplaced: rows::unplaced(step, None, names).map(|row| row.figures),
        lost: lost_count(&step.lost),
        lost_in_all: lost_count(&step.around.lost),
        lost_by_place: places
            .map(|(place, count)| ReportedLoss {
                place: place.to_owned(),
                count,
            })
            .collect(),
        missing: origin.missing.clone(),
        notes: origin.notes.clone(),
    })
}

fn vm_view(step: &Step, vm: &Vm, names: Option<&Names>) -> WatchedVm {
    let vcpus = rows::of_vcpus(step, vm, names).into_iter();
    let vcpus = vcpus.filter_map(|row| {
        let Key::Vcpu(_, id) = row.key else {
            return None;
        };
        let known = step.known(row.key).next();
        Some(WatchedVcpu {
            id: id.0,
            tid: known.map(|vcpu| vcpu.tid.0),
            guest_veto: known.and_then(|vcpu| vcpu.guest_veto),
            figures: row.figures,
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
            Observable::Yes => None,
            Observable::No(reason) => Some(reason.clone()),
        },
        paused: rows::paused(step, vm),
        pilot: row.pilot.as_deref().cloned(),
        figures: row.figures,
        vcpus: vcpus.collect(),
    }
}
