/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_UDP_QUEUE_H
#define WHYLATE_UDP_QUEUE_H
/*
 * Datagrams waiting on one UDP socket: a copy of the kernel's queue (receive_queue behind reader_queue, net/ipv4/udp.c) with what is
 * known of each arrival. Pushed at sk_data_ready, popped at sock_recv_length.
 *
 * - A signal does not say for which datagram it is: two CPUs may signal in the other order than they queued, and on 6.18 one of
 *   them may signal for both. So the caller pushes, at each signal, what its CPU received and finds read already, and then all of the
 *   kernel's queue that has not been pushed, in its order; some signals then have nothing to push any more (`ahead`).
 * - Some kernels run no program in the context of some tasks: a softirq on top of one receives, queues and wakes unseen. Such a datagram
 *   is pushed with what comes behind it, its arrival unknown; one with nothing behind it is a debt that nobody pays.
 * - Which datagram a read returned is told by the one the kernel's queue begins with afterwards: it is the one before. With an empty
 *   queue it is the newest. So a read is paired by evidence and not by counting, and no error outlives the next read. Only where the
 *   evidence is missing (the queue begins with a datagram that nobody has signalled yet) is it the next in the order of pushes,
 *   and then it says so.
 * - Debt: a read whose datagram was not signalled yet, from a reader that did not sleep. The late signal finds its datagram gone from the
 *   kernel's queue and pays the debt. A datagram that arrived after the read, or that the queue began with after it, is not the one.
 * - Several readers: between taking a datagram and the end of the read others may do the same, in any order. Then the pairing is
 *   marked; with no other read under way it is as sure as with one reader.
 * - head and tail are atomic: two CPUs may push, two threads may pop. An entry carries its generation, written last.
 */
#include "udp_debt.h"
/* Read, and freed: its address may be that of a datagram to come. */
static inline void wl_udp_gone(struct wl_udp_queue *q, wl_u64 skb)
{
	if (skb)
		__sync_val_compare_and_swap(&q->last_skb, skb, 0);
}

/* What a datagram of the kernel's queue is to the copy of it. */
enum wl_seen {
	WL_SEEN_PUSHED = 0,
	WL_SEEN_NEW = 1, /* its packet is known */
	WL_SEEN_STRANGE = 2, /* no packet is known for it */
};

/*
 * newest: it is the newest pushed one; all that are queued behind that have not been pushed. found: there is a packet for its buffer.
 * used: that has been pushed; a multicast one is for many sockets.
 */
static inline enum wl_seen wl_udp_seen(int newest, int found, int used, int multicast)
{
	if (!found)
		return newest ? WL_SEEN_PUSHED : WL_SEEN_STRANGE;
	return used || (multicast && newest) ? WL_SEEN_PUSHED : WL_SEEN_NEW;
}

/*
 * what->skb: the datagram is in the kernel's queue, there; 0: it has been read. `skb` is then its address as it was received, 0 unknown.
 * A datagram without a known arrival is pushed too, it has been read or will be.
 */
WL_SHARED int wl_udp_queue_push(struct wl_udp_queue *q, const struct wl_datagram *what, wl_u64 skb,
				struct wl_udp_push_result *result)
{
	struct wl_datagram *before, *e;
	wl_u64 h;
	int known;

	if (!q || !what || !result)
		return 0;
	result->index = 0;
	result->overflow = 0;
	result->paid = 0;
	result->doubted = 0;
	known = what->arrival.flags & WL_ARR_KNOWN;
	if (q->pusher != what->pusher) {
		if (q->head)
			q->mixed_ns = what->queued_ns;
		q->pusher = what->pusher;
	}
	if (q->debt_tail < q->debt_head) {
		wl_udp_give_up(q, what->queued_ns);
		if (!what->skb && wl_udp_pay(q, what, skb, 0, result)) {
			result->paid = 1;
			return 0;
		}
	}
	h = __sync_fetch_and_add(&q->head, 1);
	e = &q->entries[h & (WL_UDP_QUEUE_LEN - 1)];
	if (h >= q->tail && h - q->tail >= WL_UDP_QUEUE_LEN) {
		q->synced = WL_UDP_UNSYNCED;
		q->tail = h;
		result->overflow = 1;
	}
	before = &q->entries[(h - 1) & (WL_UDP_QUEUE_LEN - 1)];
	e->generation = 0;
	wl_datagram_copy(e, what);
	e->order_unsure = before->generation != h && h; /* the one before is just being written */
	if (before->generation == h && (before->pusher != what->pusher || !known) &&
	    wl_udp_close(what->queued_ns, before->queued_ns)) {
		before->order_unsure = 1;
		e->order_unsure = 1;
	}
	if (what->skb)
		q->last_skb = what->skb;
	else if (wl_udp_mixed(q, what->queued_ns))
		e->order_unsure = 1; /* it may have been paired with another CPU's signal */
	if (!what->skb && result->doubted)
		e->order_unsure = 1; /* a read that has ended took it, or the one that is under way */
	*(volatile wl_u64 *)&e->generation = h + 1;
	result->index = h;
	/*
	 * The read may have ended at the same moment, and found nothing: whoever settles the debt's state has it. One that was in the
	 * kernel's queue can only be the datagram of a read that ended since.
	 */
	if (__sync_val_compare_and_swap(&q->debt_head, ~0ull, ~0ull) != q->debt_tail &&
	    wl_udp_pay(q, what, what->skb ? what->skb : skb, what->skb ? result->debts_before : 0,
		       result)) {
		e->skb = WL_UDP_CONSUMED;
		wl_udp_gone(q, what->skb);
		result->paid = 1;
	}
	return 0;
}

