"""Small tokenizer.json descriptions at random, from every part that the format knows."""

import base64
import struct

WORDS = [
    "hello",
    "world",
    "the",
    "a",
    "low",
    "lower",
    "newest",
    "wide",
    "don't",
    "ab",
    "abc",
    "12",
    "x1",
    "é",
    "über",
    "한국",
    "日本語",
    "ёлка",
    "##ing",
    "aaa",
    "word_",
    "foo-bar",
    "(x)",
    "¿qué?",
    "½",
    "ǅ",
    "ﬁn",
]
MARK = "▁"


def byte_alphabet():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    other = [b for b in range(256) if b not in keep]
    return [chr(b) for b in keep] + [chr(256 + i) for i in range(len(other))]


def double_array(rules):
    """The trie format of SentencePiece's maps: one unit for each state, offsets found by trial."""
    keys = sorted((k.encode() + b"\0", v) for k, v in rules)
    units, used = {0: 0}, set()

    def place(node, items, depth):
        labels = sorted({k[depth] for k, _ in items})
        base = 1
        while True:
            if (
                base < (1 << 21)
                and all((base ^ c) not in units for c in labels)
                and base not in used
            ):
                break
            base += 1
        used.add(base)
        units[node] = units[node] | (((node ^ base) << 10) if (node ^ base) < (1 << 21) else 0)
        for c in labels:
            units[base ^ c] = c
        if labels[0] == 0:
            units[node] |= 1 << 8
        for c in labels:
            rest = [(k, v) for k, v in items if k[depth] == c]
            if c == 0:
                units[base] = rest[0][1] | 1 << 31
            else:
                place(base ^ c, rest, depth + 1)

    place(0, keys, 0)
    size = (max(units) // 256 + 1) * 256
    return struct.pack(f"<{size}I", *[units.get(i, 1 << 31 | 0x7F) for i in range(size)])


def precompiled():
    pairs = [
        ("ﬁ", "fi"),
        ("½", "1/2"),
        ("é", "e"),
        ("e\u0301", "e"),
        ("\t", " "),
        ("\u00a0", " "),
        ("\u3000", " "),
        ("㍿", "株式会社"),
        ("a", "A"),
        ("Å", "Å"),
        ("한", "h"),
    ]
    blob, rules = b"", []
    for key, value in pairs:
        rules.append((key, len(blob)))
        blob += value.encode() + b"\0"
    trie = double_array(rules)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + blob).decode()


def pattern(r):
    return r.choice(
        [
            {"String": r.choice([" ", "-", "a", "é", "ab", ".", MARK, "\n"])},
            {
                "Regex": r.choice(
                    [
                        "\\s+",
                        "\\d",
                        "[aeiou]",
                        "\\p{L}+",
                        "\\p{N}{1,3}",
                        "[^\\s\\p{L}\\p{N}]+",
                        "a|ab",
                        " ?\\w+",
                        "\\s+(?!\\S)",
                        "(?i:'s|'t|'re)",
                        "[0-9][0-9][0-9]",
                        "x*",
                        "^",
                        "$",
                        "\\b",
                        "[^(\\s|[.,!?])]+",
                        "\\S",
                        "\\W+",
                        "[\\p{P}\\p{S}]",
                        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+",
                        "(?s).",
                        "\\p{Lu}\\p{Ll}*",
                        "\\p{M}+",
                        "[[:punct:]]",
                        "[a-z&&[^aeiou]]",
                        "\\h+",
                        "[\\w&&[^0-9]]+",
                        "\\R",
                    ]
                )
            },
        ]
    )


