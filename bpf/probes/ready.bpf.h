/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sock:sk_data_ready: datagrams and segments that have reached their socket. */

static __always_inline u32 wl_udp_kernel_queue(const struct sock *sk)
{
	return sk->sk_receive_queue.qlen + BPF_CORE_READ((struct udp_sock *)sk, reader_queue.qlen);
}

/* The packet at a place. A place is 0 or holds a CPU that has received something. */
static __always_inline struct wl_packet *wl_packet_at(u32 place)
{
	struct wl_cpu *at = place ? wl_cpu_at(wl_place_cpu(place)) : NULL;

	return at ? wl_udp_fifo_at(&at->udp, wl_place_slot(place)) : NULL;
}

/* Instead of a place: */
#define WL_PLACE_UNSEEN 0xffffffff /* no packet is known for it */
#define WL_PLACE_FAR 0xfffffffe /* there are more of those than are looked at */

/* Has the socket that c->looking stands for had its copy of the multicast packet at this place? */
static __always_inline bool wl_had_copy(struct wl_cpu *c, u32 place)
{
	struct wl_udp_socket *s = wl_udp_at(c->looking);
	struct wl_cpu *at = place ? wl_cpu_at(wl_place_cpu(place)) : NULL;

	return s && at &&
	       wl_multicast_had(s->multicast, &at->udp, wl_place_cpu(place), wl_place_slot(place));
}

/*
 * A datagram of the kernel's queue: has it been pushed? `last` is the newest that has been. One that has not is the oldest found so far;
 * found_* ends where no packet is known, all_* does not.
 * `own` is a place to look out for. Not a pointer, as the verifier then walks through this once and not at every turn of the loops below.
 */
__noinline int wl_queued_datagram(struct wl_cpu *c, u64 skb, u64 buffer, u64 last, u32 own)
{
	u32 place = wl_places[wl_place_of(buffer) & (WL_PLACES - 1)];
	struct wl_packet *p = wl_packet_at(place);
	bool found = p && p->buffer == buffer,
	     multicast = found && (p->arrival.flags & WL_ARR_MULTICAST);
	enum wl_seen seen;

	if (!c)
		return WL_SEEN_PUSHED;
	if (multicast && wl_had_copy(c, place))
		found = false; /* nobody has seen the one that is in its buffer now */
	seen = wl_udp_seen(skb == last, found, found && !p->skb, multicast);
	if (seen == WL_SEEN_PUSHED)
		return WL_SEEN_PUSHED;
	if (seen == WL_SEEN_STRANGE) {
		if (!c->all_run)
			return WL_SEEN_STRANGE;
		place = WL_PLACE_UNSEEN;
	} else if (c->found_run == c->all_run) {
		c->found_place = place;
		c->found_skb = skb;
		c->found_run++;
	}
	c->all_place = place;
	c->all_skb = skb;
	c->all_run++;
	if (place == own)
		c->own_queued = 1;
	return WL_SEEN_NEW;
}

/* All that were found have come since the attach. */
static __always_inline void wl_found_all(struct wl_cpu *c)
{
	c->found_place = c->all_place;
	c->found_skb = c->all_skb;
	c->found_run = c->all_run;
}

#define WL_QUEUE_WALK 16

/*
 * The oldest datagram of the kernel's queue that has not been pushed: into *c. Looks from the newest to
 * older ones, in sk_receive_queue and then in reader_queue, which a reader fills from it. `own` is a place to look out for.
 * What no packet is known for came since the newest pushed one, or, if the walk does not meet that, since the attach; without `synced`
 * it may be older.
 */
