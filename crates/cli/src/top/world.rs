//! Small worlds for the tests of this folder: VMs, vCPUs and halts by hand.

use std::rc::Rc;

use haltwise_capture::info::Clock;
use haltwise_core::event::{CeilingSource, Halt, Observable, Vcpu, Vm, WakeSource};
use haltwise_core::exit::names::Names;
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::{Mode, Rung};

use super::model::Model;
use super::step::Step;
use super::timeline::Origin;
use super::timeline::Timeline;

pub(crate) const SECOND: u64 = 1_000_000_000;

pub(crate) fn vm(index: u32, name: &str) -> Vm {
    Vm {
        index: VmIndex(index),
        key: VmKey {
            pid: Pid(1_000 + index),
            start_ticks: 0,
            ordinal: 0,
        },
        name: name.to_owned(),
        vmm: VmmKind::Qemu,
        observable: Observable::Yes,
        ..Vm::default()
    }
}

pub(crate) fn vcpu(vm: u32, id: u32) -> Vcpu {
    Vcpu {
        vm: VmIndex(vm),
        id: VcpuId(id),
        tid: Tid(10_000 + vm * 100 + id),
        window_ns: Some(10_000),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        guest_veto: Some(false),
        time: None,
    }
}

/// A halt that polled 20 us without success and slept.
pub(crate) fn slept(vm: u32, id: u32, at_ns: u64) -> Halt {
    Halt {
        start_ns: at_ns,
        halt_ns: 100_000,
        vm: Some(VmIndex(vm)),
        vcpu: Some(VcpuId(id)),
        waited: true,
        window_ns: Some(20_000),
        poll_ns: Some(20_000),
        wake_latency_ns: Some(30_000),
        wake: WakeSource::Device,
        ..Halt::default()
    }
}

pub(crate) fn exits(vm: u32, id: u32, at_ns: u64, reason: u32, count: u64) -> Exits {
    let mut handling_ns = LogHist::default();
    (0..count).for_each(|_| handling_ns.record(2_000));
    Exits {
        time_ns: at_ns,
        interval_ns: SECOND,
        vm: Some(VmIndex(vm)),
        vcpu: Some(VcpuId(id)),
        tid: Tid(10_000 + vm * 100 + id),
        cause: Cause {
            kind: Kind::Exit,
            isa: Isa::Vmx,
            reason: Some(reason),
            sub: None,
        },
        count,
        user_ns: 0,
        handling_ns,
    }
}

/// A step with these VMs, of two vCPUs each; the `n`th halts `n + 1` times on each.
pub(crate) fn step(nth: u64, vms: &[Vm]) -> Step {
    let mut step = Step::between(nth * SECOND, (nth + 1) * SECOND);
    let mut vcpus = Vec::new();
    for (n, vm) in (1..).zip(vms) {
        for id in 0..2 {
            vcpus.push(vcpu(vm.index.0, id));
            for halt in 0..n {
                step.halt(&slept(vm.index.0, id, nth * SECOND + halt * 200_000));
            }
        }
    }
    step.around.vms = Rc::new(vms.to_vec());
    step.around.vcpus = Rc::new(vcpus);
    step.settle();
    step
}

/// Where it comes from: a capture, or a host that is watched.
pub(crate) fn origin(live: bool) -> Origin {
    Origin {
        capture: (!live).then(|| "cap".to_owned()),
        hostname: "host".to_owned(),
        kernel: "6.12".to_owned(),
        rung: Rung::Bpf,
        mode: Mode::Counts,
        clock: Clock::new(0, 1_767_225_600 * SECOND),
        names: None,
        missing: Vec::new(),
        notes: Vec::new(),
        partial: false,
    }
}

/// A model of these steps; a live one follows the newest.
pub(crate) fn model(live: bool, steps: Vec<Step>) -> Model {
    let mut timeline = Timeline::of(steps);
    if live {
        timeline.follow();
    }
    Model::new(origin(live), timeline)
}

pub(crate) fn with_exits(mut model: Model) -> Model {
    model.origin.names = Some(Names::default());
    model
}
