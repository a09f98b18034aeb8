/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sched:*: which task runs where, and what the target's threads wait for. The subject is the argument, never `current`. */

static __always_inline bool wl_cpu_is_idle(struct wl_cpu *cpu)
{
	struct wl_slice *s = wl_slice_current(&cpu->timeline);

	return s->start_ns && !s->pid;
}

/* The datagram that has just been signalled on this CPU wakes `p`. */
static __always_inline void wl_woken_for(struct wl_cpu *c, struct task_struct *p)
{
	struct wl_udp_socket *s = wl_udp_at(c->ready_udp - 1);
	struct wl_datagram *d;

	if (!s || !c->timeline.in_softirq || (c->ready_index & WL_UDP_DEBT_INDEX))
		return;
	d = &s->queue.entries[c->ready_index & (WL_UDP_QUEUE_LEN - 1)];
	if (d->generation == c->ready_index + 1 && !d->woken_tid)
		d->woken_tid = p->pid;
}

static __always_inline void wl_waking(struct wl_cpu *c, struct task_struct *p)
{
	struct task_struct *waker;
	struct wl_thread_entry *e;
	struct wl_thread *t;
	u32 slot;
	u64 now, slept;

	e = wl_thread_of(c, p, &slot);
	if (!e)
		return;
	if (c->ready_udp)
		wl_woken_for(c, p);
	t = &e->thread;
	now = bpf_ktime_get_ns();
	slept = t->state == WL_T_SLEEPING && now > t->since_ns ? now - t->since_ns : 0;
	if (!wl_thread_waking(t, now, wl_task_stop(p, p->__state)) && !t->woken_early)
		return;
	if (t->napi) {
		struct wl_arrival *a = &e->open.arrival;

		a->origin_ns = c->device_irq_ns ? c->device_irq_ns : now;
		a->origin = c->device_irq_ns ? WL_ORIGIN_IRQ : WL_ORIGIN_NETIF_RX;
		a->irq = c->device_irq_ns ? c->device_irq : WL_NO_IRQ;
		a->irq_cpu = c->device_irq_ns ? (u16)bpf_get_smp_processor_id() : WL_NO_CPU;
		return;
	}
	t->quota_clock_ns = wl_quota_clock(p, &t->quota_owner);
	waker = bpf_get_current_task_btf();
	if (c->timeline.in_softirq || c->timeline.irq_depth) {
		t->waker_tid = 0; /* an interrupt; the task it hit did nothing */
		t->waker_comm[0] = 0;
	} else {
		t->waker_tid = waker->pid;
		bpf_probe_read_kernel(t->waker_comm, sizeof(t->waker_comm), waker->comm);
	}
	if (slept > t->long_sleep_ns) {
		t->long_sleep_ns = slept;
		t->long_sleep_syscall = t->sleep_syscall;
		t->long_sleep_waker_tid = t->waker_tid;
		wl_comm_copy(t->long_sleep_waker_comm, t->waker_comm);
	}
}

static __always_inline u32 wl_task_cpu(struct task_struct *p)
{
	if (bpf_core_field_exists(p->thread_info.cpu))
		return p->thread_info.cpu;
	return bpf_get_smp_processor_id();
}

static __always_inline void wl_wakeup(struct wl_cpu *c, struct task_struct *p)
{
	struct wl_thread_entry *e;
	struct wl_cpu *dest;
	u32 slot, cpu;

	e = wl_thread_of(c, p, &slot);
	if (!e)
		return;
	cpu = wl_task_cpu(p);
	dest = wl_cpu_at(cpu);
	if (!dest)
		return;
	if (p->prio < WL_MAX_RT_PRIO)
		wl_realtime = 1;
	wl_thread_wakeup(&e->thread, &dest->timeline, cpu, bpf_ktime_get_ns(), wl_cpu_is_idle(dest),
			 wl_cfg_idle_hook ? dest->idle_state : wl_cfg_only_idle_state,
			 wl_rt_budget(p, 0) != 0);
}

static __always_inline void wl_migrate(struct wl_cpu *c, struct task_struct *p, int dest_cpu)
{
	struct wl_thread_entry *e;
	struct wl_cpu *dest;
	u32 slot;

	e = wl_thread_of(c, p, &slot);
	if (!e)
		return;
	dest = wl_cpu_at((u32)dest_cpu);
	if (dest)
		wl_thread_migrate(&e->thread, &dest->timeline, (u32)dest_cpu, bpf_ktime_get_ns());
}

/* A real-time task leaves the CPU: because, or just when, the budget is used up? It may be what threads of the target live on too. */
static __always_inline void wl_budget_check(struct wl_cpu *c, struct task_struct *prev, bool target,
					    u64 now)
{
	u64 budget;

	if (target)
		wl_realtime = 1;
	if (!wl_realtime)
		return;
	budget = wl_rt_budget(prev, 0);
	if (budget) {
		c->timeline.budget_out_ns = now;
		c->timeline.budget = budget;
	}
}

static __always_inline void wl_switch(struct wl_cpu *c, bool preempt, struct task_struct *prev,
				      struct task_struct *next, unsigned int prev_state)
{
	u64 now = bpf_ktime_get_ns();
	u32 cpu = bpf_get_smp_processor_id();
	struct wl_thread_entry *e;
	struct wl_slice *s;
	u32 slot;