static __noinline void wl_udp_unsignalled(struct wl_cpu *c, struct sock *sk, u64 last, u32 own,
					  u32 synced)
{
	struct sk_buff *n = sk->sk_receive_queue.prev;
	struct udp_sock *up = (struct udp_sock *)sk;
	u64 m;

	c->found_place = 0;
	c->found_skb = 0;
	c->strange_skb = 0;
	c->found_run = 0;
	c->all_place = 0;
	c->all_run = 0;
	c->own_queued = 0;
	for (int i = 0; i < WL_QUEUE_WALK; i++) {
		int seen;

		if (!n || (u64)n == (u64)&sk->sk_receive_queue)
			break;
		if ((u64)n == (u64)&up->reader_queue) {
			/* a reader has just taken the whole of it over */
			if (synced)
				wl_found_all(c);
			return;
		}
		seen = wl_queued_datagram(c, wl_address(c, n), wl_address(c, n->head), last, own);
		if (!i && seen == WL_SEEN_STRANGE)
			c->strange_skb = (u64)n;
		if (seen == WL_SEEN_PUSHED)
			wl_found_all(c);
		if (seen != WL_SEEN_NEW)
			return;
		n = n->prev;
		if (i == WL_QUEUE_WALK - 1 && synced && c->all_run != c->found_run) {
			c->found_place = WL_PLACE_FAR;
			return;
		}
	}
	m = (u64)BPF_CORE_READ(up, reader_queue.prev);
	for (int i = 0; i < WL_QUEUE_WALK / 2; i++) {
		int seen;

		if (!m || m == (u64)&up->reader_queue || m == (u64)&sk->sk_receive_queue)
			break;
		seen = wl_queued_datagram(c, m, (u64)BPF_CORE_READ((struct sk_buff *)m, head), last,
					  own);
		if (seen == WL_SEEN_PUSHED)
			wl_found_all(c);
		if (seen != WL_SEEN_NEW)
			return;
		m = (u64)BPF_CORE_READ((struct sk_buff *)m, prev);
	}
	if (synced)
		wl_found_all(c);
}

/* What the kernel's queue begins with: reader_queue, and behind it sk_receive_queue. */
static __always_inline void wl_udp_front(struct sock *sk, struct wl_udp_read *r)
{
	struct udp_sock *up = (struct udp_sock *)sk;
	struct sk_buff *first = sk->sk_receive_queue.next;
	u64 n = (u64)BPF_CORE_READ(up, reader_queue.next);
	bool empty = (u64)first == (u64)&sk->sk_receive_queue;

	r->second = 0;
	if (n && n != (u64)&up->reader_queue) {
		r->front = n;
		n = (u64)BPF_CORE_READ((struct sk_buff *)n, next);
		if (n != (u64)&up->reader_queue)
			r->second = n;
		else if (!empty)
			r->second = (u64)first;
		return;
	}
	r->front = empty ? 0 : (u64)first;
	if (!empty && (u64)first->next != (u64)&sk->sk_receive_queue)
		r->second = (u64)first->next;
}

static __always_inline void wl_settle_debt(struct wl_open *open, struct wl_thread_entry *e,
					   struct wl_udp_socket *s)
{
	if (!open->debt)
		return;
	if (!wl_pay_debt(open, s))
		open->request.quality |= WL_Q_DEBT_UNPAID | (open->unreported ? WL_Q_LOST_SWITCH : 0);
	wl_finish_read(open, e);
}

/* Parked request `i`, if it waits for its datagram: with push `index` that is there, or it never will be. */
__noinline int wl_settle_parked(struct wl_udp_socket *s, u32 i, u64 index)
{
	struct wl_parked_ref *ref;
	struct wl_thread_entry *e;
	struct wl_parked *p;

	if (!s)
		return 0;
	ref = &s->parked[i & (WL_TX_PENDING - 1)];
	if (ref->state != WL_OPEN_ENDED)
		return 0;
	p = wl_parked_at(ref->slot);
	if (!p ||
	    (p->open.debt_index != index && !wl_udp_debt_is_over(&s->queue, p->open.debt_index)))
		return 0;
	e = wl_slot_at(p->open.slot);
	if (e) {
		wl_settle_debt(&p->open, e, s);
		wl_finish(&p->open, e, &p->open.at_send, p->open.request.end_ns, 0);
	}
	p->open.active = WL_OPEN_NO;
	p->in_use = 0;
	ref->state = WL_OPEN_NO;
	__sync_fetch_and_sub(&s->awaited, 1);
	__sync_fetch_and_sub(&wl_awaited_total, 1);
	return 0;
}

