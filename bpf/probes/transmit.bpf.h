/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sock:sock_send_length, net:net_dev_queue and net:net_dev_start_xmit: the reply. A request ends at the first packet with payload,
 * whoever's context that is.
 */

struct wl_tx {
	u32 payload; /* bytes, 0: a pure ACK */
	u32 end_seq; /* TCP */
	u32 seq;
};

/* A frame of its own keeps the caller's small. skb->data is at the link header here, which __dev_queue_xmit has just made skb->mac_header (net/core/dev.c). */
static __noinline bool wl_tx_tcp(const struct sk_buff *skb, struct wl_tx *tx)
{
	struct {
		u16 source, dest;
		u32 seq, ack;
		u8 doff;
	} tcp;
	u32 headers;

	if (bpf_probe_read_kernel(&tcp, sizeof(tcp), skb->head + skb->transport_header))
		return false;
	headers = (u32)skb->transport_header - skb->mac_header + (tcp.doff >> 4) * 4;
	if (skb->len <= headers)
		return false;
	tx->payload = skb->len - headers;
	tx->seq = bpf_ntohl(tcp.seq);
	tx->end_seq = tx->seq + tx->payload;
	return true;
}

/* Notes the reader's counters at the end of its part. */
static __noinline void wl_at_send(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e, u64 now, bool in_reader)
{
	struct wl_cpu *cpu = in_reader ? c : wl_cpu_at(e->thread.cpu);

	open->send_begin_ns = in_reader ? e->thread.sys_enter_ns : 0;
	open->request.app_cpu = (u16)e->thread.cpu;
	if (cpu)
		wl_thread_time_at(&e->thread, &cpu->timeline, now, &open->at_send);
}

/* Packets in the queueing discipline that this packet is about to enter. */
static __always_inline u32 wl_backlog(const struct net_device *dev)
{
	struct Qdisc *q;

	/* with several queues the packet's own is not chosen yet */
	if (dev->real_num_tx_queues != 1)
		return WL_NO_BACKLOG;
	q = dev->_tx->qdisc;
	if (!q || (q->flags & WL_TCQ_F_CPUSTATS))
		return WL_NO_BACKLOG; /* counted per CPU */
	return q->q.qlen;
}

/* Notes the moment the reply entered the device's queue. */
static __always_inline void wl_tx_mark(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e, const struct sk_buff *skb,
				       bool in_reader)
{
	u64 now = bpf_ktime_get_ns();

	/* a batch may be cut into packets of their own before the driver gets it */
	open->tx_skb = BPF_CORE_READ((struct skb_shared_info *)(skb->head + skb->end), gso_size) ? 0 : (u64)skb;
	open->request.tx_backlog = wl_backlog(skb->dev);
	if (open->held) {
		open->held = 0;
		open->request.tx_held_ns = now - open->devq_ns;
		return;
	}
	open->devq_ns = now;
	wl_at_send(c, open, e, now, in_reader);
}

/* What the driver's side knows of a reply, for the requests that it ends. A frame of its own: its caller begins the longest chain. */
static __noinline void wl_tx_device(struct wl_cpu *c, const struct sk_buff *skb, const struct net_device *dev, bool waited)
{
	struct netdev_queue *queue;
	struct Qdisc *q;

	c->tx.now_ns = bpf_ktime_get_ns();
	c->tx.ifindex = dev->ifindex;
	c->tx.qdisc[0] = 0;
	if (!waited)
		return;
	queue = (void *)(wl_address(c, dev->_tx) + skb->queue_mapping * bpf_core_type_size(struct netdev_queue));
	q = BPF_CORE_READ(queue, qdisc);
	if (BPF_CORE_READ(q, enqueue))
		bpf_probe_read_kernel(c->tx.qdisc, sizeof(c->tx.qdisc), BPF_CORE_READ(q, ops, id));
}

/* Ends a request at the packet that c->tx describes. */
static __always_inline void wl_tx_end(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e, bool in_reader)
{
	u64 now = c->tx.now_ns;

	if (__sync_val_compare_and_swap(&open->active, WL_OPEN_YES, WL_OPEN_NO) != WL_OPEN_YES) {
		wl_lose(c, WL_LOST_TX_PENDING); /* its thread is moving it away right now */
		return;
	}
	open->request.ifindex = c->tx.ifindex;
	wl_comm_copy(open->request.tx_qdisc, c->tx.qdisc);
	open->request.tx_cpu = (u16)bpf_get_smp_processor_id();
	if (in_reader)
		wl_heal_here(c, e);
	if (!open->devq_ns)
		wl_at_send(c, open, e, now, in_reader);
	else if (open->held)
		open->request.tx_held_ns = now - open->devq_ns;
	wl_finish(open, e, &open->at_send, now, in_reader ? 0 : WL_Q_OTHER_CONTEXT);
	if (in_reader)
		e->thread.activity_ns = now;
}

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

