// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * This machine's own idle CPUs, as its kernel's idle loop has them: a Linux guest's, or bare metal's.
 *
 * Order of the kernel's events (do_idle in kernel/sched/idle.c, cpuidle_enter_state in
 * drivers/cpuidle/cpuidle.c), all in the CPU's idle task:
 * cpu_idle(state) -> [interrupts] -> cpu_idle(-1) -> last_residency_ns is set -> [guest_halt_poll_ns].
 * So a period is told when the CPU is next idle: only then is all of it known.
 *
 * Facts only: what they mean is said in Rust (haltwise_host::bpf::idle).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "idle_intf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Types that Rust takes over. */
const volatile struct idle_record idle_record_type = {};
const volatile enum idle_flag idle_flag_type = 0;
const volatile enum idle_lost_cause idle_lost_cause_type = 0;

/* Settings, fixed when the programs are loaded. */
const volatile bool has_polling_state = false; /* state 0 is cpuidle's POLL */

#define POLL_STATE 0
#define PWR_EVENT_EXIT 0xffffffffU /* include/trace/events/power.h */
#define KTIME_MAX 0x7fffffffffffffffULL

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/cpuidle.h */
struct cpuidle_device {
	unsigned int poll_time_limit : 1;
	__s64 next_hrtimer;
	__u64 last_residency_ns;
	__u64 poll_limit_ns;
};

/* A view of task_struct that the other programs do not need. */
struct task_struct___switches {
	unsigned long nvcsw;
	unsigned long nivcsw;
};

#pragma clang attribute pop

/* drivers/cpuidle/cpuidle.c: of each CPU */
extern struct cpuidle_device *cpuidle_devices __ksym __weak;

/* What is known of a CPU: two cache lines. Its own idle task writes it; other CPUs write the two marked ones. */
struct cpu_state {
	struct idle_record period; /* the one under way, or ended and not yet told */
	__u64 entered_ns;	   /* the state that was entered last */
	__u64 left_ns;		   /* and when it was left; 0 while it lasts */
	__u64 due_ns;		   /* the CPU's next hrtimer */
	__u64 residency_ns;	   /* seen by guest_halt_poll_ns, else 0 */
	__u64 switches;		   /* of the idle task when the state was entered */
	__u64 sent_ns;		   /* by others: when an interrupt was sent to this CPU */
	__u64 stored_ns;	   /* by others: when it was woken by a store */
	__u32 state;
	__u32 under_way; /* `period` holds something */
};

_Static_assert(sizeof(struct cpu_state) == 128, "not two cache lines");

/* By CPU; sized when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_state);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} periods SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, IDLE_LOST_CAUSES);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline struct cpu_state *state_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct cpuidle_device *this_device(void)
{
	struct cpuidle_device **device;

	if (!bpf_ksym_exists(&cpuidle_devices))
		return NULL;
	device = bpf_this_cpu_ptr(&cpuidle_devices);
	return *device;
}

/*
 * A kernel built without KALLSYMS_ALL does not say where cpuidle_devices is, and refuses programs that name it.
 * So two of the programs are here twice, the second time without it: one of each is loaded.
 */
#define WITH_DEVICE this_device()
#define WITHOUT_DEVICE ((struct cpuidle_device *)NULL)

static __always_inline bool is_polling(__u32 state)
{
	return has_polling_state && state == POLL_STATE;
}

static __always_inline void send(const struct idle_record *period)
{
	__u32 cause = IDLE_LOST_RING_FULL;
	__u64 *count;

	if (!bpf_ringbuf_output(&periods, (void *)period, sizeof(*period), BPF_RB_NO_WAKEUP))
		return;
	count = bpf_map_lookup_elem(&lost, &cause);
	if (count)
		(*count)++;
}

/*
 * How long the CPU was in the state that it left last. last_residency_ns is set to 0 where work came between
 * the choice of the next state and its entry (call_cpuidle in kernel/sched/idle.c): then our own clock tells.
 */
static __always_inline __u64 residency(struct cpu_state *cpu, struct cpuidle_device *device)
{
	__u64 own_ns = cpu->left_ns - cpu->entered_ns;
	__u64 ns = cpu->residency_ns;

	if (!ns && device && bpf_core_field_exists(device->last_residency_ns))
		ns = BPF_CORE_READ(device, last_residency_ns);
	if (ns)
		return ns;
	cpu->period.flags &= ~IDLE_RESIDENCY_KNOWN;
	return own_ns;
}

