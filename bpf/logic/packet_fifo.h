/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_PACKET_FIFO_H
#define WHYLATE_PACKET_FIFO_H
/*
 * Packets between netif_receive_skb and the socket, one FIFO per CPU and protocol.
 *
 * A scalar "current packet" would be wrong: __netif_receive_skb_list_core passes the tracepoint for a whole GRO list before the
 * first packet is delivered (net/core/dev.c). Entries are matched by destination port and network namespace, oldest first.
 * A dropped packet must be removed (kfree_skb) or it shifts every later match of its CPU. UDP entries do not outlive a softirq for such
 * a match: they are cleared when the next NET_RX begins. A datagram found in a socket's queue is looked up by its buffer
 * (skb->head, which clones share), also when another CPU has received it. TCP entries stay, since a segment in a socket's backlog is handled much later;
 * the ring overwrites the oldest.
 */
#include "arrival.h"

#define WL_UDP_FIFO_LEN 64
#define WL_TCP_FIFO_LEN 256
#define WL_TCP_FIFO_WALK 64 /* newest entries looked at for a segment */
#define WL_FANOUT_UNKNOWN 0xfff0

struct wl_packet {
	wl_u64 skb; /* address, only compared; 0: entry is used up */
	wl_u64 buffer; /* skb->head, only compared */
	wl_u64 net; /* network namespace, only compared */
	wl_u32 seq; /* TCP: stream position of the payload, and its end */
	wl_u32 end_seq;
	wl_u16 sport;
	wl_u16 dport;
	wl_u16 signals; /* multicast: sockets that have had it */
	wl_u16 batch; /* which of the packets that passed the hook before one of them was delivered */
	wl_u64 first_signal_ns; /* multicast */
	wl_u8 saddr[16];
	struct wl_arrival arrival;
};

#define WL_PLACES 4096

/* Where a buffer's packet is looked up: CPU + 1 and slot, or 0. A place holds the newest packet; whoever looks compares the buffer. */
static inline wl_u32 wl_place_of(wl_u64 buffer)
{
	return (wl_u32)((wl_u32)(buffer >> 6) * 0x9e3779b1u) >> 20;
}

static inline wl_u32 wl_place_make(wl_u32 cpu, wl_u32 slot)
{
	return (cpu + 1) << 8 | (slot & 255);
}

static inline wl_u32 wl_place_cpu(wl_u32 place)
{
	return (place >> 8) - 1;
}

static inline wl_u32 wl_place_slot(wl_u32 place)
{
	return place & 255;
}

struct wl_udp_fifo {
	wl_u32 head; /* entries ever pushed */
	wl_u32 tail; /* everything below is used up */
	wl_u16 batch;
	wl_u16 delivered; /* a packet was delivered since the last one came */
	wl_u32 pad;
	struct wl_packet entries[WL_UDP_FIFO_LEN];
};

struct wl_tcp_fifo {
	wl_u32 head;
	wl_u32 pad;
	struct wl_packet entries[WL_TCP_FIFO_LEN];
};

/* Which socket looks for its datagram. */
struct wl_udp_key {
	wl_u64 net;
	wl_u16 local_port;
	wl_u16 peer_port; /* of a connected socket, else 0 */
	wl_u32 multicast_after; /* FIFO index below which this socket has had its multicast copies */
};

/* The slot for the next packet; the caller fills it (skb is set here). Overwrites the oldest when full. */
static inline struct wl_packet *wl_udp_fifo_push(struct wl_udp_fifo *f, wl_u64 skb, wl_u64 buffer)
{
	struct wl_packet *p = &f->entries[f->head++ & (WL_UDP_FIFO_LEN - 1)];

	if (f->head - f->tail > WL_UDP_FIFO_LEN)
		f->tail = f->head - WL_UDP_FIFO_LEN;
	if (f->delivered) {
		f->delivered = 0;
		f->batch++;
	}
	p->skb = skb;
	p->buffer = buffer;
	p->signals = 0;
	p->batch = f->batch;
	return p;
}

/* Is packet `i` one for this socket? A function of its own, like all that is done in a loop here: BPF verifies loops turn by turn. */
WL_SHARED int wl_udp_fifo_fits(const struct wl_udp_fifo *f, const struct wl_udp_key *key, wl_u32 i)
{
	const struct wl_packet *p;

	if (!f || !key)
		return 0;
	p = &f->entries[i & (WL_UDP_FIFO_LEN - 1)];
	if (!p->skb || p->dport != key->local_port || p->net != key->net)
		return 0;
	if (key->peer_port && p->sport != key->peer_port)
		return 0;
	return !(p->arrival.flags & WL_ARR_MULTICAST) || (wl_s32)(i - key->multicast_after) >= 0;
}

/*
 * The oldest packet for a socket: same namespace and destination port, for a connected socket also the same source port.
 * A multicast packet is delivered to several sockets, so it stays. Returns the index (for wl_udp_fifo_at) or -1.
 */
