#!/bin/sh
# Install the Debian packages that the tests and the sandbox use, where we may (root and apt); else say what is missing.
set -u
wanted="bubblewrap:bwrap ripgrep:rg git:git tmux:tmux openssl:openssl curl:curl util-linux:nsenter chromium:chromium espeak-ng:espeak-ng postgresql-15:postgres"
# Debian keeps the server's programs out of PATH.
PATH="$PATH:/usr/lib/postgresql/15/bin"
missing=""
for pair in $wanted; do
  command -v "${pair#*:}" >/dev/null 2>&1 || missing="$missing ${pair%%:*}"
done
[ -z "$missing" ] && exit 0
why="not root, or no apt-get"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing Debian packages:$missing"
  export DEBIAN_FRONTEND=noninteractive
  # dpkg stops at an override for a group that an image has lost (ssl-cert, messagebus).
  dpkg-statoverride --list 2>/dev/null | while read -r _ group _; do
    getent group "$group" >/dev/null || groupadd --system "$group"
  done
  # Another apt may be at work, and a mirror may fail once.
  patience="-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
  # shellcheck disable=SC2086
  apt-get $patience update -qq >/dev/null 2>&1
  # shellcheck disable=SC2086
  why=$(apt-get $patience install -y -qq --no-install-recommends $missing 2>&1) && exit 0
fi
echo "$why" | tail -n 5
echo "missing:$missing"
echo "Tests that need them fail; install them with: apt-get install$missing"
exit 0
