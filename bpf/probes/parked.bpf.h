/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests kept with their socket while their thread goes on: the reply waits in a queue, or the datagram has not been
 * signalled yet. request.bpf.h parks them.
 */

/* Ends a parked request and frees its place. */
__noinline int wl_tx_end_parked(u32 slot)
{
	struct wl_parked *p = wl_parked_at(slot);
	struct wl_cpu *c = wl_cpu_here();
	struct wl_thread_entry *e;

	if (!p || !c)
		return 0;
	e = wl_slot_at(p->open.slot);
	if (e)
		wl_tx_end(c, &p->open, e, false);
	p->open.active = WL_OPEN_NO;
	p->in_use = 0;
	return 0;
}

/* The parked request at `at`, if its reply begins before end_seq. */
static __always_inline struct wl_parked *wl_tcp_parked_at(struct wl_tcp_socket *s, u32 at, u32 end_seq)
{
	struct wl_parked *p = wl_parked_at(s->parked[at & (WL_TCP_PENDING - 1)]);

	if ((s32)(s->parked_head - at) <= 0 || !p || !wl_seq_after(end_seq, p->open.write_seq))
		return NULL;
	return p;
}

/* Takes the oldest parked request that a packet up to end_seq ends: its place plus 1, 0 none. A place of WL_PARKED is no place. */
__noinline u32 wl_tcp_parked_take(struct wl_tcp_socket *s, u32 end_seq)
{
	u32 at, slot;

	if (!s)
		return 0;
	at = s->parked_tail;
	if (!wl_tcp_parked_at(s, at, end_seq))
		return 0;
	slot = s->parked[at & (WL_TCP_PENDING - 1)];
	/* if another CPU has taken it, there may be more */
	return (wl_tcp_park_take(&s->parked_tail, at) ? slot : WL_PARKED) + 1;
}

/* The packet that c->tx describes, up to end_seq, enters the queue: notes it in request `i` of the parked ones. Returns 0 behind the last. */
__noinline int wl_tcp_parked_mark(struct wl_tcp_socket *s, u32 i, u32 end_seq)
{
	struct wl_cpu *c = wl_cpu_here();
	struct wl_parked *p;

	if (!s || !c)
		return 0;
	p = wl_tcp_parked_at(s, s->parked_tail + i, end_seq);
	if (!p)
		return 0;
	if (p->open.held) {
		p->open.held = 0;
		p->open.tx_skb = c->tx.skb;
		p->open.request.tx_held_ns = bpf_ktime_get_ns() - p->open.devq_ns;
		p->open.request.tx_backlog = c->tx.backlog;
	}
	return 1;
}

/* Replies of a connection leave in order: those of the parked requests first. */
static __always_inline void wl_tx_tcp_parked(struct wl_cpu *c, struct wl_tcp_socket *s, u32 end_seq,
					     const struct sk_buff *skb, bool end)
{
	if (!end) {
		c->tx.skb = (u64)skb;
		c->tx.backlog = wl_backlog(skb->dev);
	}
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < WL_TCP_PENDING; i++) {
		if (end) {
			u32 slot = wl_tcp_parked_take(s, end_seq);

			if (!slot)
				break;
			wl_tx_end_parked(slot - 1);
		} else if (!wl_tcp_parked_mark(s, i, end_seq)) {
			break;
		}
	}
}

/* Does entry `i` wait for the packet at *skb (0: for a batch)? */
__noinline int wl_parked_awaits(struct wl_udp_socket *s, u64 *skb, u32 i)
{
	struct wl_parked_ref *ref;

	if (!s || !skb)
		return 0;
	ref = &s->parked[i & (WL_TX_PENDING - 1)];
	return ref->state == WL_OPEN_YES && ref->skb == *skb;
}

/* The entry that waits for the packet at *skb, or else for a batch; WL_TX_PENDING: none. A global function takes no pointer as a number. */
__noinline u32 wl_parked_find(struct wl_udp_socket *s, u64 *skb)
{
	u64 batch = 0;

	if (!s || !skb)
		return WL_TX_PENDING;
	for (u32 i = 0; i < WL_TX_PENDING; i++) {
		if (wl_parked_awaits(s, skb, i))
			return i;
	}
	/* in a loop of its own: in one, the verifier would look at every pair of a batch found and a place */
	for (u32 i = 0; i < WL_TX_PENDING; i++) {
		if (wl_parked_awaits(s, &batch, i))
			return i;
	}
	return WL_TX_PENDING;
}

static __always_inline bool wl_tx_parked(struct wl_cpu *c, struct wl_udp_socket *s,
					 const struct sk_buff *skb, const struct net_device *dev)
{
	struct wl_parked_ref *ref;
	u64 address = (u64)skb;
	u32 i = wl_parked_find(s, &address), slot;

	if (i >= WL_TX_PENDING)
		return false;
	ref = &s->parked[i & (WL_TX_PENDING - 1)];
	slot = ref->slot; /* the entry may be taken again as soon as it is free */
	if (!wl_udp_park_take(ref))
		return false;
	c->for_target = 1;
	__sync_fetch_and_sub(&s->waiting, 1);
	wl_tx_device(c, skb, dev, true);
	wl_tx_end_parked(slot);
	return true;
}

/*
 * A packet enters the queue at an address that a parked request waits for: that one's has been freed, and it was not reported on its
 * way out (some kernels leave out events in the context of some tasks). How long it waited is not known.
 */
static __always_inline void wl_tx_forget(struct wl_cpu *c, struct wl_udp_socket *s,
					 const struct sk_buff *skb)
{
	struct wl_parked_ref *ref;
	struct wl_parked *p;
	u64 address = (u64)skb;
	u32 i = wl_parked_find(s, &address);

	if (i >= WL_TX_PENDING)
		return;
	ref = &s->parked[i & (WL_TX_PENDING - 1)];
	p = wl_parked_at(ref->slot);
	if (!ref->skb || !wl_udp_park_take(ref))
		return;
	__sync_fetch_and_sub(&s->waiting, 1);
	wl_lose(c, WL_LOST_TX_PENDING);
	c->counters.incomplete++;
	if (p)
		p->in_use = 0;
}

/*
 * The reply to a datagram whose sk_data_ready has not been seen. Returns true if it has come by now (or cannot be waited for);
 * otherwise the request is kept until it does.
 */
static __always_inline bool wl_tx_await_push(struct wl_cpu *c, struct wl_open *open,
					     struct wl_thread_entry *e, struct wl_udp_socket *s,
					     const struct net_device *dev, bool in_reader)
{
	u64 now = bpf_ktime_get_ns();

	if (wl_pay_debt(open, s)) {
		wl_finish_read(open, e);
		return true;
	}
	open->request.ifindex = dev->ifindex;
	open->request.tx_cpu = (u16)bpf_get_smp_processor_id();
	open->request.end_ns = now;
	if (!open->devq_ns)
		wl_at_send(c, open, e, now, in_reader);
	open->active = WL_OPEN_ENDED;
	/* where something was not reported, its announcement will not be either */
	if (!open->unreported && wl_park(s, open, e)) {
		__sync_fetch_and_add(&s->awaited, 1);
		__sync_fetch_and_add(&wl_awaited_total, 1);
		if (in_reader)
			e->thread.activity_ns = now;
		return false;
	}
	open->active = WL_OPEN_YES;
	wl_settle_debt(open, e, s);
	return true;
}
