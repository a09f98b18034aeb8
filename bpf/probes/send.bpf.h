/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sock:sock_send_length: the end of a send, and why TCP keeps what was sent. */

/* Why TCP has not handed on what was sent: the socket's fields as of the end of the send. */
static __always_inline void wl_hold_reason(struct wl_cpu *c, struct wl_open *open, struct sock *sk,
					   struct tcp_sock *tp, int flags, u64 now)
{
	struct wl_tcp_send_state *state = &c->send;

	state->snd_una = tp->snd_una;
	state->snd_nxt = tp->snd_nxt;
	state->write_seq = tp->write_seq;
	state->snd_sml = tp->snd_sml;
	state->snd_wnd = tp->snd_wnd;
	state->snd_cwnd = tp->snd_cwnd;
	state->packets_out = tp->packets_out;
	state->sacked_out = tp->sacked_out;
	state->lost_out = tp->lost_out;
	state->retrans_out = tp->retrans_out;
	state->mss = tp->mss_cache;
	state->nonagle = BPF_CORE_READ_BITFIELD_PROBED(tp, nonagle);
	state->more = !!(flags & WL_MSG_MORE);
	state->throttled = sk->sk_tsq_flags & 1; /* TSQ_THROTTLED */
	state->paced = sk->sk_pacing_status == WL_SK_PACING_NEEDED && tp->tcp_wstamp_ns > now;
	open->request.tx_hold = wl_tcp_hold(state);
}

/* The end of a send: a reply that has not left by now is TCP's to keep, not the application's to make. */
static __always_inline void wl_sent(struct wl_cpu *c, struct sock *sk, int ret, int flags)
{
	u16 family = sk->__sk_common.skc_family;
	struct wl_thread_entry *e;
	struct wl_tcp_socket *s;
	struct tcp_sock *tp;
	struct wl_open *open;
	bool in_reader;
	u64 now;

	if (ret <= 0 || sk->sk_protocol != WL_IPPROTO_TCP ||
	    (family != WL_AF_INET && family != WL_AF_INET6) ||
	    !wl_port_filter[sk->__sk_common.skc_num])
		return;
	s = bpf_sk_storage_get(&wl_tcp_sockets, sk, NULL, 0);
	if (!s)
		return;
	open = &s->open;
	if (open->active != WL_OPEN_YES ||
	    (open->devq_ns && !(open->held && open->request.tx_hold == WL_HOLD_CORK)))
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || tp->write_seq == open->write_seq)
		return;
	e = wl_slot_at(open->slot);
	if (!e)
		return;
	c->for_target = 1;
	now = bpf_ktime_get_ns();
	in_reader = e->thread.tid == (u32)bpf_get_current_pid_tgid();
	open->devq_ns = now;
	open->held = 1;
	wl_at_send(c, open, e, now, in_reader);
	wl_hold_reason(c, open, sk, tp, flags, now);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(wl_sock_send_length, struct sock *sk, int ret, int flags)
{
	return WL_RUN(wl_sent(c, sk, ret, flags));
}
