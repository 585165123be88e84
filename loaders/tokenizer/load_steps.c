/* The parts of tokenizer.json that become steps: normalizers, pre-tokenizers, decoders; and
 * post-processors, which become ids before and behind the text. What is not understood is refused
 * by name. */
#include "loaders/tokenizer/load.h"

#include <stdio.h>
#include <utf8proc.h>

/* ---- patterns ---- */

static enum rwk_status read_pattern(const struct loader *l, const struct rwk_node *node,
                                    struct rwk_pattern **ret)
{
    const struct rwk_node *pattern = rwk_tree_member(node, "pattern");
    const struct rwk_node *literal = rwk_tree_member(pattern, "String"),
                          *regex = rwk_tree_member(pattern, "Regex");
    const struct rwk_node *source = literal ? literal : regex;
    if (!source || source->type != RWK_JSON_STRING)
        return rwk_load_malformed(l, "pattern", "must be {\"String\": ...} or {\"Regex\": ...}");
    return rwk_pattern_compile(ret, source->string, source->string_size, literal != NULL,
                               &l->t->memory, l->file, l->error);
}

/* ---- normalizers ---- */

/* A step or a Sequence of steps under `key`; sequences may nest, to a depth that the reader bounds.
 */
enum rwk_status rwk_read_each(const struct loader *l, const struct rwk_node *node, const char *key,
                              rwk_node_fn fn)
{
    const struct rwk_node *stack[RWK_JSON_DEPTH];
    int depth = 0;
    enum rwk_status status = RWK_STATUS_OK;
    if (!node)
        return RWK_STATUS_OK;
    for (stack[depth++] = node; depth > 0 && !status;) {
        const struct rwk_node *n = stack[--depth];
        bool only = n == node;
        if (!only && n->next)
            stack[depth++] = n->next;
        if (n->type != RWK_JSON_OBJECT)
            return rwk_load_malformed(l, key, "must hold objects");
        if (strcmp(rwk_node_type(n), "Sequence") != 0) {
            status = fn(l, n);
            continue;
        }
        const struct rwk_node *list = rwk_tree_member(n, key);
        if (!list || list->type != RWK_JSON_ARRAY)
            return rwk_load_malformed(l, key, "a Sequence must hold a list");
        if (list->children)
            stack[depth++] = list->children;
    }
    return status;
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static enum rwk_status read_charsmap(const struct loader *l, const struct rwk_node *node,
                                     struct rwk_step *step)
{
    size_t n, size = 0;
    const char *text = rwk_node_text(node, "precompiled_charsmap", NULL, &n);
    char *data = text ? rwk_arena_alloc(&l->t->arena, n + 8) : NULL;
    uint32_t bits = 0, count = 0;
    if (!text)
        return rwk_load_malformed(l, "precompiled_charsmap", "is missing");
    if (!data)
        return rwk_fail_nomem(l->error, n);
    for (size_t i = 0; i < n && text[i] != '='; i++) {
        const char *digit = strchr(base64, text[i]);
        if (!digit)
            return rwk_load_malformed(l, "precompiled_charsmap", "is not base64");
        bits = bits << 6 | (uint32_t)(digit - base64);
        if ((count += 6) >= 8)
            data[size++] = (char)(bits >> (count -= 8));
    }
    uint32_t trie = size >= 4 ? (unsigned char)data[0] | (uint32_t)(unsigned char)data[1] << 8 |
                                    (uint32_t)(unsigned char)data[2] << 16 |
                                    (uint32_t)(unsigned char)data[3] << 24
                              : 0;
    if (size == 0)
        return RWK_STATUS_OK;
    if (size < 4 || trie > size - 4)
        return rwk_load_malformed(l, "precompiled_charsmap", "is truncated");
    *step =
        (struct rwk_step) { .kind = RWK_STEP_PRECOMPILED, .content = data, .content_size = size };
    return RWK_STATUS_OK;
}

enum rwk_status rwk_read_normalizer(const struct loader *l, const struct rwk_node *node)
{
    static const struct {
        const char *type;
        enum rwk_step_kind kind;
        int option;
    } simple[] = {
        { "NFC", RWK_STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_COMPOSE },
        { "NFD", RWK_STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE },
        { "NFKC", RWK_STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT },
        { "NFKD", RWK_STEP_UNICODE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT },
        { "Lowercase", RWK_STEP_LOWER, 0 },
        { "StripAccents", RWK_STEP_STRIP_ACCENTS, 0 },
        { "Nmt", RWK_STEP_NMT, 0 },
        { "ByteLevel", RWK_STEP_MAP_BYTES, 0 },
    };
    const char *type = rwk_node_type(node);
    struct rwk_step step = { .kind = RWK_STEP_REPLACE };
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
        if (strcmp(type, simple[i].type) == 0)
            return rwk_steps_add(
                l->t, &l->t->normalizer,
                (struct rwk_step) { .kind = simple[i].kind, .option = simple[i].option }, l->error);
    if (strcmp(type, "Strip") == 0) {
        step = (struct rwk_step) { .kind = RWK_STEP_STRIP,
                                   .option = rwk_tree_flag(node, "strip_left", true) |
                                             rwk_tree_flag(node, "strip_right", true) << 1 };
    } else if (strcmp(type, "Prepend") == 0) {
        step.kind = RWK_STEP_PREPEND;
        step.content = rwk_node_text(node, "prepend", "", &step.content_size);
    } else if (strcmp(type, "Replace") == 0) {
        step.content = rwk_node_text(node, "content", "", &step.content_size);
        status = read_pattern(l, node, &step.pattern);
    } else if (strcmp(type, "Precompiled") == 0) {
        step.kind = RWK_STEP_SPLIT;
        status = read_charsmap(l, node, &step);
        if (!status && step.kind == RWK_STEP_SPLIT)
            return RWK_STATUS_OK; /* an empty map */
    } else if (strcmp(type, "BertNormalizer") == 0) {
        const struct rwk_node *accents = rwk_tree_member(node, "strip_accents");
        bool lower = rwk_tree_flag(node, "lowercase", true);
        bool strip =
            accents && accents->type != RWK_JSON_NULL ? accents->type == RWK_JSON_TRUE : lower;
        const struct rwk_step steps[] = { { .kind = RWK_STEP_BERT_CLEAN },
                                          { .kind = RWK_STEP_BERT_CHINESE },
                                          { .kind = RWK_STEP_UNICODE,
                                            .option = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE },
                                          { .kind = RWK_STEP_STRIP_NONSPACING },
                                          { .kind = RWK_STEP_LOWER } };
        const bool wanted[] = { rwk_tree_flag(node, "clean_text", true),
                                rwk_tree_flag(node, "handle_chinese_chars", true), strip, strip,
                                lower };
        for (size_t i = 0; i < 5 && !status; i++)
            if (wanted[i])
                status = rwk_steps_add(l->t, &l->t->normalizer, steps[i], l->error);
        return status;
    } else {
        return rwk_load_unsupported(l, "normalizer", type);
    }
    return status ? status : rwk_steps_add(l->t, &l->t->normalizer, step, l->error);
}

/* ---- pre-tokenizers ---- */

static enum rwk_status read_behaviour(const struct loader *l, const struct rwk_node *node,
                                      int fallback, int *ret)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous" };
    size_t n;
    const char *name = rwk_node_text(node, "behavior", NULL, &n);
    *ret = fallback;
    for (int i = 0; name; i++) {
        if (i == 5)
            return rwk_load_unsupported(l, "behavior", name);
        if (strcmp(name, names[i]) == 0) {
            *ret = i;
            return RWK_STATUS_OK;
        }
    }
    return RWK_STATUS_OK;
}

