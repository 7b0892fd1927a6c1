//! Exits that never happened, through the real programs: counted to the unit, in tables whose size was fixed before.
//!
//! A thread that runs the programs of exits and entries in turn looks to them like the thread of a vCPU. Needs root
//! and BPF; prints `skipped: REASON` otherwise. The arguments are laid out as x86 kernels do where the reason is one
//! of them.
#![cfg(target_arch = "x86_64")]

use std::io;
use std::sync::{Barrier, PoisonError};

use haltwise_core::exit::SubKey;
use haltwise_core::exit::account::{Account, By};
use libbpf_rs::MapMut;

use super::*;
use crate::bpf::collector::test::available;
use crate::bpf::on_request::{in_a_thread, run};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// `kvm_entry` of this vCPU.
    Entry(u32),
    /// `kvm_exit` of this vCPU, for this reason of VMX.
    Exit(u32, u32),
    /// The same for a reason of SVM.
    SvmExit(u32, u32),
    /// `kvm_userspace_exit`, for this reason.
    Return(u32),
    /// `kvm_fpu`: `KVM_RUN` begins.
    Run,
    /// `kvm_msr`: a write of this register.
    Wrmsr(u32),
}

use Step::{Entry, Exit, Return, Run, SvmExit, Wrmsr};

const VMX: u64 = 1;
const SVM: u64 = 2;

/// Programs that count what this process plays and nothing else, in tables for so many vCPUs.
fn counter(vcpus: usize, sub_keys: &[SubKey]) -> Option<ExitCounter> {
    let options = ExitOptions {
        sub_keys: sub_keys.iter().copied().collect(),
    };
    let ours = [Pid(std::process::id())];
    let mut counter = available(|| ExitCounter::start(&options, &ours, vcpus))?;
    counter.detach();
    Some(counter)
}

/// Where a vCPU's `struct kvm_vcpu` would lie. It cannot be read, which the programs must bear.
fn address(vcpu: u32) -> u64 {
    0xdead_0000_0000_0000 | u64::from(vcpu + 1) << 12
}

fn player(counter: &ExitCounter) -> impl Fn(&Step) -> io::Result<()> + Copy + Sync {
    let progs = &counter.skel.progs;
    let (exit, entry) = (progs.on_exit_before.as_fd(), progs.on_entry.as_fd());
    let (returned, fpu) = (progs.on_userspace_exit.as_fd(), progs.on_fpu.as_fd());
    let msr = progs.on_msr.autoload().then(|| progs.on_msr.as_fd());
    move |step| match *step {
        Entry(vcpu) => run(entry, &[address(vcpu)]),
        Exit(vcpu, reason) => run(exit, &[reason.into(), address(vcpu), VMX]),
        SvmExit(vcpu, reason) => run(exit, &[reason.into(), address(vcpu), SVM]),
        Return(reason) => run(returned, &[reason.into(), 0]),
        Run => run(fpu, &[1]),
        Wrmsr(register) => run(msr.unwrap(), &[1, register.into()]),
    }
}

fn rows(counter: &mut ExitCounter) -> Vec<Exits> {
    let place = |who: Who| Place {
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(who.tid)),
    };
    counter.read(&mut |who| place(who)).unwrap()
}

/// Rows of these steps, each list in a thread of its own after the last has ended.
fn played(threads: &[&[Step]]) -> Option<Vec<Exits>> {
    let mut counter = counter(1, &[])?;
    for steps in threads {
        in_a_thread(steps, player(&counter)).unwrap();
    }
    Some(rows(&mut counter))
}

fn count(rows: &[Exits], kind: Kind) -> u64 {
    let rows = rows.iter().filter(|row| row.cause.kind == kind);
    rows.map(|row| row.count).sum()
}

/// How many exits there were for a reason, and how many of them have a time.
fn timed(rows: &[Exits], reason: u32) -> (u64, u64) {
    let exits = rows.iter().filter(|row| row.cause.kind == Kind::Exit);
    let exits = exits.filter(|row| row.cause.reason == Some(reason));
    exits.fold((0, 0), |(count, times), row| {
        (count + row.count, times + row.handling_ns.count())
    })
}

