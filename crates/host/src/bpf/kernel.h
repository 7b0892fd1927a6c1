/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * The few kernel types that the collector looks into, and of each only the fields it reads.
 * Offsets are relocated when the program is loaded (CO-RE), from the running kernel's BTF; a field
 * that a kernel lacks is asked for with bpf_core_field_exists first.
 *
 * Names ending in ___something are views of one kernel type as it was in another era.
 */
#ifndef HALTWISE_KERNEL_H
#define HALTWISE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;
#define true 1
#define false 0

/* include/uapi/linux/bpf.h */
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};
#define BPF_F_CURRENT_CPU 0xffffffffULL
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* include/uapi/linux/kvm.h */
#define KVM_X86_DISABLE_EXITS_HLT (1 << 1)

enum bpf_func_id {
	BPF_FUNC_loop = 181,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/uapi/linux/bpf_perf_event.h */
struct bpf_perf_event_data {
	__u64 sample_period;
};

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

struct timespec64 {
	__s64 tv_sec;
};

struct file;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct mm_struct;

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	struct mm_struct *mm;
	struct files_struct *files;
	struct completion *vfork_done; /* of a child of vfork() until it runs another program */
	void *bpf_storage; /* what BPF programs keep with the task */
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	void *private_data;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

typedef struct {
	int counter;
} atomic_t;

/* arch/x86/kvm/lapic.h */
struct kvm_timer {
	atomic_t pending;
};

struct kvm_lapic {
	struct kvm_timer lapic_timer;
	void *regs;
};

/* arch/x86/kvm/irq.h */
struct kvm_kpic_state {
	u8 irr;
	u8 imr;
};

struct kvm_pic {
	struct kvm_kpic_state pics[2];
	int output;
};

/* arch/x86/kvm/ioapic.h */
union kvm_ioapic_redirect_entry {
	u64 bits;
};

struct kvm_ioapic {
	union kvm_ioapic_redirect_entry redirtbl[24]; /* IOAPIC_NUM_PINS */
};

struct kvm_pit;

struct kvm_arch {
	struct kvm_pic *vpic;
	struct kvm_ioapic *vioapic;
	struct kvm_pit *vpit;
	u64 disabled_exits; /* bits of KVM_CAP_X86_DISABLE_EXITS; up to 6.17 see below */
};

struct kvm_arch___each_exit {
	bool hlt_in_guest;
};

struct kvm {
	struct mm_struct *mm;
	unsigned int max_halt_poll_ns;
	bool override_halt_poll_ns;
	struct kvm_arch arch;
};

struct kvm___each_exit {
	struct kvm_arch___each_exit arch;
};

struct kvm_vcpu_arch {
	struct kvm_lapic *apic;
	u64 msr_kvm_poll_control;
};

/* include/linux/kvm_host.h, 5.15 and later */
struct kvm_vcpu_stat_generic {
	u64 halt_successful_poll;
	u64 halt_attempted_poll;
	u64 halt_poll_success_ns;
	u64 halt_poll_fail_ns;
	u64 halt_wait_ns;
	u64 halt_poll_success_hist[32]; /* HALT_POLL_HIST_COUNT */
	u64 halt_poll_fail_hist[32];
	u64 halt_wait_hist[32];
};

struct kvm_vcpu_stat {
	struct kvm_vcpu_stat_generic generic;
};

struct kvm_vcpu {
	struct kvm *kvm;
	int vcpu_id;
	struct pid *pid;
	unsigned int halt_poll_ns;
	struct kvm_vcpu_arch arch;
	struct kvm_vcpu_stat stat;
};

/* 5.8 to 5.14: the same counters, each architecture's own (cb953129bfe5). */
struct kvm_vcpu_stat___v5_8 {
	u64 halt_attempted_poll;
	u64 halt_poll_success_ns;
	u64 halt_poll_fail_ns;
};

struct kvm_vcpu___v5_8 {
	struct kvm_vcpu_stat___v5_8 stat;
};

#pragma clang attribute pop

#endif
