/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet of a reply: what it says of the request, its marks, and the end of a request at it. */

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
static __noinline void wl_at_send(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e,
				  u64 now, bool in_reader)
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
static __always_inline void wl_tx_mark(struct wl_cpu *c, struct wl_open *open,
				       struct wl_thread_entry *e, const struct sk_buff *skb,
				       bool in_reader)
{
	u64 now = bpf_ktime_get_ns();

	/* a batch may be cut into packets of their own before the driver gets it */
	open->tx_skb = BPF_CORE_READ((struct skb_shared_info *)(skb->head + skb->end), gso_size)
			       ? 0
			       : (u64)skb;
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
static __noinline void wl_tx_device(struct wl_cpu *c, const struct sk_buff *skb,
				    const struct net_device *dev, bool waited)
{
	struct netdev_queue *queue;
	struct Qdisc *q;

	c->tx.now_ns = bpf_ktime_get_ns();
	c->tx.ifindex = dev->ifindex;
	c->tx.qdisc[0] = 0;
	if (!waited)
		return;
	/* not dev->_tx: the verifier of 6.18 searches all types by name for each pointer read from one it trusts */
	queue = (void *)((u64)BPF_CORE_READ(dev, _tx) +
			 skb->queue_mapping * bpf_core_type_size(struct netdev_queue));
	q = BPF_CORE_READ(queue, qdisc);
	if (BPF_CORE_READ(q, enqueue))
		bpf_probe_read_kernel(c->tx.qdisc, sizeof(c->tx.qdisc), BPF_CORE_READ(q, ops, id));
}

/* Ends a request at the packet that c->tx describes. */
static __always_inline void wl_tx_end(struct wl_cpu *c, struct wl_open *open,
				      struct wl_thread_entry *e, bool in_reader)
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

#define WL_WORTH_A_LOOK_NS 10000 /* a wait for which the queueing discipline is looked up */

static __always_inline bool wl_waited(const struct wl_open *open)
{
	return open->devq_ns && bpf_ktime_get_ns() - open->devq_ns > WL_WORTH_A_LOOK_NS;
}
