# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The machine that the scenarios run on: its CPUs, and what others use of them."""
import contextlib
import os
import time

from . import system
from .process import Failed


def cpus():
    """(responder's CPU, everybody else's CPU)."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise Failed("the scenarios need two CPUs")
    return usable[1], usable[0]


def _processes():
    """pid -> (parent, name, clock ticks of it and of the children that it has waited for). Process 1 also
    waits for orphans, a load's workers among them: only its own count."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        text = system.read_text(f"/proc/{entry}/stat")
        if not text:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        fields = text[text.rindex(")") + 2:].split()
        found[int(entry)] = (int(fields[1]), name,
                             sum(int(ticks) for ticks in fields[11:13 if entry == "1" else 15]))
    return found


def _is_own(processes, pid):
    while pid > 1:
        if pid == os.getpid():
            return True
        if pid not in processes:
            return False
        pid = processes[pid][0]
    return False


def _foreign_ticks():
    """Ticks of tasks that this runner did not start, and those a hypervisor took. ksoftirqd handles
    the scenario's own packets and is left out."""
    processes = _processes()
    steal = int(system.read_text("/proc/stat").split()[8])
    return steal + sum(ticks for pid, (_, name, ticks) in processes.items()
                       if not name.startswith("ksoftirqd/") and not _is_own(processes, pid))


def _run_times():
    """Thread id -> ns that it has run (/proc/TID/schedstat, Documentation/scheduler/sched-stats.rst)."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has just ended
            for tid in os.listdir(f"/proc/{pid}/task"):
                text = system.read_text(f"/proc/{pid}/task/{tid}/schedstat")
                if text:
                    found[int(tid)] = int(text.split()[0])
    return found


class ForeignLoad:
    """What others used of the CPUs since the construction."""

    def __init__(self):
        self._begin = time.monotonic()
        self._ticks = _foreign_ticks()
        self._run_times = _run_times()

    def ran(self):
        """Thread id -> ns, of all that ran and live still."""
        return {tid: ns - self._run_times.get(tid, 0) for tid, ns in _run_times().items()
                if ns > self._run_times.get(tid, 0)}

    def share(self):
        """In parts of one CPU."""
        used = max(0, _foreign_ticks() - self._ticks) / os.sysconf("SC_CLK_TCK")
        return used / max(1e-3, time.monotonic() - self._begin)


def cgroup_cpu_root():
    """(directory of the CPU controller's root group, version); None without one."""
    if os.path.exists("/sys/fs/cgroup/cpu/tasks"):
        return "/sys/fs/cgroup/cpu", 1
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if "cpu" in (system.read_text(f"{root}/cgroup.controllers") or "").split():
            return root, 2
    return None


def enter_root_cpu_group():
    """For a child: the only group where a real-time policy is allowed without a budget for it."""
    found = cgroup_cpu_root()
    if found is not None:
        system.write_text(f"{found[0]}/cgroup.procs", "0")


class CpuGroup:
    """A group of the CPU controller, gone at the end."""

    _number = 0

    def __init__(self, quota_us=None, period_us=None, rt_runtime_us=None):
        found = cgroup_cpu_root()
        if found is None:
            raise Failed("no CPU controller of cgroups can be used here")
        root, version = found
        CpuGroup._number += 1
        self.name = f"wlscenario-{os.getpid()}-{CpuGroup._number}"
        self._directory = f"{root}/{self.name}"
        if version == 2:
            system.write_text(f"{root}/cgroup.subtree_control", "+cpu")
        os.mkdir(self._directory)
        try:
            if quota_us is not None and version == 1:
                system.write_text(f"{self._directory}/cpu.cfs_period_us", period_us)
                system.write_text(f"{self._directory}/cpu.cfs_quota_us", quota_us)
            elif quota_us is not None:
                system.write_text(f"{self._directory}/cpu.max", f"{quota_us} {period_us}")
            if rt_runtime_us is not None:
                system.write_text(f"{self._directory}/cpu.rt_period_us", period_us)
                system.write_text(f"{self._directory}/cpu.rt_runtime_us", rt_runtime_us)
        except OSError:
            os.rmdir(self._directory)
            raise

    def enter(self):
        """Moves the calling process in."""
        system.write_text(f"{self._directory}/cgroup.procs", "0")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(200):
            try:
                os.rmdir(self._directory)
                return
            except OSError:  # a process that just ended leaves its group a moment later
                time.sleep(0.01)
        raise Failed(f"cannot remove {self._directory}")
