#!/usr/bin/env bash
# For a machine with GPUs: builds with the CUDA backend, runs the GPU tests, runs some of them under
# compute-sanitizer, and measures, in one go of less than 8 minutes. Nothing is installed. Results go to
# the folder that is named, or to build/gpu/report. NVLink multicast stays off in all of it.
# Exit status: 0 if every step that was asked for went well.
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
for name in "${steps[@]}"; do
  case $name in test | sanitize | measure) ;; *) usage >&2; exit 2 ;; esac
done

gpu_environment
mkdir -p "$folder"
build=build/gpu
bench=$build/src/tools/lamppost-bench
gpus=$(gpu_count)
failed=0
summary=()

# run NAME SECONDS COMMAND...: a command with a time limit; its output on the terminal and in NAME.log.
run() {
  local name=$1 seconds=$2 status=0
  shift 2
  step "$name"
  shown "$folder/$name.log" timeout -k 5 "$seconds" "$@" || status=$?
  if [ "$status" -ne 0 ]; then
    echo "$name: FAILED (exit status $status$([ "$status" -ne 124 ] || echo ": stopped after $seconds s"))"
    failed=$((failed + 1))
  fi
}

# measured NAME SECONDS LAUNCHER... -- ARGUMENT...: the benchmark, with its reports.
measured() {
  local name=$1 seconds=$2 launcher=()
  shift 2
  while [ "$1" != -- ]; do launcher+=("$1"); shift; done
  shift
  # A rank that is missing is named after 10 s.
  run "$name" "$seconds" "${launcher[@]}" "$bench" --backend cuda --timeout-ms 10000 "$@" \
    --json "$folder/$name.json" --csv "$folder/$name.csv" --html "$folder/$name.html"
}

test_step() {
  run ctest 240 ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error
}

# Without the test that measures waits: under the tool they are another's. Calls of the driver that fail
# are no finding: tests provoke some, and judge what becomes of them.
sanitize_step() {
  local tool memcheck
  if ! tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null); then
    echo "sanitize: FAILED: no compute-sanitizer on the PATH or in /usr/local/cuda/bin"
    failed=$((failed + 1))
    return
  fi
  memcheck=("$tool" --tool memcheck --report-api-errors no --error-exitcode 1)
  run memcheck-all-reduce 100 "${memcheck[@]}" "$build/tests/gpu/gpu_all_reduce_test"
  run memcheck-device 100 "${memcheck[@]}" "$build/tests/gpu/gpu_device_test" \
    --gtest_filter='-*AfterATimeoutTheDeviceGoesOn*'
  run racecheck-all-reduce 100 "$tool" --tool racecheck --error-exitcode 1 \
    "$build/tests/gpu/gpu_all_reduce_test"
}

fused=(--op all_reduce_rmsnorm --hidden 7168 --tokens "1,8,32,128")
all_sizes=(-e 64M -f 4)

measure_threads() {
  local ranks
  export CUDA_DEVICE_MAX_CONNECTIONS=32
  measured threads-2-graph 60 -- -t 2 --share-devices --graph --floor -b 256 "${all_sizes[@]}" -n 200 --batches 9
  measured threads-2-fused 40 -- -t 2 --share-devices --graph "${fused[@]}" -n 200 --batches 21
  measured threads-2-fused-early 40 -- -t 2 --share-devices --graph --early-launch "${fused[@]}" -n 200 \
    --batches 21
  measured threads-2-empty 20 -- -t 2 --share-devices --graph -b 0 -e 0
  for ranks in 2 3 8 16; do
    measured "threads-$ranks-eager" 60 -- -t "$ranks" --share-devices --eager -b 0 "${all_sizes[@]}" -n 5 \
      --batches 3 -w 1 --warmup-ms 0
    measured "threads-$ranks-sizes" 60 -- -t "$ranks" --share-devices --graph -b 0 "${all_sizes[@]}" -n 5 \
      --batches 3 -w 1 --warmup-ms 0
  done
  measured threads-2-host-cost 20 -- -t 2 --share-devices --op host_cost
  unset CUDA_DEVICE_MAX_CONNECTIONS
}

# measure_processes RANKS: a process a GPU.
measure_processes() {
  local ranks=$1 exports=()
  read -ra exports <<<"$(mpirun_exports)"
  local launcher=(mpirun -np "$ranks" "${exports[@]}")
  measured "processes-$ranks-graph" 90 "${launcher[@]}" -- --graph --floor --compare nccl -b 256 \
    "${all_sizes[@]}" -n 40 --batches 9
  measured "processes-$ranks-eager" 60 "${launcher[@]}" -- --eager -b 0 "${all_sizes[@]}" --batches 9
  measured "processes-$ranks-fused" 60 "${launcher[@]}" -- --graph --floor "${fused[@]}" -n 200 --batches 21
  measured "processes-$ranks-fused-early" 60 "${launcher[@]}" -- --graph --early-launch "${fused[@]}" -n 200 \
    --batches 21
  measured "processes-$ranks-init" 60 "${launcher[@]}" -- --op init
}

measure_step() {
  measure_threads
  if [ "$gpus" -lt 2 ]; then
    echo "not run on two GPUs: this machine has $gpus"
    return
  fi
  measure_processes 2
  if [ "$gpus" -gt 2 ]; then measure_processes "$gpus"; fi
}

if [ "$gpus" -eq 0 ]; then
  echo "no GPU: nvidia-smi -L lists none" >&2
  exit 1
fi
step "build, for $gpus x $(gpu_name)"
logged "$folder/configure.log" cmake --preset cuda -B "$build" -DLAMPPOST_EXAMPLES=OFF
logged "$folder/build.log" cmake --build "$build" -j "$(jobs_default)"
for name in "${steps[@]}"; do
  before=$failed
  start=$SECONDS
  "${name}_step"
  if [ "$failed" -eq "$before" ]; then verdict=ok; else verdict="$((failed - before)) FAILED"; fi
  summary+=("$(printf '%-9s %4d s  %s' "$name" $((SECONDS - start)) "$verdict")")
done
step "done in $SECONDS s; logs and reports: $folder"
printf '    %s\n' "${summary[@]}"
[ "$failed" -eq 0 ]
