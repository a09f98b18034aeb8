/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_THREAD_H
#define WHYLATE_THREAD_H
/*
 * One thread of the target: how its time divides, as cumulative counters whose differences split any interval exactly, and its
 * last waits for a CPU, so that a window can be blamed later.
 */
#include "cpu.h"

#define WL_WAITS 8 /* last waits kept per thread */
#define WL_WAIT_CPUS 3 /* CPUs one wait can be followed over */
#define WL_STOPS 8 /* last stops kept per thread */
/* A debugger or strace stops a thread many times in short order: such stops share an entry. */
#define WL_STOP_GAP_NS 1000000ull
#define WL_STOP_SPAN_NS 10000000ull

enum wl_thread_state {
	WL_T_UNKNOWN = 0,
	WL_T_RUNNING = 1,
	WL_T_RUNNABLE = 2,
	WL_T_SLEEPING = 3,
	WL_T_WAKING = 4
};

enum wl_wait_kind { WL_WAIT_WAKE = 1, WL_WAIT_PREEMPTED = 2 };

struct wl_wait_part {
	wl_u64 from;
	wl_u64 theft_ns[WL_NR_THEFT]; /* counters of the CPU at `from` */
	wl_u32 cpu;
	wl_u32 slices; /* slices the CPU had begun at `from` */
};

/* From runnable to running. */
struct wl_wait {
	wl_u64 start_ns; /* sched_waking, or the switch-out that preempted it */
	wl_u64 wakeup_ns; /* sched_wakeup; start_ns for a preemption */
	wl_u64 in_ns; /* switched in; 0 while waiting */
	wl_u64 idle_end_ns; /* the CPU was idle from start_ns to here; 0: it was not */
	wl_u64 throttled_ns; /* first part of the wait: CPU quota */
	wl_u64 budget_out_ns; /* from here on a real-time budget was used up; 0: it was not */
	struct wl_wait_part parts[WL_WAIT_CPUS];
	wl_u32 nr_parts; /* more than WL_WAIT_CPUS: the rest was not followed */
	wl_u8 kind; /* enum wl_wait_kind */
	wl_s8 idle_state;
	wl_u8 quota_spell; /* migrated while throttled */
	wl_u8 pad;
};

/* One stop, or several that followed each other closely. */
struct wl_stop {
	wl_u64 from; /* 0: since before the thread was known */
	wl_u64 to;
	wl_u64 ns; /* stopped in between; less than to - from if there were several */
	wl_u64 kind; /* enum wl_stop_kind */
};

struct wl_thread {
	wl_u32 tid;
	wl_u32 tgid;
	wl_u32 in_use;
	wl_u32 cpu;
	wl_u8 state; /* enum wl_thread_state */
	wl_u8 await_exit; /* --syscalls: the read's return to user is still to come */
	wl_u8 woken_early; /* woken while still on its way off the CPU */
	wl_u8 napi; /* not the target's: a kernel thread that polls a network device */
	wl_u8 io_worker; /* io_uring's own thread: it does what its waker has handed to it */
	wl_u8 stop; /* enum wl_stop_kind of the present sleep */
	wl_u8 pad[2];
	wl_u32 nr_waits; /* waits ever begun; the last is waits[(nr_waits - 1) % WL_WAITS] */
	wl_u64 since_ns; /* start of the present state */
	/* cumulative, finished intervals only */
	wl_u64 run_queue_ns;
	wl_u64 throttled_ns;
	wl_u64 blocked_ns;
	wl_u64 theft_ns[WL_NR_THEFT]; /* taken from it by interrupts and softirqs while it was on a CPU */
	wl_u64 in_theft_ns[WL_NR_THEFT]; /* counters of the CPU when it was switched in */
	/* quota clock of its run queue when it last left a CPU or was woken */
	wl_u64 quota_clock_ns;
	wl_u64 quota_owner;
	wl_u64 activity_ns; /* last read of a request or reply sent */
	wl_u64 healed_ns; /* last time its state had to be corrected because a switch was not reported */
	wl_u64 unreported_ns; /* until then datagrams may have come for it without a report, 0: no */
	/* the last sleep */
	wl_s32 sleep_syscall;
	wl_u32 waker_tid;
	char waker_comm[WL_COMM_LEN];
	/* --syscalls */
	wl_u64 sys_enter_ns;
	wl_u64 sys_exit_ns; /* return to user of the last read */
	/* longest sleep since the counters were last taken for a request */
	wl_u64 long_sleep_ns;
	wl_s32 long_sleep_syscall;
	wl_u32 long_sleep_waker_tid;
	char long_sleep_waker_comm[WL_COMM_LEN];
	char comm[WL_COMM_LEN];
	wl_u64 stop_end_ns; /* of the last stop that is over */
	wl_u32 nr_stops; /* entries ever begun, as nr_waits */
	wl_u32 pad2;
	struct wl_stop stops[WL_STOPS];
	struct wl_wait waits[WL_WAITS];
};