WL_SHARED wl_s64 wl_udp_fifo_find(const struct wl_udp_fifo *f, const struct wl_udp_key *key)
{
	wl_u32 i;

	if (!f || !key)
		return -1;
	i = f->tail;
	for (int n = 0; n < WL_UDP_FIFO_LEN; n++, i++) {
		if (i == f->head)
			break;
		if (wl_udp_fifo_fits(f, key, i))
			return i;
	}
	return -1;
}

static inline struct wl_packet *wl_udp_fifo_at(struct wl_udp_fifo *f, wl_u32 index)
{
	return &f->entries[index & (WL_UDP_FIFO_LEN - 1)];
}

/* Moves the tail over an entry that is used up. Returns 0 if it is not. */
WL_SHARED int wl_udp_fifo_skip(struct wl_udp_fifo *f)
{
	if (!f || f->tail == f->head || f->entries[f->tail & (WL_UDP_FIFO_LEN - 1)].skb)
		return 0;
	f->tail++;
	return 1;
}

/* A unicast packet has found its socket: the entry is used up, and the tail moves over used-up ones. */
WL_SHARED int wl_udp_fifo_take(struct wl_udp_fifo *f, struct wl_packet *p)
{
	if (!f || !p)
		return 0;
	p->skb = 0;
	for (int i = 0; i < WL_UDP_FIFO_LEN; i++) {
		if (!wl_udp_fifo_skip(f))
			break;
	}
	return 0;
}

/* Removes a dropped packet, newest first. Returns 1 if it was there. */
WL_SHARED int wl_udp_fifo_drop(struct wl_udp_fifo *f, const wl_u64 *skb)
{
	wl_u32 i;

	if (!f || !skb)
		return 0;
	i = f->head;

	for (int n = 0; n < WL_UDP_FIFO_LEN; n++) {
		struct wl_packet *p;

		if (i == f->tail)
			break;
		i--;
		p = &f->entries[i & (WL_UDP_FIFO_LEN - 1)];
		if (p->skb == *skb) {
			p->skb = 0;
			return 1;
		}
	}
	return 0;
}

/* Ends the search by port for all there is; returns how many unicast packets no socket has taken. Their buffers can still be found. */
WL_SHARED wl_u32 wl_udp_fifo_clear(struct wl_udp_fifo *f)
{
	wl_u32 left = 0, i;

	if (!f)
		return 0;
	i = f->tail;
	for (int n = 0; n < WL_UDP_FIFO_LEN; n++, i++) {
		const struct wl_packet *p = &f->entries[i & (WL_UDP_FIFO_LEN - 1)];

		if (i == f->head)
			break;
		if (p->skb && !(p->arrival.flags & WL_ARR_MULTICAST))
			left++;
	}
	f->tail = f->head;
	return left;
}

/* How many packets have come since the one in this slot. */
static inline wl_u32 wl_udp_fifo_age(const struct wl_udp_fifo *f, wl_u32 slot)
{
	return (f->head - 1 - slot) & (WL_UDP_FIFO_LEN - 1);
}

/* Has this packet been given up by the search by port? */
static inline int wl_udp_fifo_cleared(const struct wl_udp_fifo *f, wl_u32 slot)
{
	return wl_udp_fifo_age(f, slot) >= f->head - f->tail;
}

/* A socket's multicast packets: which of a CPU's it has had. */
struct wl_multicast {
	wl_u32 cpu_plus_one; /* 0: none of any CPU */
	wl_u32 next; /* FIFO index of that CPU from which packets are new to the socket */
};

/* CPUs that are told apart by their lowest bits; of two that share them the later one counts. */
#define WL_MULTICAST_CPUS 8

/* The index below which the socket has had its copies. */
static inline wl_u32 wl_multicast_after(const struct wl_multicast *m, const struct wl_udp_fifo *f,
					wl_u32 cpu)
{
	m += cpu & (WL_MULTICAST_CPUS - 1);
	return m->cpu_plus_one == cpu + 1 ? m->next : f->tail;
}

/* The socket gets its copy of the packet in this slot of the CPU. */
static inline void wl_multicast_take(struct wl_multicast *m, const struct wl_udp_fifo *f,
				     wl_u32 cpu, wl_u32 slot)
{
	m += cpu & (WL_MULTICAST_CPUS - 1);
	m->cpu_plus_one = cpu + 1;
	m->next = f->head - wl_udp_fifo_age(f, slot);
}

/* Has the socket had its copy of the packet in this slot of the CPU? What it finds in that packet's buffer is then another packet. */
static inline int wl_multicast_had(const struct wl_multicast *m, const struct wl_udp_fifo *f,
				   wl_u32 cpu, wl_u32 slot)
{
	m += cpu & (WL_MULTICAST_CPUS - 1);
	return m->cpu_plus_one == cpu + 1 &&
	       (wl_s32)(f->head - wl_udp_fifo_age(f, slot) - m->next) <= 0;
}

