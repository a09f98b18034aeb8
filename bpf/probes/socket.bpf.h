/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sock:sk_data_ready, sock:sock_recv_length, sock:inet_sock_set_state: from the socket to the end of the read. */

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

enum wl_seen { WL_SEEN_STOP = 0, WL_SEEN_NEW = 1, WL_SEEN_STRANGE = 2 };

/* A datagram of the kernel's queue: has it been pushed? `last` is the newest that has been. *place: of its packet. */
static __always_inline enum wl_seen wl_queued_datagram(u64 skb, u64 buffer, u64 last, u32 *place)
{
	struct wl_packet *p;

	*place = wl_places[wl_place_of(buffer) & (WL_PLACES - 1)];
	p = wl_packet_at(*place);
	if (!p || p->buffer != buffer)
		return skb == last ? WL_SEEN_STOP : WL_SEEN_STRANGE;
	if (!p->skb || ((p->arrival.flags & WL_ARR_MULTICAST) && skb == last))
		return WL_SEEN_STOP;
	return WL_SEEN_NEW;
}

#define WL_QUEUE_WALK 16

/*
 * The oldest datagram of the kernel's queue that has not been pushed: its packet's place, 0 none; more in *c. Looks from the newest to
 * older ones, in sk_receive_queue and then in reader_queue, which a reader fills from it. `own` is a place to look out for.
 */
