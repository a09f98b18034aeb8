/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * UDP requests of one thread that were read together (recvmmsg, multishot io_uring): each is a request of its own and is kept until a
 * reply to its peer leaves. Several of one peer are taken in the order they were read. What recvmmsg read ends at the first read after a
 * reply: what is unanswered by then has no reply. io_uring reads on while the server answers; there only a lack of room ends them.
 */

enum wl_read_kind {
	WL_READ_ONE = 0, /* a call that returns one datagram */
	WL_READ_SEVERAL = 1, /* recvmmsg */
	WL_READ_URING = 2, /* io_uring: at the end of any call of the task, or in one of its own threads */
};

static __always_inline enum wl_read_kind wl_read_kind_of(struct task_struct *task)
{
	if (task->flags & WL_PF_IO_WORKER)
		return WL_READ_URING;
	switch (wl_task_syscall(task)) {
#if defined(__TARGET_ARCH_x86)
	case 0: /* read */
	case 19: /* readv */
	case 45: /* recvfrom */
	case 47: /* recvmsg */
	case 327: /* preadv2 */
		return WL_READ_ONE;
	case 299: /* recvmmsg */
		return WL_READ_SEVERAL;
#else
	case 63: /* read */
	case 65: /* readv */
	case 207: /* recvfrom */
	case 212: /* recvmsg */
	case 286: /* preadv2 */
		return WL_READ_ONE;
	case 243: /* recvmmsg */
		return WL_READ_SEVERAL;
#endif
	}
	return WL_READ_URING;
}

/* Whom a reply goes to. */
struct wl_peer {
	u64 skb; /* its packet */
	u8 addr[16];
	u16 port;
	u8 cut_up; /* if `skb` is 0: also one whose reply is in a queue, as a batch that is cut into packets before the driver gets it */
	u8 pad[5];
};

/* Whether the packet may be the reply to a request: that has none yet, or one that shows up as other packets. */
static __always_inline bool wl_batch_awaits(const struct wl_open *open, const struct wl_peer *peer)
{
	const struct wl_request *r = &open->request;

	if (open->devq_ns && (!peer->cut_up || open->tx_skb))
		return false;
	return r->rport == peer->port && *(u64 *)r->raddr == *(u64 *)peer->addr &&
	       *(u64 *)(r->raddr + 8) == *(u64 *)(peer->addr + 8);
}

/* skb->head and the header offsets are set when a packet is handed to a device. */
static __noinline bool wl_peer_of(const struct sk_buff *skb, struct wl_peer *peer)
{
	u16 port;

	peer->skb = (u64)skb;
	peer->cut_up = 0;
	__builtin_memset(peer->addr, 0, sizeof(peer->addr));
	if (bpf_probe_read_kernel(&port, sizeof(port), skb->head + skb->transport_header + 2))
		return false;
	peer->port = bpf_ntohs(port);
	if (skb->protocol == bpf_htons(WL_ETH_P_IP))
		return !bpf_probe_read_kernel(peer->addr, 4,
					      skb->head + skb->network_header +
						      offsetof(struct iphdr, daddr));
	return !bpf_probe_read_kernel(
		peer->addr, 16, skb->head + skb->network_header + offsetof(struct ipv6hdr, daddr));
}

/* Whether request `at` of the batch waits for this packet, or if `skb` is 0 for one to this peer. */
__noinline int wl_batch_fits(struct wl_udp_socket *s, struct wl_peer *peer, u32 at)
{
	struct wl_batched *b;
	u32 slot;

	if (!s || !peer)
		return 0;
	slot = s->batch[at & (WL_BATCH - 1)];
	b = slot ? wl_batched_at(slot - 1) : NULL;
	if (!b)
		return 0;
	return peer->skb ? b->open.tx_skb == peer->skb : wl_batch_awaits(&b->open, peer);
}

/* The oldest request of the batch for which that is so; WL_BATCH: none. */
__noinline u32 wl_batch_find(struct wl_udp_socket *s, struct wl_peer *peer)
{
	if (!s || !peer)
		return WL_BATCH;
	for (u32 i = 0; i < WL_BATCH; i++) {
		u32 at = s->batch_tail + i;

		if (at == s->batch_head)
			break;
		if (wl_batch_fits(s, peer, at))
			return at & (WL_BATCH - 1);
	}
	return WL_BATCH;
}

