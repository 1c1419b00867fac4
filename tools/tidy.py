#!/usr/bin/env python3
"""The house rules that a machine can check.

    tools/tidy.py [--root FOLDER] [--report]

It fails (exit 1, one line per finding: path:line: check: text) on what breaks the house, and with
--report it prints numbers per room to think about, which gate nothing. The rooms and their edges
come from cmake/rooms.cmake, the table that CMake builds from. Every check has a good and a bad
sample in tests/tools/tidy/tidy_test.py.
"""

import argparse
import os
import re
import subprocess
import sys

LINE_COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
PARAMETERS_MAX = 5
PURPOSE_CHARACTERS_MIN = 30  # less than that says nothing that the name does not say

CPP = (".h", ".cc")
PRODUCT = ("common/", "server/", "client/")

# Rooms whose implementations may make system calls; everything else asks them.
SYSTEM_ROOMS = ("common/time/", "common/reactor/", "common/device/", "common/fabric/",
                "common/object/", "server/host/", "server/main.cc", "tools/", "tests/")

# (pattern, what to say) for text outside comments and strings, below PRODUCT, outside SYSTEM_ROOMS.
SYSTEM_CALLS = [
    (r"\b(?:system|steady|high_resolution)_clock\b", "a clock; take Clock from Env"),
    (r"\b(?:clock_gettime|gettimeofday|timespec_get)\s*\(", "a clock; take Clock from Env"),
    (r"(?<![\w.>:])(?:std::|::)?time\s*\(\s*(?:nullptr|NULL|0|&)", "a clock; take Clock from Env"),
    (r"(?<![\w.>:])(?:std::|::)?s?rand(?:om)?(?:_r|48)?\s*\(", "randomness; take Random from Env"),
    (r"\brandom_device\b|\bmt19937\w*|\bgetrandom\s*\(", "randomness; take Random from Env"),
    (r"\bstd::(?:jthread|thread|async)\b|\bpthread_create\s*\(", "a thread; a shard is the thread"),
    (r"\bsleep_(?:for|until)\b|(?<![\w.>:])(?:::)?(?:u|nano)?sleep\s*\(", "sleep; use a timer"),
    (r"(?<![\w.>:])(?:::)?(?:socket|recvmsg|sendmsg|recvfrom|sendto|getaddrinfo|epoll_\w+|eventfd|"
     r"openat|creat|fopen|preadv?2?|pwritev?2?|fsync|fdatasync|ftruncate|fallocate|ioctl|"
     r"opendir|io_uring_\w+)\s*\(", "a file or socket call; go through Env"),
    (r"(?<![\w>])::(?:open|close|read|write|connect|bind|listen|accept4?|send|recv|stat|"
     r"rename|unlink|mkdir)\s*\(", "a file or socket call; go through Env"),
    (r"\bstd::(?:[io]?fstream|filesystem)\b", "a file; go through Env"),
    (r"#\s*include\s*<(?:fcntl\.h|unistd\.h|netdb\.h"
     r"|sys/(?:socket|stat|ioctl|epoll|eventfd|file)\.h|netinet/\w+\.h"
     r"|arpa/inet\.h|fstream|filesystem|thread|pthread\.h|random|dirent\.h)>",
     "a header of system calls; go through Env"),
]

# Constructs that have no place in the product.
BANNED_PRODUCT = [
    (r"\bstd::(?:move_only_)?function\b", "std::function; use a staged op or an intrusive record"),
    (r"\b(?:shared_ptr|weak_ptr|make_shared|enable_shared_from_this)\b",
     "shared_ptr; every object has one owner"),
    (r"\bstd::(?:\w+_)?mutex\b|\bstd::(?:lock_guard|unique_lock|scoped_lock|shared_lock)\b"
     r"|\bstd::condition_variable\w*|\bpthread_\w*(?:mutex|cond|rwlock)\w*",
     "a lock; two shards talk by mailbox"),
    (r"\bstd::atomic\w*|\b__(?:atomic|sync)_\w+", "an atomic; two shards talk by mailbox"),
    (r"\bthrow\b(?!\s*\()|\bcatch\s*\(", "an exception; return a Status"),
    (r"(?<![\w:.>])assert\s*\(|#\s*include\s*<cassert>", "assert(); use VARVE_ASSERT"),
    (r"\bstd::hash\b", "std::hash; its value differs between libraries"),
    (r"\bstd::\w+_distribution\b|\bstd::(?:random_)?shuffle\b", "<random>; its results differ"),
]

