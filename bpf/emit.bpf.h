/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_EMIT_BPF_H
#define WHYLATE_EMIT_BPF_H
/* The end of a request: its stages, its blame, what is kept of it. */

/* The last long device interrupt on the reader's CPU, if it came in this request's time. A frame of its own. */
static __noinline void wl_long_irq(struct wl_request *r)
{
	struct wl_cpu *cpu = wl_cpu_at(r->app_cpu != WL_NO_CPU ? r->app_cpu : r->recv_cpu);

	if (!cpu || cpu->long_irq_end_ns < r->start_ns || cpu->long_irq_end_ns > r->end_ns)
		return;
	r->long_irq_ns = cpu->long_irq_ns;
	r->long_irq = cpu->long_irq;
}

/* A datagram read before sk_data_ready: by now the push may have come. Returns whether it has. */
static __always_inline bool wl_pay_debt(struct wl_open *open, struct wl_udp_socket *s)
{
	struct wl_request *r = &open->request;
	struct wl_datagram *d = &open->datagram;

	if (!s || wl_udp_queue_take(&s->queue, open->debt_index, d) != WL_POP_OK ||
	    !(d->arrival.flags & WL_ARR_KNOWN) || d->arrival.rx_ns > r->recv_ns + WL_CLOCK_SKEW_NS)
		return false;
	r->fanout_rank = d->fanout_rank;
	r->fanout_ns = d->fanout_ns;
	open->debt = 0;
	open->arrival = d->arrival;
	open->queued_ns = r->recv_ns;
	open->read_begin_ns = 0;
	for (int i = 0; i < 16; i++)
		r->raddr[i] = d->saddr[i];
	r->rport = d->sport;
	r->quality |= WL_Q_DEBT_PAID | (d->order_unsure ? WL_Q_ORDER_UNSURE : 0);
	return true;
}

/* Who had the CPU while the softirq waited for its kernel thread. */
static __noinline void wl_blame_softirq(struct wl_open *open)
{
	struct wl_window *window = &open->walk.window;
	struct wl_request *r = &open->request;

	window->from = r->start_ns + r->stage_ns[WL_STAGE_HARD_IRQ];
	window->to = window->from + r->stage_ns[WL_STAGE_SOFTIRQ_WAIT];
	window->has_snapshot = 0;
	window->cpu = r->rx_cpu;
	window->stage = WL_STAGE_SOFTIRQ_WAIT;
	wl_blame_window(open);
}

/*
 * The thread that handed the packet to the reader, i.e. woke it: where the packet had woken that one, or the reader is a worker of
 * io_uring, which does nothing but what it is given. NULL otherwise: a thread that wakes another may have had any reason.
 */
static __noinline struct wl_thread_entry *wl_handed_over_by(const struct wl_request *r,
							    const struct wl_thread *reader)
{
	struct wl_thread_entry *by;
	u32 *slot, tid = r->waker_tid;

	if (!tid || (tid != r->woken_tid && !reader->io_worker))
		return NULL;
	slot = bpf_map_lookup_elem(&wl_thread_slots, &tid);
	if (!slot)
		return NULL;
	by = wl_slot_at(*slot);
	return by && by->thread.in_use && by->thread.tid == tid ? by : NULL;
}

/* Blames wait `i` before the read: one of the reader, or of the thread `by` that handed the packet over. Returns 0 behind the last. */
__noinline int wl_finish_wait(struct wl_open *open, struct wl_thread_entry *e,
			      struct wl_thread_entry *by, u32 i)
{
	struct wl_read_wait *wait;
	struct wl_request *r;
	struct wl_wait *w;
	bool others;
	u64 seen;

	if (!open || i >= open->split.nr_waits)
		return 0;
	r = &open->request;
	wait = &open->split.waits[i & (WL_READ_WAITS - 1)];
	others = wait->wait & WL_WAIT_OF_OTHER;
	if (others)
		e = by;
	if (!e)
		return 0;
	w = &e->thread.waits[wait->wait & (WL_WAITS - 1)];
	seen = wl_blame_wait(open, e, wait);
	if (seen < wait->to - wait->from)
		wl_occupant_not_named(&open->occupants, WL_STAGE_RUN_QUEUE, WL_NO_CPU,
				      wait->to - wait->from - seen);
	if (!others) {
		wl_idle_meanwhile(r, wait, w);
		if (w->nr_parts > 1)
			r->migrations += (u8)(w->nr_parts - 1);
	}
	wl_budget_add(r, 0,
		      wl_wait_budget_share(w, wait->from, wait->to, r->stage_ns[WL_STAGE_RUN_QUEUE]));
	return 1;
}

