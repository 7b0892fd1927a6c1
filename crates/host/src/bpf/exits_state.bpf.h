/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * Maps and settings of the programs that count exits, and how a cell is found.
 */
#ifndef HALTWISE_EXITS_STATE_BPF_H
#define HALTWISE_EXITS_STATE_BPF_H

#include "exits_thread.bpf.h"

/* Settings, fixed when the programs are loaded. */
const volatile bool filter_by_process = false; /* only processes in `wanted` */

/* How many cells there are, which the recorder sets, and the last that was given out. */
__u32 cells_max = 0;
__u32 cells_last = 0;
/* Beyond this sub-keys have none: those of one guest must not take the room of all guests' exits. */
__u32 cells_max_subs = 0;
/* Threads that have begun to run a vCPU, for a recorder that wants to know whose they are. */
__u32 threads_begun = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exit_cell);
} cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct exit_key);
	__type(value, __u32);
} cell_of SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} wanted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, EXIT_LOST_CAUSES);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void count_lost(__u32 cause)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &cause);

	if (count)
		(*count)++;
}

static __always_inline struct exit_key key_of(const struct exit_thread *thread, __u32 kind,
					      __u32 isa, __u32 reason, __u64 sub)
{
	struct exit_key key = {};

	key.kvm = thread->kvm;
	key.vcpu = thread->vcpu;
	key.tid = thread->tid;
	key.kind = kind;
	key.isa = isa;
	key.reason = reason;
	key.sub = sub;
	return key;
}

/* Whether a key has a cell already. */
__noinline int has_cell(struct exit_thread *thread, __u32 kind, __u32 isa, __u32 reason, __u64 sub)
{
	struct exit_key key;

	if (!thread)
		return 0;
	key = key_of(thread, kind, isa, reason, sub);
	return bpf_map_lookup_elem(&cell_of, &key) != 0;
}

/* A new cell; 0 for a sub-key without room. */
static __always_inline __u32 make_cell(const struct exit_thread *thread, const struct exit_key *key)
{
	struct exit_cell *cell;
	__u32 slot;

	if (key->kind >= EXIT_FIRST_SUB && cells_last + CELL_OTHER >= cells_max_subs) {
		count_lost(EXIT_LOST_SUBS);
		return 0;
	}
	if (cells_last + CELL_OTHER >= cells_max)
		return CELL_OTHER;
	slot = __sync_add_and_fetch(&cells_last, 1) + CELL_OTHER;
	if (slot >= cells_max)
		return CELL_OTHER;
	cell = bpf_map_lookup_elem(&cells, &slot);
	if (!cell)
		return CELL_OTHER;
	cell->tgid = thread->tgid;
	cell->vcpu_id = thread->vcpu_id;
	cell->key = *key;
	return slot;
}

/* The cell of a key, made if need be; 0 for a sub-key without room. Not static, so that the verifier
 * reads it once. */
__noinline __u32 find_cell(struct exit_thread *thread, __u32 kind, __u32 isa, __u32 reason,
			   __u64 sub)
{
	struct exit_key key;
	__u32 *found;
	__u32 slot;

	if (!thread)
		return 0;
	key = key_of(thread, kind, isa, reason, sub);
	found = bpf_map_lookup_elem(&cell_of, &key);
	if (found)
		return *found;
	slot = make_cell(thread, &key);
	if (slot <= CELL_OTHER)
		return slot;
	if (bpf_map_update_elem(&cell_of, &key, &slot, BPF_ANY))
		return CELL_OTHER;
	return slot;
}

/* A thread that takes up vCPU after vCPU more often than this looks its cells up. */
#define FEW_VCPUS 4

/* A cell that the thread will remember. No other thread looks for it, so that there is nothing to look up and
 * nothing to enter: half of what a vCPU's first exits cost. The reader adds up cells of one key. */
__noinline __u32 first_cell(struct exit_thread *thread, __u32 kind, __u32 isa, __u32 reason)
{
	struct exit_key key;

	if (!thread)
		return 0;
	if (thread->vcpus > FEW_VCPUS)
		return find_cell(thread, kind, isa, reason, 0);
	key = key_of(thread, kind, isa, reason, 0);
	return make_cell(thread, &key);
}

/* A thread has begun to run this vCPU (0: it is not known yet). */
__noinline int adopt_vcpu(struct exit_thread *thread, __u64 address)
{
	struct kvm_vcpu *vcpu = (void *)address;
	__u64 id = bpf_get_current_pid_tgid();
	__u32 vcpus;

	if (!thread)
		return 0;
	vcpus = thread->vcpus;
	if (!thread->known)
		__sync_fetch_and_add(&threads_begun, 1);
	__builtin_memset(thread, 0, sizeof(*thread));
	thread->known = true;
	thread->vcpus = vcpus + 1;
	thread->vcpu = address;
	thread->tid = id;
	thread->tgid = id >> 32;
	if (address) {
		thread->kvm = (__u64)BPF_CORE_READ(vcpu, kvm);
		thread->vcpu_id = BPF_CORE_READ(vcpu, vcpu_id);
	}
	return 0;
}

/* The state of the current thread; NULL if its process is not wanted. `vcpu` may be 0. */
static __always_inline struct exit_thread *this_thread(__u64 vcpu)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct exit_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (!thread) {
		__u32 tgid = task->tgid;

		if (filter_by_process && !bpf_map_lookup_elem(&wanted, &tgid))
			return NULL;
		thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!thread) {
			count_lost(EXIT_LOST_THREADS);
			return NULL;
		}
	}
	if (!thread->known || (vcpu && thread->vcpu != vcpu))
		adopt_vcpu(thread, vcpu);
	return thread;
}

static __always_inline struct exit_cell *cell_at(__u32 slot)
{
	return bpf_map_lookup_elem(&cells, &slot);
}

/* One more. */
static __always_inline void count_in(__u32 slot)
{
	struct exit_cell *cell = cell_at(slot);

	if (!cell)
		return;
	if (slot == CELL_OTHER)
		__sync_fetch_and_add(&cell->count, 1);
	else
		cell->count++;
}

/* A time of one that was counted. */
static __always_inline void add_time_in(__u32 slot, __u64 ns, __u64 user_ns)
{
	struct exit_cell *cell = cell_at(slot);
	__u32 bucket;

	if (!cell || slot <= CELL_OTHER)
		return;
	cell->sum_ns += ns;
	cell->user_ns += user_ns;
	if (ns > cell->max_ns)
		cell->max_ns = ns;
	bucket = hist_bucket(ns);
	/* The verifier must see the check on the very register that is used. */
	barrier_var(bucket);
	if (bucket < HIST_BUCKETS)
		cell->hist[bucket]++;
}

/* The same, where it is not done for every exit. Not static, so that the verifier reads it once. */
__noinline int add_time(__u32 slot, __u64 ns, __u64 user_ns)
{
	add_time_in(slot, ns, user_ns);
	return 0;
}

#endif
