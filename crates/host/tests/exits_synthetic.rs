//! A thousand vCPUs' worth of exits through the real programs: counted to the unit, in tables whose
//! size was fixed before.
//!
//! Needs root and BPF; says `skipped: reason` otherwise. Prints what an exit costs; asserts no time.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]
#![cfg(target_arch = "x86_64")]

use haltwise_core::exit::account::{Account, By};
use haltwise_core::exit::{Exits, Kind, SubKey};
use haltwise_host::bpf::synthetic_exits::{
    Played, Step, Synthetic, play, play_steps, play_telling,
};
use haltwise_host::collector::CollectError;

/// `None`, and the reason printed, where BPF is not to be had.
fn had<T>(play: impl FnOnce() -> Result<T, CollectError>) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root: BPF cannot be loaded");
        return None;
    }
    match play() {
        Ok(played) => Some(played),
        Err(error @ (CollectError::Denied { .. } | CollectError::Unsupported { .. })) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}: {error:?}"),
    }
}

fn played(wanted: Synthetic) -> Option<Played> {
    had(|| play(wanted))
}

fn stepped(threads: &[&[Step]]) -> Option<Vec<Exits>> {
    had(|| play_steps(threads))
}

fn count(rows: &[Exits], kind: Kind) -> u64 {
    let rows = rows.iter().filter(|row| row.cause.kind == kind);
    rows.map(|row| row.count).sum()
}

#[test]
fn a_thousand_vcpus_are_counted_to_the_unit() {
    let wanted = Synthetic {
        vcpus: 1000,
        expected_vcpus: 1000,
        exits: 300,
        reasons: 12,
    };
    let Some(played) = played(wanted) else { return };
    let rows = &played.rows;
    assert_eq!(count(rows, Kind::Exit), 300_000);
    assert_eq!(count(rows, Kind::Entry), 301_000);
    assert_eq!(count(rows, Kind::LoneEntry), 0);
    assert_eq!(count(rows, Kind::Other), 0);
    assert_eq!(rows.len(), 1000 * 13);
    for row in rows.iter().filter(|row| row.cause.kind == Kind::Exit) {
        assert_eq!((row.count, row.handling_ns.count()), (25, 25));
    }
    println!(
        "{:.0} ns per exit and entry; tables of {} MiB for 1000 vCPUs",
        played.timed.ns_per_exit,
        played.table_bytes >> 20,
    );
}

#[test]
fn what_finds_no_room_is_told_and_the_tables_stay_as_they_are() {
    let few = Synthetic {
        vcpus: 1,
        expected_vcpus: 0,
        exits: 10,
        reasons: 10,
    };
    let Some(small) = played(few) else { return };
    let many = Synthetic {
        vcpus: 300,
        exits: 100,
        reasons: 50,
        ..few
    };
    let Some(full) = played(many) else { return };
    assert_eq!(full.table_bytes, small.table_bytes);
    let (exits, other) = (
        count(&full.rows, Kind::Exit),
        count(&full.rows, Kind::Other),
    );
    let entries = count(&full.rows, Kind::Entry);
    assert!(other > 0);
    assert_eq!(exits + entries + other, 300 * 100 + 300 * 101);
}

#[test]
fn one_vcpu_has_a_time_for_each_exit() {
    let wanted = Synthetic {
        vcpus: 1,
        expected_vcpus: 1,
        exits: 50_000,
        reasons: 1,
    };
    let Some(played) = played(wanted) else { return };
    let exits = played.rows.iter().find(|row| row.cause.kind == Kind::Exit);
    let exits = exits.unwrap();
    assert_eq!((exits.count, exits.handling_ns.count()), (50_000, 50_000));
    assert_eq!(exits.user_ns, 0);
    println!(
        "{:.0} ns per exit and entry, one vCPU; measuring itself {:.0} ns",
        played.timed.ns_per_exit, played.timed.measuring_ns
    );
}

fn timed(rows: &[Exits], reason: u32) -> (u64, u64) {
    let exits = rows.iter().filter(|row| row.cause.kind == Kind::Exit);
    let exits = exits.filter(|row| row.cause.reason == Some(reason));
    exits.fold((0, 0), |(count, times), row| {
        (count + row.count, times + row.handling_ns.count())
    })
}

#[test]
fn a_lost_entry_or_exit_is_counted_and_never_mispaired() {
    use Step::{Entry, Exit};
    let steps: &[&[Step]] = &[&[
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
    ]];
    let Some(rows) = stepped(steps) else { return };
    let all = [1, 2, 3, 4].map(|reason| timed(&rows, reason));
    assert_eq!(all, [(1, 1), (1, 0), (1, 1), (1, 0)]);
    assert_eq!(count(&rows, Kind::Entry), 4);
    assert_eq!(count(&rows, Kind::LoneEntry), 1);
}

#[test]
fn an_exit_is_not_paired_with_an_entry_of_another_vcpu_or_thread() {
    use Step::{Entry, Exit};
    let steps: &[&[Step]] = &[
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
    ];
    let Some(rows) = stepped(steps) else { return };
    let all = [1, 2, 3, 5].map(|reason| timed(&rows, reason));
    assert_eq!(all, [(1, 0), (1, 0), (1, 0), (1, 1)]);
    assert_eq!(count(&rows, Kind::Entry), 5);
    assert_eq!(count(&rows, Kind::LoneEntry), 0);
}

