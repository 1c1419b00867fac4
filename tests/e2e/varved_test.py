#!/usr/bin/env python3
"""The real varved from outside: how it starts, refuses, survives garbage, is killed and stops.

Usage: varved_test.py PATH_OF_VARVED. Every daemon listens on a port that the system chooses; every
process ended here was started here. Bytes of blocks are the business of the ledger and the demo.
"""
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

VARVED = None
SMALL = ["--targets", "2", "--target-bytes", "400MiB", "--dram-bytes", "64MiB",
         "--free-floor-bytes", "0"]
READY = re.compile(r"varved ready: listening on (127\.0\.0\.1):(\d+), (\d+) targets, (\d+) shards")


def off(given):
    """Several daemons run at once: each listens only where it is told to."""
    return [word for listener in ("--http", "--control") if listener not in given
            for word in (listener, "none")]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def message(head, payload_bytes=0):
    """One message as it stands on a connection (docs/WIRE.md 2)."""
    return struct.pack("<IIII", 0x31565256, len(head), payload_bytes, crc32c(head)) + head


def hello(token=b"", credit=64 << 20, lane=1, session=0, secret=0, lane_index=0):
    body = struct.pack("<HHBBHH6xQQQQ", 1, 1, lane, lane_index, len(token), 4, 1, session, secret,
                       credit) + token + b"test"
    return struct.pack("<HBBIQ", 1, 1, 0, len(body), 1) + body


def write_trace(path, requests, blocks):
    """Requests of `blocks` blocks each, of which no two share one, for the demo's workers."""
    with open(path, "w", encoding="ascii") as f:
        for r in range(requests):
            ids = list(range(r * blocks, (r + 1) * blocks))
            f.write(json.dumps({"timestamp": r, "input_length": 512 * blocks,
                                "output_length": 1, "hash_ids": ids}) + "\n")


