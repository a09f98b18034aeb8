/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_EMIT_BPF_H
#define WHYLATE_EMIT_BPF_H
/* The end of a request: its stages, its blame, the aggregates, its record. The only place that reserves ring space. */

/*
 * Global functions are verified once, not once per call, and what a loop does lies in one of its own: the verifier walks through a
 * loop turn by turn.
 */

struct wl_walk_context {
	struct wl_cpu *cpu;
	struct wl_open *open;
};

static long wl_walk_slice(u64 n, void *data)
{
	struct wl_walk_context *x = data;
	struct wl_blame_walk *walk = &x->open->walk;
	struct wl_slice *s;

	walk->index--;
	s = wl_slice_at(&x->cpu->timeline, walk->index);
	if (!s->start_ns)
		return 1;
	return wl_blame_step(walk, s, &x->open->occupants) ? 1 : 0;
}

/* Blames open->walk.window; the entries go to the request's table. */
static __always_inline void wl_blame_window(struct wl_open *open)
{
	struct wl_blame_walk *walk = &open->walk;
	struct wl_walk_context x;

	x.cpu = wl_cpu_at(walk->window.cpu);
	if (!x.cpu || walk->window.to <= walk->window.from)
		return;
	x.open = open;
	wl_blame_begin(walk, &x.cpu->timeline, bpf_ktime_get_ns());
	bpf_loop(WL_SLICES - 1, wl_walk_slice, &x, 0);
	if (walk->open_ns && walk->window.has_snapshot) {
		u32 begun = x.cpu->timeline.slices_head - walk->window.slices;

		if (begun >= WL_SLICES)
			open->request.not_named_switches += begun - (WL_SLICES - 1);
	}
	wl_blame_finish(walk, &open->occupants);
}

/* Sets open->walk.window to what lies in [from, to] of part `i` of a wait: the time on one run queue. Returns its ns. */
__noinline u64 wl_blame_part(struct wl_open *open, struct wl_thread_entry *e, struct wl_read_wait *which, u32 i)
{
	struct wl_window *window;
	struct wl_wait_part *part;
	struct wl_wait *w;
	u64 end;

	if (!open || !e || !which || i >= WL_WAIT_CPUS)
		return 0;
	w = &e->thread.waits[which->wait & (WL_WAITS - 1)];
	if (i >= w->nr_parts)
		return 0;
	part = &w->parts[i];
	window = &open->walk.window;
	end = which->to;
	if (i + 1 < w->nr_parts && i + 1 < WL_WAIT_CPUS && w->parts[i + 1].from < end)
		end = w->parts[i + 1].from;
	/* the time before the wake-up reached a run queue belongs to that run queue's CPU */
	window->from = i == 0 || part->from < which->from ? which->from : part->from;
	window->to = end;
	window->has_snapshot = window->from == part->from;
	for (u32 k = 0; k < WL_NR_THEFT; k++)
		window->theft_ns[k] = part->theft_ns[k];
	window->slices = part->slices;
	window->cpu = (u16)part->cpu;
	window->stage = (u8)which->stage;
	return window->to > window->from ? window->to - window->from : 0;
}

/* Blames [from, to] of one wait, over the CPUs the thread waited on. Returns the ns of the window that were looked at. */
__noinline u64 wl_blame_wait(struct wl_open *open, struct wl_thread_entry *e, struct wl_read_wait *which)
{
	u64 seen = 0;

	if (!open || !e || !which)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < WL_WAIT_CPUS; i++) {
		u64 ns = wl_blame_part(open, e, which, i);

		if (!ns)
			continue;
		seen += ns;
		wl_blame_window(open);
	}
	return seen;
}

/* Adds an occupant to the totals of the run. A frame of its own: its temporaries must not add to the longest call chain. */
__noinline int wl_blame_total(struct wl_occupant *o)
{
	struct wl_cpu *c = wl_cpu_here();
	struct wl_blame_key key = {};
	struct wl_blame *b;

	if (!o || !c)
		return 0;
	key.pid = o->pid;
	key.kind = o->kind;
	key.stage = o->stage;
	b = bpf_map_lookup_elem(&wl_blames, &key);
	if (!b) {
		struct wl_blame first = {};

		first.tgid = o->tgid;
		first.policy = o->policy;
		first.nice = o->nice;
		first.prio = o->prio;
		first.cgroup = o->cgroup;
		wl_comm_copy(first.comm, o->comm);
		bpf_map_update_elem(&wl_blames, &key, &first, BPF_NOEXIST);
		b = bpf_map_lookup_elem(&wl_blames, &key);
		if (!b) {
			wl_lose(c, WL_LOST_BLAME_FULL);
			key.pid = 0;
			key.kind = WL_OCC_UNKNOWN;
			first.comm[0] = 0;
			bpf_map_update_elem(&wl_blames, &key, &first, BPF_NOEXIST);
			b = bpf_map_lookup_elem(&wl_blames, &key);
			if (!b)
				return 0;
		}
	}
	__sync_fetch_and_add(&b->ns, o->ns);
	__sync_fetch_and_add(&b->requests, 1);
	return 0;
}

