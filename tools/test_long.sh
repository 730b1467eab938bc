#!/usr/bin/env bash
# What takes too long for every change: sanitizers, long fuzzing, many seeds, leaks, a soak.
# Usage: tools/test_long.sh [part…]; all parts if none is named. Logs are kept in build/logs.
#   sanitizers    Catch2 tests under ASan+UBSan and under TSan
#   fuzz          every fuzz target for 60 s
#   seeds         20 000 seeds of the simulator
#   differential  20 000 sequences through our worker core and Python's WorkerState
#   leaks         100 000 tasks and 10 GB of transfers leave a worker's memory flat
#   soak          the same map over and over: does it get slower, does memory stay?
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/logs
status=0

step() {  # name, command…
  local name=$1 log="build/logs/long-$1.log" begun=$SECONDS outcome=passed
  shift
  echo "== $name"
  "$@" > "$log" 2>&1 || { outcome=FAILED; status=1; tail -40 "$log"; }
  echo "   $outcome in $((SECONDS - begun)) s; $log"
}

sanitized() {  # preset
  [ -f "build/$1/build.ninja" ] || cmake --preset "$1" > /dev/null || return 1
  cmake --build --preset "$1" || return 1
  # Every report is a failure; test_frontend starts Python, which these builds leave out.
  ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1 \
    ctest --test-dir "build/$1" --output-on-failure -j "$(nproc)" -E test_frontend
}

client_suite() {  # variables and pytest arguments
  env PYTHONHASHSEED=0 RASK_PAIRING=rask-rask "$@"
}

part_sanitizers() { step asan-ubsan sanitized asan-ubsan; step tsan sanitized tsan; }
part_fuzz() { step fuzz tests/fuzz/smoke.sh 60; }
part_seeds() { step seeds build/release/tests/sim --seeds 0..20000; }
part_differential() {
  step differential client_suite RASK_SEQUENCES=20000 .venv/bin/python -m pytest \
    pytests/test_worker_core_differential.py
}
part_leaks() {
  step leaks client_suite RASK_LEAK_TASKS=100000 RASK_TRANSFER_GB=10 .venv/bin/python -m pytest \
    --timeout 3600 -k memory_flat pytests/test_worker_tasks.py pytests/test_worker_transfer.py
}
part_soak() { step soak .venv/bin/python bench/run.py --rows W14 --backends stock,rask,rask/rask; }

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(sanitizers fuzz seeds differential leaks soak)
for part in "${parts[@]}"; do "part_$part" || status=1; done
exit $status
