//! The BPF rung as a [`Collector`]: drains the ring, places each halt, looks for new VMs.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use haltwise_core::event::{Facts, Lost};
use haltwise_core::recording::{Missing, Mode, Roster, Rung};
use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use super::attach::{Attached, attach, explain};
use super::cost::Cost;
use super::counts::CountsReader;
use super::exits::ExitCounter;
use super::missed::Missed;
use super::places::Places;
use super::program::Programs;
use super::record::RawHalt;
use super::skel::CollectorProgs;
use super::skel::types::{kernel_support, lost_cause};
use super::stats::StatsReader;
use super::walk::{FoundVcpu, walk, walk_with_stats};
use crate::clock;
use crate::collector::{CollectError, CollectOptions, Collector};
use crate::params;
use crate::root::Root;

/// Between two walks, if nothing unknown halts.
const WALK_NS: u64 = 2_000_000_000;
/// Between two walks, however much of the unknown halts.
const WALK_AGAIN_NS: u64 = 20_000_000;

/// Records through BPF.
#[derive(Debug)]
pub struct BpfCollector {
    attached: Attached,
    ring: RingBuffer<'static>,
    drained: Rc<RefCell<Drained>>,
    options: CollectOptions,
    root: Root,
    places: Places,
    counts: CountsReader,
    stats: StatsReader,
    exits: Option<ExitCounter>,
    cost: Cost,
    last_walk_ns: u64,
    lost_before: [u64; LOST_CAUSES],
    missed: Missed,
}

const LOST_CAUSES: usize = lost_cause::LOST_CAUSES.0 as usize;

/// What the ring's callback leaves behind.
#[derive(Debug, Default)]
struct Drained {
    halts: Vec<RawHalt>,
    short: Option<usize>,
}

impl BpfCollector {
    /// Loads, attaches, and looks for the VMs that already run.
    pub fn start(options: CollectOptions, root: Root) -> Result<Self, CollectError> {
        let attached = attach(&options)?;
        let drained = Rc::new(RefCell::new(Drained::default()));
        let ring = ring(&attached, &drained)?;
        let mut collector = Self {
            attached,
            ring,
            drained,
            options,
            places: Places::new(root.clone()),
            root,
            counts: CountsReader::default(),
            stats: StatsReader::default(),
            exits: None,
            cost: Cost::default(),
            last_walk_ns: 0,
            lost_before: [0; LOST_CAUSES],
            missed: Missed::default(),
        };
        let now = clock::monotonic_ns();
        collector.refresh_param();
        if collector.options.mode == Mode::Stats {
            collector.start_stats(now)?;
        } else {
            collector.walk(now)?;
        }
        collector.counts.start(now);
        collector.start_exits(now)?;
        collector.tick_cost(now);
        Ok(collector)
    }

