# shellcheck shell=bash
# Helpers of the scripts here: time-stamped headings, quiet and logged commands, GPUs. Sourced.

# step TEXT...: a heading.
step() {
  printf '[%s] == %s\n' "$(date +%H:%M:%S)" "$*"
}

# logged LOG COMMAND...: runs COMMAND with all its output in LOG. On failure prints the last 30
# lines and returns COMMAND's status.
logged() {
  local log=$1 status=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ]; then
    explain_failure "$log" "$status" "$@"
  fi
  return "$status"
}

# shown LOG COMMAND...: as `logged`, with the output on the terminal too (so it is not repeated).
shown() {
  local log=$1 status=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" 2>&1 </dev/null | tee "$log" || status=${PIPESTATUS[0]}
  return "$status"
}

explain_failure() {
  local log=$1 status=$2
  shift 2
  {
    printf 'failed (exit status %s): %s\n' "$status" "$*"
    printf 'last lines of %s:\n' "$log"
    tail -n 30 "$log" | sed 's/^/    /'
  } >&2
}

# jobs_default: processors this process may use (a container's limit counts where nproc knows it).
jobs_default() {
  nproc 2>/dev/null || echo 2
}

# What the scripts do with GPUs never switches NVLink multicast on: it may put GPUs that others share
# out of service. Root may run mpirun (containers), with more ranks than cores.
gpu_environment() {
  export LAMPPOST_NVLS_ENABLE=0 NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
}

# mpirun_exports: options that hand the switches on to processes on other nodes too. Only Open MPI has
# and needs them.
mpirun_exports() {
  if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    printf -- '-x %s ' LAMPPOST_NVLS_ENABLE NCCL_NVLS_ENABLE TORCH_SYMM_MEM_DISABLE_MULTICAST NVSHMEM_DISABLE_NVLS
  fi
}

# gpu_count: NVIDIA GPUs that this process may use. In CUDA_VISIBLE_DEVICES nothing counts from a
# negative number on.
gpu_count() {
  local count named=() name visible=0
  count=$({ nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true)
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    IFS=, read -ra named <<<"$CUDA_VISIBLE_DEVICES"
    for name in "${named[@]}"; do
      if [[ $name == -* ]]; then break; fi
      visible=$((visible + 1))
    done
    if [ "$visible" -lt "$count" ]; then count=$visible; fi
  fi
  echo "$count"
}

gpu_name() {
  { nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || true; } | head -n 1
}
