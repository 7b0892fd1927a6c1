// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Samples of VMMs, kept in the kernel: perf events fire on every CPU, and only what hits a process
 * that runs a VM goes into a ring.
 *
 * The record is perf's own: bpf_perf_event_output writes it as a sample of an event that has
 * PERF_SAMPLE_CALLCHAIN, so that perf walks the stacks and says whether the guest was hit. What perf
 * cannot know goes with it: which exit this vCPU's thread is handling. That is read from what the
 * programs that count exits know of the thread, if they are loaded: `threads` is their map then.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "exits_intf.h"
#include "exits_thread.bpf.h"
#include "sample_intf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Types that Rust takes over. */
const volatile struct sample_tag sample_tag_type = {};
const volatile enum sample_phase sample_phase_type = 0;
const volatile enum sample_count sample_count_type = 0;

/* Settings, fixed when the program is loaded. */
const volatile bool exits_known = false; /* `threads` is that of the programs that count exits */

/* Processes that are wanted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} sampled SEC(".maps");

/* Where samples go, by CPU. Sized to the host's CPUs when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SAMPLE_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 what)
{
	__u64 *counted = bpf_map_lookup_elem(&counts, &what);

	if (counted)
		(*counted)++;
}

static __always_inline void tell_exit(struct sample_tag *tag)
{
	struct exit_thread *thread;

	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (!thread || !thread->known)
		return;
	if (thread->entered) {
		tag->phase = SAMPLE_PHASE_ENTERED;
		return;
	}
	if (thread->exit_isa == EXIT_ISA_NONE)
		return;
	tag->phase = SAMPLE_PHASE_EXIT;
	tag->isa = thread->exit_isa;
	tag->reason = thread->exit_reason;
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct sample_tag tag = {};

	count(SAMPLE_COUNT_FIRED);
	if (!bpf_map_lookup_elem(&sampled, &tgid))
		return 0;
	tag.period = ctx->sample_period;
	tag.event = bpf_get_attach_cookie(ctx);
	if (exits_known)
		tell_exit(&tag);
	if (bpf_perf_event_output(ctx, &rings, BPF_F_CURRENT_CPU, &tag, sizeof(tag)))
		count(SAMPLE_COUNT_LOST);
	else
		count(SAMPLE_COUNT_KEPT);
	/* The event's own record is not wanted. */
	return 0;
}