/* How much of a stage, in which nothing ran from `from` to `to`, the reader was stopped. A frame of its own. */
static __noinline void wl_finish_stop(struct wl_request *r, const struct wl_thread *t, u64 from,
				      u64 to, u32 part)
{
	u32 stage = part ? WL_STAGE_APP_BLOCKED : WL_STAGE_SOCKET_QUEUE;
	struct wl_stopped stopped;

	wl_thread_stopped(t, from, to, &stopped);
	part &= WL_NR_STOP_PARTS - 1;
	r->stopped_ns[part] = stopped.ns < r->stage_ns[stage] ? stopped.ns : r->stage_ns[stage];
	r->stop_kind[part] = (u8)stopped.kind;
}

/* Everything up to the read: stages, marks and the blame for the reader's waits (while the slices are fresh). */
__noinline int wl_finish_read(struct wl_open *open, struct wl_thread_entry *e)
{
	struct wl_thread_entry *by;
	struct wl_request *r;
	struct wl_arrival *a;

	if (!open)
		return 0;
	r = &open->request;
	a = &open->arrival;

	r->origin = a->flags & WL_ARR_KNOWN ? a->origin : WL_ORIGIN_SOCKET;
	r->softirq_mode = a->mode;
	r->irq = a->irq;
	r->irq_cpu = a->irq_cpu;
	r->rx_cpu = a->rx_cpu;
	r->rx_ifindex = a->ifindex;
	r->irq_idle_state = a->irq_idle_state;
	r->has_id = !!(a->flags & WL_ARR_HAS_ID);
	r->id = a->id;
	r->poll_gap_ns = a->origin == WL_ORIGIN_BUSY_POLL && a->raise_ns && a->raise_ns < a->rx_ns
				 ? a->rx_ns - a->raise_ns
				 : 0;
	if (!(a->flags & WL_ARR_KNOWN))
		r->quality |= WL_Q_NO_ARRIVAL;
	if (wl_cfg_id_bytes && !r->has_id)
		r->quality |= WL_Q_NO_ID;
	if (a->flags & WL_ARR_POLLED)
		r->quality |= WL_Q_POLLED;
	if (a->flags & WL_ARR_IRQ_IDLE)
		r->quality |= WL_Q_IRQ_CPU_IDLE;
	if (a->flags & WL_ARR_MULTICAST)
		r->quality |= WL_Q_MULTICAST;
	if (a->flags & WL_ARR_SQUEEZED)
		r->quality |= WL_Q_SQUEEZED;
	if (a->flags & WL_ARR_HOP) {
		r->quality |= WL_Q_HOP;
		r->hop_cpu = a->irq_cpu;
		r->irq_cpu = WL_NO_CPU;
	}
	r->start_ns = wl_stages_arrival(a, open->probe_ns, &open->queued_ns, r->recv_ns,
					r->stage_ns, &r->clamped_ns);
	if (open->first_byte_ns && open->first_byte_ns < r->start_ns)
		r->first_byte_ns = r->start_ns - open->first_byte_ns;
	if ((a->mode == WL_SOFTIRQ_KSOFTIRQD || a->mode == WL_SOFTIRQ_THREADED_NAPI) &&
	    r->stage_ns[WL_STAGE_SOFTIRQ_WAIT])
		wl_blame_softirq(open);
	if (!e) {
		r->quality |= WL_Q_NO_THREAD;
		return 0;
	}
	by = wl_handed_over_by(r, &e->thread);
	wl_stages_read(&e->thread, by ? &by->thread : NULL, open->queued_ns, r->recv_ns,
		       open->read_begin_ns, r->stage_ns, &open->split);
	if (open->split.other_cpu != WL_NO_CPU)
		r->quality |= WL_Q_VIA_THREAD;
	if (e->thread.stop_end_ns > open->queued_ns)
		wl_finish_stop(r, &e->thread, open->queued_ns, r->recv_ns, WL_STOP_QUEUE);
	r->idle_state = open->split.idle_state;
	r->run_cpu = open->split.run_cpu;
	if (open->split.quota_spell)
		r->quality |= WL_Q_QUOTA_SPELL;
	for (u32 i = 0; i < WL_READ_WAITS; i++) {
		if (!wl_finish_wait(open, e, by, i))
			break;
	}
	return 0;
}

/*
 * Ends a request at end_ns. e: the reader's state, NULL if it is gone. after: the reader's counters at the end.
 * Global: verified once for its many callers.
 */
__noinline int wl_finish(struct wl_open *open, struct wl_thread_entry *e,
			 struct wl_thread_time *after, u64 end_ns, u32 quality)
{
	struct wl_cpu *c = wl_cpu_here();
	struct wl_request *r;
	u64 exit_ns = 0, quota;
	bool countable;

