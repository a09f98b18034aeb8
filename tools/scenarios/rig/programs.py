# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The project's programs: responder, client, tracer, and what they write."""
import json
import os
import signal

from .process import Child, Failed

_CLIENT_S = 60


class Binaries:
    def __init__(self, directory):
        self.whylate = os.path.join(directory, "whylate")
        self.echo = os.path.join(directory, "whylate-echo")
        for path in (self.whylate, self.echo):
            if not os.access(path, os.X_OK):
                raise Failed(f"{path} is missing; build it, or name the directory with --bin")


def read_log(path):
    """A server's log of its reads: thread -> [(number or None, time)]."""
    log = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith("#") or not line.strip():
                continue
            tid, _, number, read_ns = line.split()[:4]
            log.setdefault(int(tid), []).append((None if number == "-" else int(number), int(read_ns)))
    return log


def read_requests(path):
    """A client's record of its requests: number -> (time sent, time of the reply or None)."""
    with open(path, encoding="ascii") as file:
        next(file)  # the header
        return {one["id"]: (one["sent_ns"], one["received_ns"]) for one in map(json.loads, file)}


class Server:
    """A responder with a log of its reads: `whylate-echo server`, as a rule."""

    def __init__(self, argv, log, netns_fd, before_exec=None, new_session=False):
        self.log_file = log
        self.child = Child(argv, netns_fd, before_exec, new_session)
        try:
            ready = self.child.wait_line("ready ")
        except Failed:
            self.child.end()
            raise
        self.port = int(dict(word.split("=", 1) for word in ready.split()[1:])["port"])

    def stop(self):
        self.child.stop(signal.SIGTERM)


class Client:
    """`whylate-echo client`, with a record of each request."""

    def __init__(self, binaries, requests, arguments, netns_fd, before_exec=None):
        self.requests_file = requests
        self.child = Child([binaries.echo, "client", "--json", "--requests", requests] + arguments, netns_fd,
                           before_exec)

    def finish(self, may_fail=False):
        """Its summary."""
        code = self.child.wait(_CLIENT_S)
        try:
            summary = json.loads(self.child.out())
        except ValueError:
            raise Failed(f"whylate-echo client: exit code {code}: {self.child.err().strip()}") from None
        if code != 0 and not may_fail:
            raise Failed(f"whylate-echo client: exit code {code}: {self.child.err().strip()}")
        return summary


class Tracer:
    """`whylate trace --json-lines`; attached when the constructor is through."""

    def __init__(self, binaries, output, selection, arguments=(), before_exec=None):
        self.output = output
        self.child = Child([binaries.whylate, "trace", "--json-lines", "-o", output] + list(selection) +
                           list(arguments), before_exec=before_exec)
        try:
            self.child.wait_line("attached in", 30, stream="err")
        except Failed:
            self.child.end()
            raise

    def stop(self):
        """Ends it by ^C; (exit code, records, summary or None)."""
        code = self.child.stop(signal.SIGINT, 30)
        records, summary = [], None
        with open(self.output, encoding="ascii") as file:
            for line in file:
                value = json.loads(line)
                if value["schema"] == "whylate.summary/1":
                    summary = value
                else:
                    records.append(value)
        return code, records, summary


def correlate(binaries, requests, client, slowest):
    """What `whylate correlate --json` says; None when it finds nothing to join."""
    with Child([binaries.whylate, "correlate", "--requests", requests, "--client", client, "--json", "--slowest",
                str(slowest)]) as child:
        return json.loads(child.out()) if child.wait(30) == 0 else None