static enum rwk_status add_split(const struct loader *l, const char *regex, bool literal,
                                 int behaviour, bool invert)
{
    struct rwk_step step = { .kind = RWK_STEP_SPLIT, .option = behaviour, .invert = invert };
    enum rwk_status status = rwk_pattern_compile(&step.pattern, regex, strlen(regex), literal,
                                                 &l->t->memory, l->file, l->error);
    return status ? status : rwk_steps_add(l->t, &l->t->splitter, step, l->error);
}

/* ASCII's, and the category P as it was before these were assigned. */
#define PUNCTUATION                                                                                \
    "(?!["                                                                                         \
    "\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b4e}-\\x{1b4f}\\x{1b7d}-\\x{1b7f}"               \
    "\\x{2e43}-\\x{2e4f}\\x{2e52}-\\x{2e5d}\\x{10d6e}\\x{10ead}\\x{10f55}-\\x{10f59}"              \
    "\\x{10f86}-\\x{10f89}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}"                              \
    "\\x{1144b}-\\x{1144f}\\x{1145a}-\\x{1145b}\\x{1145d}\\x{11660}-\\x{1166c}"                    \
    "\\x{116b9}\\x{1183b}\\x{11944}-\\x{11946}\\x{119e2}\\x{11a3f}-\\x{11a46}"                     \
    "\\x{11a9a}-\\x{11a9c}\\x{11a9e}-\\x{11aa2}\\x{11b00}-\\x{11b09}\\x{11be1}"                    \
    "\\x{11c41}-\\x{11c45}\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}"                              \
    "\\x{11f43}-\\x{11f4f}\\x{11fff}\\x{12ff1}-\\x{12ff2}\\x{16d6d}-\\x{16d6f}"                    \
    "\\x{16e97}-\\x{16e9a}\\x{16fe2}\\x{1e5ff}\\x{1e95e}-\\x{1e95f}"                               \
    "])[!-/:-@\\[-`{-~\\p{P}\\x{166d}\\x{111c9}]"

