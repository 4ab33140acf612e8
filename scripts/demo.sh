#!/usr/bin/env bash
# The main job, from nothing: installs what is missing, builds lamppost-bench, and runs the fused
# all-reduce + residual + RMSNorm and the plain all-reduce on 4 ranks (under mpirun; as threads
# where there is no MPI) over a sweep of sizes, on GPUs if there are any, else on CPU cores.
# Every row is checked against a reference and across ranks. Exit status: 0 if all of it was right.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/steps.sh

if [ $# -gt 0 ]; then
  echo "usage: scripts/demo.sh   (no options; results go to build/demo/)" >&2
  exit 2
fi

ranks=4
demo=build/demo
build=$demo/build
step "dependencies"
scripts/install_dependencies.sh --build
mkdir -p "$demo"
rm -f "$demo"/*.log "$demo"/*.html

# GPU kernels take minutes to build: only where there is a GPU to run them.
cuda=OFF hip=OFF
if [ -e /dev/nvidiactl ]; then cuda=AUTO; fi
if [ -e /dev/kfd ]; then hip=AUTO; fi

step "configure"
logged "$demo/configure.log" cmake --preset host --fresh -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=OFF \
  -DLAMPPOST_CUDA=$cuda -DLAMPPOST_HIP=$hip -DLAMPPOST_TESTS=OFF -DLAMPPOST_EXAMPLES=OFF
grep -o 'lamppost: .*' "$demo/configure.log" | sed 's/^/    /' || true

step "build lamppost-bench"
logged "$demo/build.log" cmake --build "$build" --target lamppost-bench -j "$(jobs_default)"
bench=$(find "$build" -name lamppost-bench -type f -perm -u+x | head -n 1)
if [ -z "$bench" ]; then
  echo "the build left no lamppost-bench under $build" >&2
  exit 1
fi

# Root may run mpirun (containers), with more ranks than cores. MPICH's mpirun ignores these.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
if command -v mpirun >/dev/null && ! grep -q 'lamppost: mpi off' "$demo/configure.log"; then
  launch=(mpirun -n "$ranks" "$bench")
  how="$ranks processes under mpirun"
else
  launch=("$bench" -t "$ranks")
  how="$ranks threads (no MPI here)"
fi

# sweep TITLE NAME ARGUMENT...: one run of the benchmark, its table on the terminal, its report and
# log on disk under NAME.
sweep() {
  local title=$1 name=$2 rows status=0
  shift 2
  step "$title: $how"
  shown "$demo/$name.log" timeout 120 "${launch[@]}" "$@" -b 4K -e 1M -f 4 --backend auto \
    --html "$demo/$name.html" || status=$?
  if [ "$status" -eq 124 ]; then
    echo "$name: not done after 120 s, stopped" >&2
  fi
  if [ "$status" -ne 0 ]; then
    echo "$name: failed (exit status $status), see $demo/$name.log" >&2
    exit 1
  fi
  rows=$(grep -cE '^ *[0-9]+ ' "$demo/$name.log" || true)
  if [ "$rows" -lt 5 ]; then
    echo "$name: expected 5 sizes, the table has $rows" >&2
    exit 1
  fi
  if ! [ -s "$demo/$name.html" ]; then
    echo "$name: no report was written" >&2
    exit 1
  fi
}

fused=lamppost-report
plain=lamppost-report-all-reduce
sweep "fused all-reduce + RMSNorm" "$fused" --op all_reduce_rmsnorm --dtype bf16 --hidden 2048
sweep "plain all-reduce" "$plain" --op all_reduce --dtype bf16

step "done in $((SECONDS / 60)) min $((SECONDS % 60)) s"
cat <<EOF
Shown: fused all-reduce + residual + RMSNorm, and plain all-reduce, bf16, 4 KiB to 1 MiB,
       $how; every row right against the reference and equal on all ranks.
Report: $PWD/$demo/$fused.html
        $PWD/$demo/$plain.html
Next:   scripts/test.sh runs every test; $bench --help lists what else it measures.
EOF
