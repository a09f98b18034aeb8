# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ways to receive. Each runs with a real-time task that takes the responder's CPU now and then, and
without it: the task must be named whatever way the responder reads, and every request must be counted
and be the right one."""
from ..judge.counts import calls_of, counts, counts_reads, paired
from ..judge.verdicts import answered, blames, each, not_measured
from ..model import Run, Scenario, Seen
from ..rig import ebpf
from .common import EXACT, IO_URING, PACED, fifo_bursts, with_and_without

FAMILY = "receive"
GROUP = "239.83.1.1"


def way(name, about, server="", client=PACED, judges=EXACT, at_least=45, **more):
    """A task that takes the CPU, and that way to receive."""
    scenario = {key: more.pop(key) for key in ("known_failing", "needs") if key in more}
    return with_and_without(name, FAMILY, about, "run_queue, rt-task",
                            Run(server, client, cause=fifo_bursts, **more),
                            (blames("run_queue", r"rt-task\[", 1000, at_least), *judges), **scenario)


def some_dropped(guilty, innocent):
    """Datagrams were dropped in the guilty run, the tracer counted them, and none in the other."""
    texts = []
    dropped = guilty.summary["requests"]["unmatched"]["dropped"]
    lost = guilty.client["lost"]
    if not lost or dropped != lost:
        texts.append(f"the client misses {lost}, the tracer saw {dropped} dropped")
    if innocent.summary["requests"]["unmatched"]["dropped"] or innocent.client["lost"]:
        texts.append("the innocent run dropped as well")
    return texts, Seen(f"{dropped} dropped, {lost} missed by the client")


def one_socket_only(guilty, innocent):
    """All requests of the guilty run came through one socket, those of the other through all."""
    sockets = [len({one["fd_inode"] for one in outcome.records}) for outcome in (guilty, innocent)]
    return ([] if sockets == [1, 4] else [f"sockets used: {sockets}, 1 and 4 wanted"]), None


SHARED = (counts(unmatched=20, incomplete=0.02), paired(unsure=0.05))
GROUPED = "--threads 4 --reuseport --sleep-us 100 --cpu {server_cpu},{server_cpu}"
SPACED = "--gap-us 2000 --count 300 --wait block"
WINDOW_32 = "--count 2000 --wait block --window 32"
PIPELINED = (counts(), paired(no_number=0.05))

# The thread that waits in the epoll is on the CPU after those of the readers.
HAND_OFF = "--mode epoll --hand-off --threads 1 --cpu "
ONE_A_BURST = "--rate 200 --count 300"  # of the task: one that arrives behind another wakes nobody


def late_first_byte(above_us):
    """The first byte came that much earlier than the last, where the clock starts."""
    return each(f"first byte {above_us} us earlier", lambda one: (one["first_byte_ns"] or 0) > above_us * 1000, 0.9)


def not_the_responder(guilty, innocent):
    """Requests that had to be sent again are late before they reach this host; it is not blamed."""
    def again(outcome):
        return [one for one in outcome.correlated["slowest"] if one["client_ns"] > 150_000_000]

    rows, free = again(guilty), again(innocent)
    right = [one for one in rows if one["explained_by"] == "rest"]
    part = len(right) / len(rows) if rows else 0.0
    problems = []
    if len(right) < 8 or part < 0.8 or len(right) < 4 * len(free):
        problems.append(f"{len(right)} of {len(rows)} requests above 150 ms are put down to the rest; "
                        f"{len(free)} in the innocent run")
    return problems, Seen(f"{len(right)} of {len(rows)} requests above 150 ms: not this host", part)


def each_waits_for_the_earlier(guilty, _):
    """In a batch the later datagrams wait longer on the socket or behind the others, never less."""
    by_read = {}
    for one in guilty.records:
        if one["verdict"] is not None:
            by_read.setdefault((one["tid"], one["recv_ns"] // 100_000), []).append(one)
    totals = [[one["total_ns"] for one in sorted(group, key=lambda one: one["seq"])]
              for group in by_read.values() if len(group) >= 8]
    rising = sum(1 for group in totals if group == sorted(group))
    text = f"{rising} of {len(totals)} batches rise"
    return ([] if len(totals) >= 5 and rising >= 0.8 * len(totals) else [text]), Seen(text)


def lossy_link(stage):
    stage.add(ebpf.drop_one_in(stage.net.client.fd, stage.net.client_device, 15, 100))


def veth_napi(stage):
    """A veth device that has a NAPI instance can be polled for."""
    stage.net.enable_napi()


def several_in_one(guilty, innocent):
    """Requests that share a read are one to the tracer; without bursts each is one."""
    observed = [outcome.summary["requests"]["observed"] for outcome in (guilty, innocent)]
    sent = guilty.client["sent"]
    wrong = observed[0] > 0.5 * sent or observed[1] < 0.9 * sent
    text = f"{observed[0]} reads for {sent} requests; without bursts {observed[1]}"
    return ([text] if wrong else []), Seen(text)


SCENARIOS = (
    way("recv-udp4", "UDP, IPv4, blocking reads"),
    way("recv-udp6", "UDP, IPv6, blocking reads", family=6),
    way("recv-tcp4", "TCP, IPv4, blocking reads", "--proto tcp"),
    way("recv-tcp6-epoll", "TCP, IPv6, epoll", "--proto tcp --mode epoll", family=6),
    way("recv-udp-epoll", "UDP, epoll, one read an event", "--mode epoll"),
    way("recv-udp-epoll-drain", "UDP, epoll, read until empty", "--mode epoll --drain"),
    way("recv-udp-poll", "UDP, poll()", "--mode poll"),
    way("recv-udp-select", "UDP, select(), read until empty", "--mode select --drain"),
    way("recv-udp-peek", "UDP, each request looked at with MSG_PEEK first", "--peek"),
    way("recv-udp-spin", "UDP, non-blocking reads in a loop", "--mode spin"),
    way("recv-tcp-spin", "TCP, non-blocking reads in a loop", "--proto tcp --mode spin"),
    way("recv-udp-veth", "UDP over a veth pair", veth=True, judges=(not_measured("hard_irq"), *EXACT)),
    way("recv-tcp6-veth", "TCP over a veth pair, IPv6", "--proto tcp --mode epoll", veth=True, family=6),
    way("recv-multicast", "UDP multicast over a veth pair",
        "--listen 0.0.0.0:0 --group " + GROUP + " --interface {server_device}",
        PACED + " --to " + GROUP + ":{port} --interface {client_device}", veth=True,
        judges=(each("it says multicast", lambda one: "multicast" in one["quality"]), *EXACT)),
    way("recv-two-readers", "UDP, two threads read one socket", "--threads 2 --cpu {server_cpu},{server_cpu}",
        "--rate 500 --burst 2 --count 500", judges=SHARED),
    way("recv-tcp-epoll-threads", "TCP, 8 connections, two epoll threads",
        "--proto tcp --mode epoll --threads 2 --cpu {server_cpu},{server_cpu}", PACED + " --connections 8"),
    way("recv-tcp-pipelined", "TCP, 8 requests under way on a connection", "--proto tcp",
        "--rate 200 --burst 8 --count 1600", judges=PIPELINED),
    way("recv-multicast-fanout", "UDP multicast to three sockets; the first one answers",
        "--listen 0.0.0.0:0 --group " + GROUP + " --interface {server_device} --reuseport --threads 3 --answer 0 --cpu "
        "{server_cpu},{server_cpu},{server_cpu}", PACED + " --to " + GROUP + ":{port} --interface {client_device}",
        veth=True, judges=(counts(readers=3, open_at_end=2), paired())),
    way("recv-epoll-shared", "UDP, four threads on one epoll",
        "--mode epoll --share-epoll --threads 4 --cpu {server_cpu},{server_cpu},{server_cpu},{server_cpu}",
        "--rate 500 --burst 2 --count 500", judges=SHARED),
    way("recv-hand-off", "UDP, the thread that the request wakes hands it to another; the task is on its CPU",
        HAND_OFF + "{client_cpu},{server_cpu}", ONE_A_BURST, at_least=30,
        judges=(each("it says via_thread", lambda one: "via_thread" in one["quality"], 0.3), *EXACT)),
    way("recv-hand-off-tcp", "TCP, a thread hands readable connections to another, on whose CPU the task is",
        "--proto tcp " + HAND_OFF + "{server_cpu},{client_cpu}", ONE_A_BURST, at_least=30),
    way("recv-busy-poll", "UDP, the reader polls the device (SO_BUSY_POLL)", "--stack busy-poll --busy-poll-us 3000",
        veth=True, network=veth_napi, at_least=30,
        judges=(each("origin busy_poll", lambda one: one["origin"] == "busy_poll", 0.3, only_guilty=False), *EXACT)),
    way("recv-busy-poll-epoll", "UDP, epoll_wait polls the device (epoll busy poll)",
        "--mode epoll --stack busy-poll --busy-poll-us 3000", veth=True, network=veth_napi, at_least=30,
        judges=(each("origin busy_poll", lambda one: one["origin"] == "busy_poll", 0.3, only_guilty=False), *EXACT)),
    way("recv-uring", "io_uring, one receive after the other", "--mode io_uring", judges=IO_URING),
    way("recv-uring-multishot", "io_uring, one receive that stays", "--mode io_uring --uring-multishot",
        judges=IO_URING, at_least=20),
    way("recv-uring-defer", "io_uring, DEFER_TASKRUN", "--mode io_uring --uring-defer", judges=IO_URING),
    way("recv-uring-sqpoll", "io_uring, a kernel thread submits (SQPOLL)", "--mode io_uring --uring-sqpoll",
        judges=IO_URING, at_least=20),
    way("recv-uring-async", "io_uring, worker threads read (io-wq)", "--mode io_uring --uring-async",
        judges=IO_URING),
    way("recv-tcp-small-reads", "TCP, four reads for a request", "--proto tcp --read-bytes 16",
        judges=(counts(), paired(no_number=1))),
    way("recv-tcp-lowat", "TCP, SO_RCVLOWAT: no wake-up before the whole request", "--proto tcp --rcvlowat 64",
        "--rate 250 --count 400 --segment-bytes 16 --segment-gap-us 50", at_least=35),
    Scenario("recv-tcp-several", FAMILY, "TCP, bursts; one read brings several requests", "one for each read",
             Run("--proto tcp --read-bytes 4096 --work-us 100", "--rate 50 --burst 16 --coalesce 4 --count 1600"),
             Run("--proto tcp --read-bytes 4096 --work-us 100", "--rate 500 --count 1600"),
             (several_in_one, counts_reads(number=calls_of), paired(no_number=0.6))),
    Scenario("recv-tcp-split", FAMILY, "TCP, a request comes in two segments 700 us apart; partner: in one",
             "the clock starts with the last byte",
             Run("--proto tcp", "--rate 250 --count 500 --segment-bytes 32 --segment-gap-us 700"),
             Run("--proto tcp", "--rate 250 --count 500"),
             (late_first_byte(500), counts(), paired(no_number=1))),
    Scenario("recv-tcp-retransmit", FAMILY, "TCP, one of 15 requests is lost on the way and sent again",
             "correlate: not this host",
             Run("--proto tcp", SPACED, veth=True, network=lossy_link, correlate=True),
             Run("--proto tcp", SPACED, veth=True, correlate=True),
             (not_the_responder, *EXACT)),
    Scenario("recv-recvmmsg", FAMILY, "UDP, recvmmsg takes bursts of 16; each waits for those before it",
             "a request each; socket_queue or app, rising",
             Run("--batch 16 --work-us 100", "--rate 40 --burst 16 --count 1280"),
             Run("--batch 16 --work-us 100", "--rate 640 --count 1280"),
             (answered(), each_waits_for_the_earlier, *EXACT)),
    Scenario("recv-zero-window", FAMILY, "TCP, the responder pauses for 20 ms with a small buffer: zero window",
             "socket_queue, application",
             Run("--proto tcp --rcvbuf 2048 --pause-us 20000 --pause-every 100", WINDOW_32),
             Run("--proto tcp --rcvbuf 2048", WINDOW_32),
             (blames("socket_queue", "application", 5000, 15), counts(incomplete=0.02), paired(no_number=0.1))),
    Scenario("recv-reuseport", FAMILY, "SO_REUSEPORT, every client port on one of four sockets",
             "socket_queue, application, one socket",
             Run(GROUPED, "--rate 20 --burst 20 --count 600 --connections 1"),
             Run(GROUPED, "--rate 20 --burst 20 --count 600 --connections 30"),
             (blames("socket_queue", "application", 2000, 100), one_socket_only, *EXACT)),
    Scenario("recv-drops", FAMILY, "a receive buffer too small for the bursts", "socket_queue; the drops counted",
             Run("--rcvbuf 4096 --work-us 100", "--rate 40 --burst 25 --count 2000 --timeout-ms 300"),
             Run("--work-us 100", "--rate 800 --count 2000 --timeout-ms 300"),
             (blames("socket_queue", "application", 300, 100), some_dropped, counts_reads(), paired())),
)
