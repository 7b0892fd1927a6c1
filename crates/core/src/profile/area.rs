//! Parts of KVM and the kernel that a stack was busy with, and the exit that it handles.
//!
//! Functions are sorted by their names, most of which are prefixes: KVM and the kernel name what
//! belongs together alike. From the innermost function out, the first that has an area decides.

crate::names! {
    /// A part of the guest, of KVM, of the kernel, or the VMM.
    pub enum Area {
        GuestKernel = "guest kernel",
        /// The guest, in its user space.
        GuestUser = "guest user",
        /// KVM polls before it blocks a halted vCPU.
        HaltPolling = "halt polling",
        /// KVM blocks a halted vCPU, or has it woken.
        HaltBlocking = "halt blocking",
        /// KVM waits for the lock of the guest's page tables.
        MmuLock = "MMU lock",
        Mmu = "MMU",
        /// KVM emulates instructions.
        Emulation = "emulation",
        /// Interrupts of guests: local APIC, I/O APIC, vGIC.
        GuestInterrupts = "guest interrupts",
        GuestTimers = "guest timers",
        /// The way into the guest and out of it.
        EntryExit = "entry and exit",
        /// Anything else of KVM.
        KvmOther = "other KVM",
        /// vhost: devices of guests in the kernel.
        Vhost = "vhost",
        /// The host's own interrupts and what follows from them.
        HostInterrupts = "host interrupts",
        HostMemory = "host memory",
        Scheduler = "scheduler",
        /// Anything else of the kernel: system calls of the VMM.
        KernelOther = "other kernel",
        Vmm = "VMM",
        Unknown = "not known",
    }
}

impl Area {
    /// The larger part that it belongs to.
    pub fn side(self) -> Side {
        match self {
            Self::GuestKernel | Self::GuestUser => Side::Guest,
            Self::Vmm => Side::Vmm,
            Self::Unknown => Side::Unknown,
            _ => Side::Kernel,
        }
    }
}

crate::names! {
    /// Guest, kernel or VMM.
    pub enum Side {
        Guest = "guest",
        Kernel = "kernel",
        /// User space: the VMM.
        Vmm = "VMM",
        Unknown = "not known",
    }
}

