// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * `whylate trace` of a process on AF_XDP: the way of its packets as far as the kernel sees it. An object of its own, which no
 * other target loads. A redirect is the target's by the socket it went to: xdp_redirect hands on what the map's slot held,
 * for an xskmap the socket (net/core/filter.c), in native and in generic mode.
 */
#include <vmlinux.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "xsk_trace.h"

#define WL_XSK_AF_XDP 44
#define WL_NET_RX_SOFTIRQ 3
#define WL_XSK_MAP_TYPE 17 /* BPF_MAP_TYPE_XSKMAP */
#if defined(__TARGET_ARCH_x86)
#define WL_XSK_NR_SENDTO 44
#define WL_XSK_NR_SENDMSG 46
#else /* the generic table */
#define WL_XSK_NR_SENDTO 206
#define WL_XSK_NR_SENDMSG 211
#endif

const volatile bool cfg_generic = false; /* some interface has its program in generic mode */
const volatile bool cfg_preemptible = false; /* Features::tracepoints_preemptible */
__s32 xsk_tgid; /* of the initial pid namespace; the iterator finds it */

extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_XSK_MAX_CPUS);
	__type(key, u32);
	__type(value, struct wl_xsk_cpu);
} xsk_cpus SEC(".maps");

/* One entry per CPU; the value is too large for a per-CPU map. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_XSK_MAX_CPUS);
	__type(key, u32);
	__type(value, struct wl_xsk_totals);
} xsk_totals SEC(".maps");

/* By thread id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WL_XSK_MAX_THREADS);
	__type(key, u32);
	__type(value, struct wl_xsk_thread);
} xsk_threads SEC(".maps");

/* The target's sockets, by their address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WL_XSK_MAX_SOCKETS);
	__type(key, u64);
	__type(value, u64);
} xsk_sockets SEC(".maps");

static __always_inline struct wl_xsk_cpu *xsk_this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&xsk_cpus, &cpu);
}

static __always_inline struct wl_xsk_totals *xsk_this_totals(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&xsk_totals, &cpu);
}

static __always_inline bool xsk_is_own(const void *sk)
{
	u64 key = (u64)sk;

	return bpf_map_lookup_elem(&xsk_sockets, &key);
}

static __always_inline struct wl_xsk_thread *xsk_thread_of(u32 tid, struct wl_xsk_totals *t)
{
	struct wl_xsk_thread fresh = {}, *thread = bpf_map_lookup_elem(&xsk_threads, &tid);

	if (thread)
		return thread;
	bpf_map_update_elem(&xsk_threads, &tid, &fresh, BPF_NOEXIST);
	thread = bpf_map_lookup_elem(&xsk_threads, &tid);
	if (!thread)
		__sync_fetch_and_add(&t->lost, 1);
	return thread;
}

static __always_inline void xsk_add(struct wl_xsk_totals *t, const struct wl_xsk_cut *cut, u32 stage)
{
	u64 ns;
	u32 bucket;

	if (!(cut->known >> stage & 1))
		return;
	ns = cut->ns[stage];
	bucket = wl_hist_index(ns);
	t->count[stage]++;
	t->total_ns[stage] += ns;
	if (ns > t->max_ns[stage])
		t->max_ns[stage] = ns;
	if (bucket < WL_HIST_BUCKETS)
		t->hist[stage][bucket]++;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(xsk_irq_exit, int irq, struct irqaction *action, int ret)
{
	struct wl_xsk_cpu *c = xsk_this_cpu();

	if (c)
		c->irq_ns = 0;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(xsk_irq_entry, int irq, struct irqaction *action)
{
	struct wl_xsk_cpu *c = xsk_this_cpu();

	if (c)
		c->irq_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(xsk_softirq_raise, unsigned int vec)
{
	struct wl_xsk_cpu *c;

	if (vec != WL_NET_RX_SOFTIRQ)
		return 0;
	c = xsk_this_cpu();
	if (c)
		wl_xsk_raise(c, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(xsk_softirq_exit, unsigned int vec)
{
	struct wl_xsk_totals *t;
	struct wl_xsk_cpu *c;

	if (vec != WL_NET_RX_SOFTIRQ)
		return 0;
	c = xsk_this_cpu();
	t = xsk_this_totals();
	if (c && t)
		t->awake += wl_xsk_exit(c);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(xsk_softirq_entry, unsigned int vec)
{
	struct wl_xsk_cpu *c;

	if (vec != WL_NET_RX_SOFTIRQ)
		return 0;
	c = xsk_this_cpu();
	if (c)
		wl_xsk_entry(c, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/xdp_redirect")
int BPF_PROG(xsk_redirect, const struct net_device *dev, const struct bpf_prog *xdp,
	     const void *tgt, int err, u32 map_type, u32 map_id, u32 index)
{
	struct wl_xsk_cut cut;
	struct wl_xsk_totals *t;
	struct wl_xsk_cpu *c;

	if (map_type != WL_XSK_MAP_TYPE || !xsk_is_own(tgt))
		return 0;
	c = xsk_this_cpu();
	t = xsk_this_totals();
	if (!c || !t)
		return 0;
	t->redirected++;
	switch (wl_xsk_redirect(c, dev->xdp_prog && dev->xdp_prog == xdp, bpf_ktime_get_ns(), &cut)) {
	case WL_XSK_NO_SOFTIRQ:
		t->polled++;
		break;
	case WL_XSK_WOKE:
		t->woke++;
		t->wakes++;
		break;
	case WL_XSK_AWAKE:
		t->awake++;
		break;
	default:
		break;
	}
	xsk_add(t, &cut, WL_XSK_HARD_IRQ);
	xsk_add(t, &cut, WL_XSK_SOFTIRQ_WAIT);
	xsk_add(t, &cut, WL_XSK_REDIRECT);
	return 0;
}

SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(xsk_redirect_err, const struct net_device *dev, const struct bpf_prog *xdp,
	     const void *tgt, int err, u32 map_type, u32 map_id, u32 index)
{
	struct wl_xsk_totals *t;

	if (map_type != WL_XSK_MAP_TYPE || !xsk_is_own(tgt))
		return 0;
	t = xsk_this_totals();
	if (t)
		t->failed++;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(xsk_waking, struct task_struct *p)
{
	struct wl_xsk_thread *thread;
	struct wl_xsk_totals *t;
	struct wl_xsk_cut cut;
	struct wl_xsk_cpu *c;
	u64 packets;

	if (!xsk_tgid || p->tgid != xsk_tgid)
		return 0;
	c = xsk_this_cpu();
	t = xsk_this_totals();
	if (!c || !t || (!c->waiting && !(cfg_generic && c->entry_ns)))
		return 0;
	thread = xsk_thread_of(p->pid, t);
	if (!thread)
		return 0;
	if (!c->waiting) {
		wl_xsk_early_wake(c, thread, bpf_ktime_get_ns());
		return 0;
	}
	packets = wl_xsk_wake(c, thread, bpf_ktime_get_ns(), &cut);
	if (!packets)
		return 0;
	t->wakes++;
	t->woke += packets;
	xsk_add(t, &cut, WL_XSK_WAKE);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(xsk_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct wl_xsk_thread *thread;
	struct wl_xsk_totals *t;
	struct wl_xsk_cut cut;
	u32 tid;

	if (!xsk_tgid || next->tgid != xsk_tgid)
		return 0;
	tid = next->pid;
	thread = bpf_map_lookup_elem(&xsk_threads, &tid);
	t = xsk_this_totals();
	if (!thread || !t)
		return 0;
	wl_xsk_switch_in(thread, bpf_ktime_get_ns(), &cut);
	xsk_add(t, &cut, WL_XSK_RUN_QUEUE);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(xsk_sys_enter, struct pt_regs *regs, long id)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct wl_xsk_thread *thread;
	struct wl_xsk_totals *t;

	if (id != WL_XSK_NR_SENDTO && id != WL_XSK_NR_SENDMSG)
		return 0;
	if (!xsk_tgid || (s32)(pid_tgid >> 32) != xsk_tgid)
		return 0;
	t = xsk_this_totals();
	thread = t ? xsk_thread_of((u32)pid_tgid, t) : NULL;
	if (thread)
		wl_xsk_send_begin(thread, bpf_ktime_get_ns());
	return 0;
}

static __always_inline void xsk_sent(u32 tid)
{
	struct wl_xsk_thread *thread;
	struct wl_xsk_totals *t;
	struct wl_xsk_cut cut;

	t = xsk_this_totals();
	if (!t)
		return;
	t->send_calls++;
	thread = bpf_map_lookup_elem(&xsk_threads, &tid);
	if (!thread)
		return;
	wl_xsk_send_end(thread, bpf_ktime_get_ns(), &cut);
	xsk_add(t, &cut, WL_XSK_USER);
	xsk_add(t, &cut, WL_XSK_TRANSMIT);
}

/* The only hook that runs in a task with preemption on and adds to a CPU's totals. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(xsk_send_length, struct sock *sk, int ret, int flags)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();

	if (!xsk_tgid || (s32)(pid_tgid >> 32) != xsk_tgid || !xsk_is_own(sk))
		return 0;
	if (cfg_preemptible)
		bpf_preempt_disable();
	xsk_sent((u32)pid_tgid);
	if (cfg_preemptible)
		bpf_preempt_enable();
	return 0;
}

SEC("iter/task_file")
int xsk_read_sockets(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct wl_xsk_line line = {};
	struct xsk_queue *rx, *tx;
	struct net_device *dev;
	struct socket *socket;
	struct xdp_sock *xs;
	struct sock *sk;
	u64 key;

	if (!task || !file || !bpf_core_type_exists(struct xdp_sock))
		return 0;
	xsk_tgid = task->tgid; /* the iterator visits the target alone */
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk || sk->__sk_common.skc_family != WL_XSK_AF_XDP)
		return 0;
	xs = (struct xdp_sock *)sk;
	line.inode = file->f_inode->i_ino;
	line.fd = ctx->fd;
	key = (u64)sk;
	bpf_map_update_elem(&xsk_sockets, &key, &line.inode, BPF_ANY);
	rx = BPF_CORE_READ(xs, rx);
	tx = BPF_CORE_READ(xs, tx);
	dev = BPF_CORE_READ(xs, dev);
	if (rx)
		line.rx_frames = BPF_CORE_READ(rx, ring, producer);
	if (tx)
		line.tx_frames = BPF_CORE_READ(tx, ring, consumer);
	line.rx_dropped = BPF_CORE_READ(xs, rx_dropped);
	line.rx_ring_full = BPF_CORE_READ(xs, rx_queue_full);
	if (dev) {
		line.ifindex = BPF_CORE_READ(dev, ifindex);
		line.queue = BPF_CORE_READ(xs, queue_id);
		line.zero_copy = BPF_CORE_READ(xs, zc);
	}
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