	if (!open || !c || !after)
		return 0;
	r = &open->request;
	open->active = 0;
	r->quality |= quality;
	r->end_ns = end_ns > r->recv_ns ? end_ns : r->recv_ns;
	if (e && wl_cfg_syscalls && e->thread.sys_exit_ns > r->recv_ns)
		exit_ns = e->thread.sys_exit_ns;
	quota = wl_stages_app(r->recv_ns, exit_ns, wl_cfg_syscalls ? open->send_begin_ns : 0,
			      open->devq_ns, r->end_ns, &open->at_recv, after, r->stage_ns,
			      r->theft_ns);
	quota += open->split.throttled_ns;
	if (e && e->thread.healed_ns >= r->start_ns)
		r->quality |= WL_Q_LOST_SWITCH;
	if (r->quality & WL_Q_LOST_SWITCH) {
		/* who ran when is not known: the waits stay, without names */
		open->occupants.count = 0;
		if (r->stage_ns[WL_STAGE_RUN_QUEUE])
			wl_occupant_not_named(&open->occupants, WL_STAGE_RUN_QUEUE, r->run_cpu,
					      r->stage_ns[WL_STAGE_RUN_QUEUE]);
		if (r->stage_ns[WL_STAGE_APP_RUN_QUEUE])
			wl_occupant_not_named(&open->occupants, WL_STAGE_APP_RUN_QUEUE, WL_NO_CPU,
					      r->stage_ns[WL_STAGE_APP_RUN_QUEUE]);
	} else if (e) {
		wl_blame_app(open, e);
		wl_long_irq(r);
	}
	if (wl_occupant_find(&open->occupants, WL_OCC_UNKNOWN, 0, WL_STAGE_RUN_QUEUE) <
		    WL_MAX_OCCUPANTS ||
	    wl_occupant_find(&open->occupants, WL_OCC_UNKNOWN, 0, WL_STAGE_SOFTIRQ_WAIT) <
		    WL_MAX_OCCUPANTS ||
	    wl_occupant_find(&open->occupants, WL_OCC_UNKNOWN, 0, WL_STAGE_APP_RUN_QUEUE) <
		    WL_MAX_OCCUPANTS)
		r->quality |= WL_Q_NOT_NAMED;
	if (quota) {
		open->walk.window.stage = WL_STAGE_THROTTLED;
		open->walk.window.cpu = r->run_cpu;
		wl_occupant_init(&open->occupants.candidate, &open->walk.window, WL_OCC_QUOTA,
				 quota, 0);
		wl_occupant_add(&open->occupants, &open->occupants.candidate);
	}
	if (e && e->thread.long_sleep_ns && r->stage_ns[WL_STAGE_APP_BLOCKED]) {
		r->blocked_ns = e->thread.long_sleep_ns;
		r->blocked_syscall = e->thread.long_sleep_syscall;
		r->blocked_waker_tid = e->thread.long_sleep_waker_tid;
		wl_comm_copy(r->blocked_waker_comm, e->thread.long_sleep_waker_comm);
	}
	if (e && (e->thread.stop || e->thread.stop_end_ns > r->recv_ns))
		wl_finish_stop(r, &e->thread, r->recv_ns, r->end_ns, WL_STOP_APP);
	if (!wl_stages_close(r->start_ns, r->end_ns, r->stage_ns))
		r->clamped_ns = ~0ull; /* user space reports this as a fault of ours */
	r->seq = __sync_fetch_and_add(&wl_next_seq, 1);
	if (wl_cfg_count && r->seq >= wl_cfg_count)
		return 0;
	if (r->clamped_ns > 1000) {
		r->quality |= WL_Q_CLAMPED;
		c->counters.clamped++;
	}
	r->nr_occupants = (u8)open->occupants.count;
	if (r->seq < 2)
		r->quality |= WL_Q_COLD;
	countable = !(r->quality & (WL_Q_INCOMPLETE | WL_Q_NO_REPLY));
	if (r->quality & WL_Q_INCOMPLETE)
		c->counters.incomplete++;
	else if (r->quality & WL_Q_NO_REPLY)
		c->counters.no_reply++;
	else
		c->counters.complete++;
	if (countable) {
		wl_aggregate_add(r);
		for (u32 i = 0; i < WL_MAX_OCCUPANTS; i++) {
			if (i >= open->occupants.count)
				break;
			wl_blame_total(&open->occupants.entries[i]);
		}
	}
	if (r->end_ns - r->start_ns >= wl_cfg_slower_than_ns)
		wl_record(c, open);
	if (wl_cfg_count && r->seq + 1 == wl_cfg_count)
		wl_stopped = 1;
	return 0;
}

#endif
