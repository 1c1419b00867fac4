#!/usr/bin/env python3
"""The demo: one varved, a prefill and a decode process, a real trace, and what may go wrong.

    tools/demo/demo.py --bin build/release/bin [--requests 100] [--json FILE] [--stay]

It starts varved with four file-backed targets, 2+1, in a fresh folder and replays requests:
prefill matches, pulls what hits and pushes what is new; decode then pulls the whole prompt, or
follows it while it is still being pushed. Meanwhile a target is destroyed, and its blocks are
rebuilt on the three that are left; the daemon is killed in the middle of a push, and once more at
the end, when everything that was acknowledged is asked for again. One screen says what it was like,
and what each fault cost. Exit 0 only when no byte was wrong, nothing was lost and no fault cost a
hit.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time

from play import NUMBERS_SECONDS, Ceiling, Daemon, Failure, Worker, progress, progress_end
from screen import faults_of, report, screen_of

TRACE = os.path.join("..", "shared", "data", "traces", "agent")
FOLLOW_EVERY = 4        # every so-manyth push is followed while it is under way
CEILING_EVERY = 5       # after every so-manyth request the ceiling is measured once
KNOWN_MAX = 25          # requests that are asked for again around a fault
KILL_AFTER_SECONDS = 0.02
NOTICED_SECONDS_MAX = 10
REBUILT_SECONDS_MAX = 60
TARGET = 1              # the one that is destroyed


def follow(number, prefill, decode):
    """Request `number` is pushed, and decode follows as soon as it may; both reports."""
    prefill.send(str(number))
    followed = None
    while True:
        row = prefill.read()
        if "granted" not in row:
            return row, followed and decode.read()
        if followed is None:  # the blocks of the first grant; the rest is pulled later
            followed = True
            decode.send(f"follow {number} {row['granted']}")


class Play:
    """What is done, in its order; `rows` keeps what every worker said, by phase and role."""

    def __init__(self, options, daemon, prefill, decode, ceiling):
        self.options, self.daemon = options, daemon
        self.prefill, self.decode, self.ceiling = prefill, decode, ceiling
        self.rows = {"prefill": [], "decode": [], "followed": [], "ceiling": []}
        self.fault = {}
        self.done = 0

    def request(self, number, while_pushing=None):
        """One request of the load. `while_pushing` is called in the middle of its push."""
        if while_pushing:
            self.prefill.send(str(number))
            time.sleep(KILL_AFTER_SECONDS)
            while_pushing()
            row = self.prefill.read_last()
        elif number % FOLLOW_EVERY == 0:
            row, followed = follow(number, self.prefill, self.decode)
            if followed:
                self.rows["followed"].append({**followed, "computed_at_ns": row["computed_at_ns"],
                                              "pushed_at_ns": row["done_at_ns"]})
        else:
            row = self.prefill.play(str(number))
        self.rows["prefill"].append(row)
        self.rows["decode"].append(self.decode.play(str(number)))
        if number % CEILING_EVERY == 0:
            self.rows["ceiling"].append(self.ceiling.round())
        self.done = number + 1
        wrong = sum(r["wrong_blocks"] for r in self.rows["prefill"] + self.rows["decode"])
        progress(self.done, self.options.requests, f"requests, {wrong} wrong blocks")

    def load(self, end, while_pushing=None):
        for number in range(self.done, end):
            self.request(number, while_pushing)
            while_pushing = None

    def again(self, requests, text):
        """Decode asks for requests that were acknowledged before: all of it has to be there."""
        rows = []
        for done, number in enumerate(requests):
            rows.append(self.decode.play(str(number)))
            progress(done + 1, len(requests), text)
        progress_end()
        return rows

    def kill(self):
        self.daemon.kill()
        return self.daemon.start()

    def kill_under_load(self):
        seconds = []
        self.load(self.done + 1, lambda: seconds.append(self.kill()))
        self.fault["kill"] = {"seconds": seconds[0], "request": self.done - 1}

    def destroy_target(self):
        """A target goes while a request is being pushed. The same requests before and after."""
        known = range(max(0, self.done - KNOWN_MAX), self.done)
        before = self.again(known, "known requests, all targets there")
        broken = []

        def destroy():
            self.daemon.destroy(TARGET)
            broken.append(time.monotonic())

        self.load(self.done + 1, destroy)
        while not self.daemon.failed(TARGET):
            if time.monotonic() - broken[0] > NOTICED_SECONDS_MAX:
                raise Failure(f"target {TARGET} was deleted and varved did not notice")
            time.sleep(0.1)
        noticed = time.monotonic() - broken[0]
        after = self.again(known, f"again, without target {TARGET}")
        while not self.daemon.rebuilt():
            left = self.daemon.metric("varve_index_thin_blocks")
            progress(0, 1, f"{left:.0f} blocks to rebuild on the others")
            if time.monotonic() - broken[0] > REBUILT_SECONDS_MAX:
                raise Failure(f"not rebuilt within {REBUILT_SECONDS_MAX} s; {left:.0f} blocks left")
            time.sleep(0.2)
        progress_end()
        self.fault["target"] = {
            "target": TARGET, "request": self.done - 1, "before": before, "after": after,
            "noticed_seconds": noticed,
            "rebuilt_seconds": time.monotonic() - broken[0],
            "rebuilt_blocks": self.daemon.metric("varve_repair_blocks_total", 'outcome="done"'),
            "rebuilt_bytes": self.daemon.metric("varve_repair_bytes_total", 'outcome="done"')}

    def kill_at_the_end(self):
        time.sleep(NUMBERS_SECONDS)  # what was evicted is counted
        seconds = self.kill()
        rows = self.again(range(self.options.requests), "all of it again, after kill -9")
        self.fault["last_kill"] = {"seconds": seconds, "rows": rows}

    def run(self):
        requests = self.options.requests
        self.load(requests * 4 // 10)
        self.kill_under_load()
        self.load(requests * 6 // 10)
        progress_end()
        self.destroy_target()
        self.load(requests)
        progress_end()
        self.kill_at_the_end()


def play(options, daemon, workers):
    binary = lambda name: os.path.join(options.bin, name)
    daemon.start()
    print(f"  {daemon.ready_line}")
    print(f"  watch it: curl {daemon.metrics_url}")
    for role in ("prefill", "decode"):
        workers.append(Worker(binary("varve_demo"), role, daemon, options))
    about = workers[0].about
    options.requests = min(options.requests, about["requests"])
    workers.append(Ceiling(binary("varve_demo"), about, daemon))
    it = Play(options, daemon, *workers)
    it.run()
    result = report(options, about, it.rows, it.fault, daemon)
    for worker in workers:
        worker.close()
    if options.stay:
        stay(daemon)
    result["drain_exit"] = daemon.stop()
    return result


def stay(daemon):
    print(f"  it goes on: {daemon.metrics_url}, data plane {daemon.address}; Ctrl-C ends it",
          flush=True)
    try:
        daemon.process.wait()
    except KeyboardInterrupt:
        pass


def run(options):
    folder = options.data or tempfile.mkdtemp(prefix="varve-demo-")
    os.makedirs(folder, exist_ok=True)
    daemon, workers = Daemon(os.path.join(options.bin, "varved"), folder), []
    keep = bool(options.data)
    began = time.monotonic()
    try:
        result = play(options, daemon, workers)
        result["seconds"] = time.monotonic() - began
        faults = result["faults"] = faults_of(result)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
        print(screen_of(result))
        print("  good: nothing wrong, nothing lost, no fault cost a hit" if not faults
              else f"  NOT GOOD: {'; '.join(faults)}; see {daemon.log.name}")
        keep = bool(options.data) or bool(faults)
        return 1 if faults else 0
    except Failure as failure:
        keep = True
        if daemon.process and daemon.process.poll() is not None:
            raise Failure(f"{failure}\n  varved had ended (exit {daemon.process.returncode});"
                          f" its last line: {daemon.last_line()}") from failure
        raise Failure(f"{failure}\n  its folder: {folder}") from failure
    finally:
        for worker in workers:
            worker.end()
        daemon.end()
        if not keep:  # also when it is interrupted: four targets are gigabytes
            shutil.rmtree(folder, ignore_errors=True)


def interrupt(_signal, _frame):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True, help="folder of varved and varve_demo")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--trace", default=TRACE if os.path.exists(TRACE) else None,
                        help="a file of JSON lines, or a folder of agent sessions; default: the"
                             " published sessions, else the generator")
    parser.add_argument("--data", help="folder of the targets; default: a temporary one, removed"
                                       " when all is good")
    parser.add_argument("--json", help="write the results here too")
    parser.add_argument("--stay", action="store_true",
                        help="varved goes on after the end, to be looked at, until Ctrl-C")
    options = parser.parse_args()
    if options.requests < 10:
        parser.error("--requests is at least 10")
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    try:
        return run(options)
    except Failure as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; nothing of it is left", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
