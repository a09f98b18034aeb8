/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* net:netif_receive_skb, skb:kfree_skb, tcp:tcp_probe: packets on their way to a socket. */

/* 6.11: usable from tp_btf (net/core/filter.c, bpf_kfunc_set_skb). Only called where user space found it. */
extern int bpf_dynptr_from_skb(struct __sk_buff *skb, u64 flags, struct bpf_dynptr *ptr)
	__ksym __weak;

struct wl_headers {
	u8 saddr[16];
	u16 sport;
	u16 dport;
	u32 seq;
	u32 payload; /* offset of the payload from skb->data */
	u32 length; /* of the payload */
	u8 proto;
	u8 multicast;
};

/* First bytes of IPv4 (no options) or IPv6 with TCP or UDP. */
struct wl_raw4 {
	struct iphdr ip;
	u16 source;
	u16 dest;
	u32 seq;
	u32 ack;
	u8 doff;
};

struct wl_raw6 {
	struct ipv6hdr ip;
	u16 source;
	u16 dest;
	u32 seq;
	u32 ack;
	u8 doff;
};

/* skb->data is at the network header here. Returns false for anything but TCP and UDP to a port of the target. */
static __always_inline bool wl_parse(const struct sk_buff *skb, struct wl_headers *h)
{
	u32 l4;

	if (skb->protocol == bpf_htons(WL_ETH_P_IP)) {
		struct wl_raw4 raw;

		if (bpf_probe_read_kernel(&raw, sizeof(raw), skb->data))
			return false;
		l4 = raw.ip.ihl * 4;
		if (raw.ip.frag_off & bpf_htons(0x1fff))
			return false; /* no ports; the datagram is known by its first fragment */
		if (l4 != sizeof(struct iphdr) &&
		    bpf_probe_read_kernel(&raw.source, sizeof(raw) - offsetof(struct wl_raw4, source),
					  skb->data + l4))
			return false;
		h->proto = raw.ip.protocol;
		h->sport = bpf_ntohs(raw.source);
		h->dport = bpf_ntohs(raw.dest);
		if (!wl_port_wanted(h->dport))
			return false;
		h->seq = bpf_ntohl(raw.seq);
		h->payload = l4 + (h->proto == WL_IPPROTO_UDP ? 8 : (raw.doff >> 4) * 4);
		/* the header's length: skb->len still has the padding of short frames; 0 in packets above 64 KiB */
		h->length = (raw.ip.tot_len ? bpf_ntohs(raw.ip.tot_len) : skb->len) - h->payload;
		h->multicast = (raw.ip.daddr & 0xf0) == 0xe0 || raw.ip.daddr == 0xffffffff;
		__builtin_memset(h->saddr, 0, sizeof(h->saddr));
		*(u32 *)h->saddr = raw.ip.saddr;
	} else if (skb->protocol == bpf_htons(WL_ETH_P_IPV6)) {
		struct wl_raw6 raw;

		if (bpf_probe_read_kernel(&raw, sizeof(raw), skb->data))
			return false;
		h->proto = raw.ip.nexthdr;
		h->sport = bpf_ntohs(raw.source);
		h->dport = bpf_ntohs(raw.dest);
		if (!wl_port_wanted(h->dport))
			return false;
		h->seq = bpf_ntohl(raw.seq);
		h->payload = sizeof(struct ipv6hdr) +
			     (h->proto == WL_IPPROTO_UDP ? 8 : (raw.doff >> 4) * 4);
		h->length = (raw.ip.payload_len
				     ? bpf_ntohs(raw.ip.payload_len) + sizeof(struct ipv6hdr)
				     : skb->len) -
			    h->payload;
		h->multicast = raw.ip.daddr.in6_u.u6_addr8[0] == 0xff;
		__builtin_memcpy(h->saddr, &raw.ip.saddr, sizeof(h->saddr));
	} else {
		return false;
	}
	return h->proto == WL_IPPROTO_UDP || h->proto == WL_IPPROTO_TCP;
}

static __always_inline u64 wl_id_mask(void)
{
	return wl_cfg_id_bytes >= 8 ? ~0ull : (1ull << (wl_cfg_id_bytes * 8)) - 1;
}

