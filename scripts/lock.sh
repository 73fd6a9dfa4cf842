#!/bin/sh
# Renew constraints.txt from pyproject.toml: every dependency of every extra, pinned, with hashes and no address.
set -eu
cd "$(dirname "$0")/.."
pip-compile -q --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url --no-emit-trusted-host \
  --no-emit-find-links --no-header --no-annotate --extra dev "$@" -o constraints.txt pyproject.toml
# The project itself stands in the list as a path of this machine; it is installed by its own step.
sed -i -e '/^pegboard @ /d' -e '/^ *#/d' constraints.txt