# Everywhere, tests included (ADR-0001).
BANNED_EVERYWHERE = [
    (r"\bco_(?:await|return|yield)\b", "a coroutine; gcc 12 miscompiles them (ADR-0001)"),
]

# Third-party headers and the one place of the product that names them (tools and tests are free).
LIBRARY_HEADERS = [
    (r"spdlog/", ("common/base/",)),
    (r"openssl/", ("common/base/",)),
    (r"isa-l(?:/|\.h)", ("common/base/", "common/erasure/")),
    (r"xxh\w*\.h", ("common/base/",)),
    (r"liburing", ("common/reactor/",)),
    (r"CLI/", ("server/config/",)),
    (r"toml\+\+/", ("server/config/",)),
    (r"(?:grpc(?:pp)?|google/protobuf|varve/v1)/", ("server/control/",)),
    (r"nlohmann/", ()),
    (r"(?:gtest|gmock|benchmark)/", ()),
]

# (file, start of the text of a finding, why it is right there). Keep it short; every line is a
# question in review, and a line that excuses nothing any more is itself a finding.
EXCEPTIONS = [
    ("common/reactor/mailbox.h", "an atomic", "the mailbox is where two threads meet"),
    ("common/reactor/reactor.h", "an atomic", "stop() may be called by any thread"),
    ("server/op/part.h", "an atomic", "a cancel flag: a message could outlive the part it cancels"),
    ("common/reactor/epoll_backend.cc", "a lock", "the fallback's bounded queue to its workers"),
    ("client/client.cc", "a lock", "the border where the caller's threads meet the reactor"),
    ("client/client.cc", "an atomic", "the border where the caller's threads meet the reactor"),
    ("common/base/log.cc", "a lock", "a line is one thread's, and none is held across fork()"),
    ("common/base/log.cc", "a header of system calls", "pthread_atfork, for that lock"),
    ("client/client.cc", "std::function", "set-up calls only, posted to the reactor's thread"),
    ("client/client.cc", "a thread", "the thread that the reactor runs on"),
    ("client/client.cc", "an exception", "a thread in a foreign process: out of memory is said"),
    ("client/client.cc", "a file or socket call", "the one eventfd that the caller polls"),
    ("client/client.cc", "a header of system calls", "the one eventfd, the thread, the process id"),
    ("client/name_thread.cc", "a lock", "the client's thread asks, one of its own looks names up"),
    ("client/name_thread.h", "a thread", "waits for a resolver, so that the client's does not"),
    ("client/name_thread.cc", "a thread", "waits for a resolver, so that the client's does not"),
    ("client/name_thread.h", "a header of system calls", "<thread>: waits for a resolver"),
    ("client/c_border.h", "an exception", "the one catch: none crosses into C"),
    ("client/c_handle.h", "a lock", "the border where C callers' threads meet the client's"),
    ("client/c_handle.h", "an atomic", "counts the calls inside for a close that waits"),
    ("client/c_handle.cc", "a lock", "the border where C callers' threads meet the client's"),
    ("client/fork_mark.cc", "a header of system calls", "the process id, where no page tells"),
    ("client/peek.h", "an atomic", "what a scheduler's thread reads without waiting"),
    ("client/wait.h", "a clock", "bounds the caller's wait, outside of any decision"),
    ("tools/demo/ceiling.cc", "has no test", "it is two processes; tools/dev demo is its test"),
    ("tools/demo/ceiling.cc", '"tools/kvbench/socket_ceiling.h"', "a tool has no door; one user"),
    ("tools/demo/worker.cc", "has no test", "it needs a daemon; tools/dev demo is its test"),
    ("server/node/question.h", "a lock", "gRPC's threads wait for the shards' threads"),
    ("server/node/question.cc", "a lock", "gRPC's threads wait for the shards' threads"),
    ("server/node/domain.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/domain_book.h", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/domain_book.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/format_book.h", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/format_book.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/watch.h", "a lock", "main's thread and HTTP's, off the data path"),
    ("server/node/watch.cc", "a lock", "main's thread and HTTP's, off the data path"),
    ("server/node/ingress.h", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/ingress.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/status.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/policy.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/change.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/node.h", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/metric.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/drain.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/drained.cc", "a lock", "the thread of the lists and gRPC's, off the data path"),
    ("server/node/missed.cc", "a lock", "the thread of the lists and gRPC's, off the data path"),
    ("server/node/file_thread.h", "a lock", "main's thread and that of files, off the data path"),
    ("server/node/file_thread.cc", "a lock", "main's thread and that of files, off the data path"),
    ("server/node/file_thread.h", "a thread", "waits for file systems, so that main does not"),
    ("server/node/file_thread.cc", "a thread", "waits for file systems, so that main does not"),
    ("server/node/file_thread.h", "a header of system calls", "<thread>: waits for file systems"),
    ("server/node/drain.cc", "a thread", "closes listeners whose end has no bound"),
    ("server/node/status.cc", "has no test", "numbers of threads; tests/e2e/control_test.cc"),
    ("server/node/replace.cc", "a lock", "main's thread and gRPC's, off the data path"),
    ("server/node/replace.cc", "has no test", "states of threads; tests/e2e/replace_test.py"),
    ("server/node/change.cc", "has no test", "states of threads; tests/e2e/control_test.cc"),
    ("server/control/acceptor.h", "a lock", "its thread's and gRPC's, off the data path"),
    ("server/control/acceptor.h", "a thread", "waits for connections; gRPC has no limit of them"),
    ("server/control/acceptor.h", "a header of system calls", "<thread>: that one"),
    ("server/control/acceptor.cc", "a lock", "its thread's and gRPC's, off the data path"),
    ("server/control/acceptor.cc", "a thread", "waits for connections; gRPC has no limit of them"),
    ("server/control/acceptor.cc", "a file or socket call", "accepts what gRPC is given"),
    ("server/control/acceptor.cc", "a header of system calls", "accepts what gRPC is given"),
    ("server/control/service.h", "a lock", "gRPC's threads count their calls"),
    ("server/control/service.cc", "a lock", "gRPC's threads count their calls"),
    ("server/control/service.h", "an exception", "the one catch of the gRPC border"),
    ("server/monitor/monitor.cc", "an exception", "the one catch before civetweb's C frames"),
    ("server/host/limits.cc", "an exception", "what those two catch, where the daemon would end"),
    ("tests/fuzz/control_fuzz.cc", "\"server/control/", "it calls the methods without a network"),
    ("tests/fuzz/fragment_fuzz.cc", "\"server/flash/", "it feeds the parsers behind the door"),
    ("tests/fuzz/config_fuzz.cc", "\"server/config/", "it compares settings by the table"),
    ("server/main.cc", "has no test", "wiring only; tests/e2e/varved_test.py runs the daemon"),
    ("server/node/node.cc", "has no test", "wiring only; tests/e2e/varved_test.py runs the daemon"),
    ("server/node/drain.cc", "has no test", "a stop of threads; tests/e2e/varved_test.py"),
    ("server/node/call.h", "a lock", "main's thread waits for the shards' threads"),
    ("server/node/call.cc", "a lock", "main's thread waits for the shards' threads"),
    ("server/node/node.h", "a thread", "one per shard, made here and nowhere else"),
    ("server/node/node.cc", "a thread", "one per shard, made here and nowhere else"),
    ("server/node/node.h", "a header of system calls", "<thread>: one per shard"),
    ("server/config/command_line.cc", "an exception", "CLI11 reports by exceptions; the border"),
]


