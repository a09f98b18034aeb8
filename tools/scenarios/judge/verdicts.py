# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judges of guilt. Each is made with what is expected and then called with the guilty outcome and the
innocent one (or None); it returns what is wrong, as texts, and what it saw.

The machine is noisy, so no judge looks at the slowest few or at an absolute latency: it takes all
requests whose stage is above a threshold, wants most of them to name the culprit, wants enough of
them, and wants the innocent run to have far fewer, whoever is named there.
"""
import re

from ..model import MOST_FOREIGN, Seen
from .records import stage_ns

# How the names of all tasks begin that a scenario has to do with.
_OWN = ("whylate", "echo-", "replier", "lock-holder", "rt-", "hog", "nice-hog", "brief", "spinner", "stress-ng",
        "timers", "ipi-sender", "forker", "threader", "flood", "listeners", "mover", "python3", "ksoftirqd/", "napi/",
        "iou-")


def _held_at_least(outcome, tid):
    """How long a task must have run for all waits that name it to be true. Requests that were under way
    together may have waited for the same piece of it: of them the longest wait counts."""
    total = longest = end = 0
    for record in sorted(outcome.records, key=lambda one: one["start_ns"]):
        held = sum(one["ns"] for one in record["occupants"] if one["pid"] == tid)
        if not held:
            continue
        if record["start_ns"] > end:
            total, longest = total + longest, 0
        longest = max(longest, held)
        end = max(end, record["end_ns"])
    return total + longest


def others_did(outcome):
    """A function that tells of a culprit whether it is a task that the scenario has nothing to do with, and
    that did hold the CPU: others used more than 5 % of one, or the kernel says that this very task ran for
    as long as the records say."""
    held = {}

    def told(culprit):
        task = re.search(r"\[(\d+)\]$", culprit)
        if not task or culprit.startswith(_OWN):
            return False
        tid = int(task[1])
        if tid not in held:
            held[tid] = _held_at_least(outcome, tid)
        return outcome.foreign > MOST_FOREIGN or 0 < held[tid] <= outcome.ran.get(tid, 0)

    return told


def judged(outcome):
    """The records that may be blamed: complete, answered, and not the first two. What is rightly put down
    to others is no matter of the scenario."""
    told = others_did(outcome)
    return [one for one in outcome.records
            if one["verdict"] is not None and one["reply"] and "cold" not in one["quality"]
            and not told(one["verdict"]["culprit"])]


def late(outcome, stage, above_ns):
    return [one for one in judged(outcome) if stage_ns(one, stage) > above_ns]


def named(records, stage, culprit):
    """Those whose verdict is this stage, by a culprit that begins so (a regular expression)."""
    return [one for one in records
            if one["verdict"]["stage"] == stage and re.match(culprit, one["verdict"]["culprit"])]


def without_pid(culprit):
    return re.sub(r"\[\d+\]", "", culprit)


def tally(records):
    """What the verdicts say, most frequent first; for the text of a failure."""
    counts = {}
    for one in records:
        key = f"{one['verdict']['stage']} by {without_pid(one['verdict']['culprit'])}"
        counts[key] = counts.get(key, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{number} {text}" for text, number in ordered[:4]) or "none"


def _nobody_can_know(record):
    """The kernel did not report who got the CPU, and the verdict says so."""
    return "did not report a context switch" in record["verdict"]["text"]


def blames(stage, culprit, above_us, at_least, share=0.8, times=4, says=None, said=1.0):
    """Requests whose stage is above the threshold name the culprit: at least that many, that share of
    them, and that many times what the innocent run has above the threshold. `says`: a text that
    must be in their verdicts, in that part of them. One switch that the kernel does not report hides who
    held the CPU for all that waited then: those are no part of the share."""

    def judge(guilty, innocent):
        problems = []
        slow = late(guilty, stage, above_us * 1000)
        right = named(slow, stage, culprit)
        unknown = sum(1 for one in slow if _nobody_can_know(one))
        part = len(right) / (len(slow) - unknown) if len(slow) > unknown else 0.0
        if len(right) < at_least:
            problems.append(f"{len(right)} requests have {stage} by {culprit}, at least {at_least} wanted; above "
                            f"{above_us} us: {tally(slow)}; all: {tally(judged(guilty))}")
        if part < share:
            problems.append(f"{part:.0%} of the requests with {stage} above {above_us} us name {culprit}, "
                            f"{share:.0%} wanted: {tally(slow)}")
        if says is not None:
            silent = [one for one in right if not re.search(says, one["verdict"]["text"])]
            if len(silent) > (1 - said) * len(right):
                problems.append(f"{len(silent)} of {len(right)} verdicts do not say '{says}': {silent[0]['verdict']['text']}")
        text = f"{len(right)} of {len(slow) - unknown}: {stage}, {_example(right)}"
        if unknown:
            text += f"; of {unknown} more a context switch was not reported"
        if innocent is not None:
            free = late(innocent, stage, above_us * 1000)
            text += f"; without the cause {len(free)}"
            if len(right) < times * len(free):
                problems.append(f"the innocent run has {len(free)} with {stage} above {above_us} us against "
                                f"{len(right)}: {tally(free)}")
        return problems, Seen(text, part)

    return judge


def _example(records):
    return without_pid(records[0]["verdict"]["culprit"]) if records else "nobody"


def never_blames(culprit, above_us=0, share=0.0):
    """No more than that share of the verdicts about requests that took longer than that, of both runs, name
    this culprit. 0 is no choice for one that runs at all: a hypervisor may stop it while it does."""

    def judge(guilty, innocent):
        slow = [one for outcome in (guilty, innocent) if outcome is not None for one in judged(outcome)
                if one["total_ns"] > above_us * 1000]
        wrong = [one for one in slow if re.match(culprit, one["verdict"]["culprit"])]
        if len(wrong) <= share * len(slow):
            return [], None
        return [f"{len(wrong)} of {len(slow)} verdicts name {culprit}: {wrong[0]['verdict']['text']}"], None

    return judge


WAITS = ("run_queue", "app_run_queue")


def _stages(stage):
    return (stage,) if isinstance(stage, str) else stage


def held_ns(outcome, stage, comm, kind=None):
    """Time that occupants of this name (a regular expression) and kind had in waits of that stage, or of
    those stages."""
    return sum(one["ns"] for record in outcome.records for one in record["occupants"]
               if one["stage"] in _stages(stage) and (kind is None or one["kind"] == kind)
               and (comm is None or re.fullmatch(comm, one["comm"] or "")))


def holds(stage, shares, kind=None):
    """Occupants, by name, have a share of all waits of that stage that lies in its range; where others
    used the machine, of what tasks of the scenario held."""

    def judge(guilty, _):
        problems, texts = [], []
        own = "(" + "|".join(_OWN) + ").*" if guilty.foreign > MOST_FOREIGN else None
        whole = held_ns(guilty, stage, own)
        if not whole:
            return [f"nobody held the CPU in {stage}"], None
        for comm, (low, high) in shares.items():
            part = held_ns(guilty, stage, comm, kind) / whole
            texts.append(f"{comm} {part:.0%}")
            if not low <= part <= high:
                problems.append(f"{comm} held {part:.1%} of {stage}, {low:.0%} to {high:.0%} wanted")
        return problems, Seen("held: " + ", ".join(texts))

    return judge


def summary_agrees(stage):
    """The summary's blame is the sum of the records' occupants, for the tasks of the scenario: others may
    change their names while they run."""

    def judge(guilty, _):
        if guilty.summary["lost"]["ring_full"] or guilty.summary["lost"]["blame_full"]:
            return [], None
        problems = []
        rows = {}
        for row in guilty.summary["blame"]:
            if row["stage"] == stage and row["kind"] == "task" and row["comm"].startswith(_OWN):
                rows[row["comm"]] = rows.get(row["comm"], 0) + row["ns"]
        for comm, ns in rows.items():
            seen = held_ns(guilty, stage, re.escape(comm), "task")
            complete = sum(one["ns"] for record in guilty.records if record["verdict"] is not None
                           for one in record["occupants"]
                           if one["stage"] == stage and one["kind"] == "task" and one["comm"] == comm)
            if not complete <= ns <= seen:
                problems.append(f"the summary has {ns} ns of {stage} by {comm}, the records {seen} ns")
        return problems, None

    return judge


def per_request_ns(outcome, stage):
    """Mean time of a stage, or of stages, over the complete requests; 0 when none or not measured."""
    total = sum(outcome.summary["stages"][name]["total_ns"] or 0 for name in _stages(stage))
    return total / max(1, outcome.summary["requests"]["complete"])


def grows(stage, times, at_least_us=0.0):
    """The stage's mean is that many times the innocent run's, and at least that long."""

    def judge(guilty, innocent):
        with_ns, without_ns = per_request_ns(guilty, stage), per_request_ns(innocent, stage)
        text = (f"{' and '.join(_stages(stage))} {with_ns / 1000:.1f} us a request; "
                f"without the cause {without_ns / 1000:.1f} us")
        wrong = with_ns < times * without_ns or with_ns < at_least_us * 1000
        return ([f"{text}; {times} times and at least {at_least_us} us wanted"] if wrong else []), Seen(text)

    return judge


def steals(part, at_least, times=3):
    """That many requests lost time of their own to that part of app_irq, and that many times the innocent
    run's. A mean would grow with the few requests that a hypervisor hits."""

    def judge(guilty, innocent):
        with_, without = (sum(1 for record in outcome.records if (record.get("app_irq") or {}).get(part))
                          for outcome in (guilty, innocent))
        text = f"{part} in {with_} requests; without the cause {without}"
        wrong = with_ < at_least or with_ < times * without
        return ([f"{text}; at least {at_least} and {times} times wanted"] if wrong else []), Seen(text)

    return judge


