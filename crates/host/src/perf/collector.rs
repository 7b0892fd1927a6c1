//! The tracepoint source as a [`Collector`]: reads the rings, orders, decodes, places.

use haltwise_core::decode::{Decoder, Event, Fact, Order, What};
use haltwise_core::event::{Facts, Lost};
use haltwise_core::ids::{Pid, Tid};
use haltwise_core::kvm::{Arch, Rule};
use haltwise_core::recording::{Missing, Mode, Roster, Rung};

use super::counts::Counts;
use super::events::{Events, Seen, SeenWhat};
use super::places::Places;
use super::ring::{Given, Rings};
use crate::collector::{CollectError, CollectOptions, Collector, Counting, push_lost};
use crate::root::Root;
use crate::support::{KernelRelease, Rights};
use crate::tracefs::Tracefs;
use crate::{clock, params};

const SCAN_NS: u64 = 5_000_000_000;

/// Fields that no kernel lets this source see.
const UNSEEN: [(&str, &str); 6] = [
    (
        "ceiling_ns",
        "without BPF a VM's ceiling shows itself only when a window is clamped to it",
    ),
    (
        "ceiling_source",
        "the origin of a ceiling cannot be read without BPF",
    ),
    (
        "window_ns",
        "a vCPU's window is known from its first kvm_halt_poll_ns on; until a clamp shows its \
         ceiling, that is taken to be the module's",
    ),
    (
        "wake",
        "a halt that ended while it polled woke no thread; a signal looks like a device",
    ),
    (
        "poll_ns",
        "KVM's own count is not visible: a preempted poll is counted until the vCPU left its CPU, \
         about 1 us too long",
    ),
    (
        "guest_veto",
        "whether a guest disabled host polling cannot be read without BPF",
    ),
];

const OWN_NAMESPACE: &str = "we run in a PID namespace of our own: threads have the numbers of the host's, and wake-ups \
                             are seen only of threads that halted before";

#[derive(Debug)]
pub struct PerfCollector {
    options: CollectOptions,
    root: Root,
    events: Events,
    rings: Rings,
    order: Order<Seen>,
    decoder: Decoder,
    counts: Counts,
    places: Places,
    watched: Vec<Tid>,
    missing: Vec<Missing>,
    last_scan_ns: u64,
    /// Or their counts.
    keeps_halts: bool,
    counting: Counting,
}

impl PerfCollector {
    pub fn start(options: CollectOptions, root: Root) -> Result<Self, CollectError> {
        let keeps_halts = match options.mode {
            Mode::Full => true,
            Mode::Counts => false,
            // It reads counters, of which events know nothing.
            Mode::Stats => return Err(CollectError::NotInEvents),
        };
        let tracefs = Tracefs::find(&root)?;
        let (events, mut missing) = Events::load(&tracefs)?;
        let kernel = KernelRelease::read(&root).map_err(CollectError::unread)?;
        missing.extend(UNSEEN.map(|(field, reason)| Missing::new(field, reason)));
        if Rights::read(&root).is_ok_and(|it| !it.initial_pid_namespace) {
            missing.push(Missing::new("tid", OWN_NAMESPACE));
        }
        let now = clock::monotonic_ns();
        let mut collector = Self {
            places: Places::new(root.clone(), &options.vms),
            events,
            rings: Rings::default(),
            order: Order::default(),
            decoder: Decoder::new(Rule::of(kernel.version, Arch::X86).clamp),
            counts: Counts::new(interval_ns(&options), now),
            watched: Vec::new(),
            missing,
            last_scan_ns: now,
            keeps_halts,
            counting: Counting::default(),
            options,
            root,
        };
        collector.refresh_param();
        collector.scan()?;
        collector.open_cpus()?;
        collector.watch_threads()?;
        Ok(collector)
    }

    fn open_cpus(&mut self) -> Result<(), CollectError> {
        let (always, watched) = (self.events.always(), self.events.watching(&self.watched));
        let bytes = self.options.buffer_bytes;
        self.rings.open_online(&self.root, bytes, &always, &watched)
    }

    fn watch_threads(&mut self) -> Result<(), CollectError> {
        let Some(tids) = self.places.take_changed() else {
            return Ok(());
        };
        self.rings.watch(&self.events.watching(&tids))?;
        if self.events.sees_sched() {
            let since = clock::monotonic_ns();
            for tid in &tids {
                self.decoder.watch(*tid, since);
            }
        }
        self.watched = tids;
        Ok(())
    }

    fn scan(&mut self) -> Result<(), CollectError> {
        for gone in self.places.scan().map_err(CollectError::unread)? {
            self.decoder.forget(gone);
        }
        Ok(())
    }

    fn refresh_param(&mut self) {
        let param = params::param_halt_poll_ns(&self.root).ok();
        self.decoder.set_param(param);
    }

    /// Reads all rings. A thread that was never seen to halt is learnt here, before its events have
    /// their turn, so that it is watched as soon as can be.
    fn read_rings(&mut self) {
        let (events, order, places) = (&self.events, &mut self.order, &mut self.places);
        self.rings.read(|_, time_ns, given| {
            let (pid, what) = match given {
                Given::Event { pid, raw } => (pid, events.parse(raw)?),
                Given::Gap => (0, SeenWhat::Whole(What::Gap)),
            };
            let pid = Pid(pid);
            if let Some(tid) = what.vcpu() {
                places.halts(tid, pid);
            }
            order.push(time_ns, Seen { time_ns, pid, what });
            Some(what.of())
        });
    }

