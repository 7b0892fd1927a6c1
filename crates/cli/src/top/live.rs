//! Steps from this host, as they happen.
//!
//! The collector counts in the kernel (counts mode), which is the cheapest there is: histograms of
//! each vCPU are read once for each step. Windows and ceilings come from the walk over all vCPUs that
//! goes with it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use haltwise_capture::info::Clock;
use haltwise_core::account::ledger::Place;
use haltwise_core::event::{Facts, KnobScope, Paused, Vcpu, Vm};
use haltwise_core::ids::{Pid, VmIndex};
use haltwise_core::recording::Mode;
use haltwise_core::stats::Fold;
use haltwise_host::collector::Collector;
use haltwise_host::discovery::threads_of;
use haltwise_host::params::{Look, Watch};
use haltwise_host::root::Root;
use haltwise_host::sandbox::Duties;
use haltwise_host::{clock, host_sample};

use super::origin::Origin;
use super::piloted::Reader;
use super::step::{Around, Key, Step, Used, lost_count};
use crate::collect::attach::{self, explain};
use crate::collect::watching::{ToWatch, Watching};
use crate::exit::Failure;
use crate::time::nanos;

/// Between two drains when every halt comes one by one.
const DRAIN_HALTS: Duration = Duration::from_millis(20);
/// Between two drains when only counts are read: so long a VM must run to be known by its name.
const DRAIN_COUNTS: Duration = Duration::from_millis(100);

/// A collector at work, and the step that is under way.
pub(crate) struct Live {
    collector: Box<dyn Collector>,
    root: Root,
    wanted: Vec<Pid>,
    interval_ns: u64,
    mode: Mode,
    watch: Watch,
    gone: BTreeSet<VmIndex>,
    around: Around,
    used: BTreeMap<Place, Used>,
    pilot: Reader,
    step: Step,
}

impl Live {
    pub(crate) fn attach(wanted: &ToWatch) -> Result<(Self, Origin), Failure> {
        let root = Root::host();
        let Watching {
            collector,
            options,
            exits,
            began_ns: start_ns,
            missing,
        } = wanted.begin(&root)?;
        let host = attach::this_host(&root);
        let origin = Origin {
            capture: None,
            hostname: host.hostname.unwrap_or_else(|| "unnamed".to_owned()),
            kernel: host.kernel_release,
            rung: collector.rung(),
            mode: options.mode,
            clock: Clock::new(start_ns, clock::wall_ns()),
            names: exits.map(|exits| exits.names()),
            missing,
            notes: Vec::new(),
            partial: false,
        };
        let mut live = Self {
            collector,
            root,
            wanted: options.vms,
            interval_ns: nanos(wanted.interval),
            mode: options.mode,
            watch: Watch::default(),
            gone: BTreeSet::new(),
            around: Around::default(),
            used: BTreeMap::new(),
            pilot: Reader::default(),
            step: Step::between(start_ns, start_ns),
        };
        live.look().context("read KVM's settings")?;
        live.sample();
        // It writes to the terminal alone.
        attach::confine(&mut *live.collector, &live.root, Duties::default());
        Ok((live, origin))
    }

    pub(crate) fn seen(&self) -> (usize, usize) {
        let roster = self.collector.roster();
        (roster.vms.len(), roster.vcpus.len())
    }

    /// Drains, and gives the step if that is over.
    pub(crate) fn turn(&mut self) -> Result<Option<Step>, Failure> {
        // Before the drain: then the collector has reached the end of its own interval too.
        let due = self.is_due();
        let mut facts = Facts::default();
        self.collector.drain(&mut facts).map_err(explain)?;
        let drained_ns = clock::monotonic_ns();
        self.step.facts(&facts);
        Ok(due.then(|| self.end_step(drained_ns)))
    }

    pub(crate) fn stop(&mut self) -> Result<Step, Failure> {
        let mut facts = Facts::default();
        let ended_ns = self.collector.end(&mut facts).map_err(explain)?;
        self.collector.stop(&mut facts).map_err(explain)?;
        self.step.facts(&facts);
        Ok(self.end_step(ended_ns))
    }

    pub(crate) fn is_due(&self) -> bool {
        clock::monotonic_ns() >= self.due_ns()
    }

    fn due_ns(&self) -> u64 {
        self.step.start_ns.saturating_add(self.interval_ns)
    }

