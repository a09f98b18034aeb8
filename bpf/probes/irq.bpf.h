/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* irq:irq_handler_entry/exit (devices) and the x86 vectors without an irqaction (irq_vectors:*). */

static __always_inline void wl_device_irq(struct wl_cpu *c, int irq)
{
	u64 now = bpf_ktime_get_ns();

	wl_irq_begin(&c->timeline, now, WL_THEFT_DEVICE);
	c->device_irq_ns = now;
	c->device_irq = irq;
	/* its packets are polled by the softirq that runs already, without a raise of their own: whose they are is not known */
	if (c->rx.valid && c->rx.irq != (u32)irq)
		c->rx.irq = WL_NO_IRQ;
}

#define WL_LONG_IRQ_NS 10000

static __always_inline void wl_device_irq_done(struct wl_cpu *c)
{
	u64 now = bpf_ktime_get_ns();

	wl_irq_end(&c->timeline, now);
	if (c->device_irq_ns && now - c->device_irq_ns >= WL_LONG_IRQ_NS) {
		c->long_irq = c->device_irq;
		c->long_irq_ns = now - c->device_irq_ns;
		c->long_irq_end_ns = now;
	}
	c->device_irq_ns = 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(wl_irq_exit, int irq, struct irqaction *action, int ret)
{
	return WL_RUN(wl_device_irq_done(c));
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(wl_irq_entry, int irq, struct irqaction *action)
{
	return WL_RUN(wl_device_irq(c, irq));
}

/* hands_over: the vector by which another CPU may add packets to the softirq that runs already (RPS); whose they are is not known. */
static __always_inline void wl_vector(struct wl_cpu *c, u32 kind, bool hands_over)
{
	wl_irq_begin(&c->timeline, bpf_ktime_get_ns(), kind);
	if (hands_over && c->rx.valid)
		c->rx.irq = WL_NO_IRQ;
}

#define WL_VECTOR(name, kind, hands_over)                                    \
	SEC("tp_btf/" #name "_exit")                                         \
	int BPF_PROG(wl_vec_##name##_exit, int vector)                       \
	{                                                                    \
		return WL_RUN(wl_irq_end(&c->timeline, bpf_ktime_get_ns())); \
	}                                                                    \
	SEC("tp_btf/" #name "_entry")                                        \
	int BPF_PROG(wl_vec_##name##_entry, int vector)                      \
	{                                                                    \
		return WL_RUN(wl_vector(c, kind, hands_over));               \
	}

WL_VECTOR(local_timer, WL_THEFT_TIMER, false)
WL_VECTOR(reschedule, WL_THEFT_IPI, false)
WL_VECTOR(call_function, WL_THEFT_IPI, false)
WL_VECTOR(call_function_single, WL_THEFT_IPI, true)
WL_VECTOR(irq_work, WL_THEFT_IRQ_WORK, false)
