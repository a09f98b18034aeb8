// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The traffic window of `whylate stack`: counts, for a few seconds, what passes at the places where a packet can leave the
 * kernel's path. An object of its own: nothing of it is loaded while requests are traced.
 *
 * Where the places are (net/core/dev.c): netif_receive_skb fires at the top of __netif_receive_skb_core, before generic XDP,
 * which comes before the taps. net_dev_start_xmit fires in xmit_one, right after dev_queue_xmit_nit has fed the transmit taps;
 * __dev_direct_xmit (PACKET_QDISC_BYPASS, AF_XDP in copy mode) calls the driver without either.
 */
#include <vmlinux.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "stack_window.h"

#define WLW_AF_INET 2
#define WLW_AF_INET6 10
#define WLW_AF_PACKET 17
#define WLW_AF_XDP 44
#define WLW_IPPROTO_TCP 6
#define WLW_IPPROTO_UDP 17
#define WLW_IPPROTO_ICMP 1
#define WLW_IPPROTO_ICMPV6 58
#define WLW_SOCK_RAW 3
#define WLW_MSG_PEEK 0x2
#define WLW_MSG_ERRQUEUE 0x2000
#define WLW_ANON_INODE_MAGIC 0x09041934

const volatile __u32 cfg_netns = 0; /* inode of the target's network namespace */
const volatile bool cfg_named_inodes = false; /* window_inodes has entries */
__u32 window_tgid; /* of the initial pid namespace; the iterator finds it */
__u32 window_adopt; /* the iterator's first pass: take the sockets on */
__u64 window_lost;

struct window_tag {
	u64 inode;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct window_tag);
} window_tags SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct wl_window_socket);
} window_sockets SEC(".maps");

/* Sockets without a descriptor that user space knows of (registered with io_uring). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u8);
} window_inodes SEC(".maps");

/* By index: of one namespace, so that the index names it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct wl_window_device);
} window_devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wl_window_redirect_key);
	__type(value, struct wl_window_redirect);
} window_redirects SEC(".maps");

static __always_inline u32 window_kind(const struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;

	if (family == WLW_AF_PACKET)
		return WL_WINDOW_PACKET;
	if (family == WLW_AF_XDP)
		return WL_WINDOW_XDP;
	if (family != WLW_AF_INET && family != WLW_AF_INET6)
		return WL_WINDOW_OTHER;
	if (sk->sk_protocol == WLW_IPPROTO_TCP)
		return WL_WINDOW_TCP;
	if (sk->sk_protocol == WLW_IPPROTO_UDP)
		return WL_WINDOW_UDP;
	/* the others (MPTCP, SCTP, DCCP) do not signal packet by packet */
	if (sk->sk_type == WLW_SOCK_RAW || sk->sk_protocol == WLW_IPPROTO_ICMP ||
	    sk->sk_protocol == WLW_IPPROTO_ICMPV6)
		return WL_WINDOW_RAW;
	return WL_WINDOW_OTHER;
}

static __always_inline u64 window_inode_of(const struct sock *sk)
{
	struct socket *socket = BPF_CORE_READ(sk, sk_socket);
	struct socket_alloc *alloc;

	if (!socket)
		return 0;
	alloc = container_of(socket, struct socket_alloc, socket);
	return BPF_CORE_READ(alloc, vfs_inode.i_ino);
}

