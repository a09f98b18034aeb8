/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads on kernels before 6.3, which have neither sock:sk_data_ready nor sock:sock_recv_length. Loaded instead of the programs
 * on those two.
 *
 * UDP: skb:consume_skb is the last thing udp_recvmsg() does with a datagram (skb_consume_udp, __consume_stateless_skb), in the
 * reader's context, and its skb is the one netif_receive_skb had: read and packet are paired by that address, whatever the
 * order. A peek frees nothing. The skb does not name the socket; the descriptor in the reader's saved registers does.
 * TCP: tcp:tcp_rcv_space_adjust fires for every skb copied to the reader, under the socket's lock and after copied_seq has
 * moved on (tcp_recvmsg_locked); a peek does not move it.
 * When a datagram reached its socket is not known: what lies before the reader is woken or reads is all socket_queue.
 */

/* Instead of the FIFO, whose order says nothing without sk_data_ready. */
static __always_inline void wl_old_arrive(struct wl_cpu *c, struct sk_buff *skb)
{
	u32 head = c->udp.head;
	u64 key = (u64)skb;

	wl_arrive(c, skb, false);
	if (c->udp.head == head)
		return;
	if (bpf_map_update_elem(&wl_old_packets, &key, wl_udp_fifo_at(&c->udp, head), BPF_ANY))
		wl_lose(c, WL_LOST_UDP_QUEUE);
	wl_udp_fifo_drop(&c->udp, &key);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(wl_old_netif_receive_skb, struct sk_buff *skb)
{
	return WL_RUN(wl_old_arrive(c, skb));
}

static __always_inline void wl_old_drop(struct wl_cpu *c, struct sk_buff *skb)
{
	u64 key = (u64)skb;

	if (!bpf_map_delete_elem(&wl_old_packets, &key))
		wl_unmatched_add(c, WL_UNM_DROPPED, 1);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(wl_old_kfree_skb, struct sk_buff *skb)
{
	return WL_RUN(wl_old_drop(c, skb));
}

/* The socket that a task in a read call reads from: only an address, 0 when it is in no such call. */
static __always_inline u64 wl_old_socket(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct fdtable *table;
	struct file **files, *file;
	struct socket *socket;
	u64 fd;

	if (!regs)
		return 0;
	switch (wl_task_syscall(task)) {
#if defined(__TARGET_ARCH_x86)
	case 0: /* read */
	case 19: /* readv */
	case 45: /* recvfrom */
	case 47: /* recvmsg */
	case 299: /* recvmmsg */
		fd = BPF_CORE_READ(regs, di);
		break;
#elif defined(__TARGET_ARCH_arm64)
	case 63: /* read */
	case 65: /* readv */
	case 207: /* recvfrom */
	case 212: /* recvmsg */
	case 243: /* recvmmsg */
		fd = BPF_CORE_READ(regs, orig_x0);
		break;
#endif
	default:
		return 0;
	}
	table = BPF_CORE_READ(task, files, fdt);
	if (!table || (u32)fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), files + (u32)fd) || !file)
		return 0;
	/* of a file that is no socket this is something else: the caller looks it up among the sockets that are known */
	socket = (struct socket *)BPF_CORE_READ(file, private_data);
	return (u64)BPF_CORE_READ(socket, sk);
}

/* As wl_open_socket(), for an address. */
static __always_inline void wl_old_open_socket(struct wl_request *r, const struct sock *sk,
					       const struct wl_packet *p)
{
	r->proto = WL_IPPROTO_UDP;
	r->lport = p->dport;
	r->rport = p->sport;
	__builtin_memset(r->laddr, 0, sizeof(r->laddr));
	__builtin_memcpy(r->raddr, p->saddr, sizeof(r->raddr));
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == WL_AF_INET) {
		r->family = 4;
		*(u32 *)r->laddr = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	} else {
		r->family = 6;
		BPF_CORE_READ_INTO(&r->laddr, sk, __sk_common.skc_v6_rcv_saddr);
	}
}

