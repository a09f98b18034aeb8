/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal:signal_generate, attached for a few milliseconds at start-up: user space sends itself ignored signals with and without
 * it to learn what the mere call of a program costs on this machine.
 */
SEC("tp_btf/signal_generate")
int BPF_PROG(wl_calibrate, int sig)
{
	struct wl_cpu *c = wl_cpu_here();

	if (c && c->sample_left != 1)
		wl_calibrations++;
	return 0;
}