static inline struct wl_wait *wl_wait_last(struct wl_thread *t)
{
	return &t->waits[(t->nr_waits - 1) & (WL_WAITS - 1)];
}

static inline void wl_wait_part_begin(struct wl_wait *w, const struct wl_timeline *cpu,
				      wl_u32 cpu_nr, wl_u64 now)
{
	wl_u32 n = w->nr_parts++;
	struct wl_wait_part *p;

	if (n >= WL_WAIT_CPUS)
		return;
	p = &w->parts[n];
	p->from = now;
	wl_theft_totals(cpu, now, p->theft_ns);
	p->slices = cpu->slices_head;
	p->cpu = cpu_nr;
}

/* Begins a wait at `now`; the caller sets the thread's state. */
static inline struct wl_wait *wl_wait_begin(struct wl_thread *t, wl_u64 now, wl_u8 kind)
{
	struct wl_wait *w;

	t->nr_waits++;
	w = wl_wait_last(t);
	w->start_ns = now;
	w->wakeup_ns = now;
	w->in_ns = 0;
	w->idle_end_ns = 0;
	w->throttled_ns = 0;
	w->nr_parts = 0;
	w->kind = kind;
	w->idle_state = -1;
	w->quota_spell = 0;
	w->budget_out_ns = 0;
	t->since_ns = now;
	return w;
}

/* A sleep ends that was a stop. `from`: where the sleep began. */
static inline void wl_stop_end(struct wl_thread *t, wl_u64 from, wl_u64 now, wl_u8 kind)
{
	struct wl_stop *s = &t->stops[(t->nr_stops - 1) & (WL_STOPS - 1)];

	if (now < from)
		now = from;
	if (t->nr_stops && s->kind == kind && kind != WL_STOP_FROZEN_ASLEEP && from >= s->to &&
	    from - s->to < WL_STOP_GAP_NS && now - s->from < WL_STOP_SPAN_NS) {
		s->ns += now - from;
	} else {
		t->nr_stops++;
		s = &t->stops[(t->nr_stops - 1) & (WL_STOPS - 1)];
		s->from = from;
		s->ns = now - from;
		s->kind = kind;
	}
	s->to = now;
	t->stop_end_ns = now;
	t->stop = WL_STOP_NONE;
}

struct wl_stopped {
	wl_u64 ns;
	wl_u64 most; /* longest piece, whose kind it is */
	wl_u64 kind;
};

/* What of [from, to] lies in a stop, at least: where in an entry of several stops they were is not known. */
static inline void wl_stop_overlap(const struct wl_stop *s, wl_u64 from, wl_u64 to,
				   struct wl_stopped *out)
{
	wl_u64 begin = s->from > from ? s->from : from;
	wl_u64 end = s->to < to ? s->to : to;
	wl_u64 outside;

