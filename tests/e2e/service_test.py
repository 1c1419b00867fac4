#!/usr/bin/env python3
"""The real varved as a service: what its manager is told, and that a stop ends in time.

Usage: service_test.py PATH_OF_VARVED. Every process ended here was started here.
"""
import os
import re
import signal
import socket
import sys
import time
import unittest

import varved_test


class ServiceTest(unittest.TestCase):
    setUp = varved_test.VarvedTest.setUp
    tearDown = varved_test.VarvedTest.tearDown
    start = varved_test.VarvedTest.start

    def test_a_stop_is_bounded_with_a_target_that_never_answers(self):
        # Far below the 10 s after which the target would be failed and the stop could go on.
        daemon = self.start("--drain-ms", "1000", "--i-am-testing", "--fault-stuck-target", "1")
        daemon.process.send_signal(signal.SIGUSR1)
        self.assertTrue(daemon.wait_log("target 1 IS STUCK"), daemon.log())
        began = time.monotonic()
        self.assertEqual(daemon.stop(), 5)
        self.assertLess(time.monotonic() - began, 6)
        self.assertIn("not drained within 1000 ms", daemon.log())
        self.assertEqual(self.start().stop(), 0)

    def test_a_stop_is_bounded_with_operators_and_probes_that_stay(self):
        # The HTTP library looks every 2 s whether it is to end, and the peers say nothing.
        stops = []
        for _ in range(3):
            daemon = self.start("--drain-ms", "500", "--http", "127.0.0.1:0",
                                "--control", "127.0.0.1:0")
            listeners = re.findall(r"(?:control plane on |http://)127\.0\.0\.1:(\d+)",
                                   daemon.log())[-2:]  # of this start
            silent = [socket.create_connection(("127.0.0.1", int(port)), timeout=10)
                      for port in listeners * 4]
            began = time.monotonic()
            code = daemon.stop()
            stops.append((code, time.monotonic() - began))
            self.assertEqual(len(silent), 8)
            for s in silent:
                s.close()
        self.assertTrue(any(code == 0 and took < 1.5 for code, took in stops), stops)

    def test_a_service_manager_is_told(self):
        path = os.path.join(self.folder.name, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(10)
            os.environ["NOTIFY_SOCKET"] = path
            try:
                daemon = self.start()
            finally:
                del os.environ["NOTIFY_SOCKET"]
            told = manager.recv(4096).decode()
            self.assertIn("READY=1\nSTATUS=listening on 127.0.0.1:", told)
            self.assertEqual(manager.recv(4096), b"WATCHDOG=1")
            self.assertEqual(daemon.stop(), 0)
            rest = []
            manager.setblocking(False)
            try:
                while True:
                    rest.append(manager.recv(4096).decode())
            except BlockingIOError:
                pass
        self.assertEqual([r for r in rest if r != "WATCHDOG=1"],
                         ["STOPPING=1\nSTATUS=draining, at most 10000 ms"])
        self.assertNotIn("could not be told", daemon.log())

    def test_a_manager_that_is_gone_costs_nothing(self):
        os.environ["NOTIFY_SOCKET"] = os.path.join(self.folder.name, "gone")
        try:
            daemon = self.start()
        finally:
            del os.environ["NOTIFY_SOCKET"]
        self.assertEqual(daemon.stop(), 0)
        self.assertIn('could not be told "READY=1": No such file', daemon.log())


if __name__ == "__main__":
    varved_test.VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
