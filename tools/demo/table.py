#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The demo's table, made from the tracer's and the client's files (docs/formats.md).

usage: table.py table DIRECTORY KEY=TITLE...
       table.py stacks DIRECTORY KEY=TITLE...
       table.py idle REQUESTS_FILE CPU
"""
import json
import sys
import textwrap

COLD = 2  # the first requests are cold: left out of "slowest", as everywhere


def lines_of(path, schema):
    """The JSON lines of a file whose schema is, or which have none and follow a header."""
    with open(path, encoding="ascii") as file:
        for line in file:
            value = json.loads(line)
            if value.get("schema", schema) == schema:
                yield value


def shown(ns):
    if ns is None:
        return "-"
    if ns < 1_000:
        return f"{ns}ns"
    for factor, unit in ((1_000, "us"), (1_000_000, "ms")):
        if ns < factor * 1_000:
            return f"{ns / factor:.2f}{unit}"
    return f"{ns / 1_000_000_000:.2f}s"


def explain(requests_file, client_file):
    """(stage, culprit, text) of the client's slowest request but the first two."""
    answered = (r for r in lines_of(client_file, "whylate.client/1")
                if r.get("id", 0) >= COLD and r.get("received_ns") is not None)
    slowest = max(answered, key=lambda r: r["received_ns"] - r["sent_ns"], default=None)
    if slowest is None:
        return "-", "nothing was answered", ""
    latency = slowest["received_ns"] - slowest["sent_ns"]
    host = [r for r in lines_of(requests_file, "whylate.request/1") if r["id"] == slowest["id"]]
    if len(host) != 1 or host[0]["verdict"] is None:
        return "-", "not explained", f"id {slowest['id']}: the responder's record of it is missing or incomplete."
    host = host[0]
    # One host, one clock: what the responder's host did not take lies before or after it.
    if host["total_ns"] * 2 >= latency:
        verdict = host["verdict"]
        return verdict["stage"], verdict["culprit"], f"id {host['id']}: {verdict['text']}"
    before = host["start_ns"] - slowest["sent_ns"]
    after = slowest["received_ns"] - host["end_ns"]
    where = "before the first mark" if before > after else "after the reply had left"
    return "rest", f"client side, {where}", (
        f"id {host['id']}: {shown(max(before, after))} of {shown(latency)} passed {where}, on the client's side; "
        f"the responder took {shown(host['total_ns'])}.")


def what_is_missing(client, summary):
    """What makes a phase's figures less than complete, a phrase each."""
    missing = []
    if client["lost"]:
        missing.append(f"{client['lost']} of {client['sent']} requests not answered in time")
    if summary["requests"]["incomplete"]:
        missing.append(f"{summary['requests']['incomplete']} records incomplete")
    missing += [f"{n} lost ({why})" for why, n in summary["lost"].items() if n]
    if summary["cost"]["recursion_misses"]:
        missing.append(f"{summary['cost']['recursion_misses']} runs of the tracer skipped by the kernel")
    if summary["self_test"]["violations"]:
        missing.append(f"{summary['self_test']['violations']} records failed the tracer's own checks and were left out")
    return missing


def table(directory, phases):
    rows = [("phase", "median", "p99.9", "slowest but", "stage", "culprit"), ("", "", "", "first two", "", "")]
    notes = []
    for phase in phases:
        key, title = phase.split("=", 1)
        with open(f"{directory}/{key}.client.json", encoding="ascii") as file:
            client = json.load(file)
        requests_file = f"{directory}/{key}.requests.jsonl"
        latency = client["latency_ns"] or dict.fromkeys(("p50", "p99_9", "slowest_but_first_two"))
        stage, culprit, text = explain(requests_file, f"{directory}/{key}.client.jsonl")
        rows.append((title, shown(latency["p50"]), shown(latency["p99_9"]),
                     shown(latency["slowest_but_first_two"]), stage, culprit))
        if text:
            notes.append(f"{title}: {text}")
        summary = next(lines_of(requests_file, "whylate.summary/1"))
        with open(f"{directory}/{key}.disturbed", encoding="utf-8", errors="replace") as file:
            disturbed = file.read().strip()
        if disturbed:
            # Only who: a process that has just reaped its children is booked all they ever used.
            notes.append(f"{title}: disturbed: {disturbed.rsplit(' ', 2)[0]} was busy on this machine, too.")
        missing = what_is_missing(client, summary)
        if missing:
            notes.append(f"{title}: {', '.join(missing)}.")
    print_columns(rows, {1, 2, 3})
    print("\nLatencies are the client's, from the actual send to the reply; stage and culprit are whylate's")
    print("verdict on the slowest one:")
    for note in notes:
        print(textwrap.fill(note, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False))


def print_columns(rows, right):
    """Rows of cells in columns; those whose number is in `right` are flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) if i in right else cell.ljust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def stacks(directory, ways):
    rows = [("way", "answered", "median", "p99.9", "CPU", "tcpdump in", "out", "ss", "whylate stack")]
    notes = []
    for way in ways:
        key, title = way.split("=", 1)
        client, seen, stack = (json.load(open(f"{directory}/{key}.{part}.json", encoding="utf-8"))
                               for part in ("client", "seen", "stack"))
        latency = client["latency_ns"] or dict.fromkeys(("p50", "p99_9"))
        listed = [text for lines, text in ((seen["ss_udp"], "udp"), (seen["ss_packet"], "packet")) if lines]
        rows.append((title, str(client["received"]), shown(latency["p50"]), shown(latency["p99_9"]),
                     f"{seen['run_ns'] / seen['wall_us'] / 10:.0f} %", str(seen["in"]), str(seen["out"]),
                     ", ".join(listed) or "nothing", f"{stack['verdict']}, {stack['confidence']}"))
        notes.append(f"{title}: {stack['headline']}")
        if seen["dropped"]:
            notes.append(f"{title}: tcpdump itself lost {seen['dropped']} packets.")
    print("The same requests through several stacks; tcpdump ran all along, ss was asked meanwhile. CPU is the")
    print("responder's use of its CPU, packets in and out are what tcpdump captured, ss is what it lists of it:\n")
    print_columns(rows, {1, 2, 3, 4, 5, 6})
    print()
    for note in notes:
        print(textwrap.fill(note, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False))


def idle(requests_file, cpu):
    total = woken = 0
    states = set()
    for request in lines_of(requests_file, "whylate.request/1"):
        total += 1
        if any(stage["name"] == "idle_exit" for stage in request["stages"]):
            woken += 1
            if request["idle"]:
                states.add(request["idle"]["name"] or f"state {request['idle']['state']}")
    named = f" ({', '.join(sorted(states))})" if states else ""
    print(f"  CPU {cpu} was idle when the request came for {woken} of {total} requests{named}")


def main(arguments):
    if len(arguments) >= 3 and arguments[0] == "table":
        table(arguments[1], arguments[2:])
    elif len(arguments) >= 3 and arguments[0] == "stacks":
        stacks(arguments[1], arguments[2:])
    elif len(arguments) == 3 and arguments[0] == "idle":
        idle(arguments[1], arguments[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
