/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef WHYLATE_RECORD_H
#define WHYLATE_RECORD_H
/*
 * The contract between the kernel side and user space. Valid C11 (BPF) and C++20.
 * Values are explicit and never reused; sizes are asserted. All times are CLOCK_MONOTONIC ns (bpf_ktime_get_ns).
 */
#ifndef __bpf__ /* set by clang -target bpf */
#include <stdint.h>
typedef uint8_t wl_u8;
typedef uint16_t wl_u16;
typedef uint32_t wl_u32;
typedef uint64_t wl_u64;
typedef int8_t wl_s8;
typedef int16_t wl_s16;
typedef int32_t wl_s32;
typedef int64_t wl_s64;
#else
typedef unsigned char wl_u8;
typedef unsigned short wl_u16;
typedef unsigned int wl_u32;
typedef unsigned long long wl_u64;
typedef signed char wl_s8;
typedef short wl_s16;
typedef int wl_s32;
typedef long long wl_s64;
#endif

#ifdef __cplusplus
#define WL_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define WL_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

/* A function of the shared logic that BPF verifies once instead of at every call; pointers may be NULL there. */
#ifdef __bpf__
#define WL_SHARED __attribute__((noinline))
/* Before a loop that clang lays out with its end before its begin: up to 6.1 the verifier takes that for an endless one. */
#define WL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WL_SHARED static inline
#define WL_UNROLL
#endif
/* A function that must not cost one of the eight call frames BPF has. */
#define WL_INLINE static inline __attribute__((always_inline))

#define WL_COMM_LEN 16
#define WL_MAX_OCCUPANTS 24
#define WL_NO_CPU 0xffff
#define WL_NO_IRQ 0xffffffffu
#define WL_NO_SYSCALL (-1)

/* The stages of a request, in path order. docs/stages.md says what each one means and cannot see. */
enum wl_stage {
	WL_STAGE_HARD_IRQ = 0,
	WL_STAGE_SOFTIRQ_WAIT = 1,
	WL_STAGE_SOFTIRQ_POLL = 2,
	WL_STAGE_BACKLOG = 3, /* TCP: the segment waited while a task owned the socket */
	WL_STAGE_STACK = 4,
	WL_STAGE_SOCKET_QUEUE = 5,
	WL_STAGE_WAKEUP = 6,
	WL_STAGE_IDLE_EXIT = 7,
	WL_STAGE_RUN_QUEUE = 8,
	WL_STAGE_THROTTLED = 9,
	WL_STAGE_RECV = 10,
	WL_STAGE_APP = 11,
	WL_STAGE_APP_RUN_QUEUE = 12,
	WL_STAGE_APP_BLOCKED = 13,
	WL_STAGE_APP_IRQ = 14,
	WL_STAGE_SEND = 15, /* only with --syscalls */
	WL_STAGE_TX_QUEUE = 16, /* only where net_dev_queue is attached */
	WL_STAGE_UNATTRIBUTED = 17,
	WL_NR_STAGES = 18,
};

/* Where a request's clock starts; design section 2. */
enum wl_origin {
	WL_ORIGIN_NONE = 0, /* arrival unknown: the request is incomplete */
	WL_ORIGIN_IRQ = 1, /* device hard interrupt */
	WL_ORIGIN_NETIF_RX = 2, /* loopback, veth: raised by the sender, there is no hard interrupt */
	WL_ORIGIN_NAPI = 3, /* a later NAPI round of the same softirq: no interrupt of its own */
	WL_ORIGIN_BUSY_POLL = 4,
	WL_ORIGIN_SOCKET = 5, /* only the arrival at the socket is known */
};

/* Who ran the softirq that delivered the packet. */
enum wl_softirq_mode {
	WL_SOFTIRQ_UNKNOWN = 0,
	WL_SOFTIRQ_INLINE = 1,
	WL_SOFTIRQ_KSOFTIRQD = 2,
	WL_SOFTIRQ_THREADED_NAPI = 3,
	WL_SOFTIRQ_BUSY_POLL = 4,
	WL_SOFTIRQ_PROCESS = 5, /* packet handled in task context outside a softirq (TCP backlog) */
};

