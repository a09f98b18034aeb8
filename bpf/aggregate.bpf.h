/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_AGGREGATE_BPF_H
#define WHYLATE_AGGREGATE_BPF_H
/* What a request leaves behind: the sums and histograms of the run, and its record. The only place that reserves ring space. */

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
		bpf_probe_read_kernel(rec->occupants, sizeof(rec->occupants),
				      open->occupants.entries);
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

#endif