#define WL_WORTH_A_LOOK_NS 10000 /* a wait for which the queueing discipline is looked up */

static __always_inline bool wl_waited(const struct wl_open *open)
{
	return open->devq_ns && bpf_ktime_get_ns() - open->devq_ns > WL_WORTH_A_LOOK_NS;
}

/* Replies of a connection leave in order: those of the parked requests first. */
static __always_inline void wl_tx_tcp_parked(struct wl_tcp_socket *s, u32 end_seq, const struct sk_buff *skb, bool end)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < WL_TCP_PENDING; i++) {
		u32 at = end ? s->parked_tail : s->parked_tail + i;
		u32 slot = s->parked[at & (WL_TCP_PENDING - 1)];
		struct wl_parked *p = wl_parked_at(slot);

		if ((s32)(s->parked_head - at) <= 0 || !p || !wl_seq_after(end_seq, p->open.write_seq))
			return;
		if (end) {
			if (__sync_val_compare_and_swap(&s->parked_tail, at, at + 1) == at)
				wl_tx_end_parked(slot);
			continue;
		}
		if (p->open.held) {
			p->open.held = 0;
			p->open.tx_skb = (u64)skb;
			p->open.request.tx_held_ns = bpf_ktime_get_ns() - p->open.devq_ns;
			p->open.request.tx_backlog = wl_backlog(skb->dev);
		}
	}
}

/* TCP: whose context it is does not matter, the sequence number tells. */
static __always_inline void wl_tx_tcp_reply(struct wl_cpu *c, struct sock *sk, const struct sk_buff *skb, const struct net_device *dev,
					    bool end)
{
	struct wl_tcp_socket *s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
	bool parked, in_reader;
	struct wl_thread_entry *e;
	struct wl_tx tx;

	if (!s)
		return;
	parked = s->parked_head != s->parked_tail;
	if ((!s->open.active && !parked) || !wl_tx_tcp(skb, &tx))
		return;
	c->for_target = 1;
	if (parked) {
		if (end)
			wl_tx_device(c, skb, dev, true);
		wl_tx_tcp_parked(s, tx.end_seq, skb, end);
	}
	if (s->open.active != WL_OPEN_YES || !wl_seq_after(tx.end_seq, s->open.write_seq))
		return;
	e = wl_slot_at(s->open.slot);
	if (!e)
		return;
	in_reader = !c->timeline.in_softirq && e->thread.tid == (u32)bpf_get_current_pid_tgid();
	if (!end) {
		if (!s->open.devq_ns || s->open.held)
			wl_tx_mark(c, &s->open, e, skb, in_reader);
		return;
	}
	wl_tx_device(c, skb, dev, wl_waited(&s->open));
	wl_tx_end(c, &s->open, e, in_reader);
}

/* The entry that waits for the packet at *skb, or else for a batch; WL_TX_PENDING: none. A global function takes no pointer as a number. */
__noinline u32 wl_parked_find(struct wl_udp_socket *s, u64 *skb)
{
	u32 batch = WL_TX_PENDING;

	if (!s || !skb)
		return WL_TX_PENDING;
	for (u32 i = 0; i < WL_TX_PENDING; i++) {
		struct wl_parked_ref *ref = &s->parked[i];

		if (ref->state != WL_OPEN_YES)
			continue;
		if (ref->skb == *skb)
			return i;
		if (!ref->skb && batch == WL_TX_PENDING)
			batch = i;
	}
	return batch;
}

