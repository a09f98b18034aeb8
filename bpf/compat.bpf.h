/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_COMPAT_BPF_H
#define WHYLATE_COMPAT_BPF_H
/* Constants that BTF does not carry, and fields that not every kernel has. */

#define WL_AF_INET 2
#define WL_AF_INET6 10
#define WL_IPPROTO_TCP 6
#define WL_IPPROTO_UDP 17
#define WL_ETH_P_IP 0x0800
#define WL_ETH_P_IPV6 0x86dd
#define WL_TCP_ESTABLISHED 1
#define WL_TCP_LISTEN 10
#define WL_NET_RX_SOFTIRQ 3
#define WL_MSG_PEEK 0x2
#define WL_MSG_TRUNC 0x20
#define WL_MSG_ERRQUEUE 0x2000
#define WL_MSG_MORE 0x8000
#define WL_TCP_CLOSE 7
#define WL_SK_PACING_NEEDED 1
#define WL_TCQ_F_CPUSTATS 0x20
#define WL_PF_KTHREAD 0x00200000
#define WL_PF_IO_WORKER 0x00000010
#define WL_TASK_DEAD 0x00000080
#define WL_MAX_RT_PRIO 100
/* Bits of a task's state (include/linux/sched.h): the same since 4.14, the last since 6.1; and of its flags, up to 6.0 */
#define WL_TASK_INTERRUPTIBLE 0x0001
#define WL_TASK_UNINTERRUPTIBLE 0x0002
#define WL_TASK_STOPPED 0x0004
#define WL_TASK_TRACED 0x0008
#define WL_TASK_FROZEN 0x8000
#define WL_PF_FROZEN 0x00010000
#define WL_SOCK_BINDPORT_LOCK 8

/* System calls that read into memory of the caller (64-bit), and how to tell that the caller is a 64-bit process. */
#if defined(__TARGET_ARCH_x86)
#define WL_NR_READ 0
#define WL_NR_READV 19
#define WL_NR_RECVFROM 45
#define WL_NR_RECVMSG 47
#define WL_USER_CS 0x33
#elif defined(__TARGET_ARCH_arm64)
#define WL_NR_READ 63
#define WL_NR_READV 65
#define WL_NR_RECVFROM 207
#define WL_NR_RECVMSG 212
#define WL_PSR_MODE32 0x10
#endif

/* 6.5: per group, time its run queue was out of quota (kernel/sched/fair.c, tg_unthrottle_up). */
struct cfs_rq___quota {
	u64 throttled_clock_self_time;
} __attribute__((preserve_access_index));

/*
 * The quota clock of the run queue a fair task is on, 0 where the kernel has none. *owner names the run queue: two readings
 * compare only with the same owner.
 */
static __always_inline u64 wl_quota_clock(struct task_struct *p, u64 *owner)
{
	struct cfs_rq___quota *rq = NULL;

	*owner = 0;
	if (!bpf_core_field_exists(p->se.cfs_rq) ||
	    !bpf_core_field_exists(rq->throttled_clock_self_time))
		return 0;
	rq = (struct cfs_rq___quota *)BPF_CORE_READ(p, se.cfs_rq);
	*owner = (u64)rq;
	return BPF_CORE_READ(rq, throttled_clock_self_time);
}

/*
 * The group that the scheduler has a task in: the id of the cgroup of its cpu controller (its directory's inode number), or
 * WL_AUTOGROUP and the autogroup's number; 0 where groups are not compiled in.
 */
static __always_inline u64 wl_task_group(struct task_struct *p)
{
	struct task_group *group;
	struct cgroup *cgroup;

	if (!bpf_core_field_exists(p->sched_task_group))
		return 0;
	group = p->sched_task_group;
	cgroup = group->css.cgroup;
	if (cgroup)
		return cgroup->kn->id;
	if (bpf_core_field_exists(group->autogroup) && group->autogroup)
		return WL_AUTOGROUP | group->autogroup->id;
	return 0;
}

struct rt_rq___budget {
	int rt_throttled;
	unsigned int rt_nr_boosted;
} __attribute__((preserve_access_index));

struct sched_rt_entity___group {
	struct sched_rt_entity___group *parent;
	struct rt_rq___budget *rt_rq;
} __attribute__((preserve_access_index));

struct rq___budget {
	struct rt_rq___budget rt;
} __attribute__((preserve_access_index));

#define WL_RT_GROUPS 8 /* nested groups that are looked at */

/* rt_rq_throttled() of kernel/sched/rt.c: a task that inherits its priority may go on. */
static __always_inline bool wl_rt_used_up(struct rt_rq___budget *queue)
{
	if (!BPF_CORE_READ(queue, rt_throttled))
		return false;
	return !bpf_core_field_exists(queue->rt_nr_boosted) || !BPF_CORE_READ(queue, rt_nr_boosted);
}