/// Beginnings of names, in the order in which they are tried; of a name, `asm_` and underscores are left out.
const AREAS: &[(Area, &[&str])] = &[
    (Area::Vhost, &["vhost_", "handle_tx", "handle_rx"]),
    (
        Area::HostInterrupts,
        &[
            "sysvec_",
            "common_interrupt",
            "do_softirq",
            "handle_softirqs",
            "irq_exit_rcu",
            "exc_nmi",
            "el1_interrupt",
            "el0_interrupt",
            "gic_handle_irq",
        ],
    ),
    (
        Area::Mmu,
        &[
            "kvm_mmu_",
            "kvm_tdp_",
            "tdp_",
            "mmu_",
            "handle_ept_violation",
            "npf_interception",
            "direct_map",
            "direct_page_fault",
            "kvm_faultin_pfn",
            "fast_page_fault",
            "paging64_",
            "paging32_",
            "ept_",
            "kvm_unmap_gfn",
            "kvm_age_gfn",
            "kvm_zap_",
            "pte_list_",
            "rmap_",
            "kvm_handle_guest_abort",
            "user_mem_abort",
            "kvm_pgtable_",
            "stage2_",
            "gfn_to_",
            "hva_to_pfn",
            "kvm_follow_pfn",
        ],
    ),
    (
        Area::Emulation,
        &[
            "x86_emulate_",
            "x86_decode_",
            "kvm_emulate_instruction",
            "em_",
            "emulator_",
            "emulate_",
            "emul_",
            "decode_operand",
            "decode_modrm",
            "decode_imm",
            "read_emulated",
            "segmented_read",
            "segmented_write",
            "linearize",
            "writeback",
            "init_emulate_ctxt",
        ],
    ),
    (
        Area::GuestTimers,
        &[
            "kvm_hv_timer",
            "start_apic_timer",
            "restart_apic_timer",
            "start_sw_tscdeadline",
            "start_hv_timer",
            "kvm_lapic_restart_hv_timer",
            "kvm_lapic_switch_to_",
            "kvm_inject_pending_timer_irqs",
            "kvm_inject_apic_timer_irqs",
            "kvm_lapic_expired_hv_timer",
            "apic_timer_",
            "kvm_wait_lapic_expire",
            "kvm_timer_",
            "pit_",
            "kvm_pit_",
            "kvm_guest_time_update",
            "vmx_set_hv_timer",
            "vmx_cancel_hv_timer",
            "kvm_set_lapic_tscdeadline_msr",
        ],
    ),
    (
        Area::GuestInterrupts,
        &[
            "kvm_apic_",
            "apic_",
            "kvm_lapic_",
            "kvm_irq_delivery_",
            "kvm_set_irq",
            "kvm_set_msi",
            "kvm_ioapic_",
            "ioapic_",
            "kvm_pic_",
            "pic_",
            "kvm_cpu_has_",
            "kvm_cpu_get_",
            "kvm_x2apic_",
            "kvm_check_and_inject_events",
            "inject_pending_event",
            "vmx_inject_irq",
            "svm_inject_irq",
            "vmx_sync_pir_to_irr",
            "vmx_deliver_",
            "svm_deliver_",
            "avic_",
            "irqfd_",
            "vgic_",
            "kvm_vgic_",
            "kvm_notify_acked_irq",
        ],
    ),
    (
        Area::EntryExit,
        &[
            "vmx_vcpu_",
            "vmx_vmexit",
            "vmx_handle_exit",
            "vmx_prepare_switch_to",
            "svm_vcpu_",
            "svm_handle_exit",
            "svm_prepare_switch_to",
            "vcpu_enter_guest",
            "vcpu_run",
            "kvm_arch_vcpu_load",
            "kvm_arch_vcpu_put",
            "kvm_load_guest_",
            "kvm_load_host_",
            "kvm_put_guest_",
            "kvm_fpu_",
            "fpu_swap_kvm_fpstate",
            "kvm_arch_vcpu_ioctl_run",
            "kvm_vcpu_run",
            "guest_enter",
            "kvm_on_user_return",
            "pvm_vcpu_",
            "pvm_prepare_switch_to",
            "pvm_handle_exit",
            "switcher_enter_guest",
        ],
    ),
    (Area::KvmOther, &["kvm_", "vmx_", "svm_", "pvm_"]),
    (
        Area::HostMemory,
        &[
            "handle_mm_fault",
            "do_user_addr_fault",
            "exc_page_fault",
            "do_anonymous_page",
            "alloc_pages",
            "clear_page",
            "clear_huge_page",
            "get_user_pages",
            "faultin_page",
            "do_huge_pmd_",
            "shmem_",
            "do_madvise",
            "do_sys_madvise",
            "unmap_page_range",
            "zap_",
            "try_to_free_pages",
            "shrink_",
            "migrate_pages",
            "khugepaged",
            "ksm_",
        ],
    ),
    (
        Area::Scheduler,
        &[
            "schedule",
            "finish_task_switch",
            "try_to_wake_up",
            "ttwu_",
            "pick_next_task",
            "dequeue_",
            "enqueue_",
            "sched_",
            "preempt_schedule",
            "cond_resched",
        ],
    ),
];

const LOCKS: &[&str] = &[
    "native_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "rwsem_down_",
    "rwsem_spin_on_owner",
    "osq_lock",
    "mutex_lock",
    "mutex_spin_on_owner",
];

fn bare(symbol: &str) -> &str {
    let symbol = symbol.trim_start_matches('_');
    symbol.strip_prefix("asm_").unwrap_or(symbol)
}

fn of_symbol(symbol: &str) -> Option<Area> {
    let begins = |begin: &&str| bare(symbol).starts_with(*begin);
    let found = AREAS
        .iter()
        .find(|(_, begins_with)| begins_with.iter().any(begins));
    found.map(|(area, _)| *area)
}

/// The area of a stack of the kernel, its functions from the innermost out. Frames of user space
/// must not be among them.
pub fn of_stack(symbols: &[&str]) -> Area {
    let has = |wanted: &str| symbols.contains(&wanted);
    let first = symbols.iter().find_map(|symbol| of_symbol(symbol));
    // An interrupt may come anywhere: it is no part of what it interrupts.
    if first == Some(Area::HostInterrupts) {
        return Area::HostInterrupts;
    }
    if let Some(area) = halted(has) {
        return area;
    }
    match first {
        Some(Area::Mmu) if symbols.first().is_some_and(|symbol| is_lock(symbol)) => Area::MmuLock,
        Some(area) => area,
        None if symbols.is_empty() => Area::Unknown,
        None => Area::KernelOther,
    }
}

