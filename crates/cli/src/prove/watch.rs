//! One block: recorded in process, by the collector that `haltwise record` uses, and cut to what counts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use haltwise_core::event::{Facts, Halt, Vm};
use haltwise_core::ids::{Tid, VmIndex};
use haltwise_core::prove::compare::WARM_UP_PART;
use haltwise_core::recording::{Rung, Side};
use haltwise_core::units::Nanos;
use haltwise_host::collector::{CollectError, Collector};
use haltwise_host::cycles::Cycles;
use haltwise_host::root::Root;
use haltwise_host::{clock, discovery, sandbox};
use rustix::process::{Pid, getpgid};

use super::command::Running;
use super::meters::{Meters, Used};
use crate::collect::attach::{self, explain};
use crate::collect::interrupt::Interrupt;
use crate::exit::Failure;

/// Between two drains. The ring holds seconds, even at a hundred thousand halts per second.
const DRAIN: Duration = Duration::from_millis(20);
/// Between two looks at the host's counters, in blocks longer than [`SHORT_NS`].
const LOOK_NS: u64 = 100_000_000;
const SHORT_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Watcher {
    pub(super) collector: Box<dyn Collector>,
    root: Root,
    side: Side,
    plan: Plan,
    pub(super) cycles: Result<Cycles, CollectError>,
    facts: Facts,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Until the command ends, or for so long.
    pub(crate) duration: Duration,
    pub(crate) own_vms: bool,
    pub(crate) warm_up: Option<Nanos>,
}

