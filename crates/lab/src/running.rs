//! Everything that is alive during a run: vCPU threads, the host's drivers, and their supervisor.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow};
use haltwise_core::ids::VcpuId;
use haltwise_core::units::Nanos;

use crate::clock;
use crate::drive::{Ending, Round, drive};
use crate::event::Event;
use crate::guest::{Guest, Peer, Stamps};
use crate::load::{Length, Load};
use crate::memory::{GuestMemory, counter, mailbox, param};
use crate::outcome::EndedBy;
use crate::stats_fd::{Growth, Stats};
use crate::vcpu::{Ends, KICK_INTERVAL, STOP_GRACE, Vcpu, VcpuEnd, VcpuThread};
use crate::vm::{Lines, Vm};

type Driver = JoinHandle<io::Result<Vec<Round>>>;

struct RunningVcpu {
    thread: VcpuThread,
    driver: Option<Driver>,
    /// Its counters when the supervisor last looked.
    progress: u64,
}

struct RunningVm {
    vm: Vm,
    tables: Vec<Vec<u64>>,
    stats: Growth,
    vcpus: Vec<RunningVcpu>,
}

pub(crate) struct Running<'a> {
    load: &'a Load,
    vms: Vec<RunningVm>,
    ends: Arc<Ends>,
    drivers_done: Arc<Event>,
    ending: Arc<Ending>,
    start_ns: u64,
}

pub(crate) struct EndedVm {
    pub(crate) vm: Vm,
    pub(crate) vcpus: Vec<VcpuEnd>,
    pub(crate) stats: Stats,
}

pub(crate) struct Ended {
    pub(crate) vms: Vec<EndedVm>,
    pub(crate) elapsed_ns: u64,
}

impl<'a> Running<'a> {
    pub(crate) fn new(load: &'a Load, vms: Vec<Vm>) -> anyhow::Result<Self> {
        let failed = "create an eventfd";
        let vms = vms.into_iter().zip(0..).map(|(vm, index)| {
            Ok(RunningVm {
                stats: Growth::begin(vm.stats.as_ref())?,
                tables: tables(load, index, &vm)?,
                vcpus: Vec::new(),
                vm,
            })
        });
        Ok(Self {
            load,
            vms: vms.collect::<anyhow::Result<_>>()?,
            ends: Arc::new(Ends::new().context(failed)?),
            drivers_done: Arc::new(Event::new().context(failed)?),
            ending: Arc::new(Ending::new().context(failed)?),
            start_ns: clock::now_ns(),
        })
    }

