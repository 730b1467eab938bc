#!/usr/bin/env bash
# Proves the wheel: builds it, installs it with pip into a fresh environment, asks for versions and
# help, and lets a scheduler and a worker from it compute something, far from the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
room=$(mktemp -d)
scheduler= worker=
cleanup() {
  for pid in $worker $scheduler; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
  rm -rf "$room"
}
trap cleanup EXIT

echo "== wheel"
rm -rf dist
CMAKE_CXX_COMPILER_LAUNCHER=ccache .venv/bin/python -m pip wheel -q --no-deps -w dist .
ls -l dist/*.whl
echo "== a fresh environment"
.venv/bin/python -m venv --without-pip "$room/venv"
.venv/bin/python -m pip --python "$room/venv" install -q dist/*.whl
cd "$room"
"$room/venv/bin/rask" --version
"$room/venv/bin/rask" scheduler --version
"$room/venv/bin/rask" scheduler --help | head -n 1
"$room/venv/bin/rask" worker --help | head -n 1
"$room/venv/bin/python" -c 'import rask, sys; assert rask.__file__.startswith(sys.prefix), rask.__file__'

echo "== a cluster from the wheel"
"$room/venv/bin/rask" scheduler --host 127.0.0.1 --port 0 --no-dashboard \
  --scheduler-file scheduler.json > scheduler.log 2>&1 &
scheduler=$!
"$room/venv/bin/rask" worker --scheduler-file scheduler.json --no-nanny --no-dashboard > worker.log 2>&1 &
worker=$!
timeout 120 "$room/venv/bin/python" - <<'END' || { cat scheduler.log worker.log; exit 1; }
from distributed import Client

with Client(scheduler_file="scheduler.json", timeout=60) as client:
    assert sum(client.gather(client.map(lambda x: x + 1, range(1000)))) == 500500
    client.shutdown()
print("computed 1000 tasks")
END
wait "$scheduler"
wait "$worker"
scheduler= worker=
echo "wheel: passed"