#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Halts of the VMs that count, after the warm-up.
    pub(crate) halts: Vec<Halt>,
    pub(crate) vms: usize,
    /// From the end of the warm-up to the end of the last halt.
    pub(crate) seconds: f64,
    pub(crate) lost: u64,
    pub(crate) used: Used,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum End {
    Duration,
    Command {
        status: ExitStatus,
        name: String,
        output: String,
    },
    Signal(&'static str),
}

struct Block {
    begun_ns: u64,
    /// Whether a VM counts; decided once for each.
    counts: BTreeMap<VmIndex, bool>,
    before: BTreeSet<VmIndex>,
    meters: Meters,
    looked_ns: u64,
}

impl Watcher {
    pub(crate) fn new(collector: Box<dyn Collector>, root: &Root, side: Side, plan: Plan) -> Self {
        Self {
            collector,
            root: root.clone(),
            side,
            plan,
            cycles: Cycles::open(root),
            facts: Facts::default(),
        }
    }

    /// Gives up the rights that watching and setting do not take. `starts`: a command in each block, which has them.
    pub(crate) fn confine(&mut self, writes: &[PathBuf], starts: bool, sets_ceilings: bool) {
        self.collector.confine();
        let duties = sandbox::Duties {
            writes,
            ends_command: starts,
            opens_events: self.collector.rung() == Rung::Tracepoints,
            sets_ceilings,
            ..sandbox::Duties::default()
        };
        attach::say_kept(if starts {
            sandbox::starter(&self.root, duties)
        } else {
            sandbox::recorder(&self.root, duties)
        });
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.collector.drain(&mut self.facts).map_err(explain)
    }

    pub(crate) fn block(
        &mut self,
        command: Option<&[OsString]>,
        interrupt: &Interrupt,
        mut progress: impl FnMut(Duration),
    ) -> Result<(End, Watched), Failure> {
        let mut block = self.begin();
        // Only now: its VMs' first halts belong to the block.
        let mut running = command.map(Running::start).transpose()?;
        let group = running.as_ref().map(Running::group);
        let end = loop {
            self.drain()?;
            let now_ns = clock::monotonic_ns();
            self.look(&mut block, group, now_ns);
            self.count(&mut block, now_ns, false);
            if let Some(signal) = interrupt.came() {
                return Ok((End::Signal(signal), Watched::default()));
            }
            if let Some(running) = running.take_if(|it| it.has_ended()) {
                let name = running.name.clone();
                let (status, output) = running.end()?;
                break End::Command {
                    status,
                    name,
                    output,
                };
            }
            let elapsed = Duration::from_nanos(now_ns.saturating_sub(block.begun_ns));
            let rest = match running {
                Some(_) => DRAIN,
                None => self.plan.duration.saturating_sub(elapsed),
            };
            if rest.is_zero() {
                break End::Duration;
            }
            progress(elapsed);
            std::thread::sleep(rest.min(DRAIN));
        };
        let ended_ns = clock::monotonic_ns();
        self.count(&mut block, ended_ns, true);
        // Events that the kernel handed over last may lie in another CPU's buffer until the next drain.
        std::thread::sleep(DRAIN);
        self.drain()?;
        self.place(&mut block, group);
        Ok((end, self.finish(&block, ended_ns)))
    }

    /// Events recorded before the start belong to no block.
    fn begin(&mut self) -> Block {
        drop(self.drain());
        self.facts = Facts::default();
        let vms = self.collector.roster().vms.iter();
        let living = vms.filter(|vm| is_alive(&self.root, vm));
        Block {
            begun_ns: clock::monotonic_ns(),
            counts: BTreeMap::new(),
            before: living.map(|vm| vm.index).collect(),
            meters: Meters::default(),
            looked_ns: 0,
        }
    }

    fn place(&self, block: &mut Block, group: Option<Pid>) {
        for vm in &self.collector.roster().vms {
            block.counts.entry(vm.index).or_insert_with(|| {
                if !self.plan.own_vms {
                    return true;
                }
                let pid = i32::try_from(vm.key.pid.0).ok().and_then(Pid::from_raw);
                match pid.map(|pid| getpgid(Some(pid))) {
                    Some(Ok(of_vm)) => Some(of_vm) == group,
                    // It has ended already: ours if it began with this block.
                    _ => !block.before.contains(&vm.index),
                }
            });
        }
    }

    fn look(&self, block: &mut Block, group: Option<Pid>, now_ns: u64) {
        self.place(block, group);
        let is_short = now_ns.saturating_sub(block.begun_ns) < SHORT_NS;
        if !is_short && now_ns.saturating_sub(block.looked_ns) < LOOK_NS {
            return;
        }
        block.looked_ns = now_ns;
        let counts = &block.counts;
        let vcpus = self.collector.roster().vcpus.iter();
        let ours = vcpus.filter(|vcpu| counts.get(&vcpu.vm) == Some(&true));
        // A guest's CPUs have no threads.
        let ours = ours.filter(|_| self.side.is_host());
        let tids: BTreeSet<Tid> = ours.map(|vcpu| vcpu.tid).collect();
        block.meters.read(&self.root, now_ns, tids.into_iter());
    }

    fn count(&mut self, block: &mut Block, now_ns: u64, is_last: bool) {
        if let Ok(cycles) = &mut self.cycles {
            block.meters.count(cycles, now_ns, is_last);
        }
    }

    fn finish(&mut self, block: &Block, ended_ns: u64) -> Watched {
        let plan = self.plan;
        let facts = std::mem::take(&mut self.facts);
        let ours = |halt: &Halt| match halt.vm {
            Some(vm) => block.counts.get(&vm) == Some(&true),
            None => !plan.own_vms,
        };
        let inside = |halt: &Halt| halt.start_ns >= block.begun_ns && halt.end_ns() <= ended_ns;
        let mut halts = facts.halts;
        halts.retain(|halt| ours(halt) && inside(halt));
        let first_ns = if plan.own_vms {
            halts.iter().map(|halt| halt.start_ns).min()
        } else {
            Some(block.begun_ns)
        };
        let last_ns = halts.iter().map(Halt::end_ns).max();
        let (first_ns, last_ns) = (first_ns.unwrap_or(ended_ns), last_ns.unwrap_or(ended_ns));
        let warm_up_ns = match plan.warm_up {
            Some(Nanos(given)) => given,
            None => last_ns.saturating_sub(first_ns) / WARM_UP_PART,
        };
        let since_ns = first_ns.saturating_add(warm_up_ns);
        halts.retain(|halt| halt.start_ns >= since_ns);
        let vms: BTreeSet<VmIndex> = halts.iter().filter_map(|halt| halt.vm).collect();
        let mut notes = Vec::new();
        if !plan.own_vms {
            notes.extend(self.comings_and_goings(block));
        }
        Watched {
            vms: vms.len(),
            seconds: last_ns.saturating_sub(since_ns) as f64 / 1e9,
            lost: facts.lost.iter().map(|lost| lost.count).sum(),
            used: block.meters.used(since_ns),
            halts,
            notes,
        }
    }

    /// A block with other VMs than the next cannot be compared with it.
    fn comings_and_goings(&self, block: &Block) -> Vec<String> {
        let mut notes = Vec::new();
        for vm in &self.collector.roster().vms {
            let was_there = block.before.contains(&vm.index);
            let is_there = is_alive(&self.root, vm);
            if was_there && !is_there {
                notes.push(format!("VM {} ended during the experiment", vm.name));
            } else if is_there && !was_there {
                notes.push(format!("VM {} started during the experiment", vm.name));
            }
        }
        notes
    }
}

fn is_alive(root: &Root, vm: &Vm) -> bool {
    discovery::key_of(root, vm.key.pid).is_ok_and(|key| key.start_ticks == vm.key.start_ticks)
}
