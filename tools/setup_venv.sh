#!/usr/bin/env bash
# Makes .venv with the newest packages of tools/requirements.txt and puts python/ on its path, so
# that `rask` can be imported and started from the checkout without being installed.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

echo "== python environment in .venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "$python is older than 3.10; name a newer one: make PYTHON=/usr/bin/python3.11 …" >&2
  exit 1
}
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  rm -rf .venv
  "$python" -m venv .venv 2>/dev/null || { rm -rf .venv; "$python" -m virtualenv -q .venv; } || {
    echo "$python can make no environment: install python3-venv or virtualenv" >&2
    exit 1
  }
fi
.venv/bin/python -m pip install --upgrade --progress-bar off -q pip
.venv/bin/python -m pip install --upgrade --upgrade-strategy eager --progress-bar off \
  -r tools/requirements.txt | { grep --line-buffered -E '^(Collecting|Downloading|Installing|Successfully)' || true; }

site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/python" > "$site/rask-checkout.pth"
cat > .venv/bin/rask <<END
#!$PWD/.venv/bin/python
from rask.cli import main
main()
END
chmod +x .venv/bin/rask