/* Rust's \w, and what its is_numeric has besides N. */
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"  \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define NUMERIC "[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]"

static enum rwk_prepend read_prepend(const struct rwk_node *node)
{
    size_t n;
    const char *scheme = rwk_node_text(node, "prepend_scheme", NULL, &n);
    if (!scheme)
        return rwk_tree_flag(node, "add_prefix_space", true) ? RWK_PREPEND_ALWAYS
                                                             : RWK_PREPEND_NEVER;
    return strcmp(scheme, "first") == 0   ? RWK_PREPEND_FIRST
           : strcmp(scheme, "never") == 0 ? RWK_PREPEND_NEVER
                                          : RWK_PREPEND_ALWAYS;
}

static enum rwk_status read_metaspace(const struct loader *l, const struct rwk_node *node)
{
    struct rwk_step step = { .kind = RWK_STEP_METASPACE, .option = read_prepend(node) };
    step.content = rwk_node_text(node, "replacement", "\xe2\x96\x81", &step.content_size);
    enum rwk_status status = rwk_steps_add(l->t, &l->t->splitter, step, l->error);
    if (status || !rwk_tree_flag(node, "split", true))
        return status;
    return add_split(l, step.content, true, RWK_MERGED_WITH_NEXT, false);
}

/* Runs of one script, where blanks, unassigned characters and scripts that the reference does not
 * know belong to the run before them, and Japanese is one script. */
