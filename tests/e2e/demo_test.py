#!/usr/bin/env python3
"""The demo in small, as anybody starts it: all that it plays, and what it leaves when it is ended.

Usage: demo_test.py FOLDER_OF_THE_PROGRAMS. Which numbers come out is the machine's; that every
fault met what it was meant for, that nothing was lost, and that nothing is left, is the demo's.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "tools", "demo", "demo.py")
sys.path.insert(0, os.path.dirname(DEMO))

import play  # noqa: E402

BIN = None
REQUESTS, CONVERSATIONS, BLOCKS_OF_A_TURN = 12, 3, 20
HELD_SECONDS = 1


class DemoTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="varve-demo-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.temporary = self.path("temporary")
        os.mkdir(self.temporary)
        with open(self.path("trace"), "w", encoding="ascii") as file:
            for r in range(REQUESTS):
                first = r % CONVERSATIONS * 1000
                blocks = (r // CONVERSATIONS + 1) * BLOCKS_OF_A_TURN
                file.write(json.dumps({"timestamp": r, "input_length": 512 * blocks,
                                       "output_length": 1,
                                       "hash_ids": list(range(first, first + blocks))}) + "\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *more):
        demo = subprocess.Popen(
            [sys.executable, DEMO, "--bin", BIN, "--requests", str(REQUESTS),
             "--trace", self.path("trace"), *more], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd=self.folder,
            env={**os.environ, "TMPDIR": self.temporary, "http_proxy": "http://127.0.0.1:1"})
        self.addCleanup(demo.stdout.close)
        self.addCleanup(demo.wait)
        self.addCleanup(demo.kill)
        return demo

    def said_until(self, demo, pattern):
        said = ""
        for line in demo.stdout:
            said += line
            if re.search(pattern, line):
                return said
        self.fail(f"it ended, and this was not said: {pattern}\n{said}")

    def test_it_is_good_and_goes_on_until_it_is_ended(self):
        demo = self.start("--stay", "--json", "result.json")
        said = self.said_until(demo, "it goes on")
        self.assertIn("  good: ", said)
        with open(self.path("result.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual((result["faults"], result["requests"]), ([], REQUESTS))
        self.assertEqual(result["hit_blocks"], result["hits_possible"])
        self.assertGreater(result["hit_blocks"], 0)
        for kill in (result["kill"], result["last_kill"]):
            self.assertGreaterEqual(kill["hits_again_seconds"], kill["serving_seconds"])
            self.assertEqual(kill["hits_again_seconds"] > kill["serving_seconds"],
                             kill["short_matches"] > 0)
        lost = result["target_destroyed"]
        # Expect: what the screen says was seen, and is no default of something that was not.
        for value in (result["pushed_bytes"], result["kill"]["retried"], lost["decoded_extents"],
                      lost["rebuilt_blocks"], lost["rebuilt_bytes"], lost["noticed_seconds"],
                      result["follows"]["to_the_end"], result["last_kill"]["asked_again_blocks"]):
            self.assertGreater(value, 0)
        demo.send_signal(signal.SIGINT)
        self.assertEqual((demo.stdout.read(), demo.wait()), ("", 0))
        self.assertEqual(os.listdir(self.temporary), [])

    def test_it_leaves_nothing_when_it_is_interrupted(self):
        demo = self.start()
        self.said_until(demo, "watch it")
        demo.send_signal(signal.SIGINT)
        # It may have said more by the time the signal came.
        self.assertEqual(demo.stdout.read().splitlines()[-1], "demo: interrupted")
        self.assertEqual(demo.wait(), 130)
        self.assertEqual(os.listdir(self.temporary), [])

    def test_time_in_which_a_push_is_held_is_not_the_push_s(self):
        class Options:
            requests, trace = REQUESTS, self.path("trace")

        data, binary = self.path("held"), os.path.join(BIN, "varve_demo")
        os.mkdir(data)
        daemon = play.Daemon(BIN, data, play.Sizes(play.about(BIN, Options)))
        self.addCleanup(daemon.log.close)
        self.addCleanup(daemon.end)
        daemon.start()
        self.addCleanup(daemon.process.stdout.close)
        with open(self.path("worker.log"), "ab") as log:
            worker = play.Worker(binary, "prefill", daemon, Options, log)
        self.addCleanup(worker.process.stdout.close)
        self.addCleanup(worker.end)
        layers = worker.read()["layers"]
        began = time.monotonic_ns()
        row, held = worker.hold(0, lambda: time.sleep(HELD_SECONDS))
        all_ns = time.monotonic_ns() - began
        worker.close()
        self.assertEqual((held, row["pushed_blocks"], row["error"]), (True, BLOCKS_OF_A_TURN, ""))
        # Expect: what is left has room for the push, and the push is at least its computing.
        self.assertLessEqual(row["push_ns"], all_ns - HELD_SECONDS * 10**9)
        self.assertGreaterEqual(row["push_ns"], layers * play.Worker.LAYER_US * 1000)

    def test_what_is_wrong_is_said_before_anything_starts(self):
        for arguments, why in ((["--json", self.path("no/result.json")], "no/result.json"),
                               (["--data", self.folder], "is not empty"),
                               (["--trace", self.path("none")], "there is no"),
                               (["--bin", self.path("none")], "none/varve_demo")):
            demo = self.start(*arguments)
            said = demo.stdout.read()
            self.assertEqual(demo.wait(), 1, said)
            self.assertIn(why, said)
            self.assertNotIn("Traceback", said)


if __name__ == "__main__":
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