	if (end <= begin)
		return;
	outside = begin - s->from + (s->to - end);
	if (s->ns <= outside)
		return;
	out->ns += s->ns - outside;
	if (s->ns - outside > out->most) {
		out->most = s->ns - outside;
		out->kind = s->kind;
	}
}

/* For how long of [from, to] the thread was stopped, at least. Returns 0. */
WL_SHARED int wl_thread_stopped(const struct wl_thread *t, wl_u64 from, wl_u64 to,
				struct wl_stopped *out)
{
	struct wl_stop present;

	if (!t || !out)
		return 0;
	out->ns = 0;
	out->most = 0;
	out->kind = WL_STOP_NONE;
	for (wl_u32 back = 1; back <= WL_STOPS; back++) {
		if (back > t->nr_stops)
			break;
		wl_stop_overlap(&t->stops[(t->nr_stops - back) & (WL_STOPS - 1)], from, to, out);
	}
	if (t->stop && t->state == WL_T_SLEEPING && to > t->since_ns) {
		present.from = t->since_ns;
		present.to = to;
		present.ns = to - t->since_ns;
		present.kind = t->stop;
		wl_stop_overlap(&present, from, to, out);
	}
	return 0;
}

/*
 * Switched in. throttled_ns: how long of the wait its group was out of quota (clamped here).
 * `cpu` must still have the counters of the switch (call before anything else runs).
 */
static inline void wl_thread_in(struct wl_thread *t, const struct wl_timeline *cpu, wl_u32 cpu_nr,
				wl_u64 now, wl_u64 throttled_ns)
{
	if (t->state != WL_T_UNKNOWN && cpu->unreported_ns >= t->since_ns)
		t->unreported_ns = now;
	if (t->state == WL_T_RUNNABLE || t->state == WL_T_WAKING) {
		struct wl_wait *w = wl_wait_last(t);
		wl_u64 waited = now > w->start_ns ? now - w->start_ns : 0;

		if (throttled_ns > waited)
			throttled_ns = waited;
		w->in_ns = now;
		w->throttled_ns = throttled_ns;
		if (w->idle_end_ns)
			w->idle_end_ns = cpu->idle_left_ns > w->start_ns && cpu->idle_left_ns <= now
						 ? cpu->idle_left_ns
						 : w->start_ns;
		if (w->idle_end_ns <= w->start_ns)
			w->idle_end_ns = 0;
		if (w->budget_out_ns && w->idle_end_ns > w->budget_out_ns)
			w->idle_end_ns = 0; /* the CPU was idle for want of a task that may run */
		t->throttled_ns += throttled_ns;
		t->run_queue_ns += waited - throttled_ns;
	} else if (t->state == WL_T_RUNNING) {
		t->healed_ns = now; /* it has been off the CPU, and nobody said since when */
		t->unreported_ns = now;
	} else if (t->state == WL_T_SLEEPING && now > t->since_ns) {
		t->blocked_ns += now -
				 t->since_ns; /* the wake was missed: all that is known is that it did not run */
		t->unreported_ns = now;
		if (t->stop)
			wl_stop_end(t, t->since_ns, now, t->stop);
	}
	t->stop = WL_STOP_NONE;
	t->state = WL_T_RUNNING;
	t->since_ns = now;
	t->cpu = cpu_nr;
	for (int i = 0; i < WL_NR_THEFT; i++)
		t->in_theft_ns[i] = cpu->theft_ns[i];
}

/* The thread runs now, whatever was reported. Returns 1 if that is news: a switch was lost, and times up to now are not exact. */
static inline int wl_thread_heal(struct wl_thread *t, const struct wl_timeline *cpu, wl_u32 cpu_nr,
				 wl_u64 now)
{
	if (t->state == WL_T_RUNNING)
		return 0;
	if (t->state != WL_T_UNKNOWN) {
		t->healed_ns = now;
		t->unreported_ns = now;
	}
	wl_thread_in(t, cpu, cpu_nr, now, 0);
	return t->healed_ns == now;
}

