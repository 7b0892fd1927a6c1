//! The BPF source as a [`Collector`]: drains the ring, places each halt, looks for new VMs.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use haltwise_core::event::Facts;
use haltwise_core::ids::Pid;
use haltwise_core::recording::{Missing, Mode, Roster, Rung};
use libbpf_rs::MapCore;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use super::attach::{Attached, attach, latency_of_kvm};
use super::counts::{CountsReader, Seen};
use super::exits::ExitCounter;
use super::places::Places;
use super::program::{Cost, Program, count_of, missed, of_kvm};
use super::record::{RawHalt, SIZE as HALT_SIZE};
use super::ring::Ring;
use super::skel::collector::types::{kernel_support, lost_cause};
use super::stats::{self, StatsReader, VcpuStats};
use super::walk::{FoundVcpu, SIZE_WITH_STATS, decode_with_stats, walk, walk_with_stats};
use crate::collector::{CollectError, CollectOptions, Collector, Counting, Losses};
use crate::root::Root;
use crate::{clock, params};

/// Between two walks, if nothing unknown halts.
const WALK_NS: std::ops::RangeInclusive<u64> = 500_000_000..=2_000_000_000;
/// No walk takes more than one part in so many of the time.
const WALK_PART: u64 = 400;
/// Between two walks, however much of the unknown halts.
const WALK_AGAIN_NS: u64 = 20_000_000;
const LOSSES_NS: u64 = 500_000_000;

#[derive(Debug)]
pub struct BpfCollector {
    attached: Attached,
    ring: Ring,
    woken: OwnedFd,
    options: CollectOptions,
    root: Root,
    places: Places,
    counts: CountsReader,
    stats: StatsReader,
    /// Counts of vCPUs whose threads have ended since the last reading.
    last_stats: Vec<(FoundVcpu, VcpuStats)>,
    exits: Option<ExitCounter>,
    cost: Cost,
    counting: Counting,
    last_walk_ns: u64,
    walk_took_ns: u64,
    last_losses_ns: u64,
    losses: Losses,
}

impl BpfCollector {
    pub fn start(options: CollectOptions, root: Root) -> Result<Self, CollectError> {
        let attached = attach(&options, &root)?;
        let maps = &attached.skel.maps;
        let rings: [(&dyn MapCore, usize); 2] = [
            (&maps.halts, HALT_SIZE),
            (&maps.last_stats, SIZE_WITH_STATS),
        ];
        let ring = Ring::map(&rings, options.buffer_bytes)?;
        let woken = woken(&attached)?;
        let mut collector = Self {
            attached,
            ring,
            woken,
            options,
            places: Places::new(root.clone()),
            root,
            counts: CountsReader::default(),
            stats: StatsReader::default(),
            last_stats: Vec::new(),
            exits: None,
            cost: Cost::default(),
            counting: Counting::default(),
            last_walk_ns: 0,
            walk_took_ns: 0,
            last_losses_ns: 0,
            losses: Losses::default(),
        };
        let now = clock::monotonic_ns();
        collector.refresh_param();
        if collector.options.mode == Mode::Stats {
            collector.start_stats()?;
        } else {
            collector.walk(now)?;
        }
        collector.counts.start(now);
        collector.start_exits()?;
        collector.tick_cost(now);
        Ok(collector)
    }

    fn detach(&mut self) {
        self.attached.links.detach();
    }

    /// Tells the programs the module's ceiling, which they cannot read themselves.
    fn refresh_param(&mut self) {
        if self.options.mode == Mode::Stats {
            return;
        }
        let Some(settings) = self.attached.skel.maps.bss_data.as_deref_mut() else {
            return;
        };
        match params::param_halt_poll_ns(&self.root) {
            Ok(value) => {
                settings.param_halt_poll_ns = value;
                settings.param_known = true;
            }
            Err(_) => settings.param_known = false,
        }
    }

    fn walk(&mut self, now_ns: u64) -> Result<(), CollectError> {
        self.last_walk_ns = now_ns;
        let found = match self.options.mode {
            Mode::Full | Mode::Counts => walk(&self.attached.walk)?,
            Mode::Stats => {
                let found = walk_with_stats(&self.attached.walk)?;
                found.into_iter().map(|(vcpu, _)| vcpu).collect()
            }
        };
        self.place_all(&found, now_ns);
        self.walk_took_ns = clock::monotonic_ns().saturating_sub(now_ns);
        Ok(())
    }

    fn walk_after_ns(&self) -> u64 {
        let after_ns = self.walk_took_ns.saturating_mul(WALK_PART);
        after_ns.clamp(*WALK_NS.start(), *WALK_NS.end())
    }

