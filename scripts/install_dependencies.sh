#!/usr/bin/env bash
# Installs what Lamppost needs to be built (and tested) and this machine lacks.
# Debian and Ubuntu: installs with apt-get as root or through `sudo -n`; a user who can do neither
# gets the list and one command to copy. Elsewhere: lists what is missing, by purpose.
# Quiet (one line) when nothing is missing. Exit status: 0 all that is required is there, 1 the
# installation failed, 2 wrong usage, 3 something required is missing and was not installed.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: scripts/install_dependencies.sh [--build | --test | --all] [--list]
  --build  what scripts/demo.sh needs (default)
  --test   that, and what the tests need
  --all    that, and what is only convenient while developing
  --list   print what is missing, install nothing
EOF
}

groups=" build "
list_only=no
while [ $# -gt 0 ]; do
  case $1 in
    --build) groups=" build " ;;
    --test) groups=" build test " ;;
    --all) groups=" build test develop " ;;
    --list) list_only=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

# group | required or optional | package | probe | purpose
# Probes, for machines where the package is not the distribution's own:
#   command NAME       NAME can be run
#   header FILE        FILE can be included
#   library FILE NAME  FILE can be included and -lNAME linked
dependencies() {
  cat <<'EOF'
build|required|g++|command c++|C++20 compiler (GCC 12 or later)
build|required|cmake|command cmake|build system (3.25 or later)
build|required|ninja-build|command ninja|build tool of the presets
build|required|pkg-config|command pkg-config|finds hwloc
build|required|libhwloc-dev|library hwloc.h hwloc|GPU and NUMA locality
build|required|libboost-context-dev|library boost/context/detail/fcontext.hpp boost_context|fibers of the host backend
build|required|libfmt-dev|header fmt/format.h|text formatting
build|required|libcli11-dev|header CLI/CLI.hpp|command lines of the tools
build|required|nlohmann-json3-dev|header nlohmann/json.hpp|JSON output of the tools
build|optional|libopenmpi-dev|command mpicc|ranks as MPI processes (without it: threads)
build|optional|openmpi-bin|command mpirun|mpirun (without it: threads)
test|required|libgtest-dev|library gtest/gtest.h gtest|unit tests
test|required|python3|command python3|source checks, test totals
test|optional|spin|command spin|exhaustive protocol models
test|optional|relacy-dev|header relacy/relacy.hpp|memory-order models
develop|optional|git|command git|version control
develop|optional|ccache|command ccache|faster rebuilds
EOF
}

compiles() {  # FILE [LIBRARY]
  command -v c++ >/dev/null || return 1
  local link=(-fsyntax-only)
  [ $# -gt 1 ] && link=(-o /dev/null "-l$2")
  printf '#include <%s>\nint main() { return 0; }\n' "$1" |
    c++ -std=c++20 -x c++ - "${link[@]}" >/dev/null 2>&1
}

probed() {  # the words of a probe
  case $1 in
    command) command -v "$2" >/dev/null ;;
    header) compiles "$2" ;;
    library) compiles "$2" "$3" ;;
  esac
}

has_package() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

is_debian=no
if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  is_debian=yes
fi

# Fills missing_required, missing_optional and their lines for people.
find_missing() {
  missing_required=() missing_optional=() lines=()
  local group need package probe purpose
  while IFS='|' read -r group need package probe purpose; do
    [[ $groups == *" $group "* ]] || continue
    [ $is_debian = yes ] && has_package "$package" && continue
    # shellcheck disable=SC2086  # a probe is a few words
    probed $probe && continue
    if [ "$need" = required ]; then
      missing_required+=("$package")
    else
      missing_optional+=("$package")
    fi
    lines+=("$(printf '  %-5s  %-8s  %-20s  %s' "$group" "$need" "$package" "$purpose")")
  done < <(dependencies)
}

# A compiler or CMake that is there but too old is worth a clear word before anything is built.
check_versions() {
  local cmake_version gcc_version
  cmake_version=$(cmake --version 2>/dev/null | sed -n '1s/.* //p')
  if [ -n "$cmake_version" ] &&
    [ "$(printf '3.25\n%s\n' "$cmake_version" | sort -V | head -n 1)" != 3.25 ]; then
    echo "CMake $cmake_version is too old: Lamppost needs 3.25 or later. Two ways to get one:" >&2
    echo "  snap install cmake --classic" >&2
    echo "  python3 -m venv ~/cmake && ~/cmake/bin/pip install cmake && PATH=~/cmake/bin:\$PATH" >&2
    exit 3
  fi
  gcc_version=$(c++ -dumpversion 2>/dev/null | sed 's/\..*//')
  if [ -n "$gcc_version" ] && c++ --version | grep -q 'Free Software Foundation' &&
    [ "$gcc_version" -lt 11 ]; then
    echo "g++ $gcc_version is too old: Lamppost needs C++20 (g++ 12 is tested)." >&2
    exit 3
  fi
}

print_missing() {
  echo "missing (purpose, need, package, what it is for):"
  printf '%s\n' "${lines[@]}"
}

apt() {  # apt-get as root, without questions
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

# Leaves out optional packages that this release does not have: one unknown name would stop all.
drop_unavailable() {
  local package kept=()
  for package in "${missing_optional[@]}"; do
    if [ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then
      kept+=("$package")
    else
      echo "this release has no package $package: going on without it"
    fi
  done
  missing_optional=("${kept[@]}")
}

find_missing
if [ ${#lines[@]} -eq 0 ]; then
  check_versions
  echo "dependencies: all there"
  exit 0
fi
missing=("${missing_required[@]}" "${missing_optional[@]}")
if [ $list_only = yes ]; then
  print_missing
  [ ${#missing_required[@]} -eq 0 ] || exit 3
  exit 0
fi

as_root=()
can_install=$is_debian
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    can_install=no
  fi
fi

if [ $can_install = no ]; then
  print_missing
  if [ $is_debian = yes ]; then
    echo "to install them (needs root):"
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends" \
      "${missing[*]}"
  else
    echo "the names are Debian's; install what your system calls them, then start again"
  fi
  [ ${#missing_required[@]} -eq 0 ] || exit 3
  echo "only optional parts are missing: going on without them"
  check_versions
  exit 0
fi

echo "dependencies: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! apt update >"$log" 2>&1; then
  # A source that cannot be reached need not be the one with our packages.
  echo "apt-get update had errors: $(grep -E '^(E|W|Err)' "$log" | head -n 1)" >&2
fi
drop_unavailable
if ! apt install -y --no-install-recommends "${missing_required[@]}" "${missing_optional[@]}" \
  >"$log" 2>&1; then
  echo "apt-get install failed; its last lines:" >&2
  tail -n 30 "$log" >&2
  [ ${#missing_required[@]} -eq 0 ] || exit 1
  echo "only optional parts are missing: going on without them"
  check_versions
  exit 0
fi
hash -r
find_missing
if [ ${#missing_required[@]} -gt 0 ]; then
  print_missing >&2
  exit 3
fi
check_versions
echo "dependencies: installed"
