//! Samples of made-up processes, through placing, naming and numbering.

use std::fs;

use haltwise_core::event::{Vcpu, Vm};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey};
use haltwise_core::profile::{Hit, Space};
use haltwise_core::recording::Roster;

use super::*;
use crate::root::made_up;

const STAT: &str = "S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1000 200";

fn roster(pids: &[u32]) -> Roster {
    let vms = (0..).zip(pids).map(|(index, pid)| Vm {
        index: VmIndex(index),
        key: VmKey::first(Pid(*pid), 4711),
        ..Vm::default()
    });
    Roster {
        vms: vms.collect(),
        vcpus: vec![Vcpu {
            vm: VmIndex(0),
            id: VcpuId(2),
            tid: Tid(51),
            ..Vcpu::default()
        }],
        ..Roster::default()
    }
}

fn raw(pid: u32, tid: u32, kernel: &[u64], user: &[u64]) -> Raw {
    Raw {
        id: 1,
        time_ns: 10_000_000_000,
        pid,
        tid,
        cpu: 0,
        period: 9,
        hit: if kernel.is_empty() {
            Hit::User
        } else {
            Hit::Kernel
        },
        kernel: kernel.to_vec(),
        user: user.to_vec(),
        cut: false,
        tag: None,
    }
}

struct World {
    dir: tempfile::TempDir,
    sampled_threads: SampledThreads,
    symbols: Symbols,
    symbol_cache: SymbolCache,
    rows: Rows,
}

impl World {
    fn new(pids: &[u32], only: &[Pid]) -> Self {
        let (dir, root) = made_up(&[
            (
                "proc/kallsyms",
                "ffffffff81000000 T kvm_vcpu_halt\nffffffff81000100 T vcpu_run.part.0\n",
            ),
            ("proc/50/maps", "1000-3000 r-xp 00000000 00:00 0 \n"),
            ("proc/50/stat", &format!("50 (vmm) {STAT}")),
            ("proc/50/task/51/comm", "CPU 2/KVM\n"),
        ]);
        let mut sampled_threads = SampledThreads::new(&root, only);
        sampled_threads.update(&roster(pids), false);
        Self {
            sampled_threads,
            symbols: Symbols::load(&root),
            symbol_cache: SymbolCache::default(),
            rows: Rows::default(),
            dir,
        }
    }

    fn keep(&mut self, raw: &Raw) {
        let (sampled_threads, symbols) = (&mut self.sampled_threads, &mut self.symbols);
        let event = Event::CpuClock;
        self.symbol_cache
            .keep(raw, event, sampled_threads, symbols, &mut self.rows);
    }
}

#[test]
fn a_sample_is_placed_and_its_thread_named_once() {
    let mut world = World::new(&[50], &[]);
    for tid in [51, 51, 52] {
        world.keep(&raw(50, tid, &[], &[0x1000]));
    }
    world.keep(&raw(99, 99, &[], &[0x1000]));
    let rows = &world.rows;
    let placed: Vec<_> = rows.samples.iter().map(|it| (it.vm, it.vcpu)).collect();
    let vm = Some(VmIndex(0));
    assert_eq!(
        placed,
        [(vm, Some(VcpuId(2))), (vm, Some(VcpuId(2))), (vm, None)]
    );
    let names: Vec<_> = rows.threads.iter().map(|it| it.name.as_deref()).collect();
    assert_eq!(names, [Some("CPU 2/KVM"), None]);
    assert_eq!(rows.samples[0].weight, 9);
}

#[test]
fn equal_stacks_and_functions_are_written_once() {
    let mut world = World::new(&[50], &[]);
    // Two places of one function, and a call that is the last of its function.
    let halt = 0xffff_ffff_8100_0000;
    world.keep(&raw(50, 51, &[halt + 4, halt + 0x180], &[0x1500]));
    world.keep(&raw(50, 51, &[halt + 8, halt + 0x190], &[0x1500]));
    world.keep(&raw(50, 51, &[halt + 8, halt + 0x100], &[0x1500]));
    let rows = &world.rows;
    let symbols: Vec<_> = rows.frames.iter().map(|it| it.symbol.as_deref()).collect();
    assert_eq!(symbols, [Some("kvm_vcpu_halt"), Some("vcpu_run"), None]);
    let stacks: Vec<_> = rows.samples.iter().map(|it| it.stack).collect();
    assert_eq!(stacks, [1, 1, 2]);
    assert_eq!(rows.stacks[0].frames, [1, 2, 3]);
    assert_eq!(rows.stacks[1].frames, [1, 1, 3]);
    assert_eq!(rows.frames[2].address, Some(0x500));
}

#[test]
fn a_stack_ends_where_no_code_lies() {
    let mut world = World::new(&[50], &[]);
    world.keep(&raw(50, 51, &[], &[0x1000, 0xdead_0000, 0x1100]));
    world.keep(&raw(50, 51, &[], &[0xdead_0000, 0x1100]));
    let rows = &world.rows;
    assert_eq!((rows.stacks[0].frames.len(), rows.stacks[0].cut), (1, true));
    // The innermost is kept whatever it is: it was there that the thread ran.
    assert_eq!(rows.stacks[1].frames.len(), 2);
    let lost = &rows.frames[1];
    assert_eq!(
        (lost.module.as_str(), lost.address),
        ("", Some(0xdead_0000))
    );
    assert_eq!(lost.space, Space::User);
}

#[test]
fn only_the_processes_asked_for_are_sampled_and_those_gone_are_told() {
    let mut world = World::new(&[50, 60], &[Pid(60)]);
    world.keep(&raw(50, 51, &[], &[0x1000]));
    world.keep(&raw(60, 61, &[], &[0x1000]));
    assert_eq!(world.rows.samples.len(), 1);
    assert_eq!(world.rows.samples[0].vm, Some(VmIndex(1)));
    // 60 was never there; 50 is not asked for.
    let changes = world.sampled_threads.update(&roster(&[50, 60]), true);
    assert_eq!(changes.gone, [60]);
    let mut all = World::new(&[50], &[]);
    assert!(
        all.sampled_threads
            .update(&roster(&[50]), true)
            .gone
            .is_empty()
    );
    let stat = all.dir.path().join("proc/50/stat");
    fs::write(stat, format!("50 (vmm) {}", STAT.replace("4711", "4712"))).unwrap();
    assert_eq!(all.sampled_threads.update(&roster(&[50]), true).gone, [50]);
}
