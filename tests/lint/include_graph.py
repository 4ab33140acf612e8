#!/usr/bin/env python3
"""Checks every #include of the project against the table in src/README.md.

Rules: a folder includes only what its row names; project includes are written from a root
(include/, src/, the repository's root for collectives/ and transports/, and in tests their own
folder), never with ../; every project include exists; quotes are for project files only; the device headers need nothing
but standard headers (their cuda and hip targets also the vendor's); the table has no cycle."""

import pathlib
import re
import sys

import lint

SCANNED = lint.PRODUCT_FOLDERS + ("tests", "examples")
ROOT_FOLDERS = ("collectives", "transports")  # written from the repository's root
VENDOR_HEADERS_ALLOWED = ("include/lamppost/device/cuda.hpp", "include/lamppost/device/hip.hpp")
EVERYTHING = "everything"

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include(?:_next)?[ \t]*(?:<([^>\n]+)>|"([^"\n]+)"|([^\n]*))',
                      re.MULTILINE)
_TABLE = re.compile(r"^```include-graph\n(.*?)^```", re.MULTILINE | re.DOTALL)
_C_STANDARD = {"assert.h", "ctype.h", "errno.h", "float.h", "inttypes.h", "limits.h", "math.h",
               "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"}


class Table(dict):
    """folder -> names it may include: folders, EVERYTHING, or single files (with a slash)."""


def read_table(root: pathlib.Path) -> tuple[Table, list]:
    """The fenced table of src/README.md and what is wrong with it."""
    readme = root / "src/README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    match = _TABLE.search(text)
    if not match:
        return Table(), [lint.Finding("src/README.md", 0, "has no ```include-graph table")]
    table, findings = Table(), []
    first_line = text[: match.start(1)].count("\n") + 1
    for number, line in enumerate(match.group(1).splitlines(), first_line):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        folder, colon, names = line.partition(":")
        if not colon or folder.strip() in table:
            findings.append(lint.Finding("src/README.md", number, f"bad or second row: {line}"))
            continue
        table[folder.strip()] = [name.strip() for name in names.split(",") if name.strip()]
    for folder, names in table.items():
        for name in names:
            if "/" not in name and name != EVERYTHING and name not in table:
                findings.append(
                    lint.Finding("src/README.md", 0, f"{folder} may include {name}: no such row"))
    return table, findings + cycles(table)


def cycles(table: Table) -> list:
    """One finding for each cycle that a depth-first walk of the table closes."""
    findings, done = [], set()

    def visit(folder: str, path: tuple) -> None:
        if folder in path:
            loop = path[path.index(folder):] + (folder,)
            findings.append(lint.Finding("src/README.md", 0, "cycle: " + " -> ".join(loop)))
        elif folder not in done:
            names = table.get(folder, [])
            if EVERYTHING in names:
                names = [name for name in table if name != folder]
            for name in names:
                if "/" not in name:
                    visit(name, path + (folder,))
            done.add(folder)

    for folder in table:
        visit(folder, ())
    return findings


def folder_of(path: str) -> str:
    """The row that a file (relative path) belongs to."""
    parts = path.split("/")
    if path.startswith("include/lamppost/device/"):
        return "device"
    if parts[0] == "include":
        return "public"
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


def resolve(root: pathlib.Path, includer: str, name: str) -> tuple[bool, str]:
    """(does `name` speak of the project, the file it means or "" if there is none)."""
    first = name.split("/")[0]
    bases = ["include", "src"]
    if first in ROOT_FOLDERS:
        bases = ["."]
    if folder_of(includer) == "tests":
        bases.append("tests")
    for base in bases:
        if (root / base / name).is_file():
            return True, name if base == "." else f"{base}/{name}"
    is_source_folder = "/" in name and (root / "src" / first).is_dir()
    return first == "lamppost" or first in ROOT_FOLDERS or is_source_folder, ""


def is_standard(name: str) -> bool:
    return ("/" not in name and "." not in name) or name in _C_STANDARD


def check_include(root: pathlib.Path, table: Table, path: str, angle: str, quoted: str) -> str:
    """What is wrong with one include of the file `path`; "" if nothing is."""
    name = angle or quoted
    if not name:
        return "an include must name its file"
    if name.startswith(("./", "/")) or ".." in name.split("/"):
        return f"{name}: write it from a root (include/, src/, collectives/, transports/)"
    folder = folder_of(path)
    ours, target = resolve(root, path, name)
    if quoted and not ours:
        return f'"{name}": no such project file (other libraries go in <>; paths start at a root)'
    if ours and not target:
        return f"{name}: no such file"
    if not ours:
        if folder == "device" and path not in VENDOR_HEADERS_ALLOWED and not is_standard(name):
            return f"<{name}>: device headers use standard headers only"
        return ""
    allowed = table.get(folder, [])
    to = folder_of(target)
    if to == folder or to in allowed or name in allowed or EVERYTHING in allowed:
        return ""
    return f"{folder} may not include {to} ({name}); its row: {', '.join(allowed) or 'nothing'}"