    fn place_all(&mut self, found: &[FoundVcpu], now_ns: u64) {
        let param = params::param_halt_poll_ns(&self.root).ok();
        self.places.learn_all(found, param, now_ns);
    }

    fn start_stats(&mut self) -> Result<(), CollectError> {
        self.drain_stats(&mut Facts::default())?;
        if self.attached.has(kernel_support::SUPPORT_HISTS) {
            Ok(())
        } else {
            Err(CollectError::NoHistograms)
        }
    }

    /// Says until when it counted. A walk takes its time, every walk the same: its end stands for it.
    fn drain_stats(&mut self, facts: &mut Facts) -> Result<u64, CollectError> {
        let found = walk_with_stats(&self.attached.walk)?;
        let now_ns = clock::monotonic_ns();
        self.last_walk_ns = now_ns;
        let vcpus: Vec<FoundVcpu> = found.iter().map(|(vcpu, _)| *vcpu).collect();
        self.place_all(&vcpus, now_ns);
        // After the walk: a vCPU that it did not meet any more is here.
        self.drain_ring(facts, now_ns)?;
        let last = std::mem::take(&mut self.last_stats);
        let places = &self.places;
        let place = |vcpu: &FoundVcpu| places.of_found(vcpu).unwrap_or_default();
        let began_ns = self.stats.interval_start_ns();
        let read = self
            .stats
            .rows(stats::with_last(&found, &last), now_ns, place);
        facts.counts.extend(read.rows);
        if let Some(began_ns) = began_ns {
            self.places.unread_since(&read.gone, began_ns);
        }
        Ok(now_ns)
    }

    fn drain_ring(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        let taken = self.ring.take()?;
        let records = |of: usize, size| {
            taken
                .get(of)
                .map_or(&[] as &[u8], |it| it)
                .chunks_exact(size)
        };
        let last = records(1, SIZE_WITH_STATS).filter_map(decode_with_stats);
        self.last_stats.extend(last);
        let halts: Vec<RawHalt> = records(0, HALT_SIZE).filter_map(RawHalt::decode).collect();
        let unknown = halts
            .iter()
            .any(|halt| self.places.of_walked(halt).is_none());
        if unknown && now_ns.saturating_sub(self.last_walk_ns) >= WALK_AGAIN_NS {
            self.walk(now_ns)?;
        }
        facts.halts.reserve(halts.len());
        for halt in &halts {
            let place = self.places.of_halt(halt);
            // In counts mode a thread's first halt comes through the ring only to be placed.
            if self.options.mode == Mode::Full && self.counting.holds(halt.end_ns) {
                facts.halts.push(halt.halt(place));
                facts.windows.extend(halt.window_change(place));
            }
        }
        Ok(())
    }

    /// Counts first, then who they belong to: a thread that has counts has halted before, so a walk
    /// finds it, or (if its VM is gone) its first halt is in the ring. Says until when it counted.
    fn drain_counts(&mut self, facts: &mut Facts, last: bool) -> Result<u64, CollectError> {
        let (seen, now_ns) = self.look_at_counts()?;
        self.walk(now_ns)?;
        self.drain_ring(facts, now_ns)?;
        let mut place = |tid| self.places.of_thread(tid);
        let rows = self.counts.rows(seen, now_ns, last, &mut place);
        facts.counts.extend(rows);
        Ok(now_ns)
    }

    fn look_at_counts(&self) -> Result<(Vec<Seen>, u64), CollectError> {
        let used = self.attached.counts_used();
        let seen = CountsReader::look(&self.attached.skel.maps.counts, used)?;
        Ok((seen, clock::monotonic_ns()))
    }

    /// After the first walk, which says how many vCPUs there are.
    fn start_exits(&mut self) -> Result<(), CollectError> {
        if let Some(wanted) = &self.options.exits {
            let vcpus = self.places.roster().vcpus.len();
            let counter = ExitCounter::start(wanted, &self.options.vms, vcpus)?;
            self.exits = Some(counter);
        }
        Ok(())
    }

    fn drain_exits(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        if self.exits.is_none() {
            return Ok(());
        }
        self.walk(clock::monotonic_ns())?;
        let Some(mut exits) = self.exits.take() else {
            return Ok(());
        };
        let rows = exits.read(&mut |who| self.places.of_exits(who));
        let lost = exits.lost(clock::monotonic_ns());
        self.exits = Some(exits);
        facts.exits.extend(rows?);
        facts.lost.extend(lost?);
        Ok(())
    }

