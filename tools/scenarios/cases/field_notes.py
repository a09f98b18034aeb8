# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The two tables of practitioners, in shape: who is on the responder's CPU decides about the slowest
requests and not about the median; and what an idle CPU costs. A CPU that the load may not use stands
for an isolated one."""
from ..judge.counts import paired
from ..judge.verdicts import blames, each, judged, late
from ..judge.records import stage_ns
from ..model import Run, Scenario, Seen
from ..rig import causes
from .application import keep_awake
from .common import EXACT
from .softirq import on_cpu_of, steer_to_server

FAMILY = "field-notes"
LOAD = "--rate 1000 --count 2000 --to 239.83.1.1:{port} --interface {client_device}"
SERVER = "--listen 0.0.0.0:0 --group 239.83.1.1 --interface {server_device}"


def stress_everywhere(stage):
    stage.add(causes.stress_ng(stage.server_cpu, stage.directory))
    stage.add(causes.stress_ng(stage.client_cpu, stage.directory))


def stress_elsewhere(stage):
    stage.add(causes.stress_ng(stage.client_cpu, stage.directory))


def hidden_from_the_median(guilty, innocent):
    """Few requests wait for the load, and for long: the median tells nothing of it."""
    waited = [one for one in judged(guilty) if stage_ns(one, "run_queue") > 500_000]
    part = len(waited) / max(1, len(judged(guilty)))
    medians = [outcome.summary["latency_ns"]["p50"] for outcome in (guilty, innocent)]
    slowest = guilty.summary["latency_ns"]["slowest_but_first_two"] / medians[0]
    text = f"{part:.1%} of the requests waited; the slowest but two took {slowest:.0f} medians"
    problems = [] if part < 0.1 and slowest > 5 else [text]
    if medians[0] > 5 * medians[1]:
        problems.append(f"the median itself rose from {medians[1]} to {medians[0]} ns")
    return problems, Seen(text)


def row(name, about, expected, judges, innocent_cause=None, **run):
    cause = run.pop("cause", None)
    guilty = Run(SERVER, LOAD, veth=True, cause=cause, **run)
    return Scenario(name, FAMILY, about, expected, guilty, Run(SERVER, LOAD, veth=True, cause=innocent_cause, **run),
                    judges)


SCENARIOS = (
    row("notes-same-cpu", "interrupt and responder on one CPU; stress-ng on every CPU",
        "run_queue, stress-ng, hidden from the median",
        (blames("run_queue", "stress-ng", 500, 5, times=3), hidden_from_the_median,
         each("softirq on the responder's CPU", on_cpu_of("server"), 0.9),
         paired()), cause=stress_everywhere, network=steer_to_server),
    row("notes-other-cpu", "interrupt on another CPU than the responder; stress-ng on every CPU",
        "run_queue, stress-ng", (blames("run_queue", "stress-ng", 500, 5, times=3),
                                 each("softirq on the sender's CPU", on_cpu_of("client"), 0.9), *EXACT),
        cause=stress_everywhere),
    Scenario("notes-isolated", FAMILY, "stress-ng on the ordinary CPU only; partner: on the responder's, too",
             "the responder is not delayed",
             Run(SERVER, LOAD, veth=True, cause=stress_everywhere),
             Run(SERVER, LOAD, veth=True, cause=stress_elsewhere),
             (blames("run_queue", "stress-ng", 500, 5, times=3), *EXACT)),
    Scenario("notes-isolated-steered", FAMILY,
             "the same with the softirq on the responder's CPU", "the responder is not delayed",
             Run(SERVER, LOAD, veth=True, cause=stress_everywhere, network=steer_to_server),
             Run(SERVER, LOAD, veth=True, cause=stress_elsewhere, network=steer_to_server),
             (blames("run_queue", "stress-ng", 500, 5, times=3), paired())),
    Scenario("notes-idle", FAMILY, "the responder's CPU idles between requests; partner: it never does",
             "idle_exit in one, none in the other",
             Run(SERVER, LOAD, veth=True), Run(SERVER, LOAD, veth=True, cause=keep_awake),
             (each("the CPU was idle", lambda one: stage_ns(one, "idle_exit") > 0, 0.8),
              lambda guilty, innocent: (
                  [f"{len(late(innocent, 'idle_exit', 0))} requests of the innocent run met an idle CPU"]
                  if len(late(innocent, "idle_exit", 0)) > 0.02 * len(innocent.records) else [], None), *EXACT)),
)
