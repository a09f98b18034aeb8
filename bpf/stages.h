/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_STAGES_H
#define WHYLATE_STAGES_H
/*
 * Marks to stages, in three steps: before the socket, before the read, after the read. Every step cuts one closed interval into
 * pieces, so the sum of the stages is end - start to the nanosecond whatever marks are missing or out of order.
 */
#include "logic/arrival.h"
#include "logic/thread.h"

/* Moves *mark into [low, high] and returns how far. */
static inline wl_u64 wl_clamp(wl_u64 *mark, wl_u64 low, wl_u64 high)
{
	wl_u64 moved = 0;

	if (*mark < low) {
		moved = low - *mark;
		*mark = low;
	} else if (*mark > high) {
		moved = *mark - high;
		*mark = high;
	}
	return moved;
}

/*
 * From the first sign of the packet to the socket. probe_ns is 0 for UDP, queued_ns is where the next step begins; both are
 * clamped to recv_ns. A missing mark (0) equals the next present one. Returns the start of the request; adds to *clamped.
 */
static inline wl_u64 wl_stages_arrival(const struct wl_arrival *a, wl_u64 probe_ns, wl_u64 *queued_ns,
				       wl_u64 recv_ns, wl_u64 *stage, wl_u64 *clamped)
{
	wl_u64 rx = a->rx_ns, entry = a->entry_ns, raise = a->raise_ns, origin = a->origin_ns;
	wl_u64 moved = 0;
	int round;

	wl_clamp(queued_ns, 0, recv_ns); /* a reader may be ahead of sk_data_ready: no fault */
	if (!(a->flags & WL_ARR_KNOWN))
		return *queued_ns;
	moved += wl_clamp(&rx, 0, *queued_ns);
	if (a->origin == WL_ORIGIN_BUSY_POLL)
		raise = 0; /* the end of the poll before: a bound, outside the total */
	if (!entry)
		entry = rx;
	moved += wl_clamp(&entry, 0, rx);
	if (!raise)
		raise = entry;
	moved += wl_clamp(&raise, 0, entry);
	if (!origin)
		origin = raise;
	/* a later round of the same softirq; one of the next softirq begins at the raise like any other */
	round = a->origin == WL_ORIGIN_NAPI && origin > entry;
	moved += wl_clamp(&origin, 0, round ? rx : raise);
	if (round) {
		stage[WL_STAGE_SOFTIRQ_POLL] = rx - origin;
	} else {
		stage[WL_STAGE_HARD_IRQ] = raise - origin;
		stage[WL_STAGE_SOFTIRQ_WAIT] = entry - raise;
		stage[WL_STAGE_SOFTIRQ_POLL] = rx - entry;
	}
	if (probe_ns && (a->flags & WL_ARR_BACKLOG)) {
		moved += wl_clamp(&probe_ns, rx, *queued_ns);
		stage[WL_STAGE_BACKLOG] = probe_ns - rx;
		stage[WL_STAGE_STACK] = *queued_ns - probe_ns;
	} else {
		stage[WL_STAGE_STACK] = *queued_ns - rx;
	}
	*clamped += moved;
	return origin;
}

#define WL_READ_WAITS 4
#define WL_WAIT_OF_OTHER \
	0x100 /* in wl_read_wait.wait: not the reader's, but the thread's that handed the packet to it */

/* The run-queue part of a wait, to be blamed. */
struct wl_read_wait {
	wl_u64 from;
	wl_u64 to;
	wl_u32 wait; /* slot in wl_thread.waits, or with WL_WAIT_OF_OTHER */
	wl_u32 stage; /* enum wl_stage */
};

/* The stages as one object, for functions that BPF verifies on their own. */
struct wl_stage_times {
	wl_u64 ns[WL_NR_STAGES];
};

struct wl_read_split {
	struct wl_read_wait waits[WL_READ_WAITS];
	wl_u64 throttled_ns;
	wl_u64 pos; /* explained up to here */
	wl_u64 recv_ns;
	wl_u8 slept; /* the last thing the reader did was to wake up from a sleep */
	wl_u8 room; /* waits that may be noted before the reader's next one */
	wl_u16 other_cpu; /* where the thread waited that handed the packet over; WL_NO_CPU: none did */
	wl_u32 nr_waits;
	wl_s8 idle_state;
	wl_u8 quota_spell;
	wl_u16 run_cpu;
};

/* The pieces of one wait from out->pos to its end. */
static inline void wl_stages_wait(const struct wl_wait *w, wl_u32 slot, wl_u64 *stage,
				  struct wl_read_split *out)
{
	wl_u64 quota_end = w->start_ns + w->throttled_ns;
	wl_u64 pos = out->pos;