def is_main(path):
    return os.path.basename(path) == "main.cc"


class Finding:
    """One broken rule at one place."""

    def __init__(self, path, line, check, text):
        self.path, self.line, self.check, self.text = path, line, check, text

    def __str__(self):
        return f"{self.path}:{self.line}: {self.check}: {self.text}"


def strip(text, keep_strings=False):
    """Blanks comments (and string and character literals), keeping every line break."""
    blank = lambda s: re.sub(r"[^\n]", " ", s)

    def replace(match):
        token = match.group(0)
        if token.startswith("/"):
            return blank(token)
        if keep_strings:
            return token
        return token[0] + blank(token[1:-1]) + token[-1] if len(token) > 1 else token

    return re.sub(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
        replace, text, flags=re.S)


class Room:
    """A line of the table: a folder, its door, what it may include."""

    def __init__(self, path, deps, doors, line):
        self.path, self.deps, self.doors, self.line = path, deps, doors, line


def parse_rooms(text):
    """Reads the subset of CMake that rooms.cmake is written in."""
    text = re.sub(r"#[^\n]*", lambda m: " " * len(m.group(0)), text)
    variables, rooms = {}, {}
    keywords = {"DEPS", "LIBS", "DOORS", "DOUBLES", "TEST_DEPS", "NAME", "SOURCES_OF_PATH"}
    for call in re.finditer(r"\b(set|varve_\w+)\s*\(([^)]*)\)", text):
        words = []
        for word in call.group(2).split():
            named = re.fullmatch(r"\$\{(\w+)\}", word)
            words += variables.get(named.group(1), []) if named else [word]
        if call.group(1) == "set" and words:
            variables[words[0]] = words[1:]
            continue
        path = {"varve_room": 0, "varve_tool": 0, "varve_program": 1}.get(call.group(1))
        if call.group(1) == "varve_doubles":
            words, path = ["tests/doubles"] + words, 0
        if path is None or len(words) <= path:
            continue
        lists, key = {}, None
        for word in words[path + 1:]:
            if word in keywords:
                key = word
                lists.setdefault(key, [])
            elif key:
                lists[key].append(word)
        folder = words[path]
        doors = [f"{folder}/{os.path.basename(folder)}.h"]
        doors += [f"{folder}/{door}" for door in lists.get("DOORS", [])]
        line = text.count("\n", 0, call.start()) + 1
        rooms[folder] = Room(folder, lists.get("DEPS", []), doors, line)
    return rooms


