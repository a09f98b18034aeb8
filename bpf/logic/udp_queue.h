/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_UDP_QUEUE_H
#define WHYLATE_UDP_QUEUE_H
/*
 * Datagrams waiting on one UDP socket: pushed at sk_data_ready, popped at sock_recv_length, strictly in order
 * (receive_queue then reader_queue, net/ipv4/udp.c).
 *
 * - head and tail are atomic: two CPUs may push, two threads may pop.
 * - an entry carries its generation, written last; a reader takes it only if the generation is the one it expects.
 * - it starts unsynchronised: what was queued before the attach is unknown. A sk_data_ready that finds exactly one datagram in
 *   the kernel's queue, the one just pushed, makes it tentative: a reader may still be on its way out with the one before. It is
 *   synchronised when a read leaves as many datagrams in the kernel's queue as entries here.
 * - debt: a spinning reader may take the datagram before sk_data_ready fires. The pop then finds its slot empty, keeps the
 *   index, and the late push lands in that very slot. A push whose packet arrived after that read cannot be the one: the index
 *   is given up (cancelled) and the next one is used.
 * - a signal may also be later than the read and everything up to the next one. A datagram that can have been read before is
 *   never what the FIFO synchronises on, and unsynchronises it: its entry would shift all later reads.
 * - two CPUs that queue at the same moment may signal in the other order than they queued, and on 6.18 one signals for both
 *   (the other's arrival is then unknown): such neighbours are marked.
 */
#include "arrival.h"

/* The default 212,992-byte receive buffer holds about 256 small datagrams (about 830 bytes of memory each). */
#define WL_UDP_QUEUE_LEN 512

struct wl_datagram {
	wl_u64 generation; /* index + 1 once the entry is whole */
	wl_u64 queued_ns; /* while empty: time of the read that found it so */
	struct wl_arrival arrival;
	wl_u8 saddr[16];
	wl_u16 sport;
	wl_u16 pusher; /* CPU that signalled it */
	wl_u32 order_unsure;
};

/*
 * Clocks of two CPUs may differ by so much: a spinning reader's clock has been seen to lie before the arrival of what it read
 * (kvm-clock on a host with an unstable TSC).
 */
#define WL_CLOCK_SKEW_NS 5000

/* Between queueing a datagram and signalling it lie well under this many ns. */
#define WL_ORDER_WINDOW_NS 20000

enum wl_udp_sync { WL_UDP_UNSYNCED = 0, WL_UDP_TENTATIVE = 1, WL_UDP_SYNCED = 2 };

struct wl_udp_queue {
	wl_u64 head;
	wl_u64 tail;
	wl_u64 debt_ns; /* last read that found its slot empty */
	wl_u64 unpaired_ns; /* last read that no datagram can be paired with any more; 0 none */
	wl_u32 synced; /* enum wl_udp_sync */
	wl_u32 pad;
	struct wl_datagram entries[WL_UDP_QUEUE_LEN];
};

struct wl_udp_push_result {
	wl_u64 index;
	wl_u8 cancelled; /* debts given up */
	wl_u8 overflow; /* longer than the FIFO: unsynchronised again */
};

/* Debts that are still open will not be found at their index any more. */
static inline void wl_udp_unsync(struct wl_udp_queue *q)
{
	q->synced = WL_UDP_UNSYNCED;
	if (q->debt_ns > q->unpaired_ns)
		q->unpaired_ns = q->debt_ns;
}

/* Could this datagram have been read already, by a read that was not paired with it? */
static inline int wl_udp_maybe_read(const struct wl_udp_queue *q, const struct wl_arrival *arrival, wl_u64 now)
{
	if (!q->unpaired_ns)
		return 0;
	if (arrival->flags & WL_ARR_KNOWN)
		return arrival->rx_ns <= q->unpaired_ns + WL_CLOCK_SKEW_NS;
	return now < q->unpaired_ns + WL_ORDER_WINDOW_NS;
}

/* Do the clock readings of two neighbours leave it open which was queued first? A CPU reads its clock before it takes an index. */
static inline int wl_udp_close(wl_u64 a, wl_u64 b)
{
	return (a > b ? a - b : b - a) < WL_ORDER_WINDOW_NS;
}

/*
 * `kernel_queue_len` is the number of datagrams the kernel holds for the socket now; only looked at while unsynchronised.
 * A datagram without a known arrival is pushed too, or later ones would shift.
 */
