// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Exits, counted in the kernel: a cell for each vCPU thread and reason, with a histogram.
 *
 * In the thread of a vCPU: kvm_entry -> (guest) -> kvm_exit -> [kvm_msr, kvm_pio, ...: what it was
 * about] -> [kvm_userspace_exit -> (VMM) -> kvm_fpu(load)] -> kvm_entry. An exit is counted where it
 * is told and timed where the next entry of the same vCPU in the same thread is told. Whatever comes
 * between them, the count stands; a time that cannot be known is left out, never guessed.
 *
 * Loaded only when exits are asked for: a recording without them pays nothing.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "exits_intf.h"
#include "peek.bpf.h"
#include "hist.bpf.h"
#include "exits_state.bpf.h"
#include "exits_arch.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Types that Rust takes over. */
const volatile struct exit_cell exit_cell_type = {};
const volatile enum exit_kind exit_kind_type = 0;
const volatile enum exit_isa exit_isa_type = 0;
const volatile enum exit_lost exit_lost_type = 0;

/* Where a thread remembers a reason's cell; REMEMBERED for nowhere. */
static __always_inline __u32 place_of(__u32 reason)
{
	if (reason < NEAR_REASONS)
		return reason;
	if (reason - SVM_FAR < FAR_REASONS)
		return NEAR_REASONS + reason - SVM_FAR;
	return REMEMBERED;
}

static __always_inline __u32 cell_of_exit(struct exit_thread *thread, const struct told_exit *exit)
{
	__u32 place = place_of(exit->reason);
	__u32 cell;

	barrier_var(place);
	if (place < REMEMBERED && thread->reason_cells[place])
		return thread->reason_cells[place];
	if (place >= REMEMBERED)
		return find_cell(thread, EXIT_KIND_EXIT, exit->isa, exit->reason, 0);
	cell = first_cell(thread, EXIT_KIND_EXIT, exit->isa, exit->reason);
	thread->reason_cells[place] = cell;
	return cell;
}

static __always_inline int note_exit(const struct told_exit *exit)
{
	__u64 now = bpf_ktime_get_ns();
	struct exit_thread *thread = this_thread(exit->vcpu);
	__u32 cell;

	if (!thread)
		return 0;
	thread->entered = false;
	thread->subs = 0;
	thread->exit_cell = 0;
	thread->exit_reason = exit->reason;
	thread->exit_isa = exit->isa;
	cell = cell_of_exit(thread, exit);
	thread->exit_cell = cell;
	thread->exit_user_ns = 0;
	thread->exit_ns = now;
	count_in(cell);
	return 0;
}

SEC(SEC_EXIT)
int on_exit(__u64 *args)
{
	struct told_exit exit = {};

	told(args, &exit);
	return note_exit(&exit);
}

/* As older kernels of this architecture tell it. */
SEC(SEC_EXIT)
int on_exit_before(__u64 *args)
{
	struct told_exit exit = {};

	told_before(args, &exit);
	return note_exit(&exit);
}

/* The vCPU's own count of its exits: equal for as long as it has not run elsewhere. */
static __always_inline __u64 own_exits(__u64 vcpu)
{
	struct kvm_vcpu___exits *counted = (void *)vcpu;

	if (!vcpu || !bpf_core_field_exists(counted->stat.exits))
		return 0;
	return BPF_CORE_READ(counted, stat.exits);
}

/* KVM_RUN has begun again. Not static, so that the verifier reads it once. */
__noinline int end_user(struct exit_thread *thread, __u64 now)
{
	struct kvm_vcpu *vcpu;
	__u64 ns;

	if (!thread)
		return 0;
	vcpu = (void *)thread->vcpu;
	ns = now - thread->user_start_ns;
	add_time(thread->user_cell, ns, ns);
	thread->user_cell = 0;
	thread->exit_user_ns += ns;
	/* Another thread ran this vCPU meanwhile: that one had the entry. */
	if (own_exits(thread->vcpu) != thread->user_exits) {
		thread->exit_cell = 0;
		thread->exit_isa = EXIT_ISA_NONE;
		thread->entered = false;
	}
	/* The memory may have gone to a vCPU of another VM. */
	if (vcpu && thread->kvm != (__u64)BPF_CORE_READ(vcpu, kvm))
		thread->known = false;
	return 0;
}

