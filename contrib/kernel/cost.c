// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the instructions of halts in functions of virt/kvm/kvm_main.c, which contrib/kernel/cost extracts, in a process.
 * Clock, wake event and scheduler are simulated and not counted; tracepoints are off. With RULE defined, this is what
 * the extracted functions need, and the functions; else the simulation.
 *
 * Reads "gap latency" in ns, a halt a line; "0 0" begins a new vCPU. Prints for each halt whether it slept, its
 * instructions, and those of its waker.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t ktime_t;
#include "types.h"

struct rcuwait;
struct kvm {
	bool override_halt_poll_ns;
	unsigned int max_halt_poll_ns;
	int srcu;
};
struct kvm_vcpu {
	struct kvm *kvm;
	int vcpu_id;
	unsigned int halt_poll_ns;
	bool valid_wakeup, ready;
	u64 wakeup_ns;
#ifdef KVM_HALT_LEADER_WINDOWS
	struct kvm_halt_leader halt_leader;
#endif
	struct {
		struct kvm_vcpu_stat_generic generic;
	} stat;
};

#define min(a, b) ((a) < (b) ? (a) : (b))
bool kvm_arch_vcpu_runnable(struct kvm_vcpu *vcpu);
bool __kvm_vcpu_wake_up(struct kvm_vcpu *vcpu);
bool kvm_vcpu_wake_up(struct kvm_vcpu *vcpu);
void kvm_vcpu_halt(struct kvm_vcpu *vcpu);
ktime_t ktime_get(void);
void schedule(void);

#ifdef RULE

#define U32_MAX UINT32_MAX
#define NSEC_PER_USEC 1000L
#define KVM_HALT_POLL_NS_DEFAULT 200000
#define READ_ONCE(x) (*(volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define clamp_t(type, x, low, high) ((type)(x) < (type)(low) ? (type)(low) : min((type)(x), (type)(high)))
#define fls64(x) ((x) ? 64 - __builtin_clzll(x) : 0)
#define ktime_to_ns(time) (time)
#define ktime_sub(a, b) ((a) - (b))
#define ktime_add_ns(time, ns) ((time) + (ns))
#define ktime_before(a, b) ((a) < (b))
#define ktime_get_ns() ((u64)ktime_get())
#define module_param(name, type, mode) unsigned int *param_##name = &name
#define EXPORT_SYMBOL_GPL(name)
#define vcpu_valid_wakeup(vcpu) ((vcpu)->valid_wakeup)
#define kvm_arch_no_poll(vcpu) false
#define kvm_cpu_has_pending_timer(vcpu) false
#define kvm_check_request(request, vcpu) false
#define signal_pending(task) false
#define single_task_running() true
#define need_resched() false
#define srcu_read_lock(srcu) (*(srcu))
#define srcu_read_unlock(srcu, idx) ((void)(idx))
#define kvm_arch_vcpu_get_wait(vcpu) ((struct rcuwait *)NULL)
#define kvm_arch_vcpu_blocking(vcpu)
#define kvm_arch_vcpu_unblocking(vcpu)
#define prepare_to_rcuwait(wait) ((void)(wait))
#define finish_rcuwait(wait)
#define preempt_disable()
#define preempt_enable()
#define set_current_state(state)
#define smp_rmb() asm volatile("" ::: "memory")
#define cpu_relax() asm volatile("pause" ::: "memory")
#define trace_kvm_halt_poll_ns_grow(vcpu_id, new, old) ((void)(new), (void)(old))
#define trace_kvm_halt_poll_ns_shrink(vcpu_id, new, old) ((void)(new), (void)(old))
#define trace_kvm_vcpu_wakeup(...)
#include "rule.h"

#else

extern const char __start_rule[], __stop_rule[];
extern unsigned int halt_poll_ns, *param_halt_poll_policy __attribute__((weak));

static struct kvm_vcpu vcpu;
static struct kvm kvm;
static u64 now, wake, latency, stop;
static unsigned int executed, of_waker;
static bool found_nothing;

static void on_step(int signal, siginfo_t *info, void *context)
{
	const char *at = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	executed += at >= __start_rule && at < __stop_rule;
}

static void toggle_single_step(void)
{
	asm volatile("pushf; xorl $0x100, (%%rsp); popf" ::: "memory", "cc");
}

bool kvm_arch_vcpu_runnable(struct kvm_vcpu *vcpu)
{
	found_nothing = now < wake;
	return !found_nothing;
}

/* From one look of a poll to the next, time passes until the wake event or the end of the poll. */
ktime_t ktime_get(void)
{
	if (found_nothing && !vcpu.stat.generic.blocking)
		now = min(wake, stop);
	found_nothing = false;
	return now;
}

void schedule(void)
{
	unsigned int before = executed;

	now = wake;
	kvm_vcpu_wake_up(&vcpu);
	of_waker = executed - before;
	now += latency;
}

bool __kvm_vcpu_wake_up(struct kvm_vcpu *vcpu)
{
	return true;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	u64 gap;

	sigaction(SIGTRAP, &action, NULL);
	if (argc > 1)
		*param_halt_poll_policy = 1;
	while (scanf("%lu %lu", &gap, &latency) == 2) {
		u64 slept = vcpu.stat.generic.halt_wakeup;

		if (!gap) {
			memset(&vcpu, 0, sizeof(vcpu));
			vcpu.kvm = &kvm;
			vcpu.valid_wakeup = true;
			continue;
		}
		now += 5000;
		wake = now + gap;
		stop = now + min(vcpu.halt_poll_ns, halt_poll_ns);
		executed = of_waker = 0;
		toggle_single_step();
		kvm_vcpu_halt(&vcpu);
		toggle_single_step();
		printf("%d %u %u\n", vcpu.stat.generic.halt_wakeup > slept, executed - of_waker, of_waker);
	}
	return 0;
}

#endif
