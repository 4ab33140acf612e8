# shellcheck shell=bash
# Helpers of demo.sh and test.sh: time-stamped headings and quiet, logged commands. Sourced.

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
