//! An agent on a thread, for VMs of the lab: it interrupts by each vCPU's wake line.

use std::sync::Arc;

use haltwise_core::units::Nanos;

use anyhow::Context as _;

use super::agent::{Agent, Client};
use super::page::{ALWAYS, GuestPage, NEVER};
use super::slot::Counts;
use crate::host_thread::HostThread;
use haltwise_lab::event::Flag;
use haltwise_lab::memory::{timer, vcpu_page};
use haltwise_lab::vm::{Lines, Vm};
use haltwise_lab::{clock, ioctl};

/// No guest is interrupted more often. Ours: KVM keeps periodic timers apart by 200 us
/// (`min_timer_period_us`), one-shot ones by nothing.
pub const LEAST_GAP: Nanos = Nanos(10_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Looks all the time, and takes a CPU for it.
    Spin,
    /// Sleeps until a deadline that it knows is due, but looks at least this often.
    Sync(Nanos),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentReport {
    pub elapsed_ns: u64,
    pub cpu_ns: u64,
    /// Counts of each page, in the order of VMs and vCPUs.
    pub counts: Vec<Counts>,
}

impl AgentReport {
    pub fn sum(&self, of: fn(&Counts) -> u64) -> u64 {
        self.counts.iter().map(of).sum()
    }
}

/// Starts an agent for every vCPU of some VMs, whose TSC has so many ticks in a millisecond.
pub fn start(
    vms: &[Vm],
    tsc_khz: u32,
    pace: Pace,
    cpu: Option<u32>,
) -> anyhow::Result<HostThread<AgentReport>> {
    let mut clients = Vec::new();
    let mut lines: Vec<Arc<Lines>> = Vec::new();
    for vm in vms {
        for (vcpu, line) in vm.vcpus.iter().zip(&vm.lines) {
            let shared = GuestPage {
                memory: vm.memory.clone(),
                address: vcpu_page(vcpu.id.0) + u32::from(timer::PAGE),
            };
            let offset = vcpu.tsc_offset();
            let offset = offset.context("read a vCPU's TSC offset (KVM tells since 5.16)")?;
            clients.push(Client::new(shared, offset)?);
            lines.push(Arc::clone(line));
        }
    }
    let ticks = Ticks {
        khz: tsc_khz.max(1),
    };
    let agent = Agent {
        clients,
        least_gap: ticks.of(LEAST_GAP),
    };
    if pace == Pace::Spin {
        // Before any guest runs: its first deadline is the agent's, too.
        agent.announce(ALWAYS)?;
    }
    HostThread::start("timer-agent", cpu, move |stop: &Flag| {
        clock::sleep_exactly()?;
        serve(agent, &lines, ticks, pace, stop)
    })
}

#[derive(Debug, Clone, Copy)]
struct Ticks {
    khz: u32,
}

impl Ticks {
    fn of(self, time: Nanos) -> u64 {
        let ticks = u128::from(time.0) * u128::from(self.khz) / 1_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    fn time(self, ticks: u64) -> Nanos {
        let ns = u128::from(ticks) * 1_000_000 / u128::from(self.khz);
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

fn serve(
    mut agent: Agent<GuestPage>,
    lines: &[Arc<Lines>],
    ticks: Ticks,
    pace: Pace,
    stop: &Flag,
) -> anyhow::Result<AgentReport> {
    let (start_ns, start_cpu) = (clock::now_ns(), clock::thread_cpu_ns());
    let fire = |client: usize| lines[client].wake.signal();
    while !stop.is_raised() {
        let due = agent.pass(ioctl::host_tsc, fire)?;
        let Pace::Sync(every) = pace else {
            std::hint::spin_loop();
            continue;
        };
        let latest = ioctl::host_tsc().saturating_add(ticks.of(every));
        let wake = due.map_or(latest, |due| due.min(latest));
        agent.promise(wake)?;
        let due = agent.pass(ioctl::host_tsc, fire)?;
        let wake = due.map_or(wake, |due| due.min(wake));
        let left = wake.saturating_sub(ioctl::host_tsc());
        clock::wait_readable(stop, Some(ticks.time(left)))?;
    }
    agent.announce(NEVER)?;
    Ok(AgentReport {
        elapsed_ns: clock::now_ns().saturating_sub(start_ns),
        cpu_ns: clock::thread_cpu_ns().saturating_sub(start_cpu),
        counts: agent
            .clients
            .iter()
            .map(|client| client.slot.counts)
            .collect(),
    })
}
