# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ways for a reply to leave late."""
from ..judge.counts import counts, paired
from ..judge.verdicts import blames
from ..model import Run, Scenario
from .common import EXACT, fifo_bursts, with_and_without

FAMILY = "transmit"


def tbf(rate):
    def network(stage):
        stage.net.server.tc(f"qdisc add dev {stage.net.server_device} root tbf rate {rate} burst 2000 limit 200000")

    return network


BURSTS = "--rate 100 --burst 4 --count 800 --size 1000"

SCENARIOS = (
    Scenario("tx-tbf", FAMILY, "a token bucket of 8 Mbit/s on the way out; partner: 1 Gbit/s", "tx_queue, qdisc tbf",
             Run("", BURSTS, veth=True, network=tbf("8mbit")), Run("", BURSTS, veth=True, network=tbf("1gbit")),
             (blames("tx_queue", "qdisc tbf on wls", 500, 300), *EXACT)),
    with_and_without("tx-gso", FAMILY, "TCP replies of 200 kB, cut into many segments; a real-time task",
                     "run_queue, rt-task",
                     Run("--proto tcp --size 200000", "--rate 200 --count 400 --size 200000", veth=True,
                         cause=fifo_bursts),
                     (blames("run_queue", r"rt-task\[", 1000, 40), counts(incomplete=0.05))),
    Scenario("tx-nagle", FAMILY, "Nagle's algorithm holds the second reply until the first is acknowledged",
             "send or app_blocked: never the application's computing",
             Run("--proto tcp --nagle", "--rate 100 --burst 2 --count 400"),
             Run("--proto tcp", "--rate 100 --burst 2 --count 400"),
             (blames("tx_queue", "Nagle", 2000, 50), counts(), paired(no_number=0.05))),
)