/* Has a neighbour been signalled meanwhile that may have been queued first? Only for reads without evidence. */
static inline int wl_udp_order_unsure(const struct wl_udp_queue *q, wl_u64 index)
{
	const struct wl_datagram *e = &q->entries[index & (WL_UDP_QUEUE_LEN - 1)];

	return !(index & WL_UDP_DEBT_INDEX) && e->generation == index + 1 && e->order_unsure;
}

/* A new socket takes the queue over: the counters go on, so that no old entry has a generation still to come. */
static inline void wl_udp_queue_reset(struct wl_udp_queue *q)
{
	q->tail = q->head;
	q->debt_tail = q->debt_head;
	q->last_skb = 0;
	q->unsure_below = 0;
	q->unsure_until_ns = 0;
	q->popping = 0;
	q->doubtful = 0;
	q->ahead = 0;
	q->mixed_ns = 0;
	q->synced = WL_UDP_UNSYNCED;
}

/* Copies a whole entry or debt out; WL_POP_TORN if it changed meanwhile, WL_POP_DEBT if it is not there yet. */
static inline enum wl_udp_pop_status wl_udp_queue_take(const struct wl_udp_queue *q, wl_u64 index,
						       struct wl_datagram *out)
{
	const struct wl_datagram *e = &q->entries[index & (WL_UDP_QUEUE_LEN - 1)];

	if (index & WL_UDP_DEBT_INDEX)
		e = &q->debts[index & (WL_UDP_DEBTS - 1)].paid;
	if (*(const volatile wl_u64 *)&e->generation != index + 1)
		return WL_POP_DEBT;
	*out = *e;
	return *(const volatile wl_u64 *)&e->generation == index + 1 ? WL_POP_OK : WL_POP_TORN;
}

/* Index of the entry behind t + 1 that the kernel's queue begins with, 0 none. */
WL_SHARED wl_u64 wl_udp_front_index(const struct wl_udp_queue *q, wl_u64 t, wl_u64 head, wl_u64 front)
{
	if (!q)
		return 0;
	for (wl_u64 k = 2; k < 10; k++) {
		const struct wl_datagram *e = &q->entries[(t + k) & (WL_UDP_QUEUE_LEN - 1)];

		if (t + k >= head)
			break;
		if (e->generation == t + k + 1 && e->skb == front)
			return t + k;
	}
	return 0;
}

/* The first entry from i on that is still to be read. */
WL_SHARED wl_u64 wl_udp_next(const struct wl_udp_queue *q, wl_u64 i, wl_u64 head)
{
	if (!q)
		return i;
	for (int n = 0; n < 8; n++, i++) {
		const struct wl_datagram *e = &q->entries[i & (WL_UDP_QUEUE_LEN - 1)];

		if (i >= head || e->generation != i + 1 || e->skb != WL_UDP_CONSUMED)
			break;
	}
	return i;
}

/*
 * The kernel's queue begins with entry t: what has been read was signalled after it. That is an entry which was not in the queue at
 * its signal, or one that two CPUs have pushed in the wrong order and that is not in the queue any more. 0: not signalled yet.
 */
WL_SHARED wl_u64 wl_udp_overtaker(const struct wl_udp_queue *q, wl_u64 t, wl_u64 head, wl_u64 second)
{
	const struct wl_datagram *next, *third;

	if (!q)
		return 0;
	next = &q->entries[(t + 1) & (WL_UDP_QUEUE_LEN - 1)];
	third = &q->entries[(t + 2) & (WL_UDP_QUEUE_LEN - 1)];
	for (wl_u64 i = t + 1; i < t + 9; i++) {
		const struct wl_datagram *e = &q->entries[i & (WL_UDP_QUEUE_LEN - 1)];

		if (i >= head)
			break;
		if (e->generation == i + 1 && !e->skb)
			return i;
	}
	if (t + 1 < head && next->generation == t + 2 && next->skb != WL_UDP_CONSUMED &&
	    next->skb != second && (!second || (third->generation == t + 3 && third->skb == second)))
		return t + 1;
	return 0;
}

/* From taking a datagram to the end of the read it is hardly ever longer. */
#define WL_OVERTAKE_NS 100000

/* Reads in a row that several readers may have swapped, after which entries too many are taken for the reason. */
#define WL_UDP_DOUBTFUL 64

