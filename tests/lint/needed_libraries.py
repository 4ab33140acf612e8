#!/usr/bin/env python3
"""Checks what liblamppost needs at load time and what it shows to the linker.

Needs: no GPU driver, no GPU runtime, no MPI (they are loaded at run time or live in another
library). Shows: the C API (lp...) and lamppost::device, nothing else; the C++ library's and
header-only libraries' weak template instantiations cannot be avoided and are let through."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import lint

FORBIDDEN_LIBRARIES = ("libcuda", "libcudart", "libamdhip64", "libmpi", "libmpi_cxx")
C_API = re.compile(r"lp[A-Z]\w*")
LINKER_SYMBOLS = {"_init", "_fini", "_edata", "_end", "__bss_start"}
ALLOWED_NAMESPACES = ("lamppost::device::",)
WEAK_KINDS = "WVuv"
_DEMANGLED_PREFIX = re.compile(r"(?:vtable|typeinfo|typeinfo name|VTT|guard variable|construction vtable) for ")


def needed(readelf: str) -> list[str]:
    """Names in the NEEDED entries of `readelf -d -W`."""
    return re.findall(r"\(NEEDED\).*\[([^\]]+)\]", readelf)


def check_needed(readelf: str) -> list:
    return [f"needs {name}" for name in needed(readelf)
            if name.split(".so")[0] in FORBIDDEN_LIBRARIES]


def check_symbols(nm: str) -> list:
    """`nm -D -C --defined-only` lines that break the rule: "address kind demangled name"."""
    findings = []
    for line in nm.splitlines():
        match = re.fullmatch(r"[0-9a-f]+ (\w) (.+)", line.strip())
        if not match:
            continue
        kind, symbol = match.groups()
        name = _DEMANGLED_PREFIX.sub("", symbol)
        if C_API.fullmatch(name) or name in LINKER_SYMBOLS or name.startswith(ALLOWED_NAMESPACES):
            continue
        if kind in WEAK_KINDS and not name.startswith(("lamppost::", "lp")):
            continue
        findings.append(f"exports {kind} {symbol}")
    return findings


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check_library(path: pathlib.Path) -> list:
    symbols = output("nm", "-D", "-C", "--defined-only", str(path))
    findings = check_needed(output("readelf", "-d", "-W", str(path))) + check_symbols(symbols)
    if not re.search(r" T lp[A-Z]", symbols):
        findings.append("exports no function of the C API")
    return findings


def self_test(test: lint.SelfTest) -> None:
    readelf = " 0x0000000000000001 (NEEDED)  Shared library: [%s]\n"
    test.expect("harmless libraries",
                check_needed(readelf % "libhwloc.so.15" + readelf % "libcudawhatever.so"))
    for name in ("libcuda.so.1", "libcudart.so.13", "libamdhip64.so.6", "libmpi.so.40"):
        test.expect(name, check_needed(readelf % name), f"needs {name}")
    harmless = ("0000 T lpAllReduce\n0000 W std::vector<lamppost::Status>::~vector()\n"
                "0000 V vtable for fmt::v9::format_error\n0000 T _init\n"
                "0000 T lamppost::device::store()\n")
    test.expect("harmless symbols", check_symbols(harmless))
    for line in ("0000 T helper", "0000 T lamppost::launch(int)", "0000 T fmt::v9::vformat()",
                 "0000 W lamppost::Status::clone() const", "0000 V vtable for lamppost::Bootstrap",
                 "0000 B lamppost_table", "0000 D lp_counter"):
        test.expect(line, check_symbols(harmless + line + "\n"), line[5:])
    if shutil.which("cc"):
        built_library(test)


def built_library(test: lint.SelfTest) -> None:
    """The same on real libraries: one that needs a library called libcuda.so.1 and leaks a
    symbol, and one that does neither."""
    with tempfile.TemporaryDirectory(prefix="lamppost-lint-") as name:
        folder = pathlib.Path(name)

        def build(library: str, code: str, *flags: str) -> pathlib.Path:
            source, target = folder / f"{library}.c", folder / library
            source.write_text(code, encoding="utf-8")
            output("cc", "-shared", "-fPIC", "-o", str(target), str(source), *flags)
            return target

        good = "int lpGetVersion(void) { return 1; }\n"
        build("libcuda.so.1", "int cuInit(unsigned f) { return (int)f; }\n",
              "-Wl,-soname,libcuda.so.1")
        test.expect("a clean library", check_library(build("libclean.so", good)))
        bad = build("libbad.so", good + "int leaked(void) { return 2; }\n", "-Wl,--no-as-needed",
                    f"-L{folder}", "-l:libcuda.so.1")
        test.expect("a library with both defects", check_library(bad), "needs libcuda.so.1",
                    "exports T leaked")
        test.expect("a library without the C API", check_library(build("libnone.so", "")),
                    "exports no function")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="?", type=pathlib.Path, help="path of liblamppost.so")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        test = lint.SelfTest()
        self_test(test)
        return test.status()
    if arguments.library is None:
        parser.error("give the library's path")
    findings = check_library(arguments.library)
    for finding in findings:
        print(f"{arguments.library.name}: {finding}")
    print(f"{len(findings)} findings" if findings else "clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
