#!/usr/bin/env python3
"""The real varved over a file system that stands still: only what is written there waits for it.

Usage: still_test.py PATH_OF_VARVED PATH_OF_KVCTL PATH_OF_LIBRARY. The library keeps each rename()
onto a name that ends in what a file of the test holds, for as long as that is there. Every process
ended here was started here.
"""
import json
import os
import re
import subprocess
import sys
import time
import unittest

import monitor_test
import varved_test

KVCTL = None
LIBRARY = None
AGE = re.compile(r'varve_files_age_seconds{files="(\w+)"} (\d+)')


class StillTest(unittest.TestCase):
    tearDown = varved_test.VarvedTest.tearDown

    def setUp(self):
        varved_test.VarvedTest.setUp(self)
        self.still = os.path.join(self.folder.name, "still")
        if "start" in self._testMethodName:
            self.stand_still("metrics.prom")
        kept = {name: os.environ.get(name) for name in ("LD_PRELOAD", "ASAN_OPTIONS")}
        os.environ["VARVE_TEST_STILL"] = self.still
        os.environ["LD_PRELOAD"] = LIBRARY
        os.environ["ASAN_OPTIONS"] = (kept["ASAN_OPTIONS"] or "") + ":verify_asan_link_order=0"
        try:
            self.daemon = varved_test.VarvedTest.start(self, "--drain-ms", "3000", "--http",
                                                       "127.0.0.1:0", "--control", "127.0.0.1:0")
        finally:
            del os.environ["VARVE_TEST_STILL"]
            for name, value in kept.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        log = self.daemon.log()
        self.http = re.search(r"metrics at http://([0-9.:]+)/metrics", log).group(1)
        self.control = re.search(r"control plane on ([0-9.:]+),", log).group(1)

    def stand_still(self, end=""):
        with open(self.still + ".new", "w", encoding="ascii") as file:
            file.write(end)
        os.rename(self.still + ".new", self.still)

    def kvctl(self, *words):
        return [KVCTL, "--control", self.control, "--json", *words]

    def asked(self, *words):
        result = subprocess.run(self.kvctl(*words), capture_output=True, text=True, timeout=20,
                                check=False)
        self.assertEqual(result.returncode, 0, (words, result.stderr))
        return json.loads(result.stdout)

    def ages(self):
        code, text = monitor_test.get(self.http, "/metrics")
        self.assertEqual(code, 200)
        return {files: int(age) for files, age in AGE.findall(text)}

    def wait_ages(self, fits):
        for _ in range(300):
            ages = self.ages()
            if fits(ages):
                return
            time.sleep(0.1)
        self.fail(str(ages))

    def check_served(self):
        for path in ("/healthz", "/readyz"):
            code, text = monitor_test.get(self.http, path)
            self.assertEqual(code, 200, text)
        age_ns = int(self.asked("status")["numbers_age_ns"])
        self.assertLess(age_ns, 4_000_000_000, "the node looks at its shards all the same")

    def test_probes_operators_and_the_stop_wait_for_no_metrics_file(self):
        self.stand_still()
        self.wait_ages(lambda ages: ages["metrics"] >= 6)
        self.check_served()
        self.assertTrue(self.daemon.wait_log("metrics.prom: the numbers in it are old: a write "
                                             "has not ended for"), self.daemon.log())
        began = time.monotonic()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertLess(time.monotonic() - began, 3 + 6)
        self.assertRegex(self.daemon.log(), r"drained; .* (written|closed) within 3000 ms")

    def test_a_start_waits_for_no_metrics_file(self):
        self.assertIn("metrics.prom: not written yet; look at the disk", self.daemon.log())
        self.wait_ages(lambda ages: ages["metrics"] >= 13)  # of a look behind the recovery
        self.check_served()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertIn("metrics.prom: not written before the end", self.daemon.log())

    def test_what_needs_no_file_waits_for_no_change(self):
        self.stand_still("targets.list")
        drain = subprocess.Popen(self.kvctl("--timeout", "60", "target", "drain", "0", "--yes"),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.wait_ages(lambda ages: ages["lists"] >= 3)  # the change has the list
        for words in (("scrub",), ("policy", "set", "log_level", "debug"),
                      ("policy", "set", "repair_mb_per_s", "0")):
            self.asked("--timeout", "15", *words)
        failed = self.asked("--timeout", "15", "target", "fail", "1", "--yes")
        self.assertEqual(failed["target"]["state"], "TARGET_STATE_FAILED")
        self.assertIsNone(drain.poll(), "and this one waits all the same")
        os.unlink(self.still)
        text = drain.communicate(timeout=60)
        self.assertEqual(drain.returncode, 0, text)
        self.assertEqual(self.daemon.stop(), 0)

    def test_a_change_that_waits_holds_nobody_else_up(self):
        self.stand_still()
        changes = [subprocess.Popen(self.kvctl("--timeout", "60", *words),
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for words in (("target", "drain", "0", "--yes"),
                                 ("target", "undrain", "1", "--yes"))]
        self.wait_ages(lambda ages: ages["metrics"] >= 3)
        self.assertTrue(any(change.poll() is None for change in changes))
        self.check_served()
        for words in (("target", "list"), ("domain", "list"), ("session", "list"),
                      ("format", "list"), ("tier", "list")):
            self.asked(*words)
        os.unlink(self.still)
        for change in changes:
            text = change.communicate(timeout=60)
            self.assertEqual(change.returncode, 0, text)
        self.assertIn(self.asked("target", "list")["targets"][0]["state"],
                      ("TARGET_STATE_DRAINING", "TARGET_STATE_DRAINED"))
        self.wait_ages(lambda ages: max(ages.values()) <= 2)
        self.assertEqual(self.daemon.stop(), 0)
        self.assertIn("drained and stopped", self.daemon.log())


if __name__ == "__main__":
    varved_test.VARVED, KVCTL, LIBRARY = (os.path.abspath(path) for path in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main(verbosity=2)
