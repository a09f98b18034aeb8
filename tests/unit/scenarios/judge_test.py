# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import unittest

import samples
from scenarios.judge import counts, pairing, records, verdicts

MS = 1_000_000


class Faults(unittest.TestCase):
    def test_a_good_record_has_none(self):
        self.assertIsNone(records.fault_of(samples.waiting(5 * MS), samples.RUN_NS))
        self.assertEqual(records.faults(samples.outcome([samples.waiting(5 * MS)])), [])

    def test_each_violation_is_found(self):
        wrong = [
            ("sum", dict(total_ns=5 * MS + 11, end_ns=1000 + 5 * MS + 11), "sum"),
            ("end", dict(end_ns=1), "end - start"),
            ("negative", dict(stages=[{"name": "run_queue", "ns": -1, "cpu": 1}]), "unsigned"),
            ("occupants", dict(occupants=[samples.occupant("run_queue", "hog", 3)]), "occupants of run_queue"),
            ("elsewhere", dict(occupants=[samples.occupant("run_queue", "hog", 5 * MS),
                                          samples.occupant("softirq_wait", "hog", 1)]), "softirq_wait"),
            ("unknown", dict(occupants=[samples.occupant("run_queue", None, 5 * MS, kind="unknown")]), "flag"),
            ("verdict", dict(verdict={"stage": "app", "culprit": "", "text": ""}), "longest"),
        ]
        for what, changes, text in wrong:
            with self.subTest(what):
                self.assertIn(text, records.fault_of(samples.waiting(5 * MS, **changes), samples.RUN_NS))

    def test_a_time_above_the_run(self):
        self.assertIn("run", records.fault_of(samples.waiting(2 * samples.RUN_NS), samples.RUN_NS))

    def test_a_reply_never_reported_may_leave_no_record(self):
        for observed, lost in ((1, 1), (2, 1), (2, 2)):
            outcome = samples.outcome([samples.waiting(MS)], observed=observed, lost={"tx_pending": lost})
            self.assertEqual(records.faults(outcome), [])
        outcome = samples.outcome([samples.waiting(MS)], observed=3, lost={"tx_pending": 1})
        self.assertIn("observed", records.faults(outcome)[0])

    def test_the_summary_must_agree(self):
        self.assertIn("observed", records.faults(samples.outcome([samples.waiting(MS)], observed=2))[0])
        whole = samples.outcome([samples.waiting(MS)])
        whole.summary["complete"] = False
        self.assertIn("complete", records.faults(whole)[0])
        whole.summary = None
        self.assertEqual(records.faults(whole), ["no summary"])


class Pairing(unittest.TestCase):
    def pair(self, record, log):
        return pairing.pair_up([record], {100: log})

    def test_the_read_at_or_after_the_record(self):
        one = samples.record({"app": 10}, number=5, recv_ns=50)
        self.assertEqual(self.pair(one, [(4, 49), (5, 51), (6, 60)]).right, 1)
        self.assertEqual(self.pair(one, [(5, 49), (6, 51)]).wrong, 1)

    def test_what_says_that_it_may_be_wrong_is_not_wrong(self):
        one = samples.record({"app": 10}, number=5, recv_ns=50, quality=["order_unsure"])
        self.assertEqual(self.pair(one, [(6, 51)]).unsure, 1)
        one = samples.record({"app": 10}, recv_ns=50, quality=["no_id"], id=None)
        self.assertEqual(self.pair(one, [(6, 51)]).no_number, 1)
        one = samples.record({"app": 10}, number=5, recv_ns=50, quality=["no_arrival"])
        self.assertEqual(self.pair(one, [(6, 51)]).incomplete, 1)

    def test_reads_of_one_call(self):
        log = [(1, 51), (2, 51), (3, 51), (4, 60)]
        numbers = [(1, 48), (2, 49), (2, 50)]
        found = pairing.pair_up([samples.record({"app": 10}, number=n, recv_ns=ns) for n, ns in numbers], {100: log})
        self.assertEqual((found.right, found.wrong), (2, 1))

    def test_a_read_that_was_not_made(self):
        one = samples.record({"app": 10}, number=5, recv_ns=50)
        self.assertEqual(self.pair(one, [(5, 49)]).stray, 1)
        self.assertEqual(pairing.pair_up([one], {}).stray, 1)