#[test]
fn time_in_the_vmm_belongs_to_its_exit_and_not_to_the_next() {
    use Step::{Entry, Exit, Return, Run};
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
    let Some(rows) = stepped(steps) else { return };
    let exits = |reason| {
        let mut rows = rows.iter();
        rows.find(|row| row.cause.kind == Kind::Exit && row.cause.reason == Some(reason))
            .unwrap()
    };
    assert_eq!((timed(&rows, 30), timed(&rows, 12)), ((2, 1), (1, 1)));
    let (io, hlt) = (exits(30), exits(12));
    assert!(
        io.user_ns > 0 && io.user_ns <= io.handling_ns.sum(),
        "{io:?}"
    );
    assert_eq!(hlt.user_ns, 0);
    let mut returns = rows
        .iter()
        .filter(|row| row.cause.kind == Kind::UserspaceExit);
    let returned = returns.next().unwrap();
    assert_eq!((returned.count, returned.handling_ns.count()), (2, 1));
    assert_eq!(returned.user_ns, io.user_ns);
}

/// From Linux 6.15 on, guests on Zen 5 halt by Idle HLT.
#[test]
fn an_exit_by_idle_hlt_is_that_of_a_halt() {
    use Step::{Entry, SvmExit};
    const IDLE_HLT: u32 = 0xa6;
    const IO: u32 = 0x7b;
    let steps: Vec<Step> = (0..100)
        .flat_map(|_| [SvmExit(0, IDLE_HLT), Entry(0), SvmExit(0, IO), Entry(0)])
        .collect();
    let Some(rows) = stepped(&[&steps]) else {
        return;
    };
    let mut account = Account::new(By::Reason, 0);
    for row in &rows {
        account.add(row);
    }
    let passed = account.total();
    assert_eq!((passed.halts.count, passed.exits.count), (100, 100));
}

#[test]
fn a_number_beyond_the_table_has_a_row_of_its_own() {
    use Step::{Entry, Exit};
    let beyond = [0xff, 0x100, 0x400, 0x40f, 0x410, 0x8000_0021];
    let steps: Vec<Step> = beyond
        .iter()
        .flat_map(|reason| [Exit(0, *reason), Entry(0), Exit(0, *reason), Entry(0)])
        .collect();
    let Some(rows) = stepped(&[&steps]) else {
        return;
    };
    for reason in beyond {
        assert_eq!(timed(&rows, reason), (2, 2), "{reason:#x}");
    }
}

/// One guest writes more registers than the table has room for: that is told as lost, and the exits of
/// the next guest have cells all the same.
#[test]
fn sub_keys_of_one_guest_do_not_take_the_room_of_anothers_exits() {
    use Step::{Entry, Exit, Wrmsr};
    let flood: Vec<Step> = (0..10_000)
        .flat_map(|msr| [Exit(0, 32), Wrmsr(msr), Entry(0)])
        .collect();
    let next: Vec<Step> = (0..50)
        .flat_map(|reason| [Exit(1, reason), Entry(1)])
        .collect();
    let Some((rows, lost)) = had(|| play_telling([SubKey::Msr].into(), &[&flood, &next])) else {
        return;
    };
    assert_eq!(timed(&rows, 32), (10_001, 10_001));
    for reason in (0..50).filter(|reason| *reason != 32) {
        assert_eq!(timed(&rows, reason), (1, 1), "{reason}");
    }
    assert_eq!(count(&rows, Kind::Other), 0);
    let lost: u64 = lost.iter().map(|it| it.count).sum();
    assert!(lost > 0);
    assert_eq!(count(&rows, Kind::MsrWrite) + lost, 10_000);
}

/// To the host a guest's own guest is the same vCPU: the entry after VMRESUME goes into it, its exits come
/// from it, and what its hypervisor shall handle enters that. All of them pair, each under its reason.
#[test]
fn exits_of_a_nested_guest_are_those_of_its_vcpu() {
    use Step::{Entry, Exit};
    const VMRESUME: u32 = 24;
    const CPUID: u32 = 10;
    const INTERRUPT: u32 = 1;
    let steps: Vec<Step> = (0..100)
        .flat_map(|_| {
            [
                Exit(0, VMRESUME),
                Entry(0),
                // Handled by the host, back into the nested guest.
                Exit(0, INTERRUPT),
                Entry(0),
                // For its hypervisor.
                Exit(0, CPUID),
                Entry(0),
            ]
        })
        .collect();
    let Some(rows) = stepped(&[&steps]) else {
        return;
    };
    for reason in [VMRESUME, INTERRUPT, CPUID] {
        assert_eq!(timed(&rows, reason), (100, 100));
    }
    assert_eq!(count(&rows, Kind::Entry), 300);
    assert_eq!(count(&rows, Kind::LoneEntry), 0);
}

/// A thread that takes two vCPUs up in turn, again and again, does not use the table up.
#[test]
fn vcpus_in_turn_in_one_thread_keep_to_their_cells() {
    use Step::{Entry, Exit};
    let steps: Vec<Step> = (0..20_000)
        .flat_map(|nth| [Entry(nth % 2), Exit(nth % 2, 12)])
        .collect();
    let Some(rows) = stepped(&[&steps]) else {
        return;
    };
    assert_eq!(count(&rows, Kind::Other), 0);
    assert_eq!(timed(&rows, 12), (20_000, 0));
    assert_eq!(count(&rows, Kind::Entry), 20_000);
}