    /// How long nothing needs to be done.
    pub(crate) fn rest(&self) -> Duration {
        let drain = match self.mode {
            Mode::Full => DRAIN_HALTS,
            Mode::Counts | Mode::Stats => DRAIN_COUNTS,
        };
        let due = self.due_ns().saturating_sub(clock::monotonic_ns());
        drain.min(Duration::from_nanos(due))
    }

    /// Ends the step where its facts end; what takes time after that belongs to the next.
    fn end_step(&mut self, now: u64) -> Step {
        self.sample();
        // A setting that cannot be read now may be next time.
        drop(self.look());
        let mut step = std::mem::replace(&mut self.step, Step::between(now, now));
        step.end_ns = now;
        step.settle();
        step.around = self.around(&step);
        self.collector.look_at_threads();
        let now = Used::so_far(self.collector.roster());
        let since = |(place, used): (&Place, &Used)| {
            let before = self.used.get(place).copied().unwrap_or_default();
            (*place, used.since(before))
        };
        step.used = now.iter().map(since).collect();
        self.used = now;
        // The sample at its end is the first of the next.
        if let Some(sample) = step.last_sample() {
            self.step.host(sample);
        }
        step
    }

    fn sample(&mut self) {
        if let Ok(sample) = host_sample::read(&self.root, self.collector.kernel_cpu_ns()) {
            self.step.host(&sample);
        }
    }

    fn look(&mut self) -> Result<(), haltwise_host::root::RootError> {
        let changes = (self.watch).changes(&self.root, Look::All, clock::monotonic_ns)?;
        let host = changes
            .into_iter()
            .filter(|knob| knob.scope == KnobScope::Host);
        let host: Vec<_> = host.collect();
        if !host.is_empty() {
            let map = Rc::make_mut(&mut self.around.knobs);
            map.extend(host.into_iter().map(|knob| (knob.name, knob.value)));
        }
        Ok(())
    }

    /// VMs that run, or did something before they went; and of their vCPUs the same.
    fn around(&mut self, step: &Step) -> Around {
        let roster = self.collector.roster();
        let mut vms: Vec<Vm> = Vec::new();
        let mut vcpus: Vec<Vcpu> = Vec::new();
        let mut processes = BTreeMap::new();
        for vm in &roster.vms {
            let wanted = self.wanted.is_empty() || self.wanted.contains(&vm.key.pid);
            let acted = step.acted(Key::Vm(vm.index));
            if !wanted || (self.gone.contains(&vm.index) && !acted) {
                continue;
            }
            // A process with many VMs is read once.
            let process = processes.entry((vm.key.pid, vm.key.start_ticks));
            let threads: &Option<_> = process.or_insert_with(|| threads_of(&self.root, &vm.key));
            if threads.is_none() {
                self.gone.insert(vm.index);
            }
            if threads.is_none() && !acted {
                continue;
            }
            // Only whether it is paused now: what is over would make each step's another, as counts of threads would.
            let from_ns = vm.paused.map(|paused| paused.from_ns);
            let paused = from_ns.map(|from_ns| Paused {
                over_ns: 0,
                from_ns,
            });
            vms.push(Vm {
                paused,
                threads: None,
                ..vm.clone()
            });
            let first = roster.vcpus.partition_point(|vcpu| vcpu.vm < vm.index);
            let own = roster.vcpus[first..]
                .iter()
                .take_while(|v| v.vm == vm.index);
            let own = own.filter(|vcpu| {
                let runs = threads.as_ref().is_some_and(|all| all.contains(&vcpu.tid));
                // Before its first KVM_RUN a vCPU has no thread.
                runs || vcpu.tid.0 == 0 || step.acted(Key::Vcpu(vm.index, vcpu.id))
            });
            vcpus.extend(own.map(|vcpu| Vcpu {
                time: None,
                ..vcpu.clone()
            }));
        }
        // A history holds thousands of steps: what has not changed is held once.
        renew(&mut self.around.vms, vms);
        renew(&mut self.around.vcpus, vcpus);
        if lost_count(&step.lost) > 0 {
            Rc::make_mut(&mut self.around.lost).fold(&step.lost);
        }
        let pilot = self.pilot.of(&self.root, &self.around.vms);
        renew(&mut self.around.pilot, pilot);
        self.around.added_ns_per_halt = self.collector.added_ns_per_halt();
        self.around.clone()
    }
}

fn renew<T: PartialEq>(held: &mut Rc<T>, now: T) {
    if **held != now {
        *held = Rc::new(now);
    }
}
