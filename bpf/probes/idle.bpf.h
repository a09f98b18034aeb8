/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* power:cpu_idle. Attached only where a CPU has several idle states; otherwise the state is known without it. */

SEC("tp_btf/cpu_idle")
int BPF_PROG(wl_cpu_idle, unsigned int state, unsigned int cpu)
{
	/* the state stays known after the exit: idle states with interrupts on leave in either order (drivers/cpuidle, arch idle) */
	return WL_RUN(if (state != (unsigned int)-1) c->idle_state = (s8)state);
}
