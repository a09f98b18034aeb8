# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Causes inside the responder, at the client, and the idle CPU: nobody else may be blamed."""
import os
import signal
import time

from ..judge.verdicts import blames, each, never_blames, others_did
from ..judge.records import stage_ns
from ..model import Run, Scenario, Seen
from ..rig import causes
from .common import EXACT, PACED, fifo_bursts_at_client, pair, without

FAMILY = "application"


def client_is_late(guilty, innocent):
    """The slowest as the client saw them are its own doing in one run, and not in the other: it sent late,
    or (rest) it was not there to take the reply."""
    problems = []

    def part(outcome):
        for one in outcome.correlated["slowest"]:
            parts = [one["client_late_ns"], one["host_ns"], one["rest_ns"]]
            if None not in parts and sum(parts) != one["client_ns"]:
                problems.append(f"the parts do not add up: {one}")
            if one["explained_by"] == "client" and (one["culprit"] is not None or one["stage"] is not None):
                problems.append(f"the client is late and the responder blamed: {one['text']}")
        told = others_did(outcome)
        rows = [one for one in outcome.correlated["slowest"]
                if one["client_ns"] > 1_000_000 and not told(one["culprit"] or "")]
        return rows, [one for one in rows if one["explained_by"] == "client"]

    rows, own = part(guilty)
    innocent_own = part(innocent)[1]
    side = [one for one in rows if one["explained_by"] in ("client", "rest")]
    if guilty.correlated["joined"] != guilty.client["received"]:
        problems.append(f"{guilty.correlated['joined']} joined of {guilty.client['received']}")
    if len(own) < 10 or len(side) < 0.8 * len(rows) or len(own) < 4 * len(innocent_own):
        kinds = {kind: sum(1 for one in rows if one["explained_by"] == kind) for kind in ("client", "rest", "host")}
        problems.append(f"of the {len(rows)} slowest above 1 ms: {kinds}; {len(innocent_own)} of the innocent run's "
                        "are put down to the client")
    text = (f"{len(side)} of the {len(rows)} slowest above 1 ms: the client's side, {len(own)} sent late; without the "
            f"cause {len(innocent_own)}")
    return problems, Seen(text, len(side) / len(rows) if rows else 0.0)


def keep_awake(stage):
    """A task of the idle class takes nothing from the responder, but its CPU never idles."""
    stage.add(causes.hog("spinner", stage.server_cpu, policy=os.SCHED_IDLE))


def stop_now_and_then(stage):
    """The responder is stopped for 20 of 60 ms while the client goes on."""
    responder, client = stage.server.child, stage.client.child.process
    while client.poll() is None:
        responder.send(signal.SIGSTOP)
        time.sleep(0.02)
        responder.send(signal.SIGCONT)
        time.sleep(0.04)


def little_idle_exit(_, innocent):
    """A CPU that is busy all the time cannot have left an idle state."""
    share = innocent.summary["stages"]["idle_exit"]["share"] or 0.0
    return ([f"idle_exit has {share:.1%} of the innocent run"] if share > 0.01 else []), None


COMPUTING = pair("--work-us 1500", "", "--rate 250 --count 500")
SLEEPING = pair("--sleep-us 2500", "--sleep-us 1", "--rate 150 --count 300")
LOCKING = pair("--lock-us 3000 --lock-every 10", "--lock-us 1 --lock-every 1000", PACED)
STOPPED = Run("", PACED, during=stop_now_and_then)
SPARSE = Run("", "--gap-us 2500 --count 500 --wait block")

SCENARIOS = (
    Scenario("app-computing", FAMILY, "the responder computes for 1.5 ms", "app, application", *COMPUTING,
             (blames("app", "application", 1000, 350), never_blames("client"), *EXACT)),
    Scenario("app-sleeping", FAMILY, "the responder sleeps for 2.5 ms", "app_blocked, clock_nanosleep", *SLEEPING,
             (blames("app_blocked", "clock_nanosleep", 2000, 200), *EXACT)),
    Scenario("app-lock", FAMILY, "another thread of the responder holds the mutex, asleep",
             "app_blocked, that thread, in futex", *LOCKING,
             (blames("app_blocked", r"lock-holder\[", 500, 35, says="futex"), *EXACT)),
    Scenario("app-burst", FAMILY, "bursts of 50 requests; each waits for those before it", "socket_queue, application",
             Run("--work-us 40", "--rate 20 --burst 50 --count 1500"), Run("--work-us 40", "--rate 500 --count 1500"),
             (blames("socket_queue", "application", 500, 300), *EXACT)),
    Scenario("app-stopped", FAMILY, "SIGSTOP for 20 of 60 ms", "socket_queue, stop signal", STOPPED,
             without(STOPPED, during=None),
             (blames("socket_queue", "stop signal", 1000, 80, says="SIGSTOP"), *EXACT)),
    Scenario("app-client-late", FAMILY, "the client itself sends late, a real-time task on its CPU",
             "correlate: the client",
             Run("", PACED, cause=fifo_bursts_at_client, correlate=True), Run("", PACED, correlate=True),
             (client_is_late, *EXACT)),
    Scenario("app-idle-exit", FAMILY, "sparse requests to an idle CPU", "idle_exit, the idle state",
             SPARSE, Run(SPARSE.server, SPARSE.client, cause=keep_awake),
             (blames("idle_exit", "idle ", 3, 250, share=0.5),
              each("an idle state is named with idle_exit",
                   lambda one: stage_ns(one, "idle_exit") == 0 or bool(one["idle"] and one["idle"]["name"])),
              each("the CPU was idle", lambda one: stage_ns(one, "idle_exit") > 0, 0.9), little_idle_exit, *EXACT)),
)
