# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Waiting for a CPU: who had it, by which right; and quotas, which are not contention."""
import os
import re
import time

from ..judge.counts import counts, paired
from ..judge.verdicts import WAITS, absent, blames, each, grows, holds, judged, never_blames, outweighs, \
    summary_agrees, tally
from ..model import Run, Scenario, Seen
from ..rig import causes, machine, system
from ..rig.process import Forked
from .common import EXACT, PACED, fifo_bursts, with_and_without

FAMILY = "scheduler"
AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"


def two_hogs_and_a_brief_task(stage):
    stage.add(causes.hog("hog-a", stage.server_cpu))
    stage.add(causes.hog("hog-b", stage.server_cpu))
    stage.add(causes.hog("brief", stage.server_cpu, busy_us=30, idle_us=1000))


def stress_ng(stage):
    stage.add(causes.stress_ng(stage.server_cpu, stage.directory))


def autogroups(on):
    """Decided before the responder starts: a task is put into its group when it begins."""

    def network(stage):
        stage.add(system.setting(AUTOGROUP, on))

    return network


def nice_hog(stage):
    """nice 19: with autogroups off its weight is 15 against 1024, so it hardly holds anybody up."""
    stage.add(causes.hog("nice-hog", stage.server_cpu, nice=19))


def ordinary_hog(stage):
    stage.add(causes.hog("nice-hog", stage.server_cpu))


def nice_hog_in_another_session(stage):
    stage.add(causes.hog("nice-hog", stage.server_cpu, nice=19, session=True))


def quota(quota_us, period_us=50_000):
    def in_server(stage):
        group = stage.add(machine.CpuGroup(quota_us, period_us))
        stage.facts["group"] = group.name
        return group.enter

    return in_server


def fifo_hog_all_the_time(stage):
    stage.add(causes.hog("rt-hog", stage.server_cpu, policy=os.SCHED_FIFO, priority=50))


def rt_group(stage):
    """The responder is a real-time task in a group that may run for 5 of 50 ms."""
    group = stage.add(machine.CpuGroup(period_us=50_000, rt_runtime_us=5_000))

    def enter():
        group.enter()
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

    return enter


def rt_in_root(stage):
    def enter():
        machine.enter_root_cpu_group()
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

    return enter


def realtime_throttling(guilty, innocent):
    """Whether the wait is before the read or in the middle of the work is a matter of chance."""
    def slow(outcome):
        return [one for one in judged(outcome) if one["total_ns"] > 20_000_000]

    found = slow(guilty)
    right = [one for one in found if one["verdict"]["culprit"] == "real-time budget"]
    part = len(right) / len(found) if found else 0.0
    text = f"{len(right)} of {len(found)} requests above 20 ms; without the cause {len(slow(innocent))}"
    wrong = len(right) < 5 or part < 0.8 or len(right) < 4 * len(slow(innocent))
    return ([f"{text}: {tally(found)}"] if wrong else []), Seen(text, part)


def both_cpus(guilty, _):
    """The responder ran on both CPUs: its waits were cut where it moved."""
    cpus = [stage["cpu"] for one in guilty.records for stage in one["stages"] if stage["name"] == "app"]
    parts = {cpu: cpus.count(cpu) for cpu in set(cpus) if cpu is not None}
    fewest = min(parts.values()) if len(parts) > 1 else 0
    text = f"requests by CPU: {parts}"
    return ([] if fewest >= 10 else [text]), Seen(text)


def only_rt_groups():
    found = machine.cgroup_cpu_root()
    has = found and os.path.exists(f"{found[0]}/cpu.rt_runtime_us")
    return "" if has else "real-time budgets of groups are not in this kernel"


def moved(stage):
    """Every 7 ms the responder must go to the other CPU, waiting or not."""
    fifo_bursts(stage)
    pid = stage.server.child.pid

    def body(ready):
        system.set_name("mover")
        os.sched_setaffinity(0, {stage.client_cpu})
        ready()
        while True:
            for cpu in (stage.server_cpu, stage.client_cpu):
                os.sched_setaffinity(pid, {cpu})
                time.sleep(0.007)

    stage.add(Forked(body))


def tracer_on(responders_cpu):
    """The tracer may use that CPU only, and has it when it wants it."""
    def in_tracer(stage):
        cpu = stage.server_cpu if responders_cpu else stage.client_cpu

        def enter():
            os.sched_setaffinity(0, {cpu})
            machine.enter_root_cpu_group()
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

        return enter

    return in_tracer


