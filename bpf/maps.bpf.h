/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_MAPS_BPF_H
#define WHYLATE_MAPS_BPF_H
/* All state, and all maps. Sizes marked "at load" are set by user space. */

/* What the running NET_RX softirq knows of where its packets come from. */
struct wl_rx_context {
	u64 origin_ns;
	u64 raise_ns;
	u64 entry_ns;
	u32 irq;
	u16 irq_cpu;
	u8 mode;
	u8 origin;
	u8 valid;
	u8 irq_idle;
	s8 irq_idle_state;
	u8 squeezed; /* the poll before had used up its budget */
	u8 pad[4];
};

/* The packet that the driver gets, for the requests that it ends; `skb` and `backlog`: that enters the queue. */
struct wl_tx_device {
	u64 now_ns;
	u64 skb; /* address, only compared */
	u32 backlog;
	u32 cpu; /* in wl_thread_entry.left */
	u32 ifindex;
	u32 in_reader; /* the request being ended is the running thread's */
	char qdisc[WL_COMM_LEN];
};

struct wl_cpu {
	struct wl_counters counters; /* first: user space reads only this much of the entry */
	struct wl_timeline timeline;
	struct wl_rx_context rx; /* of the running NET_RX softirq */
	struct wl_rx_context raised; /* of the next one; valid: a raise is pending */
	u64 device_irq_ns; /* start of the running device interrupt, 0 none */
	u32 device_irq;
	u32 long_irq; /* the last device interrupt that took long */
	u64 long_irq_ns;
	u64 long_irq_end_ns;
	u32 sample_left; /* invocations until the next timed one */
	s8 idle_state; /* last idle state entered */
	u8 for_target; /* the running invocation works for the target */
	u8 pad[6];
	u64 poll_ns; /* end of the last poll of a device outside softirqs */
	u32 poll_tid; /* and who polled */
	u32 pad3;
	struct wl_udp_fifo udp;
	struct wl_tcp_fifo tcp;
	/* Temporaries too large for the stack; each belongs to one program, which never nests with itself on a CPU. */
	struct wl_datagram pushed; /* sk_data_ready */
	struct wl_datagram popped; /* sock_recv_length */
	struct wl_udp_push_result push_result;
	struct wl_udp_read read;
	u32 pushes; /* by this invocation of sk_data_ready */
	/* out of wl_udp_unsignalled: */
	u32 found_place; /* of the packet of the datagram found, 0: there is none */
	u64 found_skb; /* address of the datagram found */
	u64 strange_skb; /* newest datagram of the kernel's queue, if no packet is known for it */
	u32 found_run; /* datagrams not pushed yet */
	u32 own_queued; /* the place asked for is among them */
	u64 all_skb; /* as found_*, with those that no packet is known for */
	u32 all_place;
	u32 all_run;
	u32 unseen; /* such ones pushed by this invocation */
	u32 looking; /* state of the socket whose queue is looked at */
	u64 address; /* wl_address */
	/* The datagram just signalled in softirq: whoever is woken now is woken for it. */
	u64 ready_index;
	u32 ready_udp; /* state of its socket, plus 1; 0 none */
	u32 pad2;
	struct wl_tx_device tx; /* net_dev_start_xmit */
	struct wl_tcp_send_state send; /* sock_send_length */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, at load */
	__type(key, u32);
	__type(value, struct wl_cpu);
} wl_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, at load */
	__type(key, u32);
	__type(value, struct wl_aggregate);
} wl_aggregates SEC(".maps");

/* A request between its read and its reply. */
struct wl_open {
	u32 active; /* enum wl_open_state */
	u32 slot; /* of the reading thread */
	u64 sk; /* address, only compared */
	u64 debt_index; /* UDP: place in the socket's queue, to look at again */
	u8 debt;
	u8 unproven; /* UDP: paired by the order of signals, which may still prove doubtful */
	u8 unreported; /* UDP: if the debt is not paid, that is because something was not reported */
	u8 pad1;
	u32 write_seq; /* TCP: the reply begins here */
	u64 queued_ns;
	u64 probe_ns;
	u64 read_begin_ns;
	u64 devq_ns; /* the application is done with the reply: net_dev_queue, or TCP held it, the end of the send; 0 not yet */
	u64 tx_skb; /* the reply, from net_dev_queue on; only compared. 0: not there yet, or a batch that the stack may cut up */
	u64 send_begin_ns;
	struct wl_thread_time at_send; /* the reader's counters at devq_ns */
	u64 first_byte_ns; /* absolute */
	struct wl_arrival arrival;
	struct wl_thread_time at_recv;
	struct wl_read_split split;
	/* A send by the reader on another socket to another peer: the end only if nothing better comes. */
	u64 maybe_end_ns;
	u64 maybe_devq_ns;
	u64 maybe_send_ns;
	struct wl_thread_time maybe_time;
	u32 maybe_ifindex;
	u16 maybe_cpu;
	u8 held; /* devq_ns is the end of the send: the device layer has not seen the reply */
	u8 pad;
	struct wl_datagram datagram; /* scratch */
	struct wl_blame_walk walk; /* scratch */
	struct wl_request request;
	struct wl_occupants occupants;
};

struct wl_thread_entry {
	struct wl_thread thread;
	struct wl_open open; /* UDP: the datagram this thread works on. A NAPI thread: `arrival` is where its packets begin */
	u32 replied; /* since its last read */
	u32 pad;
	struct wl_tx_device left; /* the reply left while the request was being moved to wl_parked_requests */
	u64 left_skb; /* which packet that was, or of which connection; 0: it has not */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* at load */
	__type(key, u32);
	__type(value, struct wl_thread_entry);
} wl_threads SEC(".maps");

