#!/usr/bin/env bash
# Builds every fuzz target and runs each for some seconds (default 10) from its seed corpus.
# Usage: tests/fuzz/smoke.sh [seconds] [target…]. New inputs go to build/fuzz/corpus, not to git;
# an input that fails is left in build/fuzz/<target>-crash-*.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-10}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cd tests/fuzz && ls fuzz_*.cc | sed 's/\.cc$//')

[ -f build/fuzz/build.ninja ] || cmake --preset fuzz > /dev/null
cmake --build --preset fuzz --target "${targets[@]}" > build/fuzz/build.log \
  || { tail -30 build/fuzz/build.log; exit 1; }

for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$target"
  echo "== $target, $seconds s"
  log="build/fuzz/$target.log"
  "build/fuzz/tests/fuzz/$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 \
    -verbosity=0 -print_final_stats=1 -artifact_prefix="build/fuzz/$target-" \
    "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" > "$log" 2>&1 \
    || { grep -v '^stat' "$log" | tail -40; echo "$target failed"; exit 1; }
  grep number_of_executed "$log"
done