fn is_lock(symbol: &str) -> bool {
    LOCKS.iter().any(|lock| bare(symbol).starts_with(lock))
}

/// A halt polls in `kvm_vcpu_halt` and blocks in `kvm_vcpu_block`, which that calls (since 5.17);
/// before, both were in `kvm_vcpu_block`, and only blocking calls `schedule`
/// (`virt/kvm/kvm_main.c`).
fn halted(has: impl Fn(&str) -> bool) -> Option<Area> {
    let blocks = match (has("kvm_vcpu_halt"), has("kvm_vcpu_block")) {
        (false, false) => return has("kvm_vcpu_check_block").then_some(Area::HaltPolling),
        (true, blocks) => blocks || has("schedule"),
        (false, true) => has("schedule"),
    };
    Some(if blocks {
        Area::HaltBlocking
    } else {
        Area::HaltPolling
    })
}

/// A function and the exit that it handles: those of `kvm_vmx_exit_handlers`, `svm_exit_handlers` and arm64's
/// `arm_exit_handlers`, and functions of `arch/x86/kvm/x86.c` that both x86 vendors call. Where both print different
/// names for one cause, Intel's stands for both.
const HANDLERS: &[(&str, &str)] = &[
    ("kvm_vcpu_halt", "HLT"),
    ("kvm_emulate_halt", "HLT"),
    ("kvm_emulate_halt_noskip", "HLT"),
    ("kvm_vcpu_wfi", "WFx"),
    ("kvm_handle_wfx", "WFx"),
    ("handle_ept_violation", "EPT_VIOLATION"),
    ("handle_ept_misconfig", "EPT_MISCONFIG"),
    ("npf_interception", "npf"),
    ("handle_io", "IO_INSTRUCTION"),
    ("io_interception", "io"),
    ("kvm_emulate_wrmsr", "MSR_WRITE"),
    ("handle_fastpath_wrmsr", "MSR_WRITE"),
    ("handle_fastpath_set_msr_irqoff", "MSR_WRITE"),
    ("kvm_emulate_rdmsr", "MSR_READ"),
    ("msr_interception", "msr"),
    ("kvm_emulate_cpuid", "CPUID"),
    ("kvm_emulate_hypercall", "VMCALL"),
    ("handle_apic_write", "APIC_WRITE"),
    ("handle_apic_access", "APIC_ACCESS"),
    ("handle_apic_eoi_induced", "EOI_INDUCED"),
    ("avic_incomplete_ipi_interception", "avic_incomplete_ipi"),
    (
        "avic_unaccelerated_access_interception",
        "avic_unaccelerated_access",
    ),
    ("handle_pause", "PAUSE_INSTRUCTION"),
    ("pause_interception", "pause"),
    ("handle_preemption_timer", "PREEMPTION_TIMER"),
    ("handle_interrupt_window", "INTERRUPT_WINDOW"),
    ("interrupt_window_interception", "vintr"),
    ("handle_external_interrupt", "EXTERNAL_INTERRUPT"),
    ("vmx_handle_exit_irqoff", "EXTERNAL_INTERRUPT"),
    ("handle_exception_nmi", "EXCEPTION_NMI"),
    ("handle_cr", "CR_ACCESS"),
    ("handle_dr", "DR_ACCESS"),
    ("kvm_emulate_wbinvd", "WBINVD"),
    ("kvm_emulate_xsetbv", "XSETBV"),
    ("handle_bus_lock_vmexit", "BUS_LOCK"),
    ("kvm_handle_guest_abort", "DABT_LOW"),
    ("handle_hvc", "HVC64"),
    ("handle_smc", "SMC64"),
    ("kvm_handle_sys_reg", "SYS64"),
    ("kvm_handle_intercept", "intercept"),
    // Below a handler that is told above it belongs to that one; alone, KVM virtualises in software.
    ("x86_emulate_instruction", "emulation"),
];

/// The exit that a stack handles; its functions are given from the innermost out.
pub fn exit_of_stack(symbols: &[&str]) -> Option<&'static str> {
    let handled = |symbol: &&str| HANDLERS.iter().find(|(name, _)| name == symbol);
    let (_, exit) = symbols.iter().rev().find_map(handled)?;
    Some(exit)
}