/* A datagram of socket `sk` has been read by the running task, a thread of the target. */
static __always_inline void wl_old_udp_read(struct wl_cpu *c, struct wl_thread_entry *e, u32 slot,
					    struct task_struct *task, u64 sk, struct wl_udp_socket *s,
					    const struct wl_packet *p, u32 bytes)
{
	struct wl_open *open = &e->open;
	u64 now = bpf_ktime_get_ns();

	wl_udp_end_before(c, e, sk, s, now);
	if (!p) {
		wl_unmatched_add(c, WL_UNM_UNSYNCED, 1);
		e->thread.activity_ns = now;
		return;
	}
	wl_open_begin(open, sk, task, slot, now);
	wl_old_open_socket(&open->request, (const struct sock *)sk, p);
	open->request.read_len = bytes;
	s->reader_slot = slot +
			 1; /* several readers are no doubt here: the skb tells whose datagram it is */
	wl_open_reader(c, open, e, now);
	open->arrival = p->arrival;
	open->queued_ns = p->arrival.rx_ns;
	wl_finish_read(open, e);
	e->thread.activity_ns = now;
	open->active = WL_OPEN_YES;
}

static __always_inline bool wl_old_is_udp_for(const struct sk_buff *skb, u16 port)
{
	u16 dest = 0;

	bpf_probe_read_kernel(&dest, sizeof(dest),
			      BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, transport_header) + 2);
	return bpf_ntohs(dest) == port;
}

static __always_inline void wl_old_consume(struct wl_cpu *c, struct sk_buff *skb)
{
	u64 key = (u64)skb, sk;
	struct wl_packet *p = bpf_map_lookup_elem(&wl_old_packets, &key);
	struct wl_udp_socket *s = NULL;
	struct wl_thread_entry *e;
	struct task_struct *task;
	u32 *index, slot = 0;
	u16 port;

	/* a task's own: not in an interrupt on top of it */
	if (c->timeline.in_softirq || c->timeline.irq_depth)
		goto forget;
	task = bpf_get_current_task_btf();
	e = wl_thread_of(c, task, &slot);
	if (!e) {
		if (p)
			wl_unmatched_add(c, WL_UNM_OUTSIDE_READER, 1);
		goto forget;
	}
	sk = wl_old_socket(task);
	index = sk ? bpf_map_lookup_elem(&wl_old_sockets, &sk) : NULL;
	if (index)
		s = wl_udp_at(*index);
	if (!s || s->sk != sk) {
		if (p) /* io_uring, or opened since the last adoption */
			wl_unmatched_add(c, WL_UNM_NEW_SOCKET, 1);
		goto forget;
	}
	port = BPF_CORE_READ((struct sock *)sk, __sk_common.skc_num);
	/* a polling reader also frees what the driver has sent */
	if (p ? p->dport == port : wl_old_is_udp_for(skb, port))
		wl_old_udp_read(c, e, slot, task, sk, s, p, BPF_CORE_READ(skb, len));
forget:
	if (p)
		bpf_map_delete_elem(&wl_old_packets, &key);
}

SEC("tp_btf/consume_skb")
int BPF_PROG(wl_old_consume_skb, struct sk_buff *skb)
{
	return WL_RUN(wl_old_consume(c, skb));
}

static __always_inline void wl_old_tcp_copied(struct wl_cpu *c, struct sock *sk)
{
	struct wl_tcp_socket *s;
	struct tcp_sock *tp;
	s32 bytes;

	if (!wl_port_filter[sk->__sk_common.skc_num])
		return;
	s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
	tp = s ? bpf_skc_to_tcp_sock(sk) : NULL;
	if (!tp)
		return;
	bytes = (s32)(tp->copied_seq - s->copied_seq);
	if (bytes <= 0)
		return; /* a peek */
	s->copied_seq = tp->copied_seq;
	wl_tcp_read(c, sk, bpf_get_current_task_btf(), bytes, 0);
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(wl_old_tcp_rcv_space_adjust, struct sock *sk)
{
	return WL_RUN(wl_old_tcp_copied(c, sk));
}