class Blames(unittest.TestCase):
    def judge(self, guilty, innocent):
        judge = verdicts.blames("run_queue", r"hog\[", 1000, 10)
        return judge(samples.outcome(guilty), samples.outcome(innocent))

    def test_enough_of_the_right_one(self):
        guilty = [samples.waiting(5 * MS, seq=i) for i in range(10)]
        problems, seen = self.judge(guilty, [samples.waiting(100)])
        self.assertEqual(problems, [])
        self.assertEqual(seen.share, 1.0)
        self.assertIn("10 of 10", seen.text)

    def test_too_few(self):
        problems, _ = self.judge([samples.waiting(5 * MS, seq=i) for i in range(9)], [])
        self.assertIn("at least 10", problems[0])

    def test_too_small_a_share(self):
        guilty = [samples.waiting(5 * MS, "hog" if i < 10 else "other", seq=i) for i in range(14)]
        problems, seen = self.judge(guilty, [])
        self.assertIn("80%", problems[0])
        self.assertAlmostEqual(seen.share, 10 / 14)

    def test_the_partner_is_guilty_too_whoever_is_named_there(self):
        guilty = [samples.waiting(5 * MS, seq=i) for i in range(10)]
        problems, _ = self.judge(guilty, [samples.waiting(5 * MS, "other", seq=i) for i in range(3)])
        self.assertIn("innocent", problems[0])

    def test_cold_and_incomplete_ones_do_not_count(self):
        guilty = [samples.waiting(5 * MS, seq=i, quality=["cold"]) for i in range(10)]
        guilty += [samples.waiting(5 * MS, seq=i, verdict=None) for i in range(10)]
        problems, _ = self.judge(guilty, [])
        self.assertIn("0 requests", problems[0])

    def test_others_are_left_out_only_where_they_were(self):
        judge = verdicts.blames("run_queue", r"hog\[", 1000, 10)
        guilty = samples.outcome([samples.waiting(5 * MS, "hog" if i < 10 else "cc1plus", seq=i) for i in range(20)])
        self.assertEqual(len(judge(guilty, None)[0]), 1)
        guilty.foreign = 0.5
        self.assertEqual(judge(guilty, None)[0], [])

    def test_a_task_of_others_is_left_out_where_it_ran_as_long(self):
        judge = verdicts.blames("run_queue", r"hog\[", 1000, 10)

        def run(own, other, ran, apart):
            # The last `other` requests waited 5 ms for a task of others, one after the other or together.
            found = [samples.waiting(5 * MS, seq=i) for i in range(own)]
            for i in range(other):
                start = MS + i * 10 * MS * apart
                one = samples.waiting(5 * MS, "kswapd", own + i, start_ns=start, end_ns=start + 5 * MS + 10)
                one["verdict"]["culprit"] = "kswapd[8]"
                one["occupants"][0]["pid"] = 8
                found.append(one)
            return judge(samples.outcome(found, ran=ran), None)[0]

        self.assertEqual(run(10, 10, {8: 50 * MS}, apart=1), [])
        self.assertEqual(len(run(10, 10, {8: 49 * MS}, apart=1)), 1)
        self.assertEqual(run(10, 10, {8: 5 * MS}, apart=0), [])
        self.assertEqual(len(run(10, 10, {8: 4 * MS}, apart=0)), 1)
        self.assertEqual(len(run(10, 10, {9: 50 * MS}, apart=1)), 1)
        self.assertEqual(len(run(9, 10, {8: 50 * MS}, apart=1)), 1)

    def test_what_nobody_can_know_is_no_part_of_the_share(self):
        def run(right, unknown):
            found = [samples.waiting(5 * MS, seq=i) for i in range(right + unknown)]
            for one in found[right:]:
                one["verdict"].update(culprit="other tasks", text="other tasks held it: the kernel did not report a "
                                      "context switch.")
            return self.judge(found, [])

        problems, seen = run(10, 30)
        self.assertEqual((problems, seen.share), ([], 1.0))
        self.assertIn("10 of 10", seen.text)
        self.assertIn("30 more", seen.text)
        self.assertIn("at least 10", run(9, 30)[0][0])
        self.assertIn("0%", run(0, 30)[0][1])

    def test_a_text_that_must_be_there(self):
        judge = verdicts.blames("run_queue", r"hog\[", 1000, 1, says="SCHED_FIFO")
        problems, _ = judge(samples.outcome([samples.waiting(5 * MS)]), None)
        self.assertIn("SCHED_FIFO", problems[0])


