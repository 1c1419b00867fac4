#!/usr/bin/env python3
"""What the demo calls good: a loss is excused by its own eviction and by nothing else."""
import importlib.util
import os
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SPEC = importlib.util.spec_from_file_location("demo", os.path.join(ROOT, "tools/demo/demo.py"))
demo = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(demo)

GOOD = {"wrong_blocks": 0, "lost_blocks": 0, "evicted_blocks": 0.0, "decode_hit_rate": 1.0,
        "drain_exit": 0}


class VerdictTest(unittest.TestCase):
    def test_good_is_good(self):
        self.assertEqual(demo.verdict(GOOD), [])
        self.assertEqual(demo.verdict({**GOOD, "lost_blocks": 3, "evicted_blocks": 3.0}), [])

    def test_one_eviction_does_not_excuse_two_losses(self):
        faults = demo.verdict({**GOOD, "lost_blocks": 2, "evicted_blocks": 1.0})
        self.assertEqual(len(faults), 1)
        self.assertIn("2 blocks were lost", faults[0])

    def test_no_hit_at_all_is_not_good(self):
        self.assertIn("ever hit", demo.verdict({**GOOD, "decode_hit_rate": 0})[0])

    def test_wrong_bytes_and_a_bad_stop_are_not_good(self):
        self.assertEqual(len(demo.verdict({**GOOD, "wrong_blocks": 1, "drain_exit": 5})), 2)

    def test_the_last_line_of_the_log_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = demo.Daemon("varved", folder)
            self.assertIn("empty", daemon.last_line())
            daemon.log.write(b"first\nthe reason\n")
            daemon.log.flush()
            self.assertEqual(daemon.last_line(), "the reason")
            daemon.log.close()


if __name__ == "__main__":
    unittest.main()
