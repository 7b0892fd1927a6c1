/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * Counts mode: a halt folded into its thread's histograms, in the kernel.
 */
#ifndef HALTWISE_COUNTS_BPF_H
#define HALTWISE_COUNTS_BPF_H

#include "hist.bpf.h"

/* A function of its own, so that the verifier reads it once. */
__noinline __u64 bucket_of(__u64 value)
{
	return hist_bucket(value);
}

static __always_inline void add_to(struct vcpu_counts *counted, enum count_hist hist, __u64 value)
{
	__u64 bucket = bucket_of(value);

	/* The verifier must see the check on the very register that is used. */
	barrier_var(bucket);
	if (bucket < HIST_BUCKETS) {
		counted->hist[hist][bucket]++;
		counted->sum_ns[hist] += value;
	}
}

static __always_inline struct vcpu_counts *counts_of(struct vcpu_thread *thread,
						      const struct halt_record *halt)
{
	struct vcpu_counts *counted;
	__u32 slot = thread->counts_slot - 1;

	if (thread->counts_slot)
		return bpf_map_lookup_elem(&counts, &slot);
	slot = __sync_fetch_and_add(&counts_used, 1);
	if (slot >= counts_slots)
		return NULL;
	counted = bpf_map_lookup_elem(&counts, &slot);
	if (!counted)
		return NULL;
	thread->counts_slot = slot + 1;
	counted->tid = halt->tid;
	counted->tgid = halt->tgid;
	/* A thread's first halt is told, so that it can be placed while its VM lives. */
	bpf_ringbuf_output(&halts, (void *)halt, sizeof(*halt), wakeup_if(true));
	return counted;
}

static __always_inline void count_halt(struct vcpu_thread *thread, const struct halt_record *halt)
{
	struct vcpu_counts *counted = counts_of(thread, halt);
	bool waited = halt->flags & HALT_WAITED;

	if (!counted) {
		count_lost(LOST_COUNTS_FULL);
		return;
	}
	counted->halts++;
	counted->wakes[(halt->flags >> WAKE_SHIFT) & (WAKE_FACTS - 1)]++;
	/* What most halts of a guest in a window are: one entry for three histograms. */
	if (!waited && halt->flags & HALT_POLLED && halt->poll_ns == halt->halt_ns) {
		counted->whole_polls++;
		add_to(counted, COUNT_WHOLE_POLL, halt->halt_ns);
		return;
	}
	add_to(counted, COUNT_HALT, halt->halt_ns);
	if (waited)
		counted->waited++;
	if (halt->flags & HALT_POLL_KNOWN) {
		__u64 polled_ns = halt->flags & HALT_POLLED ? halt->poll_ns : 0;

		counted->poll_known++;
		if (!waited && halt->halt_ns > polled_ns)
			counted->turned_back_ns += halt->halt_ns - polled_ns;
		if (halt->flags & HALT_POLLED) {
			counted->polled++;
			if (!waited)
				counted->successful_polls++;
			else if ((halt->flags & HALT_WINDOW_KNOWN) && halt->poll_ns < halt->window_ns)
				counted->poll_cuts++;
			add_to(counted, waited ? COUNT_POLL_FAIL : COUNT_POLL_SUCCESS, halt->poll_ns);
		}
	}
	if (!waited) {
		add_to(counted, COUNT_GAP, halt->halt_ns);
	} else if (halt->flags & HALT_LATENCY_TOLD ? halt->waking_ns < halt->end_ns :
						      halt->flags & HALT_WOKEN) {
		__u64 latency = halt->end_ns - halt->waking_ns;

		add_to(counted, COUNT_WAKE_LATENCY, latency);
		add_to(counted, COUNT_GAP, halt->halt_ns > latency ? halt->halt_ns - latency : 0);
	}
}

#endif