/* A store by another CPU ended the state that was left last. */
static __always_inline void woken_by_store(struct cpu_state *cpu)
{
	cpu->period.flags &= ~IDLE_WAKES;
	cpu->period.flags |= IDLE_WAKE_STORE;
	cpu->period.wake_ns = cpu->stored_ns < cpu->left_ns ? cpu->stored_ns : cpu->left_ns;
	cpu->stored_ns = 0;
}

/* Takes the state that was left last into the period. */
static __always_inline void add_state(struct cpu_state *cpu, struct cpuidle_device *device)
{
	__u64 ns = residency(cpu, device);

	if (is_polling(cpu->state)) {
		cpu->period.flags |= IDLE_POLLED;
		cpu->period.poll_ns = ns;
	} else {
		cpu->period.flags |= IDLE_HALTED;
		cpu->period.halt_ns = ns;
	}
	cpu->period.end_ns = cpu->left_ns;
	cpu->residency_ns = 0;
	/* A waker tells of its store after it: often when the poll has seen it and is over. */
	if (!(cpu->period.flags & IDLE_WAKES) && cpu->stored_ns && cpu->stored_ns >= cpu->entered_ns)
		woken_by_store(cpu);
}

/* Begins a state; one that was entered since the last is part of the same period if it comes after a poll that
 * ended by its limit, and no other task ran since. */
static __always_inline void enter(struct cpu_state *cpu, struct cpuidle_device *device, __u32 number,
				  __u32 state, __u64 now)
{
	struct task_struct___switches *idle = (void *)bpf_get_current_task_btf();
	__u64 switches = BPF_CORE_READ(idle, nvcsw) + BPF_CORE_READ(idle, nivcsw);
	bool has_limit = device && bpf_core_field_exists(device->poll_limit_ns);
	__u32 limit_ns = has_limit ? BPF_CORE_READ(device, poll_limit_ns) : 0;
	__u64 before_ns = cpu->left_ns;
	bool goes_on = false;

	if (cpu->under_way && cpu->left_ns) {
		add_state(cpu, device);
		goes_on = is_polling(cpu->state) && !is_polling(state) && device &&
			  BPF_CORE_READ_BITFIELD_PROBED(device, poll_time_limit) &&
			  switches == cpu->switches;
		if (!goes_on) {
			cpu->period.limit_next_ns = limit_ns;
			send(&cpu->period);
		}
	}
	if (goes_on) {
		/* What came during the poll did not end it. */
		cpu->period.flags &= ~IDLE_WAKES;
		cpu->period.wake_ns = 0;
	} else {
		cpu->period = (struct idle_record){
			.start_ns = now,
			.cpu = number,
			.limit_ns = limit_ns,
			.flags = IDLE_RESIDENCY_KNOWN | (has_limit ? IDLE_LIMIT_KNOWN : 0),
		};
	}
	cpu->due_ns = 0;
	if (device && bpf_core_field_exists(device->next_hrtimer))
		cpu->due_ns = BPF_CORE_READ(device, next_hrtimer);
	cpu->entered_ns = now;
	cpu->left_ns = 0;
	cpu->sent_ns = 0;
	/* Work may have come since the last state, and ends this one at once; unless it was that of a task that ran. */
	if (switches != cpu->switches || cpu->stored_ns < before_ns)
		cpu->stored_ns = 0;
	cpu->switches = switches;
	cpu->state = state;
	cpu->under_way = 1;
}

static __always_inline void leave(struct cpu_state *cpu, __u64 now)
{
	cpu->left_ns = now;
	if (cpu->stored_ns)
		woken_by_store(cpu);
}

static __always_inline void idle(struct cpuidle_device *device, __u32 state, __u32 number)
{
	struct cpu_state *cpu = state_of(number);
	__u64 now = bpf_ktime_get_ns();

	if (!cpu)
		return;
	if (state != PWR_EVENT_EXIT)
		enter(cpu, device, number, state, now);
	else if (cpu->under_way && !cpu->left_ns)
		leave(cpu, now);
}

/* trace_cpu_idle(state, cpu) */
SEC("raw_tp/cpu_idle")
int BPF_PROG(on_cpu_idle, __u32 state, __u32 number)
{
	idle(WITH_DEVICE, state, number);
	return 0;
}