/* The datagram of the read that has just ended. */
WL_SHARED enum wl_udp_pop_status wl_udp_queue_pop(struct wl_udp_queue *q, struct wl_udp_read *r,
						  wl_u64 *index, struct wl_datagram *out)
{
	enum wl_udp_pop_status status;
	struct wl_datagram *e, *next;
	wl_u64 t, behind, last, upto = 0, overtaker = 0;
	int found, proven = 0, other = 0;

	if (!q || !r || !index || !out)
		return WL_POP_UNSYNCED;
	r->unsure = 0;
	r->proven = 0;
	last = *(volatile wl_u64 *)&q->last_skb;
	if (!r->front && r->head == q->head)
		wl_udp_gone(q, last);
	if (r->shared) {
		other = __sync_fetch_and_add(&q->popping, 1) != 0;
		t = __sync_fetch_and_add(&q->tail, 1);
	} else {
		t = wl_udp_next(q, q->tail, r->head);
	}
	behind = wl_udp_next(q, t + 1, r->head);
	e = &q->entries[t & (WL_UDP_QUEUE_LEN - 1)];
	next = &q->entries[behind & (WL_UDP_QUEUE_LEN - 1)];
	found = r->head > t;
	if (!r->front && q->synced != WL_UDP_SYNCED && t < q->doubted) {
		q->tail = r->head;
		found = 0;
	} else if (!r->front) {
		/* with several readers somebody may be on the way with a datagram that is not signalled yet */
		proven = found && !r->shared;
		if (r->head > behind) {
			upto = r->head;
			if (!r->shared)
				t = r->head - 1;
		}
	} else if (next->generation == behind + 1 && next->skb == r->front) {
		proven = found;
	} else if (found && e->generation == t + 1 && e->skb == r->front) {
		overtaker = r->shared ? 0 : wl_udp_overtaker(q, t, r->head, r->second);
		found = proven = overtaker != 0;
	} else {
		upto = wl_udp_front_index(q, t, r->head, r->front);
		if (upto) {
			proven = 1;
			if (!r->shared)
				t = upto - 1;
		} else if (q->synced != WL_UDP_SYNCED) {
			q->doubted = r->head;
			found = 0;
		} else if (r->second && e->generation == t + 1 && e->skb == r->second) {
			found = 0; /* still in the queue */
		}
	}
	if (!found) {
		if (r->shared)
			__sync_bool_compare_and_swap(&q->tail, t + 1, t);
		status = wl_udp_owe(q, r, index);
		if (q->synced != WL_UDP_SYNCED)
			status = WL_POP_UNSYNCED; /* nobody will ask for it, but its signal must not look like that of a later read */
	} else {
		*index = overtaker ? overtaker : t;
		status = wl_udp_queue_take(q, *index, out);
		if (status == WL_POP_OK)
			wl_udp_gone(q, out->skb);
		if (overtaker)
			q->entries[overtaker & (WL_UDP_QUEUE_LEN - 1)].skb = WL_UDP_CONSUMED;
		else if (!r->shared)
			q->tail = t + 1;
		if (proven)
			q->synced = WL_UDP_SYNCED;
		if (r->shared) {
			if (upto > q->unsure_below)
				q->unsure_below = upto;
			r->unsure = !proven || other || t < q->unsure_below ||
				    r->now < q->unsure_until_ns;
			if (!proven || other || upto)
				q->unsure_until_ns = r->now + WL_OVERTAKE_NS;
		}
		r->proven = proven && !r->unsure;
		if (r->proven && out->skb)
			out->order_unsure = 0;
		q->doubtful = r->unsure ? q->doubtful + 1 : 0;
		if (q->doubtful > WL_UDP_DOUBTFUL && !r->front && r->head > q->tail) {
			q->tail = r->head;
			q->doubtful = 0;
		}
	}
	if (r->shared)
		__sync_fetch_and_add(&q->popping, (wl_u32)-1);
	return status;
}

/*
 * After WL_POP_DEBT, with r->front looked at anew: has the entry come meanwhile? The push looks for the debt after it has written its
 * entry, this looks for the entry after the debt is there, so one of them finds the other; the debt's state decides between them.
 */
WL_SHARED enum wl_udp_pop_status wl_udp_queue_retry(struct wl_udp_queue *q,
						    const struct wl_udp_read *r, wl_u64 *index,
						    struct wl_datagram *out)
{
	struct wl_udp_debt *debt;
	struct wl_datagram *e;
	wl_u64 t;

	if (!q || !r || !index || !out || r->shared || !(*index & WL_UDP_DEBT_INDEX))
		return WL_POP_DEBT;
	t = wl_udp_next(q, q->tail, q->head);
	e = &q->entries[t & (WL_UDP_QUEUE_LEN - 1)];
	debt = &q->debts[*index & (WL_UDP_DEBTS - 1)];
	if (t >= q->head || *(volatile wl_u64 *)&e->generation != t + 1 ||
	    (e->skb && e->skb == r->front))
		return WL_POP_DEBT;
	if (!__sync_bool_compare_and_swap(&debt->state, WL_DEBT_OPEN, WL_DEBT_OVER))
		return WL_POP_DEBT;
	*index = t;
	q->tail = t + 1;
	return wl_udp_queue_take(q, t, out);
}

#endif