static __noinline u32 wl_udp_unsignalled(struct wl_cpu *c, struct sock *sk, u64 last, u32 own)
{
	struct sk_buff *n = sk->sk_receive_queue.prev;
	struct udp_sock *up = (struct udp_sock *)sk;
	u32 found = 0, place;
	u64 m;

	c->found_skb = 0;
	c->strange_skb = 0;
	c->found_run = 0;
	c->own_queued = 0;
	for (int i = 0; i < WL_QUEUE_WALK; i++) {
		enum wl_seen seen;

		if (!n || (u64)n == (u64)&sk->sk_receive_queue)
			break;
		seen = wl_queued_datagram(wl_address(c, n), wl_address(c, n->head), last, &place);
		if (seen == WL_SEEN_STRANGE && !i)
			c->strange_skb = (u64)n;
		if (seen != WL_SEEN_NEW)
			return found;
		found = place;
		c->found_skb = (u64)n;
		c->found_run++;
		if (place == own)
			c->own_queued = 1;
		n = n->prev;
	}
	m = (u64)BPF_CORE_READ(up, reader_queue.prev);
	for (int i = 0; i < WL_QUEUE_WALK / 2; i++) {
		if (!m || m == (u64)&up->reader_queue)
			break;
		if (wl_queued_datagram(m, (u64)BPF_CORE_READ((struct sk_buff *)m, head), last, &place) != WL_SEEN_NEW)
			break;
		found = place;
		c->found_skb = m;
		c->found_run++;
		if (place == own)
			c->own_queued = 1;
		m = (u64)BPF_CORE_READ((struct sk_buff *)m, prev);
	}
	return found;
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

static __always_inline void wl_settle_debt(struct wl_open *open, struct wl_thread_entry *e, struct wl_udp_socket *s)
{
	if (!open->debt)
		return;
	if (!wl_pay_debt(open, s))
		open->request.quality |= WL_Q_DEBT_UNPAID;
	wl_finish_read(open, e);
}

/* Requests that are over and waited for their datagram: with this push it is there, or it never will be. */
static __always_inline void wl_late_push(struct wl_udp_socket *s, u64 index)
{
	for (int i = 0; i < WL_TX_PENDING; i++) {
		struct wl_open *open = &s->pending[i];
		struct wl_thread_entry *e;

		if (open->active != WL_OPEN_ENDED || (open->debt_index != index && !wl_udp_debt_is_over(&s->queue, open->debt_index)))
			continue;
		e = wl_slot_at(open->slot);
		if (e) {
			wl_settle_debt(open, e, s);
			wl_finish(open, e, &open->at_send, open->request.end_ns, 0);
		}
		open->active = WL_OPEN_NO;
		__sync_fetch_and_sub(&s->awaited, 1);
		__sync_fetch_and_sub(&wl_awaited_total, 1);
	}
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
		if (wl_place_cpu(place) == cpu) {
			s->multicast_cpu = cpu;
			s->multicast_next = c->udp.head - ((c->udp.head - 1 - slot) & (WL_UDP_FIFO_LEN - 1));
		}
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

/* Pushes the datagram of the packet at `place` (0: unknown); queued: its address in the kernel's queue, 0: it has been read; skb: as received. */
static __noinline int wl_udp_push(struct wl_cpu *c, struct wl_udp_socket *s, u32 place, u64 queued, u64 skb)
{
	struct wl_datagram *d = &c->pushed;

	d->queued_ns = bpf_ktime_get_ns();
	d->pusher = (u16)bpf_get_smp_processor_id();
	d->skb = queued;
	wl_arrival_unknown(&d->arrival);
	d->sport = 0;
	d->woken_tid = 0;
	d->fanout_rank = 0;
	d->fanout_ns = 0;
	if (place && !wl_udp_arrived(c, s, place))
		return 0;
	wl_udp_queue_push(&s->queue, d, skb, &c->push_result);
	if (c->push_result.cancelled)
		wl_unmatched_add(c, WL_UNM_CANCELLED_DEBT, c->push_result.cancelled);
	if (c->push_result.overflow)
		wl_lose(c, WL_LOST_UDP_QUEUE);
	return 0;
}

/* A signal says that one more datagram is queued, not which one; see logic/udp_queue.h. */
static __always_inline void wl_udp_ready(struct wl_cpu *c, struct sock *sk, struct wl_udp_socket *s, u32 state)
{
	u32 cpu = bpf_get_smp_processor_id(), own = 0, place, pushed = 0;
	struct wl_udp_key key = {};
	u64 skb = 0;
	s64 i;

	key.net = (u64)sk->__sk_common.skc_net.net;
	key.local_port = sk->__sk_common.skc_num;
	key.peer_port = bpf_ntohs(sk->__sk_common.skc_dport);
	key.multicast_after = s->multicast_cpu == cpu ? s->multicast_next : c->udp.tail;
	i = wl_udp_fifo_find(&c->udp, &key);
	if (i >= 0) {
		own = wl_place_make(cpu, (u32)i & (WL_UDP_FIFO_LEN - 1));
		skb = wl_udp_fifo_at(&c->udp, (u32)i)->skb;
	}
	c->push_result.debts_before = s->queue.debt_head;
	place = wl_udp_unsignalled(c, sk, s->queue.last_skb, own);
	if ((own && !c->own_queued) || c->strange_skb) {
		/* read already; or queued in another buffer than it was received in */
		wl_udp_push(c, s, own, c->strange_skb, skb);
		pushed++;
	}
	for (int n = 0; n < 4 && place; n++) {
		wl_udp_push(c, s, place, c->found_skb, 0);
		pushed++;
		if (c->found_run < 2)
			break;
		place = wl_udp_unsignalled(c, sk, s->queue.last_skb, 0);
	}
	if (pushed) {
		s->queue.ahead += pushed - 1;
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

		if (s) {
			c->for_target = 1;
			wl_tcp_queue_ready(&s->queue, bpf_ktime_get_ns());
		}
	}
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(wl_sk_data_ready, const struct sock *sk)
{
	return WL_RUN(wl_ready(c, (struct sock *)sk));
}

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
static __always_inline void wl_open_begin(struct wl_open *open, u64 sk, struct task_struct *task, u32 slot, u64 now)
{
	struct wl_request *r = &open->request;

	open->slot = slot;
	open->sk = sk;
	open->debt = 0;
	open->probe_ns = 0;
	open->read_begin_ns = 0;
	open->devq_ns = 0;
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
static __always_inline void wl_open_reader(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e, u64 now)
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
static __always_inline void wl_close_unanswered(struct wl_cpu *c, struct wl_open *open, struct wl_thread_entry *e, u64 now)
{
	if (open->maybe_end_ns) {
		open->devq_ns = open->maybe_devq_ns;
		open->send_begin_ns = open->maybe_send_ns;
		open->request.ifindex = open->maybe_ifindex;
		open->request.tx_cpu = open->maybe_cpu;
		wl_finish(open, e, &open->maybe_time, open->maybe_end_ns, WL_Q_OTHER_SOCKET);
	} else {
		wl_thread_time_at(&e->thread, &c->timeline, now, &open->at_send);
		wl_finish(open, e, &open->at_send, now, WL_Q_NO_REPLY);
	}
}

/* Keeps a request with its socket while its thread goes on. Returns false when there is no room. */
static __always_inline bool wl_park(struct wl_udp_socket *s, struct wl_open *open)
{
	for (int i = 0; i < WL_TX_PENDING; i++) {
		if (s->pending[i].active)
			continue;
		bpf_probe_read_kernel(&s->pending[i], sizeof(s->pending[i]), open);
		open->active = WL_OPEN_NO;
		return true;
	}
	return false;
}

/* A read by this thread ends its request before, unless that waits for its reply in a queue: then it is kept with its socket. */
static __always_inline void wl_udp_end_before(struct wl_cpu *c, struct wl_thread_entry *e, u64 sk, struct wl_udp_socket *s, u64 now)
{
	struct wl_open *open = &e->open;
	u32 same = open->sk == sk;
	enum wl_read_kind kind = WL_READ_ONE;

	if (open->active || s->batch_head != s->batch_tail)
		kind = wl_read_kind_of(bpf_get_current_task_btf());
	if (s->batch_head != s->batch_tail && ((e->replied && kind != WL_READ_URING) || s->batch_head - s->batch_tail >= WL_BATCH))
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
	if (same && open->devq_ns && !wl_park(s, open))
		wl_lose(c, WL_LOST_TX_PENDING);
	if (open->active)
		wl_close_unanswered(c, open, e, now);
}

static __always_inline void wl_udp_read(struct wl_cpu *c, struct sock *sk, struct task_struct *task, int ret)
{
	struct wl_udp_socket *s = wl_udp_of(sk);
	struct wl_thread_entry *e;
	struct wl_open *open;
	struct wl_datagram *d = &c->popped;
	struct wl_udp_read *read = &c->read;
	u64 index = 0, now;
	u32 slot = 0;
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
	read->shared = (u8)s->shared;
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
		open->arrival = d->arrival;
		open->queued_ns = d->queued_ns;
		wl_open_spread(open, d);
		if (!open->request.rport)
			open->request.rport = d->sport;
		if (d->order_unsure)
			open->request.quality |= WL_Q_ORDER_UNSURE;
		if (d->sport)
			__builtin_memcpy(open->request.raddr, d->saddr, sizeof(d->saddr));
		wl_finish_read(open, e);
	} else {
		if (status == WL_POP_TORN)
			wl_lose(c, WL_LOST_TORN);
		open->debt = 1;
		open->debt_index = index;
		open->queued_ns = now;
		wl_arrival_unknown(&open->arrival);
	}
	e->thread.activity_ns = now;
	open->active = WL_OPEN_YES;
}

static __always_inline void wl_tcp_read(struct wl_cpu *c, struct sock *sk, struct task_struct *task, int ret)
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
	if (open->active) {
		if (tp->write_seq != open->write_seq) {
			/* answered, but the answer has not reached the driver: its end is not known */
			wl_lose(c, WL_LOST_TX_PENDING);
			wl_thread_time_at(&e->thread, &c->timeline, now, &open->at_send);
			wl_finish(open, e, &open->at_send, now, WL_Q_NO_REPLY | WL_Q_NO_THREAD);
		} else {
			/* one request read in pieces: it starts with the last byte of the last piece */
			more = WL_Q_MULTI_READ;
			first = open->first_byte_ns;
		}
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
		if (!more && (f->arrival.flags & WL_ARR_HAS_ID) && f->seq == tp->copied_seq - (u32)ret) {
			open->arrival.flags |= WL_ARR_HAS_ID;
			open->arrival.id = f->arrival.id;
		}
	}
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
		wl_tcp_read(c, sk, task, ret);
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

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(wl_set_state, const struct sock *sk, const int oldstate, const int newstate)
{
	return WL_RUN(if (newstate == WL_TCP_LISTEN) wl_listen(c, (struct sock *)sk));
}