SEC("raw_tp/cpu_idle")
int BPF_PROG(on_cpu_idle_alone, __u32 state, __u32 number)
{
	idle(WITHOUT_DEVICE, state, number);
	return 0;
}

static __always_inline void adjusted(struct cpuidle_device *device, bool grow, __u32 new_ns, __u32 old_ns)
{
	struct cpu_state *cpu = state_of(bpf_get_smp_processor_id());

	if (!cpu || !cpu->under_way || !cpu->left_ns)
		return;
	cpu->period.flags |= grow ? IDLE_GREW : IDLE_SHRANK;
	cpu->period.change_old_ns = old_ns;
	cpu->period.change_new_ns = new_ns;
	if (device && bpf_core_field_exists(device->last_residency_ns))
		cpu->residency_ns = BPF_CORE_READ(device, last_residency_ns);
}

/* trace_guest_halt_poll_ns(grow, new, old): adjust_poll_limit in drivers/cpuidle/governors/haltpoll.c */
SEC("raw_tp/guest_halt_poll_ns")
int BPF_PROG(on_guest_halt_poll_ns, bool grow, __u32 new_ns, __u32 old_ns)
{
	adjusted(WITH_DEVICE, grow, new_ns, old_ns);
	return 0;
}

SEC("raw_tp/guest_halt_poll_ns")
int BPF_PROG(on_guest_halt_poll_ns_alone, bool grow, __u32 new_ns, __u32 old_ns)
{
	adjusted(WITHOUT_DEVICE, grow, new_ns, old_ns);
	return 0;
}

/*
 * An interrupt on this CPU. In HLT the first one wakes it; a poll goes on until one of them has brought work, the
 * last. Some drivers take the interrupt that ended a state only after they have left it: that one counts as well
 * while the idle task still runs.
 */
static __always_inline void interrupted(__u32 flag)
{
	struct cpu_state *cpu;

	if ((__u32)bpf_get_current_pid_tgid())
		return;
	cpu = state_of(bpf_get_smp_processor_id());
	if (!cpu || !cpu->under_way)
		return;
	if (cpu->period.flags & IDLE_WAKES && (cpu->left_ns || !is_polling(cpu->state)))
		return;
	cpu->period.flags &= ~IDLE_WAKES;
	cpu->period.flags |= flag;
	cpu->period.wake_ns = 0;
	if (flag == IDLE_WAKE_IPI)
		cpu->period.wake_ns = cpu->sent_ns;
	if (flag == IDLE_WAKE_TIMER && cpu->due_ns && cpu->due_ns < KTIME_MAX)
		cpu->period.wake_ns = cpu->due_ns;
}

SEC("raw_tp/local_timer_entry")
int BPF_PROG(on_local_timer)
{
	interrupted(IDLE_WAKE_TIMER);
	return 0;
}

SEC("raw_tp/reschedule_entry")
int BPF_PROG(on_reschedule)
{
	interrupted(IDLE_WAKE_IPI);
	return 0;
}

SEC("raw_tp/call_function_entry")
int BPF_PROG(on_call_function)
{
	interrupted(IDLE_WAKE_IPI);
	return 0;
}

SEC("raw_tp/call_function_single_entry")
int BPF_PROG(on_call_function_single)
{
	interrupted(IDLE_WAKE_IPI);
	return 0;
}

SEC("raw_tp/irq_handler_entry")
int BPF_PROG(on_irq_handler)
{
	interrupted(IDLE_WAKE_DEVICE);
	return 0;
}

/* trace_sched_wake_idle_without_ipi(cpu), on the CPU that wakes */
SEC("raw_tp/sched_wake_idle_without_ipi")
int BPF_PROG(on_wake_without_ipi, int number)
{
	struct cpu_state *cpu = state_of(number);

	if (cpu && cpu->under_way && (!cpu->stored_ns || cpu->left_ns))
		cpu->stored_ns = bpf_ktime_get_ns();
	return 0;
}

/* trace_ipi_send_cpu(cpu, callsite, callback), on the CPU that sends; 6.12 has it, 6.1 lacks it */
SEC("raw_tp/ipi_send_cpu")
int BPF_PROG(on_ipi_send, __u32 number)
{
	struct cpu_state *cpu = state_of(number);

	if (cpu && cpu->under_way && !cpu->left_ns && !cpu->sent_ns)
		cpu->sent_ns = bpf_ktime_get_ns();
	return 0;
}
