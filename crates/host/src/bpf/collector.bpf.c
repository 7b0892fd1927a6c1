// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * The collector's BPF programs: one record for each halt, or one histogram entry.
 *
 * Order of the kernel's events within a halt (kvm_vcpu_halt in virt/kvm/kvm_main.c):
 * [sched_waking of the thread] -> [kvm_halt_poll_ns] -> kvm_vcpu_wakeup, the last two in the
 * vCPU's own thread. What comes before is kept per thread; kvm_vcpu_wakeup sends it all at once.
 *
 * Facts only: what they mean is said in Rust (haltwise_host::bpf). Raw tracepoints, since they
 * need no more of a kernel than the tracepoint itself; sched_waking alone is typed (wake.bpf.h).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "intf.h"
#include "peek.bpf.h"
#include "state.bpf.h"
#include "walk.bpf.h"
#include "wake.bpf.h"
#include "counts.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Types that Rust takes over. */
const volatile struct halt_record halt_record_type = {};
const volatile struct vcpu_record vcpu_record_type = {};
const volatile struct vcpu_counts vcpu_counts_type = {};
const volatile struct stats_record stats_record_type = {};
const volatile struct last_record last_record_type = {};
const volatile enum kvm_hist kvm_hist_type = 0;
const volatile enum halt_flag halt_flag_type = 0;
const volatile enum count_hist count_hist_type = 0;
const volatile enum lost_cause lost_cause_type = 0;
const volatile enum kernel_support kernel_support_type = 0;

static __always_inline struct vcpu_thread *this_thread(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct vcpu_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct vcpu_thread *known;
	__u32 tid = task->pid;
	__u32 zero = 0;

	if (thread && thread->turn == turn)
		return thread;
	if (!is_wanted(task->tgid))
		return NULL;
	if (!thread)
		thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		count_lost(LOST_THREADS_FULL);
		return NULL;
	}
	/* The state of an earlier recording holds no more: the time between was not recorded. */
	known = bpf_map_lookup_elem(&walked, &tid);
	if (!known || known->turn != turn)
		known = bpf_map_lookup_elem(&no_thread, &zero);
	if (known)
		*thread = *known;
	thread->turn = turn;
	return thread;
}

/* trace_kvm_halt_poll_ns(grow, vcpu_id, new, old): grow_halt_poll_ns, shrink_halt_poll_ns */
SEC("raw_tp/kvm_halt_poll_ns")
int BPF_PROG(on_halt_poll_ns, bool grow, __u32 vcpu_id, __u32 new_ns, __u32 old_ns)
{
	struct vcpu_thread *thread = this_thread();

	if (!thread)
		return 0;
	thread->change = grow ? HALT_GREW : HALT_SHRANK;
	thread->change_ns = bpf_ktime_get_ns();
	thread->change_old_ns = old_ns;
	thread->change_new_ns = new_ns;
	thread->change_vcpu_id = vcpu_id;
	return 0;
}

/* The VM's own ceiling, as the two fields lie in struct kvm. */
struct vm_ceiling {
	bool overrides;
	__u32 max_ns;
};

/* In one read where they lie side by side, which they do since 6.1. */
static __always_inline void read_vm_ceiling(struct kvm *kvm, struct vm_ceiling *own)
{
	__u64 at = bpf_core_field_offset(kvm->override_halt_poll_ns);

	if (CAN_PEEK) {
		own->overrides = peek8((void *)kvm + at);
		own->max_ns = peek32(&kvm->max_halt_poll_ns);
		return;
	}
	if (bpf_core_field_offset(kvm->max_halt_poll_ns) == at + 4) {
		bpf_probe_read_kernel(own, sizeof(*own), (void *)kvm + at);
		return;
	}
	own->overrides = BPF_CORE_READ(kvm, override_halt_poll_ns);
	own->max_ns = BPF_CORE_READ(kvm, max_halt_poll_ns);
}

/*
 * The functions below that take a halt are not static: the verifier then reads each once by itself,
 * and not once for every way that leads to it.
 */

