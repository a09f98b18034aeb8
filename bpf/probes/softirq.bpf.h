/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* irq:softirq_raise/entry/exit and napi:napi_poll. */

/* "ksoftirq" as the first eight bytes of a comm, little endian */
#define WL_COMM_KSOFTIRQ 0x71726974666f736bULL

static __always_inline void wl_net_rx_raise(struct wl_cpu *c)
{
	struct wl_rx_context *r = &c->raised;
	struct wl_slice *s;

	/*
	 * raise fires again while it is pending: the first one counts, but then it may not be the packet's own interrupt. That
	 * also holds for a raise outside a device's interrupt: packets that another CPU hands over (RPS).
	 */
	if (r->valid) {
		if (!c->device_irq_ns || r->irq != c->device_irq)
			r->irq = WL_NO_IRQ;
		return;
	}
	r->raise_ns = bpf_ktime_get_ns();
	r->valid = 1;
	r->irq_idle = 0;
	r->irq_idle_state = -1;
	/*
	 * A raise by the softirq itself. Since 6.4 devices do not raise while it runs (softnet_data.in_net_rx_action), so it is
	 * net_rx_action() that leaves the rest for later: a poll or the whole softirq has used up its budget (net/core/dev.c).
	 */
	r->squeezed = c->rx.valid && c->timeline.in_softirq && !c->timeline.irq_depth &&
		      bpf_core_field_exists(struct softnet_data, in_net_rx_action);
	if (!c->device_irq_ns) {
		r->origin_ns = r->raise_ns;
		r->origin = r->squeezed ? WL_ORIGIN_NAPI : WL_ORIGIN_NETIF_RX;
		r->irq = WL_NO_IRQ;
		r->irq_cpu = WL_NO_CPU;
		return;
	}
	r->origin_ns = c->device_irq_ns;
	r->origin = WL_ORIGIN_IRQ;
	r->irq = c->device_irq;
	r->irq_cpu = (u16)bpf_get_smp_processor_id();
	s = wl_slice_current(&c->timeline);
	if (s->start_ns && !s->pid) {
		r->irq_idle = 1;
		r->irq_idle_state = wl_cfg_idle_hook ? c->idle_state : wl_cfg_only_idle_state;
	}
}

static __always_inline void wl_net_rx_entry(struct wl_cpu *c, u64 now)
{
	struct wl_slice *s = wl_slice_current(&c->timeline);
	u32 left = c->udp.tail != c->udp.head ? wl_udp_fifo_clear(&c->udp) : 0;

	if (left)
		wl_unmatched_add(c, WL_UNM_HANDED_OVER, left);
	if (c->raised.valid) {
		c->rx.origin_ns = c->raised.origin_ns;
		c->rx.raise_ns = c->raised.raise_ns;
		c->rx.irq = c->raised.irq;
		c->rx.irq_cpu = c->raised.irq_cpu;
		c->rx.origin = c->raised.origin;
		c->rx.irq_idle = c->raised.irq_idle;
		c->rx.irq_idle_state = c->raised.irq_idle_state;
		c->rx.squeezed = c->raised.squeezed;
		c->raised.valid = 0;
	} else {
		c->rx.origin_ns = now;
		c->rx.raise_ns = now;
		c->rx.irq = WL_NO_IRQ;
		c->rx.irq_cpu = WL_NO_CPU;
		c->rx.origin = WL_ORIGIN_NETIF_RX;
		c->rx.irq_idle = 0;
		c->rx.irq_idle_state = -1;
		c->rx.squeezed = 0;
	}
	c->rx.entry_ns = now;
	c->rx.mode = *(u64 *)s->comm == WL_COMM_KSOFTIRQ ? WL_SOFTIRQ_KSOFTIRQD : WL_SOFTIRQ_INLINE;
	c->rx.valid = 1;
}

static __always_inline void wl_any_softirq_entry(struct wl_cpu *c, u32 vec)
{
	u64 now = bpf_ktime_get_ns();

	wl_softirq_begin(&c->timeline, now);
	if (vec == WL_NET_RX_SOFTIRQ)
		wl_net_rx_entry(c, now);
}

static __always_inline void wl_any_softirq_exit(struct wl_cpu *c, u32 vec)
{
	wl_softirq_end(&c->timeline, bpf_ktime_get_ns());
	if (vec == WL_NET_RX_SOFTIRQ)
		c->rx.valid = 0;
}

/* The running task as a NAPI thread, NULL if it is none. */
static __always_inline struct wl_thread_entry *wl_napi_thread(struct wl_cpu *c)
{
	struct wl_thread_entry *e;
	u32 slot;

	if (!wl_napi_threads)
		return NULL;
	e = wl_thread_of(c, bpf_get_current_task_btf(), &slot);
	return e && e->thread.napi ? e : NULL;
}

/* What the thread polls next came after this: an interrupt that comes while it runs does not wake it. */
static __always_inline void wl_napi_thread_poll_end(struct wl_cpu *c)
{
	struct wl_thread_entry *e = wl_napi_thread(c);
	struct wl_arrival *a;
	u32 left;

	if (!e)
		return;
	a = &e->open.arrival;
	a->origin_ns = bpf_ktime_get_ns();
	a->origin = WL_ORIGIN_NAPI;
	a->irq = WL_NO_IRQ;
	a->irq_cpu = WL_NO_CPU;
	left = c->udp.tail != c->udp.head ? wl_udp_fifo_clear(&c->udp) : 0;
	if (left)
		wl_unmatched_add(c, WL_UNM_HANDED_OVER, left);
}

/*
 * End of a poll. A poll that used its whole budget is repeated in the same softirq: packets of the next round have no
 * interrupt of their own, all that is known is that they were not there when this round ended.
 */
static __always_inline void wl_poll_end(struct wl_cpu *c, int work, int budget)
{
	if (!c->timeline.in_softirq) {
		c->poll_ns = bpf_ktime_get_ns();
		c->poll_tid = (u32)bpf_get_current_pid_tgid();
	}
	if (!c->rx.valid) {
		wl_napi_thread_poll_end(c);
		return;
	}
	if (work < budget)
		return;
	c->rx.origin_ns = bpf_ktime_get_ns();
	c->rx.origin = WL_ORIGIN_NAPI;
	c->rx.irq = WL_NO_IRQ;
	c->rx.irq_cpu = WL_NO_CPU;
	c->rx.irq_idle = 0;
	c->rx.irq_idle_state = -1;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(wl_softirq_exit, unsigned int vec)
{
	return WL_RUN(wl_any_softirq_exit(c, vec));
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(wl_softirq_entry, unsigned int vec)
{
	return WL_RUN(wl_any_softirq_entry(c, vec));
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(wl_softirq_raise, unsigned int vec)
{
	return WL_RUN(if (vec == WL_NET_RX_SOFTIRQ) wl_net_rx_raise(c));
}

SEC("tp_btf/napi_poll")
int BPF_PROG(wl_napi_poll, struct napi_struct *napi, int work, int budget)
{
	return WL_RUN(wl_poll_end(c, work, budget));
}
