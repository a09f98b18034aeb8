/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_UDP_STATE_H
#define WHYLATE_UDP_STATE_H
/* What is kept of the datagrams of one UDP socket: the copy of the kernel's queue, the debts, a read being paired. udp_queue.h tells how. */
#include "arrival.h"

/* The default 212,992-byte receive buffer holds about 256 small datagrams (about 830 bytes of memory each). */
#define WL_UDP_QUEUE_LEN 512
#define WL_UDP_DEBTS 8

struct wl_datagram {
	wl_u64 generation; /* index + 1 once the entry is whole */
	wl_u64 skb; /* address in the kernel's queue, only compared; 0: was not there any more when it was signalled */
	wl_u64 queued_ns;
	struct wl_arrival arrival;
	wl_u8 saddr[16];
	wl_u16 sport;
	wl_u16 pusher; /* CPU that signalled it */
	wl_u32 order_unsure;
	wl_u32 woken_tid; /* thread that the signal woke, 0 none */
	wl_u32 fanout_ns; /* multicast: since the first socket had it */
	wl_u16 fanout_rank; /* multicast: which socket this was, from 1; 0 unknown */
	wl_u16 unseen; /* no program has seen it come, and its signal was not its own: queued_ns is too late */
	wl_u16 slot; /* of its packet among those of its CPU */
	wl_u16 pad;
};

/*
 * Clocks of two CPUs may differ by so much: a spinning reader's clock has been seen to lie before the arrival of what it read
 * (kvm-clock on a host with an unstable TSC). Readings of one CPU are in order.
 */
#define WL_CLOCK_SKEW_NS 5000

/* More than that has been seen once in a few thousand requests. Up to here it is a doubt, and no proof that one came before the other. */
#define WL_CLOCK_DOUBT_NS 100000

/* Between queueing a datagram and signalling it lie well under this many ns. */
#define WL_ORDER_WINDOW_NS 20000

/* For so long after a change of the signalling CPU both are taken to signal. */
#define WL_MIXED_NS 10000000

/* Mark of an entry that was read before the one ahead of it. */
#define WL_UDP_CONSUMED 1

enum wl_udp_sync { WL_UDP_UNSYNCED = 0, WL_UDP_SYNCED = 1 };

enum wl_debt_state { WL_DEBT_NONE = 0, WL_DEBT_OPEN = 1, WL_DEBT_OVER = 2 };

struct wl_udp_debt {
	wl_u64 read_ns;
	wl_u64 front; /* what the kernel's queue began with after the read */
	wl_u32 state; /* enum wl_debt_state */
	wl_u16 cpu; /* of the read */
	wl_u16 unsure; /* the socket has several readers */
	struct wl_datagram paid;
};

/* Indexes from here on are debts, the others entries. */
#define WL_UDP_DEBT_INDEX (1ull << 63)

struct wl_udp_queue {
	wl_u64 head;
	wl_u64 tail;
	wl_u64 debt_head;
	wl_u64 debt_tail; /* the debts before it are paid or given up */
	wl_u64 last_skb; /* newest datagram pushed from the kernel's queue and not read yet, 0: all of the queue is to be pushed */
	wl_u64 doubted; /* entries before it may have been read while out of step */
	wl_u64 mixed_ns; /* when the CPU that signals last changed, 0 never */
	wl_u64 unsure_below; /* several readers: entries that may have been swapped */
	wl_u64 unsure_until_ns; /* and reads */
	wl_u32 synced; /* enum wl_udp_sync */
	wl_u32 popping; /* reads being paired at this moment */
	wl_u32 doubtful; /* reads in a row that were marked */
	wl_u32 pusher; /* CPU of the last signal */
	wl_u32 pad;
	wl_u32 ahead; /* datagrams pushed at the signal of another one: their own signals are still to come */
	struct wl_udp_debt debts[WL_UDP_DEBTS];
	struct wl_datagram entries[WL_UDP_QUEUE_LEN];
};

struct wl_udp_push_result {
	wl_u64 debts_before; /* in: q->debt_head before the kernel's queue was looked at */
	wl_u64 index;
	wl_u8 overflow; /* longer than the FIFO: unsynchronised again */
	wl_u8 paid;
	wl_u8 doubted; /* it came just after a read that waits for its datagram, by the clock of another CPU */
};

/* Do the clock readings of two neighbours leave it open which was queued first? */
static inline int wl_udp_close(wl_u64 a, wl_u64 b)
{
	return (a > b ? a - b : b - a) < WL_ORDER_WINDOW_NS;
}

static inline void wl_datagram_copy(struct wl_datagram *to, const struct wl_datagram *from)
{
	to->skb = from->skb;
	to->queued_ns = from->queued_ns;
	to->arrival = from->arrival;
	for (int i = 0; i < 16; i++)
		to->saddr[i] = from->saddr[i];
	to->sport = from->sport;
	to->pusher = from->pusher;
	to->order_unsure = from->order_unsure;
	to->woken_tid = from->woken_tid;
	to->fanout_ns = from->fanout_ns;
	to->fanout_rank = from->fanout_rank;
	to->unseen = from->unseen;
	to->slot = from->slot;
}

/* Do several CPUs signal for this socket these days? */
static inline int wl_udp_mixed(const struct wl_udp_queue *q, wl_u64 now)
{
	return q->mixed_ns && now < q->mixed_ns + WL_MIXED_NS;
}

enum wl_udp_pop_status {
	WL_POP_OK = 0,
	WL_POP_UNSYNCED = 1,
	WL_POP_DEBT = 2, /* not signalled yet: look again at *index when the request ends */
	WL_POP_TORN = 3,
};

/* What is known at the end of a read. */
struct wl_udp_read {
	wl_u64 now;
	wl_u64 head; /* q->head, taken before the kernel's queue is looked at */
	wl_u64 front; /* datagram that the kernel's queue begins with now; 0: it is empty */
	wl_u64 second; /* and the one after it */
	wl_u16 cpu;
	wl_u8 shared; /* the socket has several readers */
	wl_u8 unsure; /* out: another read was under way, this one may be its */
	wl_u8 proven; /* out */
	wl_u8 pad[3];
};

#endif