def normalizer(r, depth=0):
    kind = r.randrange(14 if depth == 0 else 13)
    if kind == 13:
        return {
            "type": "Sequence",
            "normalizers": [normalizer(r, 1) for _ in range(r.randrange(0, 4))],
        }
    return [
        {"type": "NFC"},
        {"type": "NFD"},
        {"type": "NFKC"},
        {"type": "NFKD"},
        {"type": "Lowercase"},
        {"type": "StripAccents"},
        {"type": "Nmt"},
        {"type": "Strip", "strip_left": r.random() < 0.5, "strip_right": r.random() < 0.5},
        {"type": "Prepend", "prepend": r.choice([MARK, "ab", "é"])},
        {
            "type": "Replace",
            "pattern": pattern(r),
            "content": r.choice(["", " ", MARK, "xyz", "é"]),
        },
        {"type": "ByteLevel"},
        {"type": "Precompiled", "precompiled_charsmap": precompiled()},
        {
            "type": "BertNormalizer",
            "clean_text": r.random() < 0.5,
            "handle_chinese_chars": r.random() < 0.5,
            "strip_accents": r.choice([None, True, False]),
            "lowercase": r.random() < 0.5,
        },
    ][kind]


def pre_tokenizer(r, depth=0):
    behaviours = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    kind = r.randrange(12 if depth == 0 else 11)
    if kind == 11:
        return {
            "type": "Sequence",
            "pretokenizers": [pre_tokenizer(r, 1) for _ in range(r.randrange(0, 4))],
        }
    split = {
        "type": "Split",
        "pattern": pattern(r),
        "behavior": r.choice(behaviours),
        "invert": r.random() < 0.5,
    }
    return [
        {
            "type": "ByteLevel",
            "add_prefix_space": r.random() < 0.5,
            "trim_offsets": True,
            "use_regex": r.random() < 0.5,
        },
        {
            "type": "Metaspace",
            "replacement": MARK,
            "prepend_scheme": r.choice(["always", "first", "never"]),
            "split": r.random() < 0.5,
        },
        {"type": "Whitespace"},
        {"type": "WhitespaceSplit"},
        {"type": "BertPreTokenizer"},
        {"type": "Digits", "individual_digits": r.random() < 0.5},
        {"type": "Punctuation", "behavior": r.choice(behaviours)},
        {"type": "CharDelimiterSplit", "delimiter": r.choice(" -aé")},
        {"type": "UnicodeScripts"},
        {"type": "FixedLength", "length": r.choice([1, 2, 5, 16])},
        split,
        split,
    ][kind]


def decoder(r, depth=0):
    kind = r.randrange(10 if depth == 0 else 9)
    if kind == 9:
        return {"type": "Sequence", "decoders": [decoder(r, 1) for _ in range(r.randrange(0, 4))]}
    return [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {
            "type": "Strip",
            "content": r.choice([" ", "a", MARK]),
            "start": r.randrange(3),
            "stop": r.randrange(3),
        },
        {
            "type": "Metaspace",
            "replacement": MARK,
            "prepend_scheme": r.choice(["always", "first", "never"]),
            "split": True,
        },
        {"type": "BPEDecoder", "suffix": r.choice(["</w>", "b"])},
        {"type": "WordPiece", "prefix": "##", "cleanup": r.random() < 0.5},
        {
            "type": "CTC",
            "pad_token": "a",
            "word_delimiter_token": r.choice(["|", "b"]),
            "cleanup": r.random() < 0.5,
        },
        {"type": "Replace", "pattern": pattern(r), "content": r.choice(["", " ", "zz"])},
    ][kind]


def characters(r):
    base = [chr(c) for c in range(32, 127)] + list("éüñßабвгде한국日本語▁½ﬁ\n\t\u0301\u00a0")
    return [c for c in base if r.random() < 0.95]


