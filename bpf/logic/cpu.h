/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_CPU_H
#define WHYLATE_CPU_H
/*
 * What one CPU is doing: interrupt and softirq time as cumulative counters that can be read at any moment, and a ring of the
 * tasks that ran, each slice with the counters at its start. Slices tile the CPU's time, so any window can be split exactly.
 */
#include "../record.h"

#define WL_SLICES 256

/* Takes up to `want` out of *rest. */
static inline wl_u64 wl_take(wl_u64 *rest, wl_u64 want)
{
	wl_u64 got = want < *rest ? want : *rest;

	*rest -= got;
	return got;
}

/* Growth of a counter. A missed interrupt exit gives up what had been counted of it: then nothing is known to have been taken. */
static inline wl_u64 wl_grown(wl_u64 before, wl_u64 after)
{
	return after > before ? after - before : 0;
}

struct wl_slice {
	wl_u64 start_ns;
	wl_u64 theft_ns[WL_NR_THEFT]; /* cumulative counters of the CPU at start_ns */
	char comm[WL_COMM_LEN];
	wl_u32 pid;
	wl_u32 tgid;
	wl_u16 prio;
	wl_u8 policy;
	wl_s8 nice;
	wl_u32 uncertain; /* a switch was not reported: somebody else ran in the last part of it */
	wl_u64 cgroup; /* as in wl_occupant */
};
WL_STATIC_ASSERT(sizeof(struct wl_slice) == 88, "slice layout");

struct wl_timeline {
	wl_u64 irq_ns; /* finished hard interrupts of any kind */
	wl_u64 theft_ns[WL_NR_THEFT]; /* finished ones by kind; softirqs without the hard interrupts inside */
	wl_u64 irq_start_ns;
	wl_u64 softirq_start_ns;
	wl_u64 softirq_irq_ns; /* irq counter at the start of the softirq */
	wl_u64 idle_left_ns; /* when the idle task was last switched out */
	wl_u64 budget_out_ns; /* when a real-time task was last switched out with its budget used up */
	wl_u64 budget; /* which one that was; wl_rt_budget() */
	wl_u64 unreported_ns; /* a task was last found to have left without a report; what came while it ran was not reported either */
	wl_u32 irq_depth;
	wl_u32 in_softirq;
	wl_u32 slices_head; /* slices ever started; the running one is head - 1 */
	wl_u32 irq_kind; /* enum wl_theft of the running (outermost) interrupt */
	struct wl_slice slices[WL_SLICES];
};

/* `kind`: enum wl_theft. An interrupt inside another one counts as that one. */
static inline void wl_irq_begin(struct wl_timeline *t, wl_u64 now, wl_u32 kind)
{
	if (t->irq_depth++ == 0) {
		t->irq_start_ns = now;
		t->irq_kind = kind;
	}
}

/* An exit without entry (hooks attached in between) is ignored. */
static inline void wl_irq_end(struct wl_timeline *t, wl_u64 now)
{
	if (t->irq_depth && --t->irq_depth == 0) {
		t->irq_ns += now - t->irq_start_ns;
		t->theft_ns[t->irq_kind & 3] += now - t->irq_start_ns;
	}
}

/* Hard interrupt time up to now, the running one included. `now` may come from another CPU's clock read: never negative. */
static inline wl_u64 wl_irq_total(const struct wl_timeline *t, wl_u64 now)
{
	return t->irq_ns + (t->irq_depth && now > t->irq_start_ns ? now - t->irq_start_ns : 0);
}

static inline void wl_softirq_begin(struct wl_timeline *t, wl_u64 now)
{
	t->irq_depth = 0; /* softirqs never run inside a hard interrupt: an exit was missed */
	t->in_softirq = 1;
	t->softirq_start_ns = now;
	t->softirq_irq_ns = t->irq_ns;
}

static inline wl_u64 wl_softirq_total(const struct wl_timeline *t, wl_u64 now)
{
	wl_u64 span, stolen;

	if (!t->in_softirq || now <= t->softirq_start_ns)
		return t->theft_ns[WL_THEFT_SOFTIRQ];
	span = now - t->softirq_start_ns;
	stolen = wl_irq_total(t, now) - t->softirq_irq_ns;
	return t->theft_ns[WL_THEFT_SOFTIRQ] + (span > stolen ? span - stolen : 0);
}

static inline void wl_softirq_end(struct wl_timeline *t, wl_u64 now)
{
	if (!t->in_softirq)
		return;
	t->theft_ns[WL_THEFT_SOFTIRQ] = wl_softirq_total(t, now);
	t->in_softirq = 0;
}

/* One counter up to now, what is running included. */
static inline wl_u64 wl_theft_total(const struct wl_timeline *t, wl_u32 kind, wl_u64 now)
{
	if (kind == WL_THEFT_SOFTIRQ)
		return wl_softirq_total(t, now);
	return t->theft_ns[kind & 3] + (t->irq_depth && t->irq_kind == kind && now > t->irq_start_ns
						? now - t->irq_start_ns
						: 0);
}

static inline void wl_theft_totals(const struct wl_timeline *t, wl_u64 now, wl_u64 *out)
{
	for (wl_u32 i = 0; i < WL_NR_THEFT; i++)
		out[i] = wl_theft_total(t, i, now);
}

static inline struct wl_slice *wl_slice_at(struct wl_timeline *t, wl_u32 index)
{
	return &t->slices[index & (WL_SLICES - 1)];
}

/* The slice that runs now (after the first switch). */
static inline struct wl_slice *wl_slice_current(struct wl_timeline *t)
{
	return wl_slice_at(t, t->slices_head - 1);
}

/*
 * Called at a switch with the task that leaves. Not every switch is reported (seen on 6.18 for about 1 in 400 under fork load, with
 * no recursion miss counted): then the open slice is another task's, and who ran for how much of it cannot be known.
 */
static inline void wl_slice_check(struct wl_timeline *t, wl_u32 prev_pid, wl_u64 now)
{
	struct wl_slice *s = wl_slice_current(t);

	if (!s->start_ns || s->pid == prev_pid)
		return;
	s->uncertain = 1;
	t->unreported_ns = now;
}

/* Starts a slice; the caller fills the task's fields. */
static inline struct wl_slice *wl_slice_begin(struct wl_timeline *t, wl_u64 now)
{
	struct wl_slice *s = wl_slice_at(t, t->slices_head);

	t->irq_depth = 0; /* no switch inside an interrupt or softirq: an exit was missed */
	if (t->in_softirq)
		wl_softirq_end(t, now);
	s->start_ns = now;
	for (int i = 0; i < WL_NR_THEFT; i++)
		s->theft_ns[i] = t->theft_ns[i];
	s->uncertain = 0;
	t->slices_head++;
	return s;
}

#endif