def advises_to_move_it(guilty, innocent):
    """The tracer speaks of itself where it disturbed, and there only."""
    with_, without = ([one for one in outcome.summary["findings"] if one["id"] == "own_interference"]
                      for outcome in (guilty, innocent))
    problems = [] if with_ and with_[0]["remedy"] else ["no finding says that the tracer disturbed"]
    return problems + ([f"without the cause: {without[0]['text']}"] if without else []), None


def idle_elsewhere(stage):
    """A real-time task has the responder's CPU for 5 of 15 ms. Whoever is woken meanwhile waits there; then
    the other CPU, which is idle nearly all the time, is allowed as well, and nobody moves the waiting task."""
    server, both = stage.server.child.pid, {stage.server_cpu, stage.client_cpu}

    def compute(us):
        end = time.monotonic_ns() + us * 1000
        while time.monotonic_ns() < end:
            pass

    def body(ready):
        causes.become("rt-task", stage.server_cpu, policy=os.SCHED_FIFO, priority=50)
        ready()
        while True:
            time.sleep(0.010)
            os.sched_setaffinity(server, {stage.server_cpu})
            compute(2500)
            os.sched_setaffinity(server, both)
            compute(2500)

    stage.add(Forked(body))


IDLE_ELSEWHERE = r"CPU \d+, which it may use too, was idle for"


def only_where_allowed(_, innocent):
    """With one CPU to run on there is no other to speak of."""
    wrong = [one for one in judged(innocent) if re.search(IDLE_ELSEWHERE, one["verdict"]["text"])]
    return ([f"{len(wrong)} verdicts speak of an idle CPU that is not allowed"] if wrong else []), None


def names_fifo(record):
    """The kernel keeps real-time priorities upside down: 50 is 49."""
    return all(one["policy"] == "SCHED_FIFO" and one["prio"] == 49 for one in record["occupants"]
               if one["comm"] == "rt-task")


def names_nice_19(record):
    return all(one["nice"] == 19 for one in record["occupants"] if one["comm"] == "nice-hog")


def only_v1():
    """Why a quota of cgroup v2 cannot be set here."""
    found = machine.cgroup_cpu_root()
    return "" if found and found[1] == 2 else "the CPU controller belongs to cgroup v1 on this machine"


def only_v2():
    found = machine.cgroup_cpu_root()
    return "" if found and found[1] == 1 else "the CPU controller belongs to cgroup v2 on this machine"


SLEEPING = "--gap-us 400 --count 3000 --wait block"  # not a client that spins: its CPU is to be idle
WORKING = ("--work-us 1000", "--count 800 --wait block")
LIMITED = Run("--work-us 1000", "--count 400 --wait block", in_server=quota(10_000))
FREE = Run("--work-us 1000", "--count 400 --wait block")
THROTTLED = (blames("throttled", "CPU quota of /wlscenario-", 5000, 6),
             outweighs("throttled", ("run_queue", "app_run_queue")), absent("throttled"), *EXACT)