/* Quality flags of a request. */
enum wl_quality {
	WL_Q_NO_ARRIVAL = 1u << 0, /* packet not matched: incomplete, no verdict */
	WL_Q_DEBT_UNPAID = 1u << 1, /* read before sk_data_ready and never paired: incomplete */
	WL_Q_NO_THREAD = 1u << 2, /* the reader's scheduling state is unknown: incomplete */
	WL_Q_NO_REPLY = 1u << 3, /* ended by the next read of the thread or socket */
	WL_Q_COLD = 1u << 4, /* one of the first two requests: counted, left out of "slowest" */
	WL_Q_SHARED_SOCKET = 1u << 5, /* several threads read this socket: neighbours can be swapped */
	WL_Q_CLAMPED = 1u << 6, /* a mark was out of order by more than 1 us and was clamped */
	WL_Q_POLLED = 1u << 7, /* later NAPI round: arrival known only to the end of the round before */
	WL_Q_FIRST_BYTE_UNKNOWN = 1u << 8,
	WL_Q_MULTI_READ = 1u << 9, /* TCP: the request was read in several pieces */
	WL_Q_OTHER_SOCKET = 1u << 10, /* the reply left through another socket of the reading thread */
	WL_Q_OTHER_CONTEXT = 1u << 11, /* the reply left while the reader was not the running task */
	WL_Q_NOT_NAMED = 1u << 12, /* part of a wait has no named occupant (ring too short) */
	WL_Q_QUOTA_SPELL = 1u << 13, /* migrated while throttled: the whole spell is booked as quota */
	WL_Q_IRQ_CPU_IDLE = 1u << 14, /* the hard interrupt hit an idle CPU: idle_bound applies */
	WL_Q_DEBT_PAID = 1u << 15, /* read before sk_data_ready fired; paired afterwards, socket_queue is 0 */
	WL_Q_MULTICAST = 1u << 16,
	WL_Q_NO_ID = 1u << 17, /* --id-offset given, but the number's place in the packets is not known */
	WL_Q_BATCHED = 1u << 20, /* read together with others: replies are told by peer, those to one peer by the order of the reads */
	WL_Q_VIA_THREAD = 1u << 21, /* another thread of the target woke the reader: its waits before that are in the stages */
	WL_Q_LOST_SWITCH = 1u << 19, /* a context switch of the reader was not reported: incomplete, no verdict */
	WL_Q_SQUEEZED = 1u << 24, /* a poll before had used up its budget: the packet waited for the next softirq */
	WL_Q_RT_THROTTLED = 1u << 25, /* the reader's real-time budget was used up during a wait */
	WL_Q_HOP = 1u << 26, /* another CPU handed the packet over (RPS): hop_cpu, if known */
	WL_Q_ORDER_UNSURE = 1u << 18, /* two CPUs queued datagrams within microseconds: neighbours can be swapped */
};

/* Any of these: the request is counted as incomplete and gets no verdict. */
#define WL_Q_INCOMPLETE (WL_Q_NO_ARRIVAL | WL_Q_DEBT_UNPAID | WL_Q_NO_THREAD | WL_Q_LOST_SWITCH)

enum wl_occupant_kind {
	WL_OCC_TASK = 1,
	WL_OCC_IRQ = 2, /* device interrupts */
	WL_OCC_SOFTIRQ = 3,
	WL_OCC_IDLE = 4, /* the idle task on its way out */
	WL_OCC_QUOTA = 5,
	WL_OCC_UNKNOWN = 6, /* other tasks, not named: more slices than the ring holds */
	WL_OCC_TIMER = 7, /* the local timer's interrupt, with every timer that it ran */
	WL_OCC_IPI = 8, /* another CPU's signal: reschedule, function call */
	WL_OCC_IRQ_WORK = 9, /* the CPU's own deferred interrupt work */
};

/* What takes a CPU from the task that has it. */
enum wl_theft {
	WL_THEFT_DEVICE = 0,
	WL_THEFT_TIMER = 1,
	WL_THEFT_IPI = 2,
	WL_THEFT_IRQ_WORK = 3,
	WL_THEFT_SOFTIRQ = 4,
	WL_NR_THEFT = 5,
};