/* How a multicast packet spread when a socket gets its copy. */
struct wl_fanout {
	wl_u16 rank; /* from 1; 0: not known */
	wl_u16 pad;
	wl_u32 ns; /* since the first socket had it */
};

/* No packet; indexes of packets are below. */
#define WL_NO_PACKET (1ull << 32)

/*
 * One step of wl_udp_fifo_foreign: packet `i`, after packet `newest` was found. Returns what is the newest found from here on, or -1 when
 * the batch of that one ends here.
 */
WL_SHARED wl_s64 wl_udp_fifo_foreign_step(struct wl_udp_fifo *f, const struct wl_udp_key *key,
					  wl_u32 i, wl_u64 newest, wl_u64 now)
{
	struct wl_packet *p, *before;

	if (!f || !key)
		return -1;
	p = &f->entries[i & (WL_UDP_FIFO_LEN - 1)];
	if (!p->skb || !(p->arrival.flags & WL_ARR_MULTICAST) || p->dport != key->local_port ||
	    p->net != key->net)
		return (wl_s64)newest;
	if (newest < WL_NO_PACKET) {
		before = &f->entries[newest & (WL_UDP_FIFO_LEN - 1)];
		if (before->batch != p->batch)
			return -1;
		before->signals = WL_FANOUT_UNKNOWN;
		p->signals = WL_FANOUT_UNKNOWN;
	} else if (p->signals < WL_FANOUT_UNKNOWN) {
		if (!p->signals++)
			p->first_signal_ns = now;
	}
	return i;
}

/*
 * A socket outside the target on the same port has got a multicast packet. Which one is known only if a single one of them was on
 * the way: of a whole batch the ranks are then not known.
 */
WL_SHARED int wl_udp_fifo_foreign(struct wl_udp_fifo *f, const struct wl_udp_key *key, wl_u64 now)
{
	wl_s64 newest = WL_NO_PACKET;
	wl_u32 i;

	if (!f || !key)
		return 0;
	f->delivered = 1;
	i = f->head;
	for (int n = 0; n < WL_UDP_FIFO_LEN; n++) {
		if (i == f->tail)
			break;
		i--;
		newest = wl_udp_fifo_foreign_step(f, key, i, (wl_u64)newest, now);
		if (newest < 0)
			break;
	}
	return 0;
}

/* A socket of the target gets its copy of a multicast packet. */
static inline void wl_udp_fifo_fan_out(struct wl_packet *p, wl_u64 now, struct wl_fanout *out)
{
	out->rank = 0;
	out->ns = 0;
	if (p->signals >= WL_FANOUT_UNKNOWN)
		return;
	if (!p->signals++)
		p->first_signal_ns = now;
	out->rank = p->signals;
	out->ns = now > p->first_signal_ns ? (wl_u32)(now - p->first_signal_ns) : 0;
}

static inline struct wl_packet *wl_tcp_fifo_push(struct wl_tcp_fifo *f)
{
	return &f->entries[f->head++ & (WL_TCP_FIFO_LEN - 1)];
}

/* Which segment is looked for. */
struct wl_tcp_key {
	wl_u64 net;
	wl_u32 seq;
	wl_u16 local_port;
	wl_u16 peer_port;
};

/* Does the payload of packet `i` begin at key->seq? */
WL_SHARED int wl_tcp_fifo_fits(const struct wl_tcp_fifo *f, const struct wl_tcp_key *key, wl_u32 i)
{
	const struct wl_packet *p;

	if (!f || !key)
		return 0;
	p = &f->entries[i & (WL_TCP_FIFO_LEN - 1)];
	return p->seq == key->seq && p->dport == key->local_port && p->sport == key->peer_port &&
	       p->net == key->net && p->end_seq != p->seq;
}

/*
 * The packet whose payload begins at key->seq, newest first. In the backlog the kernel may merge neighbours into one skb
 * (tcp_add_backlog, net/ipv4/tcp_ipv4.c): the caller then looks for the parts one after the other. Returns the index or -1.
 */
WL_SHARED wl_s64 wl_tcp_fifo_find(const struct wl_tcp_fifo *f, const struct wl_tcp_key *key)
{
	wl_u32 i;

	if (!f || !key)
		return -1;
	i = f->head;
	for (int n = 0; n < WL_TCP_FIFO_WALK; n++) {
		if (!i)
			break;
		i--;
		if (wl_tcp_fifo_fits(f, key, i))
			return i;
	}
	return -1;
}

static inline struct wl_packet *wl_tcp_fifo_at(struct wl_tcp_fifo *f, wl_u32 index)
{
	return &f->entries[index & (WL_TCP_FIFO_LEN - 1)];
}

#endif