/* Delivered by a task that polls a device: the packet then names the NAPI instance (skb_mark_napi_id), one from a tun device does not. */
static __always_inline bool wl_busy_polled(struct wl_cpu *c, const struct sk_buff *skb)
{
	if (c->timeline.in_softirq || !bpf_core_field_exists(skb->napi_id) || !skb->napi_id)
		return false;
	return !(bpf_get_current_task_btf()->flags & WL_PF_KTHREAD);
}

static __always_inline void wl_arrive(struct wl_cpu *c, struct sk_buff *skb, bool any_part)
{
	struct wl_thread_entry *poller;
	struct wl_headers h;
	struct wl_packet *p;
	struct wl_arrival *a;
	u32 offset, sender;

	if (!wl_parse(skb, &h))
		return;
	if (h.proto == WL_IPPROTO_UDP) {
		u64 buffer = wl_address(c, skb->head);

		wl_places[wl_place_of(buffer) & (WL_PLACES - 1)] = wl_place_make(
			bpf_get_smp_processor_id(), c->udp.head & (WL_UDP_FIFO_LEN - 1));
		p = wl_udp_fifo_push(&c->udp, (u64)skb, buffer);
	} else {
		p = wl_tcp_fifo_push(&c->tcp);
	}
	c->for_target = 1;
	c->counters.target_packets++;
	p->net = (u64)skb->dev->nd_net.net;
	p->seq = h.seq;
	p->end_seq = h.seq + h.length;
	p->sport = h.sport;
	p->dport = h.dport;
	__builtin_memcpy(p->saddr, h.saddr, sizeof(h.saddr));
	a = &p->arrival;
	a->rx_ns = bpf_ktime_get_ns();
	a->ifindex = skb->dev->ifindex;
	a->rx_cpu = (u16)bpf_get_smp_processor_id();
	a->flags = WL_ARR_KNOWN | (h.multicast ? WL_ARR_MULTICAST : 0);
	a->id = 0;
	if (c->rx.valid) {
		a->origin_ns = c->rx.origin_ns;
		a->raise_ns = c->rx.raise_ns;
		a->entry_ns = c->rx.entry_ns;
		a->irq = c->rx.irq;
		a->irq_cpu = c->rx.irq_cpu;
		a->mode = c->rx.mode;
		a->origin = c->rx.origin;
		a->irq_idle_state = c->rx.irq_idle_state;
		if (c->rx.irq_idle)
			a->flags |= WL_ARR_IRQ_IDLE;
		if (c->rx.origin == WL_ORIGIN_NAPI)
			a->flags |= WL_ARR_POLLED;
		if (c->rx.squeezed)
			a->flags |= WL_ARR_SQUEEZED;
		/*
		 * RPS, or a remote softirq: the sender's CPU stays in the packet where no device has marked it with its NAPI id
		 * (one field for both; ids begin above the number of CPUs, net/busy_poll.h).
		 */
		sender = bpf_core_field_exists(skb->sender_cpu) ? skb->sender_cpu : 0;
		if (a->irq == WL_NO_IRQ && sender && sender - 1 != a->rx_cpu &&
		    wl_cpu_at(sender - 1)) {
			a->flags |= WL_ARR_HOP;
			a->irq_cpu = (u16)(sender - 1);
		}
	} else if (wl_busy_polled(c, skb)) {
		/* the task that reads polls the device: when the packet came is not known, only when the poll before ended */
		a->origin_ns = 0;
		a->raise_ns = c->poll_tid == (u32)bpf_get_current_pid_tgid() ? c->poll_ns : 0;
		a->entry_ns = 0;
		a->irq = WL_NO_IRQ;
		a->irq_cpu = WL_NO_CPU;
		a->mode = WL_SOFTIRQ_BUSY_POLL;
		a->origin = WL_ORIGIN_BUSY_POLL;
		a->irq_idle_state = -1;
	} else if ((poller = wl_napi_thread(c))) {
		struct wl_wait *w = wl_wait_last_wake(&poller->thread);

		a->origin_ns = poller->open.arrival.origin_ns;
		a->origin = poller->open.arrival.origin;
		a->irq = poller->open.arrival.irq;
		a->irq_cpu = poller->open.arrival.irq_cpu;
		a->raise_ns = w ? w->start_ns : 0;
		a->entry_ns = w ? w->in_ns : 0;
		a->mode = WL_SOFTIRQ_THREADED_NAPI;
		a->irq_idle_state = -1;
		if (a->origin == WL_ORIGIN_NONE || !w) {
			a->origin = WL_ORIGIN_NETIF_RX; /* it has been running since before the attach */
			a->origin_ns = 0;
		}
		if (a->origin == WL_ORIGIN_NAPI)
			a->flags |= WL_ARR_POLLED;
	} else {
		/* outside a softirq: a task writes into a tun device */
		a->origin_ns = 0;
		a->raise_ns = 0;
		a->entry_ns = 0;
		a->irq = WL_NO_IRQ;
		a->irq_cpu = WL_NO_CPU;
		a->mode = WL_SOFTIRQ_PROCESS;
		a->origin = WL_ORIGIN_NETIF_RX;
		a->irq_idle_state = -1;
	}
	if (!wl_cfg_id_bytes)
		return;
	offset = h.payload + wl_cfg_id_offset;
	if (offset + wl_cfg_id_bytes <= skb->len - skb->data_len) {
		if (!bpf_probe_read_kernel(&a->id, sizeof(a->id), skb->data + offset))
			a->flags |= WL_ARR_HAS_ID;
	} else if (any_part && offset + wl_cfg_id_bytes <= skb->len) {
		struct bpf_dynptr ptr;
		u64 id = 0;

		/* offsets count from skb->data, like skb_header_pointer() */
		bpf_dynptr_from_skb((struct __sk_buff *)skb, 0, &ptr);
		if (!bpf_dynptr_read(&id,
				     wl_cfg_id_bytes > 4   ? 8
				     : wl_cfg_id_bytes > 2 ? 4
							   : wl_cfg_id_bytes,
				     &ptr, offset, 0)) {
			a->id = id;
			a->flags |= WL_ARR_HAS_ID;
		}
	}
	a->id &= wl_id_mask();
}