class Tree:
    """The files of a checkout, read once, and the table of rooms."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        for path in self._list():
            try:
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    self.files[path] = file.read()
            except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
                pass  # a binary corpus file, or one deleted since git listed it
        self.code = {p: strip(t) for p, t in self.files.items() if p.endswith(CPP)}
        self.rooms = parse_rooms(self.files.get("cmake/rooms.cmake", ""))
        self.includes = {p: self._includes_of(t) for p, t in self.files.items() if p.endswith(CPP)}

    def _list(self):
        if os.path.isdir(os.path.join(self.root, ".git")):
            out = subprocess.run(
                ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                cwd=self.root, capture_output=True, check=True).stdout
            return sorted(p for p in set(out.decode().split("\0")) if p)
        found = []
        for folder, _, names in os.walk(self.root):
            found += [os.path.relpath(os.path.join(folder, n), self.root) for n in names]
        return sorted(found)

    @staticmethod
    def _includes_of(text):
        """[(line, header)] of the quoted includes; angle brackets are not ours."""
        out = []
        for number, line in enumerate(strip(text, keep_strings=True).split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if match:
                out.append((number, match.group(1)))
        return out

    def room_of(self, path):
        """The room a file stands in: the longest folder of the table that holds it directly."""
        return self.rooms.get(os.path.dirname(path))

    def exported(self, room):
        """The door and what it includes of its own room, transitively."""
        out, todo = set(), list(room.doors)
        while todo:
            header = todo.pop()
            if header in out or os.path.dirname(header) != room.path:
                continue
            out.add(header)
            todo += [h for _, h in self.includes.get(header, [])]
        return out


def check_table(tree):
    """The table itself points down only, and server and client never meet."""
    seen, path = set(), "cmake/rooms.cmake"
    for room in tree.rooms.values():
        for dep in room.deps:
            sides = {room.path.split("/")[0], dep.split("/")[0]}
            if dep not in seen:
                yield Finding(path, room.line, "table", f"{room.path} names {dep}, not below it")
            if sides == {"server", "client"}:
                yield Finding(path, room.line, "table", f"{room.path} and {dep} never meet")
        seen.add(room.path)


def check_edges(tree):
    """Includes follow the table and stop at the door."""
    for path, includes in tree.includes.items():
        room = tree.room_of(path)
        own = room.path if room else None
        in_tests = path.startswith("tests/")
        if own is None and path.startswith(PRODUCT):
            yield Finding(path, 1, "edge", "stands in no room of cmake/rooms.cmake")
            continue
        for line, header in includes:
            if "/" not in header:
                yield Finding(path, line, "edge", f'"{header}" is not written from the root')
                continue
            if header not in tree.files:
                yield Finding(path, line, "edge", f'"{header}" does not exist')
                continue
            target = tree.room_of(header)
            mirrored = in_tests and target and os.path.dirname(path) == "tests/" + target.path
            if target is None or target.path == own or mirrored:
                continue
            # What stands in no room (tests, examples) may use every door.
            if room and not in_tests and target.path not in room.deps:
                yield Finding(path, line, "edge", f"{own} -> {target.path} is not in the table")
            elif target.path != "tests/doubles" and header not in tree.exported(target):
                yield Finding(path, line, "edge", f'"{header}" is not the door of {target.path}')


def matches(code, patterns):
    for pattern, text in patterns:
        for match in re.finditer(pattern, code):
            yield code.count("\n", 0, match.start()) + 1, text


def check_banned(tree):
    """Calls and constructs that have no place where they stand."""
    for path, code in tree.code.items():
        patterns = list(BANNED_EVERYWHERE)
        if path.startswith(PRODUCT):
            patterns += BANNED_PRODUCT
            if not path.startswith(SYSTEM_ROOMS):
                patterns += SYSTEM_CALLS
        for line, text in matches(code, patterns):
            yield Finding(path, line, "banned", text)
        if not path.startswith(PRODUCT):
            continue
        for pattern, rooms in LIBRARY_HEADERS:
            for line, _ in matches(code, [(r"#\s*include\s*<" + pattern, "")]):
                if not path.startswith(rooms or ("-",)):
                    yield Finding(path, line, "banned", f"<{pattern}> is named by another room")


def check_unordered(tree):
    """No loop over an unordered container: its order is nobody's promise."""
    for path, code in tree.code.items():
        if not path.startswith(PRODUCT):
            continue
        folder = os.path.dirname(path)
        names = set()
        for other, text in tree.code.items():
            if os.path.dirname(other) == folder:
                names |= set(re.findall(r"\bunordered_\w+<[^;{}]*>\s+(\w+)\s*[;{=]", text))
        for name in sorted(names):
            loop = (rf"\bfor\s*\([^;()]*:\s*[\w.>-]*?\b{name}\s*\)"
                    rf"|\b{name}\s*\.\s*c?begin\(")
            for line, _ in matches(code, [(loop, "")]):
                yield Finding(path, line, "unordered", f"loops over the unordered {name}")


