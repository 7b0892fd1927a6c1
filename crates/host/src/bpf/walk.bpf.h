/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * Finding the vCPUs: a walk over every open file of the host that is named kvm-vcpu.
 *
 * The halt tracepoint carries no vCPU. The file of a vCPU does: its private data is
 * struct kvm_vcpu (kvm_vm_ioctl_create_vcpu, create_vcpu_fd in virt/kvm/kvm_main.c), and that
 * names the thread which last ran it.
 */
#ifndef HALTWISE_WALK_BPF_H
#define HALTWISE_WALK_BPF_H

/* The counters as they lie in struct kvm_vcpu_stat_generic, in one read; false if they do not. */
static __always_inline bool read_adjacent_stats(struct kvm_vcpu *vcpu, struct poll_stats *into)
{
	__u64 at = bpf_core_field_offset(vcpu->stat.generic.halt_attempted_poll);
	__u64 counters[5];

	if (bpf_core_field_offset(vcpu->stat.generic.halt_poll_success_ns) != at + 24 ||
	    bpf_core_field_offset(vcpu->stat.generic.halt_poll_fail_ns) != at + 32)
		return false;
	if (bpf_core_read(counters, sizeof(counters), &vcpu->stat.generic.halt_attempted_poll))
		return false;
	into->attempted = counters[0];
	into->success_ns = counters[3];
	into->fail_ns = counters[4];
	return true;
}

/* Fills KVM's own polling counters as they stand; false where the kernel has none. */
static __always_inline bool read_poll_stats(struct kvm_vcpu *vcpu, struct poll_stats *into)
{
	if (bpf_core_field_exists(vcpu->stat.generic.halt_poll_fail_ns)) {
		if (CAN_PEEK) {
			into->attempted = peek64(&vcpu->stat.generic.halt_attempted_poll);
			into->success_ns = peek64(&vcpu->stat.generic.halt_poll_success_ns);
			into->fail_ns = peek64(&vcpu->stat.generic.halt_poll_fail_ns);
			return true;
		}
		if (read_adjacent_stats(vcpu, into))
			return true;
		into->attempted = BPF_CORE_READ(vcpu, stat.generic.halt_attempted_poll);
		into->success_ns = BPF_CORE_READ(vcpu, stat.generic.halt_poll_success_ns);
		into->fail_ns = BPF_CORE_READ(vcpu, stat.generic.halt_poll_fail_ns);
		return true;
	}
	struct kvm_vcpu___v5_8 *old = (void *)vcpu;
	if (bpf_core_field_exists(old->stat.halt_poll_fail_ns)) {
		into->attempted = BPF_CORE_READ(old, stat.halt_attempted_poll);
		into->success_ns = BPF_CORE_READ(old, stat.halt_poll_success_ns);
		into->fail_ns = BPF_CORE_READ(old, stat.halt_poll_fail_ns);
		return true;
	}
	return false;
}

/* Takes over a vCPU, with what never changes about it. */
static __always_inline void learn_vcpu(struct vcpu_thread *thread, struct kvm_vcpu *vcpu)
{
	struct kvm_lapic *apic;

	thread->kvm = (__u64)BPF_CORE_READ(vcpu, kvm);
	thread->pid = (__u64)BPF_CORE_READ(vcpu, pid);
	thread->vcpu_id = BPF_CORE_READ(vcpu, vcpu_id);
	thread->apic = 0;
	thread->apic_regs = 0;
	if (bpf_core_field_exists(vcpu->arch.apic)) {
		apic = BPF_CORE_READ(vcpu, arch.apic);
		thread->apic = (__u64)apic;
		if (apic)
			thread->apic_regs = (__u64)BPF_CORE_READ(apic, regs);
	}
	thread->vcpu = (__u64)vcpu;
}

