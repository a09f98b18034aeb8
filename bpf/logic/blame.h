/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_BLAME_H
#define WHYLATE_BLAME_H
/*
 * Who held a CPU during a window: a walk backwards over the CPU's slices. The entries tile the window to the ns; interrupt and
 * softirq time inside a slice is told apart from the task it hit.
 */
#include "cpu.h"

/* A window of one CPU, and the counters of that CPU at its start where they were taken (snapshot). */
struct wl_window {
	wl_u64 from;
	wl_u64 to;
	wl_u64 theft_ns[WL_NR_THEFT];
	wl_u32 has_snapshot;
	wl_u16 cpu;
	wl_u8 stage; /* enum wl_stage of the entries */
	wl_u8 pad;
	wl_u32 slices; /* slices the CPU had begun at `from`, valid with a snapshot */
	wl_u32 pad2;
};

/* State of a walk; begin with wl_blame_begin, step from the newest slice to older ones until it returns 1. */
struct wl_blame_walk {
	struct wl_window window;
	wl_u64 end; /* end of the slice about to be looked at */
	wl_u64 end_theft[WL_NR_THEFT];
	wl_u64 part[WL_NR_THEFT]; /* scratch */
	wl_u64 open_ns; /* part of the window not covered yet */
	wl_u32 index; /* next slice */
	wl_u32 pad;
};

/* w->window is set; `now` ends the slice that still runs. Returns 0. */
WL_SHARED int wl_blame_begin(struct wl_blame_walk *w, const struct wl_timeline *t, wl_u64 now)
{
	if (!w || !t)
		return 0;
	w->end = now;
	wl_theft_totals(t, now, w->end_theft);
	w->open_ns = w->window.to > w->window.from ? w->window.to - w->window.from : 0;
	w->index = t->slices_head;
	return 0;
}

static inline int wl_comm_copy(char *to, const char *from)
{
	for (int i = 0; i < WL_COMM_LEN; i++)
		to[i] = from[i];
	return 0;
}

struct wl_occupants {
	wl_u32 count;
	wl_u32 pad;
	struct wl_occupant candidate; /* scratch: the stack of a BPF call chain is 512 bytes in all */
	struct wl_occupant entries[WL_MAX_OCCUPANTS];
};

/* Fills a candidate entry; the task's fields only for a task. */
static inline void wl_occupant_init(struct wl_occupant *o, const struct wl_window *window,
				    wl_u8 kind, wl_u64 ns, const struct wl_slice *slice)
{
	o->ns = ns;
	o->kind = kind;
	o->stage = window->stage;
	o->cpu = window->cpu;
	o->switches = 1;
	o->pad = 0;
	o->pid = 0;
	o->tgid = 0;
	o->policy = 0;
	o->nice = 0;
	o->prio = 0;
	o->cgroup = 0;
	for (int i = 0; i < WL_COMM_LEN; i++)
		o->comm[i] = 0;
	if (kind == WL_OCC_TASK && slice) {
		o->pid = slice->pid;
		o->tgid = slice->tgid;
		o->policy = slice->policy;
		o->nice = slice->nice;
		o->prio = slice->prio;
		o->cgroup = slice->cgroup;
		wl_comm_copy(o->comm, slice->comm);
	}
}

/* Entries that only quota and "not named" (one for each of the three waiting stages) may use, so these always find room. */
#define WL_RESERVED_OCCUPANTS 4

/* Index of the entry for this occupant, WL_MAX_OCCUPANTS if there is none. */
WL_SHARED wl_u32 wl_occupant_find(const struct wl_occupants *table, wl_u32 kind, wl_u32 pid,
				  wl_u32 stage)
{
	if (!table)
		return WL_MAX_OCCUPANTS;
	for (wl_u32 i = 0; i < WL_MAX_OCCUPANTS; i++) {
		if (i >= table->count)
			break;
		if (table->entries[i].kind == kind && table->entries[i].pid == pid &&
		    table->entries[i].stage == stage)
			return i;
	}
	return WL_MAX_OCCUPANTS;
}

/* The smaller one of entry `i`, if that is a task's, and `best`, an index; WL_MAX_OCCUPANTS stands for an entry of `ns`. */
WL_SHARED wl_u32 wl_occupant_smaller(const struct wl_occupants *table, wl_u32 i, wl_u32 best,
				     wl_u64 ns)
{
	if (!table || i >= WL_MAX_OCCUPANTS || i >= table->count ||
	    table->entries[i].kind != WL_OCC_TASK)
		return best;
	if (best < WL_MAX_OCCUPANTS)
		ns = table->entries[best].ns;
	return table->entries[i].ns < ns ? i : best;
}

/* Index of the smallest task's entry if that is less than `ns`, else WL_MAX_OCCUPANTS. */
WL_INLINE wl_u32 wl_occupant_below(const struct wl_occupants *table, wl_u64 ns)
{
	wl_u32 smallest = WL_MAX_OCCUPANTS;

	for (wl_u32 i = 0; i < WL_MAX_OCCUPANTS; i++)
		smallest = wl_occupant_smaller(table, i, smallest, ns);
	return smallest;
}

/* Books ns of a stage as "not named"; its entry always finds room. Returns 0. */
WL_INLINE int wl_occupant_not_named(struct wl_occupants *table, wl_u32 stage, wl_u32 cpu, wl_u64 ns)
{
	struct wl_occupant *o;
	wl_u32 i;

	if (!table)
		return 0;
	i = wl_occupant_find(table, WL_OCC_UNKNOWN, 0, stage);
	if (i >= WL_MAX_OCCUPANTS) {
		i = table->count;
		if (i >= WL_MAX_OCCUPANTS)
			return 0;
		o = &table->entries[i];
		__builtin_memset(o, 0, sizeof(*o));
		o->kind = WL_OCC_UNKNOWN;
		o->stage = (wl_u8)stage;
		o->cpu = (wl_u16)cpu;
		table->count = i + 1;
	}
	o = &table->entries[i];
	o->ns += ns;
	o->switches++;
	return 0;
}

