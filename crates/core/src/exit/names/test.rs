//! The tables of names: their order, and what the kernel prints.

use super::*;

#[test]
fn every_table_is_in_order_and_has_each_number_once() {
    let tables = Isa::ALL.map(table).into_iter().chain([tables::USERSPACE]);
    for table in tables {
        assert!(table.is_sorted_by(|a, b| a.0 < b.0), "{table:?}");
        for (number, name) in table {
            assert!(!name.is_empty() && name.trim() == *name, "{number}");
            assert_eq!(look_up(table, *number), Some(*name));
        }
    }
}

#[test]
fn reasons_read_as_the_kernel_prints_them() {
    let names = Names::default();
    for (isa, reason, name) in [
        (Isa::Vmx, 12, "HLT"),
        (Isa::Vmx, 48, "EPT_VIOLATION"),
        (Isa::Vmx, 0x21 | 1 << 31, "INVALID_STATE FAILED_VMENTRY"),
        (Isa::Vmx, 99, "0x63 (vmx)"),
        (Isa::Vmx, 0xa | 1 << 27, "CPUID 0x8000000"),
        (Isa::Svm, 0x78, "hlt"),
        (Isa::Svm, 0x7b, "io"),
        (Isa::Svm, 0x400, "npf"),
        (Isa::Svm, u32::MAX, "invalid_guest_state"),
        (Isa::Arm64, 0x24, "DABT_LOW"),
        (Isa::Arm64, 0x100, "IRQ"),
        (Isa::Riscv, 0x17, "STORE_GUEST_PAGE_FAULT"),
        (Isa::None, 3, "0x3 (none)"),
    ] {
        assert_eq!(names.reason(isa, reason), name);
    }
    for (reason, name) in [
        (2, "KVM_EXIT_IO"),
        (5, "KVM_EXIT_HLT"),
        (39, "KVM_EXIT_MEMORY_FAULT"),
        (1000, "KVM_EXIT_1000"),
        (ERRNO | 4, "restart (4)"),
        (ERRNO | 0xe, "error (14)"),
    ] {
        assert_eq!(userspace_exit(reason), name);
    }
}