static __always_inline void wl_budget_add(struct wl_request *r, u32 which, u16 share)
{
	if (!share)
		return;
	r->quality |= WL_Q_RT_THROTTLED;
	r->budget_share[which] += share;
}

/* The part of the reader's wait number `back` from the end that lies in [recv, end]; returns its ns. */
__noinline u64 wl_blame_app_wait(struct wl_open *open, struct wl_thread_entry *e, u32 back)
{
	struct wl_read_wait *which;
	struct wl_wait *w;
	u64 end;

	if (!open || !e || e->thread.nr_waits < back)
		return 0;
	/* where the application's part ends, as in wl_stages_app */
	end = open->request.end_ns;
	if (open->devq_ns > open->request.recv_ns && open->devq_ns < end)
		end = open->devq_ns;
	which = &open->split.waits[0]; /* those of the read have been blamed; not on the stack, as this is in the longest call chain */
	which->stage = WL_STAGE_APP_RUN_QUEUE;
	which->wait = (e->thread.nr_waits - back) & (WL_WAITS - 1);
	w = &e->thread.waits[which->wait];
	which->from = w->start_ns + w->throttled_ns;
	which->to = w->in_ns && w->in_ns < end ? w->in_ns : end;
	if (which->from < open->request.recv_ns)
		which->from = open->request.recv_ns;
	if (which->to <= which->from)
		return 0;
	wl_budget_add(&open->request, 1, wl_wait_budget_share(w, which->from, which->to, open->request.stage_ns[WL_STAGE_APP_RUN_QUEUE]));
	return wl_blame_wait(open, e, which);
}

/* The last long device interrupt on the reader's CPU, if it came in this request's time. A frame of its own. */
static __noinline void wl_long_irq(struct wl_request *r)
{
	struct wl_cpu *cpu = wl_cpu_at(r->app_cpu != WL_NO_CPU ? r->app_cpu : r->recv_cpu);

	if (!cpu || cpu->long_irq_end_ns < r->start_ns || cpu->long_irq_end_ns > r->end_ns)
		return;
	r->long_irq_ns = cpu->long_irq_ns;
	r->long_irq = cpu->long_irq;
}

#define WL_IDLE_SLICES 16 /* newest slices of a CPU that are looked at: the answer is a lower bound */

/* What is left of a window, and how much of it was idle so far. */
struct wl_idle_window {
	u64 from;
	u64 to;
	u64 idle;
};

/* Takes slice `at` of a CPU off the end of the window. Returns 0 behind the last. */
__noinline int wl_idle_slice(u32 nr, u32 at, struct wl_idle_window *x)
{
	struct wl_cpu *cpu = wl_cpu_at(nr);
	struct wl_slice *s;
	u64 begin;

	if (!cpu || !x)
		return 0;
	s = wl_slice_at(&cpu->timeline, at);
	begin = s->start_ns;
	if (!begin)
		return 0;
	if (begin >= x->to)
		return 1;
	if (begin < x->from)
		begin = x->from;
	if (!s->pid && !s->uncertain)
		x->idle += x->to - begin;
	x->to = begin;
	return begin > x->from;
}

/* How long a CPU was idle in [from, to]. */
__noinline u64 wl_idle_in(u32 nr, u64 from, u64 to)
{
	struct wl_idle_window x = { .from = from, .to = to };
	struct wl_cpu *cpu = wl_cpu_at(nr);
	u32 at;

	if (!cpu)
		return 0;
	at = cpu->timeline.slices_head;
#pragma clang loop unroll(disable)
	for (u32 i = 1; i <= WL_IDLE_SLICES; i++) {
		if (!wl_idle_slice(nr, at - i, &x))
			break;
	}
	return x.idle;
}

/* The longest time that one of the reader's other CPUs was idle in [from, to]. */
struct wl_idle_search {
	struct wl_request *request;
	u64 from;
	u64 to;
	u64 mask; /* of CPUs 64 * word and on */
	u32 word;
	u32 not_cpu;
};

static long wl_idle_cpu(u64 n, void *data)
{
	struct wl_idle_search *x = data;
	u32 nr = (u32)n;
	u64 idle;

	if (!wl_cpu_at(nr))
		return 1;
	if (nr >= 64 || !(x->mask & (1ull << nr)) || nr == x->not_cpu)
		return 0;
	idle = wl_idle_in(nr, x->from, x->to);
	if (idle > x->request->idle_elsewhere_ns) {
		x->request->idle_elsewhere_ns = idle;
		x->request->idle_elsewhere_cpu = (u16)nr;
	}
	return 0;
}