static __always_inline void wl_late_push(struct wl_udp_socket *s, u64 index)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < WL_TX_PENDING; i++)
		wl_settle_parked(s, i, index);
}

/* Read: what comes in its buffer next is another datagram. Other sockets still want a multicast packet. */
static __always_inline void wl_udp_buffer_free(const struct wl_datagram *d)
{
	const struct wl_arrival *a = &d->arrival;
	struct wl_packet *p = (a->flags & WL_ARR_KNOWN)
				      ? wl_packet_at(wl_place_make(a->rx_cpu, d->slot))
				      : NULL;

	if (p && !(a->flags & WL_ARR_MULTICAST) && p->arrival.rx_ns == a->rx_ns)
		p->buffer = 0;
}

/*
 * Fills c->pushed with what is known of the packet. `place`: where it is; taken from there unless other sockets get it, too. Returns
 * false if another CPU has been quicker.
 */
static __always_inline bool wl_udp_arrived(struct wl_cpu *c, struct wl_udp_socket *s, u32 place)
{
	u32 cpu = bpf_get_smp_processor_id(), slot = wl_place_slot(place);
	struct wl_packet *p = wl_packet_at(place);
	struct wl_datagram *d = &c->pushed;
	struct wl_cpu *at;
	struct wl_fanout fanout;
	u64 skb;

	if (!p)
		return false;
	skb = p->skb;
	if (!skb)
		return false;
	d->arrival = p->arrival;
	__builtin_memcpy(d->saddr, p->saddr, sizeof(d->saddr));
	d->sport = p->sport;
	if (p->arrival.flags & WL_ARR_MULTICAST) {
		wl_udp_fifo_fan_out(p, d->queued_ns, &fanout);
		d->fanout_rank = fanout.rank;
		d->fanout_ns = fanout.ns;
		c->udp.delivered = 1;
		at = wl_cpu_at(wl_place_cpu(place));
		if (at)
			wl_multicast_take(s->multicast, &at->udp, wl_place_cpu(place), slot);
		return true;
	}
	if (!__sync_bool_compare_and_swap(&p->skb, skb, 0))
		return false;
	if (wl_place_cpu(place) == cpu) {
		c->udp.delivered = 1;
		wl_udp_fifo_take(&c->udp, p);
		return true;
	}
	/* received by another CPU: it may have been given up there */
	at = wl_cpu_at(wl_place_cpu(place));
	if (at && wl_udp_fifo_cleared(&at->udp, slot))
		wl_unmatched_add(c, WL_UNM_HANDED_OVER, -1ull);
	return true;
}

/* Pushes the datagram of the packet at `place` (0 or WL_PLACE_UNSEEN: unknown); queued: its address in the kernel's queue, 0: it has been read; skb: as received. */
static __noinline int wl_udp_push(struct wl_cpu *c, struct wl_udp_socket *s, u32 place, u64 queued,
				  u64 skb)
{
	struct wl_datagram *d = &c->pushed;

	d->queued_ns = bpf_ktime_get_ns();
	d->pusher = (u16)bpf_get_smp_processor_id();
	d->skb = queued;
	wl_arrival_unknown(&d->arrival);
	d->unseen = place == WL_PLACE_UNSEEN;
	d->slot = (u16)wl_place_slot(place);
	d->sport = 0;
	d->woken_tid = 0;
	d->fanout_rank = 0;
	d->fanout_ns = 0;
	if (place && place != WL_PLACE_UNSEEN) {
		if (!wl_udp_arrived(c, s, place))
			return 0;
		if (!queued)
			wl_udp_buffer_free(d);
	}
	wl_udp_queue_push(&s->queue, d, skb, &c->push_result);
	if (c->push_result.overflow)
		wl_lose(c, WL_LOST_UDP_QUEUE);
	return 0;
}

