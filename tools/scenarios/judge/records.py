# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What holds for every record and summary, whatever went on: no disturbance excuses a violation."""

_WAITS = ("run_queue", "app_run_queue")
_SHOWN = 3


def stage_ns(record, name):
    return next((stage["ns"] for stage in record["stages"] if stage["name"] == name), 0)


def fault_of(record, run_ns):
    """What is wrong with a record; None: it holds."""
    total = record["total_ns"]
    numbers = [total] + [stage["ns"] for stage in record["stages"]] + [one["ns"] for one in record["occupants"]]
    if any(not isinstance(ns, int) or ns < 0 for ns in numbers):
        return "a time is no unsigned number"
    if record["end_ns"] - record["start_ns"] != total:
        return "the total is not end - start"
    if max(numbers) > run_ns:
        return "a time is longer than the run"
    summed = sum(stage["ns"] for stage in record["stages"])
    if summed != total:
        return f"the stages sum to {summed} ns, the total is {total} ns"
    held = dict.fromkeys(_WAITS, 0)
    for one in record["occupants"]:
        held[one["stage"]] = held.get(one["stage"], 0) + one["ns"]
        if one["kind"] == "unknown" and "not_named" not in record["quality"]:
            return "an occupant is unknown without the flag"
    for stage, ns in held.items():
        if ns > stage_ns(record, stage) or (stage in _WAITS and ns != stage_ns(record, stage)):
            return f"the occupants of {stage} sum to {ns} ns, it is {stage_ns(record, stage)} ns"
    if record["verdict"] is not None and record["stages"]:
        largest = max(stage["ns"] for stage in record["stages"])
        if stage_ns(record, record["verdict"]["stage"]) != largest:
            return "the verdict is not about the longest stage"
    return None


def faults(outcome):
    """Violations of an outcome, as text."""
    found = []
    wrong = 0
    for record in outcome.records:
        fault = fault_of(record, outcome.run_ns)
        if fault is not None:
            wrong += 1
            if wrong <= _SHOWN:
                found.append(f"request {record['seq']}: {fault}")
    if wrong > _SHOWN:
        found.append(f"{wrong} such records in all")
    summary = outcome.summary
    if summary is None:
        return found + ["no summary"]
    requests = summary["requests"]
    if requests["observed"] != requests["complete"] + requests["incomplete"] + requests["no_reply"]:
        found.append(f"the counts do not add up: {requests}")
    if summary["self_test"]["violations"] != 0:
        found.append(f"the tracer refused its own records: {summary['self_test']}")
    # Of a request whose reply was never reported to leave there may be a record or none.
    without = requests["observed"] - len(outcome.records) - summary["lost"]["ring_full"]
    if not 0 <= without <= summary["lost"]["tx_pending"]:
        found.append(f"{len(outcome.records)} records, {summary['lost']['ring_full']} lost and "
                     f"{summary['lost']['tx_pending']} waiting replies are not the {requests['observed']} observed")
    anything = sum(summary["lost"].values()) + (summary["cost"]["recursion_misses"] or 0)
    if summary["complete"] != (anything == 0):
        found.append(f"complete is {summary['complete']} with lost {summary['lost']}")
    return found