    fn drain_lost(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        let mut counts = Vec::new();
        for (cause, place) in [
            (lost_cause::LOST_RING_FULL, "ring buffer full"),
            (lost_cause::LOST_THREADS_FULL, "table of vCPU threads full"),
            (lost_cause::LOST_COUNTS_FULL, "table of counts full"),
        ] {
            let lost = &self.attached.skel.maps.lost;
            let total = count_of(lost, cause.0, "read the count of losses")?;
            counts.push((total, place));
        }
        let programs = Self::programs(&self.attached, self.exits.as_ref());
        counts.extend(missed(&programs, of_kvm));
        self.losses.report(&mut facts.lost, now_ns, counts);
        Ok(())
    }

    fn programs<'a>(attached: &'a Attached, exits: Option<&'a ExitCounter>) -> Vec<Program<'a>> {
        let mut programs = attached.programs().to_vec();
        programs.extend(exits.into_iter().flat_map(ExitCounter::programs));
        programs
    }

    /// Whether a program runs on events: KVM's own counters are read by programs that the collector calls.
    fn has_programs(&self) -> bool {
        self.options.mode != Mode::Stats || self.exits.is_some()
    }

    fn tick_cost(&mut self, now_ns: u64) {
        if !self.has_programs() {
            return;
        }
        let programs = Self::programs(&self.attached, self.exits.as_ref());
        self.cost.tick(now_ns, &programs);
    }
}

/// An epoll fd that becomes readable when a program wakes the waiters of the ring, and only then: data that comes
/// without a wake-up is no event (edge-triggered).
fn woken(attached: &Attached) -> Result<OwnedFd, CollectError> {
    let failed = || CollectError::failed("wait for the ring");
    let fd = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed())?;
    let ring = attached.skel.maps.halts.as_fd();
    let when = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&fd, ring, epoll::EventData::new_u64(0), when).map_err(failed())?;
    Ok(fd)
}

fn not_kept(mode: Mode) -> Vec<Missing> {
    let stats = "not in KVM's statistics";
    let fields: &[(&str, &str)] = match mode {
        Mode::Full => &[],
        Mode::Counts => &[
            ("window_ns", "counts mode keeps histograms only"),
            ("ceiling_ns", "counts mode keeps histograms only"),
        ],
        Mode::Stats => &[
            ("window_ns", stats),
            ("ceiling_ns", stats),
            ("wake_latency_ns", stats),
            ("wake", stats),
            ("poll_cut", stats),
            (
                "halts",
                "KVM's statistics count halts that polled or waited, but not halts that did neither",
            ),
        ],
    };
    let missing = |(field, reason): &(&str, &str)| Missing::new(*field, *reason);
    fields.iter().map(missing).collect()
}

impl Collector for BpfCollector {
    fn rung(&self) -> Rung {
        Rung::Bpf
    }

    fn confine(&mut self) {
        self.cost.hand_over(&self.root);
        // Counts wait in the kernel.
        if self.options.mode == Mode::Full {
            self.ring.keep_empty();
        }
    }

    fn drain(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let now = clock::monotonic_ns();
        self.refresh_param();
        let since = now.saturating_sub(self.last_walk_ns);
        let met =
            |exits: &mut Option<ExitCounter>| exits.as_mut().is_some_and(ExitCounter::met_a_thread);
        if since >= self.walk_after_ns() || since >= WALK_AGAIN_NS && met(&mut self.exits) {
            self.walk(now)?;
        }
        self.drain_ring(facts, now)?;
        self.places.vms.look(facts, now);
        let since = self.counted_to_ns();
        let since = since.map_or(0, |since| now.saturating_sub(since));
        if Duration::from_nanos(since) >= self.options.interval {
            match self.options.mode {
                Mode::Full => {}
                Mode::Counts => drop(self.drain_counts(facts, false)?),
                Mode::Stats => drop(self.drain_stats(facts)?),
            }
        }
        if self.exits.as_ref().is_some_and(|exits| exits.is_due(now)) {
            self.drain_exits(facts)?;
        }
        if now.saturating_sub(self.last_losses_ns) >= LOSSES_NS {
            self.last_losses_ns = now;
            self.drain_lost(facts, now)?;
        }
        self.tick_cost(now);
        Ok(())
    }

    fn counted_to_ns(&self) -> Option<u64> {
        match self.options.mode {
            Mode::Full => None,
            Mode::Counts => self.counts.interval_start_ns(),
            Mode::Stats => self.stats.interval_start_ns(),
        }
    }

