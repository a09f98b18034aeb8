# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A UDP responder that does what whylate-echo never would: replace itself, divide, or die, each in
the middle of a request (thread-exec: a thread does, once, not the leader); or have its first requests
answered by a thread that then ends (thread).
Started as a program: responder.py HOST LOG exec|thread-exec|fork|die|thread EVERY [FD ORDER]

Its log and its ready line are those of whylate-echo server.
"""
import os
import socket
import sys
import threading
import time

_MESSAGE = 2048


def main():
    host, log_path, what, every = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    pending = b""
    if len(sys.argv) > 5:  # it replaced itself: the request in hand is still to be answered
        one = socket.socket(fileno=int(sys.argv[5]))
        order = int(sys.argv[6])
        peer = (host, int(sys.argv[7]))
        pending = bytes.fromhex(sys.argv[8])
        one.sendto(pending, peer)
    else:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind((host, 0))
        order = 0
        print(f"ready pid={os.getpid()} port={one.getsockname()[1]} proto=udp listen={host}", flush=True)
    one.set_inheritable(True)
    log = open(log_path, "a", buffering=1, encoding="ascii")
    if what in ("thread", "thread-exec") and not pending:
        arguments = (one, log, every) if what == "thread" else (one, log, None, "exec", every, order)
        helper = threading.Thread(target=answer, args=arguments)
        helper.start()
        helper.join()
    answer(one, log, None, what, every, order)


def answer(one, log, most, what="", every=1, order=0):
    while order != most:
        message, peer = one.recvfrom(_MESSAGE)
        now = time.monotonic_ns()
        log.write(f"{threading.get_native_id()} {order} {int.from_bytes(message[:8], 'little')} {now}\n")
        order += 1
        if order % every == 0 and what == "exec":
            os.execv(sys.executable, [sys.executable] + sys.argv[:5] +
                     [str(one.fileno()), str(order), str(peer[1]), message.hex()])
        if order % every == 0 and what == "die":
            os._exit(0)
        if order % every == 0 and what == "fork":
            child = os.fork()
            if child == 0:
                one.sendto(message, peer)
                os._exit(0)
            os.waitpid(child, 0)
            continue
        one.sendto(message, peer)


if __name__ == "__main__":
    main()