def happens(stage, above_us, at_least, times=4):
    """That many requests have the stage above the threshold, whatever else they suffered, and that many
    times what the innocent run has."""

    def judge(guilty, innocent):
        with_, without = len(late(guilty, stage, above_us * 1000)), len(late(innocent, stage, above_us * 1000))
        text = f"{with_} requests with {stage} above {above_us} us; without the cause {without}"
        wrong = with_ < at_least or with_ < times * without
        return ([f"{text}; at least {at_least} and {times} times wanted"] if wrong else []), Seen(text)

    return judge


def outweighs(stage, others):
    """The stage has more time in all than the others together; only to be told where nobody disturbs."""

    def judge(guilty, _):
        if guilty.foreign > MOST_FOREIGN:
            return [], None
        own = per_request_ns(guilty, stage)
        rest = sum(per_request_ns(guilty, other) for other in others)
        return ([f"{stage} {own:.0f} ns a request, {others} {rest:.0f} ns"] if own <= rest else []), None

    return judge


def absent(stage):
    """The innocent run has no time at all in that stage."""

    def judge(_, innocent):
        total = innocent.summary["stages"][stage]["total_ns"]
        return ([f"the innocent run has {total} ns in {stage}"] if total else []), None

    return judge


def not_measured(stage):
    """A stage that this path does not have is never shown as 0."""

    def judge(guilty, innocent):
        rows = [one.summary["stages"][stage] for one in (guilty, innocent) if one is not None]
        wrong = any(row["measured"] or row["total_ns"] is not None or not row["why_not"] for row in rows)
        return ([f"{stage} is shown as measured: {rows[0]}"] if wrong else []), None

    return judge


def each(what, predicate, share=1.0, only_guilty=True):
    """At least that share of the judged records are as wanted."""

    def judge(guilty, innocent):
        problems = []
        seen = None
        for outcome in (guilty,) if only_guilty else (guilty, innocent):
            records = judged(outcome)
            right = sum(1 for one in records if predicate(one))
            part = right / len(records) if records else 0.0
            seen = seen or Seen(f"{what}: {right} of {len(records)}", part)
            if not records or part < share:
                problems.append(f"{what}: {right} of {len(records)}, {share:.0%} wanted")
        return problems, seen

    return judge


def answered(share=0.95):
    """Nearly every request has the reply that the responder sent for it."""

    def judge(guilty, innocent):
        problems = []
        for outcome in (guilty, innocent):
            right = sum(1 for one in outcome.records if one["reply"])
            if right < share * len(outcome.records):
                problems.append(f"{right} of {len(outcome.records)} requests have their reply")
        return problems, None

    return judge
