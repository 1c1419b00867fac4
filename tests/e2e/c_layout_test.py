#!/usr/bin/env python3
"""The C door as callers were compiled with it: where each field of each struct lies, which
functions there are.

Usage: c_layout_test.py [CC]. What the compiler says of client/varve_c.h is compared with
tests/vectors/c_abi_0.txt: a field that is new is a new line there and a larger struct; no other
line changes.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADER = os.path.join(ROOT, "client", "varve_c.h")
MAP = os.path.join(ROOT, "client", "varve_c.map")
VECTOR = os.path.join(ROOT, "tests", "vectors", "c_abi_0.txt")
CC = "cc"


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def structs_of(header):
    """(struct, [fields]) in their order."""
    text = re.sub(r"//[^\n]*", "", header)
    out = []
    for name, body in re.findall(r"typedef struct (varve_\w+) {(.*?)\n?}", text, re.DOTALL):
        fields = [re.sub(r"\[.*?\]", "", declarator).split()[-1].lstrip("*")
                  for line in body.split(";") if line.strip() for declarator in line.split(",")]
        out.append((name, fields))
    return out


def declared(header):
    return re.findall(r"VARVE_API\s[\w\s*]*?\b(varve_\w+)\(", header)


def layout():
    lines = [f'  printf("{name} %zu\\n", sizeof({name}));\n' +
             "".join(f'  printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                     f"sizeof((({name}*)0)->{field}));\n" for field in fields)
             for name, fields in structs_of(read(HEADER))]
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w", encoding="ascii") as f:
            f.write(f'#include "{HEADER}"\n#include <stddef.h>\n#include <stdio.h>\n'
                    "int main(void) {\n" + "".join(lines) + "  return 0;\n}\n")
        subprocess.run([CC, "-std=c11", source, "-o", program], check=True, timeout=60)
        return subprocess.run([program], check=True, timeout=60, capture_output=True,
                              text=True).stdout


class CLayoutTest(unittest.TestCase):
    def test_fields_lie_where_they_lay(self):
        said = layout()
        self.assertTrue(said == read(VECTOR),
                        f"client/varve_c.h does not lie as in {VECTOR}; it has\n{said}")

    def test_all_of_the_header_is_looked_at(self):
        text = re.sub(r"//[^\n]*", "", read(HEADER))
        names = [name for name, _ in structs_of(read(HEADER))]
        self.assertEqual(len(names), len(re.findall(r"typedef struct \w+ {", text)))
        self.assertGreater(sum(len(fields) for _, fields in structs_of(read(HEADER))), 150)

    def test_each_function_is_exported_by_name(self):
        header = read(HEADER)
        named = re.findall(r"^    (varve_\w+);$", read(MAP), re.MULTILINE)
        self.assertEqual(sorted(named), sorted(declared(header)))
        self.assertEqual(len(named), len(set(named)))
        self.assertNotIn("*;", read(MAP).split("local:")[0])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        CC = sys.argv.pop(1)
    unittest.main()
