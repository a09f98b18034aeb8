/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Iterators run at attach: the threads and sockets that are there already. No fd is borrowed, no ptrace right is needed
 * (CAP_BPF and CAP_PERFMON are enough), and the sockets may be in any network namespace.
 */

#define WL_COMM_NAPI 0x6970616e /* "napi", little endian */

/* A kernel thread that polls a device ("napi/eth0-8193"): its waits for a CPU are a stage of the packets it delivers. */
static __always_inline void wl_adopt_napi(struct wl_cpu *c, struct task_struct *task)
{
	struct wl_thread_entry *e;
	u32 slot;

	wl_thread_create(c, task);
	wl_tgid_filter[task->tgid & 4095] = 1;
	e = wl_thread_of(c, task, &slot);
	if (!e || e->thread.napi)
		return;
	wl_arrival_unknown(&e->open.arrival);
	e->thread.napi = 1;
	__sync_fetch_and_add(&wl_napi_threads, 1);
}

SEC("iter/task")
int wl_adopt_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task)
		return 0;
	if (!wl_adopt_pass) {
		/* the ids of the initial pid namespace, which is what every other hook sees */
		u32 tgid = task->tgid;

		bpf_seq_write(ctx->meta->seq, &tgid, sizeof(tgid));
		return 0;
	}
	if ((task->flags & WL_PF_KTHREAD) && *(u32 *)task->comm == WL_COMM_NAPI &&
	    task->comm[4] == '/')
		return WL_RUN(wl_adopt_napi(c, task));
	if (!wl_is_target(task->tgid))
		return 0;
	return WL_RUN(wl_thread_create(c, task));
}

static __always_inline void wl_adopt(struct wl_cpu *c, struct sock *sk)
{
	u32 proto = sk->sk_protocol, port = sk->__sk_common.skc_num;
	u8 state = sk->__sk_common.skc_state;

	if (!port || !wl_socket_wanted(sk, proto))
		return;
	if (wl_adopt_pass == 1) {
		if (proto == WL_IPPROTO_TCP && state == WL_TCP_LISTEN)
			wl_listen_ports[port] = 1;
		return;
	}
	if (proto == WL_IPPROTO_UDP) {
		struct wl_udp_socket *s;

		if (wl_udp_is_client(sk))
			return;
		s = wl_udp_of(sk);
		if (s) {
			s->seen = wl_adopt_epoch;
			return;
		}
		s = wl_udp_create(c, sk);
		if (!s)
			return;
	} else {
		/* an outgoing connection reads answers, not requests; told by the local port unless the user named it */
		if (state != WL_TCP_LISTEN && !wl_listen_ports[port] && !wl_cfg_port)
			return;
		if (!bpf_sk_storage_get(&wl_tcp_marks, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE)) {
			wl_lose(c, WL_LOST_SOCKET_STORAGE);
			return;
		}
	}
	wl_port_filter[port] = 1;
}

SEC("iter/task_file")
int wl_adopt_sockets(struct bpf_iter__task_file *ctx)
{
	struct wl_socket_line line = {};
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;

	if (!task || !file)
		return 0;
	if (wl_adopt_pass && !wl_is_target(task->tgid))
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk)
		return 0;
	line.family = sk->__sk_common.skc_family;
	line.proto = (u8)sk->sk_protocol;
	if ((line.family != WL_AF_INET && line.family != WL_AF_INET6) ||
	    (line.proto != WL_IPPROTO_TCP && line.proto != WL_IPPROTO_UDP))
		return 0;
	if (wl_adopt_pass)
		WL_RUN(wl_adopt(c, sk));
	if (wl_adopt_pass == 1)
		return 0;
	line.inode = file->f_inode->i_ino;
	line.cookie = (u64)sk;
	line.tgid = task->tgid;
	line.fd = ctx->fd;
	line.netns = sk->__sk_common.skc_net.net->ns.inum;
	line.lport = sk->__sk_common.skc_num;
	line.rport = bpf_ntohs(sk->__sk_common.skc_dport);
	line.state = line.proto == WL_IPPROTO_TCP ? sk->__sk_common.skc_state : 0;
	if (line.family == WL_AF_INET) {
		*(u32 *)line.laddr = sk->__sk_common.skc_rcv_saddr;
		*(u32 *)line.raddr = sk->__sk_common.skc_daddr;
	} else {
		bpf_probe_read_kernel(line.laddr, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(line.raddr, 16, &sk->__sk_common.skc_v6_daddr);
	}
	bpf_probe_read_kernel(line.comm, sizeof(line.comm), task->group_leader->comm);
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}
