//! Full facts of some VMs, for as long as the pilot wants them.

use std::collections::BTreeMap;
use std::time::Duration;

use haltwise_core::event::{Facts, Halt};
use haltwise_core::ids::{Pid, VmIndex, VmKey};
use haltwise_core::pilot::decision::Wanted;
use haltwise_core::pilot::replayed::Stretch;
use haltwise_core::recording::{Roster, Rung};
use haltwise_host::clock;
use haltwise_host::collector::{CollectOptions, Collector};
use haltwise_host::root::Root;

use crate::collect::attach::{attach, explain};
use crate::exit::Failure;
use crate::time::nanos;

pub(crate) const DRAIN: Duration = Duration::from_millis(100);

pub(crate) type Collected = Vec<(VmKey, Option<Stretch>)>;

const FORGET_NS: u64 = 60_000_000_000;

/// Records one stretch after the other. Its programs are loaded once, which takes more CPU time than a stretch, and are
/// turned to the VMs of the next.
#[derive(Debug)]
pub(crate) struct Collecting {
    root: Root,
    /// The source, once it is known that the better one does not work here.
    rung: Option<Rung>,
    attached: Option<Attached>,
    running: Option<Running>,
    pub(super) lost: u64,
    kernel_cpu_ns: u64,
}

#[derive(Debug)]
struct Attached {
    pids: Option<Vec<Pid>>,
    collector: Box<dyn Collector>,
}

#[derive(Debug)]
struct Running {
    wanted: Wanted,
    from_ns: u64,
    until_ns: u64,
    halts: Vec<Halt>,
}

impl Collecting {
    /// Loads the programs, as long as that is permitted, and records nothing yet.
    pub(crate) fn prepare(root: &Root, rung: Option<Rung>) -> Result<Self, Failure> {
        let mut collecting = Self {
            root: root.clone(),
            rung,
            attached: None,
            running: None,
            lost: 0,
            kernel_cpu_ns: 0,
        };
        // This process has no VM: the programs are there to be turned to others.
        collecting.turn_to(vec![Pid(std::process::id())])?;
        collecting.rest()?;
        Ok(collecting)
    }