	if (w->throttled_ns && quota_end > pos) {
		if (quota_end > w->in_ns)
			quota_end = w->in_ns;
		stage[WL_STAGE_THROTTLED] += quota_end - pos;
		out->throttled_ns += quota_end - pos;
		out->quota_spell |= w->quota_spell;
		pos = quota_end;
	}
	if (w->idle_end_ns > pos && w->idle_end_ns <= w->in_ns) {
		stage[WL_STAGE_IDLE_EXIT] += w->idle_end_ns - pos;
		out->idle_state = w->idle_state;
		pos = w->idle_end_ns;
	} else if (!w->idle_end_ns && w->wakeup_ns > pos && w->wakeup_ns <= w->in_ns) {
		stage[WL_STAGE_WAKEUP] += w->wakeup_ns - pos;
		pos = w->wakeup_ns;
	}
	if (w->in_ns > pos) {
		stage[WL_STAGE_RUN_QUEUE] += w->in_ns - pos;
		if (out->nr_waits < WL_READ_WAITS) {
			struct wl_read_wait *rw = &out->waits[out->nr_waits & (WL_READ_WAITS - 1)];

			rw->from = pos;
			rw->to = w->in_ns;
			rw->wait = slot;
			rw->stage = WL_STAGE_RUN_QUEUE;
			out->nr_waits++;
		}
	}
	out->pos = w->in_ns;
}

/*
 * A thread `by` had the packet handed over to the reader, which it woke at `until`: what it waited for in between is what the packet
 * waited for. This is its wait number `back` from the end; the time before it is socket_queue. Returns 0.
 */
WL_SHARED int wl_stages_handed_over(const struct wl_thread *by, wl_u32 back, wl_u64 until,
				    struct wl_stage_times *times, struct wl_read_split *out)
{
	const struct wl_wait *w;
	wl_u64 start;
	wl_u32 slot;

	if (!by || !times || !out)
		return 0;
	slot = (by->nr_waits - back) & (WL_WAITS - 1);
	w = &by->waits[slot];
	start = w->start_ns > out->pos ? w->start_ns : out->pos;
	/* it goes on meanwhile, on another CPU: only what is over can be relied on */
	if (by->nr_waits < back || w->in_ns <= out->pos || w->in_ns > until || w->in_ns < start ||
	    out->nr_waits >= out->room)
		return 0;
	times->ns[WL_STAGE_SOCKET_QUEUE] += start - out->pos;
	out->pos = start;
	wl_stages_wait(w, slot | WL_WAIT_OF_OTHER, times->ns, out);
	out->other_cpu = (wl_u16)w->parts[0].cpu;
	return 0;
}

/*
 * The reader's wait number `back` from the end, if it lies between out->pos and out->recv_ns. `by`: the thread that woke it last, if
 * that handed the packet over; else NULL. A worker of io_uring is always woken by the thread that it works for. Returns 0.
 */
WL_SHARED int wl_stages_wait_back(const struct wl_thread *t, wl_u32 back, const struct wl_thread *by,
				  struct wl_stage_times *times, struct wl_read_split *out)
{
	const struct wl_wait *w;
	wl_u64 start;
	wl_u32 slot;

	if (!t || !times || !out)
		return 0;
	slot = (t->nr_waits - back) & (WL_WAITS - 1);
	w = &t->waits[slot];
	if (t->nr_waits < back || w->in_ns <= out->pos || w->in_ns > out->recv_ns ||
	    w->in_ns < w->start_ns)
		return 0;
	if (by && w->start_ns > out->pos &&
	    (t->io_worker ? w->kind == WL_WAIT_WAKE : wl_wait_is_last_wake(t, back))) {
		out->room = (wl_u8)(WL_READ_WAITS - back);
		for (wl_u32 older = WL_WAITS; older > 0; older--)
			wl_stages_handed_over(by, older, w->start_ns, times, out);
	}
	start = w->start_ns > out->pos ? w->start_ns : out->pos;
	if (out->slept && w->kind == WL_WAIT_PREEMPTED && t->activity_ns <= out->pos)
		times->ns[WL_STAGE_RECV] += start - out->pos; /* preempted on its way to the data */
	else
		times->ns[WL_STAGE_SOCKET_QUEUE] += start - out->pos;
	out->pos = start;
	wl_stages_wait(w, slot, times->ns, out);
	out->slept = w->kind == WL_WAIT_WAKE || (out->slept && t->activity_ns <= start);
	out->run_cpu = (wl_u16)t->cpu;
	return 0;
}