class Shares(unittest.TestCase):
    def test_who_held_how_much(self):
        both = samples.record({"run_queue": 100}, occupants=[samples.occupant("run_queue", "a", 60),
                                                             samples.occupant("run_queue", "b", 40)])
        judge = verdicts.holds("run_queue", {"a": (0.5, 0.7), "b": (0.5, 0.7)})
        problems, _ = judge(samples.outcome([both]), None)
        self.assertEqual(len(problems), 1)
        self.assertIn("b held 40.0%", problems[0])

    def test_nobody_held_it(self):
        problems, _ = verdicts.holds("run_queue", {"a": (0, 1)})(samples.outcome([]), None)
        self.assertEqual(len(problems), 1)

    def test_growth(self):
        def one(ns):
            return samples.outcome([samples.waiting(MS)], stages={"app_irq": {"total_ns": ns}})

        judge = verdicts.grows("app_irq", 4, 1)
        self.assertEqual(judge(one(8000), one(2000))[0], [])
        self.assertEqual(len(judge(one(7000), one(2000))[0]), 1)
        self.assertEqual(len(judge(one(900), one(0))[0]), 1)


    def test_how_many_lost_time_to_a_part(self):
        def some(number):
            return samples.outcome([samples.waiting(MS, app_irq={"ipi_ns": 500 if i < number else 0})
                                    for i in range(20)] + [samples.waiting(MS)])

        judge = verdicts.steals("ipi_ns", 5)
        self.assertEqual(judge(some(6), some(2))[0], [])
        self.assertEqual(len(judge(some(6), some(3))[0]), 1)
        self.assertEqual(len(judge(some(4), some(0))[0]), 1)


class Counts(unittest.TestCase):
    def test_equal(self):
        one = samples.outcome([samples.waiting(MS)])
        self.assertEqual(counts.counts()(one, one)[0], [])

    def test_one_missing_one_too_many_and_one_left_over(self):
        records_ = [samples.waiting(MS, seq=i) for i in range(3)]
        for client in (2, 4):
            self.assertEqual(len(counts.counts()(samples.outcome(records_, client=client), None)[0]), 1)
        left_over = samples.outcome(records_, client=4, unmatched={"unsynced": 1})
        self.assertEqual(counts.counts(unmatched=1)(left_over, None)[0], [])
        self.assertEqual(len(counts.counts()(left_over, None)[0]), 1)

    def test_lost_switches_excuse_only_themselves(self):
        lost = samples.waiting(MS, quality=["lost_switch"], verdict=None)
        many = [lost] + [samples.waiting(MS, seq=i) for i in range(1, 40)]
        self.assertEqual(counts.counts()(samples.outcome(many, incomplete=1), None)[0], [])
        self.assertEqual(len(counts.counts()(samples.outcome(many, incomplete=2), None)[0]), 1)

    def test_replies_that_leave_unreported_are_few(self):
        many = [samples.waiting(MS, seq=i) for i in range(99)]
        one = samples.outcome(many, client=100, observed=100, incomplete=1, lost={"tx_pending": 1})
        self.assertEqual(counts.counts(unreported=0.01)(one, None)[0], [])
        self.assertIn("tx_pending", counts.counts()(one, None)[0][0])
        two = samples.outcome(many[1:], client=100, observed=100, incomplete=2, lost={"tx_pending": 2})
        self.assertIn("tx_pending", counts.counts(unreported=0.01)(two, None)[0][0])

    def test_losses_are_named(self):
        problems, _ = counts.counts()(samples.outcome([samples.waiting(MS)], lost={"udp_queue": 3}), None)
        self.assertIn("udp_queue", problems[0])

    def test_drops_are_judged_by_the_log(self):
        one = samples.outcome([samples.waiting(MS)], client=5, unmatched={"dropped": 4})
        self.assertEqual(counts.counts_reads()(one, None)[0], [])
        self.assertEqual(len(counts.counts_reads()(samples.outcome([samples.waiting(MS)], reads={}), None)[0]), 1)

    def test_wrong_numbers(self):
        wrong = samples.outcome([samples.waiting(MS)], reads={100: [(9, 10**9)]})
        self.assertIn("wrong", counts.paired()(wrong, None)[0][0])


class BetweenSendAndReply(unittest.TestCase):
    def judge(self, exchanges, number=5):
        one = samples.record({"app": 10}, number=number)  # starts at 1000, is read at 1010
        return counts.between_send_and_reply()(samples.outcome([one], exchanges=exchanges), None)[0]

    def test_right_and_wrong(self):
        self.assertEqual(self.judge({5: (990, 1020)}), [])
        self.assertEqual(self.judge({5: (990, None)}), [])
        for wrong in ({5: (1001, 1020)}, {5: (990, 1009)}, {}):
            self.assertEqual(len(self.judge(wrong)), 1)


if __name__ == "__main__":
    unittest.main()
