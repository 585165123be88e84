#!/bin/sh
# Installs what is missing, builds, runs every test (or those named in TESTS), and ends in a line
# `N passed, N failed`.
# usage: [TESTS="NAME ..."] run.sh [BUILD [MESON OPTION ...]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
[ $# = 0 ] || shift
sh "$root/.ci/setup" "$build" "$@"
rm -f "$build/meson-logs/testlog.json"
status=0
meson test -C "$build" --no-rebuild --print-errorlogs ${TESTS:-} || status=$?
python3 "$root/tests/summary.py" "$build/meson-logs/testlog.json"
exit $status
