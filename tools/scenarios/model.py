# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a scenario is made of. Plain values; what runs them is in runner.py."""
import dataclasses
from typing import Any, Callable, Optional


@dataclasses.dataclass(frozen=True)
class Run:
    """A responder, a load, and what disturbs the responder.

    The functions get the Stage of the run (runner.py), which holds the namespaces, the CPUs and a
    stack; what they put on the stack is undone at the end.
    """

    server: str = ""                              # arguments of whylate-echo server
    client: str = "--rate 500 --count 800"        # and of its client
    # Another responder instead: (stage, log file) -> its argv; its ready line and log are as whylate-echo's.
    responder: Optional[Callable[[Any, str], list]] = None
    veth: bool = False                            # two namespaces joined by a veth pair; else loopback
    family: int = 4
    server_cpu: bool = True                       # the responder stays on its CPU
    client_cpu: bool = True
    network: Optional[Callable[[Any], None]] = None       # before the responder starts
    in_server: Optional[Callable[[Any], Callable]] = None  # makes what runs in the responder before its start
    in_tracer: Optional[Callable[[Any], Callable]] = None  # the same for the tracer
    cause: Optional[Callable[[Any], None]] = None         # starts the load, after the attach
    during: Optional[Callable[[Any], None]] = None        # while the client runs
    trace: str = ""                               # more arguments of whylate trace
    servers: int = 1                              # responders with the same arguments
    new_session: bool = False                     # the responder leads a session of its own
    correlate: bool = False
    drain_s: float = 0.05                         # from the client's end to the tracer's: the last replies are read
    client_may_fail: bool = False                 # the responder goes away


@dataclasses.dataclass
class Outcome:
    """What came out of a run: all that the judges look at."""

    exit_code: int
    records: list                                 # whylate.request/1
    summary: Optional[dict]                       # whylate.summary/1
    client: Optional[dict]                        # whylate.client_summary/1
    reads: dict                                   # responder's log: tid -> [(number, time)]
    exchanges: dict                               # client's record: number -> (sent, received or None)
    run_ns: int                                   # upper bound of the run's length
    correlated: Optional[dict] = None
    stderr: str = ""
    foreign: float = 0.0                          # of a CPU, by tasks that the runner did not start
    ran: dict = dataclasses.field(default_factory=dict)    # tid -> ns, of the tasks that outlived the run
    facts: dict = dataclasses.field(default_factory=dict)  # what the scenario itself noted


MOST_FOREIGN = 0.05  # above it a run is disturbed


@dataclasses.dataclass(frozen=True)
class Seen:
    """For the table: who was found, how often, and the share that was right."""

    text: str
    share: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    family: str
    about: str                                    # the cause, in a few words
    expected: str                                 # what a right tracer says
    guilty: Run
    innocent: Optional[Run]                       # the same load without the cause
    # Each: (guilty outcome, innocent outcome or None) -> (problems, Seen or None)
    judges: tuple = ()
    known_failing: str = ""                       # why the tracer does not get it right yet
    needs: Optional[Callable[[], str]] = None     # why this machine cannot make it; "" if it can
