//! Counts and losses that wait: by second, bounded, none twice and none missing.

use super::*;

fn halt(vcpu: u32, end_ns: u64) -> Halt {
    Halt {
        start_ns: end_ns - 1_000,
        halt_ns: 1_000,
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(vcpu)),
        tid: Tid(100 + vcpu),
        ..Halt::default()
    }
}

fn halts(counts: &[HaltCounts]) -> u64 {
    counts.iter().map(|row| row.halts).sum()
}

#[test]
fn counts_stand_by_vcpu_and_second() {
    let mut backlog = Backlog::default();
    backlog.begin();
    for end_ns in [1_000_000_000, 1_500_000_000, 2_100_000_000] {
        for vcpu in 0..2 {
            backlog.count(&halt(vcpu, end_ns));
        }
    }
    // The second that is under way stays, as long as halts are added.
    let over = backlog.take_counts(false);
    let found: Vec<_> = over.iter().map(|row| (row.vcpu, row.halts)).collect();
    assert_eq!(found, [(Some(VcpuId(0)), 2), (Some(VcpuId(1)), 2)]);
    assert_eq!(over[0].time_ns, 1_500_000_000);
    assert_eq!(over[0].interval_ns, 500_001_000);
    assert!(backlog.waits());
    backlog.begin();
    assert_eq!(halts(&backlog.take_counts(false)), 2);
    assert!(!backlog.waits());
    // Counts that are put back are the same again.
    for row in &over {
        backlog.keep(row);
    }
    assert_eq!(backlog.take_counts(true), over);
}

#[test]
fn hours_without_room_take_bounded_memory_and_lose_no_halt() {
    let mut backlog = Backlog::default();
    let mut seen = 0;
    for second in 1..20_000_u64 {
        for vcpu in 0..4 {
            backlog.count(&halt(vcpu, second * 1_000_000_000));
            backlog.lose(Table::Halts, 1, second * 1_000_000_000);
            seen += 1;
        }
    }
    let counts = backlog.take_counts(true);
    assert!(counts.len() <= MOST, "{}", counts.len());
    assert_eq!(halts(&counts), seen);
    let losses = backlog.take_losses(true);
    assert!(losses.len() <= MOST);
    assert_eq!(losses.iter().map(|lost| lost.count).sum::<u64>(), seen);
    // Clocks that stand far apart make intervals as long as it takes, and no longer.
    backlog.count(&halt(0, u64::MAX));
    backlog.count(&halt(0, 1_000));
    assert_eq!(halts(&backlog.take_counts(true)), 2);
}
