/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * What the BPF programs that count exits and the Rust that reads the counts say to each other.
 * Rust takes sizes, offsets and numbers from the types generated out of it.
 */
#ifndef HALTWISE_EXITS_INTF_H
#define HALTWISE_EXITS_INTF_H

/* Buckets as haltwise_core::hist::bucket_of makes them: eight to a power of two, up to 2^35 ns. */
#define HIST_SUB_BITS 3
#define HIST_BUCKETS 264

/* What a cell counts: haltwise_core::exit::Kind, by its code. */
enum exit_kind {
	EXIT_KIND_EXIT, /* kvm_exit, by ISA and reason */
	EXIT_KIND_ENTRY, /* kvm_entry, but for those that gave an exit its time */
	EXIT_KIND_LONE_ENTRY, /* ... after another, with no kvm_exit between them */
	EXIT_KIND_USERSPACE, /* kvm_userspace_exit, by KVM_EXIT_* or by errno */
	EXIT_KIND_INJECTION, /* kvm_inj_virq */
	EXIT_KIND_EMULATION, /* kvm_emulate_insn; reason 1: it failed */
	EXIT_KIND_OTHER, /* exits for which there was no cell left */
	/* Sub-keys: what an exit was about. */
	EXIT_KIND_MSR_READ,
	EXIT_KIND_MSR_WRITE,
	EXIT_KIND_PIO_READ,
	EXIT_KIND_PIO_WRITE,
	EXIT_KIND_MMIO_READ,
	EXIT_KIND_MMIO_WRITE,
	EXIT_KIND_PAGE_FAULT,
	EXIT_KIND_HYPERCALL,
	EXIT_KIND_VECTOR,
	EXIT_KIND_CPUID,
	EXIT_KINDS,
};

#define EXIT_FIRST_SUB EXIT_KIND_MSR_READ
#define EXIT_SUB_KINDS (EXIT_KINDS - EXIT_FIRST_SUB)

/* Instruction sets: haltwise_core::exit::Isa, by its code. The first two are KVM's own numbers
 * (KVM_ISA_VMX, KVM_ISA_SVM in arch/x86/kvm/trace.h). */
enum exit_isa {
	EXIT_ISA_NONE,
	EXIT_ISA_VMX,
	EXIT_ISA_SVM,
	EXIT_ISA_ARM64,
	EXIT_ISA_S390,
	EXIT_ISA_RISCV,
	EXIT_ISA_LOONGARCH,
	EXIT_ISA_POWERPC,
};

/* A reason that is none: a sub-key seen outside of any exit. */
#define EXIT_NO_REASON 0xffffffffU
/* In the reason of a userspace exit: not KVM_EXIT_*, but an errno. */
#define EXIT_ERRNO (1U << 31)

/* Who and what. */
struct exit_key {
	__u64 kvm; /* addresses of struct kvm and kvm_vcpu, as identity only; 0 if not known */
	__u64 vcpu;
	__u64 sub;
	__u32 tid;
	__u32 reason;
	__u32 kind; /* enum exit_kind */
	__u32 isa; /* enum exit_isa */
};

/* Cells of the table: 0 is none, this one takes what finds no room, the others are given out in
 * order. */
#define CELL_OTHER 1

/* One count, since the first of its kind. Written by its own thread alone, but for the cell of
 * EXIT_KIND_OTHER. */
struct exit_cell {
	/* What an exit changes lies together. */
	__u64 count;
	__u64 sum_ns; /* of the times in hist */
	__u64 user_ns; /* of sum_ns, in user space */
	__u64 max_ns;
	struct exit_key key;
	__u32 tgid;
	__u32 vcpu_id;
	__u32 hist[HIST_BUCKETS];
};

/* What was not counted, by cause. */
enum exit_lost {
	EXIT_LOST_THREADS, /* no room to remember a thread */
	EXIT_LOST_SUBS, /* what an exit was about: no cell for it */
	EXIT_LOST_CAUSES,
};

#endif
