//! A step as data. This is the JSON of `--json`: see `docs/top-json.md`.
//!
//! Times are nanoseconds. `null` means that it cannot be told; it never means zero.

use std::collections::BTreeMap;

use haltwise_core::account::Spread;
use haltwise_core::account::parts::Parts;
use haltwise_core::event::{CeilingSource, Vcpu, Vm};
use haltwise_core::exit::names::Names;
use haltwise_core::identity::Identity;
use haltwise_core::ids::VmmKind;
use haltwise_core::recording::{Missing, Mode, Rung};
use serde::Serialize;

use super::figures::{self, Figures};
use super::model::Model;
use super::rows::{self, Key};
use super::step::{Cell, Step, lost_by_place, lost_count};

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// One step.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    schema: u32,
    /// `live`, or `capture`.
    source: &'static str,
    host: HostView,
    rung: Rung,
    mode: Mode,
    start_ns: u64,
    end_ns: u64,
    end_utc: Option<String>,
    span_ns: u64,
    knobs: BTreeMap<String, String>,
    cost: CostView,
    total: FiguresView,
    vms: Vec<VmView>,
    unplaced: Option<FiguresView>,
    lost: u64,
    lost_in_all: u64,
    lost_by_place: Vec<LossView>,
    missing: Vec<Missing>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct HostView {
    name: String,
    kernel: String,
    cpus: Option<u32>,
    busy_cpus: Option<f64>,
    cpu_pressure: Option<f64>,
}

#[derive(Debug, Serialize)]
struct CostView {
    recorder_cpu_percent: Option<f64>,
    recorder_rss_bytes: Option<u64>,
    added_ns_per_halt: Option<f64>,
}

#[derive(Debug, Serialize)]
struct LossView {
    place: String,
    count: u64,
}

#[derive(Debug, Serialize)]
struct VmView {
    index: u32,
    name: String,
    #[serde(skip_serializing_if = "Identity::is_empty")]
    identity: Identity,
    vmm: VmmKind,
    pid: u32,
    not_observable: Option<String>,
    paused: Option<bool>,
    #[serde(flatten)]
    figures: FiguresView,
    vcpus: Vec<VcpuView>,
}

#[derive(Debug, Serialize)]
struct VcpuView {
    id: u32,
    tid: Option<u32>,
    guest_veto: Option<bool>,
    #[serde(flatten)]
    figures: FiguresView,
}

#[derive(Debug, Serialize)]
struct FiguresView {
    halts: Option<u64>,
    halts_per_s: Option<f64>,
    waits: Option<u64>,
    polled: Option<u64>,
    successful_polls: Option<u64>,
    useful_cpu_percent: Option<f64>,
    wasted_cpu_percent: Option<f64>,
    parts: Option<Parts>,
    wakes: Option<BTreeMap<&'static str, u64>>,
    wake_latency_ns: Option<Spread>,
    window_ns: Option<u64>,
    ceiling: Option<CeilingView>,
    exits: Option<ExitsView>,
}

#[derive(Debug, Serialize)]
struct CeilingView {
    low_ns: u32,
    high_ns: u32,
    source: CeilingSource,
}

#[derive(Debug, Serialize)]
struct ExitsView {
    /// `exits` as the tracepoint `kvm_exit` reports them, or `emulated-instructions` where it reports none.
    counts: &'static str,
    count: u64,
    per_s: f64,
    reasons: Vec<ReasonView>,
}

#[derive(Debug, Serialize)]
struct ReasonView {
    name: String,
    count: u64,
    per_s: f64,
    time_ns: Option<u64>,
    user_ns: u64,
}

/// The step that is looked at.
pub(crate) fn of(model: &Model) -> Option<View> {
    let step = model.step()?;
    let origin = &model.origin;
    let names = origin.names.as_ref();
    let used = step.host_use();
    let sample = step.last_sample();
    let cpus = sample.map(|sample| sample.cpus).filter(|cpus| *cpus > 0);
    let places = lost_by_place(&step.around.lost).into_iter();
    Some(View {
        schema: SCHEMA,
        source: if origin.is_live() { "live" } else { "capture" },
        host: HostView {
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
        cost: CostView {
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
            .map(|(place, count)| LossView {
                place: place.to_owned(),
                count,
            })
            .collect(),
        missing: origin.missing.clone(),
        notes: origin.notes.clone(),
    })
}

fn unplaced(step: &Step, names: Option<&Names>) -> Option<FiguresView> {
    let cell = step.unplaced()?;
    let rows = rows::of_host(step, names);
    let row = rows.iter().find(|row| row.key == Key::Unplaced(None))?;
    Some(figures(&row.figures, &cell, true))
}

fn vm_view(step: &Step, vm: &Vm, names: Option<&Names>) -> VmView {
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
        Some(VcpuView {
            id: id.0,
            tid: known(id).map(|vcpu| vcpu.tid.0),
            guest_veto: known(id).and_then(|vcpu| vcpu.guest_veto),
            figures: figures(&row.figures, cell, row.blind.is_none()),
        })
    });
    let row = rows::of_vm(step, vm, names);
    VmView {
        index: vm.index.0,
        name: vm.name.clone(),
        identity: vm.identity.clone(),
        vmm: vm.vmm,
        pid: vm.key.pid.0,
        not_observable: match &vm.observable {
            haltwise_core::event::Observable::Yes => None,
            haltwise_core::event::Observable::No(reason) => Some(reason.clone()),
        },
        paused: rows::paused(step, vm),
        figures: figures(&row.figures, &step.vm(vm.index), row.blind.is_none()),
        vcpus: vcpus.collect(),
    }
}

/// `seen`: its halts can be observed. Of others nothing is known, which is not zero.
fn figures(figures: &Figures, cell: &Cell, seen: bool) -> FiguresView {
    let halts = &cell.halts;
    let seen = seen || halts.halts > 0;
    let polls = seen && (halts.poll_known > 0 || halts.halts == 0);
    let percent = |cpus: Option<f64>| cpus.filter(|_| seen).map(|cpus| cpus * 100.0);
    let wakes = figures::wakes(halts).into_iter();
    FiguresView {
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
        ceiling: figures.ceilings.map(|ceilings| CeilingView {
            low_ns: ceilings.low_ns,
            high_ns: ceilings.high_ns,
            source: ceilings.source,
        }),
        exits: figures.exits.as_ref().map(|exits| ExitsView {
            counts: if exits.emulated {
                "emulated-instructions"
            } else {
                "exits"
            },
            count: exits.count,
            per_s: exits.per_s,
            reasons: (exits.reasons.iter())
                .map(|reason| ReasonView {
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
