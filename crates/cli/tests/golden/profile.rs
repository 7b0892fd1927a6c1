//! Captures whose samples are drawn up here, with names as strange as VMMs and guests can make them.

use std::collections::BTreeMap;
use std::path::Path;

use haltwise_core::event::{Facts, Lost};
use haltwise_core::exit::{Isa, Recorded as ExitsRecorded};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};
use haltwise_core::profile::{
    Event, Frame, Hit, Phase, Recorded, Rows, Sample, Space, Stack, Thread,
};

use super::{START_NS, info_of, record, scenarios};

const PERIOD_NS: u64 = 1_003_009;

/// A function that no markup, no line and no terminal likes.
const HOSTILE: &str = "std::vec<\"a\", 'b'>::op;\u{1b}[2J&\n\u{202e}\0x";

/// Stacks, the innermost function first: kernel, user space.
const STACKS: [(&str, &str); 9] = [
    (
        "kvm_vcpu_check_block|kvm_vcpu_halt|vcpu_run|kvm_vcpu_ioctl",
        "ioctl|vcpu_thread",
    ),
    (
        "finish_task_switch|__schedule|schedule|kvm_vcpu_block|kvm_vcpu_halt",
        "ioctl|vcpu_thread",
    ),
    (
        "native_queued_spin_lock_slowpath|_raw_write_lock|kvm_tdp_mmu_map|direct_page_fault|handle_ept_violation|vcpu_run",
        "ioctl|vcpu_thread",
    ),
    (
        "kvm_tdp_mmu_map|direct_page_fault|handle_ept_violation|vcpu_run",
        "ioctl|vcpu_thread",
    ),
    ("vmx_vcpu_run|vcpu_run", "ioctl|vcpu_thread"),
    ("", "outb_handler|vcpu_thread"),
    ("do_sys_poll", "poll|main_loop|main"),
    ("", HOSTILE),
    ("asm_sysvec_call_function|kvm_vcpu_halt", "ioctl"),
];

/// How often, which VM and thread (vCPUs from 0, other threads from 100), which hit, which stack
/// (0: none), which exit.
const SAMPLES: [(u64, u32, u32, Hit, u64, Option<u32>); 13] = [
    (830, 0, 0, Hit::Kernel, 1, Some(12)),
    (170, 0, 0, Hit::Kernel, 2, Some(12)),
    (40, 0, 1, Hit::Kernel, 3, Some(48)),
    (60, 0, 1, Hit::Kernel, 4, Some(48)),
    (5, 0, 1, Hit::Kernel, 5, None),
    (700, 0, 1, Hit::GuestKernel, 0, None),
    (90, 0, 0, Hit::GuestUser, 0, None),
    (50, 0, 1, Hit::User, 6, Some(30)),
    (20, 0, 100, Hit::Kernel, 7, None),
    (11, 0, 101, Hit::User, 8, None),
    (3, 0, 0, Hit::Kernel, 9, Some(12)),
    (7, 1, 0, Hit::GuestKernel, 0, None),
    (2, 1, 0, Hit::Unknown, 0, None),
];

fn stacks() -> Rows {
    let mut rows = Rows::default();
    let mut known = BTreeMap::new();
    for (place, (kernel, user)) in (1..).zip(STACKS) {
        let mut frames = Vec::new();
        let spaces = [(Space::Kernel, kernel), (Space::User, user)];
        let all = spaces.into_iter().flat_map(|(space, symbols)| {
            let symbols = symbols.split('|').filter(|symbol| !symbol.is_empty());
            symbols.map(move |symbol| (space, symbol))
        });
        for (space, symbol) in all {
            let next = known.len() as u64 + 1;
            let id = *known.entry((space, symbol)).or_insert_with(|| {
                let is_kvm = symbol.contains("kvm") || symbol.contains("ept");
                rows.frames.push(Frame {
                    id: next,
                    space,
                    module: match space {
                        Space::Kernel if is_kvm => "kvm".into(),
                        Space::Kernel => "kernel".into(),
                        Space::User => "/usr/bin/<vmm & \"co\">".into(),
                    },
                    symbol: (symbol != "poll").then(|| symbol.to_owned()),
                    address: (symbol == "poll").then_some(0x10_f3a0),
                });
                next
            });
            frames.push(id);
        }
        rows.stacks.push(Stack {
            id: place,
            frames,
            cut: place == 8,
        });
    }
    rows
}

fn rows(told: bool) -> Rows {
    let mut rows = stacks();
    for (tid, name) in [(100, Some("io <thread>")), (101, None)] {
        rows.threads.push(Thread {
            vm: Some(VmIndex(0)),
            pid: Pid(4711),
            tid: Tid(tid),
            name: name.map(str::to_owned),
        });
    }
    for (count, vm, who, hit, stack, reason) in SAMPLES {
        let vcpu = (who < 100).then_some(VcpuId(who));
        let reason = reason.filter(|_| told);
        let phase = match (told && vcpu.is_some(), reason) {
            (false, _) => Phase::Unknown,
            (true, Some(_)) => Phase::Exit,
            (true, None) => Phase::Entered,
        };
        rows.samples.extend((0..count).map(|n| Sample {
            time_ns: START_NS + n * PERIOD_NS,
            vm: Some(VmIndex(vm)),
            // Not placed yet: the roster knows.
            vcpu: vcpu.filter(|_| who > 0 || n % 7 > 0),
            tid: Tid(if who < 100 {
                4_712 + vm * 100 + who
            } else {
                who
            }),
            cpu: who % 4,
            event: Event::CpuClock,
            weight: PERIOD_NS,
            hit,
            stack,
            phase,
            isa: if reason.is_some() {
                Isa::Vmx
            } else {
                Isa::None
            },
            reason,
        }));
    }
    let faults = rows.samples[..9].iter().map(|sample| Sample {
        event: Event::PageFaults,
        weight: 3,
        ..*sample
    });
    let faults: Vec<Sample> = faults.collect();
    rows.samples.extend(faults);
    rows
}

pub(super) fn write(dir: &Path, scenario: &str, told: bool, lost: bool) {
    let scenario = scenarios::named(scenario);
    let mut info = info_of(&scenario);
    info.exits = told.then(ExitsRecorded::default);
    info.profile = Some(Recorded {
        hz: 997,
        events: vec![Event::CpuClock, Event::PageFaults],
        exits_told: told,
    });
    let lost = if lost {
        vec![Lost {
            time_ns: START_NS,
            count: 5,
            place: "samples: ring full".into(),
        }]
    } else {
        Vec::new()
    };
    let mut ending = scenarios::ending(2_000_000_000);
    ending.lost = (lost.iter().map(|it| (it.place.clone(), it.count))).collect();
    let facts = Facts {
        profile: rows(told),
        lost,
        ..scenario.facts
    };
    record(dir, info, &facts, Some(ending));
}
