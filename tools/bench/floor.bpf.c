// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The floor of the overhead benchmark: the least any tracer pays that listens to these
 * 15 tracepoints. Each program stores one timestamp in a slot of its CPU and does nothing
 * else. No argument is read, so that no kernel type is needed.
 */
/* Kernel style, unlike the C++ beside it. */
/* clang-format off */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

#define FLOOR_MAX_CPUS 512 /* a power of two: the index is masked for the verifier */
#define FLOOR_SLOTS 16

/*
 * Two cache lines per CPU, so that no CPU writes to another one's line. Global, or the
 * compiler drops the stores.
 */
__u64 floor_stamps_ns[FLOOR_MAX_CPUS][FLOOR_SLOTS] __attribute__((aligned(128)));

#define FLOOR_HOOK(slot, tracepoint)                                           \
	SEC("tp_btf/" #tracepoint)                                             \
	int floor_##tracepoint(void *ctx)                                      \
	{                                                                      \
		__u32 cpu = bpf_get_smp_processor_id() & (FLOOR_MAX_CPUS - 1); \
		floor_stamps_ns[cpu][slot] = bpf_ktime_get_ns();               \
		return 0;                                                      \
	}

FLOOR_HOOK(0, cpu_idle)
FLOOR_HOOK(1, irq_handler_entry)
FLOOR_HOOK(2, irq_handler_exit)
FLOOR_HOOK(3, softirq_raise)
FLOOR_HOOK(4, softirq_entry)
FLOOR_HOOK(5, softirq_exit)
FLOOR_HOOK(6, netif_receive_skb)
FLOOR_HOOK(7, sk_data_ready)
FLOOR_HOOK(8, sched_waking)
FLOOR_HOOK(9, sched_switch)
FLOOR_HOOK(10, skb_copy_datagram_iovec)
FLOOR_HOOK(11, sys_enter)
FLOOR_HOOK(12, sys_exit)
FLOOR_HOOK(13, net_dev_queue)
FLOOR_HOOK(14, net_dev_start_xmit)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
