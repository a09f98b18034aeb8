/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* raw_syscalls: only with --syscalls, since attaching them slows every system call of every task on the host. */

static __always_inline void wl_syscall_enter(struct wl_cpu *c)
{
	struct wl_thread_entry *e;
	u32 slot;

	e = wl_thread_of(c, bpf_get_current_task_btf(), &slot);
	if (e)
		e->thread.sys_enter_ns = bpf_ktime_get_ns();
}

static __always_inline void wl_syscall_exit(struct wl_cpu *c)
{
	struct wl_thread_entry *e;
	u32 slot;

	e = wl_thread_of(c, bpf_get_current_task_btf(), &slot);
	if (!e || !e->thread.await_exit)
		return;
	e->thread.await_exit = 0;
	e->thread.sys_exit_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/sys_enter")
int BPF_PROG(wl_sys_enter, struct pt_regs *regs, long id)
{
	return WL_RUN(wl_syscall_enter(c));
}

SEC("tp_btf/sys_exit")
int BPF_PROG(wl_sys_exit, struct pt_regs *regs, long ret)
{
	return WL_RUN(wl_syscall_exit(c));
}
