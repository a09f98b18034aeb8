/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * net:net_dev_queue and net:net_dev_start_xmit: the reply. A request ends at the first packet with payload, whoever's context
 * that is.
 */

/* Notes that the reply of a request leaves which its thread is moving away right now; `what` tells whose. */
static __always_inline void wl_tx_left(struct wl_cpu *c, struct wl_thread_entry *e,
				       const struct sk_buff *skb, const struct net_device *dev,
				       u64 what)
{
	wl_tx_device(c, skb, dev, true);
	e->left.now_ns = c->tx.now_ns;
	e->left.ifindex = c->tx.ifindex;
	e->left.cpu = bpf_get_smp_processor_id();
	wl_comm_copy(e->left.qdisc, c->tx.qdisc);
	wl_park_note(&e->left_skb, what);
}

/* TCP: whose context it is does not matter, the sequence number tells. */
static __always_inline void wl_tx_tcp_reply(struct wl_cpu *c, struct sock *sk,
					    const struct sk_buff *skb, const struct net_device *dev,
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
		wl_tx_tcp_parked(c, s, tx.end_seq, skb, end);
	}
	if (!s->open.active || !wl_seq_after(tx.end_seq, s->open.write_seq))
		return;
	e = wl_slot_at(s->open.slot);
	if (!e)
		return;
	if (s->open.active == WL_OPEN_MOVING && end) {
		/* in the middle of wl_tcp_park(), or it is through by now */
		wl_tx_left(c, e, skb, dev, (u64)sk);
		if (s->parked_head != s->parked_tail)
			wl_tx_tcp_parked(c, s, tx.end_seq, skb, true);
		return;
	}
	if (s->open.active != WL_OPEN_YES)
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

/* UDP on the socket the request came from: by the reader, or by whoever else sends on it. */
static __always_inline void wl_tx_udp_reply(struct wl_cpu *c, struct sock *sk,
					    const struct sk_buff *skb, const struct net_device *dev,
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
		if (!e->open.devq_ns)
			wl_tx_mark(c, &e->open, e, skb, in_reader);
		return;
	}
	if (e->open.active == WL_OPEN_MOVING) {
		/* in the middle of wl_park(), which looks for this when it is through; or it is through by now */
		wl_tx_left(c, e, skb, dev, (u64)skb);
		if (s->waiting)
			wl_tx_parked(c, s, skb, dev);
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
static __always_inline void wl_tx_elsewhere(struct wl_cpu *c, struct sock *sk,
					    const struct sk_buff *skb, const struct net_device *dev)
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

static __always_inline void wl_transmit(struct wl_cpu *c, const struct sk_buff *skb,
					const struct net_device *dev, bool end)
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
