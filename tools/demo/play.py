"""The processes of the demo: varved, its workers and the raw socket; and how far it is.

Every process here was started here, is ended here, and has a bound on how long it is waited for.
They have a session of their own, so that a Ctrl-C is the demo's alone, and end with the demo.
"""

import ctypes
import http.client
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

READY_SECONDS_MAX = 120
LINE_SECONDS_MAX = 120
STOP_SECONDS_MAX = 20
METRICS_SECONDS_MAX = 30  # in which /metrics has to answer, asked again and again
KVCTL_SECONDS_MAX = 30
NUMBERS_SECONDS = 1.2     # varved sums its numbers once a second
CEILING_BLOCKS = 64       # of one round
BAR = 20

MIB = 1 << 20
TARGETS, DATA, PARITY = 4, 2, 1
TARGET_BYTES_MIN = 400 * MIB
DRAM_BYTES_MIN, DRAM_BYTES_MAX = 64 * MIB, 512 * MIB
FREE_FLOOR_BYTES = 512 * MIB
SPACE_BYTES_USUAL = 4096 * MIB  # of 100 requests, where what is played is not known yet
REPAIR_MB_PER_S = 200
SHARDS_MAX = 4  # more would split targets of this size too far

# A proxy of the environment is for the network, and nothing here leaves the machine.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failure(Exception):
    """The demo cannot go on; the text says why and what to do."""


def end_with_the_demo():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, log, **more):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
                            preexec_fn=end_with_the_demo, **more)


def last_line(log):
    """What was said last in a log: mostly why its process ended."""
    with open(log.name, encoding="utf-8", errors="replace") as file:
        lines = file.read().strip().split("\n")
    return lines[-1] or "(its log is empty)"