/* Frees entry `i` of the batch; returns its request, which stays readable until the place is taken again. */
static __always_inline struct wl_batched *wl_batch_take(struct wl_udp_socket *s, u32 i)
{
	u32 slot = s->batch[i & (WL_BATCH - 1)];

	if (!slot || __sync_val_compare_and_swap(&s->batch[i & (WL_BATCH - 1)], slot, 0) != slot)
		return NULL;
	for (int n = 0; n < 4; n++) {
		if (s->batch_tail == s->batch_head || s->batch[s->batch_tail & (WL_BATCH - 1)])
			break;
		s->batch_tail++;
	}
	return wl_batched_at(slot - 1);
}

/* The wait behind the requests of the batch that were answered before this one. */
static __always_inline void wl_batch_behind(struct wl_udp_socket *s, struct wl_open *open, u64 end_ns)
{
	struct wl_request *r = &open->request;

	r->quality |= WL_Q_BATCHED;
	r->behind = s->batch_answered++;
	r->behind_ns = r->behind && s->batch_end_ns > r->recv_ns ? s->batch_end_ns - r->recv_ns : 0;
	s->batch_end_ns = end_ns;
}

enum wl_batch_left { WL_LEFT_NOTHING = 0, WL_LEFT_STAYS = 1, WL_LEFT_OVER = 2 };

/*
 * Entry `i` of the batch when thread `e` begins a new one. WL_LEFT_STAYS: it is another thread's, or its reply is in a queue.
 * WL_LEFT_OVER + place: the caller ends the request there. Apart from that, so that its frame does not add to the longest call chain.
 */
__noinline u32 wl_batch_left(struct wl_udp_socket *s, struct wl_thread_entry *e, u64 now, u32 i)
{
	struct wl_cpu *c = wl_cpu_here();
	struct wl_batched *b;
	u32 slot;

	if (!s || !e || !c)
		return WL_LEFT_NOTHING;
	slot = s->batch[i & (WL_BATCH - 1)];
	b = slot ? wl_batched_at(slot - 1) : NULL;
	if (!b)
		return WL_LEFT_NOTHING;
	if (b->open.request.tid != e->thread.tid || b->open.devq_ns)
		return WL_LEFT_STAYS;
	s->batch[i & (WL_BATCH - 1)] = 0;
	b->open.request.app_cpu = (u16)e->thread.cpu;
	wl_thread_time_at(&e->thread, &c->timeline, now, &b->open.at_send);
	return WL_LEFT_OVER + slot - 1;
}

/* Ends the request if wl_batch_left() has said that it is over. Returns whether it stays. */
__noinline u32 wl_batch_end(struct wl_thread_entry *e, u32 left, u64 now)
{
	struct wl_batched *b;

	if (left < WL_LEFT_OVER)
		return left;
	b = wl_batched_at(left - WL_LEFT_OVER);
	if (!e || !b)
		return 0;
	wl_finish(&b->open, e, &b->open.at_send, now, WL_Q_NO_REPLY | WL_Q_BATCHED);
	b->in_use = 0;
	return 0;
}

/* A new batch begins: what was not answered is over. */
static __always_inline void wl_batch_close(struct wl_udp_socket *s, struct wl_thread_entry *e, u64 now)
{
	u32 kept = 0;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < WL_BATCH; i++)
		kept |= wl_batch_end(e, wl_batch_left(s, e, now, i), now);
	if (!kept)
		s->batch_tail = s->batch_head;
	s->batch_end_ns = 0;
}

/* Tries the next place for a request of a batch; WL_BATCHED: it is taken. */
__noinline u32 wl_batched_try(void)
{
	u32 slot = (u32)(__sync_fetch_and_add(&wl_next_batched, 1) % WL_BATCHED);
	struct wl_batched *b = wl_batched_at(slot);

	return b && __sync_val_compare_and_swap(&b->in_use, 0, 1) == 0 ? slot : WL_BATCHED;
}

/* Keeps a request, as another datagram was read before it was answered. Returns false if there is no room. */
static __noinline bool wl_batch_keep(struct wl_udp_socket *s, struct wl_open *open)
{
	u32 head = s->batch_head, slot = WL_BATCHED;
	struct wl_batched *b;

	if (head - s->batch_tail >= WL_BATCH)
		return false;
	for (int i = 0; i < 16 && slot >= WL_BATCHED; i++)
		slot = wl_batched_try();
	b = wl_batched_at(slot);
	if (!b)
		return false;
	/* an interrupt may have ended it since the caller looked */
	if (__sync_val_compare_and_swap(&open->active, WL_OPEN_YES, WL_OPEN_MOVING) != WL_OPEN_YES) {
		b->in_use = 0;
		return false;
	}
	bpf_probe_read_kernel(&b->open, sizeof(b->open), open);
	b->open.active = WL_OPEN_YES;
	s->batch[head & (WL_BATCH - 1)] = slot + 1;
	s->batch_head = head + 1;
	open->active = WL_OPEN_NO;
	return true;
}
