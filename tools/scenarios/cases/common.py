# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What several families share: loads and causes."""
import dataclasses
import os

from ..judge.counts import between_send_and_reply, counts, paired
from ..model import Run, Scenario
from ..rig import causes

PACED = "--rate 500 --count 500"
CLOSED = "--count 3000 --wait block"
EXACT = (counts(), paired())
IO_URING = (counts(), between_send_and_reply())


def fifo_bursts(stage):
    """A real-time task that takes the responder's CPU for 5 of 15 ms. What it does to a request depends
    on no weight and no luck of the scheduler: a third of the requests wait, up to 5 ms."""
    stage.add(_bursts(stage.server_cpu))


def fifo_bursts_at_client(stage):
    """The same on the client's CPU."""
    stage.add(_bursts(stage.client_cpu))


def _bursts(cpu):
    return causes.hog("rt-task", cpu, busy_us=5000, idle_us=10_000, policy=os.SCHED_FIFO, priority=50)


def without(run, **changes):
    """The not guilty partner: the same, but for these."""
    return dataclasses.replace(run, **changes)


def with_and_without(name, family, about, expected, run, judges, **more):
    """A scenario whose partner is the same run without its cause."""
    return Scenario(name, family, about, expected, run, without(run, cause=None), judges, **more)


def pair(server, innocent_server, client=PACED, **more):
    """Two runs that differ in the responder's own behaviour."""
    return Run(server, client, **more), Run(innocent_server, client, **more)
