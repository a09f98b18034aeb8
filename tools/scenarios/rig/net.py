# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Network namespaces without names: whatever happens, none is left over."""
import os

from . import system
from .process import Forked, run


class NetNs:
    """A network namespace with its loopback device up; it goes with the last process in it."""

    def __init__(self):
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            system.unshare(system.CLONE_NEWNET)
            self.fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            system.setns(home)
        finally:
            os.close(home)
        self.ip("link set lo up")

    def close(self):
        os.close(self.fd)

    def ip(self, arguments):
        run(["ip"] + arguments.split(), self.fd)

    def tc(self, arguments):
        run(["tc"] + arguments.split(), self.fd)

    def ethtool(self, arguments):
        run(["ethtool"] + arguments.split(), self.fd)

    def write_sys(self, path, value):
        """Writes to a file below /sys/class/net of this namespace."""

        def body(ready):
            system.setns(self.fd)
            system.mount_sysfs()
            system.write_text(f"/sys/class/net/{path}", value)
            ready()

        with Forked(body) as child:
            child.wait(5)

    def write_proc(self, path, value):
        """Writes to a file below /proc/sys/net as this namespace has it."""
        with system.inside(self.fd):
            system.write_text(f"/proc/sys/net/{path}", value)


class Net:
    """Where client and responder live. Addresses by family, 4 and 6."""

    def __init__(self, stack, veth):
        self.client = self._namespace(stack)
        self.server = self._namespace(stack) if veth else self.client
        self.client_device, self.server_device = ("wlc", "wls") if veth else ("lo", "lo")
        self.server_address = {4: "10.83.0.2", 6: "fd83::2"} if veth else {4: "127.0.0.1", 6: "::1"}
        if veth:
            self._join()

    @staticmethod
    def _namespace(stack):
        namespace = NetNs()
        stack.callback(namespace.close)
        return namespace

    def _join(self):
        macs = {"wlc": "02:83:00:00:00:01", "wls": "02:83:00:00:00:02"}
        peer = f"/proc/{os.getpid()}/fd/{self.server.fd}"
        self.client.ip(f"link add wlc address {macs['wlc']} type veth peer name wls address {macs['wls']} netns {peer}")
        for side, device, own, other, peer_mac in ((self.client, "wlc", 1, 2, macs["wls"]),
                                                   (self.server, "wls", 2, 1, macs["wlc"])):
            side.ip(f"link set {device} addrgenmode none")
            side.ip(f"addr add 10.83.0.{own}/24 dev {device}")
            side.ip(f"addr add fd83::{own}/64 dev {device} nodad")
            side.ip(f"link set {device} up")
            # Asking for it can take a second on a device that just came up.
            side.ip(f"neigh add 10.83.0.{other} lladdr {peer_mac} dev {device} nud permanent")
            side.ip(f"neigh add fd83::{other} lladdr {peer_mac} dev {device} nud permanent")
        self.client.ip("route add 224.0.0.0/4 dev wlc")

    def host(self, family=4):
        address = self.server_address[family]
        return f"[{address}]" if family == 6 else address

    def enable_napi(self):
        """The responder's end of the pair gets a NAPI of its own, for every packet: veth uses it for packets
        that can be merged only, or if the sender does not segment in "hardware"
        (veth_skb_is_eligible_for_gro())."""
        self.server.ethtool(f"-K {self.server_device} gro on")
        self.client.ethtool(f"-K {self.client_device} tso off")

    def steer_to(self, cpu):
        """Packets for the responder are handled on that CPU (RPS)."""
        self.server.write_sys(f"{self.server_device}/queues/rx-0/rps_cpus", f"{1 << cpu:x}")
