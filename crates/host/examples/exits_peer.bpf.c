// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Exits counted as scripts for bcc and bpftrace do it: hash maps, by thread and reason. The peer of
 * `bench/overhead.py exits`, and no part of haltwise.
 *
 * On an exit the moment and the reason go into a map by thread; on the entry they come out of it, and the
 * time goes to a histogram by powers of two, found by thread and reason. What this host tells in place of
 * exits is counted alike: emulated instructions, returns to the VMM until the guest's FPU is loaded again.
 */
#include "../src/bpf/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define SLOTS 36

struct begun {
	__u64 ns;
	__u32 reason;
};

struct key {
	__u32 tid;
	__u32 kind;
	__u32 reason;
};

struct counted {
	__u64 count;
	__u64 sum_ns;
	__u32 slots[SLOTS];
};

enum { EXIT, EMULATION, RETURN };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct begun);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct key);
	__type(value, struct counted);
} counts SEC(".maps");

/* A value is too large for the stack of a program that does anything else. */
const struct counted nothing = {};

static __always_inline struct counted *find(__u32 kind, __u32 reason)
{
	struct key key = { .tid = bpf_get_current_pid_tgid(), .kind = kind, .reason = reason };
	struct counted *found = bpf_map_lookup_elem(&counts, &key);

	if (found)
		return found;
	bpf_map_update_elem(&counts, &key, &nothing, BPF_NOEXIST);
	return bpf_map_lookup_elem(&counts, &key);
}

static __always_inline void begin(__u32 kind, __u32 reason)
{
	__u64 who = bpf_get_current_pid_tgid() << 2 | kind;
	struct begun now = { .ns = bpf_ktime_get_ns(), .reason = reason };

	bpf_map_update_elem(&begun, &who, &now, BPF_ANY);
}

static __always_inline void end(__u32 kind)
{
	__u64 who = bpf_get_current_pid_tgid() << 2 | kind;
	struct begun *then = bpf_map_lookup_elem(&begun, &who);
	struct counted *counted;
	__u32 slot = 0;
	__u64 ns;

	if (!then)
		return;
	ns = bpf_ktime_get_ns() - then->ns;
	counted = find(kind, then->reason);
	bpf_map_delete_elem(&begun, &who);
	if (!counted)
		return;
	__sync_fetch_and_add(&counted->count, 1);
	__sync_fetch_and_add(&counted->sum_ns, ns);
	if (ns >> 32) { slot += 32; ns >>= 32; }
	if (ns >> 16) { slot += 16; ns >>= 16; }
	if (ns >> 8) { slot += 8; ns >>= 8; }
	if (ns >> 4) { slot += 4; ns >>= 4; }
	if (ns >> 2) { slot += 2; ns >>= 2; }
	if (ns >> 1) slot += 1;
	if (slot < SLOTS)
		__sync_fetch_and_add(&counted->slots[slot], 1);
}

/* As older kernels tell it, with the reason: what the benchmark plays. */
SEC("raw_tp/kvm_exit")
int peer_exit(__u64 *args)
{
	begin(EXIT, args[0]);
	return 0;
}

SEC("raw_tp/kvm_entry")
int peer_entry(__u64 *args)
{
	end(EXIT);
	return 0;
}

SEC("raw_tp/kvm_emulate_insn")
int peer_emulation(__u64 *args)
{
	struct counted *counted = find(EMULATION, 0);

	if (counted)
		__sync_fetch_and_add(&counted->count, 1);
	return 0;
}

SEC("raw_tp/kvm_userspace_exit")
int peer_return(__u64 *args)
{
	begin(RETURN, args[0]);
	return 0;
}

/* With 0 it does nothing: that is what the kernel's own measuring costs. */
SEC("raw_tp/kvm_fpu")
int peer_fpu(__u64 *args)
{
	if (args[0])
		end(RETURN);
	return 0;
}
