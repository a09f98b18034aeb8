# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ways to receive. Each runs with a real-time task that takes the responder's CPU now and then, and
without it: the task must be named whatever way the responder reads, and every request must be counted
and be the right one."""
from ..judge.counts import counts, counts_reads, paired
from ..judge.verdicts import blames, each, not_measured
from ..model import Run, Scenario, Seen
from .common import EXACT, PACED, fifo_bursts, with_and_without

FAMILY = "receive"
GROUP = "239.83.1.1"


def way(name, about, server="", client=PACED, judges=EXACT, at_least=100, **more):
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
GROUPED = "--threads 4 --reuseport --sleep-us 200 --cpu {server_cpu},{server_cpu}"
PIPELINED = (counts(), paired(no_number=0.05))

SCENARIOS = (
    way("recv-udp4", "UDP, IPv4, blocking reads"),
    way("recv-udp6", "UDP, IPv6, blocking reads", family=6),
    way("recv-tcp4", "TCP, IPv4, blocking reads", "--proto tcp"),
    way("recv-tcp6-epoll", "TCP, IPv6, epoll", "--proto tcp --mode epoll", family=6),
    way("recv-udp-epoll", "UDP, epoll, one read an event", "--mode epoll"),
    way("recv-udp-epoll-drain", "UDP, epoll, read until empty", "--mode epoll --drain"),
    way("recv-udp-spin", "UDP, non-blocking reads in a loop", "--mode spin"),
    way("recv-tcp-spin", "TCP, non-blocking reads in a loop", "--proto tcp --mode spin"),
    way("recv-udp-veth", "UDP over a veth pair", veth=True, judges=(not_measured("hard_irq"), *EXACT)),
    way("recv-tcp6-veth", "TCP over a veth pair, IPv6", "--proto tcp --mode epoll", veth=True, family=6),
    way("recv-multicast", "UDP multicast over a veth pair",
        "--listen 0.0.0.0:0 --group " + GROUP + " --interface {server_device}",
        PACED + " --to " + GROUP + ":{port} --interface {client_device}", veth=True,
        judges=(each("it says multicast", lambda one: "multicast" in one["quality"]), *EXACT)),
    way("recv-two-readers", "UDP, two threads read one socket", "--threads 2 --cpu {server_cpu},{server_cpu}",
        "--rate 500 --burst 2 --count 1000", judges=SHARED),
    way("recv-tcp-epoll-threads", "TCP, 8 connections, two epoll threads",
        "--proto tcp --mode epoll --threads 2 --cpu {server_cpu},{server_cpu}", PACED + " --connections 8"),
    way("recv-tcp-pipelined", "TCP, 8 requests under way on a connection", "--proto tcp",
        "--rate 200 --burst 8 --count 1600", judges=PIPELINED),
    Scenario("recv-reuseport", FAMILY, "SO_REUSEPORT, every client port on one of four sockets",
             "socket_queue, application, one socket",
             Run(GROUPED, "--rate 30 --burst 20 --count 1200 --connections 1"),
             Run(GROUPED, "--rate 30 --burst 20 --count 1200 --connections 30"),
             (blames("socket_queue", "application", 3500, 200), one_socket_only, *EXACT)),
    Scenario("recv-drops", FAMILY, "a receive buffer too small for the bursts", "socket_queue; the drops counted",
             Run("--rcvbuf 4096 --work-us 100", "--rate 40 --burst 25 --count 2000 --timeout-ms 300"),
             Run("--work-us 100", "--rate 800 --count 2000 --timeout-ms 300"),
             (blames("socket_queue", "application", 300, 100), some_dropped, counts_reads(), paired())),
)