def bpe(r, byte_level):
    vocab, merges = [], []
    prefix, suffix = (
        r.choice([("", ""), ("##", ""), ("", "</w>"), (None, None)])
        if not byte_level and r.random() < 0.4
        else (None, None)
    )
    alphabet = byte_alphabet() if byte_level or r.random() < 0.2 else characters(r)
    if r.random() < 0.5 and not byte_level:
        alphabet = (
            ["<unk>"] + ["<0x%02X>" % b for b in range(256) if r.random() < 0.9999] + alphabet
        )
    vocab += alphabet
    if prefix:
        vocab += [prefix + c for c in alphabet]
    if suffix:
        vocab += [c + suffix for c in alphabet]
    known, symbols = set(vocab), list(vocab)
    for _ in range(r.randrange(0, 300)):
        a, b = (r.choice(symbols) for _ in range(2))
        if r.random() < 0.7:
            word = r.choice(WORDS)
            at = r.randrange(1, len(word)) if len(word) > 1 else 0
            cut = r.randrange(0, at) if at else 0
            a, b = word[cut:at], word[at : at + r.randrange(1, 4)]
            if prefix:
                b = prefix + b
        if (
            a not in known
            or b not in known
            or (prefix and not b.startswith(prefix))
            or (suffix and a.endswith(suffix))
        ):
            continue
        new = a + (b[len(prefix) :] if prefix else b)
        if [a, b] in merges or len(new) > 12:
            continue
        merges.append([a, b])
        if new not in known:
            known.add(new)
            symbols.append(new)
            vocab.append(new)
    fallback = "<0x41>" in known and r.random() < 0.8
    unk = r.choice([None, "<unk>"]) if "<unk>" in known else None
    if not byte_level and unk is None and "<unk>" in known:
        unk = "<unk>"
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unk,
        "continuing_subword_prefix": prefix,
        "end_of_word_suffix": suffix,
        "fuse_unk": r.random() < 0.5,
        "byte_fallback": fallback,
        "ignore_merges": r.random() < 0.3,
        "vocab": {t: i for i, t in enumerate(vocab)},
        "merges": (
            merges
            if r.random() < 0.7 or any(" " in x for m in merges for x in m)
            else [" ".join(m) for m in merges]
        ),
    }


def pieces(r):
    found = set(characters(r)) | {MARK + w for w in WORDS}
    for w in WORDS:
        for _ in range(4):
            a = r.randrange(len(w))
            found.add(w[a : a + r.randrange(1, 5)])
    return sorted(found)


def unigram(r):
    vocab = [["<unk>", 0.0]] + [[p, -r.random() * 12] for p in pieces(r)]
    fallback = r.random() < 0.5
    if fallback:
        vocab += [["<0x%02X>" % b, -20.0] for b in range(256)]
    return {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": fallback}


def wordpiece(r):
    vocab = ["[UNK]"] + pieces(r) + ["##" + p for p in pieces(r)]
    return {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": r.choice([5, 100]),
        "vocab": {t: i for i, t in enumerate(dict.fromkeys(vocab))},
    }


def wordlevel(r):
    return {
        "type": "WordLevel",
        "vocab": {t: i for i, t in enumerate(["<unk>"] + pieces(r))},
        "unk_token": "<unk>",
    }


def added(r, size):
    contents = [
        "<s>",
        "</s>",
        "<|end|>",
        "ab",
        "hello world",
        " x",
        "é",
        "[MASK]",
        "日本",
        "LOW",
        "my_1",
        "my_12",
        "  ",
        "\n\n",
        "ﬁ",
    ]
    r.shuffle(contents)
    return [
        {
            "id": size + i,
            "content": c,
            "single_word": r.random() < 0.25,
            "lstrip": r.random() < 0.25,
            "rstrip": r.random() < 0.25,
            "normalized": r.random() < 0.4,
            "special": r.random() < 0.5,
        }
        for i, c in enumerate(contents[: r.randrange(0, 9)])
    ]


def post_processor(r, tokens, depth=0):
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": r.random() < 0.5,
        "trim_offsets": r.random() < 0.7,
        "use_regex": True,
    }
    if len(tokens) < 2:
        return r.choice([None, byte_level])
    a, b = [(t["content"], t["id"]) for t in tokens[:2]]
    special = {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in (a, b)}
    single = (
        [{"SpecialToken": {"id": a[0], "type_id": 0}}] * r.randrange(2)
        + [{"Sequence": {"id": "A", "type_id": 0}}]
        + [{"SpecialToken": {"id": b[0], "type_id": 0}}] * r.randrange(3)
    )
    template = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": special,
    }
    roberta = {
        "type": "RobertaProcessing",
        "sep": list(b),
        "cls": list(a),
        "trim_offsets": r.random() < 0.7,
        "add_prefix_space": r.random() < 0.5,
    }
    kinds = [
        None,
        byte_level,
        template,
        roberta,
        {"type": "BertProcessing", "sep": list(b), "cls": list(a)},
    ]
    if depth == 0:
        byte_level = {**byte_level, "trim_offsets": False}  # trimmed twice, offsets are nobody's
        kinds.append(
            {
                "type": "Sequence",
                "processors": [byte_level] + [p for p in [post_processor(r, tokens, 1)] if p],
            }
        )
    return r.choice(kinds)


