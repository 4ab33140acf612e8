#!/usr/bin/env python3
"""Checks what a reader of any folder may rely on: a README, and no unfinished business.

Fails on a marker of unfinished work in product code and on a folder without a README. Long files
are listed, and fail nothing: each is a place to look."""

import os
import pathlib
import re
import sys

import lint

LONG_FILE_LINES = 450
# Written in halves, so that this file does not match itself.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
README_FOLDERS = ("src", "transports", "collectives", "tests", "include/lamppost/device")


def folders_without_readme(root: pathlib.Path) -> list:
    """Folders of README_FOLDERS, at any depth, that hold files and no README.md."""
    findings = []
    for top in README_FOLDERS:
        for directory, names, files in os.walk(root / top):
            names[:] = sorted(n for n in names if not n.startswith((".", "__pycache__")))
            if files and "README.md" not in files:
                path = lint.relative(root, pathlib.Path(directory))
                findings.append(lint.Finding(path, 0, "folder without a README.md"))
    return findings


def long_files(root: pathlib.Path) -> list:
    """Files above LONG_FILE_LINES, tests included: each is a place to look."""
    counted = [(lint.relative(root, file), file.read_text(encoding="utf-8").count("\n"))
               for file in lint.source_files(root, lint.PRODUCT_FOLDERS + ("tests", "examples"))]
    return [f"long: {path} ({lines} lines)" for path, lines in counted if lines > LONG_FILE_LINES]


def check(root: pathlib.Path) -> list:
    findings = folders_without_readme(root)
    for file in lint.source_files(root, lint.PRODUCT_FOLDERS + ("examples",)):
        path = lint.relative(root, file)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for word in UNFINISHED.findall(line):
                findings.append(lint.Finding(path, number, f"unfinished: {word}"))
    return findings


def self_test(test: lint.SelfTest) -> None:
    readme = {f"{folder}/README.md": "" for folder in README_FOLDERS}
    clean = {**readme, "src/base/README.md": "", "src/base/a.cc": "// METODO, XXXL\n",
             "src/base/long.cc": "\n" * (LONG_FILE_LINES + 1)}
    with lint.planted(clean) as root:
        test.expect("the clean tree, long file included", check(root))
        test.expect("the long file", long_files(root), "src/base/long.cc (451 lines)")
    for word in ("TO" "DO", "FIX" "ME", "XX" "X"):
        with lint.planted({**clean, "src/base/a.cc": f"\n// {word}: later\n"}) as root:
            test.expect(word, check(root), f"src/base/a.cc:2: unfinished: {word}")
    for folder in ("transports/shm", "src/tools/bench", "tests/unit", "include/lamppost/device"):
        files = {**clean, f"{folder}/a.hpp": ""}
        files.pop(f"{folder}/README.md", None)
        with lint.planted(files) as root:
            test.expect(f"{folder} without README", check(root), f"{folder}: folder without")


if __name__ == "__main__":
    sys.exit(lint.main(__doc__.splitlines()[0], check, self_test, notes=long_files))