/*
 * Adds to the entry of this occupant. When the table is full the smallest named entry makes room, or the newcomer itself does:
 * its time then goes to the stage's entry of kind WL_OCC_UNKNOWN, so the sum stays exact. Returns 0.
 */
WL_SHARED int wl_occupant_add(struct wl_occupants *table, const struct wl_occupant *what)
{
	wl_u32 n, i;

	if (!table || !what || !what->ns)
		return 0;
	if (what->kind == WL_OCC_UNKNOWN)
		return wl_occupant_not_named(table, what->stage, what->cpu, what->ns);
	i = wl_occupant_find(table, what->kind, what->pid, what->stage);
	if (i < WL_MAX_OCCUPANTS) {
		table->entries[i].ns += what->ns;
		table->entries[i].switches++;
		return 0;
	}
	n = table->count;
	if (n < WL_MAX_OCCUPANTS - WL_RESERVED_OCCUPANTS ||
	    (what->kind == WL_OCC_QUOTA && n < WL_MAX_OCCUPANTS)) {
		table->entries[n] = *what;
		table->count = n + 1;
		return 0;
	}
	i = wl_occupant_below(table, what->ns);
	if (i >= WL_MAX_OCCUPANTS)
		return wl_occupant_not_named(table, what->stage, what->cpu, what->ns);
	wl_occupant_not_named(table, table->entries[i].stage, table->entries[i].cpu,
			      table->entries[i].ns);
	table->entries[i] = *what;
	return 0;
}

/* part * of / whole without overflow; exact for a whole below 2^32 ns, else to one part in 2^31. Never above `of`. */
static inline wl_u64 wl_share(wl_u64 part, wl_u64 of, wl_u64 whole)
{
	wl_u64 unit = (whole >> 32) + 1;
	wl_u64 share;

	if (!whole || part >= whole)
		return whole ? of : 0;
	if (of > whole)
		of = whole;
	share = (part / unit) * (of / unit) / (whole / unit) * unit;
	return share < of ? share : of;
}

/* Adds w->part, as far as it fits into *rest, and takes it out of that. */
WL_INLINE void wl_blame_thefts(struct wl_blame_walk *w, wl_u64 *rest, struct wl_occupants *table)
{
	WL_UNROLL
	for (wl_u32 i = 0; i < WL_NR_THEFT; i++) {
		wl_u64 ns = wl_take(rest, w->part[i]);

		if (!ns)
			continue;
		wl_occupant_init(&table->candidate, &w->window, wl_theft_kind(i), ns, 0);
		wl_occupant_add(table, &table->candidate);
	}
}

/* What interrupts and softirqs took of the `span` of a slice that lies in the window, into w->part. Returns 0. */
WL_SHARED int wl_blame_parts(struct wl_blame_walk *w, const struct wl_slice *s, wl_u64 span)
{
	int from_snapshot;

	if (!w || !s)
		return 0;
	from_snapshot = w->window.from > s->start_ns && w->window.has_snapshot &&
			w->window.to >= w->end;
	for (wl_u32 i = 0; i < WL_NR_THEFT; i++) {
		w->part[i] = wl_grown(from_snapshot ? w->window.theft_ns[i] : s->theft_ns[i],
				      w->end_theft[i]);
		/* only part of the slice lies in the window and no counters were taken at its edge */
		if (!from_snapshot && span != w->end - s->start_ns)
			w->part[i] = wl_share(w->part[i], span, w->end - s->start_ns);
	}
	return 0;
}

/* Looks at one slice (older than the one before). Returns 1 when the window is covered. */
WL_INLINE int wl_blame_step(struct wl_blame_walk *w, const struct wl_slice *s,
			    struct wl_occupants *table)
{
	struct wl_occupant *o;
	wl_u64 begin, end;

	if (!w || !s || !table)
		return 1;
	o = &table->candidate;
	begin = s->start_ns > w->window.from ? s->start_ns : w->window.from;
	end = w->end < w->window.to ? w->end : w->window.to;

	if (end > begin) {
		wl_u64 rest = end - begin;

		wl_blame_parts(w, s, rest);
		w->open_ns -= rest < w->open_ns ? rest : w->open_ns;
		wl_blame_thefts(w, &rest, table);
		wl_occupant_init(o, &w->window,
				 s->uncertain ? WL_OCC_UNKNOWN
				 : s->pid     ? WL_OCC_TASK
					      : WL_OCC_IDLE,
				 rest, s);
		wl_occupant_add(table, o);
	}
	w->end = s->start_ns;
	for (wl_u32 i = 0; i < WL_NR_THEFT; i++)
		w->end_theft[i] = s->theft_ns[i];
	return s->start_ns <= w->window.from;
}

/* Books what no slice explains: by kind as far as the snapshot allows, the rest as "other tasks, not named". */
WL_SHARED int wl_blame_finish(struct wl_blame_walk *w, struct wl_occupants *table)
{
	wl_u64 rest;

	if (!w || !table || !w->open_ns)
		return 0;
	rest = w->open_ns;
	if (w->window.has_snapshot) {
		for (wl_u32 i = 0; i < WL_NR_THEFT; i++)
			w->part[i] = wl_grown(w->window.theft_ns[i], w->end_theft[i]);
		wl_blame_thefts(w, &rest, table);
	}
	if (rest)
		wl_occupant_not_named(table, w->window.stage, w->window.cpu, rest);
	w->open_ns = 0;
	return 0;
}

#endif
