/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * What the BPF program that keeps samples and the Rust that reads them say to each other.
 * Rust takes sizes and numbers from the types generated out of it.
 */
#ifndef HALTWISE_SAMPLE_INTF_H
#define HALTWISE_SAMPLE_INTF_H

/* Where a vCPU's thread is between guest and host: haltwise_core::profile::Phase, by its code. */
enum sample_phase {
	SAMPLE_PHASE_UNKNOWN, /* exits are not counted, or none was seen of this thread */
	SAMPLE_PHASE_ENTERED, /* kvm_entry came last: in the guest, or on the way in or out */
	SAMPLE_PHASE_EXIT, /* an exit is being handled, in the kernel or in the VMM */
};

/* Goes into the ring with each sample, behind what perf itself tells of it. */
struct sample_tag {
	__u64 period; /* what the sample stands for: ns of the CPU clock, or so many events */
	__u32 reason; /* of the exit being handled */
	__u8 event; /* which of the sampled events, by its place */
	__u8 isa; /* enum exit_isa */
	__u8 phase; /* enum sample_phase */
	__u8 unused;
};

/* What is counted, per CPU. */
enum sample_count {
	SAMPLE_COUNT_FIRED, /* times that an event fired, whoever ran */
	SAMPLE_COUNT_KEPT, /* samples that went into a ring */
	SAMPLE_COUNT_LOST, /* samples that found no room in their ring */
	SAMPLE_COUNTS,
};

#endif