/* The occupant that a theft is shown as. */
static inline wl_u8 wl_theft_kind(wl_u32 theft)
{
	switch (theft) {
	case WL_THEFT_DEVICE:
		return WL_OCC_IRQ;
	case WL_THEFT_TIMER:
		return WL_OCC_TIMER;
	case WL_THEFT_IPI:
		return WL_OCC_IPI;
	case WL_THEFT_IRQ_WORK:
		return WL_OCC_IRQ_WORK;
	default:
		return WL_OCC_SOFTIRQ;
	}
}

/* A group's id that is not a cgroup's but an autogroup's number. */
#define WL_AUTOGROUP (1ull << 63)

/* Why TCP did not hand a reply to the device layer when it was sent. */
enum wl_tx_hold {
	WL_HOLD_NONE = 0, /* it did */
	WL_HOLD_TCP = 1, /* held by TCP, reason not known */
	WL_HOLD_NAGLE = 2, /* a small segment waits for the acknowledgement of the one before */
	WL_HOLD_CORK = 3, /* TCP_CORK or MSG_MORE */
	WL_HOLD_CWND = 4, /* congestion window */
	WL_HOLD_RWND = 5, /* the peer's receive window is too small for the segment */
	WL_HOLD_ZERO_WINDOW = 6, /* the peer's receive window is closed */
	WL_HOLD_TSQ = 7, /* TCP small queues: earlier segments are still in the queues below */
	WL_HOLD_PACING = 8,
};

#define WL_NO_BACKLOG 0xffffffffu

/* What keeps a thread from running although nothing that it asked for is missing. */
enum wl_stop_kind {
	WL_STOP_NONE = 0,
	WL_STOP_SIGNAL = 1, /* job control: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU */
	WL_STOP_TRACER = 2, /* ptrace: a debugger, strace */
	WL_STOP_FREEZER = 3, /* cgroup freezer (v1 and v2), or suspend */
	WL_STOP_FROZEN_ASLEEP = 4, /* frozen in a sleep that had begun before; since when in it is not known */
};

enum wl_stop_part { WL_STOP_QUEUE = 0, WL_STOP_APP = 1, WL_NR_STOP_PARTS = 2 };

/* Who held the CPU for how long during a wait of the request. */
struct wl_occupant {
	wl_u64 ns;
	wl_u32 pid; /* thread id; 0 unless kind is WL_OCC_TASK */
	wl_u32 tgid;
	wl_u8 kind; /* enum wl_occupant_kind */
	wl_u8 stage; /* enum wl_stage: RUN_QUEUE, APP_RUN_QUEUE or SOFTIRQ_WAIT; THROTTLED for WL_OCC_QUOTA */
	wl_u8 policy; /* SCHED_OTHER 0, FIFO 1, RR 2, BATCH 3, IDLE 5, DEADLINE 6, EXT 7 */
	wl_s8 nice;
	wl_u16 prio; /* kernel priority: below 100 is real time */
	wl_u16 cpu;
	wl_u32 switches; /* slices merged into this entry */
	wl_u32 pad;
	wl_u64 cgroup; /* id of a task's group of the cpu controller, or WL_AUTOGROUP and a number; 0 unknown */
	char comm[WL_COMM_LEN];
};
WL_STATIC_ASSERT(sizeof(struct wl_occupant) == 56, "occupant layout");

enum wl_proto { WL_PROTO_TCP = 6, WL_PROTO_UDP = 17 };