    /// The programs, for what runs them on request.
    pub(super) fn progs(&self) -> &CollectorProgs<'static> {
        &self.attached.skel.progs
    }

    /// No event of the kernel's runs them any more.
    pub(super) fn detach(&mut self) {
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
        self.place_all(&found);
        Ok(())
    }

    fn place_all(&mut self, found: &[FoundVcpu]) {
        let param = params::param_halt_poll_ns(&self.root).ok();
        self.places.learn(found, param);
    }

    /// Where KVM's counters stand, if this kernel has them.
    fn start_stats(&mut self, now_ns: u64) -> Result<(), CollectError> {
        self.drain_stats(&mut Facts::default(), now_ns)?;
        if self.attached.has(kernel_support::SUPPORT_HISTS) {
            Ok(())
        } else {
            Err(CollectError::NoHistograms)
        }
    }

    fn drain_stats(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        self.last_walk_ns = now_ns;
        let found = walk_with_stats(&self.attached.walk)?;
        let vcpus: Vec<FoundVcpu> = found.iter().map(|(vcpu, _)| *vcpu).collect();
        self.place_all(&vcpus);
        let place = |vcpu: &FoundVcpu| self.places.of_found(vcpu).unwrap_or_default();
        let rows = self.stats.rows(&found, now_ns, place);
        facts.counts.extend(rows);
        Ok(())
    }

    fn drain_ring(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        self.ring
            .consume()
            .map_err(|error| explain("read the ring", &error))?;
        let drained = std::mem::take(&mut *self.drained.borrow_mut());
        if let Some(got) = drained.short {
            let expected = size_of::<super::skel::types::halt_record>();
            return Err(CollectError::Record { got, expected });
        }
        let unknown = drained
            .halts
            .iter()
            .any(|halt| self.places.of_walked(halt).is_none());
        if unknown && now_ns.saturating_sub(self.last_walk_ns) >= WALK_AGAIN_NS {
            self.walk(now_ns)?;
        }
        facts.halts.reserve(drained.halts.len());
        for halt in &drained.halts {
            let place = self.places.of_halt(halt);
            // In counts mode a thread's first halt comes through the ring only to be placed.
            if self.options.mode == Mode::Full {
                facts.halts.push(halt.halt(place));
                facts.windows.extend(halt.window_change(place));
            }
        }
        Ok(())
    }

    /// Counts first, then who they belong to: a thread that has counts has halted before, so a walk
    /// finds it, or (if its VM is gone) its first halt is in the ring.
    fn drain_counts(
        &mut self,
        facts: &mut Facts,
        now_ns: u64,
        last: bool,
    ) -> Result<(), CollectError> {
        let used = self.attached.counts_used();
        let seen = CountsReader::look(&self.attached.skel.maps.counts, used)?;
        self.walk(now_ns)?;
        self.drain_ring(facts, now_ns)?;
        let mut place = |tid| self.places.of_thread(tid);
        let rows = self.counts.rows(seen, now_ns, last, &mut place);
        facts.counts.extend(rows);
        Ok(())
    }

    /// After the first walk, which says how many vCPUs there are.
    fn start_exits(&mut self, now_ns: u64) -> Result<(), CollectError> {
        if let Some(wanted) = &self.options.exits {
            let vcpus = self.places.roster().vcpus.len();
            let counter = ExitCounter::start(wanted, &self.options.vms, vcpus, now_ns)?;
            self.exits = Some(counter);
        }
        Ok(())
    }

    fn drain_exits(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        let Some(mut exits) = self.exits.take() else {
            return Ok(());
        };
        let rows = exits.read(now_ns, &mut |who| self.places.of_exits(who));
        let lost = exits.lost(now_ns);
        self.exits = Some(exits);
        facts.exits.extend(rows?);
        facts.lost.extend(lost?);
        Ok(())
    }

    fn drain_lost(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        for (cause, place) in [
            (lost_cause::LOST_RING_FULL, "ring buffer full"),
            (lost_cause::LOST_THREADS_FULL, "table of vCPU threads full"),
            (lost_cause::LOST_COUNTS_FULL, "table of counts full"),
        ] {
            let map = &self.attached.skel.maps.lost;
            let per_cpu = map
                .lookup_percpu(&cause.0.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| explain("read the count of losses", &error))?;
            let total: u64 = per_cpu
                .unwrap_or_default()
                .iter()
                .filter_map(|bytes| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?)))
                .sum();
            let before = &mut self.lost_before[cause.0 as usize];
            if total > *before {
                let count = total - *before;
                facts.lost.push(Lost {
                    time_ns: now_ns,
                    count,
                    place: place.to_owned(),
                });
                *before = total;
            }
        }
        let programs = Self::programs(&self.attached, self.exits.as_ref());
        facts.lost.extend(self.missed.lost(now_ns, &programs));
        Ok(())
    }

    fn programs<'a>(attached: &'a Attached, exits: Option<&'a ExitCounter>) -> Programs<'a> {
        let progs = &attached.skel.progs;
        Programs {
            halt: progs.on_vcpu_wakeup.as_fd(),
            window: progs.on_halt_poll_ns.as_fd(),
            waking: progs.on_sched_waking.as_fd(),
            others: [
                progs.on_hrtimer_entry.as_fd(),
                progs.on_hrtimer_exit.as_fd(),
                progs.on_apic_ipi.as_fd(),
                progs.on_ioapic_set_irq.as_fd(),
            ],
            exits: exits.map(ExitCounter::programs),
        }
    }

    fn tick_cost(&mut self, now_ns: u64) {
        let programs = Self::programs(&self.attached, self.exits.as_ref());
        self.cost.tick(now_ns, &programs);
    }
}