static enum rwk_status add_scripts(const struct loader *l)
{
    static const char scripts[] =
        "Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah "
        "Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal "
        "Carian Caucasian_Albanian Chakma Cham Cherokee Common Coptic Cuneiform Cypriot "
        "Cyrillic Deseret Devanagari Duployan Egyptian_Hieroglyphs Elbasan Ethiopic Georgian "
        "Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Hangul Hanunoo Hatran Hebrew "
        "Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese "
        "Kaithi Kannada Kayah_Li Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu "
        "Linear_A Linear_B Lisu Lycian Lydian Mahajani Malayalam Mandaic Manichaean Marchen "
        "Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi "
        "Mongolian Mro Multani Myanmar Nabataean New_Tai_Lue Newa Nko Ogham Ol_Chiki "
        "Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_South_Arabian "
        "Old_Turkic Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa "
        "Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian "
        "Siddham SignWriting Sinhala Sora_Sompeng Sundanese Syloti_Nagri Syriac Tagalog "
        "Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangut Telugu Thaana Thai Tibetan "
        "Tifinagh Tirhuta Ugaritic Vai Warang_Citi Yi";
#define ANY                                                                                        \
    " \\p{sc:Chorasmian}\\p{sc:Cypro_Minoan}\\p{sc:Dives_Akuru}\\p{sc:Dogra}\\p{sc:Elymaic}"       \
    "\\p{sc:Gunjala_Gondi}\\p{sc:Hanifi_Rohingya}\\p{sc:Khitan_Small_Script}\\p{sc:Makasar}"       \
    "\\p{sc:Masaram_Gondi}\\p{sc:Medefaidrin}\\p{sc:Nandinagari}\\p{sc:Nushu}"                     \
    "\\p{sc:Nyiakeng_Puachue_Hmong}\\p{sc:Old_Sogdian}\\p{sc:Old_Uyghur}\\p{sc:Sogdian}"           \
    "\\p{sc:Soyombo}\\p{sc:Tangsa}\\p{sc:Toto}\\p{sc:Vithkuqi}\\p{sc:Wancho}\\p{sc:Yezidi}"        \
    "\\p{sc:Zanabazar_Square}\\p{sc:Unknown}"
#define JAPANESE "\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30fc}"
    static const char begin[] =
        "(?(DEFINE)(?<any>[" ANY "]))[" JAPANESE "](?:[" JAPANESE "]|(?&any))*";
    struct rwk_buffer pattern = { .memory = &l->t->memory };
    char part[128];
    rwk_buffer_append(&pattern, begin, sizeof begin - 1);
    for (const char *name = scripts, *end; *name; name = *end ? end + 1 : end) {
        end = strchrnul(name, ' ');
        int size = (int)(end - name);
        int n = snprintf(part, sizeof part,
                         "|(?![ \\x{30fc}])\\p{sc:%.*s}(?:(?!\\x{30fc})\\p{sc:%.*s}|(?&any))*",
                         size, name, size, name);
        rwk_buffer_append(&pattern, part, (size_t)n);
    }
    rwk_buffer_append(&pattern, "", 1);
    enum rwk_status status = pattern.failed ? rwk_fail_nomem(l->error, pattern.size)
                                            : add_split(l, pattern.data, false, RWK_REMOVED, true);
    rwk_buffer_finish(&pattern);
    return status;
}