/*
 * From the socket to the end of the read, by thread `t` which is on a CPU now. What the reader did meanwhile decides:
 * asleep and woken by this packet -> wakeup or idle_exit, run_queue, recv; runnable -> run_queue from queued_ns on;
 * anything else, the application was busy -> socket_queue. `by` as in wl_stages_wait_back(). read_begin_ns is the entry of the
 * read's system call, 0 unknown.
 * `stage` has WL_NR_STAGES entries.
 */
static inline void wl_stages_read(const struct wl_thread *t, const struct wl_thread *by,
				  wl_u64 queued_ns, wl_u64 recv_ns, wl_u64 read_begin_ns,
				  wl_u64 *stage, struct wl_read_split *out)
{
	wl_u64 busy_until;

	out->throttled_ns = 0;
	out->nr_waits = 0;
	out->idle_state = -1;
	out->quota_spell = 0;
	out->run_cpu = WL_NO_CPU;
	out->other_cpu = WL_NO_CPU;
	out->pos = queued_ns;
	out->recv_ns = recv_ns;
	out->slept = 0;
	for (wl_u32 back = WL_READ_WAITS; back > 0; back--)
		wl_stages_wait_back(t, back, by, (struct wl_stage_times *)stage, out);
	if (out->other_cpu != WL_NO_CPU && out->other_cpu != out->run_cpu)
		out->run_cpu = WL_NO_CPU; /* there are two */
	if (out->slept) {
		busy_until = t->activity_ns > out->pos ? t->activity_ns : out->pos;
		if (busy_until > recv_ns)
			busy_until = recv_ns;
	} else {
		busy_until = read_begin_ns && read_begin_ns < recv_ns ? read_begin_ns : recv_ns;
		if (busy_until < out->pos)
			busy_until = out->pos;
	}
	stage[WL_STAGE_SOCKET_QUEUE] += busy_until - out->pos;
	stage[WL_STAGE_RECV] += recv_ns - busy_until;
}

/*
 * From the end of the read to the driver. send_begin_ns and devq_ns are 0 when not known. before/after: the reader's counters
 * at recv_ns and at end_ns. `theft` gets the parts of app_irq. Returns the quota part (already in the stage).
 */
static inline wl_u64 wl_stages_app(wl_u64 recv_ns, wl_u64 recv_exit_ns, wl_u64 send_begin_ns,
				   wl_u64 devq_ns, wl_u64 end_ns, const struct wl_thread_time *before,
				   const struct wl_thread_time *after, wl_u64 *stage, wl_u64 *theft)
{
	wl_u64 app_begin = recv_ns, app_end = end_ns, rest, quota;

	if (devq_ns > recv_ns && devq_ns <= end_ns) {
		stage[WL_STAGE_TX_QUEUE] = end_ns - devq_ns;
		app_end = devq_ns;
	}
	if (send_begin_ns > recv_ns && send_begin_ns <= app_end) {
		stage[WL_STAGE_SEND] = app_end - send_begin_ns;
		app_end = send_begin_ns;
	}
	if (recv_exit_ns > recv_ns && recv_exit_ns <= app_end) {
		stage[WL_STAGE_RECV] += recv_exit_ns - recv_ns;
		app_begin = recv_exit_ns;
	}
	rest = app_end - app_begin;
	quota = wl_take(&rest, wl_grown(before->throttled_ns, after->throttled_ns));
	stage[WL_STAGE_THROTTLED] += quota;
	stage[WL_STAGE_APP_RUN_QUEUE] = wl_take(&rest,
						wl_grown(before->run_queue_ns, after->run_queue_ns));
	stage[WL_STAGE_APP_BLOCKED] = wl_take(&rest, wl_grown(before->blocked_ns, after->blocked_ns));
	for (int i = 0; i < WL_NR_THEFT; i++) {
		theft[i] = wl_take(&rest, wl_grown(before->theft_ns[i], after->theft_ns[i]));
		stage[WL_STAGE_APP_IRQ] += theft[i];
	}
	stage[WL_STAGE_APP] = rest;
	return quota;
}

/* Books what the stages do not explain; with consistent marks that is 0. Returns 0 if the sum was above the total (a fault). */
static inline int wl_stages_close(wl_u64 start_ns, wl_u64 end_ns, wl_u64 *stage)
{
	wl_u64 sum = 0;
	wl_u64 total = end_ns > start_ns ? end_ns - start_ns : 0;

	for (int i = 0; i < WL_NR_STAGES; i++)
		sum += stage[i];
	if (sum > total)
		return 0;
	stage[WL_STAGE_UNATTRIBUTED] += total - sum;
	return 1;
}

#endif