/*
 * The thread is off this CPU. runnable: it was preempted or throttled; otherwise it sleeps, unless it was woken between giving
 * up the CPU and this switch: sched_waking does not wait for the switch (try_to_wake_up, kernel/sched/core.c), sched_wakeup does.
 * stop: the sleep is one (enum wl_stop_kind).
 */
static inline void wl_thread_out(struct wl_thread *t, const struct wl_timeline *cpu, wl_u32 cpu_nr,
				 wl_u64 now, int runnable, wl_u8 stop)
{
	wl_thread_heal(t, cpu, cpu_nr, now);
	if (t->state == WL_T_RUNNING) {
		for (int i = 0; i < WL_NR_THEFT; i++)
			t->theft_ns[i] += cpu->theft_ns[i] - t->in_theft_ns[i];
	}
	if (runnable) {
		wl_wait_part_begin(wl_wait_begin(t, now, WL_WAIT_PREEMPTED), cpu, cpu_nr, now);
		t->state = WL_T_RUNNABLE;
	} else {
		if (t->woken_early) {
			wl_wait_begin(t, now, WL_WAIT_WAKE);
			t->state = WL_T_WAKING;
		} else {
			t->since_ns = now;
			t->state = WL_T_SLEEPING;
			t->stop = stop;
		}
	}
	t->woken_early = 0;
}

/*
 * Somebody decided to wake it: the sleep ends here, the wait begins. stop: what it is woken from (enum wl_stop_kind); a sleep
 * that had not begun so was frozen meanwhile. Returns 1 if it slept (as far as is known).
 */
static inline int wl_thread_waking(struct wl_thread *t, wl_u64 now, wl_u8 stop)
{
	if (t->state == WL_T_RUNNING)
		t->woken_early = 1;
	if (t->state != WL_T_SLEEPING && t->state != WL_T_UNKNOWN)
		return 0;
	if (t->state == WL_T_SLEEPING) {
		t->blocked_ns += now > t->since_ns ? now - t->since_ns : 0;
		if (t->stop)
			stop = t->stop;
		else if (stop == WL_STOP_FREEZER)
			stop = WL_STOP_FROZEN_ASLEEP;
	}
	if (stop)
		wl_stop_end(t, t->state == WL_T_SLEEPING ? t->since_ns : 0, now, stop);
	wl_wait_begin(t, now, WL_WAIT_WAKE);
	t->state = WL_T_WAKING;
	return 1;
}

/*
 * While the thread waits: its real-time budget was seen used up at `now`. Nothing else tells: the scheduler puts it on the run
 * queue as ever, and an idle CPU stays idle until the budget is refilled (__enqueue_rt_entity, kernel/sched/rt.c).
 */
static inline void wl_thread_budget_out(struct wl_thread *t, wl_u64 now)
{
	struct wl_wait *w = wl_wait_last(t);

	if ((t->state == WL_T_RUNNABLE || t->state == WL_T_WAKING) && !w->budget_out_ns &&
	    now >= w->start_ns)
		w->budget_out_ns = now;
}

/* The part of [from, to] of a wait for which the real-time budget was used up, in 1/1000 of `whole`. */
static inline wl_u16 wl_wait_budget_share(const struct wl_wait *w, wl_u64 from, wl_u64 to,
					  wl_u64 whole)
{
	if (!w->budget_out_ns || !whole)
		return 0;
	if (from < w->budget_out_ns)
		from = w->budget_out_ns;
	if (to <= from)
		return 0;
	return to - from < whole ? (wl_u16)((to - from) * 1000 / whole) : 1000;
}

/*
 * It is on a CPU's run queue now. `cpu_idle`: the idle task is what runs there. `budget_out`: it may not run all the same, for its
 * real-time budget had been used up before.
 */
