# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Loads with a name of their own. Each is a process that ends with the object returned."""
import ctypes
import fcntl
import mmap
import os
import resource
import signal
import struct
import subprocess
import time

from . import machine, system
from .process import Child, Failed, Forked

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_PERF_TYPE_SOFTWARE, _PERF_CPU_CLOCK, _PERF_DUMMY = 1, 0, 9
_PERF_ENABLE, _PERF_DISABLE = 0x2400, 0x2401


def become(name, cpu, policy=os.SCHED_OTHER, priority=0, nice=0):
    """Makes the calling process a load: its name, its CPU, its policy."""
    system.set_name(name)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    if policy != os.SCHED_OTHER:
        machine.enter_root_cpu_group()
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    if nice:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    time.sleep(0.001)  # from the next switch on it counts as what it now is


def hog(name, cpu, busy_us=0, idle_us=0, session=False, **place):
    """Computes on that CPU, always or for busy_us after each sleep of idle_us."""

    def body(ready):
        become(name, cpu, **place)
        ready()
        if not busy_us:
            while True:
                pass
        while True:
            end = time.monotonic_ns() + busy_us * 1000
            while time.monotonic_ns() < end:
                pass
            time.sleep(idle_us * 1e-6)

    return Forked(body, session)


class _StressNg(Child):
    """Killed, it would leave its worker to process 1, and what that has computed counted as foreign."""

    def end(self):
        self.send(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        super().end()


def stress_ng(cpu, directory):
    """`stress-ng --cpu 1` with its FFT method, as practitioners use it."""
    child = _StressNg(["stress-ng", "--quiet", "--cpu", "1", "--cpu-method", "fft", "--taskset", str(cpu), "--timeout",
                   "60", "--temp-path", directory])
    time.sleep(0.4)
    if child.process.poll() is not None:
        raise Failed(f"stress-ng: {child.err()}")
    return child


def timer_bursts(cpu, count=1000, every_us=10_370):
    """`count` timers expire on that CPU one right after the other about every 10 ms, by themselves; their
    handlers run in the timer interrupt. They are those of performance events that are switched on together.
    The period is no multiple of a client's: in step with it they would hit every request or none."""

    def body(ready):
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 64, count + 64))
        become("timers", cpu)
        group = _perf_group(cpu, count, _PERF_CPU_CLOCK, every_us * 1000)
        fcntl.ioctl(group, _PERF_ENABLE, 0)
        ready()
        while True:
            time.sleep(1)

    return Forked(body)


def _perf_group(cpu, count, event, period=0):
    """Software events of a CPU that are switched on and off together; the leader, which is off."""
    number = _PERF_EVENT_OPEN[os.uname().machine]
    group = -1
    for _ in range(count):
        attributes = ctypes.create_string_buffer(
            struct.pack("=IIQQQQQ", _PERF_TYPE_SOFTWARE, 64, event, period, 0, 0, group == -1), 64)
        fd = system.check(system.libc.syscall(number, attributes, -1, cpu, group, 0), "perf_event_open")
        group = fd if group == -1 else group
    return group


def interrupts_between_cpus(from_cpu, to_cpu, events=48):
    """Makes `to_cpu` run a function for `from_cpu` as often as it can: a group of performance events of
    that CPU is switched on and off, each time by an interrupt from the other."""

    def body(ready):
        become("ipi-sender", from_cpu)
        group = _perf_group(to_cpu, events, _PERF_DUMMY)
        ready()
        while True:
            fcntl.ioctl(group, _PERF_ENABLE, 0)
            fcntl.ioctl(group, _PERF_DISABLE, 0)

    return Forked(body)


def deferred_interrupts(cpu, every_us=200):
    """Samples of a clock event of that CPU, each with a wake-up of whoever reads them. A wake-up cannot be
    done where the sample is taken: the kernel queues it as irq_work, an interrupt of its own."""

    def body(ready):
        become("sampler", None)
        # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_IP, a wake-up for each sample.
        attributes = ctypes.create_string_buffer(
            struct.pack("=IIQQQQQI", 1, 64, 0, every_us * 1000, 1, 0, 0, 1), 64)
        fd = system.check(system.libc.syscall(_PERF_EVENT_OPEN[os.uname().machine], attributes, -1, cpu, -1, 0),
                          "perf_event_open")
        # Mapped without PROT_WRITE the ring is overwritten when full: nobody has to read it.
        with mmap.mmap(fd, 2 * mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ):
            ready()
            while True:
                time.sleep(1)

    return Forked(body)


def short_tasks(total, cpu):
    """So many processes that end at once, one after the other."""

    def body(ready):
        become("forker", cpu)
        ready()
        for _ in range(total):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)

    return Forked(body)


def short_threads(total, cpu):
    """So many threads of one process that end at once, one after the other."""

    def body(ready):
        become("threader", cpu)
        # A function of the C library as the body: this interpreter would take far longer.
        start = ctypes.cast(system.libc.getpid, ctypes.c_void_p)
        thread = ctypes.c_ulong()
        ready()
        for _ in range(total):
            if system.libc.pthread_create(ctypes.byref(thread), None, start, None) != 0:
                raise OSError("pthread_create")
            system.libc.pthread_join(thread, None)

    return Forked(body)
