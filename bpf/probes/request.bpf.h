/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a request begins at its read, and how it is kept or closed when its thread reads on. */

/* The socket's side of a request. `sk`: typed, as tracepoints hand it out. */
static __always_inline void wl_open_socket(struct wl_request *r, const struct sock *sk)
{
	r->proto = (u8)sk->sk_protocol;
	r->lport = sk->__sk_common.skc_num;
	r->rport = bpf_ntohs(sk->__sk_common.skc_dport);
	__builtin_memset(r->laddr, 0, sizeof(r->laddr));
	__builtin_memset(r->raddr, 0, sizeof(r->raddr));
	if (sk->__sk_common.skc_family == WL_AF_INET) {
		r->family = 4;
		*(u32 *)r->laddr = sk->__sk_common.skc_rcv_saddr;
		*(u32 *)r->raddr = sk->__sk_common.skc_daddr;
	} else {
		r->family = 6;
		bpf_probe_read_kernel(r->laddr, sizeof(r->laddr), &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(r->raddr, sizeof(r->raddr), &sk->__sk_common.skc_v6_daddr);
	}
}

/* Starts a request in `open`; the caller adds what its protocol knows. `sk` is only stored. */
static __always_inline void wl_open_begin(struct wl_open *open, u64 sk, struct task_struct *task,
					  u32 slot, u64 now)
{
	struct wl_request *r = &open->request;

	open->slot = slot;
	open->sk = sk;
	open->debt = 0;
	open->probe_ns = 0;
	open->read_begin_ns = 0;
	open->devq_ns = 0;
	open->held = 0;
	open->tx_skb = 0;
	open->send_begin_ns = 0;
	open->first_byte_ns = 0;
	open->maybe_end_ns = 0;
	open->split.throttled_ns = 0;
	open->split.nr_waits = 0;
	__builtin_memset(r->stage_ns, 0, sizeof(r->stage_ns));
	r->recv_ns = now;
	r->clamped_ns = 0;
	r->first_byte_ns = 0;
	r->blocked_ns = 0;
	r->blocked_syscall = WL_NO_SYSCALL;
	r->blocked_waker_tid = 0;
	r->tx_held_ns = 0;
	r->tx_hold = WL_HOLD_NONE;
	r->tx_backlog = WL_NO_BACKLOG;
	r->tx_qdisc[0] = 0;
	r->app_cpu = WL_NO_CPU;
	r->idle_elsewhere_ns = 0;
	r->migrations = 0;
	r->budget_share[0] = 0;
	r->budget_share[1] = 0;
	r->long_irq_ns = 0;
	r->hop_cpu = WL_NO_CPU;
	r->sk_cookie = sk;
	r->tgid = task->tgid;
	r->tid = task->pid;
	bpf_probe_read_kernel(r->comm, sizeof(r->comm), task->comm);
	r->quality = 0;
	r->ifindex = 0;
	r->tx_cpu = WL_NO_CPU;
	r->run_cpu = WL_NO_CPU;
	r->recv_cpu = (u16)bpf_get_smp_processor_id();
	r->idle_state = -1;
	open->occupants.count = 0;
	open->unproven = 0;
	r->fanout_rank = 0;
	r->fanout_ns = 0;
	r->woken_tid = 0;
	r->poll_gap_ns = 0;
	r->behind = 0;
	r->behind_ns = 0;
	r->not_named_switches = 0;
	for (int i = 0; i < WL_NR_STOP_PARTS; i++) {
		r->stopped_ns[i] = 0;
		r->stop_kind[i] = WL_STOP_NONE;
	}
}

/* Who else the datagram concerned. */
static __always_inline void wl_open_spread(struct wl_open *open, const struct wl_datagram *d)
{
	struct wl_request *r = &open->request;

	r->fanout_rank = d->fanout_rank;
	r->fanout_ns = d->fanout_ns;
	r->woken_tid = d->woken_tid != r->tid ? d->woken_tid : 0;
}

/* What the reader's thread adds to a request at the read. */
static __always_inline void wl_open_reader(struct wl_cpu *c, struct wl_open *open,
					   struct wl_thread_entry *e, u64 now)
{
	struct wl_thread *t = &e->thread;
	struct wl_request *r = &open->request;

	wl_heal_here(c, e);
	open->read_begin_ns = wl_cfg_syscalls && t->sys_enter_ns < now ? t->sys_enter_ns : 0;
	wl_thread_time_at(t, &c->timeline, now, &open->at_recv);
	r->waker_tid = t->waker_tid;
	wl_comm_copy(r->waker_comm, t->waker_comm);
	t->long_sleep_ns = 0;
	t->await_exit = 1;
	t->sys_exit_ns = 0;
}

/* A request that ends without a reply, or whose only candidate for one was a send elsewhere. */
static __always_inline void wl_close_unanswered(struct wl_cpu *c, struct wl_open *open,
						struct wl_thread_entry *e, u64 now)
{
	if (open->maybe_end_ns) {
		open->devq_ns = open->maybe_devq_ns;
		open->send_begin_ns = open->maybe_send_ns;
		open->request.ifindex = open->maybe_ifindex;
		open->request.tx_cpu = open->maybe_cpu;
		open->request.app_cpu = open->maybe_cpu; /* the reader sent it */
		wl_finish(open, e, &open->maybe_time, open->maybe_end_ns, WL_Q_OTHER_SOCKET);
	} else {
		open->request.app_cpu = (u16)e->thread.cpu;
		wl_thread_time_at(&e->thread, &c->timeline, now, &open->at_send);
		wl_finish(open, e, &open->at_send, now, WL_Q_NO_REPLY);
	}
}

/* Ends a request whose reply left while it was being kept: e->left says how. */
static __always_inline void wl_finish_left(struct wl_open *open, struct wl_thread_entry *e)
{
	open->request.ifindex = e->left.ifindex;
	wl_comm_copy(open->request.tx_qdisc, e->left.qdisc);
	open->request.tx_cpu = (u16)e->left.cpu;
	wl_finish(open, e, &open->at_send, e->left.now_ns, WL_Q_OTHER_CONTEXT);
}

/* Copies a request away, so that its thread can go on. Returns its place, WL_PARKED if there is none or it is no longer open. */
static __noinline u32 wl_park_copy(struct wl_open *open)
{
	u32 slot = wl_parked_take(), state;
	struct wl_parked *p = wl_parked_at(slot);

	if (!p)
		return WL_PARKED;
	/* an interrupt may have ended it since the caller looked */
	state = wl_park_begin(&open->active);
	if (!state) {
		p->in_use = 0;
		return WL_PARKED;
	}
	bpf_probe_read_kernel(&p->open, sizeof(p->open), open);
	p->open.active = state;
	p->awaits_datagram = state == WL_OPEN_ENDED;
	p->since_ns = bpf_ktime_get_ns();
	return slot;
}

/* A free entry, WL_TX_PENDING: none. */
__noinline u32 wl_parked_room(struct wl_udp_socket *s)
{
	if (!s)
		return WL_TX_PENDING;
	for (u32 i = 0; i < WL_TX_PENDING; i++) {
		if (s->parked[i].state == WL_OPEN_NO)
			return i;
	}
	return WL_TX_PENDING;
}

/* Keeps a request with its UDP socket while its thread goes on. Returns false when there is no room. */
static __always_inline bool wl_park(struct wl_udp_socket *s, struct wl_open *open,
				    struct wl_thread_entry *e)
{
	u32 i = wl_parked_room(s), state = open->active;
	struct wl_parked_ref *ref;
	u32 slot;

	if (i >= WL_TX_PENDING)
		return false;
	ref = &s->parked[i & (WL_TX_PENDING - 1)];
	e->left_skb = 0;
	slot = wl_park_copy(open);
	if (slot >= WL_PARKED)
		return false;
	ref->skb = open->tx_skb;
	ref->slot = slot;
	if (wl_udp_park_show(ref, state, &s->waiting, &e->left_skb)) {
		struct wl_parked *p = wl_parked_at(slot);

		if (p)
			p->in_use = 0;
		open->active = WL_OPEN_YES;
		return false;
	}
	open->active = WL_OPEN_NO;
	return true;
}

/* The same for a connection, whose replies leave in the order of the requests. */
static __always_inline bool wl_tcp_park(struct wl_tcp_socket *s)
{
	struct wl_thread_entry *reader = wl_slot_at(s->open.slot);
	u32 slot, head = s->parked_head;
	struct wl_parked *p;

	if (head - s->parked_tail >= WL_TCP_PENDING)
		return false;
	if (reader)
		reader->left_skb = 0;
	slot = wl_park_copy(&s->open);
	if (slot >= WL_PARKED)
		return false;
	s->parked[head & (WL_TCP_PENDING - 1)] = (u16)slot;
	if (!reader) {
		__sync_fetch_and_add(&s->parked_head, 1);
	} else if (wl_tcp_park_show(&s->parked_head, &s->parked_tail, &reader->left_skb, s->open.sk)) {
		p = wl_parked_at(slot);
		if (p) {
			wl_finish_left(&p->open, reader);
			p->open.active = WL_OPEN_NO;
			p->in_use = 0;
		}
	}
	s->open.active = WL_OPEN_NO;
	return true;
}

/* A read by this thread ends its request before, unless that waits for its reply in a queue: then it is kept with its socket. */
static __always_inline void wl_udp_end_before(struct wl_cpu *c, struct wl_thread_entry *e, u64 sk,
					      struct wl_udp_socket *s, u64 now)
{
	struct wl_open *open = &e->open;
	u32 same = open->sk == sk;
	enum wl_read_kind kind = WL_READ_ONE;

	if (open->active || s->batch_head != s->batch_tail)
		kind = wl_read_kind_of(bpf_get_current_task_btf());
	if (s->batch_head != s->batch_tail &&
	    ((e->replied && kind != WL_READ_URING) || s->batch_head - s->batch_tail >= WL_BATCH))
		wl_batch_close(s, e, now);
	if (e->replied) {
		e->replied = 0;
		if (s->batch_head == s->batch_tail)
			s->batch_answered = 0;
	}
	if (!open->active)
		return;
	wl_settle_debt(open, e, same ? s : NULL);
	if (same && open->active == WL_OPEN_YES && !open->devq_ns && !open->maybe_end_ns &&
	    kind != WL_READ_ONE && wl_batch_keep(s, open))
		return;
	/* it may have left meanwhile */
	if (same && open->devq_ns && !wl_park(s, open, e) && open->active) {
		if (e->left_skb) {
			wl_finish_left(open, e);
			return;
		}
		wl_lose(c, WL_LOST_TX_PENDING);
	}
	if (open->active)
		wl_close_unanswered(c, open, e, now);
}