class Daemon:
    def __init__(self, data, *more, small=True, before=None):
        # What ASan keeps of freed memory to find late uses of it would read as growth here.
        environment = dict(os.environ)
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        self.stderr_path = data + ".stderr"
        self.stderr = open(self.stderr_path, "ab")
        arguments = [VARVED, "--data", data, "--listen", "127.0.0.1:0"]
        arguments += (SMALL if small else []) + off(more) + list(more)
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=self.stderr,
                                        text=True, env=environment, preexec_fn=before)
        self.ready = None

    def wait_ready(self):
        line = self.process.stdout.readline()
        self.ready = READY.search(line)
        assert self.ready, (line, self.log())
        return self

    def log(self):
        with open(self.stderr_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait_log(self, said):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and said not in self.log():
            time.sleep(0.05)
        return said in self.log()

    def connect(self):
        return socket.create_connection((self.ready.group(1), int(self.ready.group(2))), timeout=10)

    def greet(self, token=b""):
        """Says HELLO; answers the socket and the type of the reply."""
        s = self.connect()
        s.sendall(message(hello(token)))
        return s, reply_type(s)

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.stderr.close()
        return code


def receive(s, n):
    data = b""
    while len(data) < n:
        piece = s.recv(n - len(data))
        if not piece:
            return None
        data += piece
    return data


def reply(s):
    """The head of the next frame, None when the peer closed without one."""
    try:
        prefix = receive(s, 16)
        return None if prefix is None else receive(s, struct.unpack("<IIII", prefix)[1])
    except (ConnectionError, socket.timeout):
        return None


def reply_type(s):
    head = reply(s)
    return None if head is None else head[2]


def closed(s):
    try:
        while True:
            if not s.recv(4096):
                return True
    except ConnectionError:
        return True
    except socket.timeout:
        return False


class VarvedTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="varved-test-")
        self.data = os.path.join(self.folder.name, "data")
        self.daemons = []

    def tearDown(self):
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                daemon.stop(signal.SIGKILL)
            elif not daemon.stderr.closed:
                daemon.process.stdout.close()
                daemon.stderr.close()
        self.folder.cleanup()

    def start(self, *more):
        daemon = Daemon(self.data, *more)
        self.daemons.append(daemon)
        return daemon.wait_ready()

    def refused(self, code, *arguments):
        result = subprocess.run([VARVED, *arguments], capture_output=True, text=True, timeout=60,
                                check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_starts_serves_counts_and_stops(self):
        daemon = self.start("--shards", "2")
        self.assertEqual(daemon.ready.group(3, 4), ("2", "2"))
        s, kind = daemon.greet()
        self.assertEqual(kind, 2)  # HELLO_OK
        metrics = os.path.join(self.data, "metrics.prom")
        deadline = time.monotonic() + 10
        text = ""
        while time.monotonic() < deadline and "varve_sessions 1\n" not in text:
            time.sleep(0.1)
            with open(metrics, encoding="ascii") as f:
                text = f.read()
        self.assertIn("varve_sessions 1\n", text)
        self.assertRegex(text, r'varve_io_backend\{kind="\w+"\} 2\n')
        self.assertIn("varve_shards_stalled 0\n", text)
        # Expect: each core says what io_uring registered for it; nothing where there is none. The
        # memory may be refused (memlock), the targets are not.
        for shard in ("0", "1"):
            label = rf'{{shard="{shard}"}}'
            self.assertRegex(text, rf"varve_io_registered_bytes{label} \d+\n")
            files = 2 if 'kind="io_uring"' in text else 0
            self.assertIn(f'varve_io_registered_files{{shard="{shard}"}} {files}\n', text)
        s.close()
        self.assertEqual(daemon.stop(), 0)
        self.assertIn("drained and stopped", daemon.log())
        self.assertIn("largest block 15 MiB; 2 slices of 2 targets", daemon.log())

    def test_a_stop_says_goodbye_and_is_bounded_with_a_client_that_stays(self):
        daemon = self.start("--drain-ms", "1000")
        s, _ = daemon.greet()
        began = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(reply_type(s), 25)  # GOODBYE
        self.assertEqual(daemon.process.wait(timeout=30), 0)
        self.assertLess(time.monotonic() - began, 5)
        s.close()

    def test_a_second_signal_ends_it_at_once(self):
        daemon = self.start("--drain-ms", "60000")
        s, _ = daemon.greet()
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(reply_type(s), 25)
        self.assertEqual(daemon.stop(signal.SIGINT), 128 + signal.SIGINT)
        s.close()

    def test_killed_it_comes_back_as_the_same_node(self):
        self.start("--shards", "2").stop(signal.SIGKILL)
        kept = {}
        for name in ("node.id", "domain.salt"):
            with open(os.path.join(self.data, name), encoding="ascii") as f:
                kept[name] = f.read()
        more = self.start("--shards", "3")  # may change, within the slices of the targets
        self.assertEqual(more.ready.group(4), "2")
        more.stop(signal.SIGKILL)
        self.assertIn("formatted with 2 slices, so 2 shards run instead of 3", more.log())
        self.assertEqual(self.start().stop(), 0)
        for name, text in kept.items():
            with open(os.path.join(self.data, name), encoding="ascii") as f:
                self.assertEqual(f.read(), text)
        self.assertEqual(os.stat(os.path.join(self.data, "domain.salt")).st_mode & 0o077, 0)

    def test_both_kinds_of_io_serve(self):
        self.assertEqual(self.start("--io", "epoll").stop(), 0)
        daemon = self.start("--io", "epoll")
        s, kind = daemon.greet()
        self.assertEqual(kind, 2)
        s.close()
        self.assertEqual(daemon.stop(), 0)

    def test_a_second_daemon_names_the_first(self):
        daemon = self.start()
        text = self.refused(3, "--data", self.data)
        self.assertIn(f"pid {daemon.process.pid}", text)

    def test_a_taken_port_is_named(self):
        daemon = self.start()
        address = f"127.0.0.1:{daemon.ready.group(2)}"
        other = os.path.join(self.folder.name, "other")
        text = self.refused(3, "--data", other, "--listen", address, *SMALL)
        self.assertIn(address, text)

    def test_a_foreign_target_is_refused_and_untouched(self):
        path = os.path.join(self.folder.name, "foreign")
        content = b"somebody's photos" * 4096
        with open(path, "wb") as f:
            f.write(content)
            f.truncate(400 << 20)
        text = self.refused(4, "--data", self.data, "--target", path, "--dram-bytes", "64MiB")
        self.assertIn(path, text)
        with open(path, "rb") as f:
            self.assertEqual(f.read(len(content)), content)

    def test_a_target_of_another_node_is_refused(self):
        self.assertEqual(self.start().stop(), 0)
        other = os.path.join(self.folder.name, "other")
        target = os.path.join(self.data, "target-0.dat")
        self.assertIn(target, self.refused(4, "--data", other, "--target", target))

    def test_a_full_file_system_is_refused_before_anything_is_taken(self):
        text = self.refused(4, "--data", self.data, "--targets", "1", "--target-bytes", "400MiB",
                            "--free-floor-bytes", "100TiB")
        self.assertIn("target-0.dat", text)

    def test_a_damaged_identity_is_refused(self):
        self.assertEqual(self.start().stop(), 0)
        with open(os.path.join(self.data, "node.id"), "w", encoding="ascii") as f:
            f.write("0123\n")
        self.assertIn("node.id is damaged", self.refused(3, "--data", self.data, *SMALL))

    def test_tokens(self):
        path = os.path.join(self.folder.name, "token")
        token = b"0123456789abcdef-secret"
        with open(path, "wb") as f:
            f.write(token + b"\n")
        os.chmod(path, 0o644)
        text = self.refused(3, "--data", self.data, "--token-file", path, *SMALL)
        self.assertIn("chmod 600", text)
        os.chmod(path, 0o600)
        daemon = self.start("--token-file", path)
        for wrong in (b"", b"0123456789abcdef-secreT"):
            s, kind = daemon.greet(wrong)
            self.assertEqual(kind, 3)  # REFUSED
            self.assertTrue(closed(s))
            s.close()
        s, kind = daemon.greet(token)
        self.assertEqual(kind, 2)
        s.close()
        self.assertEqual(daemon.stop(), 0)
        self.assertNotIn("secret", daemon.log())

    def metric(self, name, seconds=15, wanted=None):
        """The value of one row of the metrics file, once it is `wanted`."""
        deadline = time.monotonic() + seconds
        value = None
        while time.monotonic() < deadline:
            with open(os.path.join(self.data, "metrics.prom"), encoding="ascii") as f:
                rows = [r for r in f if r.startswith(name + " ")]
            value = float(rows[0].split()[-1]) if rows else None
            if value is not None and (wanted is None or value == wanted):
                break
            time.sleep(0.1)
        return value

    def test_a_missing_salt_is_refused_and_not_replaced(self):
        self.assertEqual(self.start().stop(), 0)
        salt = os.path.join(self.data, "domain.salt")
        os.rename(salt, salt + ".kept")
        text = self.refused(3, "--data", self.data, *SMALL)
        self.assertIn("domain.salt is missing", text)
        self.assertFalse(os.path.exists(salt))
        os.rename(salt + ".kept", salt)
        self.assertEqual(self.start().stop(), 0)

    def test_a_lost_target_costs_that_target_only(self):
        self.assertEqual(self.start("--shards", "2").stop(), 0)
        target = os.path.join(self.data, "target-1.dat")
        os.rename(target, target + ".kept")
        daemon = self.start("--shards", "2")
        self.assertIn("target 1 " + target + " IS LOST", daemon.log())
        self.assertFalse(os.path.exists(target))
        s, kind = daemon.greet()
        self.assertEqual(kind, 2)
        s.close()
        self.assertEqual(self.metric('varve_degraded{reason="target"}', wanted=1), 1)
        self.assertEqual(self.metric('varve_target_ok_shards{target="1"}', wanted=0), 0)
        self.assertEqual(self.metric('varve_target_ok_shards{target="0"}', wanted=2), 2)
        self.assertIn("degraded (target)", daemon.log())
        self.assertEqual(daemon.stop(), 0)
        os.truncate(target + ".kept", 100 << 20)  # a shrunk one is as lost as an absent one
        os.rename(target + ".kept", target)
        daemon = self.start()
        self.assertIn("smaller than when it was formatted", daemon.log())
        self.assertEqual(daemon.stop(), 0)
        os.remove(target)
        daemon = self.start("--create-targets")
        self.assertIn("in the place of one that this node had", daemon.log())
        self.assertEqual(self.metric('varve_degraded{reason="target"}', wanted=0), 0)
        self.assertEqual(daemon.stop(), 0)
        for name in ("target-0.dat", "target-1.dat"):
            os.remove(os.path.join(self.data, name))
        self.assertIn("all targets of this node are lost", self.refused(4, "--data", self.data,
                                                                        *SMALL))

    def test_a_scheme_is_kept_and_another_refused_by_name(self):
        self.assertIn("it must be 1+0, 1+1, 2+1, ", self.refused(2, "--scheme", "3+2"))
        self.assertIn("at least 4 targets, but there are 2",
                      self.refused(2, "--data", self.data, *SMALL, "--scheme", "4+2"))
        self.assertFalse(os.path.exists(self.data))
        daemon = self.start("--scheme", "1+1")
        self.assertIn("scheme 1+1, largest block", daemon.log())
        self.assertNotIn("THIN", daemon.log())
        s = daemon.connect()
        s.sendall(message(hello()))
        head = reply(s)
        self.assertEqual((head[2], struct.unpack_from("<II", head, 68)), (2, (1, 1)))  # HELLO_OK
        s.close()
        self.assertEqual(daemon.stop(), 0)
        self.assertIn("start with --scheme 1+1", self.refused(4, "--data", self.data, *SMALL))
        os.remove(os.path.join(self.data, "target-1.dat"))
        daemon = self.start("--scheme", "1+1")
        self.assertIn("BLOCKS ARE STORED THIN", daemon.log())
        self.assertEqual(daemon.stop(), 0)

    def test_nothing_is_made_below_dev(self):
        path = "/dev/varve-no-such-drive"
        text = self.refused(4, "--data", self.data, "--target", path, "--dram-bytes", "64MiB",
                            "--target-bytes", "400MiB", "--free-floor-bytes", "0")
        self.assertIn("never created below /dev", text)
        self.assertEqual(text.count(path), 1, text)  # one cause, one line
        self.assertFalse(os.path.exists(path))

    def test_settings_that_do_not_fit_the_files_are_said(self):
        self.assertEqual(self.start().stop(), 0)
        daemon = Daemon(self.data, "--targets", "1", "--target-bytes", "500MiB", "--dram-bytes",
                        "64MiB", small=False)
        self.daemons.append(daemon)
        daemon.wait_ready()
        self.assertIn("target 0 is 400 MiB as formatted", daemon.log())
        self.assertIn("target-1.dat", daemon.log())
        self.assertEqual(daemon.stop(), 0)
        result = subprocess.run([VARVED, "--print-config", "--data", self.data],
                                capture_output=True, text=True, timeout=10, check=True)
        self.assertIn("target-0.dat, 400MiB as it is", result.stdout)

    def test_descriptors_are_raised_or_named(self):
        def limited(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        arguments = [VARVED, "--data", self.data, "--listen", "127.0.0.1:0", *SMALL, *off([])]
        result = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False,
                                preexec_fn=limited(32, 32))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("only 32 descriptors", result.stderr)
        self.assertIn("ulimit -n", result.stderr)

    def test_idle_operators_take_no_descriptor_of_a_client(self):
        arguments = ["--control", "127.0.0.1:0", "--sessions", "4", "--shards", "1"]
        need = 64 + (2 + 8) + 5 + 32 + 4 * 5 + 64  # OPERATIONS, Settings; --http is off
        daemon = Daemon(self.data, *arguments,
                        before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (need, need)))
        self.daemons.append(daemon)
        daemon.wait_ready()
        self.assertNotIn("all sessions need", daemon.log())
        control = re.search(r"control plane on (127\.0\.0\.1):(\d+)", daemon.log())
        address = (control.group(1), int(control.group(2)))
        idle = [socket.create_connection(address, timeout=10) for _ in range(need + 50)]
        clients = [daemon.greet() for _ in range(4)]
        self.assertEqual([kind for _, kind in clients], [2] * 4)
        self.assertTrue(daemon.wait_log("a connection is refused: 32 are open"), daemon.log())
        for s in idle + [s for s, _ in clients]:
            s.close()
        self.assertEqual(daemon.stop(), 0)

    def test_too_little_memory_is_one_sentence(self):
        with open(VARVED, "rb") as f:
            if re.search(rb"__[at]san_init", f.read()):
                self.skipTest("a sanitizer takes all addresses for itself")
        arguments = ["--data", self.data, "--listen", "127.0.0.1:0", "--shards", "1", *SMALL,
                     *off([])]
        for limit_kib in (50000, 100000, 150000):
            limit = (limit_kib << 10, limit_kib << 10)
            result = subprocess.run([VARVED, *arguments], capture_output=True, text=True,
                                    timeout=60, check=False,
                                    preexec_fn=lambda limit=limit: resource.setrlimit(
                                        resource.RLIMIT_AS, limit))
            self.assertEqual(result.returncode, 3, (limit_kib, result.stderr))
            self.assertRegex(result.stderr, "no memory is left|no thread is to be|not be mapped")

    def test_a_metrics_file_that_cannot_be_written_is_refused(self):
        path = os.path.join(self.folder.name, "no", "such", "file")
        text = self.refused(3, "--data", self.data, "--listen", "127.0.0.1:0", "--metrics-file",
                            path, *SMALL)
        self.assertIn("--metrics-file " + path, text)
        self.assertIn("No such file or directory", text)

    def test_a_metrics_file_that_is_something_else_is_refused_and_left(self):
        path = os.path.join(self.folder.name, "precious")
        with open(path, "w", encoding="ascii") as f:
            f.write("a target, a secret")
        text = self.refused(3, "--data", self.data, "--listen", "127.0.0.1:0", "--metrics-file",
                            path, *SMALL)
        self.assertIn(path + " holds something else than metrics", text)
        with open(path, encoding="ascii") as f:
            self.assertEqual(f.read(), "a target, a secret")
        self.assertEqual(os.listdir(self.data), ["lock"])  # no target was made

    def test_a_metrics_file_that_goes_bad_later_is_said_once(self):
        folder = os.path.join(self.folder.name, "metrics")
        os.mkdir(folder)
        daemon = self.start("--metrics-file", os.path.join(folder, "m.prom"))
        shutil.rmtree(folder)
        time.sleep(3.5)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(daemon.log().count("is not written"), 1)

    def test_a_missing_parent_of_the_data_folder_is_named(self):
        text = self.refused(3, "--data", os.path.join(self.folder.name, "a", "b"), *SMALL)
        self.assertIn("its parent " + os.path.join(self.folder.name, "a"), text)

    def test_more_dram_than_there_is_is_refused_with_numbers(self):
        text = self.refused(3, "--data", self.data, "--dram-bytes", "4000GiB", "--targets", "1")
        self.assertIn("--dram-bytes is 4000GiB", text)
        self.assertIn("available", text)

    def test_a_signal_during_the_start_ends_it_at_once(self):
        arguments = ["--data", self.data, "--listen", "127.0.0.1:0", "--free-floor-bytes", "0",
                     "--targets", "2", "--target-bytes", "400MiB", "--dram-bytes", "512MiB"]
        process = subprocess.Popen([VARVED, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not os.path.exists(os.path.join(self.data, "lock")):
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, err)
        self.assertLess(time.monotonic() - began, 3)
        if "ready" not in out:  # it was in time, as it should be
            self.assertIn("during start-up", err)
        self.assertEqual(self.start().stop(), 0)  # and the next start goes on

    def test_a_hangup_drains_too(self):
        daemon = self.start()
        self.assertEqual(daemon.stop(signal.SIGHUP), 0)
        self.assertIn("drained and stopped", daemon.log())

    def test_it_says_at_start_what_it_is(self):
        daemon = self.start("--shards", "2")
        for said in ("varved 0.1", "node ", self.data, "2 targets, 2 shards, 64MiB DRAM, io ",
                     "token none", "metrics ", "formatted, uuid"):
            self.assertIn(said, daemon.log())
        self.assertEqual(daemon.stop(), 0)

    def test_faults_are_loud(self):
        daemon = self.start("--i-am-testing", "--fault-volatile-cache", "--fault-ack-before-flush")
        self.assertIn("BREAKS ITS PROMISES", daemon.log())

    def test_a_target_is_stuck_and_answers_again_at_a_signal(self):
        daemon = self.start("--i-am-testing", "--fault-stuck-target", "1")
        self.assertIn("sticks at SIGUSR1: TARGET 1", daemon.log())
        for sig, said in ((signal.SIGUSR1, "target 1 IS STUCK"),
                          (signal.SIGUSR2, "target 1 answers again")):
            daemon.process.send_signal(sig)
            self.assertTrue(daemon.wait_log(said), daemon.log())
        self.assertEqual(daemon.stop(), 0)

    def test_what_devices_moved_is_counted(self):
        self.start()
        deadline = time.monotonic() + 10
        counts = {}
        while time.monotonic() < deadline and 0 in [counts.get(t, 0) for t in range(2)]:
            time.sleep(0.1)
            with open(os.path.join(self.data, "metrics.prom"), encoding="ascii") as f:
                text = f.read()
            for target in range(2):  # recovery reads checkpoints and headers
                pattern = rf'varve_device_read_bytes_total{{target="{target}"}} (\d+)'
                found = re.search(pattern, text)
                counts[target] = int(found.group(1)) if found else 0
        self.assertTrue(all(counts.values()), counts)
        self.assertIn('varve_device_written_bytes_total{target="1"} ', text)

    def test_garbage_closes_its_connection_and_nothing_else(self):
        daemon = self.start()
        honest, kind = daemon.greet()
        self.assertEqual(kind, 2)
        good = message(hello())
        cases = [
            b"GET / HTTP/1.1\r\n\r\n" * 10,
            bytes(64),
            b"\xff" * 4096,
            struct.pack("<IIII", 0x31565256, 0, 0, 0),
            struct.pack("<IIII", 0x31565256, 0xFFFFFFFF, 0, 0) + bytes(100),
            struct.pack("<IIII", 0x31565256, 80, 0xFFFFFFFF, 0) + bytes(100),
            good[:12] + b"\0\0\0\0" + good[16:],          # checksum
            message(b"\x01\x00\x13\x00" + bytes(12)),      # a frame of the server's
            message(hello(), 100) + bytes(100),            # a payload behind HELLO
            good + good,                                   # HELLO twice
            good + message(bytes(16)),
            good + message(struct.pack("<HBBIQIIII", 1, 6, 0, 16, 5, 1, 2049, 0, 0)),  # ids missing
        ]
        for case in cases:
            s = daemon.connect()
            try:
                s.sendall(case)
            except ConnectionError:
                pass
            self.assertTrue(closed(s), case[:40])
            s.close()
        half = daemon.connect()  # a truncated message, then an end
        half.sendall(good[:40])
        half.close()
        # Expect: the honest one is still served.
        honest.sendall(message(struct.pack("<HBBIQQ", 1, 23, 0, 8, 9, 4711)))
        self.assertEqual(reply_type(honest), 24)  # PONG
        honest.close()
        self.assertEqual(daemon.stop(), 0)

    def test_many_bad_peers_do_not_grow_it(self):
        daemon = self.start()

        def storm(rounds):
            for i in range(rounds):
                s = daemon.connect()
                try:
                    s.sendall((b"\xff" * 300000, message(hello()) + b"\0" * 5000, b"")[i % 3])
                except ConnectionError:
                    pass
                s.close()

        storm(150)
        before = daemon.resident_kib()
        storm(600)
        self.assertLess(daemon.resident_kib() - before, 8 * 1024)
        s, kind = daemon.greet()
        self.assertEqual(kind, 2)
        s.close()


if __name__ == "__main__":
    VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