    /// Starts every vCPU. Where vCPUs wake each other, vCPU 0 starts when all others are ready.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        self.start_ns = clock::now_ns();
        for vm in 0..self.vms.len() {
            let mut waiting = std::mem::take(&mut self.vms[vm].vm.vcpus);
            while let Some(vcpu) = waiting.pop() {
                if waiting.is_empty() && self.load.guest.is_ring() {
                    self.wait_for_followers(vm)?;
                }
                let vcpu = self.start_vcpu(vm, vcpu)?;
                self.vms[vm].vcpus.insert(0, vcpu);
            }
        }
        Ok(())
    }

    fn wait_for_followers(&self, vm: usize) -> anyhow::Result<()> {
        let vm = &self.vms[vm].vm;
        for (vcpu, lines) in vm.lines.iter().enumerate().skip(1) {
            let ready = clock::wait_readable(&lines.answer, Some(self.load.timeout))
                .context("wait for a vCPU to be ready")?;
            if !ready {
                return Err(hung(vm, vcpu, self.load.timeout));
            }
        }
        Ok(())
    }

    fn start_vcpu(&self, vm: usize, vcpu: Vcpu) -> anyhow::Result<RunningVcpu> {
        let (number, id) = (u32::try_from(vm).unwrap_or(u32::MAX), vcpu.id);
        let cpu = self.load.cpu_of(number, id.0);
        let thread = vcpu
            .start(format!("vm{vm}-vcpu{id}"), cpu, Arc::clone(&self.ends))
            .with_context(|| self.vms[vm].vm.title())?;
        let driver = if self.load.guest.is_driven() {
            Some(self.start_driver(vm, id)?)
        } else {
            None
        };
        Ok(RunningVcpu {
            thread,
            driver,
            progress: 0,
        })
    }

    fn start_driver(&self, vm: usize, vcpu: VcpuId) -> anyhow::Result<Driver> {
        let load = self.load;
        let stream = u32::try_from(vm).unwrap_or(u32::MAX) * load.vcpus + vcpu.0;
        let gaps = load.rhythm.gaps(stream).context("draw gaps")?;
        let lines = Arc::clone(&self.vms[vm].vm.lines[vcpu.0 as usize]);
        let (ending, done) = (Arc::clone(&self.ending), Arc::clone(&self.drivers_done));
        let rounds = load.rounds().map(u64::from);
        let (how, cpu) = (load.host_wait, load.host_cpu);
        let memory = self.vms[vm].vm.memory.clone();
        let stamped = load.guest == Guest::Pingpong(Stamps::Woke);
        let give_work = waker(load.guest, &lines, memory.clone(), vcpu);
        let woke = move || {
            let stamp = || memory.double_word(vcpu.0, counter::WOKE).ok();
            stamped.then(stamp).flatten()
        };
        std::thread::Builder::new()
            .name(format!("vm{vm}-host{vcpu}"))
            .spawn(move || {
                let pinned = cpu.map_or(Ok(()), clock::pin);
                let rounds = pinned
                    .and_then(|()| drive(&lines, give_work, woke, gaps, rounds, how, &ending));
                done.signal()?;
                rounds
            })
            .context("start a driver thread")
    }

    /// Waits until the run is over: all rounds played, time up, interrupted, or something failed.
    pub(crate) fn supervise(&mut self, interrupt: BorrowedFd<'_>) -> anyhow::Result<EndedBy> {
        let until = match self.load.length {
            Length::Duration(duration) => self.start_ns.saturating_add(duration.0),
            Length::Rounds(_) => u64::MAX,
        };
        let all: u64 = self.vms.iter().map(|vm| vm.vcpus.len() as u64).sum();
        let timeout = self.load.timeout.0;
        let (mut drivers, mut vcpus) = (0, 0);
        let mut look_again = clock::now_ns().saturating_add(timeout);
        let mut caps = Turns::new(self.load.caps.len(), self.load.caps_every);
        let mut gaps = Turns::new(self.load.gaps.len(), self.load.gaps_every);
        loop {
            let now = clock::now_ns();
            if now >= until {
                return Ok(EndedBy::Duration);
            }
            if let Some(turn) = caps.due(now) {
                let cap = self.load.caps[turn];
                self.vms.iter().try_for_each(|it| it.vm.set_cap(cap))?;
            }
            if let Some(turn) = gaps.due(now) {
                let mut vms = self.vms.iter();
                vms.try_for_each(|it| it.vm.memory.set_table(&it.tables[turn]))?;
            }
            let next_turn = caps.next_ns().min(gaps.next_ns());
            if now >= look_again {
                self.check_progress()?;
                look_again = now.saturating_add(timeout);
            }
            let files = [
                interrupt,
                self.drivers_done.as_fd(),
                self.ends.event.as_fd(),
            ];
            let [interrupted, ..] = clock::wait_any(
                files,
                Some(Nanos(until.min(look_again).min(next_turn) - now)),
            )
            .context("wait for the run's end")?;
            let taken = "read an eventfd";
            drivers += self.drivers_done.take().context(taken)?;
            vcpus += self.ends.event.take().context(taken)?;
            if drivers == all || vcpus == all || self.ends.failed() {
                return Ok(EndedBy::Rounds);
            }
            if interrupted {
                return Ok(EndedBy::Signal);
            }
        }
    }

    /// Fails if a vCPU's counters are what they were when we last looked.
    fn check_progress(&mut self) -> anyhow::Result<()> {
        let timeout = self.load.timeout;
        for RunningVm { vm, vcpus, .. } in &mut self.vms {
            for vcpu in vcpus {
                let mut progress = 0;
                for word in [
                    counter::INTERRUPTS,
                    counter::CPUIDS,
                    counter::RDMSRS,
                    counter::WRMSRS,
                    counter::ROUNDS,
                ] {
                    progress += u64::from(vm.memory.word(vcpu.thread.id.0, word)?);
                }
                if progress == vcpu.progress && !vcpu.thread.is_finished() {
                    return Err(hung(vm, vcpu.thread.id, timeout));
                }
                vcpu.progress = progress;
            }
        }
        Ok(())
    }

    pub(crate) fn end(self, linger: impl FnOnce() -> io::Result<()>) -> anyhow::Result<Ended> {
        self.stop().context("stop the guests")?;
        let elapsed_ns = clock::now_ns().saturating_sub(self.start_ns);
        // The files of the vCPUs close as soon as their threads are joined.
        linger().context("linger")?;
        let mut vms = Vec::new();
        for RunningVm {
            vm, stats, vcpus, ..
        } in self.vms
        {
            let vcpus = vcpus.into_iter().map(|vcpu| gather(&vm, vcpu));
            let vcpus = vcpus.collect::<Result<_, _>>()?;
            let stats = stats.end()?;
            vms.push(EndedVm { vm, vcpus, stats });
        }
        Ok(Ended { vms, elapsed_ns })
    }

    /// Tells drivers and guests to stop, and kicks out the guests that do not.
    fn stop(&self) -> io::Result<()> {
        self.ending.no_more_rounds.raise()?;
        let vcpus = || self.vms.iter().flat_map(|vm| &vm.vcpus);
        let deadline = clock::now_ns().saturating_add(STOP_GRACE.0);
        // A driver that still raised its wake line after the stop line would be one interrupt too many.
        while vcpus().any(|v| v.driver.as_ref().is_some_and(|d| !d.is_finished())) {
            if self.ends.failed() || clock::now_ns() >= deadline {
                self.ending.no_more_answers.raise()?;
            }
            clock::wait_readable(&self.drivers_done, Some(KICK_INTERVAL))?;
            self.drivers_done.take()?;
        }
        if self.load.guest.may_never_halt() {
            // It lets no interrupt in: a guest without rounds left ends.
            for RunningVm { vm, vcpus, .. } in &self.vms {
                for vcpu in vcpus {
                    let set = vm.memory.set_word(vcpu.thread.id.0, param::ROUNDS, 0);
                    set.map_err(io::Error::other)?;
                }
            }
        }
        for lines in self.vms.iter().flat_map(|vm| &vm.vm.lines) {
            lines.stop.signal()?;
        }
        self.ends.wait(|| vcpus().map(|vcpu| &vcpu.thread))
    }
}

