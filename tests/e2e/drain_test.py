#!/usr/bin/env python3
"""A target of the real varved is emptied while it works, taken out, and nobody misses it.

Usage: drain_test.py PATH_OF_VARVED PATH_OF_VARVE_DEMO. The demo's workers push and pull blocks and
compare every byte; every process ended here was started here.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import varved_test

DEMO = None
REQUESTS = 12
BLOCKS = 16  # of a request; no two share one
SETTINGS = ["--targets", "4", "--target-bytes", "400MiB", "--dram-bytes", "64MiB",
            "--free-floor-bytes", "0", "--scheme", "2+1", "--shards", "2"]


class DrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="varved-drain-")
        self.data = os.path.join(self.folder.name, "data")
        self.target = os.path.join(self.data, "target-1.dat")
        self.trace = os.path.join(self.folder.name, "trace")
        varved_test.write_trace(self.trace, REQUESTS, BLOCKS)
        self.daemon = None
        self.said = 0  # bytes of the log that were there before this daemon

    def tearDown(self):
        if self.daemon is not None and self.daemon.process.poll() is None:
            self.daemon.stop(signal.SIGKILL)
        self.folder.cleanup()

    def start(self, *more):
        log = self.data + ".stderr"
        self.said = os.path.getsize(log) if os.path.exists(log) else 0
        self.daemon = varved_test.Daemon(self.data, *SETTINGS, *more, small=False)
        self.daemon.wait_ready()

    def log(self):
        return self.daemon.log()[self.said:]

    def play(self, role):
        """Every request once, each as (blocks that were hits, blocks of wrong bytes or none)."""
        address = ":".join(self.daemon.ready.group(1, 2))
        result = subprocess.run(
            [DEMO, "--role", role, "--address", address, "--trace", self.trace],
            input="\n".join(str(r) for r in range(REQUESTS)), capture_output=True, text=True,
            timeout=120, check=True)
        rows = [json.loads(line) for line in result.stdout.splitlines()[1:]]
        self.assertEqual([r["error"] for r in rows], [""] * REQUESTS)
        return [(r["hit_blocks"], r["wrong_blocks"] + r["failed_blocks"]) for r in rows]

    def expect_all_right(self):
        self.assertEqual(self.play("decode"), [(BLOCKS, 0)] * REQUESTS)

    def metric(self, name, wanted, seconds=60):
        """The value of a row once `wanted` says that it is the one, or the last one seen."""
        deadline = time.monotonic() + seconds
        value = None
        while time.monotonic() < deadline:
            with open(os.path.join(self.data, "metrics.prom"), encoding="ascii") as f:
                rows = [r for r in f if r.startswith(name + " ")]
            value = float(rows[0].split()[-1]) if rows else None
            if value is not None and wanted(value):
                break
            time.sleep(0.1)
        return value

    def test_a_target_is_emptied_taken_out_and_not_missed(self):
        self.start()
        self.assertEqual(self.play("prefill"), [(0, 0)] * REQUESTS)
        self.assertEqual(self.daemon.stop(), 0)

        # Expect: slowly at first, and cut short in the middle.
        self.start("--drain-target", self.target, "--repair-mb-per-s", "2")
        self.assertIn(f"target 1 {self.target} IS BEING DRAINED", self.log())
        fragments = 'varve_target_fragments{target="1"}'
        whole = self.metric(fragments, lambda n: n > 0)
        self.assertGreater(whole, REQUESTS * BLOCKS / 4)
        self.assertEqual(self.metric('varve_target_draining{target="1"}', lambda n: n == 1), 1)
        self.assertLess(self.metric(fragments, lambda n: n < whole - 8), whole - 8)
        self.assertGreater(self.metric("varve_repair_eta_seconds", lambda n: n > 0), 0)
        self.daemon.stop(signal.SIGKILL)
        self.assertNotIn("IS EMPTY", self.log())

        # Expect: it goes on, all blocks are hits meanwhile, and it says when it is done.
        self.start("--drain-target", self.target, "--repair-mb-per-s", "40")
        self.expect_all_right()
        self.assertEqual(self.metric(fragments, lambda n: n == 0), 0)
        self.assertTrue(self.daemon.wait_log(f"target 1 {self.target} IS EMPTY AND MAY BE REMOVED"))
        self.assertEqual(self.log().count("IS EMPTY"), 1)
        self.assertEqual(self.metric("varve_index_thin_blocks", lambda n: n == 0), 0)
        self.daemon.stop(signal.SIGKILL)

        # Expect: without it nothing is lost, thin, degraded or made anew.
        os.remove(self.target)
        self.start()
        self.assertIn(f"target 1 {self.target} was drained", self.log())
        for word in ("IS LOST", "THIN", "STALE"):
            self.assertNotIn(word, self.log())
        self.expect_all_right()
        for reason in ("target", "thin"):
            name = 'varve_degraded{reason="%s"}' % reason
            self.assertEqual(self.metric(name, lambda n: n == 0, seconds=5), 0)
        self.assertFalse(os.path.exists(self.target))
        self.assertEqual(self.daemon.stop(), 0)

        # Expect: its place is free for another.
        self.start("--create-targets")
        self.assertIn(f"target 1 {self.target}: formatted", self.log())
        self.expect_all_right()
        self.assertEqual(self.daemon.stop(), 0)

    def test_one_that_was_drained_and_is_used_again_begins_blank(self):
        self.start()
        self.play("prefill")
        self.assertEqual(self.daemon.stop(), 0)
        self.start("--drain-target", self.target, "--repair-mb-per-s", "1000")
        self.assertTrue(self.daemon.wait_log("IS EMPTY AND MAY BE REMOVED"))
        self.assertEqual(self.daemon.stop(), 0)
        # Expect: asked again it is left alone; not asked it is a target like a new one.
        self.start("--drain-target", self.target)
        self.assertIn("was drained: nothing is on it", self.log())
        self.expect_all_right()
        self.assertEqual(self.daemon.stop(), 0)
        self.start()
        self.assertIn(f"target 1 {self.target}: formatted anew, because it was drained", self.log())
        self.expect_all_right()
        self.assertEqual(self.metric('varve_target_ok_shards{target="1"}', lambda n: n == 2), 2)
        self.assertEqual(self.daemon.stop(), 0)


if __name__ == "__main__":
    DEMO = os.path.abspath(sys.argv.pop(2))
    varved_test.VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
