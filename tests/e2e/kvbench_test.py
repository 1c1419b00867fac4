#!/usr/bin/env python3
"""kvbench against a real varved: every subcommand has a result, and its declaration is valid.

Usage: kvbench_test.py PATH_OF_KVBENCH. How fast it is here is nobody's promise: no time is asserted
but that a stop of the server is seen. Every process ended here was started here.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

KVBENCH = ""
SMALL = ["--layers", "2", "--blocks-max", "16", "--target-mib", "512", "--dram-mib", "128"]
CONVERSATION = os.path.join("..", "shared", "data", "traces", "mooncake_conversation.jsonl")
SESSIONS = os.path.join("..", "shared", "data", "traces", "agent")


class KvBench(unittest.TestCase):
    """Each test has a work folder of its own, which is empty again after it."""

    def setUp(self):
        # Beside the program: file systems in memory may refuse O_DIRECT.
        self.folder = tempfile.mkdtemp(prefix="kvbench-", dir=os.path.dirname(KVBENCH))
        self.json = os.path.join(self.folder, "declaration.json")

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def run_it(self, *arguments, expect=0):
        command = [KVBENCH, *arguments, "--dir", self.folder, "--json", self.json]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        if expect != 0:
            self.assertFalse(os.path.exists(self.json))
            return {}, done.stdout
        self.assertEqual(os.listdir(self.folder), ["declaration.json"], "something was left behind")
        with open(self.json, encoding="utf-8") as file:
            return json.load(file), done.stdout

    def test_ceiling(self):
        document, text = self.run_it("ceiling", "--quick", "--layers", "2")
        self.assertIn("ceiling drive_read ", text)
        self.assertEqual(document["results"]["mode"], "no_store")
        self.assertNotIn("server_commit", document)

    def test_the_commit_is_that_of_the_build_wherever_the_program_stands(self):
        away = os.path.join(self.folder, "kvbench")
        shutil.copy2(KVBENCH, away)
        command = [away, "ceiling", "--quick", "--layers", "2", "--dir", self.folder, "--json",
                   self.json]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.json, encoding="utf-8") as file:
            document = json.load(file)
        self.assertRegex(document["git_commit"], "^([0-9a-f]{40}(-dirty)?|sources-[0-9a-f]{64})$")
        # Expect: what it knows by its build's cache alone it does not know here, and says so.
        self.assertIn("whether this is a release build is unknown", done.stdout)
        self.assertNotIn("this is no release build", done.stdout)
        # Expect: what the machine sets is declared, without a word of it omitted.
        told = document["declaration"]["os"]
        for part in ("governor", "mitigations", "numa_nodes", "sysctl"):
            self.assertTrue(told[part], part)
        self.assertNotIn("os", [o["field"] for o in document["omissions"]])

    def test_replay_of_the_generator(self):
        document, text = self.run_it("replay", "--requests", "10", "--rounds", "2", *SMALL)
        results = document["results"]
        self.assertEqual(results["verified"]["wrong_blocks"], 0)
        self.assertGreater(results["verified"]["bytes"], 0)
        # Expect: prefill finds what could be there at most, decode all that was pushed.
        self.assertLessEqual(results["hits"]["rate"], results["hits"]["possible_rate"])
        self.assertEqual(results["outcomes"]["pulls"]["failed"], 0)
        self.assertEqual(results["outcomes"]["pushed_blocks"] + results["hits"]["hit_blocks"],
                         results["hits"]["blocks"])
        self.assertIn("of_ceiling ", text)
        self.assertIn("kvbench replay --requests 10", document["reproduction_command"])
        self.assertEqual(document["declaration"]["workload.source"]["seed"], 1)
        self.assertEqual(document["server_commit"], document["git_commit"])
        self.assertNotIn("varved is of commit", text)

    def test_a_server_that_codes_is_declared_so(self):
        for arguments in (["replay", "--requests", "6", "--rounds", "1", *SMALL],
                          ["sweep", "--quick", "--layers", "2"]):
            document, text = self.run_it(*arguments, "--scheme", "2+1")
            declared = document["declaration"]
            scheme = declared["ec.scheme"]
            self.assertEqual((scheme["kind"], scheme["k"], scheme["m"]), ("xor", 2, 1))
            for field in ("ec.unit", "ec.read_policy", "ec.parity_write"):
                self.assertIn(field, declared)
            self.assertNotIn("NOT PURE", text)
            os.remove(self.json)
        self.run_it("replay", "--scheme", "4+2", "--targets", "5", expect=1)

    def test_bars_are_declared_like_everything_else(self):
        document, text = self.run_it("bars", "match_wire", "match", "--quick", "--rounds", "1")
        self.assertEqual([b["name"] for b in document["results"]["bars"]], ["match_wire", "match"])
        # Expect: what was pushed was pulled and compared; a table of ids has no bytes, and says so.
        wire, table = document["results"]["bars"]
        self.assertGreater(wire["verified_bytes"], 0)
        self.assertEqual(document["results"]["verified"]["bytes"], wire["verified_bytes"])
        self.assertEqual(table["verified_bytes"], 0)
        self.assertTrue(table["unverified"])
        self.assertEqual(document["server_commit"], document["git_commit"])
        self.assertEqual(document["results"]["mode"], "each_bar_its_own")
        for field in ("tiers[].capacity_bytes", "io[].queue_depth", "placement.shard_policy"):
            self.assertIn(f"\ndeclare {field} ", "\n" + text)
            self.assertIn(field, document["declaration"])

    def test_one_after_the_other_hits_all_that_can_hit(self):
        document, _ = self.run_it("replay", "--requests", "10", "--rounds", "1", "--concurrency",
                                  "1", *SMALL)
        hits = document["results"]["hits"]
        self.assertEqual(hits["rate"], hits["possible_rate"])

    def test_replay_of_the_published_traces(self):
        for trace, loop in ((CONVERSATION, "closed"), (SESSIONS, "open")):
            if not os.path.exists(trace):
                self.skipTest(f"{trace} is not there")
            document, _ = self.run_it("replay", "--trace", trace, "--requests", "8", "--loop", loop,
                                      "--speedup", "1000", "--rounds", "2", *SMALL)
            self.assertEqual(len(document["declaration"]["workload.source"]["sha256"]), 64)
            results = document["results"]
            self.assertEqual(len(results["rounds"]), 2)
            self.assertEqual(len(results["rates"]["request_p99_ms"]["rounds"]), 2)
            # Expect: a round of an open loop is all of the trace.
            self.assertEqual(results["transfer_ms"]["request"]["n"], 16 if loop == "open" else 8)
            os.remove(self.json)

    def test_a_server_that_stops_is_in_the_latency_of_an_open_loop(self):
        """The server is stopped for a second while requests are due: with an open loop they count
        the wait from when they were due; the time since they were begun hides it."""
        data = os.path.join(self.folder, "data")
        server, address = start_varved(data)
        command = [KVBENCH, "replay", "--requests", "120", "--loop", "open", "--speedup", "5",
                   "--concurrency", "1", "--rounds", "1", "--layers", "1", "--blocks-max", "4",
                   "--address", address, "--json", self.json]
        try:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True) as process:
                wait_until_pulled(os.path.join(data, "metrics.prom"), process)
                server.send_signal(signal.SIGSTOP)
                time.sleep(1)
                server.send_signal(signal.SIGCONT)
                text, _ = process.communicate(timeout=240)
        finally:
            stop_varved(server)
        self.assertEqual(process.returncode, 0, text)
        with open(self.json, encoding="utf-8") as file:
            results = json.load(file)["results"]
        # Expect: 120 requests are due over 7 s and more, so the stop falls among them, and the one
        # that met it waited for nearly all of it. One was under way, the others waited for it.
        times = results["transfer_ms"]
        self.assertGreaterEqual(times["request"]["max"], 700)
        self.assertGreater(times["request"]["mean"], times["request_since_begun"]["mean"])
        self.assertGreater(results["lateness_ms"]["max"], 0)

    def test_replay_of_storage_only(self):
        """Prompts come again, so that DRAM would serve them if it kept a block."""
        small = ["--requests", "30", "--rounds", "2", *SMALL]
        document, text = self.run_it("replay", "--storage-only", *small)
        results = document["results"]
        self.assertEqual(results["mode"], "storage_only")
        self.assertIn("\nmode storage_only, blocks of pulls: 0 from DRAM", text)
        self.assertGreater(results["hits"]["hit_blocks"], 0)
        self.assertEqual(results["served"]["dram_bytes"], 0)
        self.assertGreater(results["served"]["flash_bytes"], 0)
        self.assertEqual(document["declaration"]["tiers[].name"], ["nvme_local"])
        self.assertIn("of_drive", results["rates"])
        os.remove(self.json)
        # Expect: the same without the flag is of both, and memory serves some of it.
        document, _ = self.run_it("replay", *small)
        results = document["results"]
        self.assertEqual(results["mode"], "storage_plus_memory")
        self.assertGreater(results["served"]["dram_bytes"], 0)
        self.assertNotIn("of_drive", results["rates"])

    def test_sweep(self):
        document, text = self.run_it("sweep", "--quick", "--layers", "2")
        cells = document["results"]["cells"]
        self.assertEqual(len(cells), 12)
        kinds = {(cell["tier"], cell["state"]) for cell in cells}
        self.assertEqual(kinds, {("flash", "cold"), ("flash", "hot"), ("dram", "hot")})
        for cell in cells:
            self.assertTrue(cell["pure"], cell)
            flash = cell["tier"] == "flash"
            self.assertEqual(cell["mode"] == "storage_only", flash)
            self.assertEqual(cell["ceiling"], "drive" if flash else "socket")
        self.assertNotIn("NOT PURE", text)

    def test_what_of_a_server_of_others_cannot_be_had_is_refused_by_name(self):
        server, address = start_varved(os.path.join(self.folder, "data"))
        command = [KVBENCH, "sweep", "--address", address, "--extent-kib", "64", "--blocks", "2",
                   "--concurrency", "1", "--layers", "2", "--repetitions", "2", "--json", self.json]
        try:
            for more in (["--state", "hot", "cold"], ["--tier", "flash"]):
                done = subprocess.run([*command, *more], capture_output=True, text=True,
                                      timeout=60, check=False)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn("of a server that runs already", done.stdout + done.stderr)
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        finally:
            stop_varved(server)
        with open(self.json, encoding="utf-8") as file:
            document = json.load(file)
        cells = document["results"]["cells"]
        self.assertEqual([(c["tier"], c["state"], c["pure"]) for c in cells],
                         [("dram", "hot", True)])
        omitted = {o["field"] for o in document["omissions"]}
        self.assertIn("tiers[].capacity_bytes", omitted)

    def test_ended_by_a_signal_it_leaves_nothing_behind(self):
        """While GiB of targets lie there and daemons serve: no file, no process, no result."""
        for number, arguments in (
                (signal.SIGINT, ["ceiling", "--rounds", "1001"]),
                (signal.SIGTERM, ["replay", "--requests", "5000", *SMALL]),
                (signal.SIGQUIT, ["sweep", "--repetitions", "100", "--dram-mib", "256"]),
                (signal.SIGTERM, ["bars", "ec_flash_bytes", "--quick", "--rounds", "1001"])):
            with self.subTest(arguments[0]):
                command = [KVBENCH, *arguments, "--dir", self.folder, "--json", self.json]
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True) as process:
                    wait_until_there(self.folder, process)
                    process.send_signal(number)
                    text, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 128 + number, errors)
                self.assertIn("no result", errors)
                self.assertNotIn("GB/s", text)
                self.assertEqual(os.listdir(self.folder), [], "something was left behind")
                self.assertEqual(processes_of(self.folder), [], "something still runs")

    def test_a_server_that_ends_during_the_run_is_no_result(self):
        data = os.path.join(self.folder, "data")
        server, address = start_varved(data)
        command = [KVBENCH, "replay", "--requests", "120", "--loop", "open", "--speedup", "5",
                   "--rounds", "1", "--layers", "1", "--blocks-max", "4", "--deadline-ms", "500",
                   "--address", address, "--json", self.json]
        try:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                wait_until_pulled(os.path.join(data, "metrics.prom"), process)
                server.kill()
                text, errors = process.communicate(timeout=240)
        finally:
            stop_varved(server)
        self.assertEqual(process.returncode, 1, text + errors)
        self.assertIn("gone", errors)
        self.assertNotIn("GB/s", text)
        self.assertFalse(os.path.exists(self.json))

    def test_a_result_that_cannot_be_written_is_no_success(self):
        command = [KVBENCH, "ceiling", "--quick", "--layers", "2", "--dir", self.folder]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=240, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the result is lost", done.stderr)
        for sink in (">/dev/full", ">&-"):
            done = subprocess.run(["sh", "-c", f'"$0" --help {sink}', KVBENCH], text=True,
                                  stderr=subprocess.PIPE, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, sink + done.stderr)

    def test_wrong_use_is_said_before_anything_runs(self):
        token = os.path.join(self.folder, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("a-token\n")
        for arguments in (["--loop", "open", "--speedup", "nan"], ["--hardware", "/dev/zero"],
                          ["--json", ""], ["--json", "/no/such/file"], ["--token-file", token],
                          ["--trace", "/dev/zero"]):
            done = subprocess.run([KVBENCH, "replay", "--requests", "2", *arguments, "--dir",
                                   self.folder], capture_output=True, text=True, timeout=10,
                                  check=False)
            self.assertEqual(done.returncode, 2, str(arguments) + done.stdout + done.stderr)
            self.assertEqual(os.listdir(self.folder), ["token"])

    def test_without_a_server_there_is_no_result(self):
        _, text = self.run_it("replay", "--requests", "2", "--address", "127.0.0.1:1", expect=1)
        self.assertNotIn("GB/s", text)


def wait_until_pulled(metrics, process):
    """Returns once the server has sent bytes of blocks; it writes its metrics every second."""
    while process.poll() is None:
        try:
            with open(metrics, encoding="utf-8") as file:
                rows = [r.split() for r in file if r.startswith("varve_pull_bytes_total{")]
        except OSError:
            rows = []
        if sum(float(r[-1]) for r in rows) > 0:
            return
        time.sleep(0.05)


def wait_until_there(folder, process):
    """Returns once the run has a file of at least 64 MiB."""
    while process.poll() is None:
        for parent, _, names in os.walk(folder):
            for name in names:
                try:
                    if os.stat(os.path.join(parent, name)).st_size >= 64 << 20:
                        return
                except FileNotFoundError:
                    pass
        time.sleep(0.02)


def processes_of(folder):
    """Command lines of processes that name the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder in line:
            found.append(line)
    return found


def stop_varved(server):
    server.terminate()
    server.wait(timeout=60)
    server.stdout.close()


def start_varved(folder):
    command = [os.path.join(os.path.dirname(KVBENCH), "varved"), "--data", folder, "--listen",
               "127.0.0.1:0", "--http", "none", "--control", "none", "--targets", "1",
               "--target-bytes", str(512 << 20), "--dram-bytes", str(256 << 20), "--scheme", "1+0",
               "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "listening on " in line:
            return process, line.split("listening on ")[1].split(",")[0].strip()
    raise RuntimeError("varved did not start")


if __name__ == "__main__":
    KVBENCH = os.path.abspath(sys.argv.pop(1))
    unittest.main()
