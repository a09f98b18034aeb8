# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every request of the client is one of the tracer's, none more, and each is the right one."""
from ..model import Seen
from .pairing import pair_up

_MOST_INCOMPLETE = 0.05  # a context switch that the kernel did not report makes a request incomplete
_MOST_NO_DETAIL = 0.1    # on a loaded machine the ring can fill up; that costs details only


def _both(guilty, innocent):
    return [("", guilty)] + ([("innocent run: ", innocent)] if innocent is not None else [])


# Neither are reads that became no request: peeks take nothing, drops never got to a reader.
_NO_READS = ("peek", "dropped")


def reads_of(outcome):
    return sum(len(log) for log in outcome.reads.values())


def calls_of(outcome):
    """Reads, those of one call as one."""
    return sum(len({time for _, time in log}) for log in outcome.reads.values())


def left_over_of(outcome):
    """Reads that became no request, by reason."""
    return {name: number for name, number in outcome.summary["requests"]["unmatched"].items()
            if number and name not in _NO_READS}


def counts(unmatched=0, incomplete=0.0, readers=1, open_at_end=0, unreported=0.0, switched=_MOST_INCOMPLETE):
    """Observed requests and reads left over by name are the client's requests, once for each of the
    readers that get every one. `unmatched`: how many may be left over; `incomplete`: which share
    may be, beyond lost switches; `open_at_end`: readers that never answer, so that their last request
    ends after the run; `unreported`: which share of the replies may have left without a report (a queue
    sends in the context of whatever task is running, and some kernels report nothing in that of some);
    `switched`: which share may be incomplete for lost switches: one hits all that share a long wait."""

    def judge(guilty, innocent):
        problems = []
        for where, outcome in _both(guilty, innocent):
            requests, client = outcome.summary["requests"], outcome.client
            names = left_over_of(outcome)
            left_over = sum(names.values())
            if client["received"] != client["sent"]:
                problems.append(f"{where}the client sent {client['sent']} and got {client['received']}")
            if requests["observed"] + left_over != client["received"] * readers - open_at_end:
                problems.append(f"{where}{requests['observed']} observed and {names} unmatched, the client got "
                                f"{client['received']}")
            if left_over > unmatched:
                problems.append(f"{where}unmatched: {names}, at most {unmatched} allowed")
            problems += [where + text for text in _losses(outcome, incomplete, unreported, switched)]
        return problems, None

    return judge


def counts_reads(unmatched=0, incomplete=0.0, number=reads_of):
    """The same where requests get lost on the way, or share a read: the responder's own log says how
    many it read. `number`: reads_of or calls_of."""

    def judge(guilty, innocent):
        problems = []
        for where, outcome in _both(guilty, innocent):
            requests, reads = outcome.summary["requests"], number(outcome)
            missing = left_over_of(outcome)
            if requests["observed"] + sum(missing.values()) != reads:
                problems.append(f"{where}{requests['observed']} observed and {missing} unmatched, the responder read "
                                f"{reads}")
            if sum(missing.values()) > unmatched:
                problems.append(f"{where}unmatched: {missing}, at most {unmatched} allowed")
            problems += [where + text for text in _losses(outcome, incomplete)]
        return problems, None

    return judge


def _losses(outcome, incomplete, unreported=0.0, switched=_MOST_INCOMPLETE):
    requests, lost = outcome.summary["requests"], outcome.summary["lost"]
    problems = []
    left_unseen = lost["tx_pending"] if lost["tx_pending"] <= unreported * requests["observed"] else 0
    other = {name: number for name, number in lost.items()
             if number and name != "ring_full" and not (name == "tx_pending" and left_unseen)}
    if other:
        problems.append(f"lost: {other}")
    if lost["ring_full"] > _MOST_NO_DETAIL * requests["observed"]:
        problems.append(f"details of {lost['ring_full']} requests did not fit")
    switches = sum(1 for one in outcome.records if "lost_switch" in one["quality"])
    allowed = switches + lost["ring_full"] + left_unseen + incomplete * requests["observed"]
    if requests["incomplete"] > allowed or switches > switched * max(1, requests["observed"]):
        problems.append(f"{requests['incomplete']} incomplete, {switches} of them for lost switches")
    return problems


def paired(unsure=0.0, no_number=0.0, wrong=0.0):
    """Each number is right, or the record says that it may not be; the shares allowed of each."""

    def judge(guilty, innocent):
        problems, seen = [], None
        for where, outcome in _both(guilty, innocent):
            pairing, reads = pair_up(outcome.records, outcome.reads), max(1, len(outcome.records))
            seen = seen or Seen(f"{pairing.right} of {reads} numbers right")
            if pairing.wrong > wrong * reads:
                problems.append(f"{where}{pairing.wrong} of {reads} numbers are wrong without a flag: "
                                f"{pairing.example}")
            if pairing.unsure > unsure * reads:
                problems.append(f"{where}{pairing.unsure} of {reads} numbers are wrong and flagged")
            if pairing.no_number > no_number * reads:
                problems.append(f"{where}{pairing.no_number} of {reads} records have no number")
            if pairing.stray:
                problems.append(f"{where}{pairing.stray} records of reads that the responder did not make")
        return problems, seen

    return judge


def between_send_and_reply(no_number=0.0):
    """Where the responder's log has another thread and time than the read itself (io_uring): each
    packet arrived after the client sent its number and was read before the client had the reply."""

    def judge(guilty, innocent):
        problems, seen = [], None
        for where, outcome in _both(guilty, innocent):
            numbered = [one for one in outcome.records if one["id"] is not None]
            right = 0
            for one in numbered:
                sent, received = outcome.exchanges.get(one["id"], (None, None))
                right += sent is not None and sent <= one["start_ns"] and \
                    (received is None or one["recv_ns"] <= received)
            total = max(1, len(outcome.records))
            seen = seen or Seen(f"{right} of {total} numbers right")
            if right < len(numbered) or len({one["id"] for one in numbered}) < len(numbered):
                problems.append(f"{where}{len(numbered) - right} of {total} numbers are wrong or twice there")
            incomplete = outcome.summary["requests"]["incomplete"]
            if total - len(numbered) > no_number * total + incomplete:
                problems.append(f"{where}{total - len(numbered)} of {total} records have no number")
        return problems, seen

    return judge