/* One finished request. Followed in the same ring record by nr_occupants entries when the record is the long form. */
struct wl_request {
	wl_u64 seq; /* order in which requests ended, from 0 */
	wl_u64 start_ns;
	wl_u64 end_ns;
	wl_u64 recv_ns; /* when the read was done: pairs with the server's own log */
	wl_u64 stage_ns[WL_NR_STAGES]; /* sum == end_ns - start_ns */
	wl_u64 id; /* number found in the payload; valid if has_id */
	wl_u64 first_byte_ns; /* TCP: how much earlier the first byte of the request arrived */
	wl_u64 clamped_ns; /* how far marks had to be moved to be in order */
	wl_u64 sk_cookie; /* identifies the socket within the run (kernel address hash), never printed */
	wl_u64 blocked_ns; /* longest single sleep inside app_blocked */
	wl_u64 theft_ns[WL_NR_THEFT]; /* what app_irq was; they sum to it */
	wl_u64 long_irq_ns; /* the last long device interrupt on the reader's CPU in this time, 0 none */
	wl_u64 idle_elsewhere_ns; /* how long of a run-queue wait another allowed CPU was idle, at least; 0 none or unknown */
	wl_u64 tx_held_ns; /* TCP: first part of tx_queue, before the device layer got the reply */
	char tx_qdisc[WL_COMM_LEN]; /* kind of the queueing discipline the reply left through; empty: none, or not known */
	wl_u32 tgid;
	wl_u32 tid;
	wl_u32 quality; /* enum wl_quality bits */
	wl_u32 irq; /* Linux IRQ number of the device interrupt, WL_NO_IRQ if none */
	wl_u32 ifindex; /* egress device of the reply, 0 unknown */
	wl_u32 rx_ifindex;
	wl_u32 read_len; /* bytes of the (last) read */
	wl_s32 blocked_syscall; /* system call of the longest sleep; WL_NO_SYSCALL: fault or unknown */
	wl_u32 blocked_waker_tid; /* who ended the longest sleep */
	wl_u32 waker_tid; /* who woke the reader for this request */
	wl_u32 tx_backlog; /* packets in the queueing discipline when the reply came, WL_NO_BACKLOG: not known */
	wl_u16 app_cpu; /* the reader's CPU when its part ended */
	wl_u8 tx_hold; /* enum wl_tx_hold */
	wl_u8 migrations; /* moves to another CPU while it waited to run */
	wl_u32 long_irq; /* Linux IRQ number of that interrupt */
	wl_u16 idle_elsewhere_cpu;
	wl_u16 hop_cpu; /* the CPU that handed the packet over (RPS), WL_NO_CPU none */
	char comm[WL_COMM_LEN];
	char waker_comm[WL_COMM_LEN];
	char blocked_waker_comm[WL_COMM_LEN];
	wl_u8 laddr[16]; /* IPv4 in the first four bytes, network order */
	wl_u8 raddr[16];
	wl_u16 lport; /* host order */
	wl_u16 rport;
	wl_u16 irq_cpu; /* WL_NO_CPU: unknown or not applicable */
	wl_u16 rx_cpu; /* softirq and stack */
	wl_u16 run_cpu; /* wakeup, idle exit, run queue */
	wl_u16 recv_cpu;
	wl_u16 tx_cpu;
	wl_u8 family; /* 4 or 6 */
	wl_u8 proto; /* enum wl_proto */
	wl_u8 origin; /* enum wl_origin */
	wl_u8 softirq_mode; /* enum wl_softirq_mode */
	wl_s8 idle_state; /* cpuidle state index left during idle_exit; -1 none or unknown */
	wl_s8 irq_idle_state; /* state of the CPU the device interrupt hit; -1 none */
	wl_u8 has_id;
	wl_u8 nr_occupants;
	wl_u16 fanout_rank; /* multicast: the how-manieth socket that got the packet, from 1; 0 not applicable or unknown */
	wl_u8 stop_kind[WL_NR_STOP_PARTS]; /* enum wl_stop_kind: most of stopped_ns */
	wl_u32 not_named_switches; /* switches behind WL_OCC_UNKNOWN */
	wl_u32 fanout_ns; /* multicast: since the first socket had it; part of `stack` */
	wl_u32 woken_tid; /* thread that the arrival woke, if that is not the one that read; 0 none */
	wl_u64 behind_ns; /* batched: until the last one before it was answered; part of the application's stages */
	wl_u32 behind; /* requests of the batch that were answered before it */
	wl_u16 budget_share[2]; /* of run_queue and app_run_queue: waited with a used up real-time budget, in 1/1000 */
	wl_u64 stopped_ns[WL_NR_STOP_PARTS]; /* of socket_queue and app_blocked: the reader was stopped, at least */
	wl_u64 poll_gap_ns; /* busy poll: how long before it was found the packet may have lain in the device, outside the total */
};
WL_STATIC_ASSERT(sizeof(struct wl_request) % 8 == 0, "request layout");

enum wl_record_type { WL_REC_REQUEST = 1, WL_REC_REQUEST_LONG = 2 };

/* Every ring record starts so. */
struct wl_record_header {
	wl_u32 type; /* enum wl_record_type */
	wl_u32 size; /* bytes, header included */
};

struct wl_record_short {
	struct wl_record_header header;
	struct wl_request request;
};

