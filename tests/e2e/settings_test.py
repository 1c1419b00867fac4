#!/usr/bin/env python3
"""Settings of the real varved: its command line, its file, and what it prints of them.

Usage: settings_test.py PATH_OF_VARVED. Every process ended here was started here.
"""
import os
import re
import signal
import subprocess
import sys
import unittest

import varved_test


class SettingsTest(unittest.TestCase):
    setUp = varved_test.VarvedTest.setUp
    tearDown = varved_test.VarvedTest.tearDown
    start = varved_test.VarvedTest.start
    refused = varved_test.VarvedTest.refused

    def test_bad_settings_all_at_once(self):
        text = self.refused(2, "--shards", "99", "--target-bytes", "1MiB", "--listen", "0.0.0.0:1")
        self.assertIn("--shards is 99", text)
        self.assertIn("--target-bytes is 1MiB", text)
        self.assertIn("--token-file", text)
        self.assertIn("did you mean --shards", self.refused(2, "--shard", "1"))
        self.assertIn("--i-am-testing", self.refused(2, "--fault-volatile-cache"))

    def print_config(self, *arguments):
        return subprocess.run([varved_test.VARVED, "--print-config", *arguments], text=True,
                              capture_output=True, timeout=10, check=True).stdout

    def test_what_cannot_be_printed_whole_is_no_success(self):
        for option in ("--print-config", "--help", "--version"):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([varved_test.VARVED, option], stdout=full, timeout=20,
                                      stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 3, option)
            self.assertIn("No space left on device", done.stderr)

    def test_print_config_says_where_values_come_from(self):
        text = self.print_config("--shards", "2")
        self.assertRegex(text, r"\nshards = 2 +# command line\n")
        self.assertRegex(text, r'\ntarget_bytes = "1GiB" +# default\n')
        self.assertRegex(text, r'\nscheme = "1\+0" +# default\n')
        self.assertRegex(text, r'\ndram_bytes = "(\d+MiB|1GiB)" +# derived from this machine\n')

    def settings_file(self, text):
        path = os.path.join(self.folder.name, "varved.toml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_a_file_of_settings_starts_it_and_the_command_line_wins(self):
        path = self.settings_file(
            f'[node]\ndata = "{self.data}"\nshards = 2\nlog_level = "debug"\n'
            '[session]\nlisten = "127.0.0.1:1"\n'
            '[tier]\ndram_bytes = "64MiB"\n'
            '[target]\ntargets = 2\ntarget_bytes = "400MiB"\nfree_floor_bytes = 0\n')
        daemon = varved_test.Daemon(self.data, "--config", path, "--shards", "1", small=False)
        self.daemons.append(daemon)
        self.assertEqual(daemon.wait_ready().ready.group(3, 4), ("2", "1"))
        self.assertIn("log debug", daemon.log())
        self.assertEqual(daemon.stop(), 0)
        text = self.print_config("--config", path, "--shards", "1")
        self.assertRegex(text, rf"\nshards = 1 +# command line, not {path}:3\n")
        self.assertRegex(text, rf"\ntargets = 2 +# {path}:10\n")
        self.assertIn(f"# target 0: {self.data}/target-0.dat, 400MiB as it is\n", text)

    def test_printed_settings_start_the_same_daemon(self):
        def values(text):
            return [re.sub(" +# .*", "", line) for line in text.split("\n")]

        given = ["--data", self.data, "--listen", "127.0.0.1:0", "--scheme", "1+1", "--shards", "1",
                 "--drain-ms", "2000", *varved_test.SMALL, *varved_test.off([])]
        text = self.print_config(*given)
        path = self.settings_file(text)
        self.assertEqual(values(self.print_config("--config", path)), values(text))
        process = subprocess.Popen([varved_test.VARVED, "--config", path], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, log)
        self.assertEqual(varved_test.READY.search(line).group(3, 4), ("2", "1"), log)
        self.assertIn("scheme 1+1", log)
        self.assertIn("drain 2000 ms", log)

    def test_what_is_wrong_with_file_and_command_line_comes_at_once(self):
        path = self.settings_file('[node]\nshard = 1\ndrain_ms = "1s"\n[session]\nsessions = 0\n')
        text = self.refused(2, "--config", path, "--drain-m", "1", "--shards=x", "--targets=99")
        for said in (f"{path}:2:1: [node] has no shard; did you mean shards?",
                     f"{path}:3:12: [node] drain_ms is a text; it must be a whole number (ms)",
                     f"{path}:5: sessions is 0; it must be 1 to 4096",
                     "--drain-m is no option: did you mean --drain-ms?",
                     '--shards: "x": it must be a whole number', "--targets is 99"):
            self.assertIn("varved: " + said, text)
        self.assertEqual(text.count("varved: "), 6, text)
        self.assertFalse(os.path.exists("varve-data"))

    def test_a_file_of_settings_that_is_none_is_refused_at_once(self):
        path = os.path.join(self.folder.name, "v.toml")
        self.assertIn(f"--config {path}: No such file", self.refused(2, "--config", path))
        os.mkfifo(path)
        self.assertIn("is no regular file", self.refused(2, "--config", path))
        self.assertIn("is a folder", self.refused(2, "--config", self.folder.name))
        self.assertIn("--config is empty", self.refused(2, "--config", ""))


if __name__ == "__main__":
    varved_test.VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
