/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_ARRIVAL_H
#define WHYLATE_ARRIVAL_H
/* What is known of a packet by the time it reaches a socket. */
#include "../record.h"

enum wl_arrival_flag {
	WL_ARR_HAS_ID = 1 << 0,
	WL_ARR_POLLED = 1 << 1, /* not in the first NAPI round after the raise */
	WL_ARR_IRQ_IDLE = 1 << 2, /* the device interrupt hit an idle CPU */
	WL_ARR_MULTICAST = 1 << 3,
	WL_ARR_BACKLOG = 1 << 4, /* TCP: handled by a task that owned the socket, not in softirq */
	WL_ARR_KNOWN = 1 << 5, /* rx_ns and the marks before it are valid */
	WL_ARR_HOP = 1 << 6, /* handed over by another CPU, which is irq_cpu then */
	WL_ARR_SQUEEZED = 1 << 7, /* a poll before had used up its budget */
};

struct wl_arrival {
	wl_u64 origin_ns; /* device interrupt, or the raise where there is none */
	wl_u64 raise_ns;
	wl_u64 entry_ns;
	wl_u64 rx_ns; /* netif_receive_skb */
	wl_u64 id;
	wl_u32 irq;
	wl_u32 ifindex;
	wl_u16 irq_cpu;
	wl_u16 rx_cpu;
	wl_u8 mode; /* enum wl_softirq_mode */
	wl_u8 origin; /* enum wl_origin */
	wl_u8 flags; /* enum wl_arrival_flag */
	wl_s8 irq_idle_state;
};

/* Nothing is known of it. */
static inline void wl_arrival_unknown(struct wl_arrival *a)
{
	a->origin_ns = 0;
	a->raise_ns = 0;
	a->entry_ns = 0;
	a->rx_ns = 0;
	a->id = 0;
	a->irq = WL_NO_IRQ;
	a->ifindex = 0;
	a->irq_cpu = WL_NO_CPU;
	a->rx_cpu = WL_NO_CPU;
	a->mode = WL_SOFTIRQ_UNKNOWN;
	a->origin = WL_ORIGIN_NONE;
	a->flags = 0;
	a->irq_idle_state = -1;
}

#endif
