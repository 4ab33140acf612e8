#!/usr/bin/env python3
"""Explores the protocol models exhaustively and compares each verdict with the expected one.

For every run in RUNS: `spin -a`, compile the search it writes, let it visit all states. A run's
verdict is `holds`, `violates` (an assertion fails) or `hangs` (an invalid end state). Runs with a
planted fault must not hold. A search that was truncated proves nothing and counts as a failure.

Exit status: 0 all verdicts as expected, 1 otherwise, 77 when spin or a C compiler is missing.
"""

import argparse
import concurrent.futures
import dataclasses
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HOLDS = "holds"
VIOLATES = "violates"
HANGS = "hangs"

# A planted fault may be able to do both; the search then looks only for the one expected, so that
# the verdict does not depend on the order of the search.
SEARCH_ONLY_FOR = {HOLDS: [], VIOLATES: ["-E"], HANGS: ["-A"]}

SKIP_EXIT_STATUS = 77
DEPTH_LIMIT = 100_000
MEMORY_LIMIT_MB = 2048
TIMEOUT_S = 240
JOBS = 2

MODEL_FOLDER = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Run:
    model: str
    defines: str
    expected: str
    long: bool = False  # many states: worth the compile time of an optimised search


# The longest searches come first, so that the pool of two ends evenly.
RUNS = [
    Run("lamport", "RANKS=3 CALLS=4", HOLDS, long=True),
    Run("lamport", "RANKS=3 CALLS=4 EMPTY_CALL=3 MIX=4", HOLDS, long=True),
    Run("abort", "", HOLDS),
    Run("abort", "DETECTORS=6", HOLDS),
    Run("abort", "DETECTORS=2", HOLDS),
    Run("lamport", "", HOLDS),
    Run("lamport", "GENERATIONS=2", HANGS),
    Run("lamport", "RANKS=3 CALLS=4 GENERATIONS=2", HANGS),
    Run("lamport", "NO_HEADER", HOLDS),
    Run("lamport", "EMPTY_CALL=3", HOLDS),
    Run("lamport", "EMPTY_CALL=3 NO_HEADER", HANGS),
    Run("lamport", "ZERO_SKIPS=2", VIOLATES),
    Run("lamport", "CALLS=7 MIX=36", HOLDS),
    Run("lamport", "CALLS=7 MIX=36 CLEAR_OWN_REGION", VIOLATES),
    Run("lamport", "NO_CLEAR", VIOLATES),
    Run("lamport", "FREE_RUNNING_COUNTER", VIOLATES),
    Run("lamport", "EARLY_LAUNCH", HOLDS),
    Run("lamport", "EARLY_LAUNCH READ_BEFORE_WAIT", HANGS),
    Run("lamport", "EARLY_LAUNCH NO_WAIT", HANGS),
    Run("abort", "DETECTORS=6 LAST_WRITER_WINS NO_ZOMBIE", HANGS),
    Run("abort", "DETECTORS=2 LAST_WRITER_WINS", HANGS),
    Run("abort", "DETECTORS=2 UNDRAINED", HANGS),
    Run("abort", "GARBAGE_SUM", VIOLATES),
    Run("abort", "GARBAGE_FLAG", VIOLATES),
    Run("abort", "NEXT_PUSH", VIOLATES),
    Run("abort", "IGNORE_GENERATION", VIOLATES),
    Run("abort", "IGNORE_CALL", VIOLATES),
    Run("abort", "OWN_ABORT", VIOLATES),
    Run("flags", "", HOLDS),
    Run("flags", "RANKS=3", HOLDS),
    Run("flags", "RANKS=3 ONE_HALF EXIT_BARRIER", HOLDS),
    Run("flags", "EQUALITY", HANGS),
    Run("flags", "UNSIGNED_COMPARE", VIOLATES),
    Run("flags", "FLAG_FIRST", VIOLATES),
    Run("flags", "ONE_HALF", VIOLATES),
    Run("in_flight", "GRID_A=1 GRID_B=1", HOLDS),
    Run("in_flight", "GRID_A=1 GRID_B=2", HOLDS),
    Run("in_flight", "GRID_A=2 GRID_B=2", HOLDS),
    Run("in_flight", "GRID_A=2 GRID_B=3", HOLDS),
    Run("in_flight", "GRID_A=3 GRID_B=3", HOLDS),
    Run("in_flight", "GRID_A=2 GRID_B=2 COUNT_ONLY", VIOLATES),
    Run("in_flight", "GRID_A=1 GRID_B=2 SEQUENCE_ONLY", VIOLATES),
    Run("in_flight", "PLAIN_ARRIVAL", VIOLATES),
    Run("in_flight", "SKIP_ARRIVAL", VIOLATES),
    Run("in_flight", "GRID_A=1 GRID_B=2 NO_LAUNCH_NUMBER", VIOLATES),
    Run("in_flight", "GRID_A=2 GRID_B=3 NO_LAUNCH_NUMBER", VIOLATES),
    Run("record", "LANES=2", HOLDS),
    Run("record", "LANES=3", HOLDS),
    Run("record", "VALID_FIRST", VIOLATES),
    Run("record", "FAILED_FIRST", VIOLATES),
    Run("record", "NO_CLAIM", VIOLATES),
    Run("record", "PLAIN_CLAIM", VIOLATES),
    Run("record", "PLAIN_MASK", VIOLATES),
    Run("record", "PROVISIONAL", HOLDS),
    Run("record", "PROVISIONAL ONE_SLOT", VIOLATES),
]


