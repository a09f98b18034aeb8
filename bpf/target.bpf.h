/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_TARGET_BPF_H
#define WHYLATE_TARGET_BPF_H
/* Who belongs to the target, and the cost accounting every program runs under. */

/* One in this many invocations is timed; prime, so that no traffic pattern can hide from it. */
#define WL_SAMPLE_EVERY 61

static __always_inline struct wl_cpu *wl_cpu_at(u32 cpu)
{
	return bpf_map_lookup_elem(&wl_cpus, &cpu);
}

static __always_inline struct wl_cpu *wl_cpu_here(void)
{
	return wl_cpu_at(bpf_get_smp_processor_id());
}

/* A pointer as a number to reckon with: the verifier forbids that, but does not know what comes out of a map. */
static __always_inline u64 wl_address(struct wl_cpu *c, const void *pointer)
{
	*(volatile u64 *)&c->address = (u64)pointer;
	return *(volatile u64 *)&c->address;
}

static __always_inline u64 wl_enter(struct wl_cpu *c)
{
	c->for_target = 0;
	return c->sample_left <= 1 ? bpf_ktime_get_ns() : 0;
}

static __always_inline void wl_leave(struct wl_cpu *c, u64 begin)
{
	u64 ns;

	c->counters.runs++;
	if (c->for_target)
		c->counters.target_runs++;
	if (!begin) {
		c->sample_left--;
		return;
	}
	ns = bpf_ktime_get_ns() - begin;
	c->sample_left = WL_SAMPLE_EVERY;
	c->counters.sampled_runs++;
	c->counters.sampled_ns += ns;
	if (c->for_target) {
		c->counters.target_sampled_runs++;
		c->counters.target_sampled_ns += ns;
	}
}

/* 6.10. Only called where user space found them, and that they are needed. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/*
 * Runs `call` with `c` being this CPU's state, and accounts for it. Not preempted by another task: that would bring other
 * programs into the middle of this one, and time that passes between two of its readings. Not once the run is over:
 * hooks are taken off one after the other, and a request seen through only some of them would be wrong.
 */
#define WL_RUN(call)                              \
	({                                        \
		struct wl_cpu *c;                 \
		if (wl_cfg_preemptible)           \
			bpf_preempt_disable();    \
		c = wl_cpu_here();                \
		if (c && !wl_stopped) {           \
			u64 begin_ = wl_enter(c); \
			call;                     \
			wl_leave(c, begin_);      \
		}                                 \
		if (wl_cfg_preemptible)           \
			bpf_preempt_enable();     \
		0;                                \
	})

static __always_inline void wl_lose(struct wl_cpu *c, u32 cause)
{
	c->counters.lost[cause & (WL_NR_LOST - 1)]++;
}

static __always_inline void wl_unmatched_add(struct wl_cpu *c, u32 reason, u64 n)
{
	c->counters.unmatched[reason & (WL_NR_UNMATCHED - 1)] += n;
}

static __always_inline bool wl_is_target(u32 tgid)
{
	return wl_tgid_filter[tgid & 4095] && bpf_map_lookup_elem(&wl_targets, &tgid);
}

static __always_inline struct wl_thread_entry *wl_slot_at(u32 slot)
{
	return bpf_map_lookup_elem(&wl_threads, &slot);
}

/* The state of a target's thread; NULL for everybody else. *slot is its index. `c`: this CPU. */
static __always_inline struct wl_thread_entry *wl_thread_of(struct wl_cpu *c, struct task_struct *p,
							    u32 *slot)
{
	struct wl_thread_entry *e;
	u32 *found, tid;

	if (!wl_tgid_filter[p->tgid & 4095])
		return NULL;
	tid = p->pid;
	found = bpf_map_lookup_elem(&wl_thread_slots, &tid);
	if (!found)
		return NULL;
	*slot = *found;
	e = wl_slot_at(*slot);
	/* an id may have got to another process since */
	if (!e || !e->thread.in_use || e->thread.tid != (u32)p->pid || e->thread.tgid != (u32)p->tgid)
		return NULL;
	c->for_target = 1;
	return e;
}

/* Tries the next place for a thread; returns it plus 1, 0 if it is taken. Apart from its loop, which the verifier walks turn by turn. */
__noinline u32 wl_thread_try(void)
{
	u32 slot = (u32)(__sync_fetch_and_add(&wl_next_slot, 1) % (wl_max_slots ? wl_max_slots : 1));
	struct wl_thread_entry *e = wl_slot_at(slot);

	return e && __sync_val_compare_and_swap(&e->thread.in_use, 0, 1) == 0 ? slot + 1 : 0;
}