#define WL_WORTH_A_SEARCH_NS 20000

/* While the reader waited: was another CPU that it may use idle? Only asked by the reader itself, for a wait worth it. */
__noinline int wl_idle_elsewhere(struct wl_request *r, u64 from, u64 to, u32 cpu)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct wl_idle_search x = { .request = r, .from = from, .to = to, .not_cpu = cpu };

	if (!r || to < from + WL_WORTH_A_SEARCH_NS || (u32)me->pid != r->tid)
		return 0;
	x.mask = me->cpus_mask.bits[0];
	bpf_loop(64, wl_idle_cpu, &x, 0);
	return 0;
}

/* Run-queue waits of the application phase: every wait that overlaps [recv, end], newest eight at most. */
static __always_inline void wl_blame_app(struct wl_open *open, struct wl_thread_entry *e)
{
	struct wl_request *r = &open->request;
	u64 named = 0;

	if (!r->stage_ns[WL_STAGE_APP_RUN_QUEUE])
		return;
	for (u32 back = 1; back <= WL_WAITS; back++)
		named += wl_blame_app_wait(open, e, back);
	if (named < r->stage_ns[WL_STAGE_APP_RUN_QUEUE])
		wl_occupant_not_named(&open->occupants, WL_STAGE_APP_RUN_QUEUE, WL_NO_CPU,
				      r->stage_ns[WL_STAGE_APP_RUN_QUEUE] - named);
}

/* Adds to the sums and the histogram of stage `i`; WL_NR_STAGES: of the total, which has only a histogram here. */
__noinline int wl_aggregate_stage(struct wl_aggregate *a, u32 i, u64 ns)
{
	u32 b;

	if (!a || i > WL_NR_STAGES)
		return 0;
	if (i < WL_NR_STAGES) {
		a->stage_ns[i] += ns;
		if (ns > a->stage_max_ns[i])
			a->stage_max_ns[i] = ns;
	}
	b = wl_hist_index(ns);
	if (b < WL_HIST_BUCKETS)
		a->hist[i][b]++;
	return 0;
}

__noinline int wl_aggregate_add(const struct wl_request *r)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct wl_aggregate *a = bpf_map_lookup_elem(&wl_aggregates, &cpu);
	u64 total;

	if (!a || !r)
		return 0;
	total = r->end_ns - r->start_ns;
	if (r->stage_ns[WL_STAGE_APP_IRQ]) {
		for (u32 i = 0; i < WL_NR_THEFT; i++)
			a->theft_ns[i] += r->theft_ns[i];
	}
	a->total_ns += total;
	if (total > a->max_total_ns)
		a->max_total_ns = total;
	if (!(r->quality & WL_Q_COLD) && total > a->max_total_warm_ns)
		a->max_total_warm_ns = total;
	wl_aggregate_stage(a, WL_NR_STAGES, total);
	for (u32 i = 0; i < WL_NR_STAGES; i++) {
		if (r->stage_ns[i])
			wl_aggregate_stage(a, i, r->stage_ns[i]);
	}
	return 0;
}

static __always_inline void wl_record(struct wl_cpu *c, struct wl_open *open)
{
	struct wl_request *r = &open->request;

	if (open->occupants.count) {
		struct wl_record_long *rec = bpf_ringbuf_reserve(&wl_records, sizeof(*rec), 0);

		if (!rec) {
			wl_lose(c, WL_LOST_RING_FULL);
			return;
		}
		rec->header.type = WL_REC_REQUEST_LONG;
		rec->header.size = sizeof(*rec);
		bpf_probe_read_kernel(&rec->request, sizeof(rec->request), r);
		bpf_probe_read_kernel(rec->occupants, sizeof(rec->occupants), open->occupants.entries);
		bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	} else {
		struct wl_record_short *rec = bpf_ringbuf_reserve(&wl_records, sizeof(*rec), 0);

		if (!rec) {
			wl_lose(c, WL_LOST_RING_FULL);
			return;
		}
		rec->header.type = WL_REC_REQUEST;
		rec->header.size = sizeof(*rec);
		bpf_probe_read_kernel(&rec->request, sizeof(rec->request), r);
		bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	}
}

