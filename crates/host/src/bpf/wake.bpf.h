/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * What ends a halt: who woke the thread, from where, and which interrupt was then pending.
 * Facts only; haltwise_host::bpf::wake turns them into a source.
 */
#ifndef HALTWISE_WAKE_BPF_H
#define HALTWISE_WAKE_BPF_H

/* Whether an hrtimer's function is running on this CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} in_hrtimer SEC(".maps");

SEC("raw_tp/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_entry)
{
	__u32 zero = 0;
	__u32 *inside = bpf_map_lookup_elem(&in_hrtimer, &zero);

	if (inside)
		*inside = 1;
	return 0;
}

SEC("raw_tp/hrtimer_expire_exit")
int BPF_PROG(on_hrtimer_exit)
{
	__u32 zero = 0;
	__u32 *inside = bpf_map_lookup_elem(&in_hrtimer, &zero);

	if (inside)
		*inside = 0;
	return 0;
}

/* "kvm-pit/", the name of the kernel thread that raises a PIT's interrupts, as eight bytes
 * (kvm_create_pit in arch/x86/kvm/i8254.c); the VMM's process number follows. */
#define PIT_THREAD 0x2f7469702d6d766bULL

/* Typed, so that the task can be read without a call: this runs for every task of the host. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *woken)
{
	struct vcpu_thread *thread;
	__u32 zero = 0;

	/* Most tasks have no BPF storage. */
	if (!woken->bpf_storage)
		return 0;
	thread = bpf_task_storage_get(&threads, woken, 0, 0);
	if (!thread)
		return 0;

	__u32 *inside = bpf_map_lookup_elem(&in_hrtimer, &zero);
	__u32 waker_tid = bpf_get_current_pid_tgid();
	__u32 flags = HALT_WOKEN;

	if (inside && *inside) {
		flags |= HALT_WAKER_HRTIMER;
	} else if (waker_tid) {
		struct task_struct *current = bpf_get_current_task_btf();
		__u64 comm[2] = {};

		if (current->flags & PF_KTHREAD) {
			if (!bpf_get_current_comm(comm, sizeof(comm)) && comm[0] == PIT_THREAD)
				flags |= HALT_WAKER_PIT;
		} else {
			struct vcpu_thread *waker = bpf_task_storage_get(&threads, current, 0, 0);

			if (waker && waker->kvm && waker->kvm == thread->kvm)
				flags |= HALT_WAKER_VCPU;
		}
	}
	thread->waker_flags = flags;
	thread->waker_cpu = bpf_get_smp_processor_id();
	thread->waking_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline struct vectors *vectors_of(__u32 tgid)
{
	struct vectors *seen = bpf_map_lookup_elem(&vectors_by_process, &tgid);
	struct vectors none = {};

	if (seen)
		return seen;
	bpf_map_update_elem(&vectors_by_process, &tgid, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&vectors_by_process, &tgid);
}

/* trace_kvm_apic_ipi(icr_low, dest_id): kvm_apic_send_ipi in arch/x86/kvm/lapic.c. What a thread has sent
 * before is found with the thread; the process's map is looked at for what is new. */
SEC("raw_tp/kvm_apic_ipi")
int BPF_PROG(on_apic_ipi, __u32 icr_low)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct vcpu_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 tgid = task->tgid;
	__u32 vector = icr_low & 0xff;
	__u32 word = (vector / 64) & 3;
	__u64 bit = 1ULL << (vector % 64);
	struct vectors *seen;

	if (thread && thread->ipi[word] & bit)
		return 0;
	if (!is_wanted(tgid))
		return 0;
	if (thread)
		thread->ipi[word] |= bit;
	seen = vectors_of(tgid);
	if (seen && !(seen->ipi[word] & bit)) {
		seen->ipi[word] |= bit;
		vectors_learned++;
	}
	return 0;
}

/* Offsets in the LAPIC's register page: IRR (eight words, 16 bytes apart) and LVT timer. */
#define APIC_IRR 0x200
#define APIC_LVTT 0x320

/* Index of the highest bit set. A function of its own, so that the verifier reads it once. */
__noinline __u32 highest_bit(__u32 bits)
{
	__u32 top = 0;

	if (bits >> 16) { top += 16; bits >>= 16; }
	if (bits >> 8) { top += 8; bits >>= 8; }
	if (bits >> 4) { top += 4; bits >>= 4; }
	if (bits >> 2) { top += 2; bits >>= 2; }
	return top + (bits >> 1);
}

/* The low word of a pin's entry in the IOAPIC's table: the vector and, above it, whether the pin is masked. */
#define IOAPIC_VECTOR 0xff
#define IOAPIC_MASKED (1 << 16)

static __always_inline bool is_on_pin(struct kvm_ioapic *ioapic, int pin, __u32 vector)
{
	__u32 entry = CAN_PEEK ? peek32(&ioapic->redirtbl[pin]) : BPF_CORE_READ(ioapic, redirtbl[pin].bits);

	return !(entry & IOAPIC_MASKED) && (entry & IOAPIC_VECTOR) == vector;
}

