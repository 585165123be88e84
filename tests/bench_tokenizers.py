#!/usr/bin/env python3
"""Times the tokenizer against Hugging Face `tokenizers`, in turns on one machine, one thread.

    bench_tokenizers.py LIBRARY TEXT DIRECTORY ...

Prints, for each directory, the best load and encode times (of the processor, not of the clock) of
both and their ratio; the reference's is the better of `encode` and `encode_batch_fast`. Then ours
on 1 MB of one repeated part, beside half of it, which shows whether time is linear.
"""

import ctypes
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ropewalk_tokenizer import Ropewalk, Span

ROUNDS = 5
REPEATED = {"x": "x", "blanks": " ", "digits": "7", "emoji": "🙂", "random letters": None}


def seconds(fn):
    start = time.process_time()
    result = fn()
    return time.process_time() - start, result


def encoder(ours, data, offsets):
    ids, n = (ctypes.c_uint32 * (2 * len(data) + 16))(), ctypes.c_size_t()
    spans = (Span * len(ids))() if offsets else None

    def run():
        ours.check(
            ours.l.rwk_tokenizer_encode(
                ours.t,
                data,
                ctypes.c_size_t(len(data)),
                0,
                ids,
                ctypes.c_size_t(len(ids)),
                spans,
                ctypes.byref(n),
                None,
            ),
            "encode",
        )
        return n.value

    return run


def letters(n):
    state, out = 1, bytearray()
    for _ in range(n):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        out.append(97 + (state >> 16) % 26)
    return bytes(out)


def main():
    from tokenizers import Tokenizer

    library, text = sys.argv[1], open(sys.argv[2], encoding="utf-8").read()
    data = text.encode()
    for directory in sys.argv[3:]:
        path = os.path.join(directory, "tokenizer.json")
        load, load_theirs, plain, spans, theirs = [], [], [], [], []
        for _ in range(ROUNDS):
            t, ours = seconds(lambda: Ropewalk(library, path))
            load.append(t)
            t, reference = seconds(lambda: Tokenizer.from_file(path))
            load_theirs.append(t)
            t, n = seconds(encoder(ours, data, False))
            plain.append(t)
            t, _ = seconds(encoder(ours, data, True))
            spans.append(t)
            t, e = seconds(lambda: reference.encode(text, add_special_tokens=False))
            theirs.append(t)
            t, _ = seconds(lambda: reference.encode_batch_fast([text], add_special_tokens=False))
            theirs.append(t)
            assert len(e.ids) == n, (len(e.ids), n)
        mb = len(data) / 1e6
        print(
            f"{os.path.basename(directory.rstrip('/'))}: "
            f"load {min(load):.3f} s, reference {min(load_theirs):.3f} s; "
            f"encode {mb / min(plain):.1f} MB/s, with offsets {mb / min(spans):.1f} MB/s, "
            f"reference {mb / min(theirs):.2f} MB/s: "
            f"{min(theirs) / min(plain):.1f} and {min(theirs) / min(spans):.1f} times as fast",
            flush=True,
        )
        parts = []
        for name, unit in REPEATED.items():
            whole = (
                letters(1 << 20)
                if unit is None
                else unit.encode() * ((1 << 20) // len(unit.encode()))
            )
            half = min(seconds(encoder(ours, whole[: len(whole) // 2], False))[0] for _ in range(2))
            full = min(seconds(encoder(ours, whole, False))[0] for _ in range(2))
            parts.append(f"{name} {full * 1e3:.0f} ms ({full / half:.1f} times half of it)")
        print("  1 MB of " + ", ".join(parts), flush=True)


main()
