/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * Single words of kernel memory, read without a call.
 *
 * bpf_rdonly_cast (kfunc, a35b9af4ec2c, 6.2) lets the verifier take an address for a pointer to a
 * type of the kernel's; a load through it becomes one instruction that yields 0 where the address
 * faults. bpf_probe_read_kernel does the same by a call of 40 to 80 ns. The types are stand-ins of
 * the right width from the kernel's own BTF: those of KVM may lie in a module's, which the cast
 * cannot name.
 */
#ifndef HALTWISE_PEEK_BPF_H
#define HALTWISE_PEEK_BPF_H

extern void *bpf_rdonly_cast(const void *address, __u32 btf_id) __ksym __weak;

/* Whether the running kernel can; where not, copy larger pieces by fewer calls. */
#define CAN_PEEK bpf_ksym_exists(bpf_rdonly_cast)

static __always_inline __u64 peek64(const void *address)
{
	struct timespec64 *word =
		bpf_rdonly_cast(address, bpf_core_type_id_kernel(struct timespec64));

	return word->tv_sec;
}

static __always_inline __u32 peek32(const void *address)
{
	struct upid *word = bpf_rdonly_cast(address, bpf_core_type_id_kernel(struct upid));

	return word->nr;
}

/* The first byte of a word; the three after it must lie in the same structure. */
static __always_inline __u8 peek8(const void *address)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return peek32(address);
#else
	return peek32(address) >> 24;
#endif
}

#endif
