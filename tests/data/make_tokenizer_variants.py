#!/usr/bin/env python3
"""Writes tokenizers/variants.jsonl: small tokenizer.json files, one for each part of the format,
with texts and what the Python package `tokenizers` makes of them.

The first line names the models. A line: "tokenizer" (the file up to its model, as a string),
"model" (its name), "cases" with "text", "ids", "ids_with_special" (where they differ from ids),
"offsets" (in bytes, pairs in one list), "decoded".
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tokenizer_variants
from tokenizers import Tokenizer

MARK = "▁"
CHARS = list("abcdehlnorw,.'1 xAÉé") + [
    "Ġ",
    "Ã",
    "©",
    MARK,
    "i",
    "f",
    "\u0301",
    "日",
    "本",
    "한",
    "\n",
]
MERGES = [
    ["h", "e"],
    ["l", "l"],
    ["he", "ll"],
    ["hell", "o"],
    ["Ġ", "w"],
    [MARK, "w"],
    ["o", "r"],
    ["Ã", "©"],
    ["a", "b"],
    ["日", "本"],
    [" ", "w"],
]
VOCAB = ["<unk>"] + CHARS + [a + b for a, b in MERGES]
BPE = {
    "type": "BPE",
    "unk_token": "<unk>",
    "fuse_unk": True,
    "byte_fallback": False,
    "vocab": {t: i for i, t in enumerate(VOCAB)},
    "merges": MERGES,
}
UNIGRAM = {
    "type": "Unigram",
    "unk_id": 0,
    "byte_fallback": False,
    "vocab": [["<unk>", 0.0]] + [[p, -1.0 - 0.37 * len(p)] for p in VOCAB[1:]],
}
WORDPIECE = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 8,
    "vocab": {
        t: i
        for i, t in enumerate(
            ["[UNK]", "hello", "wor", "##ld", "ab", "##c", ",", "x", "##1", "日", "##本", "é", "e"]
        )
    },
}
WORDLEVEL = {
    "type": "WordLevel",
    "unk_token": "<unk>",
    "vocab": {
        t: i for i, t in enumerate(["<unk>", "hello", "world", ",", "ab", "日本", MARK + "ab"])
    },
}
SUFFIXED = {
    "type": "BPE",
    "unk_token": None,
    "end_of_word_suffix": "</w>",
    "fuse_unk": False,
    "byte_fallback": False,
    "vocab": {
        t: i
        for i, t in enumerate(["a", "b", "c", "a</w>", "b</w>", "c</w>", "ab</w>", "abc</w>", "ab"])
    },
    "merges": ["a b</w>", "a b", "ab c</w>"],
}
FALLBACK = {
    "type": "BPE",
    "unk_token": "<unk>",
    "fuse_unk": True,
    "byte_fallback": True,
    "vocab": {
        t: i
        for i, t in enumerate(
            ["<unk>", "a", "b", MARK, "ab", MARK + "ab"]
            + ["<0x%02X>" % b for b in (0xC3, 0xA9, 0x0A, 0xE6)]
        )
    },
    "merges": [["a", "b"], [MARK, "ab"]],
}
ADDED = [
    ("<s>", 0, 0, 0, 0, 1),
    ("[x]", 1, 0, 0, 0, 0),
    ("AB", 0, 1, 1, 0, 1),
    ("my_1", 0, 0, 1, 0, 0),
    ("my_12", 0, 0, 0, 1, 0),
]
TEXTS = [
    "hello, world",
    " ab  abc.x1\n",
    "é e\u0301 ﬁn \u00a0日本한",
    "<s>hello<s> world[x]",
    "a[x]b [x] AB \n my_12 my_1 ab",
    "",
    "\n",
    "don't11 1\u2003w",
]


# What Oniguruma and PCRE2 read differently.
PATTERNS = [
    "[^(\\s|[.,!?])]+",
    "[a-z&&[^aeiou]]+",
    "\\h+",
    "\\bab|d\\b",
    "^.|o$",
    "(?m).o",
    "[[:punct:]]",
    "\\w+",
    "x*",
]


def added(size):
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return [
        {"id": size + i, "content": t[0], **{n: bool(v) for n, v in zip(names, t[1:])}}
        for i, t in enumerate(ADDED)
    ]


def variants():
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    metaspace = {
        "type": "Metaspace",
        "replacement": MARK,
        "prepend_scheme": "always",
        "split": True,
    }
    for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"):
        yield {"normalizer": {"type": kind}}
    yield {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}
    yield {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": MARK},
                {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
            ],
        }
    }
    yield {"normalizer": {"type": "Replace", "pattern": {"Regex": "l+|\\s"}, "content": "x1"}}
    yield {
        "normalizer": {
            "type": "Precompiled",
            "precompiled_charsmap": tokenizer_variants.precompiled(),
        }
    }
    yield {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": WORDPIECE,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    }
    for i, behavior in enumerate(
        ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
    ):
        yield {
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"Regex": "[\\s,']|1"},
                "behavior": behavior,
                "invert": i % 2 == 1,
            }
        }
        yield {"pre_tokenizer": {"type": "Punctuation", "behavior": behavior}, "model": UNIGRAM}
    for regex in PATTERNS:
        yield {
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"Regex": regex},
                "behavior": "Isolated",
                "invert": False,
            }
        }
    for scheme in ("always", "first", "never"):
        yield {
            "pre_tokenizer": {**metaspace, "prepend_scheme": scheme, "split": scheme != "first"},
            "decoder": {**metaspace, "prepend_scheme": scheme},
        }
    for kind in ("Whitespace", "WhitespaceSplit", "UnicodeScripts"):
        yield {"pre_tokenizer": {"type": kind}, "model": WORDLEVEL}
    yield {"pre_tokenizer": {"type": "FixedLength", "length": 3}}
    yield {"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "l"}, "model": UNIGRAM}
    yield {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "decoder": byte_level,
        "post_processor": byte_level,
    }
    yield {
        "pre_tokenizer": {**byte_level, "add_prefix_space": True, "use_regex": False},
        "decoder": byte_level,
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": ["<s>", len(VOCAB)],
            "cls": ["AB", len(VOCAB) + 2],
            "trim_offsets": True,
            "add_prefix_space": True,
        },
    }
    yield {
        "model": SUFFIXED,
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
    }
    yield {
        "model": FALLBACK,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "pre_tokenizer": {**metaspace, "split": False},
    }
    yield {
        "decoder": {"type": "CTC", "pad_token": "l", "word_delimiter_token": " ", "cleanup": True},
        "post_processor": {
            "type": "BertProcessing",
            "sep": ["<s>", len(VOCAB)],
            "cls": ["AB", len(VOCAB) + 2],
        },
    }
    one = [
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "AB", "type_id": 0}},
    ]
    yield {
        "decoder": {"type": "Fuse"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": one,
            "pair": one + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                n: {"id": n, "ids": [i], "tokens": [n]}
                for n, i in (("<s>", len(VOCAB)), ("AB", len(VOCAB) + 2))
            },
        },
    }


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers", "variants.jsonl")
    models = {
        "bpe": BPE,
        "unigram": UNIGRAM,
        "wordpiece": WORDPIECE,
        "wordlevel": WORDLEVEL,
        "suffixed": SUFFIXED,
        "fallback": FALLBACK,
    }
    with open(path, "w", encoding="utf-8") as f:
        f.write(compact({n: compact(m) for n, m in models.items()}) + "\n")
        for parts in variants():
            d = {
                "version": "1.0",
                "added_tokens": [],
                "normalizer": None,
                "pre_tokenizer": None,
                "post_processor": None,
                "decoder": None,
                "model": BPE,
                **parts,
            }
            d["added_tokens"] = added(len(d["model"]["vocab"]))
            text = compact(d)
            t, cases = Tokenizer.from_str(text), []
            for s in TEXTS:
                e = t.encode(s, add_special_tokens=False)
                ends = [len(s[:i].encode()) for i in range(len(s) + 1)]
                case = {
                    "text": s,
                    "ids": e.ids,
                    "decoded": t.decode(e.ids, skip_special_tokens=False),
                }
                if t.encode(s).ids != e.ids:
                    case["ids_with_special"] = t.encode(s).ids
                if tokenizer_variants.true_offsets(d):
                    case["offsets"] = [ends[x] for pair in e.offsets for x in pair]
                cases.append(case)
            name = next(n for n, m in models.items() if m is d["model"])
            f.write(
                compact(
                    {"tokenizer": text[: text.index('"model":')], "model": name, "cases": cases}
                )
                + "\n"
            )


main()