/// The ring that fills `drained`.
fn ring(
    attached: &Attached,
    drained: &Rc<RefCell<Drained>>,
) -> Result<RingBuffer<'static>, CollectError> {
    let into = Rc::clone(drained);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&attached.skel.maps.halts, move |bytes| {
            let mut drained = into.borrow_mut();
            match RawHalt::decode(bytes) {
                Some(halt) => drained.halts.push(halt),
                None => drained.short = Some(bytes.len()),
            }
            0
        })
        .map_err(|error| explain("map the ring", &error))?;
    builder
        .build()
        .map_err(|error| explain("map the ring", &error))
}

/// What a mode does not keep.
fn not_kept(mode: Mode) -> Vec<Missing> {
    let stats = "KVM's own statistics do not tell";
    let fields: &[(&str, &str)] = match mode {
        Mode::Full => &[],
        Mode::Counts => &[
            ("window_ns", "counts mode keeps none for each halt"),
            ("ceiling_ns", "counts mode keeps none for each halt"),
        ],
        Mode::Stats => &[
            ("window_ns", stats),
            ("ceiling_ns", stats),
            ("wake_latency_ns", stats),
            ("wake", stats),
            ("poll_cut", stats),
            (
                "halts",
                "KVM's own statistics tell halts that polled or waited; one that did neither, and those \
                 of a VM after its last whole interval, leave no trace",
            ),
        ],
    };
    let missing = |(field, reason): &(&str, &str)| Missing {
        field: (*field).to_owned(),
        reason: (*reason).to_owned(),
    };
    fields.iter().map(missing).collect()
}

impl Collector for BpfCollector {
    fn rung(&self) -> Rung {
        Rung::Bpf
    }

    fn drain(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let now = clock::monotonic_ns();
        self.refresh_param();
        let since = now.saturating_sub(self.last_walk_ns);
        let met =
            |exits: &mut Option<ExitCounter>| exits.as_mut().is_some_and(ExitCounter::met_a_thread);
        if since >= WALK_NS || since >= WALK_AGAIN_NS && met(&mut self.exits) {
            self.walk(now)?;
        }
        self.drain_ring(facts, now)?;
        let since = match self.options.mode {
            Mode::Full => None,
            Mode::Counts => self.counts.interval_start_ns(),
            Mode::Stats => self.stats.interval_start_ns(),
        };
        let since = since.map_or(0, |since| now.saturating_sub(since));
        if Duration::from_nanos(since) >= self.options.interval {
            match self.options.mode {
                Mode::Full => {}
                Mode::Counts => self.drain_counts(facts, now, false)?,
                Mode::Stats => self.drain_stats(facts, now)?,
            }
        }
        if self.exits.as_ref().is_some_and(|exits| exits.is_due(now)) {
            self.walk(now)?;
            self.drain_exits(facts, now)?;
        }
        self.drain_lost(facts, now)?;
        self.tick_cost(now);
        Ok(())
    }

    fn stop(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let now = clock::monotonic_ns();
        let programs = Self::programs(&self.attached, self.exits.as_ref());
        self.cost.end_sample(now, &programs);
        self.detach();
        if let Some(exits) = &mut self.exits {
            exits.detach();
        }
        self.walk(now)?;
        self.drain_ring(facts, now)?;
        match self.options.mode {
            Mode::Full => {}
            Mode::Counts => self.drain_counts(facts, now, true)?,
            Mode::Stats => self.drain_stats(facts, now)?,
        }
        self.drain_exits(facts, now)?;
        self.drain_lost(facts, now)
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
        missing.extend(not_kept(self.options.mode));
        missing
    }

    fn kernel_cpu_ns(&self) -> Option<u64> {
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
}