def purpose_of(text):
    """The comment at the top, after a #! line, without its marks."""
    lines = text.split("\n")
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    if lines and lines[0].startswith('"""'):
        return text.split('"""')[1]
    said = []
    for line in lines:
        comment = re.match(r"\s*(?://|#(?!\s*(?:include|pragma|if|define)\b))\s*(.*)", line)
        if not comment:
            break
        said.append(comment.group(1))
    return " ".join(said).strip()


def check_purpose(tree):
    """A file says what it is for before anything else; a header is included once."""
    for path, text in tree.files.items():
        name = os.path.basename(path)
        cpp = path.endswith(CPP)
        script = path.endswith((".py", ".cmake", ".sh")) or name in ("CMakeLists.txt", "dev", "run")
        if (cpp or script) and len(purpose_of(text)) < PURPOSE_CHARACTERS_MIN:
            yield Finding(path, 1, "purpose", "no purpose comment at the top")
        if path.endswith(".h") and "#pragma once" not in text:
            yield Finding(path, 1, "purpose", "no #pragma once")


def check_mirror(tree):
    """The test of a/b.cc is tests/a/b_test.cc."""
    for path in tree.files:
        if not path.endswith(".cc") or not path.startswith(PRODUCT + ("tools/",)):
            continue
        if is_main(path) and path.startswith("tools/"):
            continue  # a tool's main is wiring; its work is in the files beside it
        mirror = "tests/" + path[:-len(".cc")] + "_test.cc"
        if mirror not in tree.files:
            yield Finding(path, 1, "mirror", f"has no test {mirror}")


