#!/usr/bin/env python3
"""The demo's hold on its processes: what it reads of them, and that no answer is no number."""
import http.server
import os
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools", "demo"))

import play  # noqa: E402

ABOUT = {"layers": 16, "layer_bytes": 32768, "blocks": 3000, "hits_possible": 1000}
METRICS = """# TYPE varve_target_ok_shards gauge
varve_target_ok_shards{target="0"} 2
varve_target_ok_shards{target="1"} 0
varve_index_thin_blocks 3
varve_repair_live 0
varve_repair_blocks_total{outcome="done"} 5
varve_repair_blocks_total{outcome="gone"} 50
varve_repair_bytes_total{outcome="done"} 500
"""


class NumbersTest(unittest.TestCase):
    def test_what_is_there(self):
        numbers = play.Numbers(METRICS)
        self.assertTrue(numbers.failed(1))
        self.assertFalse(numbers.failed(0))
        self.assertFalse(numbers.whole())
        self.assertEqual(numbers.rebuilt(), [5, 500])

    def test_what_is_not_there_is_no_zero(self):
        numbers = play.Numbers(METRICS)
        for ask in (lambda: numbers.failed(2), lambda: numbers.of("varve_index_thin"),
                    play.Numbers("").whole, play.Numbers("").rebuilt):
            with self.assertRaisesRegex(play.Failure, "/metrics has no varve_"):
                ask()


class LinesTest(unittest.TestCase):
    def setUp(self):
        here, self.there = os.pipe()
        self.pipe = os.fdopen(here, "rb")
        self.addCleanup(self.pipe.close)
        self.lines = play.Lines(self.pipe)

    def test_two_lines_that_came_at_once_and_one_in_parts(self):
        os.write(self.there, b"one\ntwo\nthr")
        self.assertEqual([self.lines.read(0.01), self.lines.read(0.01)], ["one", "two"])
        with self.assertRaises(TimeoutError):
            self.lines.read(0.01)
        os.write(self.there, b"ee\n")
        os.close(self.there)
        self.assertEqual([self.lines.read(0.01), self.lines.read(0.01)], ["three", None])


class Answer(http.server.BaseHTTPRequestHandler):
    answers = []  # text of each request, in turn; the last one goes on

    def do_GET(self):
        text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


class DaemonTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.daemon = play.Daemon("", folder.name, play.Sizes(ABOUT))
        self.addCleanup(self.daemon.log.close)
        self.daemon.process = types.SimpleNamespace(poll=lambda: None)

    def serve(self, answers):
        Answer.answers = answers
        server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.daemon.metrics_url = f"http://127.0.0.1:{server.server_port}/metrics"

    def test_it_asks_until_there_are_numbers_and_no_proxy(self):
        os.environ["http_proxy"] = "http://127.0.0.1:1"
        self.addCleanup(os.environ.pop, "http_proxy")
        self.serve(["<html>no numbers</html>", METRICS])
        self.assertEqual(self.daemon.numbers().thin(), 3)

    def test_no_answer_is_a_failure(self):
        self.daemon.process = types.SimpleNamespace(poll=lambda: 1)  # so it is not waited for
        self.daemon.metrics_url = "http://127.0.0.1:1/metrics"
        with self.assertRaisesRegex(play.Failure, "no answer"):
            self.daemon.numbers()

    def test_counters_go_on_over_lives(self):
        self.serve(["varve_evicted_blocks_total 4\n", "varve_evicted_blocks_total 3\n"])
        self.daemon.keep_counters()
        self.assertEqual(self.daemon.total("varve_evicted_blocks_total"), 7)

    def test_the_last_line_of_the_log_is_told(self):
        self.assertIn("empty", play.last_line(self.daemon.log))
        self.daemon.log.write(b"first\nthe reason\n")
        self.daemon.log.flush()
        self.assertEqual(play.last_line(self.daemon.log), "the reason")


class ProcessTest(unittest.TestCase):
    def start(self, script):
        log = tempfile.NamedTemporaryFile()
        self.addCleanup(log.close)
        process = play.Process("a worker", ["sh", "-c", script], log)
        self.addCleanup(process.process.stdout.close)
        self.addCleanup(process.close)
        self.addCleanup(process.end)
        return process

    def test_a_request_is_held_once_in_its_push(self):
        process = self.start("""read hold; echo '{"granted": 1}'; read go; echo '{"granted": 2}'
                                echo "{\\"said\\": \\"$hold, $go\\"}"; read end""")
        acts = []
        row, pushed = process.hold(7, lambda: acts.append("act"))
        self.assertEqual((row, pushed, acts), ({"said": "hold 7, go"}, True, ["act"]))

    def test_a_request_that_pushes_nothing_is_not_held(self):
        process = self.start("read hold; echo '{}'; read end")
        self.assertEqual(process.hold(7, self.fail), ({}, False))

    def test_one_that_ended_says_why(self):
        process = self.start("echo the reason >&2; exit 3")
        process.process.wait()
        for use in (process.read, lambda: process.send("x" * 10)):
            with self.assertRaisesRegex(play.Failure, r"a worker ended \(exit 3\): the reason"):
                use()

    def test_what_is_no_json_is_named(self):
        with self.assertRaisesRegex(play.Failure, "no JSON: hello"):
            self.start("echo hello; read end").read()

    def test_it_ends_with_the_demo_and_not_with_a_signal_to_its_group(self):
        script = ("import sys; sys.path.insert(0, sys.argv[1]); import play, os, time\n"
                  "p = play.start(['sleep', '600'], None)\n"
                  "print(p.pid, os.getsid(p.pid) == p.pid, flush=True); time.sleep(600)")
        demo = subprocess.Popen([sys.executable, "-c", script, os.path.join(ROOT, "tools", "demo")],
                                stdout=subprocess.PIPE, text=True)
        self.addCleanup(demo.stdout.close)
        pid, alone = demo.stdout.readline().split()
        self.assertEqual(alone, "True")
        ended = os.pidfd_open(int(pid))
        self.addCleanup(os.close, ended)
        demo.send_signal(signal.SIGKILL)
        demo.wait()
        # Its pipe closes when the last one that has it ends, and then it was killed by the kernel.
        self.assertEqual(play.select.select([ended], [], [], 60)[0], [ended])


class SizesTest(unittest.TestCase):
    def test_one_target_less_has_room_for_all_of_it(self):
        sizes = play.Sizes(ABOUT)
        self.assertGreater(sizes.target_bytes * 3, 2000 * 512 * 1024 * 3 / 2)
        self.assertLess(sizes.dram_bytes, 2000 * 512 * 1024)
        few = play.Sizes({**ABOUT, "hits_possible": 2990})
        self.assertEqual(few.target_bytes, play.TARGET_BYTES_MIN)

    def test_a_folder_without_space_is_refused_by_name(self):
        with self.assertRaisesRegex(play.Failure, r"/ has .* MiB free.*--data FOLDER"):
            play.need_space("/", 1 << 60)


class BarTest(unittest.TestCase):
    def test_it_is_narrower_than_the_terminal(self):
        for columns in (20, 80):
            said = play.bar(57, 100, "a text that is long " * 9, columns)
            self.assertLess(len(said.strip("\r").replace("\x1b[K", "")), columns)


if __name__ == "__main__":
    unittest.main()