/* Two programs, one of which is loaded: the second can read a request number outside the linear part (TCP over loopback). */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(wl_netif_receive_skb, struct sk_buff *skb)
{
	return WL_RUN(wl_arrive(c, skb, false));
}

SEC("?tp_btf/netif_receive_skb")
int BPF_PROG(wl_netif_receive_skb_id, struct sk_buff *skb)
{
	return WL_RUN(wl_arrive(c, skb, true));
}

static __always_inline void wl_drop(struct wl_cpu *c, struct sk_buff *skb)
{
	u64 address = (u64)skb;

	if (c->udp.head != c->udp.tail && wl_udp_fifo_drop(&c->udp, &address))
		wl_unmatched_add(c, WL_UNM_DROPPED, 1);
}

/* A dropped datagram would shift every later match on this CPU. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(wl_kfree_skb, struct sk_buff *skb)
{
	return WL_RUN(wl_drop(c, skb));
}

/* Looks for a packet in the FIFO of another CPU. */
static __always_inline struct wl_packet *wl_packet_of(u32 cpu, const struct wl_tcp_key *key)
{
	struct wl_cpu *other = wl_cpu_at(cpu);
	s64 i;

	if (!other)
		return NULL;
	i = wl_tcp_fifo_find(&other->tcp, key);
	return i < 0 ? NULL : wl_tcp_fifo_at(&other->tcp, (u32)i);
}

/*
 * Appends [key->seq, end_seq) or its first packet to the socket's queue; returns where the next part begins. From the backlog a
 * segment is handled on another CPU than it arrived on: that of the socket's last packet, or of the one before.
 */
