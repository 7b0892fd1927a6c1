/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * What the BPF programs and the Rust collector say to each other. The only such header: Rust takes
 * sizes, offsets and flags from the types generated out of it.
 */
#ifndef HALTWISE_INTF_H
#define HALTWISE_INTF_H

/* Buckets as haltwise_core::hist::bucket_of makes them: eight to a power of two, up to 2^35 ns. */
#define HIST_SUB_BITS 3
#define HIST_BUCKETS 264

/* Facts about one halt, each a bit of halt_record.flags. */
enum halt_flag {
	HALT_WAITED = 1 << 0, /* kvm_vcpu_wakeup.waited */
	HALT_VALID = 1 << 1, /* kvm_vcpu_wakeup.valid */
	HALT_VCPU_KNOWN = 1 << 2, /* the thread's struct kvm_vcpu is known and still its own */
	HALT_WINDOW_KNOWN = 1 << 3, /* window_ns is filled */
	HALT_CEILING_KNOWN = 1 << 4, /* ceiling_ns is filled */
	HALT_CEILING_CAP = 1 << 5, /* ... by the VM's KVM_CAP_HALT_POLL */
	HALT_CEILING_SNAPSHOT = 1 << 6, /* ... by the VM's own field, cap or not (5.8 to 6.0) */
	HALT_POLL_KNOWN = 1 << 7, /* poll_ns and HALT_POLLED are filled from KVM's own counters */
	HALT_POLLED = 1 << 8, /* KVM counted an attempted poll */
	HALT_GREW = 1 << 9, /* kvm_halt_poll_ns fired: grow */
	HALT_SHRANK = 1 << 10, /* kvm_halt_poll_ns fired: shrink */
	HALT_NEXT_KNOWN = 1 << 11, /* window_next_ns is filled */
	HALT_LATENCY_TOLD = 1 << 12, /* waking_ns is KVM's own; it is end_ns where KVM does not know it */
	/* What ended it: the eight bits from WAKE_SHIFT up. */
	HALT_WOKEN = 1 << 16, /* sched_waking was seen within this halt */
	HALT_WAKER_HRTIMER = 1 << 17, /* ... while an hrtimer's function ran on the waker's CPU */
	HALT_WAKER_PIT = 1 << 18, /* ... from the kernel's kvm-pit thread */
	HALT_WAKER_VCPU = 1 << 19, /* ... while a vCPU thread of the same VM ran there */
	HALT_TIMER_PENDING = 1 << 20, /* the LAPIC timer expired and is not yet injected */
	HALT_INTERRUPT = 1 << 21, /* LAPIC or PIC hold an interrupt */
	HALT_INTERRUPT_IPI = 1 << 22, /* ... whose vector a vCPU of this process sent as an IPI */
	HALT_INTERRUPT_TIMER = 1 << 23, /* ... which is the LAPIC timer's, the PIT's or the RTC's */
};

#define WAKE_SHIFT 16
#define WAKE_FACTS 256

/* One halt, as full mode sends it through the ring. */
struct halt_record {
	__u64 end_ns; /* CLOCK_MONOTONIC */
	__u64 halt_ns; /* kvm_vcpu_wakeup.ns */
	__u64 waking_ns; /* when sched_waking was seen */
	__u64 vcpu; /* address of struct kvm_vcpu, as identity only; 0 if not known */
	__u64 kvm; /* ... and of its struct kvm */
	__u32 tid;
	__u32 tgid;
	__u32 poll_ns;
	__u32 window_ns;
	__u32 window_next_ns;
	__u32 ceiling_ns;
	__u32 change_old_ns; /* of kvm_halt_poll_ns */
	__u32 change_new_ns;
	__u32 vcpu_id; /* with HALT_VCPU_KNOWN, HALT_GREW or HALT_SHRANK */
	__u32 flags; /* enum halt_flag */
	__u32 cpu; /* on which the halt ended */
	__u32 waker_cpu; /* with HALT_WOKEN */
};

/* What the running kernel's structures hold, each a bit of `support`. */
enum kernel_support {
	SUPPORT_WALKED = 1 << 0, /* the other bits are filled */
	SUPPORT_POLL_STATS = 1 << 1, /* halt_poll_success_ns, halt_poll_fail_ns (5.8 and later) */
	SUPPORT_VM_CEILING = 1 << 2, /* kvm.max_halt_poll_ns (5.8 and later) */
	SUPPORT_OVERRIDE = 1 << 3, /* kvm.override_halt_poll_ns (6.1 and later) */
	SUPPORT_LAPIC = 1 << 4, /* x86: pending interrupts can be seen */
	SUPPORT_HISTS = 1 << 5, /* halt_wait_hist and its kin (5.15 and later) */
};

/* One vCPU, as the walk over open files finds it. */
struct vcpu_record {
	__u64 kvm; /* address, as identity only */
	__u64 vcpu;
	__u32 tgid; /* process that holds the file */
	__u32 tid; /* thread that last ran it; 0 if it never ran */
	__u32 vcpu_id;
	__u32 window_ns;
	__u32 max_halt_poll_ns; /* the VM's own field */
	__u8 has_max; /* the kernel has that field (5.8 and later) */
	__u8 has_override; /* the kernel tells a cap from a snapshot (6.1 and later) */
	__u8 override; /* KVM_CAP_HALT_POLL was used */
	__u8 has_poll_control; /* x86: the guest has a say */
	__u8 poll_control; /* its MSR's bit 0 */
	__u8 hlt_in_guest; /* x86: exits on HLT are disabled, no halt reaches KVM */
	__u8 no_lapic; /* x86: no LAPIC in the kernel, HLT goes to the VMM */
	__u8 pad[5];
};

/* KVM's own histograms, as stats mode takes them over. */
enum kvm_hist {
	KVM_POLL_SUCCESS, /* halt_poll_success_hist */
	KVM_POLL_FAIL,
	KVM_WAIT,
	KVM_HISTS,
};

#define KVM_HIST_BUCKETS 32

/* KVM's own statistics of one vCPU; in stats mode they follow its vcpu_record. */
struct stats_record {
	__u64 attempted; /* halt_attempted_poll */
	__u64 successful;
	__u64 success_ns;
	__u64 fail_ns;
	__u64 wait_ns;
	__u64 hist[KVM_HISTS][KVM_HIST_BUCKETS];
};

/* Stats mode: a vCPU and its statistics as the thread that ran it left them when it ended. */
struct last_record {
	struct vcpu_record vcpu;
	struct stats_record stats;
};

/* The histograms of counts mode. */
enum count_hist {
	COUNT_HALT,
	COUNT_GAP,
	COUNT_POLL_SUCCESS,
	COUNT_POLL_FAIL,
	COUNT_WAKE_LATENCY,
	COUNT_WHOLE_POLL, /* halt, gap and successful poll at once: it polled until it was woken */
	COUNT_HISTS,
};

/* What counts mode keeps for each vCPU thread. */
struct vcpu_counts {
	__u64 halts;
	__u64 whole_polls; /* in COUNT_WHOLE_POLL and, of the fields below, in `wakes` alone */
	__u64 waited;
	__u64 poll_known;
	__u64 polled;
	__u64 successful_polls;
	__u64 poll_cuts;
	__u64 turned_back_ns; /* neither polled nor slept by halts that did not wait */
	__u64 sum_ns[COUNT_HISTS];
	__u32 hist[COUNT_HISTS][HIST_BUCKETS];
	__u32 wakes[WAKE_FACTS]; /* by the wake bits of halt_flag */
	__u32 tid;
	__u32 tgid;
};

#endif
