# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ways for a reply to leave late."""
import socket
import statistics

from ..judge.counts import counts, paired
from ..judge.records import stage_ns
from ..judge.verdicts import answered, blames, judged
from ..model import Run, Scenario, Seen
from ..rig import system
from .common import EXACT, PACED, fifo_bursts, with_and_without

FAMILY = "transmit"


def tbf(rate):
    def network(stage):
        stage.net.server.tc(f"qdisc add dev {stage.net.server_device} root tbf rate {rate} burst 2000 limit 200000")

    return network


def slow_device(rate):
    """A device of that rate below a TCP that may have two segments in its queue, each a packet of its own (else
    all that waits would be one packet, and enter the queue as such); congestion window and pacing do not matter."""

    def network(stage):
        tbf(rate)(stage)
        server, own = stage.net.server, stage.net.server_address[4]
        server.write_proc("ipv4/tcp_limit_output_bytes", 4096)
        server.write_proc("ipv4/tcp_congestion_control", "reno")  # some others pace
        server.ip(f"link set {stage.net.server_device} gso_max_segs 1")
        server.ip(f"route change 10.83.0.0/24 dev {stage.net.server_device} src {own} initcwnd 1000")

    return network


def few_segments_in_flight(stage):
    """The congestion window is clamped to 4 segments by the route, and acknowledgements come slowly."""
    network = stage.net
    network.server.write_proc("ipv4/tcp_congestion_control", "reno")  # BBR would pace instead
    network.server.ip(f"route add 10.83.0.1/32 dev {network.server_device} cwnd lock 4")
    # The clamp is looked at for peers that TCP remembers (tcp_init_metrics()): one connection before.
    with system.inside(network.server.fd):
        listener = socket.create_server((network.server_address[4], 0))
    with listener:
        with system.inside(network.client.fd):
            client = socket.create_connection(listener.getsockname())
        with listener.accept()[0] as accepted:
            client.close()
            accepted.recv(1)
    network.client.tc(f"qdisc add dev {network.client_device} root tbf rate 250kbit burst 600 limit 200000")


def later_by(at_least_us):
    """The median grows by that much, and the added time is in the stages of the application."""
    own = ("socket_queue", "app", "app_blocked", "app_run_queue", "app_irq", "send", "tx_queue")

    def judge(guilty, innocent):
        medians = [statistics.median([one["total_ns"] for one in judged(outcome)] or [0])
                   for outcome in (guilty, innocent)]
        grown = medians[0] - medians[1]
        whole = sum(one["total_ns"] for one in judged(guilty))
        part = sum(stage_ns(one, name) for one in judged(guilty) for name in own) / max(1, whole)
        text = f"median later by {grown / 1000:.0f} us; {part:.0%} of all time in the application"
        return ([text] if grown < at_least_us * 1000 or part < 0.8 else []), Seen(text, part)

    return judge


BURSTS = "--rate 100 --burst 4 --count 800 --size 1000"
TSQ_BURSTS = "--rate 25 --burst 8 --count 240 --reply-bytes 4000"
UNREPORTED_S = 2.2  # a reply that has not been reported to leave by then is counted as lost

