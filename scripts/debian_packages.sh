#!/bin/sh
# Install the Debian packages that the tests and the sandbox use, where we may (root and apt); else say what is missing.
set -u
wanted="bubblewrap:bwrap ripgrep:rg git:git tmux:tmux openssl:openssl curl:curl util-linux:nsenter"
missing=""
for pair in $wanted; do
  command -v "${pair#*:}" >/dev/null 2>&1 || missing="$missing ${pair%%:*}"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing Debian packages:$missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >/dev/null 2>&1
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $missing >/dev/null && exit 0
fi
echo "not installed and not installable here:$missing"
echo "tests that need them are skipped; install them with: apt-get install$missing"
exit 0