    fn fold(&mut self, ready: &[Seen], facts: &mut Facts) {
        for tid in self.places.take_reused() {
            self.decoder.forget(tid);
        }
        for seen in ready {
            self.counts.advance(seen.time_ns, &mut facts.counts);
            let Some(what) = self.place(seen) else {
                continue;
            };
            let event = Event {
                time_ns: seen.time_ns,
                what,
            };
            match self.decoder.push(&event) {
                Some(Fact::Halt(halt)) if !self.counting.holds(halt.end_ns()) => {}
                Some(Fact::Window(change)) if !self.counting.holds(change.time_ns) => {}
                Some(Fact::Halt(mut halt)) => {
                    self.places.place(&mut halt);
                    if self.keeps_halts {
                        facts.halts.push(halt);
                    } else {
                        self.counts.add(&halt);
                    }
                }
                Some(Fact::Window(mut change)) if self.keeps_halts => {
                    change.vm = self.places.vm_of(change.tid);
                    facts.windows.push(change);
                }
                Some(Fact::Window(_)) | None => {}
            }
        }
    }

    /// An event in the decoder's words; `None` if it concerns no thread that is wanted.
    fn place(&mut self, seen: &Seen) -> Option<What> {
        if let Some(tid) = seen.what.vcpu()
            && !self.places.halts(tid, seen.pid)
        {
            return None;
        }
        match seen.what {
            SeenWhat::Whole(what) => {
                if let What::HaltPollNs { tid, vcpu, .. } = what {
                    self.places.runs(tid, vcpu);
                }
                Some(what)
            }
            SeenWhat::Waking { tid, waker } => {
                let source = self.places.source(tid, waker, seen.pid)?;
                Some(What::Waking { tid, source })
            }
        }
    }

    /// Events counted but not recorded. (Seen: single wake-ups from interrupts, on 6.18.)
    fn tell_last_losses(&mut self, facts: &mut Facts, now_ns: u64) -> Result<(), CollectError> {
        let [always, watched] = self.rings.close()?;
        for (count, place) in [
            (always, "KVM event counted but not recorded"),
            (watched, Lost::SCHED),
        ] {
            push_lost(&mut facts.lost, now_ns, count, place);
        }
        Ok(())
    }
}

impl Collector for PerfCollector {
    fn rung(&self) -> Rung {
        Rung::Tracepoints
    }

    fn drain(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let began = clock::monotonic_ns();
        self.refresh_param();
        self.read_rings();
        self.watch_threads()?;
        let ready = self.order.end_round(began);
        self.fold(&ready, facts);
        self.rings.report(&mut self.order, facts, began);
        if began.saturating_sub(self.last_scan_ns) >= SCAN_NS {
            self.last_scan_ns = began;
            self.scan()?;
            self.open_cpus()?;
        }
        self.watch_threads()?;
        self.places.vms.look(facts, began);
        self.places.refresh_roster();
        Ok(())
    }

    fn begin(&mut self) -> Result<u64, CollectError> {
        let now = clock::monotonic_ns();
        self.counting.began_ns = now;
        self.counts = Counts::new(interval_ns(&self.options), now);
        self.places.vms.begin(now);
        Ok(now)
    }

    fn end(&mut self, facts: &mut Facts) -> Result<u64, CollectError> {
        if let Some(ended_ns) = self.counting.ended_ns {
            return Ok(ended_ns);
        }
        let now = clock::monotonic_ns();
        self.places.vms.look(facts, now);
        self.counting.ended_ns = Some(now);
        Ok(now)
    }

    fn stop(&mut self, facts: &mut Facts) -> Result<(), CollectError> {
        let ended_ns = self.end(facts)?;
        self.rings.disable()?;
        let now = clock::monotonic_ns();
        self.read_rings();
        let ready = self.order.finish();
        self.fold(&ready, facts);
        self.counts.finish(ended_ns, &mut facts.counts);
        self.rings.report(&mut self.order, facts, now);
        let told = self.tell_last_losses(facts, now);
        self.places.refresh_roster();
        self.places.vms.end(facts);
        told
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

    fn counted_to_ns(&self) -> Option<u64> {
        (self.options.mode == Mode::Counts).then(|| self.counts.interval_start_ns())
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = self.missing.clone();
        missing.extend(self.places.missing());
        missing
    }
}

fn interval_ns(options: &CollectOptions) -> u64 {
    u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod test {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    #[test]
    #[expect(clippy::print_stdout, reason = "a test that cannot run here says why")]
    fn without_the_right_to_trace_it_says_which_is_needed() {
        let allowed = || {
            crate::support::inspect(&Root::host(), 0)
                .unwrap()
                .tracepoints
        };
        if let Err(refusal) = allowed() {
            println!("skipped: {refusal}");
            return;
        }
        // Capabilities belong to the thread: this one alone gives them up.
        let refused = std::thread::spawn(move || {
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::SYS_ADMIN | CapabilitySet::PERFMON;
            set_capabilities(None, sets).unwrap();
            // kernel.perf_event_paranoid may allow it to all users.
            allowed().err()?;
            let refused = PerfCollector::start(CollectOptions::default(), Root::host());
            Some(refused.unwrap_err())
        });
        if let Some(refused) = refused.join().unwrap() {
            assert!(matches!(refused, CollectError::Denied { .. }), "{refused}");
            assert!(refused.to_string().ends_with("(needs CAP_PERFMON)"));
        }
    }
}