def check_marks(tree):
    """Notes to ourselves have a kind and a reason, or do not reach main."""
    never, bare = "FIX" + "ME", "TO" + "DO"
    for path, text in tree.files.items():
        if not path.endswith(CPP + (".py", ".cmake", ".sh")) and path != "tools/dev":
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(rf"\b{never}\b", line):
                yield Finding(path, number, "marks", f"{never} never reaches main")
            if re.search(rf"\b{bare}\b(?!\((?:perf|test|port|cleanup)\): \S)", line):
                yield Finding(path, number, "marks", f"a {bare} needs its kind and reason")


def check_dead(tree):
    """A header is included by somebody."""
    included = {h for includes in tree.includes.values() for _, h in includes}
    for path in tree.includes:
        if path.endswith(".h") and path not in included:
            yield Finding(path, 1, "dead", "is included by nobody")


def check_page(tree):
    """The shape of a line; what clang-format cannot repair or does not see."""
    for path, text in tree.files.items():
        shaped = path.endswith(CPP + (".py", ".cmake", ".sh")) or os.path.basename(path) in (
            "CMakeLists.txt", "dev", "run")
        for number, line in enumerate(text.split("\n"), 1) if shaped else ():
            if len(line) > LINE_COLUMNS_MAX:
                yield Finding(path, number, "page", f"{len(line)} columns of {LINE_COLUMNS_MAX}")
            if "\t" in line:
                yield Finding(path, number, "page", "a tab")
            if line != line.rstrip():
                yield Finding(path, number, "page", "space at the end of the line")


def check_machine(tree):
    """No path of the machine that somebody worked on."""
    places = "|".join(("wo" + "rk", "fa" + "rm", "tmp/no" + "tes"))
    for path, text in tree.files.items():
        for match in re.finditer(rf"(?<![\w.)}}\]-])/(?:{places})(?=[/\s\"'`,;:)]|$)", text, re.M):
            line = text.count("\n", 0, match.start()) + 1
            yield Finding(path, line, "machine", f"names {match.group(0)} of a machine")


CHECKS = [check_table, check_edges, check_banned, check_unordered, check_purpose, check_mirror,
          check_marks, check_dead, check_page, check_machine]


def all_findings(tree, exceptions=()):
    """The findings that no exception excuses, and the exceptions that excuse nothing."""
    out, used = [], set()
    for check in CHECKS:
        for finding in check(tree):
            excuse = [e for e in exceptions
                      if e[0] == finding.path and finding.text.startswith(e[1])]
            used |= set(excuse)
            out += [] if excuse else [finding]
    for exception in exceptions:
        if exception not in used and exception[0] in tree.files:
            out.append(Finding(exception[0], 1, "exception", f"excuses nothing: {exception[1]}"))
    return out


def split_parameters(text):
    """How many parameters a parenthesised list holds; commas inside <>, (), {} do not count."""
    depth, count = 0, 0
    text = text.strip()
    if not text or text == "void":
        return 0
    for char in text:
        depth += char in "<({["
        depth -= char in ">)}]"
        count += char == "," and depth == 0
    return count + 1


