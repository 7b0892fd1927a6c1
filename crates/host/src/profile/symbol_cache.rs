//! Samples as rows: their frames and stacks numbered, each written once.

use std::collections::{BTreeMap, BTreeSet};

use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey};
use haltwise_core::profile::{Event, Frame, Phase, Rows, Sample, Space, Stack, Thread};
use haltwise_core::recording::Roster;

use super::record::Raw;
use super::symbols::Symbols;
use crate::discovery;
use crate::root::Root;

/// Frames, stacks or addresses that are remembered, each. When there are more, all are forgotten and
/// numbered anew when they come again: readers put equal ones together.
const REMEMBERED: usize = 1 << 17;

#[derive(Debug, Default)]
pub(super) struct SymbolCache {
    /// By all but their numbers.
    frames: BTreeMap<(Space, String, Option<String>, Option<u64>), u64>,
    stacks: BTreeMap<(Vec<u64>, bool), u64>,
    /// Frames of addresses: of the kernel, and of processes.
    kernel: BTreeMap<u64, u64>,
    user: BTreeMap<(u32, u64), u64>,
    last_frame: u64,
    last_stack: u64,
}

impl SymbolCache {
    /// Makes rows of a sample; none if its process is not wanted.
    pub(super) fn keep(
        &mut self,
        raw: &Raw,
        event: Event,
        sampled_threads: &mut SampledThreads,
        symbols: &mut Symbols,
        rows: &mut Rows,
    ) {
        let Some(whose) = sampled_threads.whose(raw.pid, raw.tid) else {
            return;
        };
        if sampled_threads.is_new(raw.pid, raw.tid) {
            rows.threads.push(Thread {
                vm: Some(whose.vm),
                pid: Pid(raw.pid),
                tid: Tid(raw.tid),
                name: sampled_threads.name(raw.pid, raw.tid),
            });
        }
        let stack = self.stack(raw, symbols, rows);
        let tag = raw.tag;
        let phase = tag.map_or(Phase::Unknown, |tag| tag.phase);
        let is_exit = phase == Phase::Exit;
        rows.samples.push(Sample {
            time_ns: raw.time_ns,
            vm: Some(whose.vm),
            vcpu: whose.vcpu,
            tid: Tid(raw.tid),
            cpu: raw.cpu,
            event,
            weight: tag.map_or(raw.period, |tag| tag.period),
            hit: raw.hit,
            stack,
            phase,
            isa: tag
                .filter(|_| is_exit)
                .map_or_else(Default::default, |tag| tag.isa),
            reason: tag.filter(|_| is_exit).map(|tag| tag.reason),
        });
    }

    pub(super) fn forget(&mut self, pid: u32) {
        let of_process = (pid, 0)..=(pid, u64::MAX);
        self.user.extract_if(of_process, |_, _| true).for_each(drop);
    }

    /// The number of a sample's stack; 0 if it has none.
    fn stack(&mut self, raw: &Raw, symbols: &mut Symbols, rows: &mut Rows) -> u64 {
        let mut frames = Vec::with_capacity(raw.kernel.len() + raw.user.len());
        let mut cut = raw.cut;
        for (depth, address) in raw.kernel.iter().enumerate() {
            frames.push(self.kernel_frame(called_at(*address, depth), symbols, rows));
        }
        for (depth, address) in raw.user.iter().enumerate() {
            let address = called_at(*address, depth);
            match self.user_frame(raw.pid, address, raw.time_ns, symbols, rows) {
                Some(frame) => frames.push(frame),
                // No code lies at the address: frame pointers that are none lead anywhere.
                None if depth > 0 => {
                    cut = true;
                    break;
                }
                None => {
                    let nowhere = Frame {
                        id: 0,
                        space: Space::User,
                        module: String::new(),
                        symbol: None,
                        address: Some(address),
                    };
                    frames.push(self.frame(nowhere, rows));
                }
            }
        }
        if frames.is_empty() {
            return 0;
        }
        let key = (frames, cut);
        if let Some(known) = self.stacks.get(&key) {
            return *known;
        }
        self.last_stack += 1;
        rows.stacks.push(Stack {
            id: self.last_stack,
            frames: key.0.clone(),
            cut,
        });
        remember(&mut self.stacks, key, self.last_stack);
        self.last_stack
    }

    fn kernel_frame(&mut self, address: u64, symbols: &Symbols, rows: &mut Rows) -> u64 {
        if let Some(known) = self.kernel.get(&address) {
            return *known;
        }
        let frame = self.frame(symbols.kernel(address), rows);
        remember(&mut self.kernel, address, frame);
        frame
    }

    fn user_frame(
        &mut self,
        pid: u32,
        address: u64,
        now_ns: u64,
        symbols: &mut Symbols,
        rows: &mut Rows,
    ) -> Option<u64> {
        if let Some(known) = self.user.get(&(pid, address)) {
            return Some(*known);
        }
        // An address that is not known may be known at the next look.
        let place = symbols.user(pid, address, now_ns)?;
        let frame = self.frame(place, rows);
        remember(&mut self.user, (pid, address), frame);
        Some(frame)
    }

