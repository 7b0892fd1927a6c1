//! A cell's bytes: decoded, refused, and what grew.

use haltwise_core::ids::{VcpuId, VmIndex};

use super::*;
use crate::bpf::skel::exits::types::exit_kind;

fn bytes(kind: exit_kind, isa: u32, reason: u32) -> Vec<u8> {
    const KEY: usize = offset_of!(exit_cell, key);
    let mut bytes = vec![0; SIZE];
    let mut put = |offset: usize, value: u32| {
        bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    };
    put(KEY + offset_of!(exit_key, kind), kind.0);
    put(KEY + offset_of!(exit_key, isa), isa);
    put(KEY + offset_of!(exit_key, reason), reason);
    put(KEY + offset_of!(exit_key, tid), 77);
    put(offset_of!(exit_cell, tgid), 70);
    put(offset_of!(exit_cell, vcpu_id), 3);
    bytes
}

fn put_long(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
}

fn put_bucket(bytes: &mut [u8], bucket: usize, value: u32) {
    let offset = offset_of!(exit_cell, hist) + bucket * 4;
    bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
}

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
    let cell = Cell::decode(&bytes(exit_kind::EXIT_KIND_EXIT, 2, 0x7b), false).unwrap();
    assert_eq!((cell.who.tid, cell.who.tgid, cell.who.vcpu_id), (77, 70, 3));
    let cause = cell.cause;
    assert_eq!((cause.isa, cause.reason), (Isa::Svm, Some(0x7b)));
    let unread = Cell::decode(&bytes(exit_kind::EXIT_KIND_EXIT, 1, u32::MAX), false).unwrap();
    assert_eq!(unread.cause.reason, None);
    let broken = Cell::decode(&bytes(exit_kind::EXIT_KIND_EXIT, 2, u32::MAX), false).unwrap();
    assert_eq!(broken.cause.reason, Some(u32::MAX));
    let other = Cell::decode(&vec![0; SIZE], true).unwrap();
    assert_eq!(other.cause.kind, Kind::Other);
    assert_eq!(
        Cell::decode(&bytes(exit_kind::EXIT_KINDS, 0, 0), false),
        None
    );
    for cut in [0, 39, SIZE - 1] {
        assert_eq!(Cell::decode(&vec![0; cut], false), None);
    }
}

#[test]
fn what_grew_is_told_once() {
    let mut raw = bytes(exit_kind::EXIT_KIND_EXIT, 2, 0x7b);
    put_long(&mut raw, offset_of!(exit_cell, count), 3);
    put_long(&mut raw, offset_of!(exit_cell, sum_ns), 3000);
    put_long(&mut raw, offset_of!(exit_cell, user_ns), 400);
    put_long(&mut raw, offset_of!(exit_cell, max_ns), 2001);
    put_bucket(&mut raw, 63, 1);
    put_bucket(&mut raw, 71, 1);
    let mut told = Counted::default();
    let cell = Cell::decode(&raw, false).unwrap();
    let first = cell.since(&mut told, 10, 9, || PLACE).unwrap();
    assert_eq!((first.count, first.user_ns), (3, 400));
    assert_eq!(
        (first.handling_ns.count(), first.handling_ns.sum()),
        (2, 3000)
    );
    assert_eq!(first.handling_ns.max(), 2001);
    assert_eq!(
        (first.vm, first.vcpu, first.tid),
        (PLACE.vm, PLACE.vcpu, Tid(77))
    );
    // The VM of a cell that stands still may have been forgotten: it is not made anew.
    let unasked = || unreachable!("nothing came of it");
    assert_eq!(cell.since(&mut told, 20, 10, unasked), None);

    put_bucket(&mut raw, 63, 2);
    put_long(&mut raw, offset_of!(exit_cell, sum_ns), 3970);
    let cell = Cell::decode(&raw, false).unwrap();
    let second = cell.since(&mut told, 20, 10, || PLACE).unwrap();
    // A time that came after its exit was told: no more exits, one more time.
    assert_eq!((second.count, second.handling_ns.count()), (0, 1));
    assert_eq!(second.handling_ns.max(), bucket_high(63));
}

#[test]
fn growth_is_taken_across_a_wrap_of_the_kernels_32_bits() {
    let mut raw = bytes(exit_kind::EXIT_KIND_EXIT, 2, 0x7b);
    put_bucket(&mut raw, KERNEL_BUCKETS - 1, u32::MAX);
    let mut told = Counted::default();
    let before = Cell::decode(&raw, false).unwrap();
    before.since(&mut told, 1, 1, || PLACE).unwrap();
    put_bucket(&mut raw, KERNEL_BUCKETS - 1, 1);
    put_long(&mut raw, offset_of!(exit_cell, max_ns), 1 << 40);
    let after = Cell::decode(&raw, false).unwrap();
    let row = after.since(&mut told, 2, 1, || PLACE).unwrap();
    assert_eq!(
        (row.handling_ns.count(), row.handling_ns.max()),
        (2, 1 << 40)
    );
}
