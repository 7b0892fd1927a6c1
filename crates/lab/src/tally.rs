//! Turns what is left of a run into its outcome: reads the guest's counters, names, adds up.

use crate::clock::HostWait;
use crate::drive::{Round, VcpuRounds};
use crate::guest::Guest;
use crate::guest_poll::{self, GuestPollCounts};
use crate::halt_loop::UserHalt;
use crate::load::Load;
use crate::memory::{GuestMemory, counter, poll};
use crate::outcome::{EndedBy, Outcome, Quantiles, SCHEMA, UserHaltCounts, VcpuOutcome, VmOutcome};
use crate::run::Finished;
use crate::running::{Ended, EndedVm};
use crate::vcpu::VcpuEnd;

pub(crate) fn tally(load: &Load, ended: Ended, ended_by: EndedBy) -> anyhow::Result<Finished> {
    let mut vms = Vec::new();
    let mut rounds = Vec::new();
    let mut halts = Vec::new();
    let mut notes = Vec::new();
    for vm in ended.vms {
        if let Guest::Poller(_) = load.guest {
            notes.push(guest_poll::notes(&vm.vm.memory)?);
        }
        let (outcome, played, handled) = tally_vm(load, vm)?;
        vms.push(outcome);
        rounds.push(played);
        halts.push(handled);
    }
    let host_wait = match load.host_wait {
        HostWait::Spin => "spin",
        HostWait::Block => "block",
        HostWait::Device => "device",
    };
    let outcome = Outcome {
        schema: SCHEMA,
        guest: load.guest.name().to_owned(),
        seed: load.rhythm.seed,
        gap: load.rhythm.spec.to_string(),
        host_wait: load.guest.is_driven().then(|| host_wait.to_owned()),
        ended_by,
        halt_loop: load.halt_policy.as_ref().map(ToString::to_string),
        guest_poll: matches!(load.guest, Guest::Poller(_)).then(|| load.guest_poll.to_string()),
        elapsed_ns: ended.elapsed_ns,
        vms,
    };
    Ok(Finished {
        outcome,
        rounds,
        notes,
        halts,
    })
}

/// A VM's outcome, and by vCPU its rounds and the halts that the VMM handled.
type OfVm = (VmOutcome, Vec<VcpuRounds>, Vec<Vec<UserHalt>>);

fn tally_vm(load: &Load, ended: EndedVm) -> anyhow::Result<OfVm> {
    let memory = &ended.vm.memory;
    let (mut vcpus, mut rounds, mut halts) = (Vec::new(), Vec::new(), Vec::new());
    for end in ended.vcpus {
        vcpus.push(tally_vcpu(load, memory, &end)?);
        halts.push(end.halts);
        rounds.push(VcpuRounds {
            rounds: end.rounds.unwrap_or_default(),
            tsc: end.tsc,
        });
    }
    let all = |time: fn(&Round) -> u64| {
        let played = rounds.iter().flat_map(|vcpu| &vcpu.rounds);
        Quantiles::of(played.map(time).collect())
    };
    let latencies = rounds.iter().flat_map(VcpuRounds::wake_latencies_ns);
    let latencies = latencies.map(|ns| u64::try_from(ns).unwrap_or(0));
    let outcome = VmOutcome {
        name: ended.vm.config.name.clone(),
        pid: std::process::id(),
        vm_max_halt_poll_ns: ended.vm.config.vm_max_halt_poll_ns.map(|cap| cap.0),
        vcpus,
        round_trip_ns: all(Round::round_trip_ns),
        gap_ns: all(|round| round.gap_ns),
        wake_latency_ns: Quantiles::of(latencies.collect()),
        stats: ended.stats.scalars(),
    };
    Ok((outcome, rounds, halts))
}

fn tally_vcpu(load: &Load, memory: &GuestMemory, end: &VcpuEnd) -> anyhow::Result<VcpuOutcome> {
    let mut outcome = vcpu(memory, end)?;
    if load.guest == Guest::Exits {
        let count = |word| memory.word(end.id.0, word).map(u64::from);
        for (name, word) in [
            ("cpuid", counter::CPUIDS),
            ("rdmsr", counter::RDMSRS),
            ("wrmsr", counter::WRMSRS),
            ("hlt", counter::HALTS),
        ] {
            outcome.exits.insert(name.to_owned(), count(word)?);
        }
    }
    outcome.rounds = end.rounds.as_ref().map(|rounds| rounds.len() as u64);
    let handles_halts = load.halt_policy.is_some();
    outcome.user_halts = handles_halts.then(|| UserHaltCounts::of(&end.halts));
    outcome.guest_poll = guest_polls(load, memory, end)?;
    Ok(outcome)
}

/// Counts of a vCPU by a guest, KVM's statistics and the run loop.
pub fn vcpu(memory: &GuestMemory, end: &VcpuEnd) -> anyhow::Result<VcpuOutcome> {
    let count = |word| memory.word(end.id.0, word).map(u64::from);
    let exits = end.exits.iter().map(|(exit, n)| (exit.to_string(), *n));
    Ok(VcpuOutcome {
        id: end.id.0,
        tid: end.tid.0,
        halts: count(counter::HALTS)?,
        interrupts: count(counter::INTERRUPTS)?,
        cpu_ns: end.thread.cpu_ns,
        voluntary_switches: end.thread.switches.map(|switches| switches.voluntary),
        involuntary_switches: end.thread.switches.map(|switches| switches.involuntary),
        exits: exits.collect(),
        stats: end.stats.scalars(),
        hist: end.stats.hists.clone(),
        ..VcpuOutcome::default()
    })
}

fn guest_polls(
    load: &Load,
    memory: &GuestMemory,
    end: &VcpuEnd,
) -> anyhow::Result<Option<GuestPollCounts>> {
    let Guest::Poller(_) = load.guest else {
        return Ok(None);
    };
    let count = |word| memory.word(end.id.0, word).map(u64::from);
    let rounds = end.rounds.iter().flatten();
    Ok(Some(GuestPollCounts {
        rounds: count(counter::ROUNDS)?,
        successful_polls: count(poll::SUCCESSES)?,
        ipis_sent: count(poll::IPIS_SENT)?,
        ipis_spared: count(poll::IPIS_SPARED)?,
        interrupts_spared: rounds.filter(|round| !round.interrupted).count() as u64,
        limit_ns: count(poll::LIMIT_NS)?,
    }))
}
