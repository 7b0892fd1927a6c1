//! A thousand vCPUs' worth of exits through the real programs: counted to the unit, in tables whose
//! size was fixed before.
//!
//! Needs root and BPF; says `skipped: reason` otherwise. Prints what an exit costs; asserts no time.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]
#![cfg(target_arch = "x86_64")]

use haltwise_core::exit::{Exits, Kind};
use haltwise_host::bpf::synthetic_exits::{Played, Synthetic, play};

fn played(wanted: Synthetic) -> Option<Played> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root: BPF cannot be loaded");
        return None;
    }
    match play(wanted) {
        Ok(played) => Some(played),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
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
        played.ns_per_exit,
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
        played.ns_per_exit, played.measuring_ns
    );
}