/* The time of the exit being handled goes to what it was about, too. */
__noinline int end_subs(struct exit_thread *thread, __u64 ns)
{
	if (!thread)
		return 0;
	for (int sub = 0; sub < EXIT_SUB_KINDS; sub++)
		if (thread->subs & (1 << sub))
			add_time(thread->sub_cells[sub], ns, thread->exit_user_ns);
	thread->subs = 0;
	return 0;
}

/* The exit being handled is done: its time goes to its reason. */
static __always_inline void end_exit(struct exit_thread *thread, __u64 now)
{
	__u64 ns = now - thread->exit_ns;

	add_time_in(thread->exit_cell, ns, thread->exit_user_ns);
	thread->exit_cell = 0;
	if (thread->subs)
		end_subs(thread, ns);
}

/* A cell that a thread needs often, remembered at `place`. */
#define REMEMBERED_CELL(thread, place, kind)                                                       \
	((thread)->place ? (thread)->place                                                         \
			 : ((thread)->place = first_cell(thread, kind, EXIT_ISA_NONE, 0)))

SEC(SEC_ENTRY)
int on_entry(__u64 *args)
{
	__u64 vcpu = ENTRY_NAMES_VCPU ? args[0] : 0;
	struct exit_thread *thread;
	__u64 now;

	/* Before 5.10 it named the vCPU's number. */
	thread = this_thread(vcpu >> 32 ? vcpu : 0);
	if (!thread)
		return 0;
	if (thread->user_cell)
		end_user(thread, bpf_ktime_get_ns());
	now = bpf_ktime_get_ns();
	/* An entry that gives an exit its time is counted by that: see the reader in exits.rs. */
	if (thread->exit_cell <= CELL_OTHER)
		count_in(REMEMBERED_CELL(thread, entry_cell, EXIT_KIND_ENTRY));
	if (thread->exit_cell)
		end_exit(thread, now);
	else if (thread->entered)
		count_in(REMEMBERED_CELL(thread, lone_cell, EXIT_KIND_LONE_ENTRY));
	thread->entered = true;
	return 0;
}

/* trace_kvm_userspace_exit(reason, errno): kvm_vcpu_ioctl, after KVM_RUN */
SEC("raw_tp/kvm_userspace_exit")
int BPF_PROG(on_userspace_exit, __u32 reason, int errno)
{
	struct exit_thread *thread = this_thread(0);

	if (!thread)
		return 0;
	if (errno < 0)
		reason = EXIT_ERRNO | (__u32)-errno;
	thread->user_cell = find_cell(thread, EXIT_KIND_USERSPACE, EXIT_ISA_NONE, reason, 0);
	count_in(thread->user_cell);
	thread->user_exits = own_exits(thread->vcpu);
	thread->user_start_ns = bpf_ktime_get_ns();
	return 0;
}

/* trace_kvm_fpu(load): x86 loads the guest's FPU at the start of KVM_RUN (kvm_load_guest_fpu) */
SEC("raw_tp/kvm_fpu")
int BPF_PROG(on_fpu, int load)
{
	struct exit_thread *thread;

	if (!load)
		return 0;
	thread = this_thread(0);
	if (thread && thread->user_cell)
		end_user(thread, bpf_ktime_get_ns());
	return 0;
}

/* trace_kvm_inj_virq(vector, soft, reinjected) */
SEC("raw_tp/kvm_inj_virq")
int BPF_PROG(on_injection)
{
	struct exit_thread *thread = this_thread(0);

	if (thread)
		count_in(REMEMBERED_CELL(thread, injection_cell, EXIT_KIND_INJECTION));
	return 0;
}

/* trace_kvm_emulate_insn(vcpu, failed) */
SEC("raw_tp/kvm_emulate_insn")
int BPF_PROG(on_emulation, __u64 vcpu, __u8 failed)
{
	struct exit_thread *thread = this_thread(vcpu);

	if (!thread)
		return 0;
	if (failed)
		count_in(find_cell(thread, EXIT_KIND_EMULATION, EXIT_ISA_NONE, 1, 0));
	else
		count_in(REMEMBERED_CELL(thread, emulation_cell, EXIT_KIND_EMULATION));
	return 0;
}

/* Emulated memory: so many addresses of a thread are told apart, further ones by their page. Registers of
 * devices are few; a frame buffer would fill the table. */
#define MMIO_ADDRESSES 64

