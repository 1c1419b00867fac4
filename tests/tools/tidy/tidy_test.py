#!/usr/bin/env python3
"""Tests of tools/tidy.py: for every check a small tree that is good and one that breaks one rule.

A sample tree is a dictionary of path -> text, written to a temporary folder. Words that tidy bans
in Python files as well are put together from halves here.
"""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import tidy  # noqa: E402

HEAD = "// A sample file.\n// It stands here to be checked.\n"

ROOMS = """# The table of rooms of a house that is good.
set(kBoth common/base common/wire)
varve_room(common/base LIBS spdlog::spdlog)
varve_room(common/wire DEPS common/base)
varve_room(common/reactor DEPS common/base DOORS op.h)
varve_room(server/index DEPS ${kBoth})
varve_room(client DEPS common/base DOORS varve.h)
"""


def header(body=""):
    return HEAD + "#pragma once\n" + body


def good_tree():
    """A house of five rooms with nothing to find."""
    return {
        "cmake/rooms.cmake": ROOMS,
        "common/base/base.h": header('#include "common/base/bytes.h"\n'),
        "common/base/bytes.h": header(),
        "common/base/secret.h": header(),
        "common/base/bytes.cc": HEAD + '#include "common/base/secret.h"\n',
        "tests/common/base/bytes_test.cc": HEAD + '#include "common/base/secret.h"\n',
        "common/wire/wire.h": header('#include "common/base/bytes.h"\n'),
        "common/reactor/reactor.h": header(),
        "common/reactor/op.h": header('#include "common/reactor/reactor.h"\n'),
        "server/index/index.h": header('#include "common/wire/wire.h"\n'),
        "server/index/index.cc": HEAD + '#include "server/index/index.h"\n',
        "tests/server/index/index_test.cc": HEAD + '#include "common/reactor/op.h"\n',
        "client/varve.h": header('#include "common/base/base.h"\n'),
        "tests/client/varve_test.cc": HEAD + '#include "client/varve.h"\n',
    }


