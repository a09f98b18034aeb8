/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_UDP_DEBT_H
#define WHYLATE_UDP_DEBT_H
/* Debt: a read whose datagram was not signalled yet; see udp_queue.h. The late signal pays it. */
#include "udp_state.h"

/* Can this datagram be what that read returned? `skb` is its address, as it was received. */
static inline int wl_udp_debt_fits(const struct wl_udp_debt *debt, const struct wl_datagram *what,
				   wl_u64 skb)
{
	const struct wl_arrival *a = &what->arrival;

	if (!(a->flags & WL_ARR_KNOWN))
		return 1;
	if (skb && debt->front == skb)
		return 0;
	return a->rx_ns <= debt->read_ns + (a->rx_cpu == debt->cpu ? 0 : WL_CLOCK_SKEW_NS);
}

/* It does not fit by the clocks alone, and by so little that they may be wrong. */
static inline int wl_udp_debt_doubted(const struct wl_udp_debt *debt,
				      const struct wl_datagram *what, wl_u64 skb)
{
	const struct wl_arrival *a = &what->arrival;

	return !(skb && debt->front == skb) && a->rx_cpu != debt->cpu &&
	       a->rx_ns <= debt->read_ns + WL_CLOCK_DOUBT_NS;
}

/*
 * A signal that has not come for so long does not come. A debt given up is not counted here: its read is an unpaired request, or was
 * counted for what it is when it made the debt.
 */
#define WL_UDP_DEBT_MAX_NS 100000000ull

static inline void wl_udp_give_up(struct wl_udp_queue *q, wl_u64 now)
{
	struct wl_udp_debt *debt = &q->debts[q->debt_tail & (WL_UDP_DEBTS - 1)];

	if (debt->state == WL_DEBT_OPEN && debt->read_ns + WL_UDP_DEBT_MAX_NS < now) {
		debt->state = WL_DEBT_OVER;
		q->debt_tail++;
	}
}

/* Pays debt number `d` with that datagram if it is what it waits for. Returns 1 if so. */
WL_SHARED int wl_udp_pay_one(struct wl_udp_queue *q, const struct wl_datagram *what, wl_u64 skb,
			     wl_u64 d, struct wl_udp_push_result *result)
{
	struct wl_udp_debt *debt;

	if (!q || !what || !result)
		return 0;
	debt = &q->debts[d & (WL_UDP_DEBTS - 1)];
	if (debt->state != WL_DEBT_OPEN)
		return 0;
	if (!wl_udp_debt_fits(debt, what, skb)) {
		if (wl_udp_debt_doubted(debt, what, skb))
			result->doubted = 1;
		return 0; /* its own signal may still come, from another CPU */
	}
	if (!__sync_bool_compare_and_swap(&debt->state, WL_DEBT_OPEN, WL_DEBT_OVER))
		return 0;
	wl_datagram_copy(&debt->paid, what);
	debt->paid.order_unsure = debt->unsure || wl_udp_mixed(q, what->queued_ns);
	result->index = WL_UDP_DEBT_INDEX | d;
	*(volatile wl_u64 *)&debt->paid.generation = result->index + 1;
	return 1;
}

/* A datagram that was read before its signal. Returns 1 if a debt was waiting for it, of those from number `from` on. */
WL_SHARED int wl_udp_pay(struct wl_udp_queue *q, const struct wl_datagram *what, wl_u64 skb,
			 wl_u64 from, struct wl_udp_push_result *result)
{
	int paid = 0;

	if (!q || !what || !result)
		return 0;
	for (wl_u32 i = 0; i < WL_UDP_DEBTS && !paid; i++) {
		wl_u64 d = q->debt_tail + i;

		if (d >= q->debt_head)
			break;
		if (d >= from)
			paid = wl_udp_pay_one(q, what, skb, d, result);
	}
	for (wl_u32 i = 0; i < WL_UDP_DEBTS; i++) {
		if (q->debt_tail >= q->debt_head ||
		    q->debts[q->debt_tail & (WL_UDP_DEBTS - 1)].state == WL_DEBT_OPEN)
			break;
		q->debt_tail++;
	}
	return paid;
}

/* Will this debt never be paid? */
static inline int wl_udp_debt_is_over(const struct wl_udp_queue *q, wl_u64 index)
{
	wl_u64 d = index & ~WL_UDP_DEBT_INDEX;

	if (!(index & WL_UDP_DEBT_INDEX))
		return q->head > index + 1;
	return d < q->debt_tail || q->debts[d & (WL_UDP_DEBTS - 1)].state != WL_DEBT_OPEN;
}

static inline enum wl_udp_pop_status wl_udp_owe(struct wl_udp_queue *q, const struct wl_udp_read *r,
						wl_u64 *index)
{
	wl_u64 d = __sync_fetch_and_add(&q->debt_head, 1);
	struct wl_udp_debt *debt = &q->debts[d & (WL_UDP_DEBTS - 1)];

	if (d - q->debt_tail >= WL_UDP_DEBTS)
		q->debt_tail = d - WL_UDP_DEBTS + 1; /* the oldest is given up */
	debt->paid.generation = 0;
	debt->read_ns = r->now;
	debt->front = r->front;
	debt->cpu = r->cpu;
	debt->unsure = r->shared;
	*index = WL_UDP_DEBT_INDEX | d;
	/* from here on a signal pays it; see wl_udp_queue_retry for one that came at the same moment */
	__sync_lock_test_and_set(&debt->state, WL_DEBT_OPEN);
	return WL_POP_DEBT;
}

#endif
