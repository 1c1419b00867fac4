#!/usr/bin/env python3
"""Writes a product file with the fault planted that a section of mutants.txt describes.

  mutate.py MUTANTS NAME ROOT OUT

Fails when a change does not fit any more: then the mutant is mended with the product.
"""
import pathlib
import re
import sys


def section(text, name):
    found = re.search(rf"^\[{re.escape(name)}\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S)
    if not found:
        sys.exit(f"mutate: there is no mutant {name}")
    return found.group(1).splitlines()


def changes(lines):
    """(old, new) texts, each of whole lines."""
    pairs, state = [], ""
    for line in lines:
        sign = line[:1] if line[:1] in ("-", "+") else ""
        if sign == "-" and state != "-":
            pairs.append(("", ""))
        if sign:
            old, new = pairs[-1]
            text = line[1:] + "\n"
            pairs[-1] = (old + text, new) if sign == "-" else (old, new + text)
        state = sign
    return pairs


def main():
    mutants, name, root, out = sys.argv[1:]
    lines = section(pathlib.Path(mutants).read_text(), name)
    path = next(line.split()[1] for line in lines if line.startswith("file "))
    text = pathlib.Path(root, path).read_text()
    for old, new in changes(lines):
        if text.count(old) != 1:
            times = text.count(old)
            sys.exit(f"mutate: {name} does not fit {path} any more (found {times} times):\n{old}")
        text = text.replace(old, new)
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(out).write_text(text)


main()
