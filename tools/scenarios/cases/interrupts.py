# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Interrupts that take the CPU from the responder: counted as what they are, not as its own work."""
from ..judge.verdicts import happens, steals
from ..model import Run
from ..rig import causes
from .common import EXACT, with_and_without

FAMILY = "interrupts"
BUSY = Run("--work-us 400", "--rate 1000 --count 3000")


def timers(stage):
    stage.add(causes.timer_bursts(stage.server_cpu))


def between_cpus(stage):
    stage.add(causes.interrupts_between_cpus(stage.client_cpu, stage.server_cpu))


def samples(stage):
    stage.add(causes.deferred_interrupts(stage.server_cpu))


SCENARIOS = (
    with_and_without("irq-timers", FAMILY, "1,000 timers expire at once on the responder's CPU, 96 times a second",
                     "app_irq, interrupts", Run(BUSY.server, "--rate 1000 --count 1500", cause=timers),
                     (happens("app_irq", 100, 15), *EXACT)),
    with_and_without("irq-ipi", FAMILY, "another CPU keeps interrupting the responder's", "app_irq, interrupts",
                     Run(BUSY.server, BUSY.client, cause=between_cpus), (steals("ipi_ns", 20), *EXACT)),
    with_and_without("irq-work", FAMILY, "samples on the responder's CPU whose wake-ups the kernel defers (irq_work)",
                     "app_irq, interrupts", Run(BUSY.server, "--rate 1000 --count 1000", cause=samples),
                     (steals("irq_work_ns", 100), *EXACT)),
)
