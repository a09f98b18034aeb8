# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Faults: nothing may be lost silently, and nothing wrong may be said. What is under test is the
tracer itself, so most of these have no partner."""
import os
import signal
import sys
import time

from ..judge.counts import counts, paired, reads_of
from ..judge.pairing import pair_up
from ..model import Run, Scenario, Seen
from ..rig import causes
from ..rig.process import Newcomer
from ..rig.programs import read_log
from .common import EXACT

FAMILY = "faults"
FOREIGN = 300  # requests to somebody who has got an id of the target's
FULL = "--count 60000 --wait block --window 4"
SHORT = 50_000
RESPONDER = os.path.join(os.path.dirname(__file__), "..", "rig", "responder.py")


def stop_tracer(stage):
    """The tracer is stopped for 3 s while the load goes on; all of that must be in the totals."""
    time.sleep(0.3)
    stage.tracer.child.send(signal.SIGSTOP)
    time.sleep(3)
    stage.tracer.child.send(signal.SIGCONT)


def details_lost(guilty, _):
    """Details were lost and counted, the totals are whole, and the run says that it is incomplete."""
    summary = guilty.summary
    lost, requests = summary["lost"]["ring_full"], summary["requests"]
    problems = []
    if lost == 0:
        problems.append("nothing was lost: the scenario proves nothing")
    if summary["complete"]:
        problems.append("the run is not said to be incomplete")
    left_over = sum(requests["unmatched"].values())
    if requests["observed"] + left_over != guilty.client["received"] or left_over > 2:
        problems.append(f"{requests['observed']} observed, {requests['unmatched']} unmatched, the client got "
                        f"{guilty.client['received']}")
    if requests["complete"] < 0.99 * requests["observed"]:
        problems.append(f"{requests['incomplete']} of {requests['observed']} requests are incomplete")
    share = sum(stage["total_ns"] or 0 for stage in summary["stages"].values())
    if not share or summary["latency_ns"]["p50"] is None:
        problems.append("the totals are missing")
    return problems, Seen(f"{lost} of {requests['observed']} details lost and counted; totals whole; INCOMPLETE")


def second_tracer(stage):
    """Another one at the same target, at the same time, ended in the middle."""
    other = stage.start_tracer()
    time.sleep(0.7)
    code, records, summary = other.stop()
    stage.facts["second"] = {"code": code, "records": len(records), "summary": summary}


def second_is_right(guilty, _):
    second = guilty.facts["second"]
    problems = []
    if second["code"] != 0 or second["summary"] is None:
        return [f"the second tracer ended with {second['code']}"], None
    if second["summary"]["requests"]["observed"] < 100 or second["summary"]["self_test"]["violations"]:
        problems.append(f"the second tracer saw {second['summary']['requests']}")
    return problems, Seen(f"the second saw {second['summary']['requests']['observed']} while both ran")


def short_tasks(stage):
    """50,000 tasks come and go: some of them processes, most threads of one process."""
    stage.facts["tasks"] = SHORT
    with causes.short_tasks(1000, stage.client_cpu) as processes, \
            causes.short_threads(SHORT - 1000, stage.client_cpu) as threads:
        for one in (processes, threads):
            if one.wait(40) != 0:
                stage.facts["tasks"] = 0


def all_tasks_ran(guilty, _):
    tasks = guilty.facts["tasks"]
    return ([] if tasks == SHORT else ["not all the tasks ran"]), Seen(f"{tasks} tasks came and went")


def verdict_for_each(guilty, _):
    """Every request but the cold and incomplete ones has a verdict."""
    without = [one for one in guilty.records if one["verdict"] is None and one["reply"] and
               not any(flag in one["quality"] for flag in ("no_arrival", "debt_unpaid", "no_thread", "lost_switch"))]
    return ([f"{len(without)} complete requests have no verdict"] if without else []), None


def responder(what, every):
    def argv(stage, log):
        return [sys.executable, RESPONDER, stage.net.server_address[4], log, what, str(every)]

    return argv


def none_wrong(guilty, _):
    """Whatever could be paired is right; what could not be says so; the rest is counted by name."""
    pairing = pair_up(guilty.records, guilty.reads)
    requests = guilty.summary["requests"]
    reads = reads_of(guilty)
    left_over = sum(number for name, number in requests["unmatched"].items() if name not in ("dropped", "peek"))
    problems = []
    if pairing.wrong or pairing.unsure:
        problems.append(f"{pairing.wrong + pairing.unsure} of {len(guilty.records)} numbers are wrong")
    if requests["observed"] + left_over != reads:
        problems.append(f"{requests['observed']} observed and {requests['unmatched']} unmatched, {reads} were read")
    if pairing.right < 0.9 * reads:
        problems.append(f"only {pairing.right} of {reads} requests were paired")
    return problems, Seen(f"{pairing.right} of {reads} requests right")


def died_in_hand(guilty, _):
    """The request that it died with is in no latency figure, and no other is missing."""
    requests, reads = guilty.summary["requests"], reads_of(guilty)
    in_figures = requests["complete"]
    problems = [] if reads - 3 <= in_figures < reads else [f"{reads} were read, {in_figures} are in the figures"]
    if "target exited" not in guilty.stderr:
        problems.append(f"it does not say that the target exited: {guilty.stderr.strip()[-200:]}")
    return problems, Seen(f"{reads} read, {in_figures} answered and counted")


def connections_counted(guilty, _):
    """Reads of connections opened during the run are requests or counted by name; none is wrong."""
    requests, client = guilty.summary["requests"], guilty.client
    left_over = sum(requests["unmatched"].values())
    problems = []
    if requests["observed"] + left_over != client["received"]:
        problems.append(f"{requests['observed']} observed and {requests['unmatched']} unmatched, the client got "
                        f"{client['received']}")
    others = {name: number for name, number in requests["unmatched"].items()
              if number and name not in ("no_segment", "new_socket")}
    if others or sum(guilty.summary["lost"].values()):
        problems.append(f"unmatched {others}, lost {guilty.summary['lost']}")
    return problems, Seen(f"{requests['observed']} observed, {left_over} left over by name")


def fault(name, about, expected, run, judges, **more):
    return Scenario(name, FAMILY, about, expected, run, None, judges, **more)


def newcomer(stage, pid, first_id):
    """Another responder gets that process id, and requests of its own."""
    host = stage.net.server_address[4]
    one = Newcomer(pid, [stage.binaries.echo, "server", "--listen", f"{host}:0", "--cpu", str(stage.server_cpu)],
                   stage.file("newcomer"), stage.net.server.fd)
    stage.stack.callback(one.end)
    port = dict(word.split("=", 1) for word in one.wait_line("ready ").split()[1:])["port"]
    client = stage.start_client(f"--rate 1000 --count {FOREIGN} --first-id {first_id} "
                                f"--to {host}:{port}")
    return client.finish()["received"]


def ids_reused(stage):
    """The id of a thread that has ended, and then that of the target itself, go to strangers. The tracer is
    stopped while the target ends, so that it cannot be gone before the second of them serves."""
    stage.client.finish()
    server = stage.server.child
    tid = next(tid for tid in read_log(stage.server.log_file) if tid != server.pid)
    received = newcomer(stage, tid, 10_000)
    own = stage.start_client(f"--rate 1000 --count {FOREIGN} --first-id 1000").finish()["received"]
    stage.tracer.child.send(signal.SIGSTOP)
    server.end()
    received += newcomer(stage, server.pid, 20_000)
    stage.tracer.child.send(signal.SIGCONT)
    stage.facts.update(strangers=received, own=own)


def none_of_strangers(guilty, _):
    """It ends with its target, and has counted its target's requests and no other."""
    strangers, own = guilty.facts["strangers"], guilty.client["received"] + guilty.facts["own"]
    requests = guilty.summary["requests"]
    left_over = sum(requests["unmatched"].values())
    problems = [] if strangers == 2 * FOREIGN else [f"the newcomers answered {strangers}: the scenario proves nothing"]
    if requests["observed"] + left_over != own:
        problems.append(f"{requests['observed']} observed and {requests['unmatched']} unmatched, the target answered "
                        f"{own}")
    wrong = [one for one in guilty.records if one["id"] is None or one["id"] >= 10_000]
    if wrong:
        problems.append(f"{len(wrong)} records are not of the target's requests")
    if "target exited" not in guilty.stderr:
        problems.append(f"it does not say that the target exited: {guilty.stderr.strip()[-200:]}")
    return problems, Seen(f"{requests['observed']} of the target's {own}, none of the others' {strangers}")


