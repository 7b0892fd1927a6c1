//! A cell's bytes: decoded, refused, and what grew.

use haltwise_core::ids::{VcpuId, VmIndex};

use super::*;
use crate::bpf::skel::exits::types::exit_kind;
use crate::bytes::made_of;

const KEY: usize = offset_of!(exit_cell, key);
const HIST: usize = offset_of!(exit_cell, hist);

/// A cell of thread 77, with these counts.
fn cell_of(
    (kind, isa, reason): (exit_kind, u32, u32),
    longs: &[(usize, u64)],
    buckets: &[(usize, u32)],
) -> Option<Cell> {
    let mut words = vec![
        (KEY + offset_of!(exit_key, kind), kind.0),
        (KEY + offset_of!(exit_key, isa), isa),
        (KEY + offset_of!(exit_key, reason), reason),
        (KEY + offset_of!(exit_key, tid), 77),
        (offset_of!(exit_cell, tgid), 70),
        (offset_of!(exit_cell, vcpu_id), 3),
    ];
    words.extend(buckets.iter().map(|(at, count)| (HIST + at * 4, *count)));
    Cell::decode(&made_of(SIZE, longs, &words), false)
}

const SVM_IO: (exit_kind, u32, u32) = (exit_kind::EXIT_KIND_EXIT, 2, 0x7b);

const PLACE: Place = Place {
    vm: Some(VmIndex(1)),
    vcpu: Some(VcpuId(3)),
};

#[test]
fn the_codes_of_the_programs_are_those_of_the_core() {
    for (code, kind) in [
        (exit_kind::EXIT_KIND_EXIT, Kind::Exit),
        (exit_kind::EXIT_KIND_ENTRY, Kind::Entry),
        (exit_kind::EXIT_KIND_LONE_ENTRY, Kind::LoneEntry),
        (exit_kind::EXIT_KIND_USERSPACE, Kind::UserspaceExit),
        (exit_kind::EXIT_KIND_INJECTION, Kind::InjVirq),
        (exit_kind::EXIT_KIND_EMULATION, Kind::EmulateInsn),
        (exit_kind::EXIT_KIND_OTHER, Kind::Other),
        (exit_kind::EXIT_KIND_MSR_READ, Kind::MsrRead),
        (exit_kind::EXIT_KIND_MSR_WRITE, Kind::MsrWrite),
        (exit_kind::EXIT_KIND_PIO_READ, Kind::PioRead),
        (exit_kind::EXIT_KIND_PIO_WRITE, Kind::PioWrite),
        (exit_kind::EXIT_KIND_MMIO_READ, Kind::MmioRead),
        (exit_kind::EXIT_KIND_MMIO_WRITE, Kind::MmioWrite),
        (exit_kind::EXIT_KIND_PAGE_FAULT, Kind::PageFault),
        (exit_kind::EXIT_KIND_HYPERCALL, Kind::Hypercall),
        (exit_kind::EXIT_KIND_VECTOR, Kind::Vector),
        (exit_kind::EXIT_KIND_CPUID, Kind::Cpuid),
    ] {
        assert_eq!(Kind::from_code(code.0), Some(kind));
    }
    assert_eq!(exit_kind::EXIT_KINDS.0 as usize, Kind::ALL.len());
}

#[test]
fn a_cell_says_who_and_what() {
    let cell = cell_of(SVM_IO, &[], &[]).unwrap();
    assert_eq!((cell.who.tid, cell.who.tgid, cell.who.vcpu_id), (77, 70, 3));
    let cause = cell.cause;
    assert_eq!((cause.isa, cause.reason), (Isa::Svm, Some(0x7b)));
    // The reason could not be read, and SVM's reason of that number.
    for (isa, reason) in [(1, None), (2, Some(u32::MAX))] {
        let cell = cell_of((exit_kind::EXIT_KIND_EXIT, isa, u32::MAX), &[], &[]);
        assert_eq!(cell.unwrap().cause.reason, reason);
    }
    let other = Cell::decode(&vec![0; SIZE], true).unwrap();
    assert_eq!(other.cause.kind, Kind::Other);
    assert_eq!(cell_of((exit_kind::EXIT_KINDS, 0, 0), &[], &[]), None);
    for cut in [0, 39, SIZE - 1] {
        assert_eq!(Cell::decode(&vec![0; cut], false), None);
    }
}

#[test]
fn what_grew_is_told_once() {
    let mut longs = [
        (offset_of!(exit_cell, count), 3),
        (offset_of!(exit_cell, user_ns), 400),
        (offset_of!(exit_cell, max_ns), 2001),
        (offset_of!(exit_cell, sum_ns), 3000),
    ];
    let mut told = Counted::default();
    let cell = cell_of(SVM_IO, &longs, &[(63, 1), (71, 1)]).unwrap();
    let first = cell.since(&mut told, 10, 9, || PLACE).unwrap();
    assert_eq!((first.count, first.user_ns), (3, 400));
    let times = &first.handling_ns;
    assert_eq!((times.count(), times.sum(), times.max()), (2, 3000, 2001));
    assert_eq!(
        (first.vm, first.vcpu, first.tid),
        (PLACE.vm, PLACE.vcpu, Tid(77))
    );
    // The VM of a cell that stands still may have been forgotten: it is not added again.
    let unasked = || unreachable!("nothing came of it");
    assert_eq!(cell.since(&mut told, 20, 10, unasked), None);
    // A time that came after its exit was told: no more exits, one more time.
    longs[3].1 = 3970;
    let cell = cell_of(SVM_IO, &longs, &[(63, 2), (71, 1)]).unwrap();
    let second = cell.since(&mut told, 20, 10, || PLACE).unwrap();
    assert_eq!((second.count, second.handling_ns.count()), (0, 1));
    assert_eq!(second.handling_ns.max(), bucket_high(63));
}

#[test]
fn growth_is_taken_across_a_wrap_of_the_kernels_32_bits() {
    let last = KERNEL_BUCKETS - 1;
    let mut told = Counted::default();
    let before = cell_of(SVM_IO, &[], &[(last, u32::MAX)]).unwrap();
    before.since(&mut told, 1, 1, || PLACE).unwrap();
    let longs = [(offset_of!(exit_cell, max_ns), 1 << 40)];
    let after = cell_of(SVM_IO, &longs, &[(last, 1)]).unwrap();
    let row = after.since(&mut told, 2, 1, || PLACE).unwrap();
    assert_eq!(
        (row.handling_ns.count(), row.handling_ns.max()),
        (2, 1 << 40)
    );
}
