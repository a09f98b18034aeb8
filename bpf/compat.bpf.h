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
#define WL_MSG_ERRQUEUE 0x2000
#define WL_PF_KTHREAD 0x00200000
#define WL_PF_IO_WORKER 0x00000010
#define WL_TASK_DEAD 0x00000080
#define WL_SOCK_BINDPORT_LOCK 8

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
	if (!bpf_core_field_exists(p->se.cfs_rq) || !bpf_core_field_exists(rq->throttled_clock_self_time))
		return 0;
	rq = (struct cfs_rq___quota *)BPF_CORE_READ(p, se.cfs_rq);
	*owner = (u64)rq;
	return BPF_CORE_READ(rq, throttled_clock_self_time);
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