    fn frame(&mut self, frame: Frame, rows: &mut Rows) -> u64 {
        let (module, symbol) = (frame.module.clone(), frame.symbol.clone());
        let key = (frame.space, module, symbol, frame.address);
        if let Some(known) = self.frames.get(&key) {
            return *known;
        }
        self.last_frame += 1;
        let id = self.last_frame;
        rows.frames.push(Frame { id, ..frame });
        remember(&mut self.frames, key, id);
        id
    }
}

fn remember<K: Ord>(known: &mut BTreeMap<K, u64>, key: K, number: u64) {
    if known.len() >= REMEMBERED {
        known.clear();
    }
    known.insert(key, number);
}

/// The address by which a frame's function is found. All but the innermost are those of return: the
/// call lies before, and a function that ends with a call must not pass for the next one.
fn called_at(address: u64, depth: usize) -> u64 {
    address.saturating_sub(u64::from(depth > 0))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whose {
    pub(super) vm: VmIndex,
    pub(super) vcpu: Option<VcpuId>,
}

/// Threads whose names are remembered; when there are more, all are forgotten and told again.
const THREADS_REMEMBERED: usize = 1 << 17;

#[derive(Debug)]
pub(super) struct SampledThreads {
    root: Root,
    only: Vec<Pid>,
    /// The first VM of each process, and when the process started.
    processes: BTreeMap<u32, (VmIndex, u64)>,
    vcpus: BTreeMap<u32, Whose>,
    named: BTreeSet<(u32, u32)>,
    seen: (Option<VmIndex>, usize, usize),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) came: Vec<u32>,
    pub(super) gone: Vec<u32>,
}

impl SampledThreads {
    pub(super) fn new(root: &Root, only: &[Pid]) -> Self {
        Self {
            root: root.clone(),
            only: only.to_vec(),
            processes: BTreeMap::new(),
            vcpus: BTreeMap::new(),
            named: BTreeSet::new(),
            seen: (None, 0, 0),
        }
    }

    /// Takes over the roster, and finds out who has gone if `thorough`.
    pub(super) fn update(&mut self, roster: &Roster, thorough: bool) -> Changes {
        let mut changes = Changes::default();
        let last = roster.vms.last().map(|vm| vm.index);
        let seen = (last, roster.vms.len(), roster.vcpus.len());
        if seen == self.seen && !thorough {
            return changes;
        }
        self.seen = seen;
        for vm in &roster.vms {
            let pid = vm.key.pid;
            if !self.only.is_empty() && !self.only.contains(&pid) {
                continue;
            }
            let known = self.processes.get(&pid.0);
            if vm.key.ordinal == 0 && known.is_none_or(|(index, _)| *index < vm.index) {
                // The same number once more: another process.
                if known.is_some() {
                    changes.gone.push(pid.0);
                }
                let started = (vm.index, vm.key.start_ticks);
                self.processes.insert(pid.0, started);
                changes.came.push(pid.0);
            }
        }
        self.vcpus = roster
            .vcpus
            .iter()
            .map(|vcpu| {
                let whose = Whose {
                    vm: vcpu.vm,
                    vcpu: Some(vcpu.id),
                };
                (vcpu.tid.0, whose)
            })
            .collect();
        if thorough {
            changes.gone.extend(self.gone());
        }
        changes
    }

    /// Processes that have ended. What was sampled of them may still come, so they stay known.
    fn gone(&self) -> Vec<u32> {
        let is_there = |pid: u32, started: u64| {
            let process = VmKey::first(Pid(pid), started);
            discovery::is_alive(&self.root, process).unwrap_or(false)
        };
        let all = self.processes.iter();
        all.filter(|(pid, (_, started))| *started != 0 && !is_there(**pid, *started))
            .map(|(pid, _)| *pid)
            .collect()
    }

    /// VM and vCPU of a thread; `None` if its process is not sampled.
    pub(super) fn whose(&self, pid: u32, tid: u32) -> Option<Whose> {
        let (vm, _) = *self.processes.get(&pid)?;
        let vcpu = self.vcpus.get(&tid).filter(|whose| whose.vm >= vm);
        Some(vcpu.copied().unwrap_or(Whose { vm, vcpu: None }))
    }

    /// Whether a thread is met for the first time.
    fn is_new(&mut self, pid: u32, tid: u32) -> bool {
        if self.named.len() >= THREADS_REMEMBERED {
            self.named.clear();
        }
        self.named.insert((pid, tid))
    }

    /// The name of a thread; `None` if the thread is gone.
    fn name(&self, pid: u32, tid: u32) -> Option<String> {
        let comm = format!("proc/{pid}/task/{tid}/comm");
        self.root.value(comm).ok()
    }
}

#[cfg(test)]
mod test;
