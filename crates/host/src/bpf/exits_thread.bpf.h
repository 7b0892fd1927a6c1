/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * What the programs that count exits know of a thread. The program that keeps samples reads it too.
 */
#ifndef HALTWISE_EXITS_THREAD_BPF_H
#define HALTWISE_EXITS_THREAD_BPF_H

/* Reasons whose cell a thread remembers without a look-up: all of VMX and most of SVM below 0x100,
 * and SVM's from 0x400 on behind them. */
#define NEAR_REASONS 0x100
#define SVM_FAR 0x400
#define FAR_REASONS 16
#define REMEMBERED (NEAR_REASONS + FAR_REASONS)

/* A thread that runs a vCPU. Read and written by that thread alone. What every exit and entry looks at
 * comes first, within 64 bytes. */
struct exit_thread {
	__u64 vcpu; /* struct kvm_vcpu, 0 while not known */
	/* the exit being handled */
	__u64 exit_ns;
	__u64 exit_user_ns;
	__u32 exit_cell; /* 0: there is none */
	__u32 exit_reason;
	__u32 exit_isa; /* EXIT_ISA_NONE: the exit is not known */
	__u32 subs; /* sub-kinds it has, a bit each */
	__u32 user_cell; /* of the time in user space under way; 0: there is none */
	bool known; /* adopt_vcpu ran */
	bool entered; /* the last of kvm_entry and kvm_exit was an entry */
	/* cells that are often needed */
	__u16 entry_cell;
	__u16 lone_cell;
	__u16 injection_cell;
	__u16 emulation_cell;
	__u64 user_start_ns;
	__u64 user_exits; /* the vCPU's own count of exits when that began */
	__u64 kvm;
	__u32 vcpu_id;
	__u32 tid;
	__u32 tgid;
	__u32 vcpus; /* that it has taken up, the same again and again too */
	__u32 mmio_cells; /* addresses that have a cell of their own */
	__u32 sub_cells[EXIT_SUB_KINDS];
	__u16 reason_cells[REMEMBERED];
};

/* With the task itself: found without hashing, gone with the task. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct exit_thread);
} threads SEC(".maps");

#endif