/* Leaves what is known of a vCPU for its thread's first halt. */
static __always_inline void learn_thread(struct kvm_vcpu *vcpu, const struct vcpu_record *record)
{
	struct vcpu_thread *fresh;
	__u32 zero = 0;
	void *none;

	fresh = bpf_map_lookup_elem(&walked, &record->tid);
	if (fresh && fresh->turn == turn)
		return;
	none = bpf_map_lookup_elem(&no_thread, &zero);
	if (!none)
		return;
	if (bpf_map_update_elem(&walked, &record->tid, none, BPF_ANY))
		count_lost(LOST_THREADS_FULL);
	fresh = bpf_map_lookup_elem(&walked, &record->tid);
	if (!fresh)
		return;
	fresh->turn = turn;
	fresh->window_ns = record->window_ns;
	fresh->window_known = true;
	fresh->stats_known = read_poll_stats(vcpu, &fresh->polls);
	learn_vcpu(fresh, vcpu);
}

/* "kvm-vcpu" as eight bytes, which compare at once. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define VCPU_FILE 0x757063762d6d766bULL
#else
#define VCPU_FILE 0x6b766d2d76637075ULL
#endif

/* Named kvm-vcpu:N, or kvm-vcpu before 4.16; kvm-vcpu-stats is another file of the same vCPU, which
 * a VMM may hand to a process that does not run it. */
static __always_inline bool is_vcpu_file(struct file *file)
{
	const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	union {
		__u64 word;
		char text[16];
	} head = {};

	if (!name || bpf_probe_read_kernel(&head, 9, name))
		return false;
	return head.word == VCPU_FILE && (head.text[8] == ':' || head.text[8] == 0);
}

/* Descriptors looked at to find the vCPU of a thread that no walk has seen yet. The walk that
 * follows finds those beyond. */
#define OWN_FILES 4096
#define OWN_FILES_UNROLLED 128 /* where each costs the verifier a reading of its own */

struct file_search {
	struct file **files;
	__u32 count;
	__u32 tid;
	__u64 found;
};

/* Looks at one descriptor; 1 ends the search. */
static long look_at_file(__u32 index, struct file_search *search)
{
	struct file *file = NULL;
	struct kvm_vcpu *vcpu;
	struct pid *pid;

	if (index >= search->count)
		return 1;
	if (bpf_probe_read_kernel(&file, sizeof(file), search->files + index) || !file)
		return 0;
	if (!is_vcpu_file(file))
		return 0;
	vcpu = BPF_CORE_READ(file, private_data);
	pid = BPF_CORE_READ(vcpu, pid);
	if (!pid || BPF_CORE_READ(pid, numbers[0].nr) != (int)search->tid)
		return 0;
	search->found = (__u64)vcpu;
	return 1;
}

/* The vCPU that this thread runs, among its process's first open files; 0 if it is not there. Once
 * for a thread, at its first halt, so that the facts of a VM are whole from the start.
 *
 * Not static, so that the verifier reads it once and not once for each state of its caller. */
__noinline __u64 own_vcpu(__u32 tid)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file_search search = {
		.files = BPF_CORE_READ(table, fd),
		.count = BPF_CORE_READ(table, max_fds),
		.tid = tid,
	};

	/* bpf_loop came with 5.17 (e6f2dd0f8067): the verifier reads its body once. */
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop)) {
		bpf_loop(OWN_FILES, look_at_file, &search, 0);
		return search.found;
	}
	for (__u32 i = 0; i < OWN_FILES_UNROLLED; i++)
		if (look_at_file(i, &search))
			break;
	return search.found;
}

/* A copy that is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stats_record);
} stats_copy SEC(".maps");

/* KVM's own statistics. Attempts are read first: whatever comes in meanwhile, there are no more of
 * them than of what they ended in. */