class Sizes:
    """What the daemon is given: DRAM for less than what is pushed, so that drives are read too,
    and targets of which one less has room for all of it."""

    def __init__(self, about):
        block_bytes = about["layers"] * about["layer_bytes"]
        pushed = (about["blocks"] - about["hits_possible"]) * block_bytes
        stored = pushed * (DATA + PARITY) // DATA
        whole = lambda size: -(-size // (64 * MIB)) * 64 * MIB
        self.target_bytes = max(TARGET_BYTES_MIN, whole(stored * 3 // 2 // (TARGETS - 1)))
        self.dram_bytes = max(DRAM_BYTES_MIN, min(DRAM_BYTES_MAX, whole(pushed // 4)))
        self.space_bytes = TARGETS * self.target_bytes + FREE_FLOOR_BYTES

    def settings(self):
        shards = max(1, min(SHARDS_MAX, (os.cpu_count() or 1) // 2))
        return ["--targets", str(TARGETS), "--scheme", f"{DATA}+{PARITY}",
                "--target-bytes", str(self.target_bytes), "--dram-bytes", str(self.dram_bytes),
                "--free-floor-bytes", str(FREE_FLOOR_BYTES), "--shards", str(shards),
                "--repair-mb-per-s", str(REPAIR_MB_PER_S)]


def need_space(folder, space_bytes):
    free = shutil.disk_usage(folder).free
    if free < space_bytes:
        raise Failure(f"{folder} has {free / MIB:.0f} MiB free, and {space_bytes / MIB:.0f} are"
                      " needed: give --data FOLDER, or set TMPDIR")


class Lines:
    """The lines of a pipe. They are kept here: select sees what is in the pipe, and nothing that a
    buffered reader has taken out of it already."""

    def __init__(self, pipe):
        self.pipe, self.kept = pipe, b""

    def read(self, seconds_max):
        """The next one; None at the end of the pipe; TimeoutError."""
        until = time.monotonic() + seconds_max
        while b"\n" not in self.kept:
            wait = until - time.monotonic()
            if wait <= 0 or not select.select([self.pipe], [], [], wait)[0]:
                raise TimeoutError
            more = os.read(self.pipe.fileno(), 1 << 16)
            if not more:
                return None
            self.kept += more
        line, self.kept = self.kept.split(b"\n", 1)
        return line.decode()


class Numbers:
    """One answer of /metrics. What it does not have is an error and never 0."""

    def __init__(self, text):
        rows = (line.rsplit(" ", 1) for line in text.splitlines()
                if line and not line.startswith("#"))
        self.values = {name: float(value) for name, value in rows}

    def of(self, name, label=""):
        """Sum of a metric over its labels, or over those with `label`."""
        found = [value for key, value in self.values.items()
                 if key.split("{")[0] == name and label in key]
        if not found:
            raise Failure(f"/metrics has no {name} {label}: is that the varved of this tree?")
        return sum(found)

    def failed(self, target):
        """The daemon had noticed, when it made these."""
        return self.of("varve_target_ok_shards", f'target="{target}"') == 0

    def thin(self):
        """Blocks that lack a fragment."""
        return self.of("varve_index_thin_blocks")

    def whole(self):
        """No block lacks a fragment, and none is being rebuilt."""
        return self.thin() == 0 and self.of("varve_repair_live") == 0

    def rebuilt(self):
        """Blocks and bytes that repair has written since the start."""
        return [self.of(f"varve_repair_{what}_total", 'outcome="done"')
                for what in ("blocks", "bytes")]


class Daemon:
    """varved as a child process, started, killed and started again on the same folder and ports."""

    def __init__(self, bin_folder, folder, sizes):
        self.bin_folder, self.folder, self.settings = bin_folder, folder, sizes.settings()
        self.address, self.control, self.metrics_url = None, None, None
        self.process, self.ready_line = None, ""
        self.before = {}  # counters of lives that a kill ended
        self.log = open(os.path.join(folder, "varved.log"), "ab")

    def start(self):
        """Starts it; seconds until it served."""
        listen = self.metrics_url.split("/")[2] if self.metrics_url else "127.0.0.1:0"
        command = [os.path.join(self.bin_folder, "varved"),
                   "--data", os.path.join(self.folder, "data"), *self.settings,
                   "--listen", self.address or "127.0.0.1:0", "--http", listen,
                   "--control", "127.0.0.1:0"]
        self.process = start(command, self.log)
        started = time.monotonic()
        lines, line = Lines(self.process.stdout), ""
        while not line.startswith("varved ready"):
            try:
                line = lines.read(READY_SECONDS_MAX - (time.monotonic() - started))
            except TimeoutError:
                raise Failure(f"varved was not ready in {READY_SECONDS_MAX} s") from None
            if line is None:
                raise Failure(f"varved ended (exit {self.process.wait()}): {last_line(self.log)}")
        self.ready_line = line.strip()
        at = lambda what: re.search(what + r" ([^,\s]+)", line).group(1)
        self.address, self.control = at("listening on"), at("control")
        self.metrics_url = f"http://{at('http')}/metrics"
        return time.monotonic() - started

    def numbers(self):
        """What /metrics says, as far as it is a second old."""
        until = time.monotonic() + METRICS_SECONDS_MAX
        while True:
            try:
                with OPENER.open(self.metrics_url, timeout=METRICS_SECONDS_MAX) as answer:
                    return Numbers(answer.read().decode())
            except (OSError, http.client.HTTPException, ValueError) as error:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise Failure(f"{self.metrics_url} has no answer: {error}") from error
            time.sleep(0.1)

    def set_policy(self, name, value):
        """As an operator does; until the next start."""
        command = [os.path.join(self.bin_folder, "kvctl"), "--control", self.control,
                   "policy", "set", name, str(value)]
        clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean,
                              timeout=KVCTL_SECONDS_MAX)
        if done.returncode != 0:
            raise Failure(f"kvctl policy set {name} {value}: exit {done.returncode}: "
                          + (done.stderr or done.stdout).strip())

    def total(self, name):
        """Of a counter, over all lives."""
        return self.before.get(name, 0) + self.numbers().of(name)

    def keep_counters(self):
        """Before a life ends that they are of."""
        name = "varve_evicted_blocks_total"
        self.before[name] = self.total(name)

    def destroy(self, target):
        """What the target holds is gone, under the daemon that uses it."""
        os.unlink(os.path.join(self.folder, "data", f"target-{target}.dat"))

    def end(self):
        """Whatever happened: no process is left. Nothing is asked of it."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

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
        self.name, self.log = name, log
        self.process = start(command, log, stdin=subprocess.PIPE)
        self.lines = Lines(self.process.stdout)

    def ended(self):
        return Failure(f"{self.name} ended (exit {self.process.wait()}): {last_line(self.log)}")

    def read(self):
        try:
            line = self.lines.read(LINE_SECONDS_MAX)
        except TimeoutError:
            raise Failure(f"{self.name} did not answer in {LINE_SECONDS_MAX} s") from None
        if line is None:
            raise self.ended()
        try:
            return json.loads(line)
        except ValueError:
            raise Failure(f"{self.name} said no JSON: {line[:60]}") from None

    def read_last(self):
        """The report of a request, after whatever it said on the way."""
        while True:
            row = self.read()
            if "granted" not in row:
                return row

    def send(self, line):
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.ended() from None

    def play(self, line):
        self.send(line)
        return self.read_last()

    def hold(self, number, act):
        """A request of prefill. When it pushes, `act` is called while the last layer is not handed
        over yet. Its report, and whether it pushed."""
        self.send(f"hold {number}")
        held = False
        while True:
            row = self.read()
            if "granted" not in row:
                return row, held
            if not held:
                held = True
                act()
                self.send("go")

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def about(bin_folder, options):
    """What would be played, before anything is started that needs space."""
    command = [os.path.join(bin_folder, "varve_demo"), "--role", "about",
               "--requests", str(options.requests)]
    done = subprocess.run(command + (["--trace", options.trace] if options.trace else []),
                          capture_output=True, text=True, check=False, timeout=LINE_SECONDS_MAX)
    if done.returncode != 0:
        raise Failure(done.stderr.strip() or f"varve_demo: exit {done.returncode}")
    return json.loads(done.stdout)


class Worker(Process):
    """An engine's prefill or decode process without the engine."""

    LAYER_US = 3000  # what a layer of a push takes to compute

    def __init__(self, binary, role, daemon, options, log):
        command = [binary, "--role", role, "--address", daemon.address,
                   "--requests", str(options.requests)]
        if role == "prefill":
            command += ["--announce", "--layer-us", str(self.LAYER_US)]
        if options.trace:
            command += ["--trace", options.trace]
        super().__init__(f"the {role} worker", command, log)


class Ceiling(Process):
    """A raw socket that moves messages of the shape of a pull's, and does nothing else."""

    def __init__(self, binary, played, log):
        super().__init__("the raw socket", [
            binary, "--role", "ceiling", "--blocks", str(CEILING_BLOCKS),
            "--layers", str(played["layers"]), "--layer-bytes", str(played["layer_bytes"])], log)

    def round(self):
        return self.play("round")


def bar(done, of, text, columns):
    """One line of a terminal: a longer one would wrap, and each update scroll."""
    line = f"  [{'#' * (BAR * done // of):<{BAR}}] {done}/{of} {text}"
    return f"\r{line[:max(1, columns - 1)]}\x1b[K"


def progress(done, of, text):
    if sys.stdout.isatty():
        print(bar(done, of, text, shutil.get_terminal_size().columns), end="", flush=True)
    elif done == of or (done and done % 25 == 0):
        print(f"  {done}/{of} {text}", flush=True)


def progress_end():
    if sys.stdout.isatty():
        print(flush=True)
