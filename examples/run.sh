#!/bin/sh
# Installs what is missing, builds, and lets the model beside this file continue a sentence.
# usage: run.sh [PROMPT]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
sh "$root/.ci/setup" "$root/build" >&2
"$root/build/tools/generate" "$root/examples/rope-llama" "${1:-It was a dark and}" -n 60
[ -t 1 ] || echo
