#!/usr/bin/env python3
"""Varve as somebody else gets it: installed, linked, run.

Usage: install_test.py BUILD_FOLDER PATH_OF_CPP_EXAMPLE. Installs into a prefix of its own, looks at
what the library exports, builds examples/push_pull.c against it with pkg-config and by
find_package, and runs the examples and kvctl against the varved that was installed, on free ports.
"""
import ctypes
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import varved_test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = CPP_EXAMPLE = None
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def run(*command, **more):
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, **more)
    assert result.returncode == 0, (command, result.stdout, result.stderr)
    return result.stdout


def declared():
    """The functions that the header promises."""
    with open(os.path.join(ROOT, "client", "varve_c.h"), encoding="ascii") as f:
        return set(re.findall(r"VARVE_API\s[\w\s*]*?\b(varve_\w+)\(", f.read()))


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = os.path.join(cls.folder.name, "prefix")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        found = glob.glob(cls.prefix + "/**/pkgconfig/varve.pc", recursive=True)
        assert len(found) == 1, found
        cls.lib = os.path.dirname(os.path.dirname(found[0]))
        cls.env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(found[0]),
                       LD_LIBRARY_PATH=cls.lib)
        cls.source = os.path.join(ROOT, "examples", "push_pull.c")
        varved_test.VARVED = cls.program("varved")
        cls.daemon = varved_test.Daemon(os.path.join(cls.folder.name, "data"), "--control",
                                        "127.0.0.1:0").wait_ready()
        cls.address = ":".join(cls.daemon.ready.group(1, 2))

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        cls.folder.cleanup()

    @classmethod
    def program(cls, name):
        return os.path.join(cls.prefix, "bin", name)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def expect_push_and_pull(self, program, **more):
        said = run(program, self.address, **more)
        self.assertRegex(said, r"pushed 4 .*\n.*pulled 4 of 4 hits.* 1048576 bytes")

    def read(self, *names):
        with open(os.path.join(self.prefix, *names), encoding="utf-8") as f:
            return f.read()

    def test_the_programs_are_there_and_run(self):
        for name in ("varved", "kvctl"):
            self.assertRegex(run(self.program(name), "--version"), rf"^{name} \d+\.\d+")
        for name in ("varved", "kvctl", "kvbench"):
            self.assertIn("--help", run(self.program(name), "--help"))
        self.assertTrue(self.daemon.wait_log("control plane on"), self.daemon.log())
        control = re.search(r"control plane on ([0-9.:]+)", self.daemon.log()).group(1)
        said = ""
        for _ in range(100):  # what a node says of itself is a second old
            said = run(self.program("kvctl"), "--control", control, "--json", "status")
            if '"state": "NODE_STATE_SERVING"' in said:
                return
            time.sleep(0.1)
        self.fail(said)

    def test_the_unit_names_what_was_installed(self):
        unit = self.read("lib", "systemd", "system", "varved.service")
        self.assertIn(f"\nExecStart={self.program('varved')} --config /etc/varve/", unit)
        manual = re.search(r"\nDocumentation=file://(.*)\n", unit).group(1)
        self.assertEqual(manual, os.path.join(self.prefix, "share/doc/varve/OPERATIONS.md"))
        self.assertTrue(os.path.exists(manual))
        source = os.path.join(ROOT, "deploy", "systemd", "varved.service")
        with open(source, encoding="utf-8") as f:
            self.assertEqual(unit.replace(self.prefix, "/usr"), f.read())

    def test_a_folder_that_is_not_below_the_prefix_is_refused_by_name(self):
        script = os.path.join(ROOT, "cmake", "relative.cmake")
        run("cmake", "-DCMAKE_INSTALL_BINDIR=bin", "-DCMAKE_INSTALL_LIBDIR=lib/any", "-P", script)
        for folder in ("BINDIR", "LIBDIR", "INCLUDEDIR", "DATADIR"):
            result = subprocess.run(["cmake", f"-DCMAKE_INSTALL_{folder}=/opt/x", "-P", script],
                                    capture_output=True, text=True, timeout=60)
            self.assertNotEqual(result.returncode, 0)
            said = " ".join(result.stderr.split())
            self.assertIn(f"CMAKE_INSTALL_{folder} is an absolute path, /opt/x", said)
            self.assertIn("--prefix", said)

    def test_settings_dashboard_and_license(self):
        shown = run(self.program("varved"), "--print-config", "--config",
                    os.path.join(self.prefix, "share", "varve", "varved.toml"))
        self.assertIn('data = "/var/lib/varve"', shown)
        self.assertIn("varve_degraded", self.read("share", "varve", "varve.json"))
        self.assertIn("alert: VarveDown", self.read("share", "varve", "varve.rules.yml"))
        self.assertIn("Apache License", self.read("share", "doc", "varve", "LICENSE"))

    def test_the_messages_of_the_control_plane_compile(self):
        root = os.path.join(self.prefix, "share", "varve", "proto")
        out = self.path("control.bin")
        run("protoc", "-I", root, "--descriptor_set_out=" + out, "varve/v1/control.proto")
        with open(out, "rb") as f:
            self.assertIn(b"GetStatusRequest", f.read())

    def test_what_is_installed_without_symbols_runs(self):
        prefix = self.path("stripped")
        run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "programs", "--strip")
        program = os.path.join(prefix, "bin", "kvctl")
        self.assertLess(os.path.getsize(program), os.path.getsize(self.program("kvctl")) / 2)
        self.assertIn("--help", run(program, "--help"))

    def test_the_shells_get_what_kvctl_says(self):
        for shell, path in (("bash", "bash-completion/completions/kvctl"),
                            ("zsh", "zsh/site-functions/_kvctl"),
                            ("fish", "fish/vendor_completions.d/kvctl.fish")):
            self.assertEqual(self.read("share", path),
                             run(self.program("kvctl"), "completion", shell))

    def test_the_library_can_be_had_alone(self):
        prefix = self.path("library")
        run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "library")
        names = {name for _, _, names in os.walk(prefix) for name in names}
        self.assertLessEqual({"libvarve.so", "varve_c.h", "varve.pc"}, names)
        self.assertFalse(names & {"varved", "kvctl", "varved.service", "LICENSE"})

    def test_it_exports_what_the_header_declares_and_nothing_else(self):
        library = os.path.join(self.lib, "libvarve.so")
        rows = run("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines()
        names = {row.split()[-1] for row in rows}
        self.assertEqual(names - {"VARVE_0"}, {name + "@@VARVE_0" for name in declared()})
        self.assertGreater(len(declared()), 30)
        dynamic = run("readelf", "-d", library)
        self.assertRegex(dynamic, r"SONAME.*\[libvarve\.so\.0\]")
        self.assertIn("NODELETE", dynamic)  # a lookup may outlive its client

    def test_python_uses_it_without_a_compiler(self):
        library = ctypes.CDLL(os.path.join(self.lib, "libvarve.so"))
        library.varve_version.restype = library.varve_last_error.restype = ctypes.c_char_p
        library.varve_capabilities.restype = ctypes.c_uint64
        self.assertRegex(library.varve_version().decode(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(library.varve_capabilities() & 21, 21)  # match, pull, push
        options = ctypes.create_string_buffer(896)  # sizeof(varve_options)
        struct.pack_into("=I", options, 0, len(options))
        client = ctypes.c_void_p()
        self.assertEqual(library.varve_options_set(options, b"address", b"varve test:1"), 0)
        self.assertEqual(library.varve_open(options, ctypes.byref(client)), 1)
        self.assertIn(b"neither an address nor a name", library.varve_last_error())
        self.assertEqual(library.varve_options_set(options, b"address", self.address.encode()), 0)
        self.assertEqual(library.varve_open(options, ctypes.byref(client)), 0)
        self.assertEqual(library.varve_wait_ready(client, ctypes.c_uint64(20 * 10**9)), 0)
        self.assertEqual(library.varve_close(client), 0)
        self.assertEqual(library.varve_wait_ready(client, ctypes.c_uint64(0)), 68)  # VARVE_CLOSED
        library.varve_free(client)

    def test_the_header_is_c11_and_cpp(self):
        header = glob.glob(self.prefix + "/**/varve_c.h", recursive=True)[0]
        program = self.path("header_test.c")
        with open(program, "w", encoding="ascii") as f:
            f.write(f'#include "{header}"\n#include "{header}"\n'
                    "int main(void) { varve_options o; VARVE_INIT(&o); return (int)o.reserved; }\n")
        compilers = [("cc", "c", "c11"), ("cc", "c", "c17"), ("c++", "c++", "c++11"),
                     ("c++", "c++", "c++20"), ("clang", "c", "c11"), ("clang++", "c++", "c++17")]
        tried = 0
        for compiler, language, standard in compilers:
            if shutil.which(compiler):
                run(compiler, "-x", language, "-std=" + standard, *STRICT, "-fsyntax-only", program)
                tried += 1
        self.assertGreaterEqual(tried, 3)

    def test_an_example_by_pkg_config(self):
        flags = run("pkg-config", "--cflags", "--libs", "varve", env=self.env).split()
        self.assertIn("-lvarve", flags)
        program = self.path("by_pkg_config")
        run("cc", "-std=c11", *STRICT, self.source, "-o", program, *flags)
        self.expect_push_and_pull(program, env=self.env)

    def test_an_example_by_find_package(self):
        build = self.path("by_cmake")
        run("cmake", "-S", os.path.join(ROOT, "examples"), "-B", build,
            "-DCMAKE_PREFIX_PATH=" + self.prefix)
        run("cmake", "--build", build)
        self.expect_push_and_pull(os.path.join(build, "push_pull"), env=self.env)
        # Expect: a version that is not there is refused by the package itself.
        wrong = self.path("wrong")
        os.mkdir(wrong)
        with open(os.path.join(wrong, "CMakeLists.txt"), "w", encoding="ascii") as f:
            f.write("cmake_minimum_required(VERSION 3.13)\nproject(wrong LANGUAGES C)\n"
                    "find_package(Varve 9.0 REQUIRED)\n")
        result = subprocess.run(["cmake", "-S", wrong, "-B", wrong + "/build",
                                 "-DCMAKE_PREFIX_PATH=" + self.prefix], capture_output=True,
                                text=True, timeout=100)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("9.0", result.stderr)

    def readme(self, language, before, after, name):
        """The README's block of a language, made a whole file."""
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
            blocks = re.findall(rf"```{language}\n(.*?)```", f.read(), re.DOTALL)
        self.assertEqual(len(blocks), 1)
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(before + blocks[0] + after)
        return self.path(name)

    def test_what_the_readme_shows_compiles(self):
        cpp = self.readme("cpp", """#include "client/varve.h"
            using namespace varve;
            void shown(Format shape, std::vector<uint32_t> tokens, std::vector<uint32_t> from,
                       std::vector<uint32_t> to, Layout layout);
            void shown(Format shape, std::vector<uint32_t> tokens, std::vector<uint32_t> from,
                       std::vector<uint32_t> to, Layout layout) {
            """, "(void)here; }", "readme.cc")
        run("c++", "-std=c++20", "-Wall", "-Werror", "-Wno-unused-result", "-fsyntax-only", "-I",
            ROOT, cpp)  # it leaves errors out, as it says
        # That of C is linked and run, where two blocks of two layers lie in memory of no region.
        c = self.readme("c", """#include <stdio.h>
            #include <stdlib.h>
            #include <varve/varve_c.h>
            #define SECOND 1000000000ull
            enum { RUN = 16, BLOCKS = 2, LAYERS = 2, BYTES = 5000 };
            static char kv[2][BLOCKS * LAYERS][BYTES];
            static varve_completion shown(const varve_options* options, varve_format_desc shape,
                                          const uint32_t* prompt, size_t length,
                                          const varve_buffer* from, const varve_buffer* to) {
              varve_client* client;
              varve_format format;
              varve_id ids[BLOCKS];
              size_t n;
              varve_op op;
              varve_completion done = {.struct_size = sizeof done};
            """, """return done; }
            int main(int argc, char** argv) {
              varve_options options = {.struct_size = sizeof options};
              if (argc < 2 || varve_options_set(&options, "address", argv[1])) return 1;
              varve_layer layers[LAYERS] = {{VARVE_LAYER_FULL, BYTES}, {VARVE_LAYER_FULL, BYTES}};
              varve_rank rank = {layers, LAYERS, 0};
              varve_format_desc shape = {.struct_size = sizeof shape, .type = VARVE_TYPE_BF16,
                                         .order = VARVE_ORDER_NHD, .tokens_per_block = RUN,
                                         .model = {43}, .lineage = "readme", .ranks = &rank,
                                         .rank_count = 1};
              uint32_t prompt[RUN * BLOCKS] = {7};
              varve_buffer from[BLOCKS * LAYERS], to[BLOCKS * LAYERS];
              for (int i = 0; i < BLOCKS * LAYERS; ++i) {
                memset(kv[0][i], 'a' + i, BYTES);
                from[i] = (varve_buffer){kv[0][i], BYTES};
                to[i] = (varve_buffer){kv[1][i], BYTES};
              }
              varve_completion done = shown(&options, shape, prompt, RUN * BLOCKS, from, to);
              printf("%u blocks, %s\\n", done.ok_count,
                     memcmp(kv[0], kv[1], sizeof kv[0]) == 0 ? "equal" : "other");
              return 0;
            }""", "readme.c")
        flags = run("pkg-config", "--cflags", "--libs", "varve", env=self.env).split()
        run("cc", "-std=c11", *STRICT, c, "-o", self.path("readme"), *flags)
        self.assertEqual(run(self.path("readme"), self.address, env=self.env), "2 blocks, equal\n")

    def test_the_example_in_cpp_in_the_tree(self):
        self.expect_push_and_pull(CPP_EXAMPLE)

    def test_without_a_daemon_an_example_says_so(self):
        result = subprocess.run([CPP_EXAMPLE, "127.0.0.1:1"], capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is varved running?", result.stderr)


if __name__ == "__main__":
    CPP_EXAMPLE = os.path.abspath(sys.argv.pop(2))
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
