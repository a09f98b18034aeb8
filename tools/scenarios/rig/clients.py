# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Clients whose sockets live for one request each. They number their requests as whylate-echo does and
leave a summary with the same keys."""
import os
import socket

from . import system
from .process import Failed, Forked

_SIZE = 64
_TIMEOUT_S = 5


def _exchange(one, number):
    message = number.to_bytes(8, "little") + bytes(_SIZE - 8)
    one.sendall(message)
    got = b""
    while len(got) < _SIZE:
        part = one.recv(_SIZE - len(got))
        if not part:
            break
        got += part
    return got == message


def short_lived(stage, count, kind=socket.SOCK_DGRAM):
    """Sends `count` requests, each from a socket (and so a port) of its own; the summary."""
    host, port = stage.net.server_address[stage.run.family], stage.server.port
    family = socket.AF_INET6 if stage.run.family == 6 else socket.AF_INET
    result_file = stage.file("short")

    def body(ready):
        os.sched_setaffinity(0, {stage.client_cpu})
        system.setns(stage.net.client.fd)
        ready()
        received = 0
        for number in range(count):
            with socket.socket(family, kind) as one:
                one.settimeout(_TIMEOUT_S)
                if kind == socket.SOCK_STREAM:
                    # Closed without waiting: the ports of one second would not do otherwise.
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.connect((host, port))
                received += _exchange(one, number)
        system.write_text(result_file, received)

    with Forked(body) as client:
        if client.wait(60) != 0:
            raise Failed("the client with short-lived sockets failed")
    return {"sent": count, "received": int(system.read_text(result_file))}
