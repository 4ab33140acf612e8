#!/usr/bin/env python3
"""Checks the PTX text of all kernels: what the protocols need of the generated code.

- The kernels are those of kernels.def.
- Before `griddepcontrol.wait` (chips from sm_90 on) a kernel reads its arguments only.
- Payload travels by 16-byte relaxed system-scope accesses, and the blocks are counted out by an
  acquire-release atomic. Nothing is published by an access narrower than 32 bits, of unknown order, or by multicast.
- No bare `mul.f32` or `add.f32`, which the assembler might contract: the numerics contract says
  where one rounding happens.
- A kernel that polls reads the clock, %globaltimer: its waits are bounded.
- No access through a generic address.
"""

import argparse
import pathlib
import re
import sys

ENTRY = re.compile(r"^\.visible \.entry (\w+)\(", re.MULTILINE)
TARGET = re.compile(r"^\.target sm_(\d+)", re.MULTILINE)
KERNEL_LINE = re.compile(r"^LAMPPOST_\w+\((\w+)", re.MULTILINE)
MEMORY = re.compile(r"\s(?:ld|st|atom|red)\.(?!param)|\s(?:bar|shfl)\.")

FORBIDDEN = [
    (r"\b(?:ld|st)\.volatile\b", "a volatile access has no place in the memory model"),
    (r"\b(?:st|ld)\.(?:relaxed|release|acquire)\.\w+\.global\.(?:v\d\.)?[bus](?:8|16)\b",
     "an ordered access narrower than 32 bits"),
    (r"\b(?:mul|add|sub)\.(?:ftz\.)?f32\b", "arithmetic that may be contracted"),
    (r"\bmultimem\b", "multicast in a kernel that is not a multicast kernel"),
    (r"\b(?:ld|st)\.(?:u|b|s|v)\w+\s", "an access through a generic address"),
]
ALL_REDUCE_NEEDS = [
    "st.relaxed.sys.global.v4.u32", "ld.relaxed.sys.global.v4.u32", "atom.acq_rel.gpu.global.add.u64",
    "%globaltimer",
]
SELF_TEST_NEEDS = [
    "st.release.sys.global.u32", "ld.acquire.sys.global.u32", "atom.acq_rel.gpu.global.add.u64",
    "%globaltimer",
]
# By the longest prefix of a kernel's name.
NEEDS = {
    "all_reduce": ALL_REDUCE_NEEDS,
    "": SELF_TEST_NEEDS,
    "probe_empty": [],
    "probe_timestamp": ["%globaltimer", "st.relaxed.sys.global.u64"],
    "probe_one_way": SELF_TEST_NEEDS + ["st.relaxed.sys.global.v4.u32", "ld.relaxed.sys.global.v4.u32"],
    "probe_push": ["st.relaxed.sys.global.v4.u32"],
}


def needs_of(name: str) -> list[str]:
    return NEEDS[max((prefix for prefix in NEEDS if name.startswith(prefix)), key=len)]


def problems(text: str, expected: list[str]) -> list[str]:
    found = []
    target = TARGET.search(text)
    if target is None:
        return ["no .target line: not a PTX file"]
    has_early_launch = int(target.group(1)) >= 90
    bodies = {}
    starts = list(ENTRY.finditer(text))
    for i, start in enumerate(starts):
        end = starts[i + 1].start() if i + 1 < len(starts) else len(text)
        bodies[start.group(1)] = text[start.start():end]
    for name in sorted(set(expected) ^ set(bodies)):
        found.append(f"{name}: {'not built' if name in expected else 'not in kernels.def'}")
    for name, body in bodies.items():
        if has_early_launch:
            before, wait, _ = body.partition("griddepcontrol.wait")
            if not wait:
                found.append(f"{name}: no griddepcontrol.wait")
            elif access := MEMORY.search(before):
                found.append(f"{name}: `{access.group(0).strip()}...` before griddepcontrol.wait")
        for pattern, why in FORBIDDEN:
            if match := re.search(pattern, body):
                found.append(f"{name}: `{match.group(0).strip()}`: {why}")
        for needed in needs_of(name):
            if needed not in body:
                found.append(f"{name}: no `{needed}`")
    return found


def not_copied(text: str, original: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith("LAMPPOST_")]
    return [f"not a line of the list of all kernels: {line}" for line in lines
            if line not in original.splitlines()]


GOOD = """
.target sm_90a
.visible .entry all_reduce_x(
	ld.param.u64 %rd1, [p];
	griddepcontrol.wait;
	ld.relaxed.sys.global.v4.u32 {a}, [%rd1];
	mov.u64 %rd2, %globaltimer;
	st.relaxed.sys.global.v4.u32 [%rd1], {a};
	add.rn.f32 %f1, %f2, %f3;
	atom.acq_rel.gpu.global.add.u64 %rd3, [%rd1], %rd2;
"""


def self_test() -> list[str]:
    failures = []
    if problems(GOOD, ["all_reduce_x"]):
        failures.append(f"the good text has problems: {problems(GOOD, ['all_reduce_x'])}")
    planted = {
        "before griddepcontrol.wait": ("griddepcontrol.wait;", "st.global.u32 [%rd1], 1;\n\tgriddepcontrol.wait;"),
        "no griddepcontrol.wait": ("griddepcontrol.wait;", ""),
        "volatile": ("ld.relaxed.sys.global.v4", "ld.volatile.global.v4"),
        "narrower than 32": ("st.relaxed.sys.global.v4.u32", "st.relaxed.sys.global.u16"),
        "contracted": ("add.rn.f32", "add.f32"),
        "multicast": ("add.rn.f32", "multimem.st.relaxed.sys.global.v4.f32"),
        "generic address": ("add.rn.f32 %f1", "st.u32 [%rd1]"),
        "no `atom": ("atom.acq_rel.gpu.global.add.u64", "atom.relaxed.gpu.global.add.u64"),
        "no `%globaltimer": ("%globaltimer", "%clock64"),
        "not built": (".visible .entry all_reduce_x", ".visible .entry all_reduce_y"),
        "not a PTX file": (".target sm_90a", ""),
    }
    for wanted, (old, new) in planted.items():
        assert old in GOOD, old
        if not any(wanted in p for p in problems(GOOD.replace(old, new), ["all_reduce_x"])):
            failures.append(f"planted fault not found: {wanted}")
    if not_copied("LAMPPOST_A(x, 1)", "LAMPPOST_A(x, 1)\n"):
        failures.append("a copied line is taken for another")
    if not not_copied("LAMPPOST_A(x, 1)", "LAMPPOST_A(x, 2)\n"):
        failures.append("planted fault not found: a line that is no copy")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=pathlib.Path, help="collectives/kernels.def")
    parser.add_argument("--copied-from", type=pathlib.Path,
                        help="the list that every line of --kernels must also stand in")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("ptx", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    if options.self_test:
        found = self_test()
    else:
        if options.kernels is None or not options.ptx:
            parser.error("needs --kernels and a PTX file")
        expected = KERNEL_LINE.findall(options.kernels.read_text())
        found = [f"{path.name}: {p}" for path in options.ptx
                 for p in problems(path.read_text(), expected)]
        if options.copied_from is not None:
            found += not_copied(options.kernels.read_text(), options.copied_from.read_text())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
