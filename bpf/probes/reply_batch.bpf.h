/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Replies to requests that were read together: told by their peer, in the order of the reads. */

/* As wl_tx_forget, for an entry of a batch. */
static __always_inline void wl_tx_forget_batched(struct wl_cpu *c, struct wl_udp_socket *s, u32 i)
{
	struct wl_batched *b = wl_batch_take(s, i);

	if (!b)
		return;
	wl_lose(c, WL_LOST_TX_PENDING);
	c->counters.incomplete++;
	b->in_use = 0;
}

/* Takes entry `i` of the batch for the packet that c->tx describes: its place in wl_batched_requests plus 1, 0 none. */
__noinline u32 wl_batch_answer(struct wl_udp_socket *s, u32 i)
{
	struct wl_cpu *c = wl_cpu_here();
	struct wl_thread_entry *e;
	struct wl_batched *b;
	u32 slot;

	if (!s || !c)
		return 0;
	slot = s->batch[i & (WL_BATCH - 1)];
	b = wl_batch_take(s, i);
	if (!b)
		return 0;
	wl_batch_behind(s, &b->open, c->tx.now_ns);
	e = wl_slot_at(b->open.slot);
	if (!e)
		return slot;
	e->replied = 1;
	c->tx.in_reader = !c->timeline.in_softirq && e->thread.tid == (u32)bpf_get_current_pid_tgid();
	return slot;
}

/* Ends a request that wl_batch_answer() took, and frees its place. Apart from that, to keep the frame small, as wl_tx_end_parked. */
__noinline int wl_tx_end_batched(u32 slot_plus_one)
{
	struct wl_batched *b = slot_plus_one ? wl_batched_at(slot_plus_one - 1) : NULL;
	struct wl_cpu *c = wl_cpu_here();
	struct wl_thread_entry *e;

	if (!b || !c)
		return 0;
	e = wl_slot_at(b->open.slot);
	if (e)
		wl_tx_end(c, &b->open, e, c->tx.in_reader);
	b->in_use = 0;
	return 0;
}

/* Replies in one buffer that the driver, or what lies behind it, cuts into packets (UDP_SEGMENT). */
static __always_inline u32 wl_replies_in(const struct sk_buff *skb)
{
	const struct skb_shared_info *shared = (void *)(skb->head + skb->end);

	return BPF_CORE_READ(shared, gso_size) ? BPF_CORE_READ(shared, gso_segs) : 1;
}

/* The reply to requests of a batch. Returns whether that is all that is in the packet. */
static __always_inline bool wl_tx_batch(struct wl_cpu *c, struct wl_udp_socket *s,
					const struct sk_buff *skb, const struct net_device *dev,
					bool end)
{
	struct wl_thread_entry *e;
	struct wl_batched *b;
	struct wl_peer peer;
	u32 i, left;

	if (!wl_peer_of(skb, &peer))
		return false;
	i = wl_batch_find(s, &peer);
	if (!end && i < WL_BATCH) {
		wl_tx_forget_batched(c, s, i);
		i = WL_BATCH;
	}
	if (i >= WL_BATCH) {
		peer.skb = 0;
		peer.cut_up = end;
		i = wl_batch_find(s, &peer);
	}
	if (i >= WL_BATCH)
		return false;
	b = wl_batched_at(s->batch[i & (WL_BATCH - 1)] - 1);
	e = b ? wl_slot_at(b->open.slot) : NULL;
	if (!e)
		return false;
	c->for_target = 1;
	if (!end) {
		wl_tx_mark(c, &b->open, e, skb,
			   !c->timeline.in_softirq &&
				   e->thread.tid == (u32)bpf_get_current_pid_tgid());
		return true;
	}
	wl_tx_device(c, skb, dev, wl_waited(&b->open));
	left = wl_replies_in(skb);
	if (!left)
		return false;
	peer.skb = 0;
	peer.cut_up = 1;
	/* counted down: a number that the verifier does not know does not split what follows */
#pragma clang loop unroll(disable)
	for (u32 n = 0; n < WL_BATCH && i < WL_BATCH; n++) {
		wl_tx_end_batched(wl_batch_answer(s, i));
		if (!--left)
			break;
		i = wl_batch_find(s, &peer);
	}
	return !left;
}
