#!/usr/bin/env python3
"""The demo: one varved, a prefill and a decode process, a trace, and what may go wrong.

    tools/demo/demo.py --bin build/release/bin [--requests 100] [--json FILE] [--stay]

It starts varved with four file-backed targets, 2+1, in a fresh folder and replays requests:
prefill matches, pulls what hits and pushes what is new; decode then pulls the whole prompt, or
follows it while it is still being pushed. In the middle of a push the daemon is killed, and in the
middle of another a target is destroyed. Repair is held back while the same requests are asked for
again, so that they are served without that target; then the blocks are rebuilt on those that are
left. At the end the daemon is killed once more, and everything that was acknowledged is asked for.
One screen says what it was like, and what each fault cost. Exit 0 only when no byte was wrong,
nothing was lost, no fault cost a hit of prefill or decode, and each met what it was meant for.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time

import play
from play import Ceiling, Daemon, Failure, Sizes, Worker, progress, progress_end
from screen import faults_of, report, screen_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRACE = os.path.join(ROOT, "..", "shared", "data", "traces", "agent")
REQUESTS_MIN = 10
FOLLOW_EVERY = 4        # every so-manyth push is followed while it is under way
FOLLOW_EVERY_OF_FEW = 2
FEW_REQUESTS = 40
CEILING_EVERY = 5       # after every so-manyth request the ceiling is measured once
KNOWN_MAX = 25          # requests that are asked for again around a fault
NOTICED_SECONDS_MAX = 15
STUCK_SECONDS_MAX = 60  # of a rebuilding that comes no further
HELD_MB_PER_S = 1       # of repair, while varved is to serve without the target
TARGET = 1              # the one that is destroyed


class Play:
    """What is done, in its order; `rows` keeps what every worker said, by phase and role."""

    def __init__(self, options, daemon, prefill, decode, ceiling):
        self.options, self.daemon = options, daemon
        self.prefill, self.decode, self.ceiling = prefill, decode, ceiling
        self.rows = {"prefill": [], "decode": [], "followed": [], "ceiling": []}
        self.fault = {}
        self.done = 0
        few = options.requests < FEW_REQUESTS
        self.follow_every = FOLLOW_EVERY_OF_FEW if few else FOLLOW_EVERY

    def follow(self, number):
        """It is pushed, and decode follows as soon as it may; the report of the push."""
        self.prefill.send(str(number))
        follows = False
        while True:
            row = self.prefill.read()
            if "granted" not in row:
                break
            if not follows:  # the blocks of the first grant; the rest is pulled later
                follows = True
                self.decode.send(f"follow {number} {row['granted']}")
        if follows:
            self.rows["followed"].append({**self.decode.read(),
                                          "computed_at_ns": row["computed_at_ns"],
                                          "pushed_at_ns": row["done_at_ns"]})
        return row

    def request(self, act=None):
        """The next one of the load; with `act`, that is called in the middle of its push. What both
        workers said, and whether it pushed."""
        number, pushed = self.done, False
        if act:
            row, pushed = self.prefill.hold(number, act)
        elif number % self.follow_every == 0:
            row = self.follow(number)
        else:
            row = self.prefill.play(str(number))
        rows = [row, self.decode.play(str(number))]
        self.rows["prefill"].append(rows[0])
        self.rows["decode"].append(rows[1])
        if number % CEILING_EVERY == 0:
            self.rows["ceiling"].append(self.ceiling.round())
        self.done = number + 1
        wrong = sum(r["wrong_blocks"] for role in ("prefill", "decode", "followed")
                    for r in self.rows[role])
        progress(self.done, self.options.requests, f"requests, {wrong} wrong blocks")
        return rows, pushed

    def load(self, end):
        while self.done < end:
            self.request()

    def in_a_push(self, act):
        """Goes on to a request that pushes something, and does it in the middle of that."""
        first = self.done
        while self.done < self.options.requests:
            rows, pushed = self.request(act)
            if pushed:
                return rows
        raise Failure(f"no request from {first} on had anything to push, so nothing could happen"
                      " in a push: give more --requests or another --trace")

    def again(self, requests, text):
        """Decode asks for requests that were acknowledged before: all of it has to be there."""
        rows = []
        for done, number in enumerate(requests):
            rows.append(self.decode.play(str(number)))
            progress(done + 1, len(requests), text)
        progress_end()
        return rows

    def kill(self):
        self.daemon.end()
        return self.daemon.start()

    def kill_in_a_push(self):
        self.daemon.keep_counters()
        seconds = []
        rows = self.in_a_push(lambda: seconds.append(self.kill()))
        self.fault["kill"] = {"seconds": seconds[0], "request": self.done - 1, "rows": rows}

    def wait_whole(self, rebuilt_of_before=-1):
        """Until nothing is to be rebuilt, and more was rebuilt than before. It takes as long as it
        comes further."""
        numbers = self.daemon.numbers()
        least, moved = numbers.thin(), time.monotonic()
        while not numbers.whole() or numbers.rebuilt()[0] <= rebuilt_of_before:
            left = numbers.thin()
            progress(0, 1, f"{left:.0f} blocks to rebuild")
            if left < least:
                least, moved = left, time.monotonic()
            if time.monotonic() - moved > STUCK_SECONDS_MAX:
                raise Failure(f"{left:.0f} blocks lack a fragment, and none was rebuilt for"
                              f" {STUCK_SECONDS_MAX} s")
            time.sleep(0.1)
            numbers = self.daemon.numbers()
        return numbers

    def destroy_target(self):
        """A target goes, and is gone for the daemon, while a request is being pushed. The same
        requests before and after. What was rebuilt is counted from before the loss."""
        known = range(max(0, self.done - KNOWN_MAX), self.done)
        self.again(known, "known requests, so that both passes find the same in DRAM")
        before = self.again(known, "again, all targets there")
        time.sleep(play.NUMBERS_SECONDS)
        rebuilt = self.wait_whole().rebuilt()
        self.daemon.set_policy("repair_mb_per_s", HELD_MB_PER_S)
        noticed = []

        def destroy():
            began = time.monotonic()
            self.daemon.destroy(TARGET)
            while not self.daemon.numbers().failed(TARGET):
                if time.monotonic() - began > NOTICED_SECONDS_MAX:
                    raise Failure(f"target {TARGET} was deleted and varved did not notice")
                time.sleep(0.05)
            noticed.append(time.monotonic() - began)

        rows = self.in_a_push(destroy)
        after = self.again(known, f"again, without target {TARGET}")
        time.sleep(play.NUMBERS_SECONDS)
        thin = self.daemon.numbers().thin()
        self.daemon.set_policy("repair_mb_per_s", play.REPAIR_MB_PER_S)
        began = time.monotonic()
        whole = self.wait_whole(rebuilt[0])
        progress_end()
        blocks, size = (now - then for now, then in zip(whole.rebuilt(), rebuilt))
        self.fault["target"] = {
            "target": TARGET, "request": self.done - 1, "rows": rows, "before": before,
            "after": after, "noticed_seconds": noticed[0], "thin_blocks_after": thin,
            "rebuilt_seconds": time.monotonic() - began, "rebuilt_blocks": blocks,
            "rebuilt_bytes": size}

    def kill_at_the_end(self):
        time.sleep(play.NUMBERS_SECONDS)  # what was evicted is counted
        self.daemon.keep_counters()
        seconds = self.kill()
        rows = self.again(range(self.options.requests), "all of it again, after kill -9")
        self.fault["last_kill"] = {"seconds": seconds, "rows": rows}

    def run(self):
        requests = self.options.requests
        self.load(requests * 4 // 10)
        self.kill_in_a_push()
        self.load(requests * 6 // 10)
        progress_end()
        self.destroy_target()
        self.load(requests)
        progress_end()
        self.kill_at_the_end()


class Run:
    """One run in its folder: what was started for it, what is told of it, and what is left."""

    def __init__(self, options):
        self.options = options
        self.began = time.monotonic()
        self.own = options.data is None  # the folder is made, and removed when all is good
        self.folder = options.data or tempfile.mkdtemp(prefix="varve-demo-")
        self.workers, self.daemon = [], None
        self.keep = True

    def play(self):
        options, binary = self.options, os.path.join(self.options.bin, "varve_demo")
        about = play.about(options.bin, options)
        options.requests = min(options.requests, about["requests"])
        if options.requests < REQUESTS_MIN:
            raise Failure(f"the trace has {options.requests} requests, {REQUESTS_MIN} are needed")
        print(f"  trace: {about['source']}")
        sizes = Sizes(about)
        play.need_space(self.folder, sizes.space_bytes)
        self.daemon = Daemon(options.bin, self.folder, sizes)
        self.daemon.start()
        print(f"  {self.daemon.ready_line}")
        print(f"  watch it: curl {self.daemon.metrics_url}", flush=True)
        log = open(os.path.join(self.folder, "workers.log"), "ab")
        for role in ("prefill", "decode"):
            self.workers.append(Worker(binary, role, self.daemon, options, log))
        self.workers.append(Ceiling(binary, about, log))
        for worker in self.workers:
            worker.read()  # what it is, when it is ready
        it = Play(options, self.daemon, *self.workers)
        it.run()
        result = report(options, about, it.rows, it.fault, self.daemon)
        for worker in self.workers:
            worker.close()
        result["seconds"] = time.monotonic() - self.began
        return result

    def tell(self, result):
        result["faults"] = faults_of(result)
        print(screen_of(result))
        print(f"  NOT GOOD: {'; '.join(result['faults'])}" if result["faults"] else
              "  good: nothing wrong, nothing lost, no fault cost a hit", flush=True)
        if self.options.json:
            with open(self.options.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
        return not result["faults"]

    def stay(self):
        try:
            print(f"  it goes on: {self.daemon.metrics_url}, data plane {self.daemon.address},"
                  f" control plane {self.daemon.control}; Ctrl-C ends it", flush=True)
            code = self.daemon.process.wait()
        except KeyboardInterrupt:
            return
        raise Failure(f"varved ended (exit {code}): {play.last_line(self.daemon.log)}")

    def whole(self):
        """Whether all was good."""
        result = self.play()
        if self.options.stay:
            good = self.tell(result)
            self.stay()
            exit_code = self.daemon.stop()
            if exit_code != 0:
                raise Failure(f"varved did not drain (exit {exit_code})")
            return good
        result["drain_exit"] = self.daemon.stop()
        return self.tell(result)

    def run(self):
        try:
            good = self.whole()
            self.keep = not good
            return 0 if good else 1
        except KeyboardInterrupt:
            progress_end()
            self.keep = False
            raise
        except (Failure, OSError) as failure:
            progress_end()
            process = self.daemon and self.daemon.process
            if process and process.poll() not in (None, 0) and "varved" not in str(failure):
                raise Failure(f"{failure}\n  varved had ended (exit {process.returncode}): "
                              + play.last_line(self.daemon.log)) from failure
            raise
        finally:
            self.end()

    def end(self):
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)  # what is begun here is ended
        for worker in self.workers:
            worker.end()
        if self.daemon:
            self.daemon.end()
        if not self.own:
            print(f"  what it left: {self.folder}")
        elif not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:  # logs and numbers say what was wrong; the targets are gigabytes
            shutil.rmtree(os.path.join(self.folder, "data"), ignore_errors=True)
            print(f"  its logs: {self.folder}")


def interrupt(_signal, _frame):
    raise KeyboardInterrupt


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="demo.py",
                                     description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True, help="folder of varved, varve_demo and kvctl")
    parser.add_argument("--requests", type=int, default=100, help="of the trace (100)")
    parser.add_argument("--trace", default=TRACE if os.path.exists(TRACE) else None,
                        help="a file of JSON lines, or a folder of agent sessions; default: the"
                             " published sessions beside this tree, else the generator")
    parser.add_argument("--data", help="a fresh folder for the targets, 4 GiB; default: a temporary"
                                       " one, removed when all is good")
    parser.add_argument("--json", help="write the results here too")
    parser.add_argument("--stay", action="store_true",
                        help="varved goes on after the end, to be looked at, until Ctrl-C")
    parser.add_argument("--check", action="store_true",
                        help="start nothing: say only whether arguments and space are as needed")
    options = parser.parse_args(arguments)
    if options.requests < REQUESTS_MIN:
        parser.error(f"--requests is at least {REQUESTS_MIN}")
    return options


def check(options):
    """What can be known to be wrong before minutes have passed."""
    if options.trace and not os.path.exists(options.trace):
        raise Failure(f"there is no {options.trace}")
    if options.json:
        folder = os.path.dirname(os.path.abspath(options.json))
        file = options.json if os.path.exists(options.json) else folder
        if not os.path.isdir(folder) or os.path.isdir(options.json) or not os.access(file, os.W_OK):
            raise Failure(f"{options.json} cannot be written")
    if options.data:
        os.makedirs(options.data, exist_ok=True)
        if os.listdir(options.data):
            raise Failure(f"{options.data} is not empty: the demo needs a fresh folder")
    if options.check:
        play.need_space(options.data or tempfile.gettempdir(), play.SPACE_BYTES_USUAL)


def main():
    options = options_of(sys.argv[1:])
    for name in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(name, interrupt)
    try:
        check(options)
        return 0 if options.check else Run(options).run()
    except (Failure, OSError) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
