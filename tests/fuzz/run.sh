#!/bin/sh
# Fuzzes one target with libFuzzer under the address and undefined behaviour sanitizers, from its
# corpus; needs clang.
# What it finds new goes to FOLDER/corpus-TARGET, a crash to FOLDER/crash-TARGET-...
# usage: run.sh TARGET SECONDS FOLDER [LIBFUZZER OPTION ...]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
target=$1 seconds=$2
mkdir -p "$3/corpus-$target"
folder=$(cd "$3" && pwd)
shift 3
flags="-std=c17 -g -O1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -ffp-contract=off -I. -Iruntime/include"
checks="-fsanitize=address,undefined -fno-sanitize-recover=undefined"

# The kernels are the scalar ones, and not instrumented: their unrolled loops take minutes to compile.
cd "$root"
clang $flags -c runtime/kernels/table.c -o "$folder/table.o"
kernels=$(ls runtime/kernels/*.c | grep -v /table.c)
rooms="models/*.c loaders/*.c loaders/tokenizer/*.c runtime/*.c runtime/base/*.c runtime/position/*.c"
clang $flags $checks -fsanitize=fuzzer -DRWK_TEST_DATA="\"$root/tests/data\"" \
    -o "$folder/fuzz_$target" "tests/fuzz/fuzz_$target.c" "$folder/table.o" $kernels $rooms \
    $(pkg-config --cflags --libs libpcre2-8 libutf8proc) -lm -lpthread
UBSAN_OPTIONS=print_stacktrace=1 exec "$folder/fuzz_$target" -max_total_time="$seconds" \
    -artifact_prefix="$folder/crash-$target-" "$@" "$folder/corpus-$target" "tests/fuzz/corpus-$target"