static inline void wl_thread_wakeup(struct wl_thread *t, const struct wl_timeline *cpu, wl_u32 cpu_nr,
				    wl_u64 now, int cpu_idle, wl_s8 idle_state, int budget_out)
{
	struct wl_wait *w;

	t->woken_early = 0; /* it had not given up the CPU at all */
	if (t->state != WL_T_WAKING)
		return;
	w = wl_wait_last(t);
	w->wakeup_ns = now;
	if (budget_out) {
		w->budget_out_ns = w->start_ns;
	} else if (cpu_idle) {
		w->idle_end_ns = w->start_ns; /* moved to the end of idle at switch-in */
		w->idle_state = idle_state;
	}
	wl_wait_part_begin(w, cpu, cpu_nr, now);
	t->cpu = cpu_nr;
	t->state = WL_T_RUNNABLE;
}

static inline void wl_thread_migrate(struct wl_thread *t, const struct wl_timeline *dest,
				     wl_u32 dest_nr, wl_u64 now)
{
	if (t->state != WL_T_RUNNABLE)
		return;
	wl_wait_part_begin(wl_wait_last(t), dest, dest_nr, now);
	t->cpu = dest_nr;
}

/*
 * A read has ended, of a datagram that arrived at rx_ns (0: unknown). Returns whether that came while something was not reported on the
 * reader's CPU, which is why it is unknown. A queue keeps its order: one that came later ends the doubt.
 */
static inline int wl_thread_unreported(struct wl_thread *t, wl_u64 rx_ns)
{
	if (rx_ns > t->unreported_ns)
		t->unreported_ns = 0;
	return !rx_ns && t->unreported_ns;
}

/* The cumulative counters at one moment, running intervals included. */
struct wl_thread_time {
	wl_u64 run_queue_ns;
	wl_u64 throttled_ns;
	wl_u64 blocked_ns;
	wl_u64 theft_ns[WL_NR_THEFT];
};

/* `cpu` is the CPU the thread last ran on. */
static inline void wl_thread_time_at(const struct wl_thread *t, const struct wl_timeline *cpu,
				     wl_u64 now, struct wl_thread_time *out)
{
	wl_u64 span = now > t->since_ns ? now - t->since_ns : 0;

	out->run_queue_ns = t->run_queue_ns;
	out->throttled_ns = t->throttled_ns;
	out->blocked_ns = t->blocked_ns;
	for (wl_u32 i = 0; i < WL_NR_THEFT; i++) {
		out->theft_ns[i] = t->theft_ns[i];
		if (t->state == WL_T_RUNNING)
			out->theft_ns[i] += wl_theft_total(cpu, i, now) - t->in_theft_ns[i];
	}
	if (t->state == WL_T_RUNNING)
		return;
	if (t->state == WL_T_SLEEPING)
		out->blocked_ns += span;
	else if (t->state == WL_T_RUNNABLE || t->state == WL_T_WAKING)
		out->run_queue_ns += span;
}

/* Whether the wait number `back` from the end is the last one that ended a sleep. */
static inline int wl_wait_is_last_wake(const struct wl_thread *t, wl_u32 back)
{
	if (t->waits[(t->nr_waits - back) & (WL_WAITS - 1)].kind != WL_WAIT_WAKE)
		return 0;
	for (wl_u32 later = 1; later < 4; later++) {
		if (later < back &&
		    t->waits[(t->nr_waits - later) & (WL_WAITS - 1)].kind == WL_WAIT_WAKE)
			return 0;
	}
	return 1;
}

/* The last wait that ended a sleep, not a preemption, if one of the last four was; NULL otherwise. */
static inline struct wl_wait *wl_wait_last_wake(struct wl_thread *t)
{
	for (wl_u32 back = 1; back <= 4; back++) {
		struct wl_wait *w = &t->waits[(t->nr_waits - back) & (WL_WAITS - 1)];

		if (back > t->nr_waits)
			break;
		if (w->kind == WL_WAIT_WAKE)
			return w;
	}
	return 0;
}

#endif
