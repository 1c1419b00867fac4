"""The processes of the demo: varved, its workers and the raw socket; and how far it is.

Every process here was started here, is ended here, and has a bound on how long it is waited for.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

READY_SECONDS_MAX = 120
LINE_SECONDS_MAX = 120
STOP_SECONDS_MAX = 20
METRICS_SECONDS_MAX = 5
NUMBERS_SECONDS = 1.2   # varved sums its numbers once a second
CEILING_BLOCKS = 64     # of one round
# Less DRAM than what is pushed, so that drives are read too; three targets have room for all of it.
SETTINGS = ["--targets", "4", "--scheme", "2+1", "--target-bytes", "1536MiB",
            "--dram-bytes", "512MiB", "--control", "none"]


class Failure(Exception):
    """The demo cannot go on; the text says why and what to do."""


class Daemon:
    """varved as a child process, started, killed and started again on the same folder and ports."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.address, self.metrics_url = None, None
        self.process, self.ready_line = None, ""
        self.before = {}  # counters of lives that a kill ended
        self.log = open(os.path.join(folder, "demo.log"), "ab")  # of all processes

    def last_line(self):
        """What was said last: by varved, when it ended: why."""
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            lines = file.read().strip().split("\n")
        return lines[-1] or "(its log is empty)"

    def start(self):
        """Starts it; seconds until it served."""
        http = self.metrics_url.split("/")[2] if self.metrics_url else "127.0.0.1:0"
        command = [self.binary, "--data", os.path.join(self.folder, "data"), *SETTINGS,
                   "--listen", self.address or "127.0.0.1:0", "--http", http]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log)
        started = time.monotonic()
        while True:
            wait = READY_SECONDS_MAX - (time.monotonic() - started)
            if wait <= 0 or not select.select([self.process.stdout], [], [], wait)[0]:
                raise Failure("varved did not get ready; its log: " + self.log.name)
            line = self.process.stdout.readline().decode()
            if not line:
                raise Failure(f"varved ended (exit {self.process.wait()}): {self.last_line()}\n"
                              f"  its log: {self.log.name}")
            if line.startswith("varved ready"):
                break
        self.ready_line = line.strip()
        self.address = re.search(r"listening on ([^,\s]+)", line).group(1)
        self.metrics_url = "http://" + re.search(r"http ([^,\s]+)", line).group(1) + "/metrics"
        return time.monotonic() - started

    def metrics(self):
        """Name with labels -> value, as /metrics says; none when it does not answer."""
        try:
            with urllib.request.urlopen(self.metrics_url, timeout=METRICS_SECONDS_MAX) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, OSError):
            return {}
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def metric(self, name, label=""):
        """Sum of a metric over its labels, or over those with `label`, in this life."""
        return sum(value for key, value in self.metrics().items()
                   if key.split("{")[0] == name and label in key)

    def total(self, name):
        """Of a counter, over all lives."""
        return self.before.get(name, 0) + self.metric(name)

    def failed(self, target):
        """The daemon has noticed, as far as numbers say that are a second old."""
        return self.metric("varve_target_ok_shards", f'target="{target}"') == 0

    def rebuilt(self):
        """No block lacks a fragment any more, as far as numbers say that are a second old."""
        time.sleep(NUMBERS_SECONDS)
        return (self.metric("varve_index_thin_blocks") == 0
                and self.metric("varve_repair_live") == 0)

    def destroy(self, target):
        """What the target holds is gone, under the daemon that uses it."""
        os.unlink(os.path.join(self.folder, "data", f"target-{target}.dat"))

    def kill(self):
        self.keep_counters()
        self.end()

    def end(self):
        """Whatever happened: no process is left. Nothing is asked of it."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def keep_counters(self):
        name = "varve_evicted_blocks_total"
        self.before[name] = self.total(name)

    def stop(self):
        """Its exit status after a graceful stop; None when it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.end()
            return None


class Process:
    """One varve_demo: a line in, JSON lines out. The first one says what it is."""

    def __init__(self, name, command, log):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log)
        self.about = self.read()

    def read(self):
        if not select.select([self.process.stdout], [], [], LINE_SECONDS_MAX)[0]:
            raise Failure(f"{self.name} did not answer in {LINE_SECONDS_MAX} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{self.name} ended (exit {self.process.wait()})")
        return json.loads(line)

    def read_last(self):
        """The report of a request, after whatever it said on the way."""
        while True:
            row = self.read()
            if "granted" not in row:
                return row

    def send(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def play(self, line):
        self.send(line)
        return self.read_last()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Worker(Process):
    """An engine's prefill or decode process without the engine."""

    LAYER_US = 3000  # what a layer of a push takes to compute

    def __init__(self, binary, role, daemon, options):
        command = [binary, "--role", role, "--address", daemon.address,
                   "--requests", str(options.requests)]
        if role == "prefill":
            command += ["--announce", "--layer-us", str(self.LAYER_US)]
        if options.trace:
            command += ["--trace", options.trace]
        super().__init__(f"the {role} worker", command, daemon.log)


class Ceiling(Process):
    """A raw socket that moves messages of the shape of a pull's, and does nothing else."""

    def __init__(self, binary, about, daemon):
        super().__init__("the raw socket", [
            binary, "--role", "ceiling", "--blocks", str(CEILING_BLOCKS),
            "--layers", str(about["layers"]), "--layer-bytes", str(about["layer_bytes"])],
                         daemon.log)

    def round(self):
        return self.play("round")


def progress(done, of, text):
    if sys.stdout.isatty():
        print(f"\r  [{'#' * (30 * done // of):<30}] {done}/{of} {text:<44}", end="", flush=True)
    elif done == of or (done and done % 25 == 0):
        print(f"  {done}/{of} {text}", flush=True)


def progress_end():
    if sys.stdout.isatty():
        print(flush=True)