    /// Rights are about to be dropped; gives whether perf events will be opened.
    pub(crate) fn confine(&mut self) -> bool {
        let Some(attached) = &mut self.attached else {
            // With tracepoints, events are opened for each stretch.
            return true;
        };
        attached.collector.confine();
        attached.collector.rung() == Rung::Tracepoints
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn kernel_cpu_ns(&self) -> u64 {
        let attached = self.attached.as_ref();
        let now = attached.and_then(|it| it.collector.kernel_cpu_ns());
        self.kernel_cpu_ns + now.unwrap_or(0)
    }

    pub(crate) fn start(&mut self, wanted: &Wanted) -> Result<(), Failure> {
        let mut pids: Vec<Pid> = wanted.vms.iter().map(|vm| vm.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        self.turn_to(pids)?;
        let from_ns = clock::monotonic_ns().saturating_add(wanted.skip_ns);
        self.running = Some(Running {
            from_ns,
            until_ns: from_ns.saturating_add(wanted.length_ns),
            wanted: wanted.clone(),
            halts: Vec::new(),
        });
        Ok(())
    }

    /// Records these VMs, attaching where that is needed.
    fn turn_to(&mut self, pids: Vec<Pid>) -> Result<(), Failure> {
        if let Some(attached) = &mut self.attached {
            if attached.pids.as_ref() == Some(&pids) {
                return Ok(());
            }
            let collector = &mut attached.collector;
            if collector.turn_to(&pids).map_err(explain)? {
                let before_ns = clock::monotonic_ns().saturating_sub(FORGET_NS);
                collector.forget_ended(before_ns);
                collector.begin().map_err(explain)?;
                attached.pids = Some(pids);
                return Ok(());
            }
        }
        self.detach();
        let options = CollectOptions {
            vms: pids.clone(),
            ..CollectOptions::default()
        };
        let mut collector = attach(self.rung, &options, &self.root)?;
        collector.begin().map_err(explain)?;
        if collector.rung() == Rung::Tracepoints {
            self.rung = Some(Rung::Tracepoints);
        }
        self.attached = Some(Attached {
            pids: Some(pids),
            collector,
        });
        Ok(())
    }

    pub(crate) fn rest(&mut self) -> Result<(), Failure> {
        self.running = None;
        let Some(attached) = &mut self.attached else {
            return Ok(());
        };
        if attached.pids.take().is_some() && !attached.collector.rest().map_err(explain)? {
            self.detach();
        }
        Ok(())
    }

    pub(crate) fn detach(&mut self) {
        self.running = None;
        if let Some(Attached { collector, .. }) = self.attached.take() {
            self.kernel_cpu_ns += collector.kernel_cpu_ns().unwrap_or(0);
        }
    }

    /// Ends the stretch that is being recorded, with nothing, unless it is what is wanted.
    pub(crate) fn abandon_unless(&mut self, wanted: Option<&Wanted>) {
        let running = self.running.take();
        self.running = running.filter(|running| Some(&running.wanted) == wanted);
    }

    pub(crate) fn drain(&mut self) -> Result<Option<Collected>, Failure> {
        let (Some(attached), Some(running)) = (&mut self.attached, &mut self.running) else {
            return Ok(None);
        };
        let collector = &mut attached.collector;
        let mut facts = Facts::default();
        collector.drain(&mut facts).map_err(explain)?;
        self.lost += facts.lost.iter().map(|lost| lost.count).sum::<u64>();
        let counts = |halt: &Halt| (running.from_ns..running.until_ns).contains(&halt.end_ns());
        running.halts.extend(facts.halts.into_iter().filter(counts));
        // Events that the kernel hands over last may lie in another CPU's buffer until the next drain.
        let late_ns = 2 * nanos(DRAIN);
        let now_ns = clock::monotonic_ns();
        if running.halts.len() >= running.most_halts() {
            running.until_ns = running
                .until_ns
                .min(now_ns.saturating_sub(late_ns).max(running.from_ns + 1));
        }
        if now_ns < running.until_ns.saturating_add(late_ns) {
            return Ok(None);
        }
        let keys = keys(collector.roster());
        Ok(self.running.take().map(|running| running.finish(&keys)))
    }
}

pub(super) fn keys(roster: &Roster) -> BTreeMap<VmIndex, VmKey> {
    let vms = roster.vms.iter();
    vms.map(|vm| (vm.index, vm.key)).collect()
}

impl Running {
    fn most_halts(&self) -> usize {
        let wanted = &self.wanted;
        wanted.most_halts.saturating_mul(wanted.vms.len())
    }

    /// The recording, up to the halt after which there would be too many.
    fn finish(mut self, keys: &BTreeMap<VmIndex, VmKey>) -> Collected {
        let most = self.most_halts();
        if self.halts.len() > most {
            let mut ends_ns: Vec<u64> = self.halts.iter().map(Halt::end_ns).collect();
            let (_, last_ns, _) = ends_ns.select_nth_unstable(most);
            self.until_ns = self.until_ns.min(*last_ns).max(self.from_ns + 1);
        }
        let mut by_vm: BTreeMap<VmKey, Vec<Halt>> = BTreeMap::new();
        let inside = self
            .halts
            .into_iter()
            .filter(|halt| halt.end_ns() < self.until_ns);
        for halt in inside {
            if let Some(key) = halt.vm.and_then(|vm| keys.get(&vm)) {
                by_vm.entry(*key).or_default().push(halt);
            }
        }
        let (began_ns, span_ns) = (self.from_ns, self.until_ns - self.from_ns);
        let stretch = |halts| Stretch {
            began_ns,
            span_ns,
            halts,
        };
        let of = |vm: VmKey| (vm, by_vm.remove(&vm).map(stretch));
        self.wanted.vms.into_iter().map(of).collect()
    }
}

/// Whether a VM's guest lets its host poll on no vCPU: halts under a window that never polled
/// (`MSR_KVM_POLL_CONTROL`, as the guest's haltpoll governor writes it).
pub(crate) fn is_vetoed(stretch: &Stretch) -> bool {
    let could = || {
        stretch
            .halts
            .iter()
            .filter(|halt| halt.window_ns.is_some_and(|ns| ns > 0))
    };
    could().count() >= 100 && could().all(|halt| halt.polled == Some(false))
}