/// As many threads as vCPUs, all alive at once, each with so many exits for so many reasons in turn.
fn crowd(counter: &ExitCounter, vcpus: u32, exits: u32, reasons: u32) {
    let _others_wait = crate::ALL_CPUS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let (step, start) = (player(counter), Barrier::new(vcpus as usize));
    std::thread::scope(|scope| {
        for vcpu in 0..vcpus {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                step(&Entry(vcpu)).unwrap();
                for nth in 0..exits {
                    step(&Exit(vcpu, nth % reasons)).unwrap();
                    step(&Entry(vcpu)).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_thousand_vcpus_are_counted_to_the_unit() {
    let Some(mut counter) = counter(1_000, &[]) else {
        return;
    };
    crowd(&counter, 1_000, 300, 12);
    let rows = rows(&mut counter);
    let kinds = [Kind::Exit, Kind::Entry, Kind::LoneEntry, Kind::Other];
    let counts = kinds.map(|kind| count(&rows, kind));
    assert_eq!(counts, [300_000, 301_000, 0, 0]);
    assert_eq!(rows.len(), 1000 * 13);
    for row in rows.iter().filter(|row| row.cause.kind == Kind::Exit) {
        assert_eq!((row.count, row.handling_ns.count()), (25, 25));
        assert_eq!(row.user_ns, 0);
    }
}

#[test]
fn exits_that_find_no_room_are_counted_and_the_tables_stay_as_they_are() {
    let table_bytes = |counter: &ExitCounter| {
        let maps = &counter.skel.maps;
        let size = |map: &MapMut<'_>| map.max_entries() * (map.key_size() + map.value_size());
        [&maps.cells, &maps.cell_of].map(size)
    };
    let Some(mut counter) = counter(0, &[]) else {
        return;
    };
    let before = table_bytes(&counter);
    crowd(&counter, 300, 100, 50);
    let rows = rows(&mut counter);
    assert_eq!(table_bytes(&counter), before);
    let counts = [Kind::Exit, Kind::Entry, Kind::Other].map(|kind| count(&rows, kind));
    assert!(counts[2] > 0);
    assert_eq!(counts.iter().sum::<u64>(), 300 * 100 + 300 * 101);
}

#[test]
fn exits_and_entries_pair_within_one_vcpu_and_thread_alone() {
    for (threads, expected, entries, lone) in [
        (
            &[&[
                Entry(0),
                Exit(0, 1),
                Entry(0),
                // The entry between these two was lost.
                Exit(0, 2),
                Exit(0, 3),
                Entry(0),
                // The exit between these two was lost.
                Entry(0),
                Exit(0, 4),
            ][..]][..],
            [(1, (1, 1)), (2, (1, 0)), (3, (1, 1)), (4, (1, 0))],
            4,
            1,
        ),
        (
            &[
                // One thread that runs two vCPUs in turn; the second takes the first's place.
                &[
                    Entry(0),
                    Exit(0, 1),
                    Entry(1),
                    Exit(1, 2),
                    Entry(0),
                    Exit(0, 3),
                ],
                // Another thread takes the first vCPU over: the exit was not its own.
                &[Entry(0), Exit(0, 5), Entry(0)],
            ],
            [(1, (1, 0)), (2, (1, 0)), (3, (1, 0)), (5, (1, 1))],
            5,
            0,
        ),
    ] {
        let Some(rows) = played(threads) else { return };
        for (reason, expected) in expected {
            assert_eq!(timed(&rows, reason), expected, "{reason} of {threads:?}");
        }
        let counts = [Kind::Entry, Kind::LoneEntry].map(|kind| count(&rows, kind));
        assert_eq!(counts, [entries, lone]);
    }
}

#[test]
fn time_in_the_vmm_belongs_to_its_exit_and_not_to_the_next() {
    let steps: &[&[Step]] = &[&[
        Run,
        Entry(0),
        Exit(0, 30),
        Return(2),
        Run,
        Entry(0),
        Exit(0, 12),
        Entry(0),
        Exit(0, 30),
        // The VM ends here: its last return has no time.
        Return(2),
    ]];
    let Some(rows) = played(steps) else { return };
    let find = |kind, reason| {
        let mut rows = rows.iter();
        let row = rows.find(|row| row.cause.kind == kind && row.cause.reason == Some(reason));
        row.unwrap()
    };
    assert_eq!((timed(&rows, 30), timed(&rows, 12)), ((2, 1), (1, 1)));
    let (io, hlt) = (find(Kind::Exit, 30), find(Kind::Exit, 12));
    assert!(io.user_ns > 0 && io.user_ns <= io.handling_ns.sum());
    assert_eq!(hlt.user_ns, 0);
    let returned = find(Kind::UserspaceExit, 2);
    assert_eq!((returned.count, returned.handling_ns.count()), (2, 1));
    assert_eq!(returned.user_ns, io.user_ns);
}

/// From Linux 6.15 on, guests on Zen 5 halt by Idle HLT.
#[test]
fn an_exit_by_idle_hlt_is_that_of_a_halt() {
    const IDLE_HLT: u32 = 0xa6;
    const IO: u32 = 0x7b;
    let steps = [SvmExit(0, IDLE_HLT), Entry(0), SvmExit(0, IO), Entry(0)].repeat(100);
    let Some(rows) = played(&[&steps]) else {
        return;
    };
    let mut account = Account::new(By::Reason, 0);
    for row in &rows {
        account.add(row);
    }
    let passed = account.total();
    assert_eq!((passed.halts.count, passed.exits.count), (100, 100));
}

/// Numbers beyond the table of reasons, and the exits of a guest's own guest: to the host that is the same vCPU, whose
/// entry after VMRESUME goes into it, and whose CPUID its hypervisor handles.
#[test]
fn each_reason_has_a_row_of_its_own() {
    const VMRESUME: u32 = 24;
    const CPUID: u32 = 10;
    const INTERRUPT: u32 = 1;
    for reasons in [
        &[0xff, 0x100, 0x400, 0x40f, 0x410, 0x8000_0021][..],
        &[VMRESUME, INTERRUPT, CPUID],
    ] {
        let steps = reasons.iter().flat_map(|it| [Exit(0, *it), Entry(0)]);
        let steps: Vec<Step> = steps.collect();
        let Some(rows) = played(&[&steps.repeat(100)]) else {
            return;
        };
        for reason in reasons {
            assert_eq!(timed(&rows, *reason), (100, 100), "{reason:#x}");
        }
        assert_eq!(count(&rows, Kind::Entry), 100 * reasons.len() as u64);
        assert_eq!(count(&rows, Kind::LoneEntry), 0);
    }
}

/// One guest writes more registers than the table has room for: that is reported as lost, and the exits of the next
/// guest have cells all the same.
#[test]
fn sub_keys_of_one_guest_do_not_take_the_room_of_anothers_exits() {
    let flood: Vec<Step> = (0..10_000)
        .flat_map(|msr| [Exit(0, 32), Wrmsr(msr), Entry(0)])
        .collect();
    let next: Vec<Step> = (0..50)
        .flat_map(|reason| [Exit(1, reason), Entry(1)])
        .collect();
    let Some(mut counter) = counter(1, &[SubKey::Msr]) else {
        return;
    };
    for steps in [&flood, &next] {
        in_a_thread(steps, player(&counter)).unwrap();
    }
    let rows = rows(&mut counter);
    assert_eq!(timed(&rows, 32), (10_001, 10_001));
    for reason in (0..50).filter(|reason| *reason != 32) {
        assert_eq!(timed(&rows, reason), (1, 1), "{reason}");
    }
    assert_eq!(count(&rows, Kind::Other), 0);
    let lost = counter.lost(clock::monotonic_ns()).unwrap();
    let lost: u64 = lost.iter().map(|it| it.count).sum();
    assert!(lost > 0);
    assert_eq!(count(&rows, Kind::MsrWrite) + lost, 10_000);
}

/// A thread that takes two vCPUs up in turn, again and again, does not use the table up.
#[test]
fn vcpus_in_turn_in_one_thread_keep_to_their_cells() {
    let steps = [Entry(0), Exit(0, 12), Entry(1), Exit(1, 12)].repeat(10_000);
    let Some(rows) = played(&[&steps]) else {
        return;
    };
    assert_eq!(count(&rows, Kind::Other), 0);
    assert_eq!(timed(&rows, 12), (20_000, 0));
    assert_eq!(count(&rows, Kind::Entry), 20_000);
}