enum rwk_status rwk_read_pre_tokenizer(const struct loader *l, const struct rwk_node *node)
{
    const char *type = rwk_node_type(node);
    enum rwk_status status;
    int behaviour;
    if (strcmp(type, "ByteLevel") == 0)
        return rwk_add_byte_level(l->t, rwk_tree_flag(node, "add_prefix_space", true),
                                  rwk_tree_flag(node, "use_regex", true), l->file, l->error);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(l, node);
    if (strcmp(type, "Whitespace") == 0)
        return add_split(l, "[" WORD "]+|[^" WORD "\\s]+", false, RWK_REMOVED, true);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_split(l, "\\s", false, RWK_REMOVED, false);
    if (strcmp(type, "Digits") == 0)
        return add_split(
            l, NUMERIC, false,
            rwk_tree_flag(node, "individual_digits", false) ? RWK_ISOLATED : RWK_CONTIGUOUS, false);
    if (strcmp(type, "Punctuation") == 0) {
        status = read_behaviour(l, node, RWK_ISOLATED, &behaviour);
        return status ? status : add_split(l, PUNCTUATION, false, behaviour, false);
    }
    if (strcmp(type, "BertPreTokenizer") == 0) {
        status = add_split(l, "\\s", false, RWK_REMOVED, false);
        return status ? status : add_split(l, PUNCTUATION, false, RWK_ISOLATED, false);
    }
    if (strcmp(type, "CharDelimiterSplit") == 0) {
        size_t n;
        return add_split(l, rwk_node_text(node, "delimiter", " ", &n), true, RWK_REMOVED, false);
    }
    if (strcmp(type, "UnicodeScripts") == 0)
        return add_scripts(l);
    if (strcmp(type, "FixedLength") == 0) {
        const struct rwk_node *length = rwk_tree_member(node, "length");
        char pattern[32];
        int64_t n = length ? length->is_integer ? length->integer : 0 : 5;
        if (n < 1 || n > 65535)
            return rwk_load_malformed(l, "length", "must be from 1 to 65535");
        snprintf(pattern, sizeof pattern, "(?m:.{1,%d})", (int)n);
        return add_split(l, pattern, false, RWK_ISOLATED, false);
    }
    if (strcmp(type, "Split") == 0) {
        struct rwk_step step = { .kind = RWK_STEP_SPLIT,
                                 .invert = rwk_tree_flag(node, "invert", false) };
        status = read_behaviour(l, node, RWK_ISOLATED, &step.option);
        if (!status)
            status = read_pattern(l, node, &step.pattern);
        return status ? status : rwk_steps_add(l->t, &l->t->splitter, step, l->error);
    }
    return rwk_load_unsupported(l, "pre_tokenizer", type);
}

/* ---- post-processors ---- */

/* An id before or behind the text. */
static enum rwk_status put_end(const struct loader *l, bool after, const struct rwk_node *id,
                               const char *key)
{
    struct rwk_tokenizer *t = l->t;
    uint32_t **ids = after ? &t->suffix_ids : &t->prefix_ids;
    size_t *n = after ? &t->n_suffix : &t->n_prefix;
    if (!id || !id->is_integer || id->integer < 0 || id->integer >= t->n_entries)
        return rwk_load_malformed(l, key, "names an id that is not in the vocabulary");
    uint32_t *grown = rwk_realloc(&t->memory, *ids, (*n + 1) * sizeof *grown);
    if (!grown)
        return rwk_fail_nomem(l->error, (*n + 1) * sizeof *grown);
    *ids = grown;
    grown[(*n)++] = (uint32_t)id->integer;
    return RWK_STATUS_OK;
}

static enum rwk_status read_template(const struct loader *l, const struct rwk_node *node)
{
    const struct rwk_node *single = rwk_tree_member(node, "single"),
                          *specials = rwk_tree_member(node, "special_tokens");
    bool after = false;
    enum rwk_status status = RWK_STATUS_OK;
    if (!single || single->type != RWK_JSON_ARRAY)
        return rwk_load_malformed(l, "post_processor", "a template must be a list");
    for (const struct rwk_node *part = single->children; part && !status; part = part->next) {
        const struct rwk_node *special = rwk_tree_find(part, "SpecialToken.id");
        if (rwk_tree_member(part, "Sequence")) {
            if (after)
                return rwk_load_unsupported(l, "post_processor",
                                            "a template that repeats the text");
            after = true;
            continue;
        }
        if (!special || special->type != RWK_JSON_STRING)
            return rwk_load_malformed(l, "post_processor",
                                      "a template's part is neither Sequence nor SpecialToken");
        const struct rwk_node *ids =
            rwk_tree_member(rwk_tree_member(specials, special->string), "ids");
        if (!ids || ids->type != RWK_JSON_ARRAY)
            return rwk_load_malformed(l, "post_processor",
                                      "a template names a special token that is not defined");
        for (const struct rwk_node *id = ids->children; id && !status; id = id->next)
            status = put_end(l, after, id, "post_processor");
    }
    return status || after
               ? status
               : rwk_load_unsupported(l, "post_processor", "a template without the text");
}

