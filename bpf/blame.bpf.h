/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_BLAME_BPF_H
#define WHYLATE_BLAME_BPF_H
/* Who had the CPU while a reader waited for it, and whether another one was idle meanwhile. */

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
__noinline u64 wl_blame_part(struct wl_open *open, struct wl_thread_entry *e,
			     struct wl_read_wait *which, u32 i)
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
__noinline u64 wl_blame_wait(struct wl_open *open, struct wl_thread_entry *e,
			     struct wl_read_wait *which)
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
	wl_budget_add(&open->request, 1,
		      wl_wait_budget_share(w, which->from, which->to,
					   open->request.stage_ns[WL_STAGE_APP_RUN_QUEUE]));
	return wl_blame_wait(open, e, which);
}

#define WL_IDLE_SLICES \
	16 /* newest slices of a CPU that are looked at: the answer is a lower bound */

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

/* A wait cut by moves: what it waited for on its first CPU, and on its last. */
static __always_inline void wl_idle_meanwhile(struct wl_request *r, const struct wl_read_wait *wait,
					      const struct wl_wait *w)
{
	u64 first_end = w->nr_parts > 1 ? w->parts[1].from : wait->to;
	const struct wl_wait_part *last;
	u32 n = w->nr_parts - 1;

	wl_idle_elsewhere(r, wait->from, first_end < wait->to ? first_end : wait->to,
			  w->parts[0].cpu);
	if (!n || n >= WL_WAIT_CPUS)
		return;
	last = &w->parts[n];
	wl_idle_elsewhere(r, last->from > wait->from ? last->from : wait->from, wait->to, last->cpu);
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

#endif