/* Gives a thread of the target its state. Called where it is new: fork, or the iterator at attach. */
static __always_inline void wl_thread_create(struct wl_cpu *c, struct task_struct *p)
{
	struct wl_thread_entry *e;
	u32 slot = 0, tid = p->pid;

	if (bpf_map_lookup_elem(&wl_thread_slots, &tid))
		return;
	for (int i = 0; i < 64 && !slot; i++)
		slot = wl_thread_try();
	e = slot ? wl_slot_at(--slot) : NULL;
	if (!e) {
		wl_lose(c, WL_LOST_THREAD_SLOTS);
		return;
	}
	e->thread.tid = p->pid;
	e->thread.tgid = p->tgid;
	e->thread.cpu = 0;
	e->thread.state = WL_T_UNKNOWN;
	e->thread.nr_waits = 0;
	e->thread.since_ns = 0;
	e->thread.run_queue_ns = 0;
	e->thread.throttled_ns = 0;
	e->thread.blocked_ns = 0;
	for (int i = 0; i < WL_NR_THEFT; i++)
		e->thread.theft_ns[i] = 0;
	e->thread.activity_ns = 0;
	e->thread.sys_enter_ns = 0;
	e->thread.sys_exit_ns = 0;
	e->thread.await_exit = 0;
	e->thread.long_sleep_ns = 0;
	e->thread.woken_early = 0;
	e->thread.napi = 0;
	e->thread.io_worker = !!(p->flags & WL_PF_IO_WORKER);
	e->thread.healed_ns = 0;
	e->thread.unreported_ns = 0;
	e->thread.stop = WL_STOP_NONE;
	e->thread.stop_end_ns = 0;
	e->thread.nr_stops = 0;
	e->open.active = WL_OPEN_NO;
	e->replied = 0;
	if (bpf_map_update_elem(&wl_thread_slots, &tid, &slot, BPF_ANY)) {
		e->thread.in_use = 0;
		wl_lose(c, WL_LOST_THREAD_SLOTS);
	}
}

/* `e` is the running task. A frame of its own: it must not add to the longest call chain. */
static __noinline void wl_heal_here(struct wl_cpu *c, struct wl_thread_entry *e)
{
	wl_thread_heal(&e->thread, &c->timeline, bpf_get_smp_processor_id(), bpf_ktime_get_ns());
}

static __always_inline struct wl_udp_socket *wl_udp_at(u32 index)
{
	return bpf_map_lookup_elem(&wl_udp_states, &index);
}

/* The state of a tracked UDP socket; NULL for every other. */
static __always_inline struct wl_udp_socket *wl_udp_of(struct sock *sk)
{
	u32 *plus_one = bpf_sk_storage_get(&wl_udp_slots, sk, NULL, 0);

	return plus_one && *plus_one ? wl_udp_at(*plus_one - 1) : NULL;
}

static __always_inline struct wl_parked *wl_parked_at(u32 slot)
{
	return bpf_map_lookup_elem(&wl_parked_requests, &slot);
}

/* Tries the next place for a request whose thread goes on; WL_PARKED: it is taken. */
__noinline u32 wl_parked_try(void)
{
	u32 slot = (u32)(__sync_fetch_and_add(&wl_next_parked, 1) & (WL_PARKED - 1));
	struct wl_parked *p = wl_parked_at(slot);

	return p && __sync_val_compare_and_swap(&p->in_use, 0, 1) == 0 ? slot : WL_PARKED;
}

/* A free place for such a request; WL_PARKED: none. */
__noinline u32 wl_parked_take(void)
{
	u32 slot = WL_PARKED;

	for (int i = 0; i < 32 && slot >= WL_PARKED; i++)
		slot = wl_parked_try();
	return slot;
}

/* Gives a parked request up; one that waits for its datagram stays in wl_awaited_total. */
static __noinline void wl_parked_free(u32 slot)
{
	struct wl_parked *p = wl_parked_at(slot);
	struct wl_cpu *c = wl_cpu_here();

	if (!p || !c)
		return;
	if (!p->awaits_datagram) {
		wl_lose(c, WL_LOST_TX_PENDING);
		c->counters.incomplete++;
	}
	p->in_use = 0;
}

static __always_inline struct wl_batched *wl_batched_at(u32 slot)
{
	return bpf_map_lookup_elem(&wl_batched_requests, &slot);
}

_Static_assert(WL_TX_PENDING == WL_BATCH, "wl_udp_release_at() takes one index for both");

