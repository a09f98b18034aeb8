# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes that a scenario starts and that end with it."""
import os
import signal
import subprocess
import tempfile
import time

from . import system


class Failed(Exception):
    """The scenario could not be set up or driven; says nothing about the tracer."""


class Child:
    """A started program. Its output goes to files, so that it never waits for a reader."""

    def __init__(self, argv, netns_fd=None, before_exec=None, new_session=False):
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        self.name = os.path.basename(argv[0])

        def prepare():
            system.die_with_parent()
            if before_exec is not None:
                before_exec()
            if netns_fd is not None:
                system.setns(netns_fd)

        # A group of its own: a ^C at the terminal reaches the runner alone, which ends the rest.
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err,
                                        preexec_fn=prepare, start_new_session=new_session,
                                        process_group=None if new_session else 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def pid(self):
        return self.process.pid

    def out(self):
        return self._text(self._out)

    def err(self):
        return self._text(self._err)

    @staticmethod
    def _text(file):
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), size, 0).decode("utf-8", "replace")

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, seconds):
        """The exit code; Failed when it does not end in that time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} does not end: {self.err()[-400:]}") from None

    def stop(self, number=signal.SIGTERM, seconds=20):
        self.send(number)
        return self.wait(seconds)

    def end(self):
        """Makes sure that it is gone."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def wait_line(self, text, seconds=20, stream="out"):
        """The first whole line that contains the text; Failed when there is none."""
        end = time.monotonic() + seconds
        while True:
            ended = self.process.poll() is not None
            lines = (self.out() if stream == "out" else self.err()).split("\n")[:-1]
            for line in lines:
                if text in line:
                    return line
            if ended or time.monotonic() > end:
                raise Failed(f"{self.name}: no line with '{text}': {self.err()[-400:]}")
            time.sleep(0.005)


class Newcomer:
    """A started program with the process id of one that has ended; `output`: where it writes."""

    def __init__(self, pid, argv, output, netns_fd, seconds=5):
        self.pid = None
        self.output = output
        end = time.monotonic() + seconds
        while self.pid is None:
            try:
                self.pid = system.fork_as(pid)
            except FileExistsError:  # the kernel lets go of an id a moment later
                if time.monotonic() > end:
                    raise Failed(f"the process id {pid} does not become free") from None
                time.sleep(0.001)
        if self.pid == 0:
            try:
                system.die_with_parent()
                os.setpgid(0, 0)
                system.setns(netns_fd)
                out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.dup2(out, 1)
                os.dup2(out, 2)
                os.execv(argv[0], argv)
            finally:
                os._exit(1)

    def wait_line(self, text, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in (system.read_text(self.output) or "").split("\n"):
                if text in line:
                    return line
            time.sleep(0.005)
        raise Failed(f"the newcomer with id {self.pid}: no line with '{text}'")

    def end(self):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = None


def run(argv, netns_fd=None, seconds=20):
    """Runs a program to its end, which must be a good one; its output."""
    with Child(argv, netns_fd) as child:
        if child.wait(seconds) != 0:
            raise Failed(f"{' '.join(argv)}: {child.err().strip()}")
        return child.out()


class Forked:
    """A copy of this process that runs a function; it ends at the latest with this object."""

    def __init__(self, body, new_session=False):
        self._ready, ready = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                system.die_with_parent()
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                if new_session:
                    os.setsid()
                else:
                    os.setpgid(0, 0)  # as for Child
                body(lambda: os.write(ready, b"+"))
                code = 0
            except BaseException as error:  # nothing may get out of the copy
                os.write(2, f"{error}\n".encode())
            os._exit(code)
        os.close(ready)
        self._status = None
        if os.read(self._ready, 1) != b"+":
            self.end()
            raise Failed("a load could not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def wait(self, seconds):
        """The exit code; Failed when it does not end in that time."""
        end = time.monotonic() + seconds
        while self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = status
            elif time.monotonic() > end:
                raise Failed("a load does not end")
            else:
                time.sleep(0.005)
        return os.waitstatus_to_exitcode(self._status)

    def end(self):
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._status = os.waitpid(self.pid, 0)[1]
        if self._ready is not None:
            os.close(self._ready)
            self._ready = None
