# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ways to run the softirq that receives."""
import os
import socket
import time

from ..judge.verdicts import blames, each, happens
from ..model import Run, Scenario
from ..rig import ebpf, machine, system
from ..rig.process import Failed, Forked
from .common import EXACT, PACED, fifo_bursts, with_and_without

FAMILY = "softirq"
FLOOD_GROUP, FLOOD_PORT = "239.83.9.9", 9


def steer_to_server(stage):
    stage.net.steer_to(stage.server_cpu)


def veth_napi(stage):
    stage.net.enable_napi()


def threaded_napi(stage):
    """The NAPI of the responder's end gets a thread, which sits on the responder's CPU."""
    stage.net.enable_napi()
    stage.net.server.write_sys(f"{stage.net.server_device}/threaded", 1)
    name = f"napi/{stage.net.server_device}"
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (system.read_text(f"/proc/{entry}/comm") or "").startswith(name):
            os.sched_setaffinity(int(entry), {stage.server_cpu})
            return
    raise Failed("there is no NAPI thread")


def xdp_generic(stage):
    stage.add(ebpf.pass_in_xdp(stage.net.server.fd, stage.net.server_device))


def flood(stage):
    """Bursts of packets through the same queue, each of which is dear: it goes to 200 sockets."""

    def listeners(ready):
        system.set_name("listeners")
        system.setns(stage.net.server.fd)
        membership = socket.inet_aton(FLOOD_GROUP) + socket.inet_aton(stage.net.server_address[4])
        kept = []
        for _ in range(200):
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((FLOOD_GROUP, FLOOD_PORT))
            one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            kept.append(one)
        ready()
        while True:
            time.sleep(10)

    def sender(ready):
        system.set_name("flood")
        os.sched_setaffinity(0, {stage.client_cpu})
        system.setns(stage.net.client.fd)
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ready()
        while True:
            for _ in range(60):
                one.sendto(b"x" * 32, (FLOOD_GROUP, FLOOD_PORT))
            time.sleep(0.008)

    stage.add(Forked(listeners))
    stage.add(Forked(sender))


def small_budget(stage):
    steer_to_server(stage)
    stage.add(system.setting("/proc/sys/net/core/netdev_budget", 32))


def on_cpu_of(which):
    # Asked only when a record is judged: the table can be listed on any machine.
    return lambda one: one["softirq"]["cpu"] == dict(zip(("server", "client"), machine.cpus()))[which]


def mode(name):
    return lambda one: one["softirq"]["mode"] == name


def hops(guilty, innocent):
    """Both CPUs are named: the softirq ran on the responder's in one run, on the sender's in the other."""
    return (each("softirq on the responder's CPU", on_cpu_of("server"), 0.95)(guilty, None)[0] +
            each("softirq on the sender's CPU", on_cpu_of("client"), 0.95)(innocent, None)[0]), None


SCENARIOS = (
    with_and_without("softirq-inline", FAMILY,
                     "the softirq runs in the sender's own call; a real-time task at the responder",
                     "run_queue, rt-task; mode inline", Run("", PACED, cause=fifo_bursts, veth=True),
                     (blames("run_queue", r"rt-task\[", 1000, 45),
                      each("inline", mode("inline"), 0.9, only_guilty=False),
                      each("on the sender's CPU", on_cpu_of("client"), 0.95, only_guilty=False), *EXACT)),
    Scenario("softirq-rps", FAMILY, "packets are steered to the responder's CPU (RPS); partner: not steered",
             "both CPUs named", Run("", PACED, veth=True, network=steer_to_server), Run("", PACED, veth=True),
             (hops, *EXACT)),
    with_and_without("softirq-veth-napi", FAMILY, "veth with a NAPI of its own; a real-time task at the responder",
                     "run_queue, rt-task", Run("", PACED, cause=fifo_bursts, veth=True, network=veth_napi),
                     (blames("run_queue", r"rt-task\[", 1000, 45), *EXACT)),
    with_and_without("softirq-threaded-napi", FAMILY, "a NAPI thread that must wait behind a real-time task",
                     "softirq_wait, rt-task; mode threaded_napi",
                     Run("", PACED, cause=fifo_bursts, veth=True, network=threaded_napi),
                     (blames("softirq_wait", r"rt-task\[", 1000, 45),
                      each("threaded", mode("threaded_napi"), 0.9, only_guilty=False), *EXACT)),
    with_and_without("softirq-xdp-generic", FAMILY,
                     "generic XDP lets all packets pass; a real-time task at the responder",
                     "run_queue, rt-task", Run("", PACED, cause=fifo_bursts, veth=True, network=xdp_generic),
                     (blames("run_queue", r"rt-task\[", 1000, 45), *EXACT)),
    with_and_without("softirq-flood", FAMILY, "bursts of other packets in the same softirq, a budget of 32",
                     "softirq_poll: packets ahead of it",
                     Run("", PACED, cause=flood, veth=True, network=small_budget),
                     (happens("softirq_poll", 100, 20), *EXACT)),
)
