# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import json
import unittest
from unittest import mock

from scenarios import registry, runner, table
from scenarios.model import Run, Scenario, Seen

ONE = Scenario("one", "family", "a cause", "a stage", Run(), Run())
GOOD = ([], [], [Seen("seen", 0.9)], 0.5)
WRONG = ([], ["wrong"], [], 0.01)
DISTURBED = ([], ["wrong"], [], 0.5)
VIOLATION = (["sums"], [], [], 0.5)


class Attempts(unittest.TestCase):
    def run_with(self, *attempts, scenario=ONE):
        with mock.patch.object(runner, "attempt", side_effect=attempts):
            return runner.run_scenario(scenario, None)

    def test_right_at_once_even_when_disturbed(self):
        report = self.run_with(GOOD)
        self.assertEqual((report.result, report.attempts), ("pass", 1))

    def test_disturbed_ones_are_repeated(self):
        report = self.run_with(DISTURBED, DISTURBED, GOOD)
        self.assertEqual((report.result, report.attempts), ("pass", 3))

    def test_always_disturbed_is_void(self):
        report = self.run_with(*[DISTURBED] * runner.TRIES)
        self.assertEqual(report.result, "void")

    def test_wrong_without_disturbance_three_times(self):
        report = self.run_with(WRONG, DISTURBED, WRONG, WRONG)
        self.assertEqual((report.result, report.attempts), ("fail", 4))

    def test_wrong_once_and_then_void(self):
        report = self.run_with(WRONG, *[DISTURBED] * (runner.TRIES - 1))
        self.assertEqual(report.result, "fail")

    def test_a_violation_is_never_excused(self):
        report = self.run_with(DISTURBED, VIOLATION)
        self.assertEqual((report.result, report.attempts), ("fail", 2))

    def test_known_failing_never_passes(self):
        known = Scenario("one", "family", "", "", Run(), None, known_failing="why")
        self.assertEqual(self.run_with(WRONG, scenario=known).result, "xfail")
        self.assertEqual(self.run_with(VIOLATION, scenario=known).result, "xfail")
        self.assertEqual(self.run_with(GOOD, scenario=known).result, "xpass")

    def test_what_this_machine_cannot_make(self):
        cannot = Scenario("one", "family", "", "", Run(), None, needs=lambda: "no such device")
        report = self.run_with(scenario=cannot)
        self.assertEqual((report.result, report.problems), ("cannot", ["no such device"]))


class Table(unittest.TestCase):
    def report(self, result="pass", **more):
        values = dict(scenario=ONE, result=result, seen=[Seen("12 of 12", 1.0)], problems=[], attempts=1,
                      foreign=0.0, seconds=1.0)
        return runner.Report(**{**values, **more})

    def test_json_and_page(self):
        value = json.loads(json.dumps(table.to_json([self.report(), self.report(attempts=2)])))
        self.assertEqual(value["schema"], table.SCHEMA)
        page = table.to_markdown(value)
        self.assertIn("| `one` | a cause (no partner", table.to_markdown(
            table.to_json([self.report(scenario=Scenario("one", "f", "a cause", "", Run(), None))])))
        self.assertIn("| `one` | a cause | a stage | 12 of 12 | 100 % |", page)
        self.assertIn("Of 2 runs, 1 needed more than one attempt and 0 were not right", page)
        self.assertNotIn("@@", page)

    def test_a_failure_shows_its_problems(self):
        page = table.to_markdown(table.to_json([self.report("fail", problems=["too | few"])]))
        self.assertIn("**fail**: too \\| few", page)


class Registry(unittest.TestCase):
    def test_every_scenario_is_whole(self):
        scenarios = registry.scenarios()
        self.assertGreaterEqual(len(scenarios), 30)
        for one in scenarios:
            with self.subTest(one.name):
                self.assertTrue(one.about and one.expected and one.judges)
                self.assertTrue(one.innocent is not None or one.family == "faults",
                                "only a fault of the tracer's surroundings has no partner")
                self.assertNotEqual(one.guilty, one.innocent)


if __name__ == "__main__":
    unittest.main()
