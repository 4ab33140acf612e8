#!/usr/bin/env bash
# Installs what is missing, builds with continuous integration's flags and runs the tests: preset
# `all` (every part that this machine can build; tests that need a GPU skip without one), then the
# tests labelled asan and tsan under their sanitizers. Ends with the line `N passed, N failed,
# N skipped`, summed over the presets (a preset that does not build counts as one failure). Exit
# status: 0 if something passed and nothing failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/steps.sh

usage() {
  cat <<'EOF'
usage: scripts/test.sh [--all] [--preset NAME]... [-j N] [--no-install]
  --all          full cross products (LAMPPOST_TEST_ALL=1)
  --preset NAME  only this preset of CMakePresets.json; may be repeated
  -j N           parallel build jobs and tests (default: processors)
  --no-install   take the machine as it is
EOF
}

jobs=$(jobs_default)
presets=()
install=yes
while [ $# -gt 0 ]; do
  case $1 in
    --all) export LAMPPOST_TEST_ALL=1 ;;
    --preset | -j)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      if [ "$1" = -j ]; then jobs=$2; else presets+=("$2"); fi
      shift
      ;;
    -j*) jobs=${1#-j} ;;
    --no-install) install=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
if ! [[ $jobs =~ ^[1-9][0-9]*$ ]]; then
  usage >&2
  exit 2
fi
if [ ${#presets[@]} -eq 0 ]; then
  presets=(all host-asan host-tsan)
fi

if [ $install = yes ]; then
  step "dependencies"
  scripts/install_dependencies.sh --test
fi
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi

# ThreadSanitizer needs its addresses free: with much address randomisation its programs stop at
# once, and are run without any instead.
sanitizer_wrapper() {
  wrapper=()
  if [ "$1" = host-tsan ] && [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ] &&
    setarch "$(uname -m)" -R true 2>/dev/null; then
    wrapper=(setarch "$(uname -m)" -R)
  fi
}

# run_preset NAME: configures, builds and tests; 0 if all tests passed.
run_preset() {
  local preset=$1
  sanitizer_wrapper "$preset"
  rm -f "build/$preset/junit.xml"
  step "$preset: configure"
  logged "build/$preset/log/configure.log" \
    cmake --preset "$preset" -DLAMPPOST_WERROR=ON || return 1
  step "$preset: build"
  logged "build/$preset/log/build.log" \
    "${wrapper[@]}" cmake --build --preset "$preset" -j "$jobs" || return 1
  step "$preset: test"
  "${wrapper[@]}" ctest --preset "$preset" -j "$jobs" --output-junit \
    "$PWD/build/$preset/junit.xml" </dev/null
}

# totals PRESET...: prints the last line; fails unless something passed and nothing failed.
totals() {
  python3 - "$@" <<'EOF'
import pathlib
import sys
import xml.etree.ElementTree

passed = failed = skipped = 0
for preset in sys.argv[1:]:
    report = pathlib.Path("build", preset, "junit.xml")
    cases = []
    if report.exists():
        cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
    if not cases:
        failed += 1  # did not configure, build or find a test
    for case in cases:
        reason = case.find("skipped")
        if case.get("status") == "run":
            passed += 1
        elif case.get("status") == "disabled" or (
                reason is not None and reason.get("message", "").startswith("SKIP_")):
            skipped += 1
        else:  # failed, timed out, crashed, or could not be started
            failed += 1
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(0 if passed and not failed else 1)
EOF
}

status=0
for preset in "${presets[@]}"; do
  run_preset "$preset" || status=1
done
totals "${presets[@]}" || status=1
exit $status
