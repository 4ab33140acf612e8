"""What the source checks share: finding files, reading them without comments and strings, planting
small trees for the self-tests, and the command line. Standard library only."""

import argparse
import contextlib
import os
import pathlib
import re
import sys
import tempfile
from typing import Callable, Iterator, NamedTuple

# Everything that a C, C++, CUDA or HIP compiler may read.
SOURCE_SUFFIXES = {".h", ".hpp", ".c", ".cc", ".cpp", ".cu", ".cuh", ".hip", ".def", ".inc"}
PRODUCT_FOLDERS = ("include", "src", "transports", "collectives")


class Finding(NamedTuple):
    """One line that breaks a rule. `path` is relative to the root; line 0 means the whole file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.text}"


def source_files(root: pathlib.Path, folders: tuple[str, ...]) -> Iterator[pathlib.Path]:
    """All source files under `folders`, in a fixed order."""
    for folder in folders:
        for directory, names, files in os.walk(root / folder):
            names[:] = sorted(n for n in names if not n.startswith((".", "__pycache__")))
            for name in sorted(files):
                path = pathlib.Path(directory, name)
                if path.suffix in SOURCE_SUFFIXES:
                    yield path


def relative(root: pathlib.Path, path: pathlib.Path) -> str:
    return path.relative_to(root).as_posix()


_TOKEN = re.compile(
    r"""
      (?P<line_comment>//(?:\\\r?\n|[^\n])*)
    | (?P<block_comment>/\*.*?(?:\*/|\Z))
    | (?P<raw_string>R"(?P<mark>[^\s()\\]{0,16})\(.*?(?:\)(?P=mark)"|\Z))
    | (?P<string>"(?:\\.|[^"\\\n])*"?)
    | (?P<number>\b[0-9](?:'?[0-9a-zA-Z_.])*)
    | (?P<character>'(?:\\.|[^'\\\n])*'?)
    """,
    re.VERBOSE | re.DOTALL,
)


def strip(text: str, keep_strings: bool = False) -> str:
    """`text` with comments (and, unless told to keep them, the contents of strings and character
    literals) blanked out. Line numbers stay what they were."""

    def blank(match: re.Match) -> str:
        kind, token = match.lastgroup, match.group()
        if kind == "number" or (keep_strings and not kind.endswith("comment")):
            return token
        newlines = "\n" * token.count("\n")
        return " " + newlines if kind.endswith("comment") else '""' + newlines

    return _TOKEN.sub(blank, text)


@contextlib.contextmanager
def planted(files: dict[str, str]) -> Iterator[pathlib.Path]:
    """A temporary tree that holds `files` (path: text), for self-tests."""
    with tempfile.TemporaryDirectory(prefix="lamppost-lint-") as name:
        root = pathlib.Path(name)
        for path, text in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        yield root


class SelfTest:
    """Counts the cases of a self-test: a check that cannot fail is a defect."""

    def __init__(self) -> None:
        self.failures = 0
        self.cases = 0

    def expect(self, what: str, findings: list, *needles: str) -> None:
        """Without needles: no finding is expected. With: one finding a needle that contains it, and
        no other."""
        self.cases += 1
        found = [str(finding) for finding in findings]
        right = len(found) == len(needles) and all(
            any(needle in text for text in found) for needle in needles
        )
        if not right:
            self.failures += 1
            print(f"self-test: {what}\n  expected: {list(needles)}\n  found:    {found}")

    def status(self) -> int:
        print(f"self-test: {self.cases} cases, {self.failures} failed")
        return 1 if self.failures or not self.cases else 0


def default_root() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[2]


def main(
    description: str,
    check: Callable[[pathlib.Path], list],
    self_test: Callable[[SelfTest], None],
    notes: Callable[[pathlib.Path], list] = lambda root: [],
) -> int:
    """The command line of a check over the source tree; returns the exit status. `notes` are
    printed and fail nothing."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=default_root())
    parser.add_argument("--self-test", action="store_true", help="plant violations, expect them")
    arguments = parser.parse_args()
    if arguments.self_test:
        test = SelfTest()
        self_test(test)
        return test.status()
    root = arguments.root.resolve()
    if not any(source_files(root, PRODUCT_FOLDERS)):
        sys.exit(f"no source files under {root}: nothing was checked")
    findings = check(root)
    for line in notes(root) + findings:
        print(line)
    print(f"{len(findings)} findings" if findings else "clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit("lint.py is the checks' shared part; run one of the checks")