/* Processes of the target. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u32);
} wl_targets SEC(".maps");

/*
 * Thread id -> index in wl_threads. Not task storage: its look-up fails now and then, also without CREATE, on a CPU whose
 * storage lock is held by a task that was switched out (seen with heavy fork and exit on 6.18), and a lost switch is a lost wait.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* as wl_threads, at load */
	__type(key, u32);
	__type(value, u32);
} wl_thread_slots SEC(".maps");

/* Marks a TCP socket as the target's; children of a listener inherit it (bpf_sk_storage_clone in sk_clone_lock). */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, u32);
} wl_tcp_marks SEC(".maps");

/* Requests whose thread has moved on: the reply waits somewhere, or the datagram's sk_data_ready is late. */
struct wl_parked {
	u32 in_use;
	u32 awaits_datagram; /* state WL_OPEN_ENDED: counted in wl_awaited_total */
	u64 since_ns; /* user space looks at the first 16 bytes only */
	struct wl_open open;
};

#define WL_PARKED 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_PARKED);
	__type(key, u32);
	__type(value, struct wl_parked);
} wl_parked_requests SEC(".maps");

wl_u64 wl_next_parked;

#define WL_TX_PENDING 64 /* UDP, per socket */
#define WL_TCP_PENDING 64 /* per connection */

struct wl_tcp_socket {
	struct wl_tcp_queue queue;
	u32 reader_slot;
	u32 rx_cpu; /* that received the last packet found */
	u32 copied_seq; /* with wl_cfg_old_reads: end of the last read */
	u32 parked_head; /* ever parked; replies leave in order */
	u32 parked_tail;
	u32 pad;
	u16 parked[WL_TCP_PENDING]; /* in wl_parked_requests */
	struct wl_open open;
};

/* since 6.19 socket storage comes from kmalloc_nolock(), which ends at 8 KiB with the element's header in it */
_Static_assert(sizeof(struct wl_tcp_socket) <= 8000, "too large for socket storage");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wl_tcp_socket);
} wl_tcp_sockets SEC(".maps");

#define WL_BATCH 64 /* per UDP socket */
#define WL_BATCHED 256 /* in all */

struct wl_batched {
	u32 in_use;
	u32 pad;
	struct wl_open open;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WL_BATCHED);
	__type(key, u32);
	__type(value, struct wl_batched);
} wl_batched_requests SEC(".maps");

wl_u64 wl_next_batched;

/*
 * The state of a UDP socket. In an array, not in the socket's storage: since 6.19 storage is limited to about 8 KiB
 * (kmalloc_nolock). The storage holds the index.
 */
struct wl_udp_socket {
	u64 sk; /* address, only compared */
	u32 in_use;
	u32 seen; /* the last adoption pass that found the socket open; see wl_udp_take_slot */
	u32 reader_slot;
	u32 shared; /* more than one thread has read it */
	struct wl_multicast multicast[WL_MULTICAST_CPUS];
	u32 awaited; /* entries of `parked` in state WL_OPEN_ENDED */
	u32 waiting; /* entries in state WL_OPEN_YES */
	struct wl_udp_queue queue;
	/* Requests read together and not answered yet: places in wl_batched_requests plus 1; see probes/batch.bpf.h. */
	u32 batch_head;
	u32 batch_tail;
	u32 batch_answered;
	u32 pad2;
	u64 batch_end_ns; /* the last reply of the batch */
	u32 batch[WL_BATCH];
	struct wl_parked_ref parked[WL_TX_PENDING];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* at load */
	__type(key, u32);
	__type(value, struct wl_udp_socket);
} wl_udp_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32); /* index in wl_udp_states plus 1 */
} wl_udp_slots SEC(".maps");

/* With wl_cfg_old_reads: address of a UDP socket -> index in wl_udp_states. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* at load */
	__type(key, u64);
	__type(value, u32);
} wl_old_sockets SEC(".maps");

/* With wl_cfg_old_reads: UDP packets on their way to a reader, by the address of their skb. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* at load */
	__type(key, u64);
	__type(value, struct wl_packet);
} wl_old_packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wl_blame_key);
	__type(value, struct wl_blame);
} wl_blames SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20); /* at load */
} wl_records SEC(".maps");

/* Filters that need no look-up. May say yes too often, never no too often. */
wl_u8 wl_tgid_filter[4096];
wl_u8 wl_port_filter[65536];
wl_u8 wl_listen_ports[65536];

/* Where the UDP packet in a buffer is to be found; see wl_place_of(). */
wl_u32 wl_places[WL_PLACES];

wl_u64 wl_napi_threads; /* NAPI threads adopted */
wl_u64 wl_next_seq;
wl_u64 wl_awaited_total; /* requests in state WL_OPEN_ENDED, of all sockets */
wl_u64 wl_next_slot;
wl_u64 wl_target_count; /* processes of the target alive */
wl_u64 wl_calibrations;
wl_u32 wl_stopped; /* the run is over */
wl_u32 wl_realtime; /* a thread of the target has real-time or deadline priority */
wl_u32 wl_max_slots; /* entries of wl_threads, set before attach */
wl_u32 wl_adopt_epoch; /* number of the adoption pass */
/* What the iterators do: 0 list, 1 note listening ports, 2 adopt. */
wl_u32 wl_adopt_pass;

#endif