def ids_can_be_chosen():
    """Only in the initial pid namespace: elsewhere it is not the id that the tracer compares."""
    initial = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    return "" if initial else "process ids can be chosen in the initial pid namespace only"


SCENARIOS = (
    fault("fault-tracer-stopped", "the tracer is stopped for 3 s under full load", "INCOMPLETE; totals whole",
          Run("", "--count 250000 --wait block --window 8", during=stop_tracer), (details_lost,)),
    fault("fault-smallest-ring", "the ring has one page", "INCOMPLETE; totals whole",
          Run("", FULL, trace="--ring 4"), (details_lost,)),
    fault("fault-second-tracer", "a second tracer comes and goes", "both are right",
          Run("", "--rate 1000 --count 3000", during=second_tracer), (second_is_right, *EXACT)),
    fault("fault-short-tasks", "50,000 short-lived tasks", "nothing lost, every verdict there",
          Run("", "--gap-us 1000 --count 1600 --wait block", during=short_tasks),
          (all_tasks_ran, verdict_for_each, *EXACT)),
    fault("fault-short-ports", "50,000 short-lived client ports", "nothing lost, every verdict there",
          Run("", f"--count {SHORT} --wait block --fresh-sockets"), (verdict_for_each, *EXACT)),
    fault("fault-reused-sockets", "3,000 connections, opened and closed one after the other",
          "observed or counted by name, none wrong",
          Run("--proto tcp --mode epoll", "--count 3000 --wait block --fresh-sockets"),
          (connections_counted, paired())),
    fault("fault-exec", "the responder replaces itself in the middle of a request", "counted, none wrong",
          Run(responder=responder("exec", 100), client="--rate 200 --count 600"), (none_wrong,)),
    fault("fault-exec-thread", "a thread of the responder that is not its leader replaces it", "counted, none wrong",
          Run(responder=responder("thread-exec", 100), client="--rate 200 --count 600"), (none_wrong,)),
    fault("fault-fork", "a child of the responder answers", "counted, none wrong",
          Run(responder=responder("fork", 10), client="--rate 200 --count 600"), (none_wrong, counts())),
    fault("fault-dies", "the responder dies in the middle of a request", "that request is in no figure",
          Run(responder=responder("die", 200), client="--rate 200 --count 300 --timeout-ms 300",
              client_may_fail=True), (died_in_hand,)),
    fault("fault-pid-reuse", "the ids of a thread of the target and of the target itself go to other responders",
          "target exited; none of the others' requests",
          Run(responder=responder("thread", 200), client="--rate 1000 --count 400", during=ids_reused),
          (none_of_strangers, paired()), needs=ids_can_be_chosen),
)