fn hung(vm: &Vm, vcpu: impl Display, after: Nanos) -> anyhow::Error {
    let title = vm.title();
    anyhow!("run {title}: vCPU {vcpu} made no progress for {after}")
}

/// How a guest is given its work: by an interrupt, or by a word in its memory and an interrupt if it does
/// not poll. Says whether it took one.
fn waker(
    guest: Guest,
    lines: &Arc<Lines>,
    memory: GuestMemory,
    vcpu: VcpuId,
) -> impl FnMut() -> io::Result<bool> + Send + 'static {
    let lines = Arc::clone(lines);
    let polls = guest == Guest::Poller(Peer::Host);
    let mut work = 0_u32;
    move || {
        if polls {
            work = work.wrapping_add(1);
            let given = memory.set_word(vcpu.0, mailbox::WORK, work);
            given.map_err(io::Error::other)?;
            // Either the guest sees the work before it halts, or we see that it does not poll.
            fence(Ordering::SeqCst);
            let polling = memory.word(vcpu.0, mailbox::POLLING);
            if polling.map_err(io::Error::other)? != 0 {
                return Ok(false);
            }
        }
        lines.wake.signal()?;
        Ok(true)
    }
}

/// Timer deltas for each of the gaps that a VM has in turn.
fn tables(load: &Load, index: u32, vm: &Vm) -> anyhow::Result<Vec<Vec<u64>>> {
    let Some(vcpu) = vm.vcpus.first().filter(|_| !load.gaps.is_empty()) else {
        return Ok(Vec::new());
    };
    let tsc_khz = vcpu.tsc_khz().with_context(|| vm.title())?;
    let table = |spec| load.ticks(spec, index, tsc_khz).context("draw gaps");
    load.gaps.iter().map(table).collect()
}

fn gather(vm: &Vm, vcpu: RunningVcpu) -> anyhow::Result<VcpuEnd> {
    let end = vcpu.thread.join().with_context(|| vm.title())?;
    let rounds = vcpu.driver.map(|driver| {
        let lost = || io::Error::other("the driver thread panicked");
        let rounds = driver.join().unwrap_or_else(|_| Err(lost()));
        rounds.context("drive a vCPU")
    });
    let rounds = rounds.transpose()?;
    Ok(VcpuEnd { rounds, ..end })
}

/// Values that change while a run lasts: one of several after the other, each for a set time, again and again.
#[derive(Debug)]
struct Turns {
    count: usize,
    every_ns: u64,
    at: usize,
    next_ns: u64,
}

impl Turns {
    /// Turns of `count` values, each for `every`; the first value from now on.
    fn new(count: usize, every: Nanos) -> Self {
        Self {
            count,
            // If two changes came at once, only the second could be seen.
            every_ns: every.0.max(1),
            at: 0,
            next_ns: if count == 0 { u64::MAX } else { 0 },
        }
    }

    fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// The number of the value that is due, if one is. A turn lasts as long as it should, however late it was noticed.
    fn due(&mut self, now_ns: u64) -> Option<usize> {
        if now_ns < self.next_ns {
            return None;
        }
        let was_due_ns = if self.next_ns == 0 {
            now_ns
        } else {
            self.next_ns
        };
        self.next_ns = was_due_ns.saturating_add(self.every_ns).max(now_ns + 1);
        let at = self.at;
        self.at = (at + 1) % self.count;
        Some(at)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_has_its_turn_for_as_long_and_the_first_comes_again() {
        let mut turns = Turns::new(2, Nanos(100));
        assert_eq!(turns.due(1_000), Some(0));
        assert_eq!(turns.next_ns(), 1_100);
        assert_eq!(turns.due(1_099), None);
        assert_eq!(turns.due(1_130), Some(1), "noticed late");
        assert_eq!(turns.due(1_200), Some(0));
    }

    #[test]
    fn nothing_is_due_where_nothing_changes() {
        let mut turns = Turns::new(0, Nanos(100));
        assert_eq!((turns.due(1_000), turns.next_ns()), (None, u64::MAX));
    }
}
