#!/usr/bin/env python3
"""Clients that are killed at any step leave nothing held, and nothing wrong.

Usage: client_kill_test.py PATH_OF_VARVED PATH_OF_VARVE_DEMO. Workers of the demo push, pull and
follow, and are killed (SIGKILL) after a time that grows from run to run, so that every stage is
met; then all that they held comes back, and another worker finds every block that is there right,
byte for byte. Every process ended here was started here.
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
REQUESTS = 24
BLOCKS = 24
KILLS = 16  # of each role
SETTINGS = ["--targets", "4", "--target-bytes", "640MiB", "--dram-bytes", "96MiB",
            "--free-floor-bytes", "0", "--scheme", "2+1", "--shards", "2"]
HELD = ("varve_sessions", "varve_session_lanes", "varve_session_grants", "varve_session_leases",
        "varve_session_requests")


class ClientKillTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="varved-client-kill-")
        self.data = os.path.join(self.folder.name, "data")
        self.trace = os.path.join(self.folder.name, "trace")
        varved_test.write_trace(self.trace, REQUESTS, BLOCKS)
        self.workers = []
        self.daemon = varved_test.Daemon(self.data, *SETTINGS, small=False)
        self.daemon.wait_ready()

    def tearDown(self):
        for worker in self.workers:
            self.kill(worker)
        if self.daemon.process.poll() is None:
            self.daemon.stop(signal.SIGKILL)
        self.folder.cleanup()

    def worker(self, role, *more):
        """A worker that has connected and awaits its requests."""
        process = subprocess.Popen(
            [DEMO, "--role", role, "--address", ":".join(self.daemon.ready.group(1, 2)),
             "--trace", self.trace, *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.workers.append(process)
        self.assertNotEqual(process.stdout.readline(), "")
        return process

    def kill(self, process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        self.workers.remove(process)

    @staticmethod
    def ask(process, line):
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass

    def metrics(self):
        with open(os.path.join(self.data, "metrics.prom"), encoding="ascii") as f:
            rows = [r.split() for r in f if not r.startswith("#")]
        return {r[0]: float(r[1]) for r in rows if len(r) == 2}

    def held(self):
        rows = self.metrics()
        what = {name: rows[name] for name in HELD}
        for budget in ("push", "pull"):
            for name, value in rows.items():
                if name.startswith("varve_tier_used_bytes{") and f'budget="{budget}"' in name:
                    what[name] = value
        self.assertGreater(len(what), len(HELD))
        return {name: value for name, value in what.items() if value != 0}

    def expect_nothing_held(self, seconds=60):
        deadline = time.monotonic() + seconds
        while self.held() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.held(), {})

    def play_all(self, role):
        process = self.worker(role)
        out, _ = process.communicate("\n".join(str(r) for r in range(REQUESTS)), timeout=240)
        self.workers.remove(process)
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([r["error"] for r in rows], [""] * REQUESTS)
        return rows

    def test_whatever_a_client_was_doing_comes_back(self):
        followed = 0
        for n in range(KILLS):
            # Expect: a push is cut somewhere, between its first frame and its answer.
            prefill = self.worker("prefill", "--announce")
            self.ask(prefill, str(n % REQUESTS))
            granted = prefill.stdout.readline() if n % 2 == 0 else ""
            follower = None
            if '"granted"' in granted:
                followed += 1
                follower = self.worker("decode")
                self.ask(follower, f"follow {n % REQUESTS} {json.loads(granted)['granted']}")
            time.sleep(0.002 * n)
            self.kill(prefill)
            if follower is not None:
                # Expect: whoever follows it is told, and goes on.
                said = json.loads(follower.stdout.readline())
                self.assertEqual(said["wrong_blocks"], 0, said)
                self.kill(follower)
        self.assertGreater(followed, 0)
        self.expect_nothing_held()

        # Expect: what was killed is pushed anew, and what was committed is right.
        for row in self.play_all("prefill"):
            self.assertEqual((row["wrong_blocks"], row["failed_blocks"]), (0, 0), row)
        for n in range(KILLS):
            decode = self.worker("decode")
            self.ask(decode, str(n % REQUESTS))
            time.sleep(0.002 * n)
            self.kill(decode)
        self.expect_nothing_held()
        for row in self.play_all("decode"):
            self.assertEqual((row["hit_blocks"], row["wrong_blocks"]), (BLOCKS, 0), row)
        self.expect_nothing_held()
        rows = self.metrics()
        met = {code: rows[f'varve_session_closed_total{{code="{code}"}}']
               for code in ("cancelled", "unavailable", "io")
               if f'varve_session_closed_total{{code="{code}"}}' in rows}
        self.assertGreaterEqual(sum(met.values()), 2 * KILLS, rows)
        self.assertEqual(self.daemon.stop(), 0)


if __name__ == "__main__":
    DEMO = os.path.abspath(sys.argv.pop(2))
    varved_test.VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