SCENARIOS = (
    with_and_without("sched-hog", FAMILY, "stress-ng (FFT) on the responder's CPU", "run_queue, stress-ng",
                     Run("--work-us 300", "--rate 800 --count 1600", cause=stress_ng),
                     (blames("run_queue", r"stress-ng", 300, 30, share=0.7),
                      holds("run_queue", {r"stress-ng.*": (0.8, 1)}),
                      summary_agrees("run_queue"), *EXACT)),
    with_and_without("sched-two-hogs-and-a-brief", FAMILY,
                     "two hogs and a task that only runs briefly, often last", "run_queue, the hogs; half each",
                     Run("--work-us 300", "--rate 800 --count 1600", cause=two_hogs_and_a_brief_task),
                     (blames("run_queue", r"hog-[ab]\[", 300, 100, share=0.7),
                      holds("run_queue", {"hog-a": (0.25, 0.75), "hog-b": (0.25, 0.75), "brief": (1e-6, 0.15)}),
                      never_blames("brief", 1000, share=0.01), summary_agrees("run_queue"), *EXACT)),
    with_and_without("sched-fifo", FAMILY, "a SCHED_FIFO task, 5 of 15 ms", "run_queue, rt-task, SCHED_FIFO 50",
                     Run("", PACED, cause=fifo_bursts),
                     (blames("run_queue", r"rt-task\[", 1000, 45, says="SCHED_FIFO, priority 50"),
                      each("policy and priority are right", names_fifo), *EXACT)),
    with_and_without("sched-fifo-hog", FAMILY,
                     "a SCHED_FIFO hog; ordinary tasks get the CPU for 50 ms a second only", "run_queue, rt-hog",
                     Run("", "--rate 200 --count 600 --timeout-ms 5000", cause=fifo_hog_all_the_time),
                     # A second's wait is a third of the requests.
                     (blames("run_queue", r"rt-hog\[", 20_000, 150, says="SCHED_FIFO, priority 50"),
                      counts(switched=0.4), paired())),
    Scenario("sched-nice", FAMILY, "a hog of the same weight; partner: the hog with nice 19",
             "run_queue, the hog; little with nice 19",
             Run(*WORKING, cause=ordinary_hog, network=autogroups(0)),
             Run(*WORKING, cause=nice_hog, network=autogroups(0)),
             (grows(WAITS, 3, 200), holds(WAITS, {"nice-hog": (0.5, 1)}), *EXACT)),
    Scenario("sched-autogroup", FAMILY, "a nice 19 hog in another session; partner: autogroups off",
             "run_queue, the hog although it is nice",
             Run(*WORKING, cause=nice_hog_in_another_session, new_session=True, network=autogroups(1)),
             Run(*WORKING, cause=nice_hog_in_another_session, new_session=True, network=autogroups(0)),
             (grows(WAITS, 3, 200), holds(WAITS, {"nice-hog": (0.5, 1)}),
              each("nice 19 is told", names_nice_19), *EXACT)),
    Scenario("sched-quota-v1", FAMILY, "a CPU quota of 10 in 50 ms (cgroup v1)", "throttled, the group", LIMITED, FREE,
             THROTTLED, needs=only_v2),
    Scenario("sched-quota-v2", FAMILY, "a CPU quota of 10 in 50 ms (cgroup v2)", "throttled, the group", LIMITED, FREE,
             THROTTLED, needs=only_v1),
    Scenario("sched-rt-throttling", FAMILY, "a real-time responder used up its group's real-time budget",
             "run_queue or app_run_queue, real-time budget",
             Run("--work-us 2000", "--count 200 --wait block", in_server=rt_group),
             Run("--work-us 2000", "--count 200 --wait block", in_server=rt_in_root),
             (realtime_throttling, *EXACT), needs=only_rt_groups),
    with_and_without("sched-moved", FAMILY,
                     "a real-time task on its CPU; the responder is moved to and fro meanwhile",
                     "run_queue, rt-task; requests on both CPUs",
                     Run("", "--gap-us 500 --count 1500 --wait block", cause=moved, server_cpu=False),
                     (blames("run_queue", r"rt-task\[", 1000, 20), both_cpus, *EXACT)),
    Scenario("sched-own-tracer", FAMILY, "the tracer itself is a real-time task on the responder's CPU; partner: on "
             "the other CPU", "run_queue, whylate itself",
             Run("", "--rate 5000 --count 7500", in_tracer=tracer_on(True)),
             Run("", "--rate 5000 --count 7500", in_tracer=tracer_on(False)),
             (blames("run_queue", "whylate itself", 100, 60), advises_to_move_it, *EXACT)),
    Scenario("sched-idle-elsewhere", FAMILY, "it waits behind a real-time task while another CPU that it may use is "
             "idle; partner: it may not", "run_queue, rt-task; the idle CPU is told",
             Run("", SLEEPING, cause=idle_elsewhere, server_cpu=False), Run("", SLEEPING, cause=fifo_bursts),
             # The other CPU is not always idle, and of several moves only the first and the last CPU are looked at.
             (blames("run_queue", r"rt-task\[", 1000, 40, times=0, says=IDLE_ELSEWHERE, said=0.8),
              only_where_allowed, *EXACT)),
    with_and_without("sched-preempted", FAMILY, "the responder is preempted while it computes",
                     "app_run_queue, rt-task", Run("--work-us 3000", "--rate 120 --count 360", cause=fifo_bursts),
                     (blames("app_run_queue", r"rt-task\[", 3200, 40), holds("app_run_queue", {"rt-task": (0.7, 1)}),
                      *EXACT)),
)
