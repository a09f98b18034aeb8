/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_CONFIG_BPF_H
#define WHYLATE_CONFIG_BPF_H
/* Settings frozen before the load; the verifier removes the branches they switch off. */

/* Only sockets with this local port (0: any) and protocol (0: both). */
const volatile wl_u16 wl_cfg_port = 0;
const volatile wl_u8 wl_cfg_proto = 0;
/* Requests faster than this leave no record. */
const volatile wl_u64 wl_cfg_slower_than_ns = 0;
/* The run is over after so many requests; 0: never. */
const volatile wl_u64 wl_cfg_count = 0;
/* Request number in the payload: offset and width in bytes; width 0: none. */
const volatile wl_u32 wl_cfg_id_offset = 0;
const volatile wl_u32 wl_cfg_id_bytes = 0;
const volatile bool wl_cfg_syscalls = false;
/* Without sk_data_ready and sock_recv_length: probes/read_old.bpf.h. */
const volatile bool wl_cfg_old_reads = false;
/* Tracepoints call their programs with preemption enabled: Features::tracepoints_preemptible. */
const volatile bool wl_cfg_preemptible = false;
/* cpu_idle is attached; without it the only idle state there is is this one. */
const volatile bool wl_cfg_idle_hook = false;
const volatile wl_s8 wl_cfg_only_idle_state = -1;

#endif