/* Whether the PIT's ticks arrive by this vector. The PIT raises GSI 0 (arch/x86/kvm/i8254.c), which KVM's
 * own routing takes to the IOAPIC's pin 0 and QEMU's to pin 2. */
static __always_inline bool is_pit_vector(struct kvm *kvm, __u32 vector)
{
	struct kvm_ioapic *ioapic;

	if (!bpf_core_field_exists(kvm->arch.vpit) || !bpf_core_field_exists(kvm->arch.vioapic))
		return false;
	if (!(CAN_PEEK ? peek64(&kvm->arch.vpit) : (__u64)BPF_CORE_READ(kvm, arch.vpit)))
		return false;
	ioapic = CAN_PEEK ? (void *)peek64(&kvm->arch.vioapic) : BPF_CORE_READ(kvm, arch.vioapic);
	return ioapic && (is_on_pin(ioapic, 0, vector) || is_on_pin(ioapic, 2, vector));
}

/* What a vector was seen to carry in this process. */
static __always_inline __u32 look_up_vector(__u32 vector, __u32 tgid)
{
	struct vectors *seen = bpf_map_lookup_elem(&vectors_by_process, &tgid);

	if (seen && seen->ipi[(vector / 64) & 3] & 1ULL << (vector % 64))
		return HALT_INTERRUPT | HALT_INTERRUPT_IPI;
	return HALT_INTERRUPT;
}

/* What of a LAPIC's register page tells the interrupt that waits. */
struct lapic_pending {
	__u32 bits; /* the highest word of the IRR that is not empty */
	__u32 base; /* the vector of its first bit */
	__u32 lvt_timer;
};

static __always_inline void keep_highest(struct lapic_pending *pending, int word, __u32 bits)
{
	if (bits) {
		pending->bits = bits;
		pending->base = word * 32;
	}
}

static __always_inline bool read_lapic(struct vcpu_thread *thread, struct lapic_pending *pending)
{
	void *irr = (void *)thread->apic_regs + APIC_IRR;

	if (CAN_PEEK) {
		for (int word = 0; word < 8; word++)
			keep_highest(pending, word, peek32(irr + word * 16));
		pending->lvt_timer = peek32((void *)thread->apic_regs + APIC_LVTT);
		return true;
	}
	if (bpf_probe_read_kernel(thread->irr, sizeof(thread->irr), irr))
		return false;
	for (int word = 0; word < 8; word++)
		keep_highest(pending, word, thread->irr[word * 4]);
	pending->lvt_timer = thread->irr[(APIC_LVTT - APIC_IRR) / 4];
	return true;
}

/* Which vector the LAPIC would deliver next, and what that vector was seen to carry. */
static __always_inline __u32 read_irr(struct vcpu_thread *thread, struct halt_record *halt)
{
	struct lapic_pending pending = {};
	__u32 found;

	if (!read_lapic(thread, &pending) || !pending.bits)
		return 0;
	found = pending.base + highest_bit(pending.bits);
	if ((pending.lvt_timer & 0xff) == found)
		return HALT_INTERRUPT | HALT_INTERRUPT_TIMER;
	if (thread->last_vector != found || thread->last_learned != vectors_learned) {
		thread->last_learned = vectors_learned;
		thread->last_vector = found;
		thread->last_flags = look_up_vector(found, halt->tgid);
	}
	if (thread->last_flags == HALT_INTERRUPT && is_pit_vector((void *)thread->kvm, found))
		return HALT_INTERRUPT | HALT_INTERRUPT_TIMER;
	return thread->last_flags;
}

static __always_inline __u32 read_pic(struct kvm *kvm)
{
	struct kvm_pic *pic;

	if (!bpf_core_field_exists(kvm->arch.vpic))
		return 0;
	pic = BPF_CORE_READ(kvm, arch.vpic);
	if (!pic || !BPF_CORE_READ(pic, output))
		return 0;
	if ((BPF_CORE_READ(pic, pics[0].irr) & ~BPF_CORE_READ(pic, pics[0].imr) & 1) ||
	    (BPF_CORE_READ(pic, pics[1].irr) & ~BPF_CORE_READ(pic, pics[1].imr) & 1))
		return HALT_INTERRUPT | HALT_INTERRUPT_TIMER;
	return HALT_INTERRUPT;
}

/* Which interrupt waits for this vCPU, in its own thread, right after the halt. */
__noinline __u32 read_pending(struct vcpu_thread *thread, struct halt_record *halt)
{
	struct kvm_lapic *apic;
	__u32 flags = 0;
	int timers;

	if (!thread || !halt)
		return 0;
	apic = (void *)thread->apic;

	if (!apic)
		return 0;
	timers = CAN_PEEK ? (int)peek32(&apic->lapic_timer.pending.counter)
			  : BPF_CORE_READ(apic, lapic_timer.pending.counter);
	if (timers > 0)
		return HALT_TIMER_PENDING;
	if (thread->apic_regs)
		flags = read_irr(thread, halt);
	return flags ? flags : read_pic((void *)thread->kvm);
}

#endif