static __always_inline __u64 mmio_sub(struct exit_thread *thread, __u32 kind, __u32 isa, __u32 reason,
				      __u64 address)
{
	if (kind != EXIT_KIND_MMIO_READ && kind != EXIT_KIND_MMIO_WRITE)
		return address;
	if (has_cell(thread, kind, isa, reason, address))
		return address;
	if (thread->mmio_cells >= MMIO_ADDRESSES)
		return address & ~0xfffULL;
	thread->mmio_cells++;
	return address;
}

/* What the exit being handled is about. The first of a kind has the exit's time, but for a vector:
 * an interrupt comes on the way back, and is not what took the time. */
__noinline int count_sub(__u32 kind, __u64 sub)
{
	struct exit_thread *thread = this_thread(0);
	__u32 place = kind - EXIT_FIRST_SUB;
	__u32 isa, reason, cell;

	if (!thread)
		return 0;
	isa = thread->exit_cell ? thread->exit_isa : EXIT_ISA_NONE;
	reason = thread->exit_cell ? thread->exit_reason : EXIT_NO_REASON;
	sub = mmio_sub(thread, kind, isa, reason, sub);
	cell = find_cell(thread, kind, isa, reason, sub);
	if (!cell)
		return 0;
	count_in(cell);
	barrier_var(place);
	if (place < EXIT_SUB_KINDS && kind != EXIT_KIND_VECTOR && thread->exit_cell &&
	    !(thread->subs & (1 << place))) {
		thread->subs |= 1 << place;
		thread->sub_cells[place] = cell;
	}
	return 0;
}

/* trace_kvm_msr(write, ecx, data, exception) */
SEC("raw_tp/kvm_msr")
int BPF_PROG(on_msr, __u32 write, __u32 msr)
{
	count_sub(write ? EXIT_KIND_MSR_WRITE : EXIT_KIND_MSR_READ, msr);
	return 0;
}

/* trace_kvm_pio(rw, port, size, count, data): rw is 1 for out */
SEC("raw_tp/kvm_pio")
int BPF_PROG(on_pio, __u32 write, __u16 port)
{
	count_sub(write ? EXIT_KIND_PIO_WRITE : EXIT_KIND_PIO_READ, port);
	return 0;
}

/* include/trace/events/kvm.h */
#define KVM_TRACE_MMIO_READ 1
#define KVM_TRACE_MMIO_WRITE 2

/* trace_kvm_mmio(type, len, gpa, val). A read that goes to the VMM is told twice: as not satisfied
 * (type 0), and when its value is there. */
SEC("raw_tp/kvm_mmio")
int BPF_PROG(on_mmio, int type, int len, __u64 gpa)
{
	if (type == KVM_TRACE_MMIO_READ)
		count_sub(EXIT_KIND_MMIO_READ, gpa);
	else if (type == KVM_TRACE_MMIO_WRITE)
		count_sub(EXIT_KIND_MMIO_WRITE, gpa);
	return 0;
}

/* trace_kvm_page_fault(vcpu, fault_address, error_code) since 6.1 (faddc0d6ce67); before, without
 * the vCPU. Its page, since a guest's memory has many addresses. */
SEC("raw_tp/kvm_page_fault")
int on_page_fault(__u64 *args)
{
	/* A guest's physical address is below 2^52, the kernel's own addresses are not. */
	__u64 address = args[0] >> 52 ? args[1] : args[0];

	count_sub(EXIT_KIND_PAGE_FAULT, address & ~0xfffULL);
	return 0;
}

/* trace_kvm_hypercall(nr, a0, a1, a2, a3) */
SEC("raw_tp/kvm_hypercall")
int BPF_PROG(on_hypercall, __u64 number)
{
	count_sub(EXIT_KIND_HYPERCALL, number);
	return 0;
}

/* trace_kvm_inj_virq(vector, soft, reinjected) */
SEC("raw_tp/kvm_inj_virq")
int BPF_PROG(on_vector, __u32 vector)
{
	count_sub(EXIT_KIND_VECTOR, vector);
	return 0;
}

/* trace_kvm_cpuid(function, index, rax, rbx, rcx, rdx, found, used_max_basic) */
SEC("raw_tp/kvm_cpuid")
int BPF_PROG(on_cpuid, __u32 leaf)
{
	count_sub(EXIT_KIND_CPUID, leaf);
	return 0;
}
