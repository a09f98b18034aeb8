#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""usage: hdr_decode.py REQUESTS_FILE HDR_LOG TAG...

Compares what HdrHistogram's own HistogramLogProcessor reads from a log of `whylate-echo client --hdr`
with the exact latencies of the requests file. TAG: those that the log must hold; `-` is no tag."""
import json
import re
import subprocess
import sys

PROCESSOR = ["java", "-cp", "/usr/share/java/hdrhistogram.jar", "org.HdrHistogram.HistogramLogProcessor"]
failures = 0


def check(what, good, seen):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {what}: {seen}")


def process(log, *options):
    done = subprocess.run([*PROCESSOR, "-i", log, *options], capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"FAIL: the log cannot be read: {done.stderr or done.stdout}")
    return done.stdout


def percentiles(text):
    """[(value, cumulative count)] of the last table printed: that of the whole log."""
    rows = []
    for line in text.splitlines():
        if line.lstrip().startswith("Value "):
            rows = []
        elif match := re.match(r"\s*([\d.]+)\s+[\d.]+\s+(\d+)(\s|$)", line):
            rows.append((round(float(match[1])), int(match[2])))
    return rows


requests_file, log, *tags = sys.argv[1:]
with open(requests_file, encoding="utf-8") as file:
    requests = [json.loads(line) for line in file][1:]

found = process(log, "-listtags").splitlines()[1:]
wanted = ["[NO TAG (default)]" if tag == "-" else tag for tag in tags]
check("tags", found == wanted, found)
for tag in tags:
    key = "latency_intended_ns" if tag == "intended" else "latency_ns"
    exact = sorted(request[key] for request in requests if request[key] is not None)
    rows = percentiles(process(log, "-outputValueUnitRatio", "1", *([] if tag == "-" else ["-tag", tag])))
    check(f"{tag} count", rows and rows[-1][1] == len(exact), f"{rows[-1:]}, exact {len(exact)}")
    # Three significant digits: the highest value of a bucket is printed, at most a thousandth above what was put in.
    wrong = [(value, count) for value, count in rows
             if not value - value / 1000 - 1 <= exact[min(count, len(exact)) - 1] <= value
             or (count < len(exact) and exact[count] <= value)]
    check(f"{tag} values", not wrong and rows, f"{len(rows) - len(wrong)} of {len(rows)} rows right {wrong[:3]}")
sys.exit(failures > 0)