struct wl_record_long {
	struct wl_record_header header;
	struct wl_request request;
	struct wl_occupant occupants[WL_MAX_OCCUPANTS];
};

/* Ways to lose something. With any of them above 0 the report says INCOMPLETE. */
enum wl_lost {
	WL_LOST_RING_FULL = 0, /* details of a request dropped; the aggregates still have it */
	WL_LOST_BLAME_FULL = 1, /* blame totals: no room for one more task, booked as "not named" */
	WL_LOST_THREAD_SLOTS = 2, /* more target threads than slots */
	WL_LOST_SOCKET_STORAGE = 3, /* no memory for a socket's state */
	WL_LOST_UDP_QUEUE = 4, /* socket queue longer than the FIFO: unsynchronised again */
	WL_LOST_TCP_QUEUE = 5, /* more unread segments than the ring holds */
	WL_LOST_TORN = 6, /* a FIFO entry changed while it was read */
	WL_LOST_TX_PENDING = 7, /* more replies in a qdisc than slots */
	WL_NR_LOST = 8,
};

/* Why a read or packet could not become a request; never guessed. */
enum wl_unmatched {
	WL_UNM_UNSYNCED = 0, /* UDP read while the FIFO was not synchronised (queue was full at attach) */
	WL_UNM_NO_SEGMENT = 1, /* TCP bytes read that no tcp_probe announced (arrived before the attach, or with the SYN: TCP Fast Open) */
	WL_UNM_NEW_SOCKET = 2, /* first read of a UDP socket opened after the attach */
	WL_UNM_HANDED_OVER = 3, /* packet left for another CPU's queue run (packets, not reads) */
	WL_UNM_CANCELLED_DEBT = 4, /* an answered read whose packet was not announced until the end of the run */
	WL_UNM_OUTSIDE_READER = 5, /* a process outside the target read the socket */
	WL_UNM_DROPPED = 6, /* packets for the target's ports dropped by the stack (packets, not reads) */
	WL_UNM_PEEK = 7, /* MSG_PEEK reads, ignored */
	WL_NR_UNMATCHED = 8,
};

/* Totals per CPU, summed by user space. */
struct wl_counters {
	wl_u64 complete;
	wl_u64 incomplete;
	wl_u64 no_reply; /* observed, but ended by a next read: in no latency figure */
	wl_u64 clamped; /* requests with a clamp above 1 us */
	wl_u64 unmatched[WL_NR_UNMATCHED];
	wl_u64 lost[WL_NR_LOST];
	wl_u64 runs; /* program invocations on this CPU */
	wl_u64 sampled_runs; /* of them, timed ones */
	wl_u64 sampled_ns; /* time spent in the timed ones */
	wl_u64 target_runs; /* invocations that worked for the target */
	wl_u64 target_sampled_runs;
	wl_u64 target_sampled_ns;
	wl_u64 target_packets; /* packets to the target's ports; each came with a softirq's raise, entry and exit */
	wl_u64 target_exits; /* processes of the target that ended */
};

/* What the socket iterator writes, one per open inet socket. */
struct wl_socket_line {
	wl_u64 inode;
	wl_u64 cookie; /* equals wl_request.sk_cookie */
	wl_u32 tgid;
	wl_u32 fd;
	wl_u32 netns;
	wl_u16 family; /* AF_INET, AF_INET6 */
	wl_u16 lport;
	wl_u16 rport;
	wl_u8 proto; /* enum wl_proto */
	wl_u8 state; /* TCP state, 0 for UDP */
	wl_u8 laddr[16];
	wl_u8 raddr[16];
	char comm[WL_COMM_LEN];
	wl_u32 pad;
};
WL_STATIC_ASSERT(sizeof(struct wl_socket_line) == 88, "socket line layout");

/* Key and value of the blame totals. */
struct wl_blame_key {
	wl_u32 pid; /* 0 unless kind is WL_OCC_TASK */
	wl_u8 kind;
	wl_u8 stage;
	wl_u16 pad;
};

struct wl_blame {
	wl_u64 ns;
	wl_u64 requests;
	wl_u64 cgroup; /* as in wl_occupant */
	wl_u32 tgid;
	wl_u8 policy;
	wl_s8 nice;
	wl_u16 prio;
	char comm[WL_COMM_LEN];
};

#endif