/* The ceiling in force: kvm_vcpu_max_halt_poll_ns in virt/kvm/kvm_main.c. */
__noinline int read_ceiling(struct vcpu_thread *thread, struct halt_record *halt)
{
	struct kvm *kvm;

	if (!thread || !halt)
		return 0;
	kvm = (void *)thread->kvm;
	if (bpf_core_field_exists(kvm->override_halt_poll_ns)) {
		struct vm_ceiling own = {};

		read_vm_ceiling(kvm, &own);
		if (own.overrides) {
			halt->ceiling_ns = own.max_ns;
			halt->flags |= HALT_CEILING_KNOWN | HALT_CEILING_CAP;
			return 0;
		}
	} else if (bpf_core_field_exists(kvm->max_halt_poll_ns)) {
		halt->ceiling_ns = BPF_CORE_READ(kvm, max_halt_poll_ns);
		halt->flags |= HALT_CEILING_KNOWN | HALT_CEILING_SNAPSHOT;
		return 0;
	}
	if (param_known) {
		halt->ceiling_ns = param_halt_poll_ns;
		halt->flags |= HALT_CEILING_KNOWN;
	}
	return 0;
}

/* Time polled, from the growth of KVM's own counters (update_halt_poll_stats). */
__noinline int read_poll(struct vcpu_thread *thread, struct halt_record *halt)
{
	struct poll_stats now = {};

	if (!thread || !halt)
		return 0;
	if (!read_poll_stats((void *)thread->vcpu, &now))
		return 0;
	if (thread->stats_known || !now.attempted) {
		halt->poll_ns = now.success_ns - thread->polls.success_ns +
				now.fail_ns - thread->polls.fail_ns;
		halt->flags |= HALT_POLL_KNOWN;
		if (now.attempted != thread->polls.attempted)
			halt->flags |= HALT_POLLED;
	}
	thread->polls = now;
	thread->stats_known = true;
	return 0;
}

/* What is read of struct kvm_vcpu at every halt. */
struct vcpu_head {
	__u64 kvm;
	__u64 pid;
	__u32 window_ns;
};

/* In one read where the three lie near the start, which they do since 4.3. */
static __always_inline void read_head(struct kvm_vcpu *vcpu, struct vcpu_thread *room,
				      struct vcpu_head *head)
{
	__u64 at_kvm = bpf_core_field_offset(vcpu->kvm);
	__u64 at_pid = bpf_core_field_offset(vcpu->pid);
	__u64 at_window = bpf_core_field_offset(vcpu->halt_poll_ns);

	if (CAN_PEEK) {
		head->kvm = peek64(&vcpu->kvm);
		head->pid = peek64(&vcpu->pid);
		head->window_ns = peek32(&vcpu->halt_poll_ns);
		return;
	}
	if (at_kvm <= HEAD_BYTES - 8 && at_pid <= HEAD_BYTES - 8 &&
	    at_window <= HEAD_BYTES - 4 &&
	    !bpf_probe_read_kernel(room->head, HEAD_BYTES, vcpu)) {
		head->kvm = *(__u64 *)(room->head + at_kvm);
		head->pid = *(__u64 *)(room->head + at_pid);
		head->window_ns = *(__u32 *)(room->head + at_window);
		return;
	}
	head->kvm = (__u64)BPF_CORE_READ(vcpu, kvm);
	head->pid = (__u64)BPF_CORE_READ(vcpu, pid);
	head->window_ns = BPF_CORE_READ(vcpu, halt_poll_ns);
}

__noinline int read_vcpu(struct vcpu_thread *thread, struct halt_record *halt)
{
	struct vcpu_head head = {};
	struct kvm_vcpu *vcpu;

	if (!thread || !halt)
		return 0;
	vcpu = (void *)thread->vcpu;

	if (!vcpu && !thread->looked) {
		thread->looked = true;
		vcpu = (void *)own_vcpu(halt->tid);
		if (vcpu)
			learn_vcpu(thread, vcpu);
	}
	if (!vcpu)
		return 0;
	read_head(vcpu, thread, &head);
	/* The memory may have gone to another vCPU, or the vCPU to another thread. */
	if (!head.pid || head.pid != thread->pid || head.kvm != thread->kvm) {
		thread->vcpu = 0;
		thread->kvm = 0;
		thread->stats_known = false;
		thread->window_known = false;
		thread->looked = false;
		return 0;
	}
	halt->vcpu = thread->vcpu;
	halt->kvm = thread->kvm;
	halt->vcpu_id = thread->vcpu_id;
	halt->flags |= HALT_VCPU_KNOWN | HALT_NEXT_KNOWN;
	halt->window_next_ns = head.window_ns;
	/* Counts want the ceiling only to tell cut polls, and those waited. */
	if (!counts_mode || halt->flags & HALT_WAITED)
		read_ceiling(thread, halt);
	read_poll(thread, halt);
	/* A timer that woke it says enough: see wake.rs. */
	if (!(halt->flags & (HALT_WAKER_HRTIMER | HALT_WAKER_PIT)))
		halt->flags |= read_pending(thread, halt);
	return 0;
}

