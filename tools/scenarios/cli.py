# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""tools/scenarios/run: arguments, output, exit codes."""
import argparse
import json
import os
import signal
import sys

from . import registry, table
from .rig import machine
from .rig.process import Failed
from .rig.programs import Binaries
from .runner import TRIES, run_scenario

EXIT_DONE, EXIT_FINDING, EXIT_USAGE, EXIT_LACKING, EXIT_FAILED = 0, 1, 2, 3, 5
BAD = ("fail", "void")


def _arguments(argv):
    parser = argparse.ArgumentParser(
        prog="tools/scenarios/run",
        description="Makes known causes of late requests and checks what the tracer says about them.",
        epilog="Exit codes: 0 all as expected; 1 something was not; 2 usage; 3 root or two CPUs lacking; 5 other "
               "failure. xfail: known to fail, for the reason given, and did; never counted as passed.")
    parser.add_argument("what", nargs="+", metavar="list|all|table|NAME",
                        help="list: the scenarios; all: run each; NAME...: run these (a family's name: all of it); "
                             "table: turn the JSON of a run, read from standard input, into docs/scenarios.md")
    parser.add_argument("--bin", default=os.path.join(os.path.dirname(__file__), "..", "..", "build"), metavar="DIR",
                        help="where whylate and whylate-echo are (default: build)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--plain", action="store_true", help="with list: names only, and the state after a space")
    parser.add_argument("--tries", type=int, default=TRIES, help="how often a scenario may be repeated")
    parser.add_argument("--rounds", type=int, default=1, help="run the whole choice so often, for the flake rate")
    return parser.parse_args(argv)


def _list(options):
    for one in registry.scenarios():
        if options.plain:
            cannot = one.needs is not None and one.needs()
            print(one.name, "cannot" if cannot else "known_failing" if one.known_failing else "ready")
        else:
            note = f"   known failing: {one.known_failing}" if one.known_failing else ""
            print(f"{one.name:32} {one.family:12} {one.about} -> {one.expected}{note}")


def _say(text):
    print(text, file=sys.stderr, flush=True)


def _show(report):
    share = next((f"{one.share:.0%}" for one in report.seen if one.share is not None), "")
    print(f"{report.result:6} {report.scenario.name:32} {report.seconds:5.1f} s  {share:>4}  "
          f"{'; '.join(one.text for one in report.seen)}", flush=True)
    if report.scenario.known_failing and report.result in ("xfail", "xpass"):
        print(f"       known failing: {report.scenario.known_failing}")
    if report.result != "pass":
        for problem in report.problems[:6]:
            print(f"       {problem}", flush=True)


def _run(options, chosen):
    if os.geteuid() != 0:
        _say("tools/scenarios/run: needs root")
        return EXIT_LACKING
    try:
        machine.cpus()
    except Failed as error:
        _say(f"tools/scenarios/run: {error}")
        return EXIT_LACKING
    try:
        binaries = Binaries(os.path.abspath(options.bin))
        reports = []
        for _ in range(options.rounds):
            for one in chosen:
                report = run_scenario(one, binaries, options.tries, _say)
                reports.append(report)
                if not options.json:
                    _show(report)
    except Failed as error:
        _say(f"tools/scenarios/run: {error}")
        return EXIT_FAILED
    if options.json:
        json.dump(table.to_json(reports), sys.stdout, indent=1)
        print()
    else:
        print(table.totals(reports))
    return EXIT_FINDING if any(one.result in BAD for one in reports) else EXIT_DONE


def _end(number, _):
    # The same way out as ^C: everything is put back.
    raise SystemExit(128 + number)


def main(argv):
    options = _arguments(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.what == ["list"]:
        _list(options)
        return EXIT_DONE
    if options.what == ["table"]:
        sys.stdout.write(table.to_markdown(json.load(sys.stdin)))
        return EXIT_DONE
    everything = registry.scenarios()
    chosen = []
    for word in options.what:
        found = [one for one in everything if word in ("all", one.name, one.family)]
        if not found:
            _say(f"tools/scenarios/run: there is no scenario '{word}'; try list")
            return EXIT_USAGE
        chosen += found
    try:
        return _run(options, chosen)
    except KeyboardInterrupt:
        return 130
