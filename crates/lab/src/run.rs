//! A load, from its description to its outcome.
//!
//! ```text
//! create VMs -> read stats -> start vCPUs (and the host's drivers) -> supervise
//!   -> end: tell the drivers, raise every stop line, kick what does not end -> read stats -> Outcome
//! ```
//! The supervisor sleeps in `poll`; nothing wakes it while the guests run.

use std::os::fd::AsFd;

use anyhow::Context as _;

use crate::clock;
use crate::drive::VcpuRounds;
use crate::guest::{Guest, pingpong, timed};
use crate::guest_poll::PollNote;
use crate::halt_loop::{HaltPolicy, UserHalt, UserHalts};
use crate::load::{Load, LoadError};
use crate::memory::param;
use crate::outcome::Outcome;
use crate::running::Running;
use crate::tally;
use crate::vm::{self, Vm, VmConfig};

#[derive(Debug)]
pub struct Finished {
    pub outcome: Outcome,
    /// Every round of each vCPU by VM and vCPU, where the host wakes the guest.
    pub rounds: Vec<Vec<VcpuRounds>>,
    /// Notes of vCPU 0 of each VM on its polling, where notes were wanted.
    pub notes: Vec<Vec<PollNote>>,
    /// Every halt that the VMM handled, by VM and vCPU.
    pub halts: Vec<Vec<Vec<UserHalt>>>,
}

/// Runs a load until its end, or until `interrupt` is readable.
pub fn run(load: &Load, interrupt: &impl AsFd) -> anyhow::Result<Finished> {
    Ok(run_beside(load, interrupt, |_| Ok(()))?.0)
}

/// The same, with something of the host that is started before the vCPUs, and returned after their end.
pub fn run_beside<T>(
    load: &Load,
    interrupt: &impl AsFd,
    beside: impl FnOnce(&[Vm]) -> anyhow::Result<T>,
) -> anyhow::Result<(Finished, T)> {
    let vms = create(load)?;
    let beside = beside(&vms)?;
    Ok((finish(load, interrupt, vms)?, beside))
}

fn finish(load: &Load, interrupt: &impl AsFd, vms: Vec<Vm>) -> anyhow::Result<Finished> {
    let mut running = Running::new(load, vms)?;
    let started = running.start();
    let supervised = started.and_then(|()| running.supervise(interrupt.as_fd()));
    let ended = running.end(|| {
        if load.linger.0 > 0 {
            clock::wait_readable(interrupt, Some(load.linger))?;
        }
        Ok(())
    });
    let ended_by = supervised?;
    tally::tally(load, ended?, ended_by)
}

fn create(load: &Load) -> anyhow::Result<Vec<Vm>> {
    load.check()?;
    let kvm = vm::open()?;
    let guest = load.guest;
    let program = match &load.halt_policy {
        None => guest.program(),
        Some(_) => pingpong::bare_program(),
    };
    let program = program.with_context(|| format!("assemble `{guest}`"))?;
    (0..load.vms)
        .map(|index| {
            let config = VmConfig {
                name: load.vm_name(index),
                vcpus: load.vcpus,
                vm_max_halt_poll_ns: load.vm_max_halt_poll_ns,
                pit: guest.has_pit(),
                interrupts: load.interrupts(),
            };
            let mut vm = Vm::create(&kvm, config, &program)?;
            if let Some(policy) = &load.halt_policy {
                handle_halts(&mut vm, policy)?;
            }
            set_params(load, index, &vm)?;
            Ok(vm)
        })
        .collect()
}

fn handle_halts(vm: &mut Vm, policy: &HaltPolicy) -> Result<(), LoadError> {
    for vcpu in &mut vm.vcpus {
        let bell = vm.lines.get(vcpu.id.0 as usize);
        let bell = bell.and_then(|lines| lines.bell.clone());
        let policy = policy.build()?;
        vcpu.user_halts = bell.map(|bell| UserHalts {
            policy,
            bell,
            halts: Vec::new(),
        });
    }
    Ok(())
}

fn set_params(load: &Load, index: u32, vm: &Vm) -> anyhow::Result<()> {
    let rounds = load.rounds().unwrap_or(u32::MAX);
    for vcpu in 0..load.vcpus {
        let next = (vcpu + 1) % load.vcpus;
        vm.memory.set_word(vcpu, param::ROUNDS, rounds)?;
        vm.memory.set_word(vcpu, param::PERIOD, load.period()?)?;
        vm.memory.set_word(vcpu, param::NEXT, next)?;
    }
    let tsc_khz = vm.vcpus[0].tsc_khz().with_context(|| vm.title())?;
    if let Guest::Poller(_) = load.guest {
        // The table is theirs to take notes in.
        for vcpu in 0..load.vcpus {
            let next = (vcpu + 1) % load.vcpus;
            load.guest_poll.tell(&vm.memory, vcpu, next, tsc_khz)?;
        }
        return Ok(());
    }
    if let Guest::Timed(_) = load.guest {
        (0..load.vcpus).try_for_each(|vcpu| timed::tell(&vm.memory, vcpu))?;
    }
    let ticks = load.ticks(&load.rhythm.spec, index, tsc_khz);
    let ticks = ticks.context("draw gaps")?;
    vm.memory.set_table(&ticks)
}