static __always_inline void read_stats(struct stats_record *copy, struct kvm_vcpu *vcpu)
{
	__builtin_memset(copy, 0, sizeof(*copy));
	if (bpf_core_field_exists(vcpu->stat.generic.halt_wait_hist)) {
		copy->attempted = BPF_CORE_READ(vcpu, stat.generic.halt_attempted_poll);
		copy->successful = BPF_CORE_READ(vcpu, stat.generic.halt_successful_poll);
		copy->success_ns = BPF_CORE_READ(vcpu, stat.generic.halt_poll_success_ns);
		copy->fail_ns = BPF_CORE_READ(vcpu, stat.generic.halt_poll_fail_ns);
		copy->wait_ns = BPF_CORE_READ(vcpu, stat.generic.halt_wait_ns);
		bpf_core_read(copy->hist[KVM_POLL_SUCCESS], sizeof(copy->hist[0]),
			      &vcpu->stat.generic.halt_poll_success_hist);
		bpf_core_read(copy->hist[KVM_POLL_FAIL], sizeof(copy->hist[0]),
			      &vcpu->stat.generic.halt_poll_fail_hist);
		bpf_core_read(copy->hist[KVM_WAIT], sizeof(copy->hist[0]),
			      &vcpu->stat.generic.halt_wait_hist);
	}
}

/* The same behind the vCPU's record. */
static __always_inline void write_stats(struct seq_file *seq, struct kvm_vcpu *vcpu)
{
	__u32 zero = 0;
	struct stats_record *copy = bpf_map_lookup_elem(&stats_copy, &zero);

	if (!copy)
		return;
	read_stats(copy, vcpu);
	bpf_seq_write(seq, copy, sizeof(*copy));
}

/* Stats mode: the vCPU of a thread, as a walk has found it. */
struct ran_vcpu {
	__u64 vcpu;
	__u64 kvm;
	__u64 pid; /* its struct pid: equal for as long as the vCPU is this thread's */
	__u64 tgid;
};

/* By thread. The recorder makes it larger where it is used. Allocated beforehand: before 6.1 a tracepoint's
 * program that allocates draws a warning of the kernel (34dd3bad1a6f). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ran_vcpu);
} ran SEC(".maps");

/* Whether a process that ends still has this vCPU: it gives up its memory before its files, and its threads have not
 * left their last statistics yet. */
static __always_inline bool is_ending(struct task_struct *task, struct kvm_vcpu *vcpu, __u32 tid)
{
	struct ran_vcpu *known = bpf_map_lookup_elem(&ran, &tid);

	return !task->mm && known && known->vcpu == (__u64)vcpu && known->tgid == task->tgid;
}

/* The recorder sets how large it is. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} last_stats SEC(".maps");

/* Whether KVM sees this vCPU's halts at all. */
static __always_inline void read_blindness(struct kvm_vcpu *vcpu, struct kvm *kvm,
					   struct vcpu_record *record)
{
	struct kvm___each_exit *older = (void *)kvm;

	if (bpf_core_field_exists(kvm->arch.disabled_exits))
		record->hlt_in_guest =
			!!(BPF_CORE_READ(kvm, arch.disabled_exits) & KVM_X86_DISABLE_EXITS_HLT);
	else if (bpf_core_field_exists(older->arch.hlt_in_guest))
		record->hlt_in_guest = BPF_CORE_READ(older, arch.hlt_in_guest);
	if (bpf_core_field_exists(vcpu->arch.apic))
		record->no_lapic = !BPF_CORE_READ(vcpu, arch.apic);
}

/* All of a vCPU but its process and thread. */
static __always_inline void describe_vcpu(struct vcpu_record *record, struct kvm_vcpu *vcpu,
					  struct kvm *kvm)
{
	record->kvm = (__u64)kvm;
	record->vcpu = (__u64)vcpu;
	record->vcpu_id = BPF_CORE_READ(vcpu, vcpu_id);
	record->window_ns = BPF_CORE_READ(vcpu, halt_poll_ns);
	if (bpf_core_field_exists(kvm->max_halt_poll_ns)) {
		record->has_max = 1;
		record->max_halt_poll_ns = BPF_CORE_READ(kvm, max_halt_poll_ns);
	}
	if (bpf_core_field_exists(kvm->override_halt_poll_ns)) {
		record->has_override = 1;
		record->override = BPF_CORE_READ(kvm, override_halt_poll_ns);
	}
	if (bpf_core_field_exists(vcpu->arch.msr_kvm_poll_control)) {
		record->has_poll_control = 1;
		record->poll_control = BPF_CORE_READ(vcpu, arch.msr_kvm_poll_control) & 1;
	}
	read_blindness(vcpu, kvm, record);
}