/* Entry `i` of what the socket before has left in this state. */
__noinline int wl_udp_release_at(struct wl_udp_socket *s, u32 i)
{
	struct wl_parked_ref *ref;
	struct wl_batched *b;
	u32 slot;

	if (!s)
		return 0;
	ref = &s->parked[i & (WL_TX_PENDING - 1)];
	if (ref->state)
		wl_parked_free(ref->slot);
	ref->state = WL_OPEN_NO;
	slot = s->batch[i & (WL_BATCH - 1)];
	b = slot ? wl_batched_at(slot - 1) : NULL;
	if (b)
		b->in_use = 0;
	s->batch[i & (WL_BATCH - 1)] = 0;
	return 0;
}

/* All of it. */
__noinline int wl_udp_release(struct wl_udp_socket *s)
{
	if (!s)
		return 0;
	for (u32 i = 0; i < WL_TX_PENDING; i++)
		wl_udp_release_at(s, i);
	s->awaited = 0;
	s->waiting = 0;
	s->batch_tail = s->batch_head;
	s->batch_answered = 0;
	s->batch_end_ns = 0;
	return 0;
}

#define WL_MAX_UDP_SOCKETS 256

struct wl_udp_slot_search {
	u32 epoch;
	u32 slot; /* out: WL_MAX_UDP_SOCKETS if there is none */
};

static long wl_udp_try_slot(u64 i, void *data)
{
	struct wl_udp_slot_search *x = data;
	struct wl_udp_socket *s = wl_udp_at((u32)i);
	u32 used;

	if (!s)
		return 1;
	used = s->in_use;
	if (used && s->seen + 2 >= x->epoch)
		return 0;
	if (__sync_val_compare_and_swap(&s->in_use, used, used + 1) != used)
		return 0;
	x->slot = (u32)i;
	return 1;
}

/*
 * Takes a free state for a UDP socket; returns its index, or WL_MAX_UDP_SOCKETS. Nothing tells when a socket is closed, so a
 * state may be taken over once two adoption passes have not found its socket any more.
 */
__noinline u32 wl_udp_take_slot(u32 epoch)
{
	struct wl_udp_slot_search x = { .epoch = epoch, .slot = WL_MAX_UDP_SOCKETS };

	bpf_loop(WL_MAX_UDP_SOCKETS, wl_udp_try_slot, &x, 0);
	return x.slot;
}

/* Starts to track a UDP socket; NULL and a loss counted if there is no room. */
static __always_inline struct wl_udp_socket *wl_udp_create(struct wl_cpu *c, struct sock *sk)
{
	u32 *plus_one = bpf_sk_storage_get(&wl_udp_slots, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct wl_udp_socket *s;
	u32 slot;

	if (!plus_one)
		goto lost;
	slot = wl_udp_take_slot(wl_adopt_epoch);
	s = wl_udp_at(slot);
	if (!s)
		goto lost;
	if (wl_cfg_old_reads) {
		u64 address = (u64)sk;

		/* sockets that are gone leave their entries; wl_udp_socket.sk tells them from new ones */
		if (bpf_map_update_elem(&wl_old_sockets, &address, &slot, BPF_ANY))
			goto lost;
	}
	s->sk = (u64)sk;
	s->seen = wl_adopt_epoch;
	s->reader_slot = 0;
	s->shared = 0;
	__builtin_memset(s->multicast, 0, sizeof(s->multicast));
	wl_udp_release(s);
	wl_udp_queue_reset(&s->queue);
	*plus_one = slot + 1;
	return s;
lost:
	wl_lose(c, WL_LOST_SOCKET_STORAGE);
	return NULL;
}

/* The verifier of older kernels does not bound the result of a byte swap, and the compiler drops a mask it knows to be idle. */
static __always_inline bool wl_port_wanted(u32 port)
{
	asm volatile("" : "+r"(port));
	return wl_port_filter[port & 0xffff];
}

/* Does this socket belong to what the user asked for? */
static __always_inline bool wl_socket_wanted(const struct sock *sk, u32 proto)
{
	u16 family = sk->__sk_common.skc_family;

	if (family != WL_AF_INET && family != WL_AF_INET6)
		return false;
	if (proto != WL_IPPROTO_TCP && proto != WL_IPPROTO_UDP)
		return false;
	if (wl_cfg_proto && proto != wl_cfg_proto)
		return false;
	return !wl_cfg_port || sk->__sk_common.skc_num == wl_cfg_port;
}

/*
 * A UDP socket that only asks others (connected, port chosen by the kernel) serves nobody: what it reads are answers, not
 * requests.
 */
static __always_inline bool wl_udp_is_client(const struct sock *sk)
{
	/* sk_userlocks: a bit field before 6.2, a byte since */
	return sk->__sk_common.skc_dport &&
	       !(BPF_CORE_READ_BITFIELD(sk, sk_userlocks) & WL_SOCK_BINDPORT_LOCK);
}

#endif
