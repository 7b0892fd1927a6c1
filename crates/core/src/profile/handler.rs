//! Which exit a stack handles, where the exit was not recorded: by the function that KVM calls for it.
//!
//! The names are those of `arch/x86/kvm/vmx/vmx.c` (`kvm_vmx_exit_handlers`), `arch/x86/kvm/svm/svm.c`
//! (`svm_exit_handlers`), `arch/arm64/kvm/handle_exit.c` (`arm_exit_handlers`) and of the functions of
//! `arch/x86/kvm/x86.c` that both x86 vendors call. Where both print different names for one cause, the
//! name of Intel's stands for both.

/// A function and the exit that it handles.
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

/// The exit that a function handles.
pub fn of_symbol(symbol: &str) -> Option<&'static str> {
    let found = HANDLERS.iter().find(|(name, _)| *name == symbol);
    found.map(|(_, exit)| *exit)
}

/// The exit that a stack handles; its functions are given from the innermost out.
pub fn of_stack(symbols: &[&str]) -> Option<&'static str> {
    symbols.iter().rev().find_map(|symbol| of_symbol(symbol))
}