class ToolError(Exception):
    """A tool failed or a search was truncated: the run has no verdict."""


@dataclasses.dataclass
class Outcome:
    run: Run
    verdict: str = "no verdict"
    states: int = 0
    depth: int = 0
    seconds: float = 0.0
    problem: str = ""

    @property
    def as_expected(self):
        return self.verdict == self.run.expected and not self.problem

    def line(self):
        mark = "ok  " if self.as_expected else "FAIL"
        return (
            f"{mark} {self.run.model:<10} {self.run.defines or '-':<48} {self.verdict:<9} "
            f"states {self.states:>8}  depth {self.depth:>5}  {self.seconds:5.1f} s  "
            f"expected {self.run.expected}"
        )


def call(command, folder):
    """Runs a command in a folder and returns what it printed. Any failure is a ToolError."""
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{command[0]} took longer than {TIMEOUT_S} s") from error
    if result.returncode != 0:
        raise ToolError(f"{' '.join(command)}: status {result.returncode}\n{result.stdout}")
    return result.stdout


def generate_search(run, folder):
    model = MODEL_FOLDER / f"{run.model}.pml"
    text = model.read_text(encoding="utf-8")
    for define in run.defines.split():
        if not re.search(rf"\b{define.split('=')[0]}\b", text):
            raise ToolError(f"{model.name} has no switch {define}")
    defines = [f"-D{define}" for define in run.defines.split()]
    output = call(["spin", "-a", *defines, str(model)], folder)
    if output.strip():
        raise ToolError(f"spin complains:\n{output}")


def compile_search(run, folder, compiler):
    # The generated code is not ours: its warnings (-w) are of no interest.
    optimise = "-O1" if run.long else "-O0"
    kind = ["-DSAFETY", f"-DMEMLIM={MEMORY_LIMIT_MB}"]
    output = call([compiler, optimise, "-w", *kind, "-o", "pan", "pan.c"], folder)
    if output.strip():
        raise ToolError(f"{compiler} complains:\n{output}")


def parse_search(output, outcome):
    """Reads verdict and counts from the report of a search."""
    summary = re.search(r"depth reached (\d+), errors: (\d+)", output)
    states = re.search(r"^\s*(\d+) states, stored", output, re.MULTILINE)
    if not summary or not states:
        raise ToolError(f"no summary in the search's report:\n{output}")
    outcome.depth = int(summary.group(1))
    outcome.states = int(states.group(1))
    for sign in ("max search depth too small", "out of memory", "memory limit", "aborted"):
        if sign in output:
            raise ToolError(f"truncated search ({sign}):\n{output}")

    errors = int(summary.group(2))
    if errors == 0:
        if "Search not completed" in output:
            raise ToolError(f"truncated search:\n{output}")
        unreached_assertion = re.search(r'state \d+, "assert', output)
        if unreached_assertion and outcome.run.expected == HOLDS:
            raise ToolError(f"an assertion is never reached:\n{output}")
        outcome.verdict = HOLDS
    elif re.search(r"^pan:\d+: assertion violated", output, re.MULTILINE):
        outcome.verdict = VIOLATES
    elif re.search(r"^pan:\d+: invalid end state", output, re.MULTILINE):
        outcome.verdict = HANGS
    else:
        raise ToolError(f"an error of another kind:\n{output}")


def explore(run, work_folder, compiler):
    """Carries out one run in a folder of its own."""
    outcome = Outcome(run)
    start = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{run.model}_", dir=work_folder))
    try:
        generate_search(run, folder)
        compile_search(run, folder, compiler)
        # -w: a hash table of 8 MB to begin with.
        options = ["-w20", f"-m{DEPTH_LIMIT}", *SEARCH_ONLY_FOR[run.expected]]
        parse_search(call(["./pan", *options], folder), outcome)
    except ToolError as error:
        outcome.problem = str(error)
    outcome.seconds = time.monotonic() - start
    if outcome.as_expected:
        shutil.rmtree(folder)
    else:
        if outcome.verdict == HOLDS:
            outcome.problem += "the planted fault is not caught in the way expected"
        outcome.problem += f"\nkept for a look: {folder}"
    return outcome


def processor_seconds():
    """User and system time of this process and of all tools that it has called."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", required=True, type=pathlib.Path, help="for temporary files")
    parser.add_argument("--only", metavar="NAME", help="only the runs of this model")
    parser.add_argument("--list", action="store_true", help="list the runs and stop")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    runs = [run for run in RUNS if arguments.only in (None, run.model)]
    if not runs:
        print(f"no model is called {arguments.only}", file=sys.stderr)
        return 1
    if arguments.list:
        for run in runs:
            print(f"{run.model} {run.defines or '-'}: {run.expected}")
        return 0

    compiler = shutil.which("gcc") or shutil.which("cc")
    if not shutil.which("spin") or not compiler:
        print("skipped: the protocol models need spin and a C compiler (gcc or cc)")
        return SKIP_EXIT_STATUS

    arguments.work.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=JOBS) as pool:
        for outcome in pool.map(lambda run: explore(run, arguments.work, compiler), runs):
            print(outcome.line(), flush=True)
            if not outcome.as_expected:
                failures += 1
                print(outcome.problem.strip(), flush=True)
    seconds = time.monotonic() - start
    print(
        f"{len(runs) - failures} of {len(runs)} runs as expected, {seconds:.1f} s, "
        f"{processor_seconds():.1f} s of processor time"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