/*
 * The used up budget among those of a task's group (its queue, and its own entity's parent) and the groups above, by its address;
 * or, with `among`, that one if it is one of them. 0: none. A global function: verified once.
 */
__noinline u64 wl_rt_groups(u64 queue, u64 parent, u64 among)
{
	struct sched_rt_entity___group *any = NULL;

	if (!bpf_core_field_exists(any->rt_rq) || !bpf_core_field_exists(any->rt_rq->rt_throttled))
		return 0; /* it is verified also where nobody calls it */
#pragma clang loop unroll(disable)
	for (int i = 0; i < WL_RT_GROUPS; i++) {
		struct sched_rt_entity___group *above = (void *)parent;

		if (among ? queue == among : wl_rt_used_up((void *)queue))
			return queue;
		if (!above)
			break;
		queue = (u64)BPF_CORE_READ(above, rt_rq);
		parent = (u64)BPF_CORE_READ(above, parent);
	}
	return 0;
}

/*
 * The real-time budget that keeps a task from running, as an address that names it; 0 if there is none. With
 * CONFIG_RT_GROUP_SCHED those of its group and of the groups above; without, the CPU's own (up to 6.11, and found by way of
 * CONFIG_FAIR_GROUP_SCHED). A deadline task's is its own, unless it gave the rest of it up (sched_yield).
 * `among`: only if it is this one.
 */
static __always_inline u64 wl_rt_budget(struct task_struct *p, u64 among)
{
	struct sched_rt_entity___group *entity = (void *)&p->rt;
	struct rt_rq___budget *queue = NULL;
	struct rq___budget *rq;

	if (p->prio >= WL_MAX_RT_PRIO)
		return 0;
	if (p->prio < 0) {
		if (among || !BPF_CORE_READ_BITFIELD_PROBED(&p->dl, dl_throttled) ||
		    BPF_CORE_READ_BITFIELD_PROBED(&p->dl, dl_yielded))
			return 0;
		return (u64)&p->dl;
	}
	if (!bpf_core_field_exists(queue->rt_throttled))
		return 0;
	if (bpf_core_field_exists(entity->rt_rq))
		return wl_rt_groups((u64)BPF_CORE_READ(entity, rt_rq),
				    (u64)BPF_CORE_READ(entity, parent), among);
	if (!bpf_core_field_exists(p->se.cfs_rq))
		return 0;
	rq = (struct rq___budget *)BPF_CORE_READ(p, se.cfs_rq, rq);
	queue = &rq->rt;
	if (among)
		return (u64)queue == among ? among : 0;
	return wl_rt_used_up(queue) ? (u64)queue : 0;
}

/*
 * Whether a task that sleeps in this state is stopped: enum wl_stop_kind. A stop has a state of its own. So has the freezer since 6.1
 * (kernel/freezer.c), which also puts sleeping tasks into it as they are; before, it is a flag. The freezer of cgroup v2 lets tasks
 * sleep as in a system call and marks them (do_freezer_trap(), kernel/signal.c); a parent that waits for its vfork() is marked, too,
 * but not interruptible.
 */
static __always_inline u8 wl_task_stop(struct task_struct *task, u32 state)
{
	if (state & WL_TASK_STOPPED)
		return WL_STOP_SIGNAL;
	if (state & WL_TASK_TRACED)
		return WL_STOP_TRACER;
	if (state & WL_TASK_FROZEN)
		return WL_STOP_FREEZER;
	if ((state & WL_TASK_UNINTERRUPTIBLE) && (task->flags & WL_PF_FROZEN) &&
	    !(task->flags & WL_PF_KTHREAD))
		return WL_STOP_FREEZER; /* later the flag is kcompactd's */
	if ((state & WL_TASK_INTERRUPTIBLE) && bpf_core_field_exists(task->frozen) &&
	    BPF_CORE_READ_BITFIELD(task, frozen))
		return WL_STOP_FREEZER;
	return WL_STOP_NONE;
}

/* The system call a task is in, -1 when it is in none (a fault, or preempted in user mode). */
static __always_inline s32 wl_task_syscall(struct task_struct *p)
{
	struct pt_regs *regs;

	/* io_uring workers and kernel threads show the number of the call that made them */
	if (p->flags & (WL_PF_KTHREAD | WL_PF_IO_WORKER))
		return WL_NO_SYSCALL;
	regs = (struct pt_regs *)bpf_task_pt_regs(p);
	if (!regs)
		return WL_NO_SYSCALL;
#if defined(__TARGET_ARCH_x86)
	return (s32)BPF_CORE_READ(regs, orig_ax);
#elif defined(__TARGET_ARCH_arm64)
	return BPF_CORE_READ(regs, syscallno);
#else
	return WL_NO_SYSCALL;
#endif
}

#endif
