/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_HISTOGRAM_H
#define WHYLATE_HISTOGRAM_H
/*
 * One log-linear layout for the kernel side, user space and the tests: values below 64 have a bucket each, above that every
 * power of two is cut into 32 equal buckets, so a bucket is never wider than 1/32 of its lower bound. Mergeable by addition.
 */
#include "record.h"

#define WL_HIST_SUB_BITS 5
#define WL_HIST_SUB (1u << WL_HIST_SUB_BITS)
#define WL_HIST_MAX_BITS 42 /* values at or above 2^42 ns (73 minutes) share the last bucket */
#define WL_HIST_BUCKETS ((WL_HIST_MAX_BITS - WL_HIST_SUB_BITS + 1) * WL_HIST_SUB)

/* Index of the highest set bit; v must not be 0. */
static inline wl_u32 wl_log2_u64(wl_u64 v)
{
	wl_u32 r = 0;

	if (v >> 32) {
		v >>= 32;
		r += 32;
	}
	if (v >> 16) {
		v >>= 16;
		r += 16;
	}
	if (v >> 8) {
		v >>= 8;
		r += 8;
	}
	if (v >> 4) {
		v >>= 4;
		r += 4;
	}
	if (v >> 2) {
		v >>= 2;
		r += 2;
	}
	if (v >> 1)
		r += 1;
	return r;
}

/* Bucket of a value; always below WL_HIST_BUCKETS. */
static inline wl_u32 wl_hist_index(wl_u64 v)
{
	wl_u32 high, index;

	if (v < 2 * WL_HIST_SUB)
		return (wl_u32)v;
	high = wl_log2_u64(v);
	if (high >= WL_HIST_MAX_BITS)
		return WL_HIST_BUCKETS - 1;
	index = (high - WL_HIST_SUB_BITS) * WL_HIST_SUB + (wl_u32)(v >> (high - WL_HIST_SUB_BITS));
	return index < WL_HIST_BUCKETS ? index : WL_HIST_BUCKETS - 1;
}

/* Lowest value of a bucket. */
static inline wl_u64 wl_hist_lower(wl_u32 index)
{
	wl_u32 shift;

	if (index < 2 * WL_HIST_SUB)
		return index;
	shift = index / WL_HIST_SUB - 1;
	return (wl_u64)(index % WL_HIST_SUB + WL_HIST_SUB) << shift;
}

/* Highest value of a bucket (the last bucket is open above). */
static inline wl_u64 wl_hist_upper(wl_u32 index)
{
	return wl_hist_lower(index + 1) - 1;
}

/*
 * The aggregates of one CPU over all complete requests with a reply. hist[WL_NR_STAGES] is the total. A stage of 0 ns is not
 * entered: its count is complete minus the histogram's sum.
 */
struct wl_aggregate {
	wl_u64 total_ns;
	wl_u64 max_total_ns;
	wl_u64 max_total_warm_ns; /* without the first two requests */
	wl_u64 stage_ns[WL_NR_STAGES];
	wl_u64 stage_max_ns[WL_NR_STAGES];
	wl_u64 theft_ns[WL_NR_THEFT]; /* what app_irq was */
	wl_u32 hist[WL_NR_STAGES + 1][WL_HIST_BUCKETS];
};

#endif
