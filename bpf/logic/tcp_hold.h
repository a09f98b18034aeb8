/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_TCP_HOLD_H
#define WHYLATE_TCP_HOLD_H
/* Why TCP keeps a reply that the application has handed over. */
#include "../record.h"

/* The socket at the end of the send; the names are those of struct tcp_sock. */
struct wl_tcp_send_state {
	wl_u32 snd_una;
	wl_u32 snd_nxt; /* first byte not handed to IP yet */
	wl_u32 write_seq;
	wl_u32 snd_sml; /* end of the last small segment sent */
	wl_u32 snd_wnd;
	wl_u32 snd_cwnd;
	wl_u32 packets_out;
	wl_u32 sacked_out;
	wl_u32 lost_out;
	wl_u32 retrans_out;
	wl_u32 mss;
	wl_u8 nonagle; /* 0: Nagle's rule holds; 1 TCP_NODELAY, 2 TCP_CORK */
	wl_u8 more; /* sent with MSG_MORE */
	wl_u8 throttled; /* TSQ_THROTTLED is set */
	wl_u8 paced; /* TCP paces by itself and the next departure lies ahead */
};

static inline int wl_seq_after(wl_u32 a, wl_u32 b)
{
	return (wl_s32)(a - b) > 0;
}

/*
 * The first test of tcp_write_xmit() (net/ipv4/tcp_output.c) that the next segment fails, in its order. WL_HOLD_NONE: nothing is held
 * back; WL_HOLD_TCP: something is, but none of the tests says why (a deferred TSO segment, for one).
 */
static inline wl_u8 wl_tcp_hold(const struct wl_tcp_send_state *s)
{
	wl_u32 unsent = s->write_seq - s->snd_nxt;
	wl_u32 left_out = s->sacked_out + s->lost_out;
	wl_u32 segment, in_flight;

	if (!wl_seq_after(s->write_seq, s->snd_nxt))
		return WL_HOLD_NONE;
	segment = unsent < s->mss ? unsent : s->mss;
	in_flight = s->packets_out + s->retrans_out > left_out
			    ? s->packets_out + s->retrans_out - left_out
			    : 0;
	if (s->paced)
		return WL_HOLD_PACING;
	if (in_flight >= s->snd_cwnd)
		return WL_HOLD_CWND;
	if (wl_seq_after(s->snd_nxt + segment, s->snd_una + s->snd_wnd))
		return s->snd_wnd ? WL_HOLD_RWND : WL_HOLD_ZERO_WINDOW;
	if (unsent < s->mss) {
		if ((s->nonagle & 2) || s->more)
			return WL_HOLD_CORK;
		if (!s->nonagle && s->packets_out && wl_seq_after(s->snd_sml, s->snd_una) &&
		    !wl_seq_after(s->snd_sml, s->snd_nxt))
			return WL_HOLD_NAGLE;
	}
	if (s->throttled)
		return WL_HOLD_TSQ;
	return WL_HOLD_TCP;
}

#endif
