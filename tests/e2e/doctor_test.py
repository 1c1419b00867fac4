#!/usr/bin/env python3
"""What `kvctl doctor --local` says of targets before a start, and what the start then does.

Usage: doctor_test.py PATH_OF_VARVED PATH_OF_KVCTL. Both get the same settings, each time.
"""
import json
import os
import subprocess
import sys
import unittest

import varved_test

KVCTL = None


class DoctorTest(unittest.TestCase):
    setUp = varved_test.VarvedTest.setUp
    tearDown = varved_test.VarvedTest.tearDown
    start = varved_test.VarvedTest.start
    refused = varved_test.VarvedTest.refused

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def targets(self, paths=(), scheme="1+0"):
        """Of each finding on a target its severity and words, by its number."""
        settings = self.path("varved.toml")
        named = f"target = {json.dumps(paths)}\n" if paths else "targets = 2\n"
        with open(settings, "w", encoding="ascii") as f:
            f.write(f'[node]\ndata = "{self.data}"\n[tier]\ndram_bytes = "64MiB"\n'
                    f'[target]\n{named}target_bytes = "400MiB"\nfree_floor_bytes = 0\n'
                    f'scheme = "{scheme}"\n')
        done = subprocess.run([KVCTL, "--json", "doctor", "--local", "--config", settings],
                              capture_output=True, text=True, timeout=60, check=False)
        findings = json.loads(done.stdout)["findings"]
        return {finding["check"]: (finding["severity"], finding["cause"] + "; " + finding["remedy"])
                for finding in findings if finding["check"].startswith("target")
                and "may be written" not in finding["cause"]}

    def expect_refused(self, target, words, *more, **settings):
        severity, text = self.targets(**settings)[target]
        self.assertEqual(severity, "error", text)
        self.assertIn(words, text)
        said = self.refused(4, "--data", self.data, "--listen", "127.0.0.1:0", *more)
        self.assertIn(f"{target}, ", said)

    def test_a_start_does_what_doctor_says(self):
        small = varved_test.SMALL
        self.assertEqual([severity for severity, _ in self.targets().values()], ["ok", "ok"])
        self.start().stop()
        one = self.path("data/target-1.dat")
        for severity, text in self.targets().values():
            self.assertEqual(severity, "ok", text)
            self.assertIn("is this node's", text)
        self.expect_refused("target 0", "start with --scheme 1+0", *small, "--scheme", "1+1",
                            scheme="1+1")
        with open(one, "r+b") as f:
            head = f.read(1 << 20)
            f.seek(0)
            f.write(b"x" * 8192)
        self.expect_refused("target 1", "foreign data", *small)
        with open(one, "r+b") as f:
            f.write(head)
        names = [self.path("data/target-0.dat"), one, self.path("further.dat")]
        self.expect_refused("target 2", "--create-targets", "--target", names[0], "--target", one,
                            "--target", names[2], *small[2:], paths=names)
        # Expect: a loss is told from a refusal.
        os.unlink(one)
        severity, text = self.targets()["target 1"]
        self.assertEqual(severity, "error")
        self.assertIn("a start goes on without it", text)
        daemon = self.start()
        self.assertTrue(daemon.wait_log("IS LOST"), daemon.log())
        # Expect: what a daemon has is left alone.
        said = self.targets()
        self.assertEqual(list(said), ["targets"])
        self.assertEqual(said["targets"][0], "warning")
        self.assertIn("a varved runs in the data folder", said["targets"][1])


if __name__ == "__main__":
    KVCTL = os.path.abspath(sys.argv.pop(2))
    varved_test.VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main()
