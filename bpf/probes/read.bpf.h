/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sock:sock_recv_length: reads; sock:inet_sock_set_state: new listeners. */

static __always_inline void wl_udp_read(struct wl_cpu *c, struct sock *sk, struct task_struct *task,
					int ret)
{
	struct wl_udp_socket *s = wl_udp_of(sk);
	struct wl_thread_entry *e;
	struct wl_open *open;
	struct wl_datagram *d = &c->popped;
	struct wl_udp_read *read = &c->read;
	u64 index = 0, now;
	u32 slot = 0;
	bool unknown; /* whether others read this socket, too */
	enum wl_udp_pop_status status;

	e = wl_thread_of(c, task, &slot);
	if (!s) {
		if (!e || !wl_socket_wanted(sk, WL_IPPROTO_UDP) || wl_udp_is_client(sk))
			return;
		/* opened after the attach; unsynchronised until its queue is seen to hold one datagram */
		if (!wl_udp_create(c, sk))
			return;
		wl_port_filter[sk->__sk_common.skc_num] = 1;
		wl_unmatched_add(c, WL_UNM_NEW_SOCKET, 1);
		return;
	}
	now = bpf_ktime_get_ns();
	c->ready_udp = 0;
	unknown = !s->reader_slot && wl_next_slot > 1;
	if (s->reader_slot != slot + 1 || !e) {
		if (s->reader_slot || !e)
			s->shared = 1;
		if (e)
			s->reader_slot = slot + 1;
	}
	read->now = now;
	read->head = *(volatile u64 *)&s->queue.head;
	wl_udp_front(sk, read);
	read->cpu = (u16)bpf_get_smp_processor_id();
	read->shared = s->shared || unknown;
	status = wl_udp_queue_pop(&s->queue, read, &index, d);
	if (status == WL_POP_DEBT) {
		wl_udp_front(sk, read);
		status = wl_udp_queue_retry(&s->queue, read, &index, d);
	}
	if (!e) {
		wl_unmatched_add(c, WL_UNM_OUTSIDE_READER, 1);
		return;
	}
	open = &e->open;
	wl_udp_end_before(c, e, (u64)sk, s, now);
	if (status == WL_POP_UNSYNCED) {
		wl_unmatched_add(c, WL_UNM_UNSYNCED, 1);
		e->thread.activity_ns = now;
		return;
	}
	wl_open_begin(open, (u64)sk, task, slot, now);
	wl_open_socket(&open->request, sk);
	open->request.read_len = (u32)ret;
	if (read->unsure)
		open->request.quality |= WL_Q_SHARED_SOCKET;
	open->unproven = !read->proven;
	wl_open_reader(c, open, e, now);
	open->debt_index = index;
	if (status == WL_POP_OK) {
		wl_udp_buffer_free(d);
		open->arrival = d->arrival;
		open->queued_ns = d->unseen ? now : d->queued_ns;
		wl_open_spread(open, d);
		if (!open->request.rport)
			open->request.rport = d->sport;
		if (d->order_unsure)
			open->request.quality |= WL_Q_ORDER_UNSURE;
		if (wl_thread_unreported(&e->thread,
					 d->arrival.flags & WL_ARR_KNOWN ? d->arrival.rx_ns : 0))
			open->request.quality |= WL_Q_LOST_SWITCH;
		if (d->sport)
			__builtin_memcpy(open->request.raddr, d->saddr, sizeof(d->saddr));
		wl_finish_read(open, e);
	} else {
		if (status == WL_POP_TORN)
			wl_lose(c, WL_LOST_TORN);
		open->debt = 1;
		open->unreported = !!wl_thread_unreported(&e->thread, 0);
		open->debt_index = index;
		open->queued_ns = now;
		wl_arrival_unknown(&open->arrival);
	}
	e->thread.activity_ns = now;
	open->active = WL_OPEN_YES;
}

/*
 * Where the running task's system call has put the first bytes that it read; *room: how many at most. 0: not known (io_uring,
 * splice, a 32-bit process). At the end of a read its arguments are still in the registers saved at the entry.
 */
static __noinline u64 wl_read_buffer(struct task_struct *task, u64 *room)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 second, third, vector[2];
	s32 call = wl_task_syscall(task);

	if (!regs)
		return 0;
#if defined(__TARGET_ARCH_x86)
	if (BPF_CORE_READ(regs, cs) != WL_USER_CS)
		return 0;
	second = BPF_CORE_READ(regs, si);
	third = BPF_CORE_READ(regs, dx);
