/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * The collector's maps and settings: what it knows of each vCPU thread between two events.
 */
#ifndef HALTWISE_STATE_BPF_H
#define HALTWISE_STATE_BPF_H

/* Settings, fixed when the programs are loaded. */
const volatile bool counts_mode = false; /* histograms in place of records */
const volatile bool stats_mode = false; /* walks take KVM's own statistics along */
const volatile bool filter_by_process = false; /* only processes in `wanted` */
const volatile bool tells_latency = false; /* kvm_vcpu_wakeup has a fourth argument */

/* Settings that the recorder keeps up to date. */
__u32 param_halt_poll_ns = 0; /* as last read from the module's parameter */
bool param_known = false;

/* Since when every kvm_vcpu_wakeup is seen; 0 while it is not known. */
__u64 wakeups_since_ns = 0;

/* Which recording this is, of several with the same programs: what is known of a thread is of one. */
__u32 turn = 0;

/* What the running kernel offers, as the walk finds out: enum kernel_support. */
__u32 support = 0;

#define MAX_VCPUS 16384

/* KVM's own polling counters. */
struct poll_stats {
	__u64 attempted;
	__u64 success_ns;
	__u64 fail_ns;
};

/* Copies of kernel memory that are too large for the stack. */
#define HEAD_BYTES 256
#define IRR_WORDS 76 /* from the first word of the IRR past the LVT timer's */

/* A thread that runs a vCPU. Written by that thread, but for the waking part.
 *
 * All that a halt needs is here, in as few pages as can be: after a guest has run, what costs is not
 * the instructions but the first touch of each page. */
struct vcpu_thread {
	__u64 vcpu; /* struct kvm_vcpu, 0 while not known */
	__u64 kvm;
	__u64 pid; /* its struct pid: equal for as long as the vCPU is this thread's */
	__u64 apic; /* its struct kvm_lapic, 0 if there is none */
	__u64 apic_regs; /* and that one's register page */
	__u32 vcpu_id;
	__u32 turn; /* the recording that all this is of */
	/* as after the last halt */
	struct poll_stats polls;
	__u32 window_ns;
	bool window_known;
	bool stats_known;
	bool looked; /* for its vCPU, among its own files */
	bool has_halted; /* since kvm_vcpu_wakeup's program is there */
	/* of the halt under way: kvm_halt_poll_ns */
	__u32 change; /* 0, HALT_GREW or HALT_SHRANK */
	__u64 change_ns;
	__u32 change_old_ns;
	__u32 change_new_ns;
	__u32 change_vcpu_id;
	/* of the last sched_waking of this thread */
	__u64 waking_ns;
	__u32 waker_flags;
	__u32 waker_cpu;
	/* counts mode: its slot plus one, 0 while it has none */
	__u32 counts_slot;
	/* the interrupt last found pending, and what that vector was known to carry then */
	__u32 last_vector;
	__u32 last_flags;
	__u32 last_learned;
	__u64 ipi[4]; /* vectors that this thread sent as IPIs: a bit each */
	/* room for copies */
	__u8 head[HEAD_BYTES]; /* of struct kvm_vcpu */
	__u32 irr[IRR_WORDS];
};

/* With the task itself: found without hashing, gone with the task. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct vcpu_thread);
} threads SEC(".maps");

/* What the walk knows of threads that have not halted since. By thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_VCPUS);
	__type(key, __u32);
	__type(value, struct vcpu_thread);
} walked SEC(".maps");

/* New entries are copied from this one: it is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vcpu_thread);
} no_thread SEC(".maps");

/* Processes to look at, when filter_by_process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} wanted SEC(".maps");

/* Grows whenever a vector is first seen to carry an IPI. */
__u32 vectors_learned = 0;

/* Which vectors the vCPUs of a process were seen to send as IPIs: a bit each. */
struct vectors {
	__u64 ipi[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct vectors);
} vectors_by_process SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} halts SEC(".maps");

/* The recorder looks at the ring by itself, several times a second; what cannot wait for that wakes it. */
static __always_inline __u64 wakeup_if(bool urgent)
{
	return urgent ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* Counts mode: a slot for each thread, in the order of their first halts. The recorder sets how
 * many there are. */
__u32 counts_slots = 0;
__u32 counts_used = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vcpu_counts);
} counts SEC(".maps");

/* What never reached the recorder, by cause; per CPU, so that counting costs nothing. */
enum lost_cause {
	LOST_RING_FULL,
	LOST_THREADS_FULL,
	LOST_COUNTS_FULL,
	LOST_CAUSES,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOST_CAUSES);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void count_lost(__u32 cause)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &cause);

	if (count)
		(*count)++;
}

static __always_inline bool is_wanted(__u32 tgid)
{
	return !filter_by_process || bpf_map_lookup_elem(&wanted, &tgid);
}

#endif
