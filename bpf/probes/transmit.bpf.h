/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* net:net_dev_queue and net:net_dev_start_xmit: the reply. A request ends at the first packet with payload. */

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

static __always_inline struct wl_cpu *wl_reader_cpu(struct wl_thread_entry *e)
{
	return wl_cpu_at(e->thread.cpu);
}

/* Notes the moment the reply entered the device's queue. */
static __always_inline void wl_tx_mark(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e, const struct sk_buff *skb,
				       bool in_reader)
{
	u64 now = bpf_ktime_get_ns();
	struct wl_cpu *cpu = in_reader ? c : wl_reader_cpu(e);

	open->devq_ns = now;
	open->tx_skb = (u64)skb;
	open->send_begin_ns = in_reader ? e->thread.sys_enter_ns : 0;
	if (cpu)
		wl_thread_time_at(&e->thread, &cpu->timeline, now, &open->at_send);
}

static __always_inline void wl_tx_end(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e, const struct net_device *dev,
				      bool in_reader)
{
	u64 now = bpf_ktime_get_ns();
	struct wl_cpu *cpu = in_reader ? c : wl_reader_cpu(e);

	open->request.ifindex = dev->ifindex;
	open->request.tx_cpu = (u16)bpf_get_smp_processor_id();
	if (in_reader)
		wl_heal_here(c, e);
	if (!open->devq_ns) {
		open->send_begin_ns = in_reader ? e->thread.sys_enter_ns : 0;
		if (cpu)
			wl_thread_time_at(&e->thread, &cpu->timeline, now, &open->at_send);
	}
	wl_finish(open, e, &open->at_send, now, in_reader ? 0 : WL_Q_OTHER_CONTEXT);
	if (in_reader)
		e->thread.activity_ns = now;
}

/* TCP: whose context it is does not matter, the sequence number tells. */
static __always_inline void wl_tx_tcp_reply(struct wl_cpu *c, struct sock *sk, const struct sk_buff *skb, const struct net_device *dev,
					    bool end)
{
	struct wl_tcp_socket *s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
	struct wl_thread_entry *e;
	struct wl_tx tx;
	bool in_reader;

	if (!s || !s->open.active || !wl_tx_tcp(skb, &tx) || (s32)(tx.end_seq - s->open.write_seq) <= 0)
		return;
	e = wl_slot_at(s->open.slot);
	if (!e)
		return;
	c->for_target = 1;
	in_reader = !c->timeline.in_softirq && e->thread.tid == (u32)bpf_get_current_pid_tgid();
	if (!end) {
		if (!s->open.devq_ns)
			wl_tx_mark(c, &s->open, e, skb, in_reader);
		return;
	}
	wl_tx_end(c, &s->open, e, dev, in_reader);
}

static __always_inline bool wl_tx_parked(struct wl_cpu *c, struct wl_udp_socket *s, const struct sk_buff *skb,
					 const struct net_device *dev)
{
	for (int i = 0; i < WL_TX_PENDING; i++) {
		struct wl_open *open = &s->pending[i];
		struct wl_thread_entry *e;

		if (open->active != WL_OPEN_YES || open->tx_skb != (u64)skb)
			continue;
		e = wl_slot_at(open->slot);
		if (e)
			wl_tx_end(c, open, e, dev, false);
		open->active = WL_OPEN_NO;
		return true;
	}
	return false;
}

/*
 * The reply to a datagram whose sk_data_ready has not been seen. Returns true if it has come by now (or cannot be waited for);
 * otherwise the request is kept until it does.
 */
static __always_inline bool wl_tx_await_push(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e,
					     struct wl_udp_socket *s, const struct net_device *dev, bool in_reader)
{
	u64 now = bpf_ktime_get_ns();
	struct wl_cpu *cpu = in_reader ? c : wl_reader_cpu(e);

	if (wl_pay_debt(open, s)) {
		wl_finish_read(open, e);
		return true;
	}
	open->request.ifindex = dev->ifindex;
	open->request.tx_cpu = (u16)bpf_get_smp_processor_id();
	open->request.end_ns = now;
	if (!open->devq_ns && cpu) {
		open->send_begin_ns = in_reader ? e->thread.sys_enter_ns : 0;
		wl_thread_time_at(&e->thread, &cpu->timeline, now, &open->at_send);
	}
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

/* The reply to a request of a batch. Returns false if none of them waits for it. */
static __always_inline bool wl_tx_batch(struct wl_cpu *c, struct wl_udp_socket *s, const struct sk_buff *skb,
					const struct net_device *dev, bool end)
{
	struct wl_thread_entry *e;
	struct wl_batched *b;
	struct wl_peer peer;
	bool in_reader;
	u32 i = WL_BATCH;

	if (!wl_peer_of(skb, &peer))
		return false;
	if (end)
		i = wl_batch_find(s, &peer);
	if (i >= WL_BATCH) {
		peer.skb = 0;
		i = wl_batch_find(s, &peer);
	}
	if (i >= WL_BATCH)
		return false;
	b = wl_batched_at(s->batch[i & (WL_BATCH - 1)] - 1);
	e = b ? wl_slot_at(b->open.slot) : NULL;
	if (!e)
		return false;
	in_reader = !c->timeline.in_softirq && e->thread.tid == (u32)bpf_get_current_pid_tgid();
	c->for_target = 1;
	if (!end) {
		wl_tx_mark(c, &b->open, e, skb, in_reader);
		return true;
	}
	b = wl_batch_take(s, i);
	if (!b)
		return true;
	wl_batch_behind(s, &b->open, bpf_ktime_get_ns());
	e->replied = 1;
	wl_tx_end(c, &b->open, e, dev, in_reader);
	b->in_use = 0;
	return true;
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
	if (end && wl_tx_parked(c, s, skb, dev))
		return;
	if (s->batch_head != s->batch_tail && wl_tx_batch(c, s, skb, dev, end))
		return;
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
	wl_tx_end(c, &e->open, e, dev, in_reader);
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