	if (!prev->pid)
		c->timeline.idle_left_ns = now;
	wl_slice_check(&c->timeline, prev->pid, now);
	s = wl_slice_begin(&c->timeline, now);
	s->pid = next->pid;
	s->tgid = next->tgid;
	s->prio = (u16)next->prio;
	s->policy = (u8)next->policy;
	s->nice = (s8)(next->static_prio - 120);
	*(u64 *)s->comm = *(u64 *)next->comm;
	*((u64 *)s->comm + 1) = *((u64 *)next->comm + 1);
	s->cgroup = wl_task_group(next);

	e = wl_thread_of(c, prev, &slot);
	if (prev->prio < WL_MAX_RT_PRIO)
		wl_budget_check(c, prev, e != NULL, now);
	if (e) {
		bool runnable = preempt || prev_state == 0;
		u8 stop = runnable ? WL_STOP_NONE : wl_task_stop(prev, prev_state);

		if (runnable)
			e->thread.quota_clock_ns = wl_quota_clock(prev, &e->thread.quota_owner);
		else
			e->thread.sleep_syscall = wl_task_syscall(prev);
		wl_thread_out(&e->thread, &c->timeline, cpu, now, runnable, stop);
		if (c->timeline.budget_out_ns == now)
			wl_thread_budget_out(&e->thread, now);
	}
	e = wl_thread_of(c, next, &slot);
	if (e) {
		u64 owner, clock = wl_quota_clock(next, &owner), quota = 0;

		if (e->thread.quota_owner == owner)
			quota = clock - e->thread.quota_clock_ns;
		/* another task of its group may have used the budget up while it waited */
		if (next->prio < WL_MAX_RT_PRIO && c->timeline.budget_out_ns &&
		    wl_rt_budget(next, c->timeline.budget))
			wl_thread_budget_out(&e->thread, c->timeline.budget_out_ns);
		wl_thread_in(&e->thread, &c->timeline, cpu, now, quota);
	}
}

SEC("tp_btf/sched_waking")
int BPF_PROG(wl_sched_waking, struct task_struct *p)
{
	return WL_RUN(wl_waking(c, p));
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(wl_sched_wakeup, struct task_struct *p)
{
	return WL_RUN(wl_wakeup(c, p));
}

/* io_uring's own threads of a process pass no sched_process_fork (create_io_thread, kernel/fork.c): this is their first sign. */
static __always_inline void wl_wakeup_first(struct wl_cpu *c, struct task_struct *p)
{
	if ((p->flags & WL_PF_IO_WORKER) && wl_is_target(p->tgid))
		wl_thread_create(c, p);
	wl_wakeup(c, p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(wl_sched_wakeup_new, struct task_struct *p)
{
	return WL_RUN(wl_wakeup_first(c, p));
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(wl_sched_migrate, struct task_struct *p, int dest_cpu)
{
	return WL_RUN(wl_migrate(c, p, dest_cpu));
}

SEC("tp_btf/sched_switch")
int BPF_PROG(wl_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	return WL_RUN(wl_switch(c, preempt, prev, next, prev_state));
}

static __always_inline void wl_forked(struct wl_cpu *c, struct task_struct *parent,
				      struct task_struct *child)
{
	u32 one = 1, tgid = child->tgid;

	if (!wl_is_target(parent->tgid))
		return;
	if (child->tgid != parent->tgid) {
		if (bpf_map_update_elem(&wl_targets, &tgid, &one, BPF_ANY)) {
			wl_lose(c, WL_LOST_THREAD_SLOTS);
			return;
		}
		wl_tgid_filter[tgid & 4095] = 1;
		__sync_fetch_and_add(&wl_target_count, 1);
	}
	wl_thread_create(c, child);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(wl_fork, struct task_struct *parent, struct task_struct *child)
{
	return WL_RUN(wl_forked(c, parent, child));
}

static __always_inline void wl_exited(struct wl_cpu *c, struct task_struct *p)
{
	struct wl_thread_entry *e;
	u32 slot, tgid = p->tgid;

	e = wl_thread_of(c, p, &slot);
	if (e) {
		u32 tid = p->pid;

		e->open.active = WL_OPEN_NO;
		e->thread.in_use = 0;
		bpf_map_delete_elem(&wl_thread_slots, &tid);
	}
	/* its last two threads may get here at the same time: one of them ends it */
	if (wl_is_target(tgid) && p->signal->live.counter == 0 &&
	    !bpf_map_delete_elem(&wl_targets, &tgid)) {
		__sync_fetch_and_add(&wl_target_count, -1);
		c->counters.target_exits++;
	}
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(wl_exit, struct task_struct *p)
{
	return WL_RUN(wl_exited(c, p));
}

/* A thread that is not the leader replaces the program: it gets the id of the leader, which has ended (de_thread(), fs/exec.c). */
static __always_inline void wl_replaced(struct wl_cpu *c, struct task_struct *p, u32 old_tid)
{
	struct wl_thread_entry *e;
	u32 *found, slot, tid = p->pid;

	if (old_tid == tid || !wl_is_target(p->tgid))
		return;
	found = bpf_map_lookup_elem(&wl_thread_slots, &old_tid);
	if (!found)
		return;
	slot = *found;
	e = wl_slot_at(slot);
	if (!e || e->thread.tid != old_tid)
		return;
	e->thread.tid = tid;
	bpf_map_delete_elem(&wl_thread_slots, &old_tid);
	if (bpf_map_update_elem(&wl_thread_slots, &tid, &slot, BPF_ANY)) {
		e->thread.in_use = 0;
		wl_lose(c, WL_LOST_THREAD_SLOTS);
	}
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(wl_exec, struct task_struct *p, pid_t old_pid)
{
	return WL_RUN(wl_replaced(c, p, (u32)old_pid));
}