/*
 * The window at entry. A halt without a call leaves it as it was, or sets it to 0 under a ceiling of 0;
 * in that case it is what the last halt left, clamped as KVM does on the way in.
 */
static __always_inline void read_window(struct vcpu_thread *thread, struct halt_record *halt,
					bool call_is_known)
{
	if (!call_is_known) {
		/* nor is the window */
	} else if (thread->change) {
		halt->flags |= thread->change | HALT_WINDOW_KNOWN;
		halt->change_old_ns = thread->change_old_ns;
		halt->change_new_ns = thread->change_new_ns;
		halt->vcpu_id = thread->change_vcpu_id;
		halt->window_ns = thread->change_old_ns;
		if (!(halt->flags & HALT_NEXT_KNOWN)) {
			halt->window_next_ns = thread->change_new_ns;
			halt->flags |= HALT_NEXT_KNOWN;
		}
		thread->change = 0;
	} else if (halt->flags & HALT_NEXT_KNOWN && halt->window_next_ns) {
		halt->flags |= HALT_WINDOW_KNOWN;
		halt->window_ns = halt->window_next_ns;
	} else if (thread->window_known) {
		halt->flags |= HALT_WINDOW_KNOWN;
		halt->window_ns = thread->window_ns;
		if (halt->flags & HALT_CEILING_KNOWN && halt->window_ns > halt->ceiling_ns)
			halt->window_ns = halt->ceiling_ns;
	}
	thread->window_known = halt->flags & HALT_NEXT_KNOWN;
	thread->window_ns = halt->window_next_ns;
}

/*
 * A thread's first halt. A call since this program is there is its own, whatever time lies between the
 * two. One from before is that of an earlier halt if it is from longer ago than this one lasted; or the
 * thread lost its CPU since: who knows.
 */
static __always_inline bool first_call_is_known(struct vcpu_thread *thread, __u64 ns)
{
	if (!thread->change || bpf_ktime_get_ns() - thread->change_ns <= ns)
		return true;
	if (wakeups_since_ns && thread->change_ns > wakeups_since_ns)
		return true;
	thread->change = 0;
	return false;
}

/* trace_kvm_vcpu_wakeup(ns, waited, valid): kvm_vcpu_halt; kvm_vcpu_block before 5.17. With the patch of
 * contrib/kernel also latency_ns, from KVM's own clock; 0 where KVM does not know it. */
SEC("raw_tp/kvm_vcpu_wakeup")
int BPF_PROG(on_vcpu_wakeup, __u64 ns, bool waited, bool valid)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct halt_record halt = {
		.halt_ns = ns,
		.tid = id,
		.tgid = id >> 32,
		.cpu = bpf_get_smp_processor_id(),
	};
	struct vcpu_thread *thread = this_thread();
	bool known, first;

	if (!thread)
		return 0;
	first = !thread->has_halted;
	thread->has_halted = true;
	known = !first || first_call_is_known(thread, ns);
	if (waited)
		halt.flags |= HALT_WAITED;
	if (valid)
		halt.flags |= HALT_VALID;
	if (thread->change)
		halt.end_ns = thread->change_ns; /* nearer to KVM's own last look at the clock */
	else if (!counts_mode || waited)
		halt.end_ns = bpf_ktime_get_ns();
	if (waited && thread->waking_ns > halt.end_ns - ns && thread->waking_ns <= halt.end_ns) {
		halt.flags |= thread->waker_flags;
		halt.waker_cpu = thread->waker_cpu;
		halt.waking_ns = thread->waking_ns;
	}
	if (tells_latency && waited) {
		halt.flags |= HALT_LATENCY_TOLD;
		/* A load that the compiler moved out of the branch would be refused by other kernels. */
		halt.waking_ns = halt.end_ns - ((volatile __u64 *)ctx)[3];
	}
	read_vcpu(thread, &halt);
	read_window(thread, &halt, known);

	if (counts_mode)
		count_halt(thread, &halt);
	else if (bpf_ringbuf_output(&halts, &halt, sizeof(halt), wakeup_if(first)))
		count_lost(LOST_RING_FULL);
	return 0;
}
