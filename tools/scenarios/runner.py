# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs scenarios. Everything that a run changes goes back when it ends, however it ends."""
import contextlib
import dataclasses
import os
import tempfile
import time

from . import model
from .judge import records
from .rig import machine, programs
from .rig.net import Net
from .rig.process import Failed

TRIES = 6
UNEXPLAINED = 3  # what a hypervisor takes does not always show
SLOWEST = 50


class Stage:
    """What a run works with; `stack` undoes what is put on it."""

    def __init__(self, binaries, run, stack):
        self.binaries = binaries
        self.run = run
        self.stack = stack
        self.server_cpu, self.client_cpu = machine.cpus()
        self.directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="wlscenario-"))
        self.net = Net(stack, run.veth)
        self.servers = []
        self.tracer = None
        self.client = None
        self.facts = {}
        self._files = 0

    def add(self, context):
        """Keeps a context (a load, a setting) until the end of the run."""
        return self.stack.enter_context(context)

    def file(self, kind):
        self._files += 1
        return os.path.join(self.directory, f"{kind}-{self._files}")

    @property
    def server(self):
        return self.servers[0]

    def address(self):
        return f"{self.net.host(self.run.family)}:{self.server.port}"

    def fill(self, arguments):
        """A command line with the values of this run in it."""
        names = {"server_cpu": self.server_cpu, "client_cpu": self.client_cpu, "host": self.net.host(self.run.family),
                 "dir": self.directory, "server_device": self.net.server_device,
                 "client_device": self.net.client_device}
        if self.servers:
            names.update(port=self.server.port, address=self.address(), pid=self.server.child.pid)
        return [word.format(**names) for word in arguments.split()]

    def start_server(self):
        log = self.file("reads")
        if self.run.responder:
            argv = ["taskset", "-c", str(self.server_cpu)] + self.run.responder(self, log)
        else:
            argv = [self.binaries.echo, "server", "--log", log] + self.fill(self.run.server)
            if "--listen" not in argv:
                argv += ["--listen", f"{self.net.host(self.run.family)}:0"]
            if self.run.server_cpu and "--cpu" not in argv:
                argv += ["--cpu", str(self.server_cpu)]
        before = self.run.in_server(self) if self.run.in_server else None
        server = programs.Server(argv, log, self.net.server.fd, before, self.run.new_session)
        self.servers.append(server)
        self.stack.callback(server.child.end)

    def start_tracer(self, arguments=""):
        words = self.fill(self.run.trace + " " + arguments)
        selects = any(word in ("-p", "--port", "--comm") for word in words)
        selection = [] if selects else ["-p", str(self.server.child.pid)]
        if "--id-offset" not in words:
            words += ["--id-offset", "0", "--id-bytes", "8"]
        before = self.run.in_tracer(self) if self.run.in_tracer else None
        tracer = programs.Tracer(self.binaries, self.file("trace"), selection, words, before)
        self.stack.callback(tracer.child.end)
        return tracer

    def start_client(self, arguments):
        words = self.fill(arguments)
        if "--to" not in words:
            words += ["--to", self.address()]
        if self.run.client_cpu and "--cpu" not in words:
            words += ["--cpu", str(self.client_cpu)]
        server = self.run.server.split()
        if "--proto" in server and "--proto" not in words:
            words += ["--proto", server[server.index("--proto") + 1]]
        client = programs.Client(self.binaries, self.file("client"), words, self.net.client.fd)
        self.stack.callback(client.child.end)
        return client