def make(r):
    normal = normalizer(r) if r.random() < 0.6 else None
    pre = pre_tokenizer(r) if r.random() < 0.8 else None
    model = r.choice([bpe, bpe, bpe, unigram, wordpiece, wordlevel])
    byte_level = any(p and "ByteLevel" in str(p) for p in (normal, pre))
    model = bpe(r, byte_level) if model is bpe else model(r)
    tokens = added(r, len(model["vocab"]))
    vocab = (
        model["vocab"]
        if isinstance(model["vocab"], dict)
        else {p: i for i, (p, _) in enumerate(model["vocab"])}
    )
    following = len(vocab)
    for token in tokens:  # a piece of the model keeps its id, new ones follow
        known = token["content"] in vocab
        token["id"] = vocab[token["content"]] if known else following
        following += not known
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": tokens,
        "normalizer": normal,
        "pre_tokenizer": pre,
        "post_processor": post_processor(r, tokens),
        "decoder": decoder(r) if r.random() < 0.8 else None,
        "model": model,
    }


def true_offsets(d):
    """Whether the reference's offsets can be relied on: it loses count after a character that BPE
    drops, where byte
    tokens overtake an unknown one, or pieces are cut inside characters."""
    m = d["model"]
    if "ByteLevel" in str(d["normalizer"]) and (
        d["pre_tokenizer"] or "Sequence" in str(d["normalizer"])
    ):
        return False  # pieces cut inside characters
    if m["type"] != "BPE" or (m["unk_token"] and not m["byte_fallback"]):
        return True
    mapped = "ByteLevel" in str(d["normalizer"]) + str(d["pre_tokenizer"])
    return not m["byte_fallback"] and mapped and all(c in m["vocab"] for c in byte_alphabet())


def streamable(d):
    """Whether later tokens leave the text of earlier ones alone. Not so where a step looks across
    tokens: the suffix of words inside pieces, repeated tokens that count once, blanks that go
    before punctuation, bytes after other steps.
    """
    text = str(d["decoder"])
    across = "'suffix': 'b'" in text or "CTC" in text or "'cleanup': True" in text
    return not across and not ("Sequence" in text and "ByteLevel" in text)


def knows_older_unicode(d):
    """Parts for which the reference has tables of its own, older than the rest."""
    text = str(d["normalizer"]) + str(d["pre_tokenizer"])
    return any(
        name in text
        for name in ("UnicodeScripts", "StripAccents", "BertNormalizer", "'NFC", "'NFD", "'NFK")
    )


def ambiguous(d, tokenizer):
    """Added tokens that are normalized to one spelling (the reference takes any) or to nothing (it
    finds them everywhere)."""
    normal = (
        (lambda s: tokenizer.normalizer.normalize_str(s)) if tokenizer.normalizer else (lambda s: s)
    )
    spellings = [normal(t["content"]) for t in d["added_tokens"] if t["normalized"]]
    return "" in spellings or len(set(spellings)) < len(spellings)


def short(part):
    if isinstance(part, dict):
        return {
            k: (
                (v if k != "precompiled_charsmap" else "...")
                if not isinstance(v, (dict, list))
                else short(v)
            )
            for k, v in part.items()
        }
    return [short(p) for p in part] if isinstance(part, list) else part


def summary(d):
    return {
        k: short(d[k])
        for k in ("normalizer", "pre_tokenizer", "decoder", "post_processor", "added_tokens")
    } | {"model": {k: v for k, v in d["model"].items() if k not in ("vocab", "merges")}}
