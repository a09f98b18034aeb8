/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_STACK_WINDOW_H
#define WHYLATE_STACK_WINDOW_H
/* What stack_window.bpf.c and user space share. Valid C11 (BPF) and C++20. */
#include "record.h"

/* What a line of the iterator is about. */
enum wl_window_kind {
	WL_WINDOW_OTHER = 0,
	WL_WINDOW_TCP = 1,
	WL_WINDOW_UDP = 2,
	WL_WINDOW_PACKET = 3,
	WL_WINDOW_XDP = 4,
	WL_WINDOW_EPOLL = 5,
	WL_WINDOW_RAW = 6, /* raw and ping sockets: counted like datagrams */
};

/* Fields of a line that the kernel had; the others are zero. */
enum wl_window_known {
	WL_WINDOW_KNOWS_COUNTS = 1 << 0,
	WL_WINDOW_KNOWS_BUSY_POLL = 1 << 1,
	WL_WINDOW_KNOWS_QDISC_BYPASS = 1 << 2,
	WL_WINDOW_KNOWS_DEVICE = 1 << 3,
};

/* One socket or epoll of the target as the iterator found it. */
struct wl_window_line {
	wl_u64 inode;
	/*
	 * Counters of the socket itself, 32 bits wide in the kernel. TCP: segments in and out. AF_PACKET: packets offered,
	 * nothing. AF_XDP: descriptors the kernel put into the receive ring, and took from the transmit ring.
	 */
	wl_u64 rx_count;
	wl_u64 tx_count;
	wl_u64 rx_dropped; /* AF_XDP */
	wl_u64 rx_ring_full; /* AF_XDP */
	wl_u32 kind;
	wl_u32 known;
	wl_u32 fd;
	wl_u32 busy_poll_us;
	wl_u32 napi_id;
	wl_u32 ifindex;
	wl_u32 queue; /* AF_XDP */
	wl_u32 budget; /* epoll */
	wl_u8 prefer_busy_poll;
	wl_u8 qdisc_bypass;
	wl_u8 zero_copy;
	wl_u8 pad[5];
};
WL_STATIC_ASSERT(sizeof(struct wl_window_line) == 80, "wl_window_line");

/* Counts of one socket, by inode: they outlive it. */
struct wl_window_socket {
	wl_u64 ready; /* sk_data_ready: one per datagram; batches for AF_XDP and rings */
	wl_u64 reads;
	wl_u64 rx_bytes;
	wl_u64 writes;
	wl_u64 tx_bytes;
	wl_u64 tx_packets; /* at the transmit tap */
	/* TCP: segments in and out so far, at its last call or, later, at its end: what is closed has no line any more */
	wl_u64 segs_in;
	wl_u64 segs_out;
	wl_u32 kind;
	wl_u32 found; /* the iterator saw it at the start */
	wl_u32 loopback; /* its own address is one of loopback */
	wl_u32 pad;
};
WL_STATIC_ASSERT(sizeof(struct wl_window_socket) == 80, "wl_window_socket");

/* An interface of the target's network namespace, by index; made by the first packet. */
struct wl_window_device {
	wl_u64 receive; /* netif_receive_skb: before generic XDP and before the tap */
	wl_u64 generic_redirect; /* of these, taken away by a generic XDP program */
	wl_u64 tap_tx; /* packets at the transmit tap */
	wl_u64 tap_tx_segments; /* the same, as a device that splits them counts */
	wl_u64 exceptions; /* xdp_exception */
	wl_u64 generic_program; /* 1: a generic XDP program was seen on the device */
	char name[16];
};
WL_STATIC_ASSERT(sizeof(struct wl_window_device) == 64, "wl_window_device");

struct wl_window_redirect_key {
	wl_u32 ifindex;
	wl_u32 map_id;
	wl_u32 map_type;
	wl_u32 index;
};
WL_STATIC_ASSERT(sizeof(struct wl_window_redirect_key) == 16, "wl_window_redirect_key");

struct wl_window_redirect {
	wl_u64 redirected;
	wl_u64 failed;
};

#endif