#elif defined(__TARGET_ARCH_arm64)
	if (BPF_CORE_READ(regs, pstate) & WL_PSR_MODE32)
		return 0;
	second = BPF_CORE_READ(regs, regs[1]);
	third = BPF_CORE_READ(regs, regs[2]);
#else
	return 0;
#endif
	if (call == WL_NR_READ || call == WL_NR_RECVFROM) {
		*room = third;
		return second;
	}
	/* struct user_msghdr: name, its length, the vector */
	if (call == WL_NR_RECVMSG &&
	    bpf_probe_read_user(&second, sizeof(second), (void *)(second + 16)))
		return 0;
	if ((call != WL_NR_RECVMSG && call != WL_NR_READV) ||
	    bpf_probe_read_user(vector, sizeof(vector), (void *)second))
		return 0;
	*room = vector[1];
	return vector[0];
}

/*
 * The request number out of the memory that the read has just filled: there the request begins, wherever it lay in its segments.
 * Returns whether it is there.
 */
static __noinline bool wl_read_number(struct task_struct *task, u32 length, u64 *number)
{
	u32 bytes = wl_cfg_id_bytes;
	u64 room = 0, buffer, id = 0;

	if (bytes < 1 || bytes > 8 || (u64)wl_cfg_id_offset + bytes > length)
		return false;
	buffer = wl_read_buffer(task, &room);
	if (!buffer || (u64)wl_cfg_id_offset + bytes > room)
		return false;
	if (bpf_probe_read_user(&id, bytes, (void *)(buffer + wl_cfg_id_offset)))
		return false;
	*number = id;
	return true;
}

static __always_inline void wl_tcp_read(struct wl_cpu *c, struct sock *sk, struct task_struct *task,
					int ret, int flags)
{
	struct wl_tcp_socket *s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
	struct wl_thread_entry *e;
	struct tcp_sock *tp;
	struct wl_tcp_read read;
	struct wl_open *open;
	struct wl_segment *seg;
	u64 first = 0, now;
	u32 slot = 0, more = 0;

	if (ret <= 0)
		return;
	e = wl_thread_of(c, task, &slot);
	if (!s) {
		if (e && bpf_sk_storage_get(&wl_tcp_marks, sk, NULL, 0))
			wl_unmatched_add(c, WL_UNM_NO_SEGMENT, 1);
		return;
	}
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	wl_tcp_queue_read(&s->queue, tp->copied_seq, (u32)ret, &read);
	if (!e) {
		wl_unmatched_add(c, WL_UNM_OUTSIDE_READER, 1);
		return;
	}
	now = bpf_ktime_get_ns();
	open = &s->open;
	if (open->active && tp->write_seq == open->write_seq) {
		/* one request read in pieces: it starts with the last byte of the last piece */
		more = WL_Q_MULTI_READ;
		first = open->first_byte_ns;
	} else if (open->active && !wl_tcp_park(s) && open->active) {
		/* answered, but the answer has not reached the driver: its end will not be known */
		wl_lose(c, WL_LOST_TX_PENDING);
		wl_thread_time_at(&e->thread, &c->timeline, now, &open->at_send);
		wl_finish(open, e, &open->at_send, now, WL_Q_NO_REPLY | WL_Q_NO_THREAD);
	}
	if (read.last < 0) {
		open->active = WL_OPEN_NO;
		e->thread.activity_ns = now;
		wl_unmatched_add(c, WL_UNM_NO_SEGMENT, 1);
		return;
	}
	wl_open_begin(open, (u64)sk, task, slot, now);
	wl_open_socket(&open->request, sk);
	open->write_seq = tp->write_seq;
	open->request.read_len = (u32)ret;
	open->request.quality |= more;
	seg = &s->queue.entries[read.last & (WL_TCP_QUEUE_LEN - 1)];
	open->arrival = seg->arrival;
	open->probe_ns = seg->probe_ns;
	open->queued_ns = seg->queued_ns ? seg->queued_ns : seg->probe_ns;
	open->arrival.flags &= ~WL_ARR_HAS_ID;
	if (read.first >= 0) {
		struct wl_segment *f = &s->queue.entries[read.first & (WL_TCP_QUEUE_LEN - 1)];

		if (!first)
			first = f->arrival.flags & WL_ARR_KNOWN ? f->arrival.origin_ns : 0;
		/* the number was read at its offset in the segment; that is its place only if the read began there */
		if (!more && (f->arrival.flags & WL_ARR_HAS_ID) &&
		    f->seq == tp->copied_seq - (u32)ret) {
			open->arrival.flags |= WL_ARR_HAS_ID;
			open->arrival.id = f->arrival.id;
		}
	}
	/* not with old reads, which are pieces of one call */
	if (wl_cfg_id_bytes && !wl_cfg_old_reads && !more && !(open->arrival.flags & WL_ARR_HAS_ID) &&
	    !(flags & WL_MSG_TRUNC) && wl_read_number(task, (u32)ret, &open->arrival.id))
		open->arrival.flags |= WL_ARR_HAS_ID;
	if (!first)
		open->request.quality |= WL_Q_FIRST_BYTE_UNKNOWN;
	open->first_byte_ns = first;
	if (s->reader_slot != slot + 1) {
		if (s->reader_slot)
			open->request.quality |= WL_Q_SHARED_SOCKET;
		s->reader_slot = slot + 1;
	}
	wl_open_reader(c, open, e, now);
	wl_finish_read(open, e);
	e->thread.activity_ns = now;
	open->active = WL_OPEN_YES;
}