/* "cls" and "sep": [token, id] */
static enum rwk_status read_pairs(const struct loader *l, const struct rwk_node *node)
{
    static const char *const keys[] = { "cls", "sep" };
    enum rwk_status status = RWK_STATUS_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const struct rwk_node *pair = rwk_tree_member(node, keys[i]);
        const struct rwk_node *token = pair && pair->type == RWK_JSON_ARRAY ? pair->children : NULL;
        status = put_end(l, i == 1, token ? token->next : NULL, keys[i]);
    }
    return status;
}

enum rwk_status rwk_read_post_processor(const struct loader *l, const struct rwk_node *node)
{
    const char *type = rwk_node_type(node);
    bool byte_level = strcmp(type, "ByteLevel") == 0,
         roberta = strcmp(type, "RobertaProcessing") == 0;
    if ((byte_level || roberta) && rwk_tree_flag(node, "trim_offsets", true))
        l->t->trim = (struct rwk_trim) { true, rwk_tree_flag(node, "add_prefix_space", true) };
    if (byte_level)
        return RWK_STATUS_OK;
    if (l->t->n_prefix || l->t->n_suffix)
        return rwk_load_unsupported(l, "post_processor", "a second processor that adds tokens");
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(l, node);
    if (roberta || strcmp(type, "BertProcessing") == 0)
        return read_pairs(l, node);
    return rwk_load_unsupported(l, "post_processor", type);
}

/* ---- decoders ---- */

enum rwk_status rwk_read_decoder(const struct loader *l, const struct rwk_node *node)
{
    const char *type = rwk_node_type(node);
    struct rwk_decode_step step = { .kind = RWK_DECODE_FUSE };
    enum rwk_status status = RWK_STATUS_OK;
    if (strcmp(type, "ByteLevel") == 0) {
        step.kind = RWK_DECODE_BYTES;
    } else if (strcmp(type, "ByteFallback") == 0) {
        step.kind = RWK_DECODE_BYTE_FALLBACK;
    } else if (strcmp(type, "Replace") == 0) {
        step.kind = RWK_DECODE_REPLACE;
        step.to = rwk_node_text(node, "content", "", &step.to_size);
        status = read_pattern(l, node, &step.pattern);
    } else if (strcmp(type, "Strip") == 0) {
        const struct rwk_node *start = rwk_tree_member(node, "start"),
                              *stop = rwk_tree_member(node, "stop");
        step.kind = RWK_DECODE_STRIP;
        step.from = rwk_node_text(node, "content", " ", &step.from_size);
        step.start =
            start && start->is_integer && start->integer > 0 ? (uint32_t)start->integer : 0;
        step.stop = stop && stop->is_integer && stop->integer > 0 ? (uint32_t)stop->integer : 0;
    } else if (strcmp(type, "Metaspace") == 0) {
        step.kind = RWK_DECODE_METASPACE;
        step.from = rwk_node_text(node, "replacement", "\xe2\x96\x81", &step.from_size);
        step.option = read_prepend(node);
    } else if (strcmp(type, "BPEDecoder") == 0) {
        step.kind = RWK_DECODE_BPE;
        step.from = rwk_node_text(node, "suffix", "</w>", &step.from_size);
    } else if (strcmp(type, "WordPiece") == 0) {
        step.kind = RWK_DECODE_WORDPIECE;
        step.from = rwk_node_text(node, "prefix", "##", &step.from_size);
        step.option = rwk_tree_flag(node, "cleanup", true);
    } else if (strcmp(type, "CTC") == 0) {
        step.kind = RWK_DECODE_CTC;
        step.from = rwk_node_text(node, "pad_token", "<pad>", &step.from_size);
        step.to = rwk_node_text(node, "word_delimiter_token", "|", &step.to_size);
        step.option = rwk_tree_flag(node, "cleanup", true);
    } else if (strcmp(type, "Fuse") != 0) {
        return rwk_load_unsupported(l, "decoder", type);
    }
    return status ? status : rwk_decoder_add(l->t, step, l->error);
}