static inline struct wl_udp_push_result wl_udp_queue_push(struct wl_udp_queue *q, const struct wl_datagram *what,
							   wl_u32 kernel_queue_len)
{
	const struct wl_arrival *arrival = &what->arrival;
	wl_u64 now = what->queued_ns;
	struct wl_datagram *before;
	struct wl_udp_push_result result = { 0, 0, 0 };
	wl_u64 h = __sync_fetch_and_add(&q->head, 1);
	wl_u64 tail = q->tail;
	struct wl_datagram *e = &q->entries[h & (WL_UDP_QUEUE_LEN - 1)];
	int known = arrival->flags & WL_ARR_KNOWN;
	int maybe_read = wl_udp_maybe_read(q, arrival, now);

	if (maybe_read)
		wl_udp_unsync(q);
	if (q->synced && h >= tail && h - tail >= WL_UDP_QUEUE_LEN) {
		wl_udp_unsync(q);
		result.overflow = 1;
	}
	if (q->synced && h < tail && known && e->generation != h + 1 &&
	    e->queued_ns + WL_CLOCK_SKEW_NS < arrival->rx_ns) {
		result.cancelled = 1;
		if (e->queued_ns > q->unpaired_ns)
			q->unpaired_ns = e->queued_ns;
		h = __sync_fetch_and_add(&q->head, 1);
		e = &q->entries[h & (WL_UDP_QUEUE_LEN - 1)];
		if (h < tail && e->generation != h + 1 && e->queued_ns + WL_CLOCK_SKEW_NS < arrival->rx_ns)
			wl_udp_unsync(q); /* more than one signal is missing */
	}
	before = &q->entries[(h - 1) & (WL_UDP_QUEUE_LEN - 1)];
	e->generation = 0;
	e->queued_ns = now;
	e->arrival = *arrival;
	for (int i = 0; i < 16; i++)
		e->saddr[i] = what->saddr[i];
	e->sport = what->sport;
	e->pusher = what->pusher;
	e->order_unsure = before->generation != h && h; /* the one before is just being written */
	if (before->generation == h && (before->pusher != what->pusher || !known) && wl_udp_close(now, before->queued_ns)) {
		before->order_unsure = 1;
		e->order_unsure = 1;
	}
	*(volatile wl_u64 *)&e->generation = h + 1;
	result.index = h;
	if (!q->synced && kernel_queue_len == 1 && known && !maybe_read) {
		q->tail = h;
		q->synced = WL_UDP_TENTATIVE;
	}
	return result;
}

/* Has a neighbour been signalled meanwhile that may have been queued first? */
static inline int wl_udp_order_unsure(const struct wl_udp_queue *q, wl_u64 index)
{
	const struct wl_datagram *e = &q->entries[index & (WL_UDP_QUEUE_LEN - 1)];

	return e->generation == index + 1 && e->order_unsure;
}

/* A new socket takes the queue over: the counters go on, so that no old entry has a generation still to come. */
static inline void wl_udp_queue_reset(struct wl_udp_queue *q)
{
	q->tail = q->head;
	q->synced = WL_UDP_UNSYNCED;
	q->debt_ns = 0;
	q->unpaired_ns = 0;
}

enum wl_udp_pop_status {
	WL_POP_OK = 0,
	WL_POP_UNSYNCED = 1,
	WL_POP_DEBT = 2, /* slot still empty: look again at *index when the request ends */
	WL_POP_TORN = 3,
};

/* Copies a whole entry out; WL_POP_TORN if it changed meanwhile, WL_POP_DEBT if it is not there yet. */
static inline enum wl_udp_pop_status wl_udp_queue_take(const struct wl_udp_queue *q, wl_u64 index, struct wl_datagram *out)
{
	const struct wl_datagram *e = &q->entries[index & (WL_UDP_QUEUE_LEN - 1)];

	if (*(const volatile wl_u64 *)&e->generation != index + 1)
		return WL_POP_DEBT;
	*out = *e;
	return *(const volatile wl_u64 *)&e->generation == index + 1 ? WL_POP_OK : WL_POP_TORN;
}

/* `kernel_queue_len`: what this read has left in the kernel's queue; only looked at until synchronised. */
WL_SHARED enum wl_udp_pop_status wl_udp_queue_pop(struct wl_udp_queue *q, wl_u64 now, wl_u32 kernel_queue_len, wl_u64 *index,
						  struct wl_datagram *out)
{
	enum wl_udp_pop_status status;
	int proven;

	if (!q || !index || !out)
		return WL_POP_UNSYNCED;
	if (!q->synced) {
		q->unpaired_ns = now;
		return WL_POP_UNSYNCED;
	}
	*index = __sync_fetch_and_add(&q->tail, 1);
	proven = q->synced == WL_UDP_SYNCED;
	if (!proven) {
		wl_s64 ahead = (wl_s64)(q->head - *index - 1) - kernel_queue_len;

		if (ahead > 0) {
			wl_udp_unsync(q);
			q->unpaired_ns = now;
			return WL_POP_UNSYNCED;
		}
		/* fewer than in the kernel: some are queued and not signalled yet, the next read will tell */
		proven = !ahead;
		if (proven)
			q->synced = WL_UDP_SYNCED;
	}
	status = wl_udp_queue_take(q, *index, out);
	if (status == WL_POP_DEBT) {
		q->entries[*index & (WL_UDP_QUEUE_LEN - 1)].queued_ns = now;
		q->debt_ns = now;
	}
	return proven ? status : WL_POP_UNSYNCED;
}

#endif