static __always_inline bool wl_tx_parked(struct wl_cpu *c, struct wl_udp_socket *s, const struct sk_buff *skb,
					 const struct net_device *dev)
{
	struct wl_parked_ref *ref;
	u64 address = (u64)skb;
	u32 i = wl_parked_find(s, &address), slot;

	if (i >= WL_TX_PENDING)
		return false;
	ref = &s->parked[i & (WL_TX_PENDING - 1)];
	slot = ref->slot; /* the entry may be taken again as soon as it is free */
	if (__sync_val_compare_and_swap(&ref->state, WL_OPEN_YES, WL_OPEN_NO) != WL_OPEN_YES)
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
static __always_inline void wl_tx_forget(struct wl_cpu *c, struct wl_udp_socket *s, const struct sk_buff *skb)
{
	struct wl_parked_ref *ref;
	struct wl_parked *p;
	u64 address = (u64)skb;
	u32 i = wl_parked_find(s, &address);

	if (i >= WL_TX_PENDING)
		return;
	ref = &s->parked[i & (WL_TX_PENDING - 1)];
	p = wl_parked_at(ref->slot);
	if (!ref->skb || __sync_val_compare_and_swap(&ref->state, WL_OPEN_YES, WL_OPEN_NO) != WL_OPEN_YES)
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
static __always_inline bool wl_tx_await_push(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e,
					     struct wl_udp_socket *s, const struct net_device *dev, bool in_reader)
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
	if (wl_park(s, open)) {
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

/* The same for an entry of a batch. */
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
__noinline int wl_tx_end_batched(u32 slot)
{
	struct wl_batched *b = wl_batched_at(slot);
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

/* The reply to requests of a batch. Returns how many it was the reply to. */
static __always_inline u32 wl_tx_batch(struct wl_cpu *c, struct wl_udp_socket *s, const struct sk_buff *skb,
				       const struct net_device *dev, bool end)
{
	struct wl_thread_entry *e;
	struct wl_batched *b;
	struct wl_peer peer;
	u32 i, replies, slot, n = 0;

	if (!wl_peer_of(skb, &peer))
		return 0;
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
		return 0;
	b = wl_batched_at(s->batch[i & (WL_BATCH - 1)] - 1);
	e = b ? wl_slot_at(b->open.slot) : NULL;
	if (!e)
		return 0;
	c->for_target = 1;
	if (!end) {
		wl_tx_mark(c, &b->open, e, skb, !c->timeline.in_softirq && e->thread.tid == (u32)bpf_get_current_pid_tgid());
		return 1;
	}
	wl_tx_device(c, skb, dev, wl_waited(&b->open));
	replies = wl_replies_in(skb);
	peer.skb = 0;
	peer.cut_up = 1;
#pragma clang loop unroll(disable)
	for (n = 0; n < WL_BATCH; n++) {
		if (n >= replies || i >= WL_BATCH)
			break;
		slot = wl_batch_answer(s, i);
		if (slot)
			wl_tx_end_batched(slot - 1);
		if (n + 1 < replies)
			i = wl_batch_find(s, &peer);
	}
	return n;
}

/* UDP on the socket the request came from: by the reader, or by whoever else sends on it. */
static __always_inline void wl_tx_udp_reply(struct wl_cpu *c, struct sock *sk, const struct sk_buff *skb, const struct net_device *dev,
					    bool end)
{
	struct wl_udp_socket *s = wl_udp_of(sk);
	struct wl_thread_entry *e = NULL;
	bool in_reader = false;
	u32 slot = 0;

	if (!s)
		return;
	if (end && s->waiting && wl_tx_parked(c, s, skb, dev))
		return;
	if (!end && s->waiting)
		wl_tx_forget(c, s, skb);
	if (s->batch_head != s->batch_tail) {
		u32 n = wl_tx_batch(c, s, skb, dev, end);

		if (n && (!end || n >= wl_replies_in(skb)))
			return;
	}
	if (!c->timeline.in_softirq)
		e = wl_thread_of(c, bpf_get_current_task_btf(), &slot);
	if (e && e->open.active && e->open.sk == (u64)sk) {
		in_reader = true;
	} else {
		if (!s->reader_slot)
			return;
		e = wl_slot_at(s->reader_slot - 1);
		if (!e || !e->open.active || e->open.sk != (u64)sk)
			return;
	}
	if (e->open.tx_skb && e->open.tx_skb != (u64)skb)
		return; /* the reply is another packet, still in the queue */
	if (!end) {
		if (!e->open.devq_ns)
			wl_tx_mark(c, &e->open, e, skb, in_reader);
		return;
	}
	e->replied = 1;
	if (s->batch_answered)
		wl_batch_behind(s, &e->open, bpf_ktime_get_ns());
	if (e->open.unproven && wl_udp_order_unsure(&s->queue, e->open.debt_index))
		e->open.request.quality |= WL_Q_ORDER_UNSURE; /* a neighbour was signalled after the read */
	if (e->open.debt && !wl_tx_await_push(c, &e->open, e, s, dev, in_reader))
		return;
	wl_tx_device(c, skb, dev, wl_waited(&e->open));
	wl_tx_end(c, &e->open, e, in_reader);
}

/* A send by the reader on some other socket: the end if the thread sends nothing better before its next read. */
static __always_inline void wl_tx_elsewhere(struct wl_cpu *c, struct sock *sk, const struct sk_buff *skb, const struct net_device *dev)
{
	struct wl_thread_entry *e;
	struct wl_open *open;
	struct wl_tx tx;
	u32 slot;

	if (c->timeline.in_softirq)
		return;
	e = wl_thread_of(c, bpf_get_current_task_btf(), &slot);
	if (!e || !e->open.active || e->open.maybe_end_ns || e->open.sk == (u64)sk)
		return;
	if (sk->sk_protocol == WL_IPPROTO_TCP && !wl_tx_tcp(skb, &tx))
		return;
	open = &e->open;
	open->maybe_end_ns = bpf_ktime_get_ns();
	open->maybe_devq_ns = 0;
	open->maybe_send_ns = e->thread.sys_enter_ns;
	open->maybe_ifindex = dev->ifindex;
	open->maybe_cpu = (u16)bpf_get_smp_processor_id();
	wl_thread_time_at(&e->thread, &c->timeline, open->maybe_end_ns, &open->maybe_time);
}

static __always_inline void wl_transmit(struct wl_cpu *c, const struct sk_buff *skb, const struct net_device *dev, bool end)
{
	struct sock *sk = skb->sk;
	u16 family;

	if (!sk)
		return;
	family = sk->__sk_common.skc_family;
	if (family != WL_AF_INET && family != WL_AF_INET6)
		return;
	if (wl_port_filter[sk->__sk_common.skc_num]) {
		if (sk->sk_protocol == WL_IPPROTO_UDP)
			wl_tx_udp_reply(c, sk, skb, dev, end);
		else if (sk->sk_protocol == WL_IPPROTO_TCP)
			wl_tx_tcp_reply(c, sk, skb, dev, end);
	}
	if (end && (sk->sk_protocol == WL_IPPROTO_UDP || sk->sk_protocol == WL_IPPROTO_TCP))
		wl_tx_elsewhere(c, sk, skb, dev);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(wl_net_dev_queue, struct sk_buff *skb)
{
	return WL_RUN(wl_transmit(c, skb, skb->dev, false));
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(wl_net_dev_start_xmit, const struct sk_buff *skb, const struct net_device *dev)
{
	return WL_RUN(wl_transmit(c, skb, dev, true));
}

/* Why TCP has not handed on what was sent. skb->cb and the socket's fields as of the end of the send. */
static __always_inline void wl_hold_reason(struct wl_cpu *c, struct wl_open *open, struct sock *sk, struct tcp_sock *tp, int flags, u64 now)
{
	struct wl_tcp_send_state *state = &c->send;

	state->snd_una = tp->snd_una;
	state->snd_nxt = tp->snd_nxt;
	state->write_seq = tp->write_seq;
	state->snd_sml = tp->snd_sml;
	state->snd_wnd = tp->snd_wnd;
	state->snd_cwnd = tp->snd_cwnd;
	state->packets_out = tp->packets_out;
	state->sacked_out = tp->sacked_out;
	state->lost_out = tp->lost_out;
	state->retrans_out = tp->retrans_out;
	state->mss = tp->mss_cache;
	state->nonagle = BPF_CORE_READ_BITFIELD_PROBED(tp, nonagle);
	state->more = !!(flags & WL_MSG_MORE);
	state->throttled = sk->sk_tsq_flags & 1; /* TSQ_THROTTLED */
	state->paced = sk->sk_pacing_status == WL_SK_PACING_NEEDED && tp->tcp_wstamp_ns > now;
	open->request.tx_hold = wl_tcp_hold(state);
}

/* The end of a send: a reply that has not left by now is TCP's to keep, not the application's to make. */
static __always_inline void wl_sent(struct wl_cpu *c, struct sock *sk, int ret, int flags)
{
	u16 family = sk->__sk_common.skc_family;
	struct wl_thread_entry *e;
	struct wl_tcp_socket *s;
	struct tcp_sock *tp;
	struct wl_open *open;
	bool in_reader;
	u64 now;

	if (ret <= 0 || sk->sk_protocol != WL_IPPROTO_TCP || (family != WL_AF_INET && family != WL_AF_INET6) ||
	    !wl_port_filter[sk->__sk_common.skc_num])
		return;
	s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
	if (!s)
		return;
	open = &s->open;
	if (open->active != WL_OPEN_YES || (open->devq_ns && !(open->held && open->request.tx_hold == WL_HOLD_CORK)))
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || tp->write_seq == open->write_seq)
		return;
	e = wl_slot_at(open->slot);
	if (!e)
		return;
	c->for_target = 1;
	now = bpf_ktime_get_ns();
	in_reader = e->thread.tid == (u32)bpf_get_current_pid_tgid();
	open->devq_ns = now;
	open->held = 1;
	wl_at_send(c, open, e, now, in_reader);
	wl_hold_reason(c, open, sk, tp, flags, now);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(wl_sock_send_length, struct sock *sk, int ret, int flags)
{
	return WL_RUN(wl_sent(c, sk, ret, flags));
}