    fn turn_to(&mut self, vms: &[Pid]) -> Result<bool, CollectError> {
        let is_filtered = !self.options.vms.is_empty() && !vms.is_empty();
        if self.options.mode != Mode::Full || self.exits.is_some() || !is_filtered {
            return Ok(false);
        }
        self.rest()?;
        self.attached.turn(&self.options.vms, vms)?;
        self.options.vms = vms.to_vec();
        let now = clock::monotonic_ns();
        self.refresh_param();
        self.walk(now)?;
        self.tick_cost(now);
        Ok(true)
    }

    fn rest(&mut self) -> Result<bool, CollectError> {
        if self.options.mode != Mode::Full {
            return Ok(false);
        }
        let now = clock::monotonic_ns();
        let programs = Self::programs(&self.attached, self.exits.as_ref());
        self.cost.rest(now, &programs);
        self.detach();
        // Records left in the ring are discarded.
        self.drain_ring(&mut Facts::default(), now)?;
        Ok(true)
    }

    /// A thread's first halt ends it: its VM may be gone soon, and has to be placed before.
    fn wait(&mut self, at_most: Duration) -> Result<(), CollectError> {
        let timeout = rustix::time::Timespec::try_from(at_most).ok();
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        match epoll::wait(&self.woken, &mut events, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(()),
            Ok(_) => {
                // Only a walk tells VMs of one process in the order in which they were made: not before
                // the next is due, whichever thread halts for the first time meanwhile.
                let since = clock::monotonic_ns().saturating_sub(self.last_walk_ns);
                std::thread::sleep(Duration::from_nanos(WALK_AGAIN_NS.saturating_sub(since)));
                Ok(())
            }
            Err(error) => Err(CollectError::failed("wait for the ring")(error)),
        }
    }

    fn begin(&mut self) -> Result<u64, CollectError> {
        let mut before = Facts::default();
        self.drain_exits(&mut before)?;
        let began_ns = match self.options.mode {
            Mode::Full => clock::monotonic_ns(),
            Mode::Counts => {
                let (seen, now_ns) = self.look_at_counts()?;
                self.counts.begin(seen, now_ns);
                now_ns
            }
            Mode::Stats => self.drain_stats(&mut before)?,
        };
        self.drain_lost(&mut before, began_ns)?;
        self.counting.began_ns = began_ns;
        self.places.vms.begin(began_ns);
        Ok(began_ns)
    }

    fn end(&mut self, facts: &mut Facts) -> Result<u64, CollectError> {
        if let Some(ended_ns) = self.counting.ended_ns {
            return Ok(ended_ns);
        }
        let ended_ns = match self.options.mode {
            Mode::Full => clock::monotonic_ns(),
            Mode::Counts => self.drain_counts(facts, true)?,
            Mode::Stats => self.drain_stats(facts)?,
        };
        self.counting.ended_ns = Some(ended_ns);
        self.places.vms.look(facts, ended_ns);
        self.drain_exits(facts)?;
        Ok(ended_ns)
    }

    fn stop(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let now = clock::monotonic_ns();
        let programs = Self::programs(&self.attached, self.exits.as_ref());
        self.cost.rest(now, &programs);
        self.end(facts)?;
        self.detach();
        if let Some(exits) = &mut self.exits {
            exits.detach();
        }
        self.walk(now)?;
        self.drain_ring(facts, now)?;
        self.places.end(facts);
        self.drain_lost(facts, now)
    }

    fn forget_ended(&mut self, before_ns: u64) -> usize {
        self.places.forget_ended(before_ns)
    }

    fn look_at_threads(&mut self) {
        self.places.vms.look_at_threads();
    }

    fn roster(&self) -> &Roster {
        self.places.roster()
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = self.attached.missing.clone();
        missing.extend(self.attached.missing_fields());
        if let Some(exits) = &self.exits {
            missing.extend_from_slice(exits.missing());
        }
        let is_kept = self.options.mode != Mode::Stats;
        missing.extend(latency_of_kvm(&self.root).filter(|_| is_kept));
        missing.extend(not_kept(self.options.mode));
        missing.extend(self.places.missing());
        missing
    }

    fn kernel_cpu_ns(&self) -> Option<u64> {
        if !self.has_programs() {
            return Some(0);
        }
        self.cost.total_ns(clock::monotonic_ns())
    }

    fn exit_threads(&self) -> Option<BorrowedFd<'_>> {
        self.exits.as_ref().map(ExitCounter::threads)
    }

    fn added_ns_per_halt(&self) -> Option<f64> {
        self.cost.per_halt_ns()
    }

    fn added_ns_per_exit(&self) -> Option<f64> {
        self.cost.per_exit_ns()
    }

    fn most_waiting_bytes(&self) -> Option<u64> {
        self.ring.most_waiting_bytes()
    }
}

#[cfg(test)]
pub(super) mod test;
