#!/usr/bin/env python3
"""The demo: one varved, a prefill and a decode process, a real trace, a kill -9 in the middle.

    tools/demo/demo.py --bin build/release/bin [--requests 120] [--trace FILE] [--json FILE]

It starts varved with its embedded defaults (four file-backed targets in a fresh folder), replays
requests (prefill matches, pulls what hits and pushes what is new; decode then pulls the whole
prompt), kills the daemon half-way, starts it again, replays what was acknowledged before, and
prints one screen. Exit 0 only when no byte was wrong and nothing that was acknowledged was lost.
"""

import argparse
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TRACE = os.path.join("..", "shared", "data", "traces", "mooncake_conversation.jsonl")
READY_SECONDS_MAX = 120
REQUEST_SECONDS_MAX = 120


class Failure(Exception):
    """The demo cannot go on; the text says why and what to do."""


class Daemon:
    """varved as a child process, started, killed and started again on the same folder and port."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.address, self.process, self.ready_line = None, None, ""
        self.evicted_before = 0.0  # in the lives that a kill ended
        self.log = open(os.path.join(folder, "varved.log"), "ab")

    def last_line(self):
        """What varved said last: why it ended, when it did."""
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            lines = file.read().strip().split("\n")
        return lines[-1] or "(its log is empty)"

    def start(self):
        command = [self.binary, "--data", os.path.join(self.folder, "data"),
                   "--listen", self.address or "127.0.0.1:0", "--http", "none",
                   "--control", "none"]
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
        self.address = line.split("listening on ")[1].split(",")[0].strip()
        return time.monotonic() - started

    def kill(self):
        self.evicted_before += self.metric("varve_evicted_blocks_total") or 0
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def metric(self, name):
        """Sum over the labels of one metric in the file that varved keeps; None without it."""
        try:
            with open(os.path.join(self.folder, "data", "metrics.prom"), encoding="utf-8") as file:
                rows = [r.split() for r in file if r.startswith(name) and r[len(name)] in " {"]
        except OSError:
            return None
        return sum(float(r[-1]) for r in rows)


class Worker:
    """One varve_demo process: a request number in, a JSON line out."""

    def __init__(self, binary, role, address, options):
        command = [binary, "--role", role, "--address", address,
                   "--requests", str(options.requests)]
        if options.trace:
            command += ["--trace", options.trace]
        self.role = role
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.about = self.read(READY_SECONDS_MAX)

    def read(self, seconds):
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise Failure(f"the {self.role} worker did not answer in {seconds} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"the {self.role} worker ended (exit {self.process.wait()})")
        return json.loads(line)

    def send(self, number):
        self.process.stdin.write(f"{number}\n".encode())
        self.process.stdin.flush()

    def play(self, number):
        self.send(number)
        return self.read(REQUEST_SECONDS_MAX)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def milliseconds(values, share):
    return f"{quantile(values, share) / 1e6:8.2f}"


def total(rows, key):
    return sum(r[key] for r in rows)


def progress(done, of, text):
    if sys.stdout.isatty():
        print(f"\r  [{'#' * (30 * done // of):<30}] {done}/{of} {text:<40}", end="", flush=True)
    elif done == of or done % 20 == 0:
        print(f"  {done}/{of} {text}", flush=True)


def replay(options, daemon, prefill, decode):
    """The first pass: prefill then decode per request; the daemon is killed half-way."""
    rows, restart, half = {"prefill": [], "decode": []}, {}, options.requests // 2
    for number in range(options.requests):
        prefill.send(number)
        if number == half:
            time.sleep(0.02)  # in the middle of that request's push
            daemon.kill()
            restart["seconds"] = daemon.start()
        rows["prefill"].append(prefill.read(REQUEST_SECONDS_MAX))
        rows["decode"].append(decode.play(number))
        wrong = total(rows["prefill"], "wrong_blocks") + total(rows["decode"], "wrong_blocks")
        note = "killed and restarted" if number == half else ""
        progress(number + 1, options.requests, f"wrong blocks {wrong} {note}")
    if sys.stdout.isatty():
        print()
    return rows, restart


def replay_old(options, daemon, decode):
    """After a last kill -9: everything that was acknowledged before is asked for again."""
    time.sleep(1.5)  # the metrics file is written every second: what was evicted is counted
    daemon.kill()
    seconds = daemon.start()
    rows = []
    for number in range(options.requests):
        rows.append(decode.play(number))
        progress(number + 1, options.requests, "again, after kill -9")
    if sys.stdout.isatty():
        print()
    return rows, seconds


def report(options, about, rows, restart, again, again_seconds, daemon):
    prefill, decode = rows["prefill"], rows["decode"]
    blocks, hits = total(prefill, "blocks"), total(prefill, "hit_blocks")
    pulled_bytes = sum(total(r, "pulled_bytes") for r in (prefill, decode, again))
    pulls = [r for r in prefill + decode + again if r["pulled_bytes"] > 0]
    wrong = sum(total(r, "wrong_blocks") for r in (prefill, decode, again))
    pull_seconds = total(pulls, "pull_ns") / 1e9
    push_seconds = total(prefill, "push_ns") / 1e9
    lost = total(again, "blocks") - total(again, "pulled_blocks")
    evicted = daemon.evicted_before + (daemon.metric("varve_evicted_blocks_total") or 0)
    retried = [r for r in prefill + decode if r["retries"] > 0]
    firsts, lasts = [r["first_layer_ns"] for r in pulls], [r["pull_ns"] for r in pulls]
    possible = about["hits_possible"] / max(1, about["blocks"])
    result = {
        "trace": about["source"], "requests": options.requests, "blocks": blocks,
        "hit_rate": hits / max(1, blocks), "hit_rate_possible": possible,
        "decode_hit_rate": total(decode, "hit_blocks") / max(1, total(decode, "blocks")),
        "pushed_bytes": total(prefill, "pushed_bytes"), "pulled_bytes": pulled_bytes,
        "pull_gb_per_s": pulled_bytes / 1e9 / max(1e-9, pull_seconds),
        "push_gb_per_s": total(prefill, "pushed_bytes") / 1e9 / max(1e-9, push_seconds),
        "wrong_blocks": wrong, "lost_blocks": lost, "evicted_blocks": evicted,
        "requests_retried": len(retried), "restart_seconds": restart["seconds"],
        "restart_again_seconds": again_seconds,
    }
    line = "-" * 78
    print(line)
    rows = [
        ("trace", about["source"]),
        ("daemon", daemon.ready_line[:58]),
        ("requests", f"{options.requests}, {blocks} blocks; prefill hit {result['hit_rate']:.1%}"
                     f" (possible {possible:.1%})"),
        ("decode", f"hit {result['decode_hit_rate']:.1%} of {total(decode, 'blocks')} blocks"
                   " that prefill had pushed"),
        ("pushed", f"{result['pushed_bytes'] / 1e9:.2f} GB durable,"
                   f" {result['push_gb_per_s']:.2f} GB/s incl. making the bytes"),
        ("pulled", f"{pulled_bytes / 1e9:.2f} GB, {result['pull_gb_per_s']:.2f} GB/s;"
                   f" every byte compared, {wrong} blocks wrong"),
        ("first layer", f"p50 {milliseconds(firsts, .5)} ms   p99 {milliseconds(firsts, .99)} ms"),
        ("last layer", f"p50 {milliseconds(lasts, .5)} ms   p99 {milliseconds(lasts, .99)} ms"),
        ("kill -9 no. 1", f"in the middle of a push; serving again after"
                          f" {result['restart_seconds']:.2f} s;"
                          f" {len(retried)} requests tried again"),
        ("kill -9 no. 2", f"serving again after {again_seconds:.2f} s;"
                          f" {total(again, 'pulled_blocks')} of {total(again, 'blocks')} blocks"
                          f" hit again, {lost} lost ({evicted:.0f} evicted)"),
    ]
    for name, text in rows:
        print(f"  {name:<16} {text}")
    print(line)
    return result


def verdict(result):
    """What is not as it must be, one text each. Nothing excuses a loss but its own eviction."""
    faults = []
    if result["wrong_blocks"] > 0:
        faults.append(f"{result['wrong_blocks']} blocks were wrong")
    if result["lost_blocks"] > result["evicted_blocks"]:
        faults.append(f"{result['lost_blocks']} blocks were lost and only"
                      f" {result['evicted_blocks']:.0f} were evicted")
    if result["decode_hit_rate"] == 0:
        faults.append("nothing that prefill pushed was ever hit")
    if result["drain_exit"] != 0:
        faults.append(f"varved did not drain (exit {result['drain_exit']})")
    return faults


def run(options):
    binary = lambda name: os.path.join(options.bin, name)
    folder = options.data or tempfile.mkdtemp(prefix="varve-demo-")
    os.makedirs(folder, exist_ok=True)
    daemon, workers = Daemon(binary("varved"), folder), []
    keep = bool(options.data)
    try:
        daemon.start()
        print("  " + daemon.ready_line)
        for role in ("prefill", "decode"):
            workers.append(Worker(binary("varve_demo"), role, daemon.address, options))
        about = workers[0].about
        options.requests = min(options.requests, about["requests"])
        rows, restart = replay(options, daemon, *workers)
        again, seconds = replay_old(options, daemon, workers[1])
        time.sleep(1.5)  # the metrics file is written every second
        result = report(options, about, rows, restart, again, seconds, daemon)
        for worker in workers:
            worker.close()
        result["drain_exit"] = daemon.stop()
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
        faults = verdict(result)
        good = not faults
        print("  good: nothing wrong, nothing lost" if good
              else f"  NOT GOOD: {'; '.join(faults)}; see {daemon.log.name}")
        keep = bool(options.data) or not good
        return 0 if good else 1
    except Failure as failure:
        keep = True
        if daemon.process and daemon.process.poll() is not None:
            raise Failure(f"{failure}\n  varved had ended (exit {daemon.process.returncode});"
                          f" its last line: {daemon.last_line()}") from failure
        raise
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.process.kill()
        if daemon.process and daemon.process.poll() is None:
            daemon.kill()
        if not keep:  # also when it is interrupted: four targets are gigabytes
            shutil.rmtree(folder, ignore_errors=True)


def interrupt(_signal, _frame):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True, help="folder of varved and varve_demo")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--trace", default=TRACE if os.path.exists(TRACE) else None,
                        help="JSON lines; default: the published trace, else the generator")
    parser.add_argument("--data", help="folder of the targets; default: a temporary one, removed"
                                       " when all is good")
    parser.add_argument("--json", help="write the results here too")
    options = parser.parse_args()
    if options.requests < 2:
        parser.error("--requests is at least 2")
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