__noinline u32 wl_segment_part(struct wl_tcp_socket *s, struct wl_tcp_key *key, u32 end_seq,
			       u32 incoming_cpu)
{
	u32 here = bpf_get_smp_processor_id();
	struct wl_cpu *c = wl_cpu_at(here);
	struct wl_packet *p;
	struct wl_segment *e;
	int overflow;

	if (!s || !key || !c)
		return end_seq;
	p = wl_packet_of(here, key);
	if (!p && incoming_cpu != here)
		p = wl_packet_of(incoming_cpu, key);
	if (!p && s->rx_cpu != here && s->rx_cpu != incoming_cpu)
		p = wl_packet_of(s->rx_cpu, key);
	e = wl_tcp_queue_push(&s->queue, &overflow);
	if (overflow)
		wl_lose(c, WL_LOST_TCP_QUEUE);
	e->seq = key->seq;
	e->end_seq = p && (s32)(p->end_seq - end_seq) < 0 ? p->end_seq : end_seq;
	e->probe_ns = bpf_ktime_get_ns();
	e->queued_ns = 0;
	if (p) {
		bpf_probe_read_kernel(&e->arrival, sizeof(e->arrival), &p->arrival);
		s->rx_cpu = p->arrival.rx_cpu;
	} else {
		wl_arrival_unknown(&e->arrival);
	}
	if (!c->timeline.in_softirq)
		e->arrival.flags |= WL_ARR_BACKLOG;
	return e->end_seq;
}

/* The state of a marked socket, made when its first data come: under the socket's lock, so that nobody else does it now. */
static __always_inline struct wl_tcp_socket *wl_tcp_begin(struct wl_cpu *c, struct sock *sk)
{
	struct wl_tcp_socket *s;

	if (!bpf_sk_storage_get(&wl_tcp_marks, sk, NULL, 0))
		return NULL;
	s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!s)
		wl_lose(c, WL_LOST_SOCKET_STORAGE);
	return s;
}

/* Appends what is known of [seq, end_seq): one packet, or as many as the backlog has merged. */
static __always_inline void wl_segment_parts(struct wl_tcp_socket *s, struct sock *sk, u32 seq,
					     u32 end_seq)
{
	struct wl_tcp_key key = {};

	key.net = (u64)sk->__sk_common.skc_net.net;
	key.seq = seq;
	key.local_port = sk->__sk_common.skc_num;
	key.peer_port = bpf_ntohs(sk->__sk_common.skc_dport);
	/* the FIN takes a sequence number without payload */
	for (int i = 0; i < 16; i++) {
		key.seq = wl_segment_part(s, &key, end_seq, sk->__sk_common.skc_incoming_cpu);
		if ((s32)(end_seq - key.seq) <= 0)
			break;
	}
}

/*
 * Data that made their connection whole: the last segment of the handshake was lost, dropped or never sent (TCP_DEFER_ACCEPT, a full
 * accept queue). tcp_rcv_state_process() queues them without tcp_probe (net/ipv4/tcp_input.c), before anybody has accepted. NULL: none.
 */
static __always_inline struct wl_tcp_socket *wl_tcp_first_data(struct wl_cpu *c, struct sock *sk)
{
	struct wl_tcp_socket *s;
	struct tcp_sock *tp;

	if (sk->__sk_common.skc_state == WL_TCP_LISTEN || sk->sk_socket)
		return NULL;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || tp->copied_seq == tp->rcv_nxt)
		return NULL;
	s = wl_tcp_begin(c, sk);
	if (s)
		wl_segment_parts(s, sk, tp->copied_seq, tp->rcv_nxt);
	return s;
}

/* Every data segment of an established connection, in softirq or from the backlog (net/ipv4/tcp_input.c). */
static __always_inline void wl_segment(struct wl_cpu *c, struct sock *sk, const struct sk_buff *skb)
{
	struct wl_tcp_socket *s;
	struct tcp_sock *tp;
	u32 seq, end_seq;

	if (!wl_port_filter[sk->__sk_common.skc_num])
		return;
	seq = BPF_CORE_READ((struct tcp_skb_cb *)&skb->cb[0], seq);
	end_seq = BPF_CORE_READ((struct tcp_skb_cb *)&skb->cb[0], end_seq);
	if (end_seq == seq)
		return;
	s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
	if (!s)
		s = wl_tcp_begin(c, sk);
	if (!s)
		return;
	c->for_target = 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || (s32)(end_seq - tp->rcv_nxt) <= 0)
		return; /* a retransmission of what was read */
	if (wl_cfg_old_reads && !s->queue.head)
		s->copied_seq = tp->copied_seq;
	wl_segment_parts(s, sk, seq, end_seq);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(wl_tcp_probe, struct sock *sk, const struct sk_buff *skb)
{
	return WL_RUN(wl_segment(c, sk, skb));
}