class TidyTest(unittest.TestCase):
    def findings(self, changes, exceptions=()):
        files = good_tree()
        files.update(changes)
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                full = os.path.join(folder, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
            return tidy.all_findings(tidy.Tree(folder), exceptions)

    def expect(self, check, path, changes):
        """Exactly the named check finds something, in the named file."""
        found = self.findings(changes)
        self.assertEqual({(f.check, f.path) for f in found}, {(check, path)},
                         "\n".join(map(str, found)))

    def expect_good(self, changes):
        self.assertEqual([str(f) for f in self.findings(changes)], [])

    def index_cc(self, body):
        return {"server/index/index.cc": HEAD + '#include "server/index/index.h"\n' + body}

    def expect_banned(self, *bodies):
        for body in bodies:
            with self.subTest(body=body):
                self.expect("banned", "server/index/index.cc", self.index_cc(body + "\n"))

    def expect_allowed(self, *bodies):
        for body in bodies:
            with self.subTest(body=body):
                self.expect_good(self.index_cc(body + "\n"))

    def test_a_good_tree_has_no_findings(self):
        self.expect_good({})

    def test_an_include_edge_outside_the_table_fails(self):
        self.expect("edge", "common/wire/wire.h", {"common/wire/wire.h": header(
            '#include "common/base/bytes.h"\n#include "common/reactor/reactor.h"\n')})

    def test_an_edge_is_not_inherited_from_a_room_below(self):
        self.expect("edge", "client/varve.h", {"client/varve.h": header(
            '#include "common/base/base.h"\n#include "common/wire/wire.h"\n')})

    def test_a_header_behind_the_door_of_another_room_fails(self):
        self.expect("edge", "client/varve.h", {"client/varve.h": header(
            '#include "common/base/base.h"\n#include "common/base/secret.h"\n')})

    def test_a_test_of_another_room_stops_at_the_door_too(self):
        self.expect("edge", "tests/client/varve_test.cc", {"tests/client/varve_test.cc": HEAD +
                    '#include "client/varve.h"\n#include "common/base/secret.h"\n'})

    def test_an_include_that_is_commented_out_is_no_edge(self):
        self.expect_allowed('// #include "client/varve.h"', '/*\n#include "client/varve.h"\n*/')

    def test_an_include_not_written_from_the_root_fails(self):
        self.expect("edge", "server/index/index.cc", self.index_cc('#include "index.h"\n'))

    def test_an_include_of_a_missing_header_fails(self):
        self.expect("edge", "server/index/index.cc",
                    self.index_cc('#include "server/index/no.h"\n'))

    def test_a_folder_that_is_no_room_fails(self):
        self.expect("edge", "common/attic/old.h", {
            "common/attic/old.h": header(),
            "tests/common/attic/old_test.cc": HEAD + '#include "common/attic/old.h"\n'})

    def test_a_table_that_points_up_fails(self):
        self.expect("table", "cmake/rooms.cmake", {"cmake/rooms.cmake": ROOMS.replace(
            "varve_room(common/wire DEPS common/base)",
            "varve_room(common/wire DEPS common/base client)")})

    def test_a_table_in_which_client_and_server_meet_fails(self):
        self.expect("table", "cmake/rooms.cmake", {"cmake/rooms.cmake": ROOMS.replace(
            "varve_room(client DEPS common/base",
            "varve_room(client DEPS common/base server/index")})

    def test_clocks_are_banned_outside_their_rooms(self):
        self.expect_banned("auto t = std::chrono::steady_clock::now();", "clock_gettime(1, &t);",
                           "auto t = time(nullptr);", "auto t = std::time(0);")
        self.expect_allowed("auto t = clock.now_ns();", "auto t = span.time(0);",
                            "int steady_clockwork = 0;")

    def test_randomness_is_banned_outside_its_room(self):
        self.expect_banned("int x = rand();", "int x = std::rand();", "std::random_device d;",
                           "std::mt19937_64 g(1);", "#include <random>", "std::shuffle(a, b, c);")
        self.expect_allowed("int x = env.random.next();", "int x = operand(1);")

    def test_threads_and_sleep_are_banned_outside_their_rooms(self):
        self.expect_banned("std::thread t(run);", "#include <thread>", "usleep(1);", "::sleep(1);",
                           "std::this_thread::sleep_for(ms);")
        self.expect_allowed("reactor.sleep_until_io();", "// std::thread is banned here")

    def test_files_and_sockets_are_banned_outside_their_rooms(self):
        self.expect_banned("int fd = socket(1, 2, 0);", "int fd = ::open(path, 0);",
                           "std::ifstream in(path);", "fsync(fd);", "#include <sys/socket.h>",
                           "#include <unistd.h>", "io_uring_submit(&ring);")
        self.expect_allowed("auto flash = Flash::open(options);", "link.send(message);",
                            "open(id);", "device.read(request);")

    def test_system_calls_are_allowed_in_the_rooms_that_make_them(self):
        self.expect_good({"common/reactor/reactor.h": header(
            "#include <unistd.h>\nint f = ::open(path, 0);\n")})

    def test_coroutines_are_banned_everywhere(self):
        words = ["co_" + w for w in ("await", "return", "yield")]
        self.expect_banned(*[word + " x;" for word in words])
        self.expect("banned", "tests/server/index/index_test.cc", {
            "tests/server/index/index_test.cc":
                HEAD + '#include "common/reactor/op.h"\n' + words[0] + " x;\n"})

    def test_shared_state_is_banned_on_the_data_path(self):
        self.expect_banned("std::function<void()> f;", "std::shared_ptr<int> p;", "std::mutex m;",
                           "auto p = make_shared<int>(1);", "std::atomic<int> n;",
                           "std::atomic_flag n;", "std::condition_variable c;",
                           "std::lock_guard lock(m);")
        self.expect_allowed("std::unique_ptr<int> p;", "int function_count = 0;",
                            'const char* s = "std::mutex";')

    def test_exceptions_plain_assert_and_std_hash_are_banned(self):
        self.expect_banned("throw Error();", "try { f(); } catch (...) {}", "assert(x);",
                           "#include <cassert>", "size_t h = std::hash<int>()(1);")
        self.expect_allowed("VARVE_ASSERT(x);", "static_assert(true);")

    def test_a_library_is_named_by_its_own_room_only(self):
        self.expect_banned("#include <spdlog/spdlog.h>", "#include <liburing.h>",
                           "#include <xxhash.h>")
        self.expect_good({"common/base/bytes.cc":
                          HEAD + '#include "common/base/secret.h"\n#include <spdlog/spdlog.h>\n'})

    def test_an_exception_excuses_its_finding_and_nothing_else(self):
        atomic = [("server/index/index.cc", "an atomic", "a sample")]
        changes = self.index_cc("std::atomic<int> n;\n")
        self.assertEqual(self.findings(changes, atomic), [])
        changes = self.index_cc("std::atomic<int> n;\nstd::mutex m;\n")
        self.assertEqual([f.line for f in self.findings(changes, atomic)], [5])

    def test_an_exception_that_excuses_nothing_is_a_finding(self):
        found = self.findings({}, [("server/index/index.cc", "an atomic", "a sample")])
        self.assertEqual([f.check for f in found], ["exception"])

    def test_a_loop_over_an_unordered_container_fails(self):
        declared = "std::unordered_map<int, int> open_;\n"
        for loop in ("for (auto& [k, v] : open_) f(k);", "for (auto& e : this->open_) f(e);",
                     "auto it = open_.begin();"):
            with self.subTest(loop=loop):
                self.expect("unordered", "server/index/index.cc",
                            self.index_cc(declared + loop + "\n"))
        self.expect_allowed(declared + "auto it = open_.find(1);\nfor (auto& e : opened_) f(e);")

    def test_a_file_without_a_purpose_comment_fails(self):
        self.expect("purpose", "common/base/bytes.h", {"common/base/bytes.h": "#pragma once\n"})
        self.expect("purpose", "common/base/bytes.h", {
            "common/base/bytes.h": "// Bytes.\n//\n#pragma once\n// And many words after.\n"})
        self.expect("purpose", "tools/x.py", {"tools/x.py": "#!/usr/bin/env python3\nimport os\n"})
        self.expect("purpose", "cmake/x.cmake", {"cmake/x.cmake": "set(a b)\n"})
        words = "it says in a sentence what it is for"
        self.expect_good({"tools/x.py": f'#!/usr/bin/env python3\n"""X:\n{words}."""\n',
                          "cmake/x.cmake": f"# {words}.\nset(a b)\n",
                          "common/base/bytes.h": f"// Bytes.\n//\n// {words}.\n#pragma once\n"})

    def test_a_header_without_pragma_once_fails(self):
        self.expect("purpose", "common/base/bytes.h", {"common/base/bytes.h": HEAD})

    def test_a_source_without_its_mirror_test_fails(self):
        self.expect("mirror", "common/wire/wire.cc", {"common/wire/wire.cc": HEAD})
        self.expect("mirror", "tools/probe/probe.cc", {"tools/probe/probe.cc": HEAD})
        self.expect_good({"tools/probe/main.cc": HEAD})

    def test_marks_need_kind_and_reason(self):
        never, bare = "FIX" + "ME", "TO" + "DO"
        for body in (f"// {never}: later", f"// {bare}: later", f"// {bare}(me): later",
                     f"// {bare}(perf):"):
            with self.subTest(body=body):
                self.expect("marks", "server/index/index.cc", self.index_cc(body + "\n"))
        self.expect_allowed(f"// {bare}(perf): measure the probe length first")

    def test_a_dead_header_fails(self):
        self.expect("dead", "common/wire/old.h", {"common/wire/old.h": header()})

    def test_the_page_has_100_columns_no_tabs_and_no_trailing_space(self):
        for body in ("// " + "x" * 98, "int\tx;", "int x; "):
            with self.subTest(body=body):
                self.expect("page", "server/index/index.cc", self.index_cc(body + "\n"))
        self.expect_allowed("// " + "x" * 97, "// " + "─" * 97)

    def test_a_path_of_a_machine_fails(self):
        place = "/wo" + "rk/"
        self.expect("machine", "docs/x.md", {"docs/x.md": f"see {place}main\n"})
        self.expect_good({"docs/x.md": "push/work and a/work/b, https://host/working\n"})

    def test_functions_are_measured(self):
        body = "int f(int a, std::pair<int, int> b, int c) {\n  if (a) {\n  }\n  return 1;\n}\n"
        self.assertEqual(tidy.functions_of(tidy.strip(body)), [(1, 5, 3)])
        body = "namespace n {\nstruct S {\n  S() : a_{1} {}\n  void g() const { h(); }\n};\n}\n"
        self.assertEqual([f[1:] for f in tidy.functions_of(tidy.strip(body))], [(1, 0), (1, 0)])
        body = "const int a[] = {1, 2};\nenum class E { kA };\nvoid k();\n"
        self.assertEqual(tidy.functions_of(tidy.strip(body)), [])

    def test_stripping_keeps_lines_and_separators(self):
        self.assertEqual(tidy.strip('a("//");// b\nc'), 'a("  ");    \nc')
        self.assertEqual(tidy.strip("x = 1'000'000; // y"), "x = 1'000'000;     ")
        self.assertEqual(tidy.strip("/* a\nb */c").split("\n")[1], "    c")

    def test_the_program_says_what_it_found_and_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("import os\n")
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(tidy.main(["--root", folder, "--report"]), 1)
            self.assertIn("a.py:1: purpose:", out.getvalue())
            self.assertIn("tidy: 1 findings in 1 files", out.getvalue())


if __name__ == "__main__":
    unittest.main()