def perform(binaries, run):
    """One run; its outcome."""
    with contextlib.ExitStack() as stack:
        stage = Stage(binaries, run, stack)
        if run.network:
            run.network(stage)
        for _ in range(run.servers):
            stage.start_server()
        begin_ns = time.monotonic_ns()
        stage.tracer = stage.start_tracer()
        with contextlib.ExitStack() as causes:
            stage.stack = causes
            if run.cause:
                run.cause(stage)
            stage.client = stage.start_client(run.client)
            if run.during:
                run.during(stage)
            summary = stage.client.finish(run.client_may_fail)
        stage.stack = stack
        time.sleep(run.drain_s)
        code, found, trace_summary = stage.tracer.stop()
        run_ns = time.monotonic_ns() - begin_ns
        reads = {}
        for server in stage.servers:
            if server.child.process.poll() is None:
                server.stop()
            if os.path.exists(server.log_file):
                reads.update(programs.read_log(server.log_file))
        joined = None
        if run.correlate:
            joined = programs.correlate(binaries, stage.tracer.output, stage.client.requests_file, SLOWEST)
        return model.Outcome(
            exit_code=code, records=found, summary=trace_summary, client=summary, reads=reads,
            exchanges=programs.read_requests(stage.client.requests_file), run_ns=run_ns, correlated=joined,
            stderr=stage.tracer.child.err(), facts=stage.facts)


@dataclasses.dataclass
class Report:
    """What came of a scenario. Results: pass, fail, void (disturbed each time), xfail (known to
    fail, and did), xpass (known to fail, but did not), cannot (not on this machine)."""

    scenario: model.Scenario
    result: str
    seen: list
    problems: list
    attempts: int
    foreign: float  # of a CPU, in the attempt that decided
    seconds: float


def judge(scenario, guilty, innocent):
    """(violations that nothing excuses, problems, what was seen)."""
    violations, problems, seen = [], [], []
    for where, outcome in (("", guilty), ("innocent run: ", innocent)):
        if outcome is None:
            continue
        if outcome.exit_code != 0 and not outcome.facts.get("exit_code_judged"):
            problems.append(f"{where}the tracer ended with {outcome.exit_code}: {outcome.stderr.strip()[-300:]}")
        violations += [where + text for text in records.faults(outcome)]
    if violations or any(one is not None and one.summary is None for one in (guilty, innocent)):
        return violations, problems, seen
    for one in scenario.judges:
        texts, found = one(guilty, innocent)
        problems += texts
        if found is not None:
            seen.append(found)
    return violations, problems, seen


def attempt(scenario, binaries):
    """One attempt; (violations, problems, seen, foreign share of the worse half)."""
    shares, outcomes = [], []
    for run in (scenario.guilty, scenario.innocent):
        if run is None:
            outcomes.append(None)
            continue
        foreign = machine.ForeignLoad()
        try:
            outcomes.append(perform(binaries, run))
        except (Failed, OSError) as error:
            return [], [f"could not run: {error}"], [], max(shares + [foreign.share()])
        shares.append(foreign.share())
        outcomes[-1].foreign = shares[-1]
        outcomes[-1].ran = foreign.ran()
    return (*judge(scenario, *outcomes), max(shares))


def run_scenario(scenario, binaries, tries=TRIES, say=lambda text: None):
    """Runs it until it is right, or wrong beyond doubt. A failure while others used more than 5 % of
    a CPU is void and repeated; one without must come three times. A record that contradicts
    itself decides at once. What is right in a disturbed run is right."""
    begin = time.monotonic()
    cannot = scenario.needs() if scenario.needs else ""
    if cannot:
        return Report(scenario, "cannot", [], [cannot], 0, 0.0, 0.0)
    unexplained = 0
    if scenario.known_failing:
        tries = 1
    for number in range(1, tries + 1):
        violations, problems, seen, foreign = attempt(scenario, binaries)
        good = not violations and not problems
        void = not good and not violations and foreign > model.MOST_FOREIGN
        unexplained += not good and not void
        if good or violations or unexplained == UNEXPLAINED or number == tries:
            break
        say(f"{scenario.name}: attempt {number}, others used {foreign:.0%} of a CPU: " + "; ".join(problems))
    if scenario.known_failing:
        result = "xpass" if good else "xfail"
    elif good:
        result = "pass"
    else:
        result = "void" if void and not unexplained else "fail"
    return Report(scenario, result, seen, violations + problems, number, foreign, time.monotonic() - begin)
