/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_TCP_QUEUE_H
#define WHYLATE_TCP_QUEUE_H
/*
 * Unread segments of one TCP socket. Appended at tcp_probe under the socket's lock (one writer), popped by the reader with the
 * stream position of the read, so coalescing, partial reads and retransmissions cannot shift anything.
 */
#include "arrival.h"

#define WL_TCP_QUEUE_LEN 64

struct wl_segment {
	wl_u32 seq;
	wl_u32 end_seq;
	wl_u64 probe_ns; /* tcp_probe */
	wl_u64 queued_ns; /* sk_data_ready; 0 until then */
	struct wl_arrival arrival;
};

struct wl_tcp_queue {
	wl_u32 head;
	wl_u32 tail;
	struct wl_segment entries[WL_TCP_QUEUE_LEN];
};

/* The slot of a new segment. When full the oldest is overwritten: only "first byte" figures suffer; *overflow is set. */
static inline struct wl_segment *wl_tcp_queue_push(struct wl_tcp_queue *q, int *overflow)
{
	wl_u32 h = q->head;

	*overflow = h - q->tail >= WL_TCP_QUEUE_LEN;
	if (*overflow)
		q->tail = h - WL_TCP_QUEUE_LEN + 1;
	q->head = h + 1;
	return &q->entries[h & (WL_TCP_QUEUE_LEN - 1)];
}

/* Stamps segment `i` if the bytes up to `rcv_nxt` hold it and it has no stamp. One behind a hole waits for what fills that. */
WL_SHARED int wl_tcp_queue_ready_one(struct wl_tcp_queue *q, wl_u32 i, wl_u32 rcv_nxt, wl_u64 now)
{
	struct wl_segment *e;

	if (!q)
		return 0;
	e = &q->entries[i & (WL_TCP_QUEUE_LEN - 1)];
	if (!e->queued_ns && (wl_s32)(e->end_seq - rcv_nxt) <= 0)
		e->queued_ns = now;
	return 0;
}

/*
 * Stamps the segments that just became readable: tcp_sock.rcv_nxt has passed them. They need not be the newest, nor lie side by side:
 * a segment that fills a hole makes those behind it readable up to the next one (tcp_ofo_queue(), net/ipv4/tcp_input.c).
 */
WL_SHARED int wl_tcp_queue_ready(struct wl_tcp_queue *q, wl_u32 rcv_nxt, wl_u64 now)
{
	wl_u32 i;

	if (!q)
		return 0;
	i = q->head;
	for (int n = 0; n < WL_TCP_QUEUE_LEN; n++) {
		if (i == q->tail)
			break;
		i--;
		wl_tcp_queue_ready_one(q, i, rcv_nxt, now);
	}
	return 0;
}

struct wl_tcp_read {
	wl_s32 last; /* slot of the segment that made the read bytes whole, -1 unknown */
	wl_s32 first; /* slot of the segment with the first byte read, -1 unknown */
};

/* Did segment `i` bring the byte at `position`? A function of its own, like all that is done in a loop here: BPF verifies loops turn by turn. */
WL_SHARED int wl_tcp_queue_has(const struct wl_tcp_queue *q, wl_u32 i, wl_u32 position)
{
	const struct wl_segment *e;

	if (!q)
		return 0;
	e = &q->entries[i & (WL_TCP_QUEUE_LEN - 1)];
	return (wl_s32)(e->seq - position) <= 0 && (wl_s32)(e->end_seq - position) > 0;
}

/* Slot of the oldest unread segment that brought the byte at `position`, -1 none. A later one is a retransmission. */
WL_SHARED wl_s32 wl_tcp_queue_find(const struct wl_tcp_queue *q, wl_u32 position)
{
	wl_u32 i;

	if (!q)
		return -1;
	i = q->tail;
	for (int n = 0; n < WL_TCP_QUEUE_LEN; n++, i++) {
		if (i == q->head)
			break;
		if (wl_tcp_queue_has(q, i, position))
			return (wl_s32)(i & (WL_TCP_QUEUE_LEN - 1));
	}
	return -1;
}

/* Drops the oldest segment if it lies wholly before `end`. Returns 1 if so. */
WL_SHARED int wl_tcp_queue_drop_one(struct wl_tcp_queue *q, wl_u32 end)
{
	if (!q || q->tail == q->head ||
	    (wl_s32)(q->entries[q->tail & (WL_TCP_QUEUE_LEN - 1)].end_seq - end) > 0)
		return 0;
	q->tail++;
	return 1;
}

/* Drops the segments that lie wholly before `end`. One that is read in part stays and is the first of the next read. */
WL_SHARED int wl_tcp_queue_drop(struct wl_tcp_queue *q, wl_u32 end)
{
	if (!q)
		return 0;
	for (int n = 0; n < WL_TCP_QUEUE_LEN; n++) {
		if (!wl_tcp_queue_drop_one(q, end))
			break;
	}
	return 0;
}

/* Is segment `i` the first to have brought one of the bytes [start, end)? */
WL_SHARED int wl_tcp_queue_completes(const struct wl_tcp_queue *q, wl_u32 i, wl_u32 start, wl_u32 end)
{
	const struct wl_segment *e;
	wl_s32 slot = (wl_s32)(i & (WL_TCP_QUEUE_LEN - 1));
	wl_u32 from, to;

	if (!q)
		return 0;
	e = &q->entries[slot];
	if ((wl_s32)(e->seq - end) >= 0 || (wl_s32)(e->end_seq - start) <= 0)
		return 0;
	from = (wl_s32)(e->seq - start) > 0 ? e->seq : start;
	to = (wl_s32)(e->end_seq - end) < 0 ? e->end_seq : end;
	/* a second copy of what was there already has completed nothing, unless it brought more behind it */
	return wl_tcp_queue_find(q, from) == slot || wl_tcp_queue_find(q, to - 1) == slot;
}

/*
 * Slot of the segment that made the bytes [start, end) whole, -1 unknown: of the segments that brought one of them the one that came
 * last. That need not be the one with the last byte: a retransmission fills a hole before it.
 */
WL_SHARED wl_s32 wl_tcp_queue_completed_by(const struct wl_tcp_queue *q, wl_u32 start, wl_u32 end)
{
	wl_u32 i;

	if (!q)
		return -1;
	i = q->head;
	for (int n = 0; n < WL_TCP_QUEUE_LEN; n++) {
		if (i == q->tail)
			break;
		i--;
		if (wl_tcp_queue_completes(q, i, start, end))
			return (wl_s32)(i & (WL_TCP_QUEUE_LEN - 1));
	}
	return -1;
}

/* A read that ended at stream position `end` and returned `len` bytes (not 0). */
static inline void wl_tcp_queue_read(struct wl_tcp_queue *q, wl_u32 end, wl_u32 len,
				     struct wl_tcp_read *out)
{
	out->first = wl_tcp_queue_find(q, end - len);
	out->last = wl_tcp_queue_find(q, end - 1);
	if (out->last >= 0)
		out->last = wl_tcp_queue_completed_by(q, end - len, end);
	wl_tcp_queue_drop(q, end);
}

#endif
