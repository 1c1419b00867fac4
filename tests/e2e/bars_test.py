#!/usr/bin/env python3
"""`kvbench bars --quick`, one round: each bar has a value.

Usage: bars_test.py PATH_OF_KVBENCH. It holds no bar to its target, and no time: on a machine that
does something else neither means anything. A bar may be refused only for what a machine may lack.
The bars that are left out take longer than the others together; their code is that of
`ec_flash_bytes` (a coded daemon) and of `tcp_dram_pull` (pulls).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

KVBENCH = ""
BARS = ("tcp_dram_pull", "server_cpu", "first_layer", "flash_pull", "match", "match_wire",
        "match_wire_tail", "cancel_fenced", "recovery", "ec_encode_4+2", "ec_fused_4+2",
        "ec_decode_4+2", "index_bytes_per_fragment", "ec_flash_bytes")
MAY_LACK = re.compile(r"O_DIRECT|memory|no_space")


class Bars(unittest.TestCase):
    def test_each_has_a_value(self):
        # Beside the program: file systems in memory may refuse O_DIRECT.
        folder = tempfile.mkdtemp(prefix="bars-", dir=os.path.dirname(KVBENCH))
        try:
            command = [KVBENCH, "bars", *BARS, "--quick", "--rounds", "1", "--dir", folder]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            left = os.listdir(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        lines = {}
        for line in done.stdout.splitlines():
            words = line.split(" ", 2)
            if words[0] in ("bar", "fact", "refused"):
                self.assertNotIn(words[1], lines)
                lines[words[1]] = words
        self.assertEqual(sorted(lines), sorted(BARS), done.stdout + done.stderr)
        for name, words in lines.items():
            with self.subTest(name):
                if words[0] == "refused":
                    self.assertRegex(words[2], MAY_LACK)
                else:
                    self.assertGreater(float(words[2].split()[0]), 0)
        refused = any(words[0] == "refused" for words in lines.values())
        self.assertEqual(done.returncode, 1 if refused else 0, done.stderr)
        self.assertEqual(left, [])


if __name__ == "__main__":
    KVBENCH = os.path.abspath(sys.argv.pop(1))
    unittest.main()
