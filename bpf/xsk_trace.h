/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_XSK_TRACE_H
#define WHYLATE_XSK_TRACE_H
/* What xsk_trace.bpf.c and user space share. Valid C11 (BPF) and C++20. */
#include "histogram.h"
#include "logic/xsk.h"
#include "record.h"

#define WL_XSK_MAX_CPUS 1024
#define WL_XSK_MAX_THREADS 1024
#define WL_XSK_MAX_SOCKETS 256

/* Sums of one CPU. Each program writes fields of its own, so that one that interrupts another spoils nothing. */
struct wl_xsk_totals {
	wl_u64 redirected; /* packets, into one of the target's sockets */
	wl_u64 failed; /* ... that the socket did not take */
	wl_u64 polled; /* of redirected: while no softirq ran */
	wl_u64 awake; /* of redirected: woke nobody, a thread was awake */
	wl_u64 woke; /* of redirected: a thread was woken for them */
	wl_u64 wakes;
	wl_u64 send_calls; /* on the target's sockets */
	wl_u64 lost; /* events of threads that found no room */
	wl_u64 count[WL_XSK_NR_STAGES];
	wl_u64 total_ns[WL_XSK_NR_STAGES];
	wl_u64 max_ns[WL_XSK_NR_STAGES];
	wl_u32 hist[WL_XSK_NR_STAGES][WL_HIST_BUCKETS];
	wl_u32 pad[2 - (WL_XSK_NR_STAGES * WL_HIST_BUCKETS) % 2];
};

/* One AF_XDP socket of the target. */
struct wl_xsk_line {
	wl_u64 inode;
	wl_u64 rx_frames; /* put into the receive ring so far; 32 bits wide in the kernel */
	wl_u64 tx_frames; /* taken from the transmit ring so far; likewise */
	wl_u64 rx_dropped;
	wl_u64 rx_ring_full;
	wl_u32 fd;
	wl_u32 ifindex; /* 0: not bound */
	wl_u32 queue;
	wl_u32 zero_copy;
};
WL_STATIC_ASSERT(sizeof(struct wl_xsk_line) == 56, "wl_xsk_line");

#endif