static __always_inline bool window_on_loopback(const struct sock *sk)
{
	u32 words[4];

	if (sk->__sk_common.skc_family == WLW_AF_INET)
		return (sk->__sk_common.skc_rcv_saddr & bpf_htonl(0xff000000)) ==
		       bpf_htonl(0x7f000000);
	if (sk->__sk_common.skc_family != WLW_AF_INET6)
		return false;
	BPF_CORE_READ_INTO(&words, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32);
	if (words[0] || words[1])
		return false;
	if (words[2] == bpf_htonl(0xffff)) /* an IPv4 address in IPv6 */
		return (words[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return !words[2] && words[3] == bpf_htonl(1);
}

static __always_inline void window_note_segments(struct wl_window_socket *s, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (s->kind != WL_WINDOW_TCP)
		return;
	s->segs_in = BPF_CORE_READ(tp, segs_in);
	s->segs_out = BPF_CORE_READ(tp, segs_out);
}

static __always_inline struct wl_window_socket *window_take_on(struct sock *sk, u64 inode, u32 found)
{
	struct wl_window_socket fresh = {
		.kind = window_kind(sk),
		.found = found,
		.loopback = window_on_loopback(sk),
	};
	struct window_tag tag = { .inode = inode };
	struct wl_window_socket *s;

	if (!inode || fresh.kind == WL_WINDOW_OTHER)
		return NULL;
	bpf_map_update_elem(&window_sockets, &inode, &fresh, BPF_NOEXIST);
	if (!bpf_sk_storage_get(&window_tags, sk, &tag, BPF_SK_STORAGE_GET_F_CREATE))
		__sync_fetch_and_add(&window_lost, 1);
	s = bpf_map_lookup_elem(&window_sockets, &inode);
	if (s)
		window_note_segments(s, sk);
	return s;
}

static __always_inline struct wl_window_socket *window_socket_of(struct sock *sk)
{
	struct window_tag *tag = bpf_sk_storage_get(&window_tags, sk, NULL, 0);
	u64 inode;

	if (!tag)
		return NULL;
	inode = tag->inode;
	return bpf_map_lookup_elem(&window_sockets, &inode);
}

/* A socket in a call of the target: also one that was opened or accepted in the window. */
static __always_inline struct wl_window_socket *window_socket_used(struct sock *sk)
{
	struct wl_window_socket *s = window_socket_of(sk);

	if (s || !window_tgid || bpf_get_current_pid_tgid() >> 32 != window_tgid)
		return s;
	s = window_take_on(sk, window_inode_of(sk), 0);
	if (!s && window_kind(sk) != WL_WINDOW_OTHER)
		__sync_fetch_and_add(&window_lost, 1);
	return s;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(window_sock_recv_length, struct sock *sk, int ret, int flags)
{
	struct wl_window_socket *s;

	if (ret < 0 || flags & (WLW_MSG_PEEK | WLW_MSG_ERRQUEUE))
		return 0;
	s = window_socket_used(sk);
	if (!s)
		return 0;
	__sync_fetch_and_add(&s->reads, 1);
	__sync_fetch_and_add(&s->rx_bytes, (u64)(u32)ret);
	window_note_segments(s, sk);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(window_sock_send_length, struct sock *sk, int ret, int flags)
{
	struct wl_window_socket *s;

	if (ret < 0)
		return 0;
	s = window_socket_used(sk);
	if (!s)
		return 0;
	__sync_fetch_and_add(&s->writes, 1);
	__sync_fetch_and_add(&s->tx_bytes, (u64)(u32)ret);
	window_note_segments(s, sk);
	return 0;
}

/* The end of a connection, also of one that its process closed before: its last counts. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(window_tcp_destroy_sock, struct sock *sk)
{
	struct wl_window_socket *s = window_socket_of(sk);

	if (s)
		window_note_segments(s, sk);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(window_sk_data_ready, const struct sock *csk)
{
	struct sock *sk = (struct sock *)csk;
	struct wl_window_socket *s = window_socket_of(sk);

	if (!s && cfg_named_inodes) {
		u64 inode = window_inode_of(sk);

		if (bpf_map_lookup_elem(&window_inodes, &inode))
			s = window_take_on(sk, inode, 1);
	}
	if (s)
		__sync_fetch_and_add(&s->ready, 1);
	return 0;
}

static __always_inline struct wl_window_device *window_device_of(const struct net_device *dev)
{
	struct wl_window_device fresh = {}, *d;
	u32 index = dev->ifindex;

	if (dev->nd_net.net->ns.inum != cfg_netns)
		return NULL;
	d = bpf_map_lookup_elem(&window_devices, &index);
	if (d)
		return d;
	bpf_probe_read_kernel(fresh.name, sizeof(fresh.name), dev->name);
	bpf_map_update_elem(&window_devices, &index, &fresh, BPF_NOEXIST);
	d = bpf_map_lookup_elem(&window_devices, &index);
	if (!d)
		__sync_fetch_and_add(&window_lost, 1);
	return d;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(window_netif_receive_skb, struct sk_buff *skb)
{
	struct wl_window_device *d = window_device_of(skb->dev);

	if (!d)
		return 0;
	__sync_fetch_and_add(&d->receive, 1);
	if (skb->dev->xdp_prog)
		d->generic_program = 1;
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(window_net_dev_start_xmit, const struct sk_buff *skb, const struct net_device *dev)
{
	struct wl_window_device *d = window_device_of(dev);
	struct wl_window_socket *s;
	struct skb_shared_info *info;
	u16 segments;

	if (d) {
		info = (struct skb_shared_info *)(skb->head + skb->end);
		segments = BPF_CORE_READ(info, gso_segs);
		__sync_fetch_and_add(&d->tap_tx, 1);
		__sync_fetch_and_add(&d->tap_tx_segments, segments ? segments : 1);
	}
	if (!skb->sk)
		return 0;
	s = window_socket_of(skb->sk);
	if (s)
		__sync_fetch_and_add(&s->tx_packets, 1);
	return 0;
}

static __always_inline int window_redirect(const struct net_device *dev, const struct bpf_prog *prog,
					   bool failed, u32 type, u32 map_id, u32 index)
{
	struct wl_window_device *d = window_device_of(dev);
	struct wl_window_redirect_key key = {
		.ifindex = dev->ifindex,
		.map_id = map_id,
		.map_type = type,
		.index = index,
	};
	struct wl_window_redirect zero = {}, *r;

	if (!d)
		return 0;
	r = bpf_map_lookup_elem(&window_redirects, &key);
	if (!r) {
		bpf_map_update_elem(&window_redirects, &key, &zero, BPF_NOEXIST);
		r = bpf_map_lookup_elem(&window_redirects, &key);
		if (!r) {
			__sync_fetch_and_add(&window_lost, 1);
			return 0;
		}
	}
	__sync_fetch_and_add(failed ? &r->failed : &r->redirected, 1);
	/* also a failed redirect is the end of the packet */
	if (dev->xdp_prog && dev->xdp_prog == prog)
		__sync_fetch_and_add(&d->generic_redirect, 1);
	return 0;
}

SEC("tp_btf/xdp_redirect")
int BPF_PROG(window_xdp_redirect, const struct net_device *dev, const struct bpf_prog *xdp,
	     const void *tgt, int err, u32 map_type, u32 map_id, u32 index)
{
	return window_redirect(dev, xdp, false, map_type, map_id, index);
}

SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(window_xdp_redirect_err, const struct net_device *dev, const struct bpf_prog *xdp,
	     const void *tgt, int err, u32 map_type, u32 map_id, u32 index)
{
	return window_redirect(dev, xdp, true, map_type, map_id, index);
}

SEC("tp_btf/xdp_exception")
int BPF_PROG(window_xdp_exception, const struct net_device *dev, const struct bpf_prog *xdp, u32 act)
{
	struct wl_window_device *d = window_device_of(dev);

	if (d)
		__sync_fetch_and_add(&d->exceptions, 1);
	return 0;
}

/* ---- what the kernel knows of each socket ---- */

static __always_inline void window_read_packet(struct wl_window_line *line, struct sock *sk)
{
	struct packet_sock *po = (struct packet_sock *)sk;

	if (!bpf_core_type_exists(struct packet_sock))
		return;
	line->ifindex = BPF_CORE_READ(po, ifindex);
	line->rx_count = BPF_CORE_READ(po, stats.stats1.tp_packets);
	line->known |= WL_WINDOW_KNOWS_COUNTS | WL_WINDOW_KNOWS_DEVICE;
	if (bpf_core_enum_value_exists(enum packet_sock_flags, PACKET_SOCK_QDISC_BYPASS)) {
		u64 flags = BPF_CORE_READ(po, flags);

		line->qdisc_bypass = flags >> bpf_core_enum_value(enum packet_sock_flags,
								  PACKET_SOCK_QDISC_BYPASS) &
				     1;
		line->known |= WL_WINDOW_KNOWS_QDISC_BYPASS;
	}
}

static __always_inline void window_read_xdp(struct wl_window_line *line, struct sock *sk)
{
	struct xdp_sock *xs = (struct xdp_sock *)sk;
	struct xsk_queue *rx, *tx;
	struct net_device *dev;

	if (!bpf_core_type_exists(struct xdp_sock))
		return;
	rx = BPF_CORE_READ(xs, rx);
	tx = BPF_CORE_READ(xs, tx);
	dev = BPF_CORE_READ(xs, dev);
	if (rx)
		line->rx_count = BPF_CORE_READ(rx, ring, producer);
	if (tx)
		line->tx_count = BPF_CORE_READ(tx, ring, consumer);
	line->rx_dropped = BPF_CORE_READ(xs, rx_dropped);
	line->rx_ring_full = BPF_CORE_READ(xs, rx_queue_full);
	line->known |= WL_WINDOW_KNOWS_COUNTS;
	if (!dev) /* not bound */
		return;
	line->ifindex = BPF_CORE_READ(dev, ifindex);
	line->queue = BPF_CORE_READ(xs, queue_id);
	line->zero_copy = BPF_CORE_READ(xs, zc);
	line->known |= WL_WINDOW_KNOWS_DEVICE;
}

static __always_inline void window_read_tcp(struct wl_window_line *line, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	line->rx_count = BPF_CORE_READ(tp, segs_in);
	line->tx_count = BPF_CORE_READ(tp, segs_out);
	line->known |= WL_WINDOW_KNOWS_COUNTS;
}

static __always_inline int window_epoll(struct bpf_iter__task_file *ctx, struct file *file)
{
	struct wl_window_line line = {};
	struct eventpoll *ep = NULL;
	union {
		char text[16];
		u64 words[2];
	} name = {}, wanted = { .text = "[eventpoll]" };

	if (!bpf_core_field_exists(ep->busy_poll_usecs))
		return 0;
	/* a file can be called anything, so the name counts in the kernel's own file system alone */
	if (BPF_CORE_READ(file, f_inode, i_sb, s_magic) != WLW_ANON_INODE_MAGIC)
		return 0;
	bpf_probe_read_kernel_str(name.text, sizeof(name.text),
				  BPF_CORE_READ(file, f_path.dentry, d_name.name));
	if (name.words[0] != wanted.words[0] || name.words[1] != wanted.words[1])
		return 0;
	ep = BPF_CORE_READ(file, private_data);
	line.kind = WL_WINDOW_EPOLL;
	line.fd = ctx->fd;
	line.busy_poll_us = BPF_CORE_READ(ep, busy_poll_usecs);
	line.budget = BPF_CORE_READ(ep, busy_poll_budget);
	line.prefer_busy_poll = BPF_CORE_READ(ep, prefer_busy_poll);
	line.known = WL_WINDOW_KNOWS_BUSY_POLL;
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}

SEC("iter/task_file")
int window_read_sockets(struct bpf_iter__task_file *ctx)
{
	struct wl_window_line line = {};
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;

	if (!task || !file)
		return 0;
	window_tgid = task->tgid; /* the iterator visits the target alone */
	socket = bpf_sock_from_file(file);
	if (!socket)
		return window_epoll(ctx, file);
	sk = socket->sk;
	if (!sk)
		return 0;
	line.kind = window_kind(sk);
	if (line.kind == WL_WINDOW_OTHER)
		return 0;
	line.inode = file->f_inode->i_ino;
	line.fd = ctx->fd;
	if (bpf_core_field_exists(sk->sk_napi_id)) {
		line.busy_poll_us = sk->sk_ll_usec;
		line.napi_id = sk->sk_napi_id;
		line.prefer_busy_poll = sk->sk_prefer_busy_poll;
		line.known |= WL_WINDOW_KNOWS_BUSY_POLL;
	}
	if (line.kind == WL_WINDOW_TCP)
		window_read_tcp(&line, sk);
	else if (line.kind == WL_WINDOW_PACKET)
		window_read_packet(&line, sk);
	else if (line.kind == WL_WINDOW_XDP)
		window_read_xdp(&line, sk);
	if (window_adopt)
		window_take_on(sk, line.inode, 1);
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