SCENARIOS = (
    Scenario("tx-tbf", FAMILY, "a token bucket of 8 Mbit/s on the way out; partner: 1 Gbit/s", "tx_queue, qdisc tbf",
             Run("", BURSTS, veth=True, network=tbf("8mbit"), drain_s=UNREPORTED_S),
             Run("", BURSTS, veth=True, network=tbf("1gbit"), drain_s=UNREPORTED_S),
             (blames("tx_queue", "qdisc tbf on wls", 500, 100), counts(unreported=0.02), paired())),
    with_and_without("tx-gso", FAMILY, "TCP replies of 200 kB, cut into many segments; a real-time task",
                     "run_queue, rt-task",
                     Run("--proto tcp --size 200000", "--rate 200 --count 400 --size 200000", veth=True,
                         cause=fifo_bursts),
                     (blames("run_queue", r"rt-task\[", 1000, 40), counts(unmatched=1, incomplete=0.05))),
    with_and_without("tx-uring", FAMILY, "replies sent by io_uring", "run_queue, rt-task",
                     Run("--send io_uring", PACED, cause=fifo_bursts),
                     (blames("run_queue", r"rt-task\[", 1000, 45), *EXACT)),
    with_and_without("tx-sendfile", FAMILY, "TCP replies by sendfile; a real-time task", "run_queue, rt-task",
                     Run("--proto tcp --send sendfile", PACED, cause=fifo_bursts),
                     (blames("run_queue", r"rt-task\[", 1000, 45), *EXACT)),
    with_and_without("tx-splice", FAMILY, "TCP replies by splice; a real-time task", "run_queue, rt-task",
                     Run("--proto tcp --send splice", PACED, cause=fifo_bursts),
                     (blames("run_queue", r"rt-task\[", 1000, 45), *EXACT)),
    Scenario("tx-tsq", FAMILY, "bursts of replies of 4 kB on one connection, 20 Mbit/s; partner: 1 Gbit/s",
             "tx_queue, TCP small queues",
             Run("--proto tcp --reply-bytes 4000", TSQ_BURSTS, veth=True, network=slow_device("20mbit"),
                 drain_s=UNREPORTED_S),
             Run("--proto tcp --reply-bytes 4000", TSQ_BURSTS, veth=True, network=slow_device("1gbit")),
             (blames("tx_queue", "TCP small queues", 4000, 50), counts(unreported=0.02), paired(no_number=0.05))),
    Scenario("tx-nagle", FAMILY, "Nagle's algorithm holds small writes until the one before is acknowledged",
             "tx_queue, Nagle",
             Run("--proto tcp --nagle --reply-split 32", "--rate 50 --count 100"),
             Run("--proto tcp --reply-split 32", "--rate 50 --count 100"),
             (blames("tx_queue", "Nagle", 2000, 50), *EXACT)),
    Scenario("tx-reply-later", FAMILY, "another thread sends the reply, 2 ms later; partner: at once",
             "the wait inside the application",
             Run("--reply-thread --reply-after-us 2000", "--rate 200 --count 400"),
             Run("--reply-thread", "--rate 200 --count 400"), (later_by(1500), *EXACT)),
    Scenario("tx-sendmmsg", FAMILY, "replies to a batch leave together by sendmmsg; partner: one call each",
             "app, the work for the whole batch",
             Run("--batch 16 --send sendmmsg --work-us 100", "--rate 40 --burst 16 --count 1280"),
             Run("--batch 16 --send sendmmsg --work-us 100", "--rate 640 --count 1280"),
             (answered(), later_by(500), *EXACT)),
    Scenario("tx-udp-gso", FAMILY, "replies to a batch leave as one UDP_SEGMENT send; partner: no batches",
             "app, the work for the whole batch",
             Run("--batch 16 --send gso --work-us 100", "--rate 40 --burst 16 --count 1280", veth=True),
             Run("--batch 16 --send gso --work-us 100", "--rate 640 --count 1280", veth=True),
             (answered(), later_by(500), *EXACT)),
    Scenario("tx-closed-window", FAMILY, "the client reads slowly: the replies wait for its window",
             "tx_queue, the client's window",
             Run("--proto tcp --reply-bytes 100000",
                 "--count 60 --window 4 --wait block --reply-bytes 100000 --rcvbuf 4096 --read-every-us 300 "
                 "--timeout-ms 10000"),
             Run("--proto tcp --reply-bytes 100000", "--count 60 --window 4 --wait block --reply-bytes 100000"),
             (blames("tx_queue", "receive window|zero window", 1000, 20), counts(incomplete=0.1))),
    Scenario("tx-congestion-window", FAMILY, "replies of 7 segments, a congestion window of 4, slow acknowledgements",
             "tx_queue, congestion window",
             Run("--proto tcp --reply-bytes 9000", "--rate 10 --burst 4 --count 120 --reply-bytes 9000", veth=True,
                 network=few_segments_in_flight),
             Run("--proto tcp --reply-bytes 9000", "--rate 10 --burst 4 --count 120 --reply-bytes 9000", veth=True),
             (blames("tx_queue", "congestion window", 1000, 30), counts(incomplete=0.1))),
)
