//! Steps from this host, as they happen.
//!
//! The collector counts in the kernel (counts mode), which is the cheapest there is: histograms of
//! each vCPU are read once for each step. Windows and ceilings come from the walk over all vCPUs that
//! goes with it.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use haltwise_capture::info::Clock;
use haltwise_core::event::{Facts, KnobScope, Paused, Vm};
use haltwise_core::ids::Pid;
use haltwise_core::recording::Mode;
use haltwise_host::collector::Collector;
use haltwise_host::params::{Look, Watch};
use haltwise_host::root::Root;
use haltwise_host::sandbox::Duties;
use haltwise_host::{clock, host_sample};

use super::piloted::Reader;
use super::step::{Around, Step, Used, used_so_far};
use super::timeline::Origin;
use crate::collect::attach::{self, explain};
use crate::collect::watching::{ToWatch, Watching};
use crate::exit::Failure;
use crate::time::nanos;

/// Between two drains when every halt comes one by one.
const DRAIN_HALTS: Duration = Duration::from_millis(20);
/// Between two drains when only counts are read: so long a VM must run to be known by its name.
const DRAIN_COUNTS: Duration = Duration::from_millis(100);

pub(crate) struct Live {
    collector: Box<dyn Collector>,
    root: Root,
    wanted: Vec<Pid>,
    interval_ns: u64,
    mode: Mode,
    watch: Watch,
    around: Around,
    used: Used,
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
            around: Around::default(),
            used: Used::new(),
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
        self.advance(&step);
        step.around = self.around.clone();
        self.collector.look_at_threads();
        let used = used_so_far(self.collector.roster());
        step.use_cpus(&self.used, &used);
        self.used = used;
        // The sample at its end is the first of the next.
        if let Some(sample) = step.host.last_sample() {
            self.step.host.sample(&sample);
        }
        step
    }

    fn sample(&mut self) {
        if let Ok(sample) = host_sample::read(&self.root, self.collector.kernel_cpu_ns()) {
            self.step.host.sample(&sample);
        }
    }

    fn look(&mut self) -> Result<(), haltwise_host::root::RootError> {
        let changes = (self.watch).changes(&self.root, Look::All, clock::monotonic_ns)?;
        for knob in changes.iter().filter(|it| it.scope == KnobScope::Host) {
            self.around.set(knob);
        }
        Ok(())
    }

    fn advance(&mut self, step: &Step) {
        let mut roster = self.collector.roster().clone();
        // Totals that grow would make each step's roster another.
        for vm in &mut roster.vms {
            let from_ns = vm.paused.map(|paused| paused.from_ns);
            vm.paused = from_ns.map(|from_ns| Paused {
                over_ns: 0,
                from_ns,
            });
            vm.threads = None;
        }
        roster.vcpus.iter_mut().for_each(|vcpu| vcpu.time = None);
        let wanted = &self.wanted;
        let is_wanted = |vm: &Vm| wanted.is_empty() || wanted.contains(&vm.key.pid);
        self.around.advance(step, &roster, is_wanted);
        let pilot = self.pilot.of(&self.root, &self.around.vms);
        if *self.around.pilot != pilot {
            self.around.pilot = Rc::new(pilot);
        }
        self.around.added_ns_per_halt = self.collector.added_ns_per_halt();
    }
}