def functions_of(code):
    """[(first line, lines, parameters)] of the function bodies in stripped code."""
    out, stack, start = [], [], 0
    lead_of = re.compile(r"\s*(?:namespace|class|struct|enum|union|extern|concept)\b")
    for position, char in enumerate(code):
        if char == "{":
            lead = re.sub(r"^\s*#.*$", "", code[start:position], flags=re.M)
            lead = re.sub(r"\b(?:public|private|protected)\s*:", "", lead)
            inside = any(kind == "function" for kind, _, _ in stack)
            opening = re.search(r"([\w~\]>]+|operator\s*\S+)\s*\(", lead)
            kind, parameters = "other", 0
            plain = re.sub(r"\btemplate\s*<[^{}]*?>\s*(?=\w)", "", lead)
            before = lead[:opening.end()].replace("operator=", "") if opening else "="
            if not inside and "=" not in before and not lead_of.match(plain):
                kind = "function"
                parameters = split_parameters(parenthesised(lead, opening.end() - 1))
            stack.append((kind, code.count("\n", 0, position) + 1, parameters))
            start = position + 1
        elif char == "}" and stack:
            kind, line, parameters = stack.pop()
            if kind == "function":
                out.append((line, code.count("\n", 0, position) + 1 - line + 1, parameters))
            start = position + 1
        elif char == ";":
            start = position + 1
    return out


def parenthesised(text, opening):
    """What stands between the parenthesis at `opening` and its partner."""
    depth = 0
    for position in range(opening, len(text)):
        depth += text[position] == "("
        depth -= text[position] == ")"
        if depth == 0:
            return text[opening + 1:position]
    return text[opening + 1:]


def report(tree):
    """One line per room: numbers to think about, not gates."""
    rows = [("room", "files", "code", "comment%", "asserts/100", f"func>{FUNCTION_LINES_MAX}",
             f"file>{FILE_LINES_MAX}", f"params>{PARAMETERS_MAX}")]
    details = []
    for room in tree.rooms.values():
        paths = [p for p in tree.code if os.path.dirname(p) == room.path]
        if not paths:
            continue
        code = comments = asserts = long_functions = long_files = wide = 0
        for path in paths:
            lines = sum(1 for line in tree.code[path].split("\n") if line.strip())
            written = sum(1 for line in tree.files[path].split("\n") if line.strip())
            code, comments = code + lines, comments + written - lines
            asserts += len(re.findall(r"\bVARVE_D?ASSERT\b|\bstatic_assert\b", tree.code[path]))
            if written > FILE_LINES_MAX:
                long_files += 1
                details.append(f"  {path}: {written} lines")
            for line, length, parameters in functions_of(tree.code[path]):
                long_functions += length > FUNCTION_LINES_MAX
                wide += parameters > PARAMETERS_MAX
                if length > FUNCTION_LINES_MAX or parameters > PARAMETERS_MAX:
                    details.append(f"  {path}:{line}: {length} lines, {parameters} parameters")
        per_hundred = f"{100 * asserts / max(code, 1):.1f}"
        share = f"{100 * comments / max(code + comments, 1):.0f}"
        rows.append((room.path, str(len(paths)), str(code), share, per_hundred,
                     str(long_functions), str(long_files), str(wide)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                        for i, (cell, w) in enumerate(zip(row, widths))))
    if details:
        print("long or wide:")
        print("\n".join(details))


def main(arguments):
    parser = argparse.ArgumentParser(description="checks the house rules")
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--root", default=above)
    parser.add_argument("--report", action="store_true", help="print numbers per room as well")
    options = parser.parse_args(arguments)
    tree = Tree(options.root)
    findings = all_findings(tree, EXCEPTIONS)
    for finding in findings:
        print(finding)
    if options.report:
        report(tree)
    print(f"tidy: {len(findings)} findings in {len(tree.files)} files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
