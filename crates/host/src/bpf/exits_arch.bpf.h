/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * Where each architecture's tracepoints carry the vCPU and the reason of an exit.
 *
 * x86: kvm_exit has carried (vcpu, isa) since 5.16 (0a62a0319abb); the reason is read from where KVM
 * takes it for the tracepoint: vmx_get_exit_info, svm_get_exit_info. Before, it was (exit_reason,
 * vcpu, isa). A program that looks at a third argument cannot be attached where there are two, so
 * there is one for each.
 */
#ifndef HALTWISE_EXITS_ARCH_BPF_H
#define HALTWISE_EXITS_ARCH_BPF_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* arch/x86/include/asm/svm.h, arch/x86/kvm/svm/svm.h */
struct vmcb_control_area {
	u32 exit_code;
};

struct vmcb {
	struct vmcb_control_area control;
};

struct vcpu_svm {
	struct vmcb *vmcb;
};

/* arch/x86/kvm/vmx/vmx.h, 5.11 and later */
union vmx_exit_reason {
	u32 full;
};

struct vcpu_vmx {
	union vmx_exit_reason exit_reason;
};

/* arch/x86/kvm/vmx/common.h: shared with TDX (6.15 and later) */
struct vcpu_vt {
	union vmx_exit_reason exit_reason;
};

struct vcpu_vmx___shared {
	struct vcpu_vt vt;
};

/* Every architecture counts its exits. */
struct kvm_vcpu_stat___exits {
	u64 exits;
};

struct kvm_vcpu___exits {
	struct kvm_vcpu_stat___exits stat;
};

/* arch/riscv/include/asm/kvm_host.h */
struct kvm_cpu_trap {
	unsigned long scause;
};

#pragma clang attribute pop

/* An exit, as its tracepoint tells it. */
struct told_exit {
	__u64 vcpu; /* 0 where the tracepoint does not name it */
	__u32 isa;
	__u32 reason;
};

#define SEC_EXIT "raw_tp/kvm_exit"
#define SEC_ENTRY "raw_tp/kvm_entry"
/* What kvm_entry's first argument is. */
#define ENTRY_NAMES_VCPU 1

#if defined(__TARGET_ARCH_x86)

static __always_inline __u32 read_reason(__u64 vcpu, __u32 isa)
{
	if (isa == EXIT_ISA_SVM && bpf_core_type_exists(struct vcpu_svm)) {
		struct vcpu_svm *svm = (void *)vcpu;

		if (CAN_PEEK) {
			struct vmcb *vmcb = (void *)peek64(&svm->vmcb);

			return peek32(&vmcb->control.exit_code);
		}
		return BPF_CORE_READ(svm, vmcb, control.exit_code);
	}
	if (isa == EXIT_ISA_VMX && bpf_core_type_exists(struct vcpu_vmx)) {
		struct vcpu_vmx___shared *shared = (void *)vcpu;
		struct vcpu_vmx *vmx = (void *)vcpu;

		if (bpf_core_field_exists(shared->vt.exit_reason.full))
			return CAN_PEEK ? peek32(&shared->vt.exit_reason.full)
					: BPF_CORE_READ(shared, vt.exit_reason.full);
		if (bpf_core_field_exists(vmx->exit_reason.full))
			return CAN_PEEK ? peek32(&vmx->exit_reason.full)
					: BPF_CORE_READ(vmx, exit_reason.full);
	}
	return EXIT_NO_REASON;
}

static __always_inline void told(__u64 *args, struct told_exit *exit)
{
	exit->vcpu = args[0];
	exit->isa = args[1];
	exit->reason = read_reason(exit->vcpu, exit->isa);
}

#define TOLD_BEFORE 1
static __always_inline void told_before(__u64 *args, struct told_exit *exit)
{
	exit->reason = args[0];
	exit->vcpu = args[1];
	exit->isa = args[2];
}

#elif defined(__TARGET_ARCH_arm64)
/* kvm_exit(ret, esr_ec, pc), kvm_entry(pc). What is no trap comes above the exception classes. */
#define ARM_EXCEPTION_TRAP 2
#define ARM_NO_TRAP 0x100
#undef ENTRY_NAMES_VCPU
#define ENTRY_NAMES_VCPU 0

static __always_inline void told(__u64 *args, struct told_exit *exit)
{
	__u32 code = (__u32)args[0] & 0x7fffffff;

	exit->isa = EXIT_ISA_ARM64;
	exit->reason = code == ARM_EXCEPTION_TRAP ? (__u32)args[1] : ARM_NO_TRAP + code;
}

#elif defined(__TARGET_ARCH_s390)
/* kvm_s390_sie_exit(vcpu, icptcode), kvm_s390_sie_enter(vcpu, cpuflags) */
#undef SEC_EXIT
#undef SEC_ENTRY
#define SEC_EXIT "raw_tp/kvm_s390_sie_exit"
#define SEC_ENTRY "raw_tp/kvm_s390_sie_enter"

static __always_inline void told(__u64 *args, struct told_exit *exit)
{
	exit->vcpu = args[0];
	exit->isa = EXIT_ISA_S390;
	exit->reason = (__u8)args[1];
}

#elif defined(__TARGET_ARCH_riscv)
/* kvm_exit(trap), kvm_entry(vcpu). Interrupts have the highest bit of scause. */
static __always_inline void told(__u64 *args, struct told_exit *exit)
{
	struct kvm_cpu_trap *trap = (void *)args[0];
	__u64 cause = BPF_CORE_READ(trap, scause);

	exit->isa = EXIT_ISA_RISCV;
	exit->reason = (cause & 0x7fffffff) | (cause >> 63 ? 1U << 31 : 0);
}

#elif defined(__TARGET_ARCH_loongarch)
/* kvm_exit(vcpu, reason), kvm_enter(vcpu) */
#undef SEC_ENTRY
#define SEC_ENTRY "raw_tp/kvm_enter"

static __always_inline void told(__u64 *args, struct told_exit *exit)
{
	exit->vcpu = args[0];
	exit->isa = EXIT_ISA_LOONGARCH;
	exit->reason = args[1];
}

#elif defined(__TARGET_ARCH_powerpc)
/* Book3S PR and Book E: kvm_exit(exit_nr, vcpu); they have no tracepoint for an entry. */
#undef SEC_ENTRY
#define SEC_ENTRY "raw_tp/kvm_guest_enter"

static __always_inline void told(__u64 *args, struct told_exit *exit)
{
	exit->vcpu = args[1];
	exit->isa = EXIT_ISA_POWERPC;
	exit->reason = args[0];
}

#else
#error "no layout of kvm_exit known for this architecture"
#endif

#ifndef TOLD_BEFORE
#define told_before told
#endif

#endif
