/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * What the BPF programs that watch this machine's own idle CPUs and the Rust collector say to each other:
 * the only such header. Rust takes sizes, offsets and flags from the types generated out of it.
 */
#ifndef HALTWISE_IDLE_INTF_H
#define HALTWISE_IDLE_INTF_H

/* Facts about one idle period, each a bit of idle_record.flags. */
enum idle_flag {
	IDLE_POLLED = 1 << 0, /* the polling state was entered */
	IDLE_HALTED = 1 << 1, /* another state was entered, after it or at once */
	IDLE_LIMIT_KNOWN = 1 << 2, /* limit_ns and limit_next_ns are filled */
	IDLE_RESIDENCY_KNOWN = 1 << 3, /* poll_ns and halt_ns are cpuidle's own last_residency_ns */
	IDLE_GREW = 1 << 4, /* guest_halt_poll_ns fired: grow */
	IDLE_SHRANK = 1 << 5, /* guest_halt_poll_ns fired: shrink */
	/* What ended it. */
	IDLE_WAKE_TIMER = 1 << 8, /* the local APIC's timer interrupt */
	IDLE_WAKE_IPI = 1 << 9, /* a reschedule or function call interrupt of another CPU */
	IDLE_WAKE_STORE = 1 << 10, /* sched_wake_idle_without_ipi: a store by another CPU, no interrupt */
	IDLE_WAKE_DEVICE = 1 << 11, /* a device's interrupt */
};

#define IDLE_WAKES (IDLE_WAKE_TIMER | IDLE_WAKE_IPI | IDLE_WAKE_STORE | IDLE_WAKE_DEVICE)

/* One idle period of a CPU: the polling state, if it was entered, and the state after it. */
struct idle_record {
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u64 end_ns;
	__u64 poll_ns; /* in the polling state */
	__u64 halt_ns; /* in the other */
	__u64 wake_ns; /* when what ended it was due or was sent; 0 if not known */
	__u32 cpu;
	__u32 limit_ns; /* poll_limit_ns when it began */
	__u32 limit_next_ns; /* and when the next one began */
	__u32 change_old_ns; /* of guest_halt_poll_ns */
	__u32 change_new_ns;
	__u32 flags; /* enum idle_flag */
};

/* What never reached the recorder. */
enum idle_lost_cause {
	IDLE_LOST_RING_FULL,
	IDLE_LOST_CAUSES,
};

#endif