/* A datagram read before sk_data_ready: by now the push may have come. Returns whether it has. */
static __always_inline bool wl_pay_debt(struct wl_open *open, struct wl_udp_socket *s)
{
	struct wl_request *r = &open->request;
	struct wl_datagram *d = &open->datagram;

	if (!s || wl_udp_queue_take(&s->queue, open->debt_index, d) != WL_POP_OK || !(d->arrival.flags & WL_ARR_KNOWN) ||
	    d->arrival.rx_ns > r->recv_ns + WL_CLOCK_SKEW_NS)
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
static __noinline struct wl_thread_entry *wl_handed_over_by(const struct wl_request *r, const struct wl_thread *reader)
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
__noinline int wl_finish_wait(struct wl_open *open, struct wl_thread_entry *e, struct wl_thread_entry *by, u32 i)
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
		wl_occupant_not_named(&open->occupants, WL_STAGE_RUN_QUEUE, WL_NO_CPU, wait->to - wait->from - seen);
	if (!others) {
		wl_idle_elsewhere(r, wait->from, wait->to, w->parts[0].cpu);
		if (w->nr_parts > 1)
			r->migrations += (u8)(w->nr_parts - 1);
	}
	wl_budget_add(r, 0, wl_wait_budget_share(w, wait->from, wait->to, r->stage_ns[WL_STAGE_RUN_QUEUE]));
	return 1;
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
	r->poll_gap_ns = a->origin == WL_ORIGIN_BUSY_POLL && a->raise_ns && a->raise_ns < a->rx_ns ? a->rx_ns - a->raise_ns : 0;
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
	r->start_ns = wl_stages_arrival(a, open->probe_ns, &open->queued_ns, r->recv_ns, r->stage_ns, &r->clamped_ns);
	if (open->first_byte_ns && open->first_byte_ns < r->start_ns)
		r->first_byte_ns = r->start_ns - open->first_byte_ns;
	if ((a->mode == WL_SOFTIRQ_KSOFTIRQD || a->mode == WL_SOFTIRQ_THREADED_NAPI) && r->stage_ns[WL_STAGE_SOFTIRQ_WAIT])
		wl_blame_softirq(open);
	if (!e) {
		r->quality |= WL_Q_NO_THREAD;
		return 0;
	}
	by = wl_handed_over_by(r, &e->thread);
	wl_stages_read(&e->thread, by ? &by->thread : NULL, open->queued_ns, r->recv_ns, open->read_begin_ns, r->stage_ns, &open->split);
	if (open->split.other_cpu != WL_NO_CPU)
		r->quality |= WL_Q_VIA_THREAD;
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
__noinline int wl_finish(struct wl_open *open, struct wl_thread_entry *e, struct wl_thread_time *after, u64 end_ns, u32 quality)
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
	quota = wl_stages_app(r->recv_ns, exit_ns, wl_cfg_syscalls ? open->send_begin_ns : 0, open->devq_ns, r->end_ns, &open->at_recv, after, r->stage_ns,
			      r->theft_ns);
	quota += open->split.throttled_ns;
	if (e && e->thread.healed_ns >= r->start_ns)
		r->quality |= WL_Q_LOST_SWITCH;
	if (r->quality & WL_Q_LOST_SWITCH) {
		/* who ran when is not known: the waits stay, without names */
		open->occupants.count = 0;
		if (r->stage_ns[WL_STAGE_RUN_QUEUE])
			wl_occupant_not_named(&open->occupants, WL_STAGE_RUN_QUEUE, r->run_cpu, r->stage_ns[WL_STAGE_RUN_QUEUE]);
		if (r->stage_ns[WL_STAGE_APP_RUN_QUEUE])
			wl_occupant_not_named(&open->occupants, WL_STAGE_APP_RUN_QUEUE, WL_NO_CPU,
					      r->stage_ns[WL_STAGE_APP_RUN_QUEUE]);
	} else if (e) {
		wl_blame_app(open, e);
		wl_long_irq(r);
	}
	if (wl_occupant_find(&open->occupants, WL_OCC_UNKNOWN, 0, WL_STAGE_RUN_QUEUE) < WL_MAX_OCCUPANTS ||
	    wl_occupant_find(&open->occupants, WL_OCC_UNKNOWN, 0, WL_STAGE_SOFTIRQ_WAIT) < WL_MAX_OCCUPANTS ||
	    wl_occupant_find(&open->occupants, WL_OCC_UNKNOWN, 0, WL_STAGE_APP_RUN_QUEUE) < WL_MAX_OCCUPANTS)
		r->quality |= WL_Q_NOT_NAMED;
	if (quota) {
		open->walk.window.stage = WL_STAGE_THROTTLED;
		open->walk.window.cpu = r->run_cpu;
		wl_occupant_init(&open->occupants.candidate, &open->walk.window, WL_OCC_QUOTA, quota, 0);
		wl_occupant_add(&open->occupants, &open->occupants.candidate);
	}
	if (e && e->thread.long_sleep_ns && r->stage_ns[WL_STAGE_APP_BLOCKED]) {
		r->blocked_ns = e->thread.long_sleep_ns;
		r->blocked_syscall = e->thread.long_sleep_syscall;
		r->blocked_waker_tid = e->thread.long_sleep_waker_tid;
		wl_comm_copy(r->blocked_waker_comm, e->thread.long_sleep_waker_comm);
	}
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
