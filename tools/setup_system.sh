#!/usr/bin/env bash
# Installs the Debian packages of tools/system_packages.txt that are missing: as root, else by sudo.
# Without the right to install, it names the missing ones and stops.
set -euo pipefail
cd "$(dirname "$0")"

wanted=$(grep -v '^#' system_packages.txt)
missing=()
for package in $wanted; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "== system packages: ${missing[*]}"
if [ "$(id -u)" = 0 ]; then
  as_root=()
elif sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
elif [ -t 0 ] && command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "These Debian packages are missing and this user may not install them:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  echo "Ask an administrator for:  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 "$@"; }
apt install -y -q --no-install-recommends "${missing[@]}" || {
  apt update -q
  apt install -y -q --no-install-recommends "${missing[@]}"
}
