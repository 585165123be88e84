#!/usr/bin/env python3
"""Compares the tokenizer with the Python packages `tokenizers` and `sentencepiece`.

    differential_tokenizers.py LIBRARY [--strings N] [--seed N] DIRECTORY ...
    differential_tokenizers.py LIBRARY --variants N [--strings N]

LIBRARY is libropewalk.so; strings are random. Compared are ids (with and without what the
post-processor adds), offsets, decoded text (with and without special tokens), and the stream
decoder with the decoded text.
--variants makes N tokenizer.json files at random from every normalizer, pre-tokenizer, model,
decoder and post-processor, instead of reading directories.

A difference in a string that holds characters unassigned in Unicode 14 is counted apart: such
characters are classed by the Unicode version of each library. So is one with characters newer than
Unicode 3.2 where the reference has tables of its own (scripts, accents, normal forms).
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import unicodedata

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokenizer_variants
from ropewalk_tokenizer import Ropewalk

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

PLAIN = (
    "the quick brown fox don't I'll we've 3.14 1,000,000 x=y+1; for(int i=0;) naïve Straße".split()
)
SPACES = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u200a"
SPACES += "\u2028\u2029\u202f\u205f\u3000\u180e\u200b\ufeff"
CONTROLS = (
    "".join(map(chr, range(32)))
    + "\x7f\x80\x8f\x9f\xad\u200c\u200d\u200e\u2060\u2066\ufffd\ufffe\uffff"
)
MARKS = "\u0300\u0301\u0307\u0308\u0323\u0327\u0345\u05b0\u0651"
MARKS += "\u093c\u093f\u0bbe\u0e33\u1ab0\u20dd\u3099\ufe0f\U0001d165"
SCRIPTS = [
    (0x41, 0x5A),
    (0x61, 0x7A),
    (0xC0, 0x17F),
    (0x370, 0x3FF),
    (0x400, 0x4FF),
    (0x5D0, 0x5EA),
    (0x620, 0x64A),
    (0x904, 0x939),
    (0xE01, 0xE30),
    (0x1100, 0x11FF),
    (0x1E00, 0x1EFF),
    (0x1F00, 0x1FFF),
    (0x2150, 0x218B),
    (0x2460, 0x24FF),
    (0x3041, 0x30FF),
    (0x4E00, 0x4EFF),
    (0xAC00, 0xACFF),
    (0xF900, 0xFAFF),
    (0xFB00, 0xFB4F),
    (0xFF01, 0xFFEE),
    (0x1D400, 0x1D7FF),
    (0x1F1E6, 0x1F1FF),
    (0x1F300, 0x1F64F),
    (0x20000, 0x200FF),
]
SEQUENCES = [
    "👩‍👩‍👧‍👦",
    "🇩🇪",
    "e\u0301",
    "A\u030a",
    "\u1112\u1161\u11ab",
    "ﬁ",
    "½",
    "ǆ",
    "İ",
    "ß",
    "ſ",
    "'S",
    "'ſ",
    "▁",
    "▁▁",
    "\r\n",
    "Ġ",
    "Ċ",
    "##",
    "</w>",
    "<0x41>",
    "\u0958",
    "\u2126",
    "\u212b",
    "\u1e9b\u0323",
    "ｶﾞ",
    "①",
    "㍿",
]


def scalar(r):
    while True:
        c = r.randrange(0x110000)
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def look_alike(r, specials):
    token = r.choice(specials)
    return r.choice(
        [
            token,
            token,
            " " + token + " ",
            token[:-1],
            token[1:],
            token.upper(),
            token * 2,
            "x" + token + "y",
            token[: len(token) // 2] + " " + token[len(token) // 2 :],
        ]
    )


def random_string(r, specials, words):
    parts = []
    for _ in range(r.choice([1, 1, 2, 3, 5, 8, 12])):
        kind = r.randrange(13)
        if kind == 0:
            parts.append("".join(scalar(r) for _ in range(r.randrange(1, 4))))
        elif kind == 1:
            parts.append("".join(r.choice(SPACES) for _ in range(r.randrange(1, 5))))
        elif kind == 2:
            parts.append("".join(r.choice(CONTROLS) for _ in range(r.randrange(1, 3))))
        elif kind == 3:
            parts.append(
                r.choice("aeiounAEO") + "".join(r.choice(MARKS) for _ in range(r.randrange(1, 4)))
            )
        elif kind == 4 and specials:
            parts.append(look_alike(r, specials))
        elif kind == 5:
            parts.append(r.choice("a x.=-_0 \n▁é한🙂") * r.choice([2, 3, 7, 16, 33]))
        elif kind == 6:
            low, high = r.choice(SCRIPTS)
            parts.append("".join(chr(r.randint(low, high)) for _ in range(r.randrange(1, 7))))
        elif kind == 7:
            parts.append(r.choice(SEQUENCES))
        elif kind == 8:
            parts.append("".join(r.choice("0123456789") for _ in range(r.randrange(1, 9))))
        elif kind == 9:
            parts.append("".join(chr(r.randrange(33, 127)) for _ in range(r.randrange(1, 8))))
        elif kind == 10:
            parts.append(chr(r.randrange(0x80, 0x3000)))
        else:
            parts.append(" ".join(r.choice(words) for _ in range(r.randrange(1, 4))))
        parts.append(r.choice(["", "", "", " ", " ", "\n"]))
    return "".join(parts)


class HuggingFace:
    def __init__(self, tokenizer, description):
        self.t = tokenizer
        self.true_offsets = tokenizer_variants.true_offsets(description)
        self.streamable = tokenizer_variants.streamable(description)
        self.database = (
            unicodedata.ucd_3_2_0
            if tokenizer_variants.knows_older_unicode(description)
            else unicodedata
        )
        self.specials = [a.content for a in tokenizer.get_added_tokens_decoder().values()]

    def encode(self, text, special):
        e = self.t.encode(text, add_special_tokens=special)
        return e.ids, e.offsets

    def decode(self, ids, skip):
        return self.t.decode(ids, skip_special_tokens=skip)


class SentencePiece:
    streamable, database = True, unicodedata

    def __init__(self, path):
        import sentencepiece

        self.t = sentencepiece.SentencePieceProcessor(model_file=path)
        self.specials = [
            self.t.id_to_piece(i)
            for i in range(min(300, self.t.get_piece_size()))
            if self.t.is_control(i) or self.t.is_unknown(i)
        ] + ["<0x0A>", "<0xE4>"]

    def encode(self, text, special):
        return self.t.encode(text), None

    def decode(self, ids, skip):
        return self.t.decode(ids)


def reference_of(directory):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    path = os.path.join(directory, "tokenizer.json")
    if os.path.exists(path):
        with open(path) as f:
            return HuggingFace(Tokenizer.from_file(path), json.load(f))
    path = os.path.join(directory, "vocab.json")
    if os.path.exists(path):
        t = Tokenizer(models.BPE.from_file(path, os.path.join(directory, "merges.txt")))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.decoder = decoders.ByteLevel()
        t.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
        return HuggingFace(t, json.loads(t.to_str()))
    return SentencePiece(os.path.join(directory, "tokenizer.model"))


def characters_of(text, spans):
    """Byte spans widened to whole characters, in characters."""
    index = []
    for i, c in enumerate(text):
        index += [i] * len(c.encode())
    index.append(len(text))
    return [(index[b], index[e - 1] + 1 if e > b else index[b]) for b, e in spans]


def unassigned(text, database):
    return any(database.category(c) == "Cn" for c in text)


def attempt(fn, *arguments):
    """The result, or None where the call fails; the reference's panics are BaseExceptions."""
    try:
        return fn(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def differences_of(reference, ours, text):
    """Names of what differs, with both values. What the reference fails at has no right answer."""
    found = []
    sentencepiece = isinstance(reference, SentencePiece)
    for special in (False,) if sentencepiece else (False, True):
        wanted = attempt(reference.encode, text, special)
        if wanted is None:
            return found
        want, offsets = wanted
        got, spans = attempt(ours.encode, text, special) or ("an error", None)
        if want != got:
            return [("ids", want, got)]
        if not special:
            spans = characters_of(text, spans)
            if offsets and reference.true_offsets and offsets != spans:
                found.append(("offsets", offsets, spans))
            ids = want
    for skip in (False,) if sentencepiece else (False, True):
        want, got = attempt(reference.decode, ids, skip), attempt(ours.decode, ids, skip)
        if want is None:
            continue
        if want != got:
            found.append(("decode", want, got))
        streamed = attempt(ours.stream, ids, skip)
        if streamed != got and reference.streamable:
            found.append(("stream", got, streamed))
    return found


def compare(name, reference, ours, n, seed, words, show):
    r = random.Random(seed)
    counts, shown, apart = {}, 0, 0
    for _ in range(n):
        text = random_string(r, reference.specials, words)
        found = differences_of(reference, ours, text)
        if not found:
            continue
        if unassigned(text, reference.database):
            apart += 1
            continue
        for what, want, got in found:
            counts[what] = counts.get(what, 0) + 1
            if shown < show:
                print(f"  {name}: {what} of {text!r}\n    reference {want}\n    ropewalk  {got}")
                shown += 1
    return counts, apart


def main():
    p = argparse.ArgumentParser()
    p.add_argument("library")
    p.add_argument("directories", nargs="*")
    p.add_argument("--strings", type=int, default=10000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--variants", type=int, default=0)
    p.add_argument("--keep", help="a directory for the variants")
    p.add_argument("--show", type=int, default=3)
    o = p.parse_intermixed_args()
    total = versions = refused = compared = 0
    for directory in o.directories:
        name = os.path.basename(directory.rstrip("/"))
        ours = Ropewalk(o.library, directory)
        counts, apart = compare(
            name, reference_of(directory), ours, o.strings, o.seed, PLAIN, o.show
        )
        print(
            f"{name}: {o.strings} strings, differences {counts or 'none'}, "
            f"{apart} only with newer characters",
            flush=True,
        )
        total += sum(counts.values())
        versions += apart
    from tokenizers import Tokenizer

    for i in range(o.variants):
        r = random.Random(o.seed * 1000003 + i)
        description = tokenizer_variants.make(r)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "tokenizer.json")
            with open(path, "w") as f:
                json.dump(description, f)
            try:
                reference = HuggingFace(Tokenizer.from_file(path), description)
            except BaseException as e:
                print(f"variant {i}: the reference refuses it: {e}")
                continue
            if tokenizer_variants.ambiguous(description, reference.t):
                continue
            compared += 1
            if o.keep:
                shutil.copy(path, os.path.join(o.keep, f"{i}.json"))
            summary = tokenizer_variants.summary(description)
            try:
                ours = Ropewalk(o.library, directory)
            except ValueError as e:
                refused += 1
                print(f"variant {i} is refused: {e}: {summary}")
                continue
            counts, apart = compare(
                f"variant {i}", reference, ours, o.strings, i, tokenizer_variants.WORDS, o.show
            )
            if counts:
                print(f"variant {i}: {counts}: {summary}", flush=True)
            total += sum(counts.values())
            versions += apart
    if o.variants:
        print(f"{compared} variants, {refused} of them refused")
    print(f"{total} differences, {versions} strings that differ only with newer characters")
    return total != 0


if __name__ == "__main__":
    sys.exit(main())
