# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Records and outcomes as the tracer would write them, small."""
from scenarios.model import Outcome

RUN_NS = 10**9


def occupant(stage, comm, ns, kind="task", **more):
    return {"stage": stage, "kind": kind, "pid": 7, "comm": comm, "policy": "SCHED_OTHER", "prio": 120, "nice": 0,
            "cgroup": None, "tgid": 7, "cpu": 1, "ns": ns, **more}


def record(stages, culprit="hog[7]", occupants=(), seq=0, number=None, tid=100, recv_ns=None, quality=(), **more):
    """`stages`: name -> ns; the verdict is about the longest, by that culprit."""
    total = sum(stages.values())
    start = 1000 * (seq + 1)
    longest = max(stages, key=stages.get)
    value = {"seq": seq, "id": seq if number is None else number, "tid": tid, "start_ns": start,
             "end_ns": start + total, "total_ns": total, "recv_ns": recv_ns or start + total,
             "stages": [{"name": name, "ns": ns, "cpu": 1} for name, ns in stages.items()],
             "occupants": list(occupants), "quality": list(quality), "reply": True,
             "verdict": {"stage": longest, "culprit": culprit, "text": f"{longest}: {culprit}", "ordinary": False}}
    value.update(more)
    return value


def waiting(ns, comm="hog", seq=0, **more):
    """A request that waited for the CPU while `comm` had it."""
    value = record({"run_queue": ns, "app": 10}, f"{comm}[7]", [occupant("run_queue", comm, ns)], seq)
    value.update(more)
    return value


def outcome(records, client=None, unmatched=None, lost=None, reads=None, incomplete=0, stages=None, **more):
    observed = more.pop("observed", len(records))
    unmatched = {"unsynced": 0, "dropped": 0, **(unmatched or {})}
    lost = {"ring_full": 0, "tx_pending": 0, "blame_full": 0, **(lost or {})}
    client = len(records) if client is None else client
    if reads is None:
        reads = {}
        for one in records:
            reads.setdefault(one["tid"], []).append((one["id"], one["recv_ns"] + 1))
    return Outcome(
        exit_code=0, records=records, exchanges=more.pop("exchanges", {}), client={"sent": client, "received": client, "lost": 0}, reads=reads,
        run_ns=RUN_NS, summary={
            "requests": {"observed": observed, "complete": observed - incomplete, "incomplete": incomplete,
                         "no_reply": 0, "unmatched": unmatched},
            "lost": lost, "complete": not any(lost.values()), "self_test": {"violations": 0},
            "cost": {"recursion_misses": 0}, "blame": [],
            "stages": stages or {}, "latency_ns": {"p50": 1}}, **more)
