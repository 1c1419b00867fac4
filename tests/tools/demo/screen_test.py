#!/usr/bin/env python3
"""What the demo says of what it saw: the sums, the screen, and what it does not call good."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "demo"))

import screen  # noqa: E402

MS = 1000 * 1000


def row(**other):
    """A request of ten blocks, all of which were hits and came."""
    return {"blocks": 10, "hit_blocks": 10, "pulled_blocks": 10, "failed_blocks": 0,
            "wrong_blocks": 0, "retries": 0, "rebuilt_extents": 0, "pushed_blocks": 0,
            "recovering_asks": 0, "recovering_ns": 0,
            "pulled_bytes": 1000 * MS, "pushed_bytes": 0,
            "pull_ns": 500 * MS, "first_layer_ns": 20 * MS, "push_ns": 0, "computed_at_ns": 0,
            "first_layer_at_ns": 0, "done_at_ns": 0, "error": "", **other}


class Options:
    requests = 2


class Daemon:
    ready_line, metrics_url = "varved ready: x", "http://127.0.0.1:1/metrics"
    evicted = 0

    def total(self, _name):
        return self.evicted


def rows():
    pushed = row(hit_blocks=0, pulled_blocks=0, pulled_bytes=0, pull_ns=0, first_layer_ns=0,
                 pushed_blocks=10, push_ns=10 * 16 * 32768)  # bytes in as many ns
    followed = row(computed_at_ns=100 * MS, first_layer_at_ns=40 * MS, pushed_at_ns=120 * MS,
                   done_at_ns=123 * MS)
    return {"prefill": [pushed, row(retries=2)], "decode": [row(), row()], "followed": [followed],
            "ceiling": [{"bytes": 4000 * MS, "ns": n * MS} for n in (900, 1000, 1100)]}


def fault():
    return {"kill": {"seconds": 0.5, "request": 1, "rows": [row(retries=1), row()]},
            "target": {"target": 1, "request": 1, "rows": [row(), row()], "before": [row()],
                       "after": [row(first_layer_ns=30 * MS, rebuilt_extents=5)],
                       "noticed_seconds": 0.5, "rebuilt_seconds": 4.0, "thin_blocks_after": 6.0,
                       "rebuilt_blocks": 7.0, "rebuilt_bytes": 7e6},
            "last_kill": {"seconds": 0.6, "rows": [row(), row()]}}


ABOUT = {"source": "../some/trace.jsonl", "layers": 16, "layer_bytes": 32768, "blocks": 20,
         "hits_possible": 10}


def result(daemon=None, of=None, faults=None):
    made = screen.report(Options, ABOUT, of or rows(), faults or fault(), daemon or Daemon())
    made.update(seconds=60.0, drain_exit=0)
    return made


class ReportTest(unittest.TestCase):
    def test_sums_and_rates(self):
        r = result()
        self.assertEqual(r["hit_rate"], 0.5)
        self.assertEqual(r["hit_rate_possible"], 0.5)
        self.assertEqual(r["pushed_bytes"], 10 * 16 * 32768)
        self.assertEqual(r["push_gb_per_s"], 1.0)
        self.assertEqual(r["pull_gb_per_s"], 2.0)
        self.assertEqual(r["ceiling_gb_per_s"]["median"], 4.0)
        self.assertEqual(r["pull_to_ceiling"], 0.5)
        self.assertEqual(r["kill"]["retried"], 1)
        self.assertEqual(r["target_destroyed"]["retried"], 0)  # those of the kill are the kill's
        self.assertEqual(r["target_destroyed"]["decoded_extents"], 5)
        self.assertEqual(r["pulls"]["first_layer"]["of"], 7)
        self.assertEqual(r["target_destroyed"]["after"]["first_layer"]["p50_ms"], 30)

    def test_a_follow_is_measured_against_its_push(self):
        follows = result()["follows"]
        self.assertEqual(follows["first_layer_before_the_last_was_computed"]["p50_ms"], 60)
        self.assertEqual(follows["end_after_the_push"]["p50_ms"], 3)

    def test_a_follow_that_failed_is_not_measured(self):
        of = rows()
        of["followed"][0]["error"] = "cancelled: x"
        follows = result(of=of)["follows"]
        self.assertEqual((follows["pushes"], follows["to_the_end"]), (1, 0))
        self.assertEqual(follows["failed"], 1)

    def test_what_a_kill_costs_has_the_time_in_which_not_all_is_found(self):
        faults = fault()
        faults["kill"]["rows"][1].update(recovering_asks=3, recovering_ns=150 * MS)
        faults["last_kill"]["rows"][0].update(recovering_asks=2, recovering_ns=1000 * MS)
        r = result(faults=faults)
        self.assertEqual((r["kill"]["hits_again_seconds"], r["kill"]["short_matches"]), (0.65, 3))
        self.assertEqual(r["last_kill"]["hits_again_seconds"], 1.6)
        text = screen.screen_of(r)
        self.assertIn("at the end: serving again after 0.60 s, hits again after 1.60 s", text)
        self.assertIn("(3 short matches); 1 of 2 workers tried again", text)

    def test_the_screen_fits(self):
        large = fault()
        large["kill"]["rows"][0].update(recovering_asks=400, recovering_ns=9876543 * MS)
        large["target"].update(thin_blocks_after=12345.0, rebuilt_blocks=12345.0,
                               rebuilt_bytes=3.2e9, rebuilt_seconds=1234.5)
        for r in (result(), result(faults=large)):
            for source in ("a/" + "long" * 30, "generator (published parameters of a"
                           " conversation trace)"):
                r["trace"] = source
                for line in screen.screen_of(r).split("\n"):
                    self.assertLessEqual(len(line), 80, line)

    def test_the_worst_of_few_is_not_called_p99(self):
        r = result()
        self.assertNotIn("p99", screen.screen_of(r))
        r["pulls"]["first_layer"]["of"] = 100
        self.assertEqual(screen.screen_of(r).count("p99"), 1)

    def test_a_first_layer_after_the_last_was_computed_is_said_so(self):
        of = rows()
        of["followed"][0]["first_layer_at_ns"] = 107 * MS
        self.assertIn("there 7 ms after", screen.screen_of(result(of=of)))


class FaultsTest(unittest.TestCase):
    def test_good_is_good(self):
        self.assertEqual(screen.faults_of(result()), [])

    def test_an_eviction_proves_nothing_and_excuses_nothing(self):
        faults, daemon = fault(), Daemon()
        faults["last_kill"]["rows"][0]["pulled_blocks"] = 8
        self.assertEqual(screen.faults_of(result(faults=faults)), ["2 blocks were lost"])
        daemon.evicted = 2
        self.assertEqual(len(screen.faults_of(result(daemon, faults=faults))), 2)

    def test_what_decode_did_not_get_of_an_acknowledged_push(self):
        of = rows()
        of["decode"][1]["pulled_blocks"] = 9
        self.assertIn("1 blocks did not come", screen.faults_of(result(of=of))[0])

    def test_a_fault_that_met_nothing(self):
        faults = fault()
        faults["kill"]["rows"][0]["retries"] = 0
        faults["target"]["after"][0]["rebuilt_extents"] = 0
        faults["target"]["rebuilt_blocks"] = 0.0
        self.assertEqual(len(screen.faults_of(result(faults=faults))), 3)

    def test_a_hit_that_the_lost_target_cost(self):
        faults = fault()
        faults["target"]["after"][0]["pulled_blocks"] = 9
        self.assertEqual(screen.faults_of(result(faults=faults)), ["the lost target cost 1 hits"])

    def test_a_hit_that_prefill_did_not_have(self):
        of = rows()
        of["prefill"][1].update(hit_blocks=9, pushed_blocks=1)
        self.assertEqual(screen.faults_of(result(of=of)), ["1 hits of prefill were lost"])

    def test_no_hit_no_follow_wrong_bytes_a_bad_stop(self):
        of = rows()
        for r in of["decode"]:
            r["hit_blocks"] = 0
        of["followed"] = []
        of["prefill"][1]["wrong_blocks"] = 3
        r = result(of=of)
        r["drain_exit"] = 5
        self.assertEqual(len(screen.faults_of(r)), 4)


if __name__ == "__main__":
    unittest.main()
