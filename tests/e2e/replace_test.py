#!/usr/bin/env python3
"""A target of the real varved fails and is replaced while it serves; a kill -9 loses nothing.

Usage: replace_test.py PATH_OF_VARVED PATH_OF_VARVE_DEMO PATH_OF_KVCTL. The demo's workers push and
pull blocks and compare every byte; every process ended here was started here.
"""
import json
import os
import signal
import subprocess
import sys
import threading
import unittest

import drain_test
import varved_test

KVCTL = None
BLOCKS, REQUESTS = drain_test.BLOCKS, drain_test.REQUESTS
SETTINGS = ["--targets", "3", "--target-bytes", "400MiB", "--dram-bytes", "64MiB",
            "--free-floor-bytes", "0", "--scheme", "2+1", "--shards", "2",
            "--control", "127.0.0.1:0", "--repair-mb-per-s", "200"]


class ReplaceTest(unittest.TestCase):
    setUp = drain_test.DrainTest.setUp
    tearDown = drain_test.DrainTest.tearDown
    log = drain_test.DrainTest.log
    play = drain_test.DrainTest.play
    expect_all_right = drain_test.DrainTest.expect_all_right
    metric = drain_test.DrainTest.metric

    def start(self):
        log = self.data + ".stderr"
        self.said = os.path.getsize(log) if os.path.exists(log) else 0
        self.daemon = varved_test.Daemon(self.data, *SETTINGS, small=False)
        self.daemon.wait_ready()
        self.assertTrue(self.daemon.wait_log("control plane on "))

    def kvctl(self, *words):
        address = self.log().split("control plane on ")[1].split(",")[0]
        return subprocess.run([KVCTL, "--control", address, "--json", "--yes", *words],
                              capture_output=True, text=True, timeout=60, check=False)

    def uuid(self):
        rows = json.loads(self.kvctl("targets").stdout)["targets"]
        return rows[1]["uuid"]

    def under_load(self, work):
        """Reads every block again and again meanwhile: all are hits, of the right bytes."""
        stop, faults = threading.Event(), []

        def read():
            while not stop.is_set():
                try:
                    self.expect_all_right()
                except (AssertionError, subprocess.SubprocessError) as fault:
                    faults.append(str(fault))
                    return
        reader = threading.Thread(target=read)
        reader.start()
        try:
            work()
        finally:
            stop.set()
            reader.join()
        self.assertEqual(faults, [])

    def replace(self):
        self.assertEqual(self.kvctl("targets", "fail", "1").returncode, 0)
        refused = self.kvctl("targets", "replace", "1")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("it is the one to be replaced", refused.stdout + refused.stderr)
        os.rename(self.target, self.target + ".old")
        taken = self.kvctl("targets", "replace", "1")
        self.assertEqual(taken.returncode, 0, taken.stdout + taken.stderr)
        # Before the next numbers, too, nobody is told to put another one there.
        works = self.kvctl("targets", "replace", "1")
        self.assertIn("works: fail or drain it first", works.stdout + works.stderr)

    def test_a_drive_is_replaced_under_load_and_a_kill_loses_nothing(self):
        self.start()
        self.assertEqual(self.play("prefill"), [(0, 0)] * REQUESTS)
        old = self.uuid()
        # Before the first numbers of a life nobody knows whether it works.
        self.assertEqual(self.metric('varve_target_ok_shards{target="1"}', lambda n: n == 2), 2)
        self.assertEqual(self.metric("varve_recovering", lambda n: n == 0), 0)
        works = self.kvctl("targets", "replace", "1")
        self.assertIn("fail or drain it first", works.stdout + works.stderr)
        self.under_load(self.replace)
        self.assertNotEqual(self.uuid(), old)
        self.assertIn("HAS ANOTHER DRIVE", self.log())
        replaced = 'varve_target_replaced_total{target="1"}'
        self.assertEqual(self.metric(replaced, lambda n: n == 1), 1)
        self.assertEqual(self.metric('varve_target_ok_shards{target="1"}', lambda n: n == 2), 2)
        self.assertEqual(self.metric("varve_index_thin_blocks", lambda n: n == 0), 0)
        fragments = 'varve_target_fragments{target="1"}'
        self.assertGreaterEqual(self.metric(fragments, lambda n: n >= REQUESTS * BLOCKS),
                                REQUESTS * BLOCKS)
        self.daemon.stop(signal.SIGKILL)

        # Expect: the old drive in its place again is refused by name, and left as it is.
        os.rename(self.target, self.target + ".new")
        os.rename(self.target + ".old", self.target)
        refused = varved_test.Daemon(self.data, *SETTINGS, small=False)
        self.assertEqual(refused.process.wait(timeout=30), 4)
        self.assertIn("another one in its place", refused.log())
        refused.process.stdout.close()
        refused.stderr.close()
        os.rename(self.target, self.target + ".old")
        os.rename(self.target + ".new", self.target)

        # Expect: nothing lost, wrong or made anew; and any other target may fail.
        self.start()
        for word in ("IS LOST", "THIN", "STALE", "formatted"):
            self.assertNotIn(word, self.log())
        self.expect_all_right()
        self.assertEqual(self.kvctl("targets", "fail", "0").returncode, 0)
        self.expect_all_right()
        self.assertEqual(self.daemon.stop(), 0)


if __name__ == "__main__":
    KVCTL = os.path.abspath(sys.argv.pop(3))
    drain_test.DEMO = os.path.abspath(sys.argv.pop(2))
    varved_test.VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
