//! `haltwise report --profile` on captures whose samples are drawn up here, with names as strange as VMMs and
//! guests can make them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use haltwise_core::event::{Facts, Lost};
use haltwise_core::exit::{Isa, Recorded as ExitsRecorded};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};
use haltwise_core::profile::{
    Event, Frame, Hit, Phase, Recorded, Rows, Sample, Space, Stack, Thread,
};

use super::schema::conforms;
use super::{START_NS, compare, fits, flat, haltwise, info_of, ran, record, scenarios};

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

#[test]
fn text_json_and_stacks_are_as_committed() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), "fleet", true, false);
    let json = serde_json::from_str(&run(dir.path(), &["--json", "--by", "vcpu"])).unwrap();
    conforms("profile", &json);
    let texts = [
        ("page.txt", run(dir.path(), &[])),
        ("vcpu.json", flat(&json, 0) + "\n"),
        ("stacks.folded", run(dir.path(), &["--folded", "-"])),
    ];
    let wrong = texts.map(|(file, text)| compare(&format!("profile/{file}"), &text).err());
    let wrong: String = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_table_fits() {
    let dir = tempfile::tempdir().unwrap();
    for (name, told, lost) in [("fleet", true, false), ("hostile-names", false, true)] {
        write(&dir.path().join("cap"), name, told, lost);
        for by in ["vm", "vcpu", "thread", "module", "area", "symbol"] {
            let text = run(dir.path(), &["--by", by, "--rows", "all"]);
            fits("profile", &text).unwrap();
        }
        for options in [
            &["--by", "exit"][..],
            &["--exit", "ept_violation"],
            &["--rows", "1"],
        ] {
            fits("profile", &run(dir.path(), options)).unwrap();
        }
        fs::remove_dir_all(dir.path().join("cap")).unwrap();
    }
    write(&dir.path().join("cap"), "fleet", true, false);
    let text = run(dir.path(), &["--event", "page-faults"]);
    assert!(text.contains("samples of page-faults of"), "{text}");
}

fn run(dir: &Path, options: &[&str]) -> String {
    haltwise(dir, &[&["report", "--profile", "cap"], options].concat()).0
}

fn clock_samples() -> u64 {
    SAMPLES.iter().map(|(count, ..)| count).sum()
}

#[test]
fn folded_stacks_hold_every_sample_once_and_a_name_ends_no_line() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), "hostile-names", true, false);
    let folded = run(dir.path(), &["--folded", "-"]);
    let counts = folded.lines().map(|line| line.rsplit_once(' ').unwrap());
    let counts: Vec<(&str, u64)> = counts
        .map(|(path, count)| (path, count.parse().unwrap()))
        .collect();
    assert_eq!(
        counts.iter().map(|(_, count)| count).sum::<u64>(),
        clock_samples()
    );
    let paths: BTreeSet<&str> = counts.iter().map(|(path, _)| *path).collect();
    assert_eq!(paths.len(), counts.len(), "a path twice");
    assert!(!folded.chars().any(|c| c.is_control() && c != '\n'));
    // VM, thread, exit and at most as many functions as the deepest stack has.
    let deepest = counts.iter().map(|(path, _)| path.split(';').count());
    assert_eq!(deepest.max(), Some(3 + 8));
}

#[test]
fn a_capture_without_what_samples_point_to_is_shown_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let cap = dir.path().join("cap");
    write(&cap, "fleet", true, false);
    fs::remove_file(cap.join("sample_frames.parquet")).unwrap();
    let (text, code) = haltwise(dir.path(), &["report", "--profile", "cap"]);
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("sample_frames"), "{text}");
    let folded = run(dir.path(), &["--folded", "-"]);
    let counts = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1);
    let sum: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, clock_samples());
    // The samples themselves: then there is nothing.
    fs::remove_file(cap.join("samples.parquet")).unwrap();
    let (text, code) = haltwise(dir.path(), &["report", "--profile", "cap"]);
    assert_eq!(code, Some(5));
    assert!(text.contains("No samples: no VMM ran."), "{text}");
    assert_eq!(run(dir.path(), &["--folded", "-"]), "");
}

#[test]
fn what_cannot_be_shown_is_said_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("cap"), "fleet", true, false);
    let run = |arguments: &[&str]| {
        let (code, _, said) = ran(dir.path(), arguments);
        (Some(code), said)
    };
    for (options, words) in [
        (&["--exit", "hl\u{1b}t"][..], "the exit `hl?t`\nhint: "),
        (
            &["--event", "cycles"],
            "no samples of cycles\nhint: it contains samples of cpu-clock",
        ),
        (&["--folded", "-", "--json"], "both --folded and --json"),
    ] {
        let (code, said) = run(&[&["report", "--profile", "cap"], options].concat());
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let (code, said) = run(&["report", "--profile", "cap", "--folded", "/nowhere/x"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("write /nowhere/x: "), "{said}");
}
