#!/usr/bin/env bash
# The main job, from nothing: installs what is missing, builds lamppost-bench, and runs the fused
# all-reduce + residual + RMSNorm and the plain all-reduce over a sweep of sizes: on several GPUs a
# process each under mpirun, on one GPU 4 ranks as threads, without a GPU 4 ranks on CPU cores (under
# mpirun, or as threads where there is no MPI). Every row is checked against a reference and across
# ranks. Exit status: 0 if all of it was right. NVLink multicast stays off in all of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/steps.sh

if [ $# -gt 0 ]; then
  echo "usage: scripts/demo.sh   (no options; results go to build/demo/)" >&2
  exit 2
fi

gpu_environment
ranks=4
demo=build/demo
build=$demo/build
step "dependencies"
scripts/install_dependencies.sh --build
mkdir -p "$demo"
rm -f "$demo"/*.log "$demo"/*.html

# GPU kernels take minutes to build: only where there is a GPU to run them.
cuda=OFF
gpus=$(gpu_count)
if [ "$gpus" -gt 0 ] && { command -v nvcc || ls /usr/local/cuda/bin/nvcc; } >/dev/null 2>&1; then
  cuda=ON
elif [ "$gpus" -gt 0 ]; then
  echo "    there is a GPU ($(gpu_name)), but no CUDA toolkit to build its kernels (nvcc is neither on the"
  echo "    PATH nor in /usr/local/cuda/bin): the demo runs on CPU cores"
  gpus=0
fi

step "configure"
logged "$demo/configure.log" cmake --preset host --fresh -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=OFF \
  -DLAMPPOST_CUDA=$cuda -DLAMPPOST_HIP=OFF -DLAMPPOST_TESTS=OFF -DLAMPPOST_EXAMPLES=OFF
grep -o 'lamppost: .*' "$demo/configure.log" | sed 's/^/    /' || true

step "build lamppost-bench"
logged "$demo/build.log" cmake --build "$build" --target lamppost-bench -j "$(jobs_default)"
bench=$(find "$build" -name lamppost-bench -type f -perm -u+x | head -n 1)
if [ -z "$bench" ]; then
  echo "the build left no lamppost-bench under $build" >&2
  exit 1
fi

has_mpi=no
if command -v mpirun >/dev/null && ! grep -q 'lamppost: mpi off' "$demo/configure.log"; then has_mpi=yes; fi
backend=host
where="on CPU cores"
if [ "$gpus" -gt 8 ]; then gpus=8; fi
if [ "$gpus" -gt 0 ]; then
  backend=cuda
  where="on $gpus x $(gpu_name)"
fi
if [ "$gpus" -gt 1 ]; then ranks=$gpus; fi
if [ "$gpus" -eq 1 ]; then
  export CUDA_DEVICE_MAX_CONNECTIONS=32  # a hardware queue for each rank's stream
  launch=("$bench" -t "$ranks" --share-devices --graph)
  how="$ranks ranks as threads $where"
elif [ $has_mpi = yes ]; then
  read -ra exports <<<"$(mpirun_exports)"
  launch=(mpirun -n "$ranks" "${exports[@]}" "$bench")
  how="$ranks processes under mpirun $where"
else
  launch=("$bench" -t "$ranks")
  how="$ranks threads (no MPI here) $where"
fi

# sweep TITLE NAME ARGUMENT...: one run of the benchmark, its table on the terminal, its report and
# log on disk under NAME.
sweep() {
  local title=$1 name=$2 rows status=0
  shift 2
  step "$title: $how"
  shown "$demo/$name.log" timeout 120 "${launch[@]}" "$@" -b 4K -e 1M -f 4 --backend $backend \
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
