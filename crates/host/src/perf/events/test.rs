//! Events of a running kernel (6.18, x86): its format files, and bytes as its ring gave them.

use std::ops::Range;

use proptest::prelude::*;

use super::super::fuzz::FORMATS;
use super::*;
use crate::root::made_up;

const NAMES: [&str; 4] = [
    "kvm/kvm_vcpu_wakeup",
    "kvm/kvm_halt_poll_ns",
    "sched/sched_waking",
    "sched/sched_switch",
];

/// The events of a kernel that has these of the tracepoints.
fn events_of(which: Range<usize>) -> Result<(Events, Vec<Missing>), CollectError> {
    let path = |name: &str| format!("sys/kernel/tracing/events/{name}/format");
    let paths = NAMES.map(path);
    let files = paths
        .each_ref()
        .map(String::as_str)
        .into_iter()
        .zip(FORMATS);
    let files: Vec<_> = files.collect();
    let (_dir, root) = made_up(&files[which]);
    Events::load(&Tracefs::find(&root).unwrap())
}

/// A kernel with the first patch of `contrib/kernel`.
#[test]
fn a_latency_that_kvm_tells_is_read() {
    let field = "\tfield:__u64 latency_ns;\toffset:24;\tsize:8;\tsigned:0;\n\nprint fmt";
    let wakeup = FORMATS[0].replace("\nprint fmt", field);
    let path = format!("sys/kernel/tracing/events/{}/format", NAMES[0]);
    let (_dir, root) = made_up(&[(&path, &wakeup)]);
    let (events, missing) = Events::load(&Tracefs::find(&root).unwrap()).unwrap();
    let of_waking = missing.iter().find(|it| it.reason.contains("sched_waking"));
    assert_eq!((&*of_waking.unwrap().field, missing.len()), ("wake", 4));
    let fields: [(usize, &[u8]); 3] = [
        (8, &31_000_u64.to_ne_bytes()),
        (16, &[1, 1]),
        (24, &9_000_u64.to_ne_bytes()),
    ];
    assert_eq!(
        events.parse(&raw(41, 1, 77, 32, &fields)),
        Some(SeenWhat::Whole(What::VcpuWakeup {
            tid: Tid(77),
            ns: 31_000,
            waited: true,
            valid: true,
            latency_ns: Some(9_000),
        }))
    );
}

/// The common fields, then bytes at offsets.
fn raw(id: u16, flags: u8, tid: u32, length: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..2].copy_from_slice(&id.to_ne_bytes());
    bytes[2] = flags;
    bytes[4..8].copy_from_slice(&tid.to_ne_bytes());
    for (offset, field) in fields {
        bytes[*offset..offset + field.len()].copy_from_slice(field);
    }
    bytes
}

#[test]
fn every_event_is_read_by_its_format() {
    let (events, missing) = events_of(0..4).unwrap();
    assert_eq!(missing, []);
    let wakeup = raw(
        41,
        1,
        77,
        20,
        &[(8, &31_000_u64.to_ne_bytes()), (16, &[1, 1])],
    );
    assert_eq!(
        events.parse(&wakeup),
        Some(SeenWhat::Whole(What::VcpuWakeup {
            tid: Tid(77),
            ns: 31_000,
            waited: true,
            valid: true,
            latency_ns: None,
        }))
    );
    let fields: [(usize, &[u8]); 4] = [
        (8, &[1]),
        (12, &3_u32.to_ne_bytes()),
        (16, &20_000_u32.to_ne_bytes()),
        (20, &10_000_u32.to_ne_bytes()),
    ];
    assert_eq!(
        events.parse(&raw(31, 0, 77, 24, &fields)),
        Some(SeenWhat::Whole(What::HaltPollNs {
            tid: Tid(77),
            vcpu: VcpuId(3),
            grow: true,
            old: 10_000,
            new: 20_000
        }))
    );
    let waking = raw(375, 0x0d, 5, 36, &[(24, &77_u32.to_ne_bytes())]);
    assert_eq!(
        events.parse(&waking),
        Some(SeenWhat::Waking {
            tid: Tid(77),
            waker: Waker {
                tid: Tid(5),
                flags: 0x0d
            }
        })
    );
    let tid = Tid(77);
    let switch = |state: u64| {
        let fields: [(usize, &[u8]); 2] = [(24, &77_u32.to_ne_bytes()), (32, &state.to_ne_bytes())];
        events.parse(&raw(372, 0, 77, 64, &fields))
    };
    assert_eq!(switch(1), Some(SeenWhat::Whole(What::Slept { tid })));
    // Preempted as 4.14 and later say it, as kernels before do, and running; asleep for a disk, stopped,
    // dead: no halt begins so.
    for state in [0x100, 0x1000, 0, 2, 4, 0x10, 0x80] {
        assert_eq!(switch(state), None);
    }
}

#[test]
fn events_that_a_kernel_lacks_are_told() {
    let (events, missing) = events_of(0..1).unwrap();
    assert_eq!((events.always().len(), events.watching(&[]).len()), (1, 0));
    assert!(!events.sees_sched());
    let fields: Vec<_> = missing.iter().map(|m| m.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "window_ns, change, poll_ns",
            "wake_latency_ns, wake",
            "poll_ns, poll_cut"
        ]
    );
    let error = events_of(1..4).unwrap_err().to_string();
    assert_eq!(
        error,
        "find tracepoint kvm:kvm_vcpu_wakeup: not offered by this kernel"
    );
}

fn passes(filter: &str, tid: u32) -> bool {
    filter.split("||").any(|part| {
        let part = part.trim_matches(['(', ')']);
        part.split("&&").all(|term| {
            let term = term.trim_start_matches("prev_pid");
            let number = |n: &str| n.parse::<i64>().unwrap();
            let tid = i64::from(tid);
            match term.split_at(2) {
                ("==", n) => tid == number(n),
                (">=", n) => tid >= number(n),
                ("<=", n) => tid <= number(n),
                other => panic!("{other:?}"),
            }
        })
    })
}

#[test]
fn few_threads_are_named_exactly() {
    assert_eq!(threads("pid", &[]), "pid==-1");
    assert_eq!(threads("pid", &[Tid(7)]), "pid==7");
    assert_eq!(
        threads("pid", &[Tid(9), Tid(7), Tid(8), Tid(20), Tid(9)]),
        "(pid>=7&&pid<=9)||pid==20"
    );
}

proptest! {
    #[test]
    fn all_pass_and_the_text_fits(tids in prop::collection::vec(1..4_194_304_u32, 1..600)) {
        let list: Vec<Tid> = tids.iter().map(|&tid| Tid(tid)).collect();
        let filter = threads("prev_pid", &list);
        prop_assert!(filter.len() <= LONGEST);
        for &tid in tids.iter().step_by(1 + tids.len() / 20) {
            prop_assert!(passes(&filter, tid));
        }
    }
}