/* Once, at the end of a walk. */
static __always_inline void note_support(void)
{
	struct kvm_vcpu___v5_8 *old = NULL;
	struct kvm_vcpu *vcpu = NULL;
	struct kvm *kvm = NULL;
	__u32 found = SUPPORT_WALKED;

	if (bpf_core_field_exists(vcpu->stat.generic.halt_poll_fail_ns) ||
	    bpf_core_field_exists(old->stat.halt_poll_fail_ns))
		found |= SUPPORT_POLL_STATS;
	if (bpf_core_field_exists(kvm->max_halt_poll_ns))
		found |= SUPPORT_VM_CEILING;
	if (bpf_core_field_exists(kvm->override_halt_poll_ns))
		found |= SUPPORT_OVERRIDE;
	if (bpf_core_field_exists(vcpu->arch.apic))
		found |= SUPPORT_LAPIC;
	if (bpf_core_field_exists(vcpu->stat.generic.halt_wait_hist))
		found |= SUPPORT_HISTS;
	support = found;
}

SEC("iter/task_file")
int walk_vcpus(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (!task || !file) {
		note_support();
		return 0;
	}
	if (!is_vcpu_file(file))
		return 0;

	struct kvm_vcpu *vcpu = file->private_data;
	struct kvm *kvm = BPF_CORE_READ(vcpu, kvm);
	struct pid *pid = BPF_CORE_READ(vcpu, pid);
	struct vcpu_record record = {};

	if (!kvm || task->vfork_done || !is_wanted(task->tgid))
		return 0;
	if (pid)
		record.tid = BPF_CORE_READ(pid, numbers[0].nr);
	/* Others may hold the file, as a child after fork() does, and one after vfork() in the same address space. KVM
	 * refuses to run a vCPU in another one than that in which its VM was created (kvm_vcpu_ioctl). */
	if (BPF_CORE_READ(kvm, mm) != task->mm && !is_ending(task, vcpu, record.tid))
		return 0;
	describe_vcpu(&record, vcpu, kvm);
	record.tgid = task->tgid;
	if (record.tid && stats_mode && task->mm) {
		struct ran_vcpu own = {
			.vcpu = (__u64)vcpu,
			.kvm = (__u64)kvm,
			.pid = (__u64)pid,
			.tgid = task->tgid,
		};

		if (bpf_map_update_elem(&ran, &record.tid, &own, BPF_ANY))
			count_lost(LOST_THREADS_FULL);
	} else if (record.tid && !stats_mode) {
		learn_thread(vcpu, &record);
	}
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	if (stats_mode)
		write_stats(ctx->meta->seq, vcpu);
	return 0;
}

/*
 * Stats mode: a thread ends (do_exit). Its process closes its files after this, so the vCPU is there,
 * and no thread runs it any more: what stands there now is the last of it.
 */
SEC("raw_tp/sched_process_exit")
int BPF_PROG(on_thread_exit)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;
	struct ran_vcpu *known = bpf_map_lookup_elem(&ran, &tid);
	struct last_record *last;
	struct kvm_vcpu *vcpu;
	struct ran_vcpu own;

	if (!known)
		return 0;
	own = *known;
	bpf_map_delete_elem(&ran, &tid);
	vcpu = (void *)own.vcpu;
	/* The VM may be gone already, and its memory another one's. */
	if ((__u64)BPF_CORE_READ(vcpu, kvm) != own.kvm || (__u64)BPF_CORE_READ(vcpu, pid) != own.pid)
		return 0;
	last = bpf_ringbuf_reserve(&last_stats, sizeof(*last), 0);
	if (!last) {
		count_lost(LOST_RING_FULL);
		return 0;
	}
	__builtin_memset(&last->vcpu, 0, sizeof(last->vcpu));
	describe_vcpu(&last->vcpu, vcpu, (void *)own.kvm);
	last->vcpu.tgid = id >> 32;
	last->vcpu.tid = tid;
	read_stats(&last->stats, vcpu);
	bpf_ringbuf_submit(last, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
