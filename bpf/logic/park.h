/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_PARK_H
#define WHYLATE_PARK_H
/*
 * A request is copied to a place of its own (parked) so that its thread can go on, while another CPU may hand its reply to the
 * driver. Each side writes first and looks second, so at least one sees the other; a compare-and-swap decides who ends the request:
 *
 *   the thread                                   the driver's side
 *   wl_park_begin: from now on it is MOVING      looks among the parked
 *   copies                                       the request is MOVING: wl_park_note: its reply has left,
 *   wl_*_park_show: can be found; then           and then looks among the parked again
 *   looks for that note
 */
#include "../record.h"

enum wl_open_state {
	WL_OPEN_NO = 0,
	WL_OPEN_YES = 1,
	WL_OPEN_ENDED = 2, /* the reply is out, the late sk_data_ready of its datagram is awaited */
	WL_OPEN_MOVING = 3, /* on its way to wl_parked_requests */
};

/* A socket's hold on a parked request. */
struct wl_parked_ref {
	wl_u64 skb; /* as wl_open.tx_skb */
	wl_u32 slot; /* in wl_parked_requests */
	wl_u32 state; /* enum wl_open_state */
};

/* Between two steps, for tests that let the other side go on there. */
#ifndef WL_PARK_STEP
#define WL_PARK_STEP()
#endif

/* Returns the state that the request was in; WL_OPEN_NO: somebody has ended it since the caller looked. */
static inline wl_u32 wl_park_begin(wl_u32 *active)
{
	wl_u32 state = *(volatile wl_u32 *)active;

	if (!state || __sync_val_compare_and_swap(active, state, (wl_u32)WL_OPEN_MOVING) != state)
		return WL_OPEN_NO;
	return state;
}

/* Takes a parked request whose reply has left: true for one caller. */
static inline int wl_udp_park_take(struct wl_parked_ref *ref)
{
	return __sync_val_compare_and_swap(&ref->state, (wl_u32)WL_OPEN_YES, (wl_u32)WL_OPEN_NO) ==
	       WL_OPEN_YES;
}

/*
 * The copy is done, the rest of *ref filled in: lets the driver's side find it. Returns whether the reply has left before that could
 * be, and so is the caller's to end. `waiting`: entries that can be found.
 */
static inline int wl_udp_park_show(struct wl_parked_ref *ref, wl_u32 state, wl_u32 *waiting,
				   const wl_u64 *left)
{
	if (state == WL_OPEN_YES)
		__sync_fetch_and_add(waiting, 1);
	WL_PARK_STEP();
	__sync_lock_test_and_set(&ref->state, state);
	WL_PARK_STEP();
	if (!*(const volatile wl_u64 *)left || !wl_udp_park_take(ref))
		return 0;
	__sync_fetch_and_sub(waiting, 1);
	return 1;
}

/* The same for a connection, whose replies leave in order: its parked requests are those from *tail up to *head. */
static inline int wl_tcp_park_take(wl_u32 *tail, wl_u32 at)
{
	return __sync_val_compare_and_swap(tail, at, at + 1) == at;
}

static inline int wl_tcp_park_show(wl_u32 *head, wl_u32 *tail, const wl_u64 *left, wl_u64 sk)
{
	wl_u32 at = __sync_fetch_and_add(head, 1);

	WL_PARK_STEP();
	return *(const volatile wl_u64 *)left == sk && wl_tcp_park_take(tail, at);
}

/* The driver's side: the reply of a request that is MOVING leaves. */
static inline void wl_park_note(wl_u64 *left, wl_u64 what)
{
	__sync_lock_test_and_set(left, what);
}

#endif
