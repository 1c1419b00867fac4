#!/usr/bin/env python3
"""Targets of the real varved that missed purges, or were replaced, and come back.

Usage: stale_test.py PATH_OF_VARVED. What is refused must be left as it is. Every process ended here
was started here.
"""
import os
import signal
import struct
import sys
import unittest

import varved_test


class StaleTest(unittest.TestCase):
    setUp = varved_test.VarvedTest.setUp
    tearDown = varved_test.VarvedTest.tearDown
    start = varved_test.VarvedTest.start
    refused = varved_test.VarvedTest.refused
    metric = varved_test.VarvedTest.metric

    def heads(self):
        """What a refused start must leave: the list and the first MiB of every target."""
        kept = {}
        for name in sorted(os.listdir(self.data)):
            if name == "targets.list" or name.startswith("target-"):
                with open(os.path.join(self.data, name), "rb") as f:
                    kept[name] = f.read(1 << 20)
        return kept

    def test_targets_that_all_missed_purges_are_refused_until_that_is_accepted(self):
        self.assertEqual(self.start().stop(), 0)
        targets = [os.path.join(self.data, f"target-{t}.dat") for t in range(2)]
        os.rename(targets[1], targets[1] + ".kept")
        daemon = self.start()
        self.assertEqual(self.metric('varve_target_missed{target="1"}', wanted=1), 1)
        self.assertEqual(daemon.stop(), 0)
        os.rename(targets[0], targets[0] + ".kept")
        os.rename(targets[1] + ".kept", targets[1])
        before = self.heads()
        text = self.refused(4, "--data", self.data, "--listen", "127.0.0.1:0", *varved_test.SMALL)
        for said in ("STALE: " + targets[1], "purged would come back", targets[0],
                     "--accept-stale"):
            self.assertIn(said, text)
        self.assertEqual(self.heads(), before)
        # Expect: beside one that was there it learns what it missed.
        os.rename(targets[0] + ".kept", targets[0])
        daemon = self.start()
        self.assertEqual(self.metric('varve_target_missed{target="1"}', wanted=0), 0)
        self.assertIn(f"target 1 {targets[1]} knows of every purge again", daemon.log())
        self.assertEqual(daemon.stop(), 0)
        os.rename(targets[0], targets[0] + ".kept")
        self.assertEqual(self.start().stop(), 0)
        # Expect: the other is the one that missed something now; the operator may say so.
        os.rename(targets[1], targets[1] + ".kept")
        os.rename(targets[0] + ".kept", targets[0])
        self.assertIn("STALE", self.refused(4, "--data", self.data, *varved_test.SMALL))
        daemon = self.start("--accept-stale")
        self.assertIn("BLOCKS THAT WERE PURGED MAY COME BACK", daemon.log())
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(self.start().stop(), 0)

    def test_a_target_that_fails_before_a_purge_may_not_come_back_alone(self):
        daemon = self.start("--i-am-testing", "--fault-stuck-target", "1")
        daemon.process.send_signal(signal.SIGUSR1)
        self.assertTrue(daemon.wait_log("target 1 IS STUCK"), daemon.log())
        s, kind = daemon.greet()
        self.assertEqual(kind, 2)
        s.settimeout(30)
        # PURGE of the domain, which target 1 does not take; it is given up after 10 s.
        s.sendall(varved_test.message(struct.pack("<HBBIQB3xII4x", 1, 32, 0, 16, 7, 3, 0, 0)))
        answer = varved_test.reply(s)
        self.assertEqual((answer[2], answer[16]), (33, 0))  # PURGED, ok
        self.assertEqual(self.metric('varve_target_missed{target="1"}', wanted=1), 1)
        s.close()
        daemon.stop(signal.SIGKILL)
        taken = os.path.join(self.data, "target-0.dat")
        os.rename(taken, taken + ".kept")
        before = self.heads()
        self.assertIn("STALE", self.refused(4, "--data", self.data, *varved_test.SMALL))
        self.assertEqual(self.heads(), before)
        os.rename(taken + ".kept", taken)
        self.start()
        self.assertEqual(self.metric('varve_target_missed{target="1"}', wanted=0), 0)

    def test_what_fails_while_the_node_stops_is_listed_before_the_end(self):
        daemon = self.start("--drain-ms", "4000")
        s, kind = daemon.greet()  # waited for, for half of that: nobody looks at targets meanwhile
        self.assertEqual(kind, 2)
        daemon.process.send_signal(signal.SIGTERM)
        self.assertTrue(daemon.wait_log("draining, at most"), daemon.log())
        target = os.path.join(self.data, "target-1.dat")
        os.remove(target)
        self.assertEqual(daemon.process.wait(timeout=60), 0, daemon.log())
        s.close()
        self.assertIn(f"target 1 {target} misses what is purged from now on", daemon.log())
        self.assertNotIn("not written before the end", daemon.log())
        with open(os.path.join(self.data, "targets.list"), encoding="ascii") as f:
            self.assertRegex(f.read(), r"(?m)^missed 1 [0-9]+ 0$")

    def test_a_replaced_target_that_comes_back_is_refused(self):
        self.assertEqual(self.start().stop(), 0)
        target = os.path.join(self.data, "target-1.dat")
        os.rename(target, target + ".old")
        self.assertEqual(self.start("--create-targets").stop(), 0)
        os.remove(target)
        os.rename(target + ".old", target)
        before = self.heads()
        text = self.refused(4, "--data", self.data, *varved_test.SMALL, "--accept-stale")
        for said in (target, "has another one in its place", "erase the first MiB"):
            self.assertIn(said, text)
        self.assertEqual(self.heads(), before)
        with open(target, "r+b") as f:
            f.write(bytes(1 << 20))
        daemon = self.start()
        self.assertIn(f"target 1 {target}: formatted", daemon.log())
        self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    varved_test.VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
