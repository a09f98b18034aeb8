# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""All scenarios, in the order in which they run."""
from .cases import application, faults, field_notes, interrupts, receive, scheduler, softirq, transmit


def scenarios():
    every = [one for family in (receive, softirq, interrupts, transmit, scheduler, application, field_notes, faults)
             for one in family.SCENARIOS]
    names = [one.name for one in every]
    assert len(names) == len(set(names)), "two scenarios of one name"
    return every