def check(root: pathlib.Path) -> list:
    table, findings = read_table(root)
    for file in lint.source_files(root, SCANNED):
        path = lint.relative(root, file)
        if folder_of(path) not in table:
            findings.append(lint.Finding(path, 0, f"src/README.md has no row {folder_of(path)}"))
            continue
        text = lint.strip(file.read_text(encoding="utf-8"), keep_strings=True)
        for match in _INCLUDE.finditer(text):
            wrong = check_include(root, table, path, match.group(1) or "", match.group(2) or "")
            if wrong:
                line = text.count("\n", 0, match.start()) + 1
                findings.append(lint.Finding(path, line, wrong))
    return findings


def self_test(test: lint.SelfTest) -> None:
    table = ("text\n```include-graph\n# a comment\npublic:\ndevice: lamppost/lamppost.h\n"
             "base: public\ndriver: base, public\ncollectives: device\ntests: everything\n```\n")
    clean = {
        "src/README.md": table,
        "include/lamppost/lamppost.h": "#include <stdint.h>\n",
        "include/lamppost/status.hpp": "#include <lamppost/lamppost.h>\n#include <string>\n",
        "include/lamppost/device/pack.hpp": "#include <lamppost/lamppost.h>\n#include <cstdint>\n",
        "include/lamppost/device/cuda.hpp": "#include <cuda_bf16.h>\n",
        "src/base/log.hpp": '// #include "driver/none.hpp"\n#include <fmt/format.h>\n',
        "src/driver/driver.hpp": '#include "base/log.hpp"\n  #  include <lamppost/status.hpp>\n',
        "collectives/kernels.def": "",
        "collectives/entry_host.cc": '#include "collectives/kernels.def"\n',
        "tests/support/a.hpp": "",
        "tests/unit/log_test.cc":
            '#include "base/log.hpp"\n#include "support/a.hpp"\n#include <gtest/gtest.h>\n',
    }

    def case(what: str, changed: dict, *needles: str) -> None:
        with lint.planted({**clean, **changed}) as root:
            test.expect(what, check(root), *needles)

    case("the clean tree", {})
    case("a folder that is not in the row", {"src/base/a.cc": '#include "driver/driver.hpp"\n'},
         "base may not include driver")
    case("an include after a block comment", {"src/base/a.cc": '/*\n*/ #include "driver/driver.hpp"'},
         "src/base/a.cc:2")
    case("../", {"src/driver/a.cc": '#include "../base/log.hpp"\n'}, "from a root")
    case("beside the includer, not from a root", {"src/driver/a.cc": '#include "driver.hpp"\n'},
         "no such project file")
    case("a missing file", {"src/driver/a.cc": '#include "base/gone.hpp"\n'}, "no such file")
    case("a missing public header", {"src/driver/a.cc": "#include <lamppost/gone.hpp>\n"},
         "no such file")
    case("another library in quotes", {"src/driver/a.cc": '#include "fmt/format.h"\n'},
         "other libraries")
    case("a library in a device header", {"include/lamppost/device/a.hpp": "#include <fmt/core.h>\n"},
         "standard headers only")
    case("a vendor header in the host target",
         {"include/lamppost/device/host.hpp": "#include <cuda_bf16.h>\n"}, "standard headers only")
    case("device includes public C++",
         {"include/lamppost/device/a.hpp": "#include <lamppost/status.hpp>\n"},
         "device may not include public")
    case("product includes tests", {"src/driver/a.cc": '#include "support/a.hpp"\n'},
         "no such project file")
    case("a missing kernel file", {"collectives/a.cc": '#include "collectives/b.hpp"\n'},
         "no such file")
    case("a computed include", {"src/driver/a.cc": "#include KERNELS\n"}, "must name its file")
    case("a folder without a row", {"src/extra/a.cc": "\n"}, "no row extra")
    case("a cycle in the table",
         {"src/README.md": table.replace("base: public", "base: public, driver")}, "cycle: ")
    case("a row that names nothing",
         {"src/README.md": table.replace("base: public", "base: public, bass")}, "no such row")
    case("a second row", {"src/README.md": table.replace("tests:", "base:\ntests:")},
         "bad or second row")
    with lint.planted({"src/README.md": "nothing\n"}) as root:
        test.expect("no table", check(root), "has no")


if __name__ == "__main__":
    sys.exit(lint.main(__doc__.splitlines()[0], check, self_test))