/* A signal says that one more datagram is queued, not which one; see logic/udp_queue.h. */
static __always_inline void wl_udp_ready(struct wl_cpu *c, struct sock *sk, struct wl_udp_socket *s,
					 u32 state)
{
	u32 cpu = bpf_get_smp_processor_id(), own = 0;
	struct wl_udp_key key = {};
	u64 skb = 0;
	s64 i;

	key.net = (u64)sk->__sk_common.skc_net.net;
	key.local_port = sk->__sk_common.skc_num;
	key.peer_port = bpf_ntohs(sk->__sk_common.skc_dport);
	key.multicast_after = wl_multicast_after(s->multicast, &c->udp, cpu);
	i = wl_udp_fifo_find(&c->udp, &key);
	if (i >= 0) {
		own = wl_place_make(cpu, (u32)i & (WL_UDP_FIFO_LEN - 1));
		skb = wl_udp_fifo_at(&c->udp, (u32)i)->skb;
	}
	c->looking = state;
	c->push_result.debts_before = s->queue.debt_head;
	c->pushes = 0;
	c->unseen = 0;
	wl_udp_unsignalled(c, sk, s->queue.last_skb, own, s->queue.synced);
	if ((own && !c->own_queued) || c->strange_skb) {
		/* read already; or queued in another buffer than it was received in */
		wl_udp_push(c, s, own, c->strange_skb, skb);
		c->pushes++;
	}
	for (int n = 0; n < WL_QUEUE_WALK / 2 && c->found_place; n++) {
		if (c->found_place == WL_PLACE_FAR) {
			s->queue.synced = WL_UDP_UNSYNCED; /* what comes before the known ones is as unknown as at the attach */
		} else {
			wl_udp_push(c, s, c->found_place, c->found_skb, 0);
			if (c->found_place == WL_PLACE_UNSEEN)
				c->unseen++; /* no signal of its own will come */
			else
				c->pushes++;
			if (c->found_run < 2)
				break;
		}
		wl_udp_unsignalled(c, sk, s->queue.last_skb, 0, s->queue.synced);
	}
	if (c->pushes) {
		s->queue.ahead += c->pushes - 1;
	} else if (c->unseen) {
		/* the datagram of this signal is behind them; it is pushed at the next one */
	} else if (s->queue.ahead) {
		s->queue.ahead--;
	} else {
		wl_udp_push(c, s, 0, 0, 0);
	}
	if (c->timeline.in_softirq) {
		c->ready_udp = state + 1;
		c->ready_index = c->push_result.index;
	}
	if (s->awaited)
		wl_late_push(s, c->push_result.index);
}

static __always_inline void wl_ready(struct wl_cpu *c, struct sock *sk)
{
	if (!wl_port_filter[sk->__sk_common.skc_num])
		return;
	if (sk->sk_protocol == WL_IPPROTO_UDP) {
		u32 *plus_one = bpf_sk_storage_get(&wl_udp_slots, sk, NULL, 0);
		struct wl_udp_socket *s = plus_one && *plus_one ? wl_udp_at(*plus_one - 1) : NULL;

		c->ready_udp = 0;
		if (s) {
			c->for_target = 1;
			wl_udp_ready(c, sk, s, *plus_one - 1);
		} else if (c->udp.head != c->udp.tail) {
			struct wl_udp_key key = {};

			key.net = (u64)sk->__sk_common.skc_net.net;
			key.local_port = sk->__sk_common.skc_num;
			wl_udp_fifo_foreign(&c->udp, &key, bpf_ktime_get_ns());
		}
	} else if (sk->sk_protocol == WL_IPPROTO_TCP) {
		struct wl_tcp_socket *s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
		struct tcp_sock *tp;

		if (!s)
			s = wl_tcp_first_data(c, sk);
		tp = s ? bpf_skc_to_tcp_sock(sk) : NULL;
		if (s && tp) {
			c->for_target = 1;
			wl_tcp_queue_ready(&s->queue, tp->rcv_nxt, bpf_ktime_get_ns());
		}
	}
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(wl_sk_data_ready, const struct sock *sk)
{
	return WL_RUN(wl_ready(c, (struct sock *)sk));
}
