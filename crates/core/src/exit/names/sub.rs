//! Names of sub-keys of exits: MSRs, I/O ports, addresses of interrupt controllers, leaves of CPUID and
//! hypercalls of x86. Names are those of the kernel's `msr-index.h`, `apicdef.h`, `kvm_para.h` and
//! `hyperv-tlfs.h`; ports are the PC's, and those of QEMU's machines.

use crate::exit::Kind;

/// The name of a sub-key; `None` where it has none that is known.
pub fn sub(kind: Kind, key: u64) -> Option<&'static str> {
    let table: &[(u64, u64, &str)] = match kind {
        Kind::MsrRead | Kind::MsrWrite => &MSRS,
        Kind::PioRead | Kind::PioWrite => &PORTS,
        Kind::MmioRead | Kind::MmioWrite => &ADDRESSES,
        Kind::Cpuid => &LEAVES,
        Kind::Hypercall => &HYPERCALLS,
        _ => return None,
    };
    let found = table
        .iter()
        .find(|(first, last, _)| (*first..=*last).contains(&key));
    found.map(|(_, _, name)| *name)
}

/// First, last, name; a narrower range stands before a wider one.
type Range = (u64, u64, &'static str);

const fn one(key: u64, name: &'static str) -> Range {
    (key, key, name)
}

const MSRS: [Range; 94] = [
    one(0x10, "IA32_TSC"),
    one(0x11, "KVM_WALL_CLOCK"),
    one(0x12, "KVM_SYSTEM_TIME"),
    one(0x1b, "IA32_APIC_BASE"),
    one(0x3b, "IA32_TSC_ADJUST"),
    one(0x48, "IA32_SPEC_CTRL"),
    one(0x49, "IA32_PRED_CMD"),
    one(0x8b, "IA32_UCODE_REV"),
    (0xc1, 0xc8, "IA32_PMC"),
    one(0xe7, "IA32_MPERF"),
    one(0xe8, "IA32_APERF"),
    one(0x10a, "IA32_ARCH_CAPABILITIES"),
    one(0x10b, "IA32_FLUSH_CMD"),
    one(0x122, "IA32_TSX_CTRL"),
    one(0x174, "IA32_SYSENTER_CS"),
    one(0x175, "IA32_SYSENTER_ESP"),
    one(0x176, "IA32_SYSENTER_EIP"),
    one(0x179, "IA32_MCG_CAP"),
    one(0x17a, "IA32_MCG_STATUS"),
    (0x186, 0x18d, "IA32_PERFEVTSEL"),
    one(0x198, "IA32_PERF_STATUS"),
    one(0x199, "IA32_PERF_CTL"),
    one(0x19a, "IA32_THERM_CONTROL"),
    one(0x19c, "IA32_THERM_STATUS"),
    one(0x1a0, "IA32_MISC_ENABLE"),
    one(0x1b0, "IA32_ENERGY_PERF_BIAS"),
    one(0x1d9, "IA32_DEBUGCTL"),
    (0x200, 0x21f, "IA32_MTRR_PHYS"),
    one(0x277, "IA32_PAT"),
    one(0x2ff, "IA32_MTRR_DEF_TYPE"),
    (0x309, 0x30c, "IA32_FIXED_CTR"),
    one(0x345, "IA32_PERF_CAPABILITIES"),
    one(0x38d, "IA32_FIXED_CTR_CTRL"),
    one(0x38e, "IA32_PERF_GLOBAL_STATUS"),
    one(0x38f, "IA32_PERF_GLOBAL_CTRL"),
    one(0x390, "IA32_PERF_GLOBAL_OVF_CTRL"),
    (0x480, 0x493, "IA32_VMX"),
    one(0x6e0, "IA32_TSC_DEADLINE"),
    one(0x802, "x2APIC ID"),
    one(0x803, "x2APIC version"),
    one(0x808, "x2APIC TPR"),
    one(0x80a, "x2APIC PPR"),
    one(0x80b, "x2APIC EOI"),
    one(0x80d, "x2APIC LDR"),
    one(0x80f, "x2APIC SPIV"),
    (0x810, 0x817, "x2APIC ISR"),
    (0x818, 0x81f, "x2APIC TMR"),
    (0x820, 0x827, "x2APIC IRR"),
    one(0x828, "x2APIC ESR"),
    one(0x82f, "x2APIC LVT CMCI"),
    one(0x830, "x2APIC ICR"),
    one(0x832, "x2APIC LVT timer"),
    one(0x833, "x2APIC LVT thermal"),
    one(0x834, "x2APIC LVT PMI"),
    one(0x835, "x2APIC LVT LINT0"),
    one(0x836, "x2APIC LVT LINT1"),
    one(0x837, "x2APIC LVT error"),
    one(0x838, "x2APIC TMICT"),
    one(0x839, "x2APIC TMCCT"),
    one(0x83e, "x2APIC TDCR"),
    one(0x83f, "x2APIC self IPI"),
    one(0xda0, "IA32_XSS"),
    one(0x4000_0000, "HV_X64_MSR_GUEST_OS_ID"),
    one(0x4000_0001, "HV_X64_MSR_HYPERCALL"),
    one(0x4000_0002, "HV_X64_MSR_VP_INDEX"),
    one(0x4000_0020, "HV_X64_MSR_TIME_REF_COUNT"),
    one(0x4000_0021, "HV_X64_MSR_REFERENCE_TSC"),
    one(0x4000_0022, "HV_X64_MSR_TSC_FREQUENCY"),
    one(0x4000_0023, "HV_X64_MSR_APIC_FREQUENCY"),
    one(0x4000_0070, "HV_X64_MSR_EOI"),
    one(0x4000_0071, "HV_X64_MSR_ICR"),
    one(0x4000_0072, "HV_X64_MSR_TPR"),
    one(0x4000_0084, "HV_X64_MSR_EOM"),
    (0x4000_0090, 0x4000_009f, "HV_X64_MSR_SINT"),
    (0x4000_00b0, 0x4000_00b7, "HV_X64_MSR_STIMER"),
    one(0x4000_00f0, "HV_X64_MSR_GUEST_IDLE"),
    one(0x4b56_4d00, "KVM_WALL_CLOCK_NEW"),
    one(0x4b56_4d01, "KVM_SYSTEM_TIME_NEW"),
    one(0x4b56_4d02, "KVM_ASYNC_PF_EN"),
    one(0x4b56_4d03, "KVM_STEAL_TIME"),
    one(0x4b56_4d04, "KVM_PV_EOI_EN"),
    one(0x4b56_4d05, "KVM_POLL_CONTROL"),
    one(0x4b56_4d06, "KVM_ASYNC_PF_INT"),
    one(0x4b56_4d07, "KVM_ASYNC_PF_ACK"),
    one(0xc000_0080, "EFER"),
    one(0xc000_0081, "STAR"),
    one(0xc000_0082, "LSTAR"),
    one(0xc000_0083, "CSTAR"),
    one(0xc000_0084, "SYSCALL_MASK"),
    one(0xc000_0100, "FS_BASE"),
    one(0xc000_0101, "GS_BASE"),
    one(0xc000_0102, "KERNEL_GS_BASE"),
    one(0xc000_0103, "TSC_AUX"),
    one(0xc001_0015, "AMD64_HWCR"),
];

const PORTS: [Range; 31] = [
    one(0x20, "PIC 1 command"),
    one(0x21, "PIC 1 data"),
    (0x40, 0x42, "PIT counter"),
    one(0x43, "PIT command"),
    one(0x60, "i8042 data"),
    one(0x61, "NMI status and speaker"),
    one(0x64, "i8042 command"),
    one(0x70, "RTC index"),
    one(0x71, "RTC data"),
    one(0x80, "POST code, I/O delay"),
    one(0x92, "system control port A"),
    one(0xa0, "PIC 2 command"),
    one(0xa1, "PIC 2 data"),
    one(0xb2, "SMI command"),
    one(0xf4, "QEMU debug exit"),
    (0x170, 0x177, "IDE 2"),
    (0x1f0, 0x1f7, "IDE 1"),
    (0x2e8, 0x2ef, "COM4"),
    (0x2f8, 0x2ff, "COM2"),
    (0x3c0, 0x3df, "VGA"),
    (0x3e8, 0x3ef, "COM3"),
    (0x3f8, 0x3ff, "COM1"),
    one(0x402, "firmware's debug port"),
    one(0x510, "fw_cfg selector"),
    one(0x511, "fw_cfg data"),
    (0x514, 0x51b, "fw_cfg DMA"),
    (0x600, 0x603, "QEMU ACPI PM1 event"),
    (0x604, 0x605, "QEMU ACPI PM1 control"),
    (0x608, 0x60b, "QEMU ACPI PM timer"),
    (0xcf8, 0xcfb, "PCI configuration address"),
    (0xcfc, 0xcff, "PCI configuration data"),
];

const ADDRESSES: [Range; 5] = [
    (0xfec0_0000, 0xfec0_0fff, "IOAPIC"),
    (0xfed0_0000, 0xfed0_03ff, "HPET"),
    (0xfee0_00b0, 0xfee0_00b3, "local APIC EOI"),
    (0xfee0_0300, 0xfee0_0313, "local APIC ICR"),
    (0xfee0_0000, 0xfee0_0fff, "local APIC"),
];

const LEAVES: [Range; 21] = [
    one(0x0, "vendor"),
    one(0x1, "family and features"),
    one(0x2, "caches"),
    one(0x4, "cache topology"),
    one(0x5, "MWAIT"),
    one(0x6, "thermal and power"),
    one(0x7, "features"),
    one(0xa, "PMU"),
    one(0xb, "topology"),
    one(0xd, "XSAVE"),
    one(0x15, "TSC frequency"),
    one(0x16, "CPU frequency"),
    one(0x1f, "topology"),
    one(0x4000_0000, "hypervisor"),
    one(0x4000_0001, "KVM features"),
    one(0x8000_0000, "highest extended leaf"),
    one(0x8000_0001, "extended features"),
    (0x8000_0002, 0x8000_0004, "brand"),
    (0x8000_0005, 0x8000_0006, "caches"),
    one(0x8000_0008, "address sizes"),
    one(0x8000_001e, "topology"),
];

const HYPERCALLS: [Range; 5] = [
    one(5, "KICK_CPU"),
    one(9, "CLOCK_PAIRING"),
    one(10, "SEND_IPI"),
    one(11, "SCHED_YIELD"),
    one(12, "MAP_GPA_RANGE"),
];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_range_is_not_hidden_behind_a_wider_one() {
        for table in [&MSRS[..], &PORTS, &ADDRESSES, &LEAVES, &HYPERCALLS] {
            for (n, (first, last, name)) in table.iter().enumerate() {
                assert!(first <= last, "{name}");
                let before = table[..n].iter();
                let mut hiding = before.filter(|it| it.0 <= *first && *last <= it.1);
                assert_eq!(hiding.next(), None, "{name}");
            }
        }
    }
}
