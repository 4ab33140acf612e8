#!/usr/bin/env bash
# For a machine with GPUs: builds with the CUDA backend, runs the GPU tests (under compute-sanitizer
# too), and measures, in one go. Nothing is installed. Results go to the folder that is named, or to
# build/gpu/report. NVLink multicast stays off in all of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/steps.sh

usage() {
  cat <<'USAGE'
usage: scripts/gpu.sh [--only STEP]... [FOLDER]
  --only STEP   only these of: test, sanitize, measure (the build always)
  FOLDER        where logs and reports go (default: build/gpu/report)
USAGE
}

steps=()
folder=build/gpu/report
while [ $# -gt 0 ]; do
  case $1 in
    --only) [ $# -ge 2 ] || { usage >&2; exit 2; }; steps+=("$2"); shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) folder=$1 ;;
  esac
  shift
done
if [ ${#steps[@]} -eq 0 ]; then steps=(test sanitize measure); fi
wants() { [[ " ${steps[*]} " == *" $1 "* ]]; }

# Multicast may put GPUs that others share out of service; it is never switched on here.
export LAMPPOST_NVLS_ENABLE=0 NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
mkdir -p "$folder"
build=build/gpu
status=0

step "build"
logged "$folder/configure.log" cmake --preset cuda -B "$build" -DLAMPPOST_EXAMPLES=OFF
logged "$folder/build.log" cmake --build "$build" -j "$(jobs_default)"

if wants test; then
  step "test"
  ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error 2>&1 </dev/null |
    tee "$folder/ctest.log" || status=1
fi
exit $status
