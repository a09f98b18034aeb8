/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_LOGIC_XSK_H
#define WHYLATE_LOGIC_XSK_H
/*
 * What can be said of the way of a packet to an AF_XDP socket: interrupt -> softirq -> redirect -> wake-up -> running ->
 * transmit call. A packet is known up to its redirect; a wake-up serves all that were redirected in its softirq; what is
 * read from the ring when is known to user space alone.
 */
#include "../record.h"

/* Stages in path order. The first three are of each packet, the next three of each wake-up, the last of each call. */
enum wl_xsk_stage {
	WL_XSK_HARD_IRQ = 0, /* the device's handler begins -> it raises NET_RX */
	WL_XSK_SOFTIRQ_WAIT = 1, /* raise -> NET_RX runs */
	WL_XSK_REDIRECT = 2, /* NET_RX runs -> this packet is redirected: those before it in the round included */
	WL_XSK_WAKE = 3, /* the round's first redirect -> a thread is woken (at the end of the driver's round) */
	WL_XSK_RUN_QUEUE = 4, /* woken -> it runs */
	WL_XSK_USER = 5, /* it runs -> its next transmit call begins */
	WL_XSK_TRANSMIT = 6, /* the transmit call */
	WL_XSK_NR_STAGES = 7,
};

/* How a redirected packet found the target. */
enum wl_xsk_found {
	WL_XSK_NO_SOFTIRQ = 0, /* a thread polls the device itself: nothing of the way before is known */
	WL_XSK_WAITS = 1, /* the round's end will tell */
	WL_XSK_WOKE = 2,
	WL_XSK_AWAKE = 3,
};

/* What one CPU is about. All marks are 0 when they do not apply. */
struct wl_xsk_cpu {
	wl_u64 irq_ns; /* a device's handler has been running since */
	wl_u64 raise_ns; /* NET_RX was raised and has not begun: the first raise */
	wl_u64 raise_irq_ns; /* begin of the handler that raised it; 0: raised outside of one */
	wl_u64 entry_ns; /* NET_RX has been running since */
	wl_u64 entry_raise_ns; /* its raise */
	wl_u64 entry_irq_ns; /* and the handler that raised it */
	wl_u64 first_ns; /* first packet of this round that has woken nobody yet */
	wl_u64 waiting; /* how many such packets */
	wl_u64 early_ns; /* generic mode: a thread was woken, and the redirect that did it has not been reported yet */
};

/* A thread of the target. */
struct wl_xsk_thread {
	wl_u64 waking_ns; /* woken for packets and not running yet */
	wl_u64 in_ns; /* runs since, for packets it was woken for; until its next transmit call */
	wl_u64 send_ns; /* in a send call since */
};

/* Times of one event; a stage that was not seen has no bit in `known`. */
struct wl_xsk_cut {
	wl_u64 ns[WL_XSK_NR_STAGES];
	wl_u32 known;
};

static inline void wl_xsk_cut_add(struct wl_xsk_cut *cut, enum wl_xsk_stage stage, wl_u64 from,
				  wl_u64 to)
{
	if (!from || to < from)
		return;
	cut->ns[stage] = to - from;
	cut->known |= 1u << stage;
}

static inline void wl_xsk_raise(struct wl_xsk_cpu *c, wl_u64 now)
{
	/* raised again while it is pending: the first raise is what made it pending */
	if (c->raise_ns)
		return;
	c->raise_ns = now;
	c->raise_irq_ns = c->irq_ns;
}

static inline void wl_xsk_entry(struct wl_xsk_cpu *c, wl_u64 now)
{
	c->entry_ns = now;
	c->entry_raise_ns = c->raise_ns;
	c->entry_irq_ns = c->raise_irq_ns;
	c->raise_ns = 0;
	c->raise_irq_ns = 0;
	c->first_ns = 0;
	c->waiting = 0;
	c->early_ns = 0;
}

