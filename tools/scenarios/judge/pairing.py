# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The number that the tracer found in a packet must be the one that the responder read in that very
read. Equal counts would prove nothing: one lost event shifts the arrival of every later request."""
import bisect
import dataclasses

INCOMPLETE = ("no_arrival", "debt_unpaid", "no_thread", "lost_switch")
UNSURE = ("order_unsure", "shared_socket")


@dataclasses.dataclass
class Pairing:
    right: int = 0
    wrong: int = 0        # and not flagged
    unsure: int = 0       # flagged: neighbours can be swapped
    no_number: int = 0    # the tracer says that it does not know the number
    incomplete: int = 0
    stray: int = 0        # a record of a read that the responder did not make
    example: str = ""     # the first wrong one


def pair_up(records, reads):
    """Finds for each record the read it belongs to: the thread's first log entry at or after the time
    when the tracer saw the read end. The responder takes its time after the read, before the next.
    Reads of one call have one time: their records must have those numbers, each once."""
    result = Pairing()
    times = {tid: [time for _, time in log] for tid, log in reads.items()}
    left = {}
    for tid, log in reads.items():
        for number, time in log:
            left.setdefault((tid, time), []).append(number)
    for record in records:
        tid = record["tid"]
        at = bisect.bisect_left(times.get(tid, []), record["recv_ns"] or 0)
        if not record["recv_ns"] or at == len(times.get(tid, [])):
            result.stray += 1
            continue
        flags = record["quality"]
        numbers = left[tid, times[tid][at]]
        if any(flag in flags for flag in INCOMPLETE):
            result.incomplete += 1
        elif record["id"] is None and "no_id" in flags:
            result.no_number += 1
        elif record["id"] in numbers:
            numbers.remove(record["id"])
            result.right += 1
        elif any(flag in flags for flag in UNSURE):
            result.unsure += 1
        else:
            result.wrong += 1
            result.example = result.example or (f"{record['id']} where {numbers} was read, softirq "
                                                f"{record.get('softirq')}, {flags}")
    return result
