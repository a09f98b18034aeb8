# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reports as JSON, and that JSON as the page docs/scenarios.md."""
import collections
import os
import statistics

SCHEMA = "whylate.scenarios/1"


def to_json(reports):
    return {
        "schema": SCHEMA,
        "kernel": ".".join(os.uname().release.split(".")[:2]),
        "machine": os.uname().machine,
        "cpus": len(os.sched_getaffinity(0)),
        "scenarios": [{
            "name": one.scenario.name,
            "family": one.scenario.family,
            "cause": one.scenario.about,
            "expected": one.scenario.expected,
            "partner": one.scenario.innocent is not None,
            "result": one.result,
            "seen": [seen.text for seen in one.seen],
            "share": next((seen.share for seen in one.seen if seen.share is not None), None),
            "known_failing": one.scenario.known_failing or None,
            "problems": one.problems,
            "attempts": one.attempts,
            "foreign_share": round(one.foreign, 4),
            "seconds": round(one.seconds, 2),
        } for one in reports],
    }


def totals(reports):
    counts = collections.Counter(one.result for one in reports)
    return ", ".join(f"{number} {result}" for result, number in sorted(counts.items())) or "nothing ran"


def _cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def _row(one):
    share = "" if one["share"] is None else f"{one['share'] * 100:.0f} %"
    seen = "; ".join(one["seen"])
    if one["result"] in ("xfail", "cannot"):
        seen = f"**{one['result']}**: {one['known_failing'] or '; '.join(one['problems'])}"
    elif one["result"] != "pass":
        seen = f"**{one['result']}**: " + "; ".join(one["problems"])
    partner = "" if one["partner"] else " (no partner: a fault)"
    return f"| `{one['name']}` | {_cell(one['cause'])}{partner} | {_cell(one['expected'])} | {_cell(seen)} | {share} |"


def flakes(scenarios):
    """(runs, runs that needed more than one attempt, runs not right in the end)."""
    counted = [one for one in scenarios if one["result"] in ("pass", "fail", "void")]
    return (len(counted), sum(1 for one in counted if one["attempts"] > 1),
            sum(1 for one in counted if one["result"] != "pass"))


def to_markdown(value):
    """The table's part of the page; its text around is in page.md beside this file."""
    latest = {}
    for one in value["scenarios"]:
        latest[one["name"]] = one
    families = collections.OrderedDict()
    for one in latest.values():
        families.setdefault(one["family"], []).append(one)
    lines = []
    for family, rows in families.items():
        lines += ["", f"### {family}", "", "| scenario | cause | expected | seen | share |", "|---|---|---|---|---|"]
        lines += [_row(one) for one in rows]
    counts = collections.Counter(one["result"] for one in latest.values())
    runs, repeated, wrong = flakes(value["scenarios"])
    foreign = statistics.median([one["foreign_share"] for one in value["scenarios"]] or [0])
    head = (f"{len(latest)} scenarios on kernel {value['kernel']} ({value['machine']}, {value['cpus']} CPUs): " +
            ", ".join(f"{number} {result}" for result, number in sorted(counts.items())) +
            f". Of {runs} runs, {repeated} needed more than one attempt and {wrong} were not right in the end. Others "
            f"used {foreign:.0%} of a CPU meanwhile (median).")
    with open(os.path.join(os.path.dirname(__file__), "page.md"), encoding="utf-8") as file:
        page = file.read()
    return page.replace("@@TOTALS@@", head).replace("@@TABLES@@", "\n".join(lines).strip())