static __always_inline void wl_read(struct wl_cpu *c, struct sock *sk, int ret, int flags)
{
	struct task_struct *task;
	u16 family = sk->__sk_common.skc_family;

	if (ret < 0 || (family != WL_AF_INET && family != WL_AF_INET6))
		return;
	task = bpf_get_current_task_btf();
	if (!wl_port_filter[sk->__sk_common.skc_num] && !wl_tgid_filter[task->tgid & 4095])
		return;
	if (flags & (WL_MSG_PEEK | WL_MSG_ERRQUEUE)) {
		if (flags & WL_MSG_PEEK)
			wl_unmatched_add(c, WL_UNM_PEEK, 1);
		return;
	}
	if (sk->sk_protocol == WL_IPPROTO_UDP)
		wl_udp_read(c, sk, task, ret);
	else if (sk->sk_protocol == WL_IPPROTO_TCP)
		wl_tcp_read(c, sk, task, ret, flags);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(wl_sock_recv_length, struct sock *sk, int ret, int flags)
{
	return WL_RUN(wl_read(c, sk, ret, flags));
}

/* A server that starts to listen after the attach. */
static __always_inline void wl_listen(struct wl_cpu *c, struct sock *sk)
{
	if (!wl_is_target(bpf_get_current_pid_tgid() >> 32) || !wl_socket_wanted(sk, WL_IPPROTO_TCP))
		return;
	if (!bpf_sk_storage_get(&wl_tcp_marks, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE)) {
		wl_lose(c, WL_LOST_SOCKET_STORAGE);
		return;
	}
	wl_port_filter[sk->__sk_common.skc_num] = 1;
	wl_listen_ports[sk->__sk_common.skc_num] = 1;
}

/* The oldest parked request of a connection that is gone. */
__noinline int wl_closed_parked(struct wl_tcp_socket *s)
{
	struct wl_parked *p;
	struct wl_thread_entry *e;

	if (!s)
		return 0;
	p = wl_parked_at(s->parked[s->parked_tail & (WL_TCP_PENDING - 1)]);
	s->parked_tail++;
	if (!p)
		return 0;
	e = wl_slot_at(p->open.slot);
	if (e)
		wl_finish(&p->open, e, &p->open.at_send, bpf_ktime_get_ns(), WL_Q_NO_REPLY);
	p->in_use = 0;
	return 0;
}

/* A connection is gone, and with it the replies that still waited. */
static __always_inline void wl_closed(struct wl_cpu *c, struct sock *sk)
{
	struct wl_tcp_socket *s;

	if (!wl_port_filter[sk->__sk_common.skc_num])
		return;
	s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
	if (!s)
		return;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < WL_TCP_PENDING; i++) {
		if (s->parked_tail == s->parked_head)
			break;
		wl_closed_parked(s);
	}
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(wl_set_state, const struct sock *sk, const int oldstate, const int newstate)
{
	return WL_RUN({
		if (newstate == WL_TCP_LISTEN)
			wl_listen(c, (struct sock *)sk);
		else if (newstate == WL_TCP_CLOSE)
			wl_closed(c, (struct sock *)sk);
	});
}
