/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * The buckets of haltwise_core::hist, in the kernel.
 */
#ifndef HALTWISE_HIST_BPF_H
#define HALTWISE_HIST_BPF_H

/* haltwise_core::hist::bucket_of */
static __always_inline __u32 hist_bucket(__u64 value)
{
	__u32 octave = 0;
	__u64 rest = value;

	if (value < (1 << HIST_SUB_BITS))
		return value;
	if (rest >> 32) { octave += 32; rest >>= 32; }
	if (rest >> 16) { octave += 16; rest >>= 16; }
	if (rest >> 8) { octave += 8; rest >>= 8; }
	if (rest >> 4) { octave += 4; rest >>= 4; }
	if (rest >> 2) { octave += 2; rest >>= 2; }
	if (rest >> 1) octave += 1;

	__u32 part = (value >> (octave - HIST_SUB_BITS)) & ((1 << HIST_SUB_BITS) - 1);
	__u32 bucket = ((octave - HIST_SUB_BITS + 1) << HIST_SUB_BITS) + part;

	return bucket < HIST_BUCKETS ? bucket : HIST_BUCKETS - 1;
}

#endif