/* End of NET_RX: the packets that woke nobody found the target awake. How many. */
static inline wl_u64 wl_xsk_exit(struct wl_xsk_cpu *c)
{
	wl_u64 awake = c->waiting;

	c->entry_ns = 0;
	c->first_ns = 0;
	c->waiting = 0;
	c->early_ns = 0;
	return awake;
}

/*
 * A packet for the target's socket was redirected. In native mode threads are woken at the end of the driver's round
 * (xsk_flush); in generic mode by each packet, before its redirect is reported (xsk_generic_rcv).
 */
static inline enum wl_xsk_found wl_xsk_redirect(struct wl_xsk_cpu *c, int generic, wl_u64 now,
						struct wl_xsk_cut *cut)
{
	enum wl_xsk_found found = c->early_ns ? WL_XSK_WOKE : WL_XSK_AWAKE;

	cut->known = 0;
	if (!c->entry_ns)
		return WL_XSK_NO_SOFTIRQ;
	if (c->entry_irq_ns)
		wl_xsk_cut_add(cut, WL_XSK_HARD_IRQ, c->entry_irq_ns, c->entry_raise_ns);
	if (c->entry_raise_ns)
		wl_xsk_cut_add(cut, WL_XSK_SOFTIRQ_WAIT, c->entry_raise_ns, c->entry_ns);
	wl_xsk_cut_add(cut, WL_XSK_REDIRECT, c->entry_ns, now);
	if (generic) {
		c->early_ns = 0;
		return found;
	}
	if (!c->first_ns)
		c->first_ns = now;
	c->waiting++;
	return WL_XSK_WAITS;
}

/* Generic mode: a thread of the target is woken in a softirq, so by the packet whose redirect follows. */
static inline int wl_xsk_early_wake(struct wl_xsk_cpu *c, struct wl_xsk_thread *t, wl_u64 now)
{
	if (!c->entry_ns || c->irq_ns)
		return 0;
	c->early_ns = now;
	t->waking_ns = now;
	t->in_ns = 0;
	return 1;
}

/* A thread of the target is woken on this CPU. How many packets it is woken for; 0: for something else. */
static inline wl_u64 wl_xsk_wake(struct wl_xsk_cpu *c, struct wl_xsk_thread *t, wl_u64 now,
				 struct wl_xsk_cut *cut)
{
	wl_u64 packets = c->waiting;

	cut->known = 0;
	/* a device's handler may wake it for reasons of its own in between */
	if (!packets || c->irq_ns)
		return 0;
	wl_xsk_cut_add(cut, WL_XSK_WAKE, c->first_ns, now);
	c->first_ns = 0;
	c->waiting = 0;
	t->waking_ns = now;
	t->in_ns = 0;
	return packets;
}

static inline void wl_xsk_switch_in(struct wl_xsk_thread *t, wl_u64 now, struct wl_xsk_cut *cut)
{
	cut->known = 0;
	if (!t->waking_ns)
		return;
	wl_xsk_cut_add(cut, WL_XSK_RUN_QUEUE, t->waking_ns, now);
	t->waking_ns = 0;
	t->in_ns = now;
}

/* A send call, on whatever descriptor, begins. */
static inline void wl_xsk_send_begin(struct wl_xsk_thread *t, wl_u64 now)
{
	t->send_ns = now;
}

/* It was one on the target's AF_XDP socket, and ends. */
static inline void wl_xsk_send_end(struct wl_xsk_thread *t, wl_u64 now, struct wl_xsk_cut *cut)
{
	cut->known = 0;
	if (!t->send_ns)
		return;
	wl_xsk_cut_add(cut, WL_XSK_TRANSMIT, t->send_ns, now);
	if (t->in_ns && t->in_ns <= t->send_ns)
		wl_xsk_cut_add(cut, WL_XSK_USER, t->in_ns, t->send_ns);
	t->in_ns = 0;
	t->send_ns = 0;
}

#endif
