#!/usr/bin/env bash
# Configures with as little as there can be on a machine: no CUDA toolkit, no HIP compiler, no MPI,
# parts switched off. It must succeed, and say in one line for each part that it is off, and why:
#   lamppost: <part> off: <reason>
# usage: bare_configure_test.sh SOURCE_DIR   or   bare_configure_test.sh --self-test
set -euo pipefail

# lines_for FILE PART...: each part has exactly one line with a reason.
lines_for() {
  local file=$1 part count status=0
  shift
  for part in "$@"; do
    count=$(grep -cE "lamppost: $part off: ." "$file" || true)
    if [ "$count" -ne 1 ]; then
      echo "expected one line 'lamppost: $part off: <reason>', found $count"
      status=1
    fi
  done
  return $status
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "$1" = --self-test ]; then
  printf '%s\n' '-- lamppost: mpi off: no MPI found' '-- lamppost: tools off: ' \
    '-- lamppost: tests off: a' '-- lamppost: tests off: b' >"$work/log"
  lines_for "$work/log" mpi || { echo "self-test: mpi should pass"; exit 1; }
  for part in tools tests "cuda backend"; do
    if lines_for "$work/log" "$part" >/dev/null; then
      echo "self-test: $part should fail"
      exit 1
    fi
  done
  echo "self-test: 4 cases, 0 failed"
  exit 0
fi

source=$(cd "$1" && pwd)
# A PATH without GPU compilers: the folders of what a build needs, minus those that hold one.
path=""
for folder in /usr/local/bin /usr/bin /bin; do
  if [ ! -e "$folder/nvcc" ] && [ ! -e "$folder/hipcc" ]; then
    path=$path$folder:
  fi
done
for tool in cmake ninja; do
  if found=$(command -v $tool); then
    path=$(dirname "$found"):$path
  fi
done

# configure NAME ARGUMENT...: leaves the output in $work/NAME.log.
configure() {
  local name=$1
  shift
  if ! env -u CUDACXX -u CUDA_PATH -u CUDA_HOME -u CUDAToolkit_ROOT -u HIP_PATH -u ROCM_PATH -u HIPCXX \
    PATH="$path" cmake -S "$source" -B "$work/$name" "$@" >"$work/$name.log" 2>&1; then
    echo "configure failed ($name): $*"
    cat "$work/$name.log"
    return 1
  fi
  echo "configured ($name):"
  grep 'lamppost: ' "$work/$name.log" || true
}

# A toolkit may lie where CMake finds it without the PATH: an empty nvcc stands for none.
status=0
configure parts-off -DLAMPPOST_NVCC= -DLAMPPOST_MPI=OFF -DLAMPPOST_TOOLS=OFF -DLAMPPOST_TESTS=OFF \
  -DLAMPPOST_EXAMPLES=OFF
lines_for "$work/parts-off.log" "cuda backend" "hip backend" mpi tools tests examples || status=1

# MPI left to be found, and not there.
configure no-mpi -DLAMPPOST_NVCC= -DLAMPPOST_MPI=AUTO -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DLAMPPOST_TOOLS=OFF \
  -DLAMPPOST_TESTS=OFF
lines_for "$work/no-mpi.log" mpi || status=1
exit $status
