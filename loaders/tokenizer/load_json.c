/* tokenizer.json.
 *
 * The file's members are found first (their order is free), then read in the order that they need each other: model,
 * normalizer, added tokens, pre-tokenizer, post-processor, decoder. Small members become trees; vocabulary and merges are
 * read straight from the text. What is not understood is refused by name. */
#include "loaders/tokenizer/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

struct loader {
    struct rwk_tokenizer *t;
    const char *file;
    struct rwk_error *error;
};

struct member {
    const char *key;
    const char *text; /* NULL: absent */
    size_t size;
};

static enum rwk_status unsupported(const struct loader *l, const char *what, const char *name)
{
    return rwk_fail_on(l->error, RWK_STATUS_UNSUPPORTED, l->file, what, "\"%.60s\" is not supported", name);
}

static enum rwk_status malformed(const struct loader *l, const char *subject, const char *what)
{
    return rwk_fail_on(l->error, RWK_STATUS_FORMAT, l->file, subject, "%s", what);
}

/* Finds the values of the wanted members of the object that text holds. */
static enum rwk_status find_members(const struct loader *l, const char *text, size_t size, struct member *members, size_t n)
{
    struct rwk_json json;
    rwk_json_init(&json, text, size, true, l->file, l->error);
    if (rwk_json_next(&json) != RWK_JSON_OBJECT)
        return rwk_json_fail(&json, "an object is wanted");
    while (rwk_json_next(&json) == RWK_JSON_KEY) {
        struct member *found = NULL;
        for (size_t i = 0; i < n && !found; i++)
            found = rwk_json_equals(&json, members[i].key) ? &members[i] : NULL;
        size_t begin = json.at;
        if (!rwk_json_skip(&json))
            return json.status;
        if (found && found->text)
            return rwk_json_fail(&json, "\"%s\" occurs twice", found->key);
        if (found) {
            found->text = text + begin;
            found->size = json.at - begin;
        }
    }
    if (!json.status && rwk_json_next(&json) == RWK_JSON_ERROR)
        return json.status;
    return json.status;
}

static bool is_null(const struct member *m)
{
    if (!m->text)
        return true;
    size_t i = strspn(m->text, " \t\r\n");
    return m->size - i >= 4 && memcmp(m->text + i, "null", 4) == 0;
}

static enum rwk_status tree_of(const struct loader *l, const struct member *m, const struct rwk_node **ret)
{
    struct rwk_node *root = NULL;
    *ret = NULL;
    if (is_null(m))
        return RWK_STATUS_OK;
    enum rwk_status status = rwk_tree_parse(&root, &l->t->arena, m->text, m->size, l->file, l->error);
    *ret = root;
    return status;
}

static const char *text_of(const struct rwk_node *node, const char *key, const char *fallback, size_t *ret_size)
{
    const struct rwk_node *m = rwk_tree_member(node, key);
    if (m && m->type == RWK_JSON_STRING) {
        *ret_size = m->string_size;
        return m->string;
    }
    *ret_size = fallback ? strlen(fallback) : 0;
    return fallback;
}

static const char *type_of(const struct rwk_node *node)
{
    const struct rwk_node *type = rwk_tree_member(node, "type");
    return type && type->type == RWK_JSON_STRING ? type->string : "";
}

/* ---- vocabulary and merges ---- */

static enum rwk_status take(struct rwk_json *json, struct rwk_buffer *buffer, struct rwk_error *error)
{
    buffer->size = 0;
    if (!rwk_buffer_reserve(buffer, json->raw_size + 1))
        return rwk_fail_nomem(error, json->raw_size);
    buffer->size = rwk_json_decode(json, buffer->data);
    return RWK_STATUS_OK;
}

/* An object of piece -> id (BPE, WordPiece, WordLevel). Ids beyond what the file's size can justify are refused. */
static enum rwk_status read_vocab(const struct loader *l, const struct member *m)
{
    struct rwk_json json;
    struct rwk_buffer piece = { .memory = &l->t->memory };
    rwk_json_init(&json, m->text, m->size, false, l->file, l->error);
    if (rwk_json_next(&json) != RWK_JSON_OBJECT)
        return rwk_json_fail(&json, "the vocabulary must be an object");
    enum rwk_status status = rwk_vocab_init(l->t, 0, l->error);
    if (!status && !rwk_names_reserve(&l->t->vocab, m->size / 32)) /* about as many as there are */
        status = rwk_fail_nomem(l->error, m->size);
    while (!status && rwk_json_next(&json) == RWK_JSON_KEY) {
        uint64_t id;
        status = take(&json, &piece, l->error);
        if (!status && (rwk_json_next(&json) != RWK_JSON_NUMBER || !rwk_json_uint64(&json, &id) || id > m->size))
            status = rwk_json_fail(&json, "the vocabulary must map pieces to ids in a sensible range");
        if (!status)
            status = rwk_vocab_put(l->t, (uint32_t)id, piece.data, piece.size, l->error);
    }
    rwk_buffer_finish(&piece);
    rwk_vocab_finish(l->t);
    return status ? status : json.status;
}

static enum rwk_status read_merge(const struct loader *l, struct rwk_json *json, enum rwk_json_event event,
                                  struct rwk_buffer *left, struct rwk_buffer *right, uint32_t rank)
{
    enum rwk_status status = RWK_STATUS_OK;
    const char *l_text, *r_text;
    size_t l_size, r_size;
    if (event == RWK_JSON_STRING) {
        status = take(json, left, l->error);
        if (status)
            return status;
        char *blank = memchr(left->data, ' ', left->size);
        if (!blank || memchr(blank + 1, ' ', left->size - (size_t)(blank + 1 - left->data)))
            return rwk_json_fail(json, "a merge must be two pieces with one blank between them");
        l_text = left->data;
        l_size = (size_t)(blank - left->data);
        r_text = blank + 1;
        r_size = left->size - l_size - 1;
    } else {
        if (event != RWK_JSON_ARRAY || rwk_json_next(json) != RWK_JSON_STRING)
            return rwk_json_fail(json, "a merge must be a pair of pieces");
        if ((status = take(json, left, l->error)))
            return status;
        if (rwk_json_next(json) != RWK_JSON_STRING)
            return rwk_json_fail(json, "a merge must be a pair of pieces");
        if ((status = take(json, right, l->error)))
            return status;
        if (rwk_json_next(json) != RWK_JSON_ARRAY_END)
            return rwk_json_fail(json, "a merge must be a pair of pieces");
        l_text = left->data;
        l_size = left->size;
        r_text = right->data;
        r_size = right->size;
    }
    if (!rwk_merges_put(l->t, l_text, l_size, r_text, r_size, rank))
        return rwk_json_fail(json, "merge %u makes or takes a piece that is not in the vocabulary", rank);
    return RWK_STATUS_OK;
}

static enum rwk_status read_merges(const struct loader *l, const struct member *m)
{
    struct rwk_json json;
    struct rwk_buffer left = { .memory = &l->t->memory }, right = { .memory = &l->t->memory };
    size_t n = 0;
    int strings = -1;
    enum rwk_json_event event;
    enum rwk_status status = RWK_STATUS_OK;
    rwk_json_init(&json, m->text, m->size, false, l->file, l->error);
    if (rwk_json_next(&json) != RWK_JSON_ARRAY)
        return rwk_json_fail(&json, "merges must be a list");
    while ((event = rwk_json_next(&json)) != RWK_JSON_ARRAY_END && rwk_json_skip(&json))
        n++;
    if (json.status)
        return json.status;
    status = rwk_merges_init(l->t, n, l->error);
    rwk_json_init(&json, m->text, m->size, false, l->file, l->error);
    rwk_json_next(&json);
    for (uint32_t rank = 0; !status && (event = rwk_json_next(&json)) != RWK_JSON_ARRAY_END; rank++) {
        if (strings >= 0 && strings != (event == RWK_JSON_STRING))
            status = rwk_json_fail(&json, "merges must be all strings or all pairs");
        strings = event == RWK_JSON_STRING;
        if (!status)
            status = read_merge(l, &json, event, &left, &right, rank);
    }
    rwk_buffer_finish(&left);
    rwk_buffer_finish(&right);
    return status ? status : json.status;
}

/* A score as the reference reads it: digits as one whole number, rounded, then scaled by a power of ten and rounded again.
 * Where two segmentations have the same pieces in another order, the last bit decides. */
static bool read_score(const struct rwk_json *json, double *ret)
{
    const char *p = json->raw, *end = p + json->raw_size;
    uint64_t digits = 0;
    int exponent = 0, written = 0;
    bool negative = *p == '-', fraction = false, full = false, minus = false;
    for (p += negative; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        full = full || digits > (UINT64_MAX - (uint64_t)(*p - '0')) / 10;
        if (!full)
            digits = digits * 10 + (uint64_t)(*p - '0');
        exponent += full && !fraction ? 1 : !full && fraction ? -1 : 0;
    }
    for (p += p < end; p < end && written < 10000; p++) {
        minus |= *p == '-';
        written = *p >= '0' && *p <= '9' ? written * 10 + (*p - '0') : written;
    }
    exponent += minus ? -written : written;
    double value = (double)digits, power;
    char text[16];
    int n = snprintf(text, sizeof text, "1e%d", abs(exponent));
    if (digits && (abs(exponent) > 308 || !rwk_parse_double(text, (size_t)n, &power)))
        return rwk_json_double(json, ret);
    value = !digits ? 0 : exponent < 0 ? value / power : value * power;
    *ret = negative ? -value : value;
    return isfinite(value);
}

/* A list of [piece, score]. */
static enum rwk_status read_unigram(const struct loader *l, const struct member *m)
{
    struct rwk_json json;
    struct rwk_buffer piece = { .memory = &l->t->memory };
    enum rwk_json_event event;
    uint32_t id = 0;
    enum rwk_status status = RWK_STATUS_OK;
    rwk_json_init(&json, m->text, m->size, false, l->file, l->error);
    if (rwk_json_next(&json) != RWK_JSON_ARRAY)
        return rwk_json_fail(&json, "the vocabulary must be a list");
    while ((event = rwk_json_next(&json)) != RWK_JSON_ARRAY_END && rwk_json_skip(&json))
        id++;
    status = json.status ? json.status : rwk_vocab_init(l->t, id, l->error);
    rwk_json_init(&json, m->text, m->size, false, l->file, l->error);
    rwk_json_next(&json);
    for (id = 0; !status && (event = rwk_json_next(&json)) != RWK_JSON_ARRAY_END; id++) {
        double score = 0;
        if (event != RWK_JSON_ARRAY || rwk_json_next(&json) != RWK_JSON_STRING)
            status = rwk_json_fail(&json, "the vocabulary must hold [piece, score] pairs");
        if (!status)
            status = take(&json, &piece, l->error);
        if (!status && (rwk_json_next(&json) != RWK_JSON_NUMBER || !read_score(&json, &score) ||
                        rwk_json_next(&json) != RWK_JSON_ARRAY_END))
            status = rwk_json_fail(&json, "the vocabulary must hold [piece, score] pairs");
        if (!status)
            status = rwk_vocab_put(l->t, id, piece.data, piece.size, l->error);
        if (status)
            break;
        l->t->entries[id].score = score;
        l->t->min_score = id == 0 || score < l->t->min_score ? score : l->t->min_score;
        if (!rwk_trie_insert(&l->t->pieces, piece.data, piece.size, id))
            status = rwk_fail_nomem(l->error, piece.size);
    }
    rwk_buffer_finish(&piece);
    rwk_vocab_finish(l->t);
    return status ? status : json.status;
}

/* ---- model ---- */

enum { M_TYPE, M_VOCAB, M_MERGES, M_UNK, M_UNK_ID, M_PREFIX, M_SUFFIX, M_FUSE, M_BYTES, M_IGNORE, M_MAX_WORD, N_MODEL };

static enum rwk_status model_flag(const struct loader *l, const struct member *m, bool *ret)
{
    const struct rwk_node *node;
    enum rwk_status status = tree_of(l, m, &node);
    if (!status && node && node->type != RWK_JSON_TRUE && node->type != RWK_JSON_FALSE)
        return malformed(l, m->key, "must be true or false");
    if (!status && node)
        *ret = node->type == RWK_JSON_TRUE;
    return status;
}

static enum rwk_status model_text(const struct loader *l, const struct member *m, const char **ret, size_t *ret_size)
{
    const struct rwk_node *node;
    enum rwk_status status = tree_of(l, m, &node);
    if (!status && node && node->type != RWK_JSON_STRING)
        return malformed(l, m->key, "must be a string");
    if (!status && node) {
        *ret = node->string;
        *ret_size = node->string_size;
    }
    return status;
}

/* A whole number of at least 0; *ret stays where the member is missing. */
static enum rwk_status model_number(const struct loader *l, const struct member *m, uint64_t *ret)
{
    const struct rwk_node *node;
    enum rwk_status status = tree_of(l, m, &node);
    if (!status && node && (!node->is_integer || node->integer < 0))
        return malformed(l, m->key, "must be a whole number");
    if (!status && node)
        *ret = (uint64_t)node->integer;
    return status;
}

static enum rwk_status read_flags(const struct loader *l, const struct member *m)
{
    struct rwk_tokenizer *t = l->t;
    enum rwk_status status = model_flag(l, &m[M_FUSE], &t->fuse_unk);
    if (!status)
        status = model_flag(l, &m[M_BYTES], &t->byte_fallback);
    if (!status)
        status = model_flag(l, &m[M_IGNORE], &t->ignore_merges);
    if (!status)
        status = model_number(l, &m[M_MAX_WORD], &t->max_word);
    if (!status)
        status = model_text(l, &m[M_UNK], &t->unk_name, &t->unk_name_size);
    if (!status)
        status = model_text(l, &m[M_PREFIX], &t->word_prefix, &t->word_prefix_size);
    return status ? status : model_text(l, &m[M_SUFFIX], &t->word_suffix, &t->word_suffix_size);
}

static enum rwk_status read_unk(const struct loader *l, const struct member *m)
{
    struct rwk_tokenizer *t = l->t;
    uint64_t id = UINT64_MAX;
    if (t->model == RWK_MODEL_UNIGRAM) {
        enum rwk_status status = model_number(l, &m[M_UNK_ID], &id);
        if (!status && id != UINT64_MAX && id >= t->n_entries)
            return malformed(l, "unk_id", "is not in the vocabulary");
        t->unk = id == UINT64_MAX ? RWK_TOKEN_NONE : (uint32_t)id;
        return status;
    }
    if (t->unk_name)
        t->unk = rwk_vocab_find(t, t->unk_name, t->unk_name_size);
    return RWK_STATUS_OK;
}

static enum rwk_status read_model(const struct loader *l, const struct member *model)
{
    struct rwk_tokenizer *t = l->t;
    struct member m[N_MODEL] = { { .key = "type" }, { .key = "vocab" }, { .key = "merges" }, { .key = "unk_token" },
                                 { .key = "unk_id" }, { .key = "continuing_subword_prefix" }, { .key = "end_of_word_suffix" },
                                 { .key = "fuse_unk" }, { .key = "byte_fallback" }, { .key = "ignore_merges" },
                                 { .key = "max_input_chars_per_word" } };
    static const struct {
        const char *type, *unk, *prefix; /* and what is meant where the file says nothing */
    } kinds[] = { [RWK_MODEL_BPE] = { "BPE", NULL, "" }, [RWK_MODEL_UNIGRAM] = { "Unigram", NULL, "" },
                  [RWK_MODEL_WORDPIECE] = { "WordPiece", "[UNK]", "##" }, [RWK_MODEL_WORDLEVEL] = { "WordLevel", "<unk>", "" } };
    const char *type = NULL;
    size_t n = 0, kind = 0;
    if (is_null(model))
        return malformed(l, "model", "is missing");
    enum rwk_status status = find_members(l, model->text, model->size, m, N_MODEL);
    if (!status)
        status = model_text(l, &m[M_TYPE], &type, &n);
    if (!status && !type)
        type = m[M_MERGES].text ? "BPE" : is_null(&m[M_UNK_ID]) ? "WordPiece" : "Unigram";
    if (status)
        return status;
    while (kind < sizeof kinds / sizeof *kinds && strcmp(kinds[kind].type, type) != 0)
        kind++;
    if (kind == sizeof kinds / sizeof *kinds)
        return unsupported(l, "model", type);
    if (!m[M_VOCAB].text)
        return malformed(l, "vocab", "is missing");
    t->model = (enum rwk_model_kind)kind;
    t->max_word = 100;
    t->unk_name = kinds[kind].unk;
    t->unk_name_size = t->unk_name ? strlen(t->unk_name) : 0;
    t->word_prefix = kinds[kind].prefix;
    t->word_prefix_size = strlen(t->word_prefix);
    status = read_flags(l, m);
    if (!status)
        status = kind == RWK_MODEL_UNIGRAM ? read_unigram(l, &m[M_VOCAB]) : read_vocab(l, &m[M_VOCAB]);
    if (!status)
        status = read_unk(l, m);
    if (!status && kind == RWK_MODEL_BPE && !is_null(&m[M_MERGES]))
        status = read_merges(l, &m[M_MERGES]);
    return status || kind != RWK_MODEL_BPE ? status : rwk_merges_finish(t, l->error);
}

/* ---- patterns ---- */

static enum rwk_status read_pattern(const struct loader *l, const struct rwk_node *node, struct rwk_pattern **ret)
{
    const struct rwk_node *pattern = rwk_tree_member(node, "pattern");
    const struct rwk_node *literal = rwk_tree_member(pattern, "String"), *regex = rwk_tree_member(pattern, "Regex");
    const struct rwk_node *source = literal ? literal : regex;
    if (!source || source->type != RWK_JSON_STRING)
        return malformed(l, "pattern", "must be {\"String\": ...} or {\"Regex\": ...}");
    return rwk_pattern_compile(ret, source->string, source->string_size, literal != NULL, &l->t->memory, l->file, l->error);
}

/* ---- normalizers ---- */

typedef enum rwk_status (*node_fn)(const struct loader *l, const struct rwk_node *node);

/* A step or a Sequence of steps under `key`; sequences may nest, to a depth that the reader bounds. */
static enum rwk_status each_step(const struct loader *l, const struct rwk_node *node, const char *key, node_fn fn)
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
            return malformed(l, key, "must hold objects");
        if (strcmp(type_of(n), "Sequence") != 0) {
            status = fn(l, n);
            continue;
        }
        const struct rwk_node *list = rwk_tree_member(n, key);
        if (!list || list->type != RWK_JSON_ARRAY)
            return malformed(l, key, "a Sequence must hold a list");
        if (list->children)
            stack[depth++] = list->children;
    }
    return status;
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static enum rwk_status read_charsmap(const struct loader *l, const struct rwk_node *node, struct rwk_step *step)
{
    size_t n, size = 0;
    const char *text = text_of(node, "precompiled_charsmap", NULL, &n);
    char *data = text ? rwk_arena_alloc(&l->t->arena, n + 8) : NULL;
    uint32_t bits = 0, count = 0;
    if (!text)
        return malformed(l, "precompiled_charsmap", "is missing");
    if (!data)
        return rwk_fail_nomem(l->error, n);
    for (size_t i = 0; i < n && text[i] != '='; i++) {
        const char *digit = strchr(base64, text[i]);
        if (!digit)
            return malformed(l, "precompiled_charsmap", "is not base64");
        bits = bits << 6 | (uint32_t)(digit - base64);
        if ((count += 6) >= 8)
            data[size++] = (char)(bits >> (count -= 8));
    }
    uint32_t trie = size >= 4 ? (unsigned char)data[0] | (uint32_t)(unsigned char)data[1] << 8 |
                                (uint32_t)(unsigned char)data[2] << 16 | (uint32_t)(unsigned char)data[3] << 24 : 0;
    if (size == 0)
        return RWK_STATUS_OK;
    if (size < 4 || trie > size - 4)
        return malformed(l, "precompiled_charsmap", "is truncated");
    *step = (struct rwk_step){ .kind = RWK_STEP_PRECOMPILED, .content = data, .content_size = size };
    return RWK_STATUS_OK;
}

static enum rwk_status read_normalizer(const struct loader *l, const struct rwk_node *node)
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
        { "Lowercase", RWK_STEP_LOWER, 0 }, { "StripAccents", RWK_STEP_STRIP_ACCENTS, 0 }, { "Nmt", RWK_STEP_NMT, 0 },
        { "ByteLevel", RWK_STEP_MAP_BYTES, 0 },
    };
    const char *type = type_of(node);
    struct rwk_step step = { .kind = RWK_STEP_REPLACE };
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
        if (strcmp(type, simple[i].type) == 0)
            return rwk_steps_add(l->t, &l->t->normalizer, (struct rwk_step){ .kind = simple[i].kind,
                                 .option = simple[i].option }, l->error);
    if (strcmp(type, "Strip") == 0) {
        step = (struct rwk_step){ .kind = RWK_STEP_STRIP,
                                  .option = rwk_tree_flag(node, "strip_left", true) | rwk_tree_flag(node, "strip_right", true) << 1 };
    } else if (strcmp(type, "Prepend") == 0) {
        step.kind = RWK_STEP_PREPEND;
        step.content = text_of(node, "prepend", "", &step.content_size);
    } else if (strcmp(type, "Replace") == 0) {
        step.content = text_of(node, "content", "", &step.content_size);
        status = read_pattern(l, node, &step.pattern);
    } else if (strcmp(type, "Precompiled") == 0) {
        step.kind = RWK_STEP_SPLIT;
        status = read_charsmap(l, node, &step);
        if (!status && step.kind == RWK_STEP_SPLIT)
            return RWK_STATUS_OK; /* an empty map */
    } else if (strcmp(type, "BertNormalizer") == 0) {
        const struct rwk_node *accents = rwk_tree_member(node, "strip_accents");
        bool lower = rwk_tree_flag(node, "lowercase", true);
        bool strip = accents && accents->type != RWK_JSON_NULL ? accents->type == RWK_JSON_TRUE : lower;
        const struct rwk_step steps[] = { { .kind = RWK_STEP_BERT_CLEAN }, { .kind = RWK_STEP_BERT_CHINESE },
            { .kind = RWK_STEP_UNICODE, .option = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE }, { .kind = RWK_STEP_STRIP_NONSPACING },
            { .kind = RWK_STEP_LOWER } };
        const bool wanted[] = { rwk_tree_flag(node, "clean_text", true),
                                rwk_tree_flag(node, "handle_chinese_chars", true), strip, strip, lower };
        for (size_t i = 0; i < 5 && !status; i++)
            if (wanted[i])
                status = rwk_steps_add(l->t, &l->t->normalizer, steps[i], l->error);
        return status;
    } else {
        return unsupported(l, "normalizer", type);
    }
    return status ? status : rwk_steps_add(l->t, &l->t->normalizer, step, l->error);
}

/* ---- pre-tokenizers ---- */

static enum rwk_status read_behaviour(const struct loader *l, const struct rwk_node *node, int fallback, int *ret)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous" };
    size_t n;
    const char *name = text_of(node, "behavior", NULL, &n);
    *ret = fallback;
    for (int i = 0; name; i++) {
        if (i == 5)
            return unsupported(l, "behavior", name);
        if (strcmp(name, names[i]) == 0) {
            *ret = i;
            return RWK_STATUS_OK;
        }
    }
    return RWK_STATUS_OK;
}

static enum rwk_status add_split(const struct loader *l, const char *regex, bool literal, int behaviour, bool invert)
{
    struct rwk_step step = { .kind = RWK_STEP_SPLIT, .option = behaviour, .invert = invert };
    enum rwk_status status = rwk_pattern_compile(&step.pattern, regex, strlen(regex), literal, &l->t->memory, l->file, l->error);
    return status ? status : rwk_steps_add(l->t, &l->t->splitter, step, l->error);
}

/* ASCII's, and the category P as it was before these were assigned. */
#define PUNCTUATION \
    "(?![" \
    "\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b4e}-\\x{1b4f}\\x{1b7d}-\\x{1b7f}" \
    "\\x{2e43}-\\x{2e4f}\\x{2e52}-\\x{2e5d}\\x{10d6e}\\x{10ead}\\x{10f55}-\\x{10f59}" \
    "\\x{10f86}-\\x{10f89}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}" \
    "\\x{1144b}-\\x{1144f}\\x{1145a}-\\x{1145b}\\x{1145d}\\x{11660}-\\x{1166c}" \
    "\\x{116b9}\\x{1183b}\\x{11944}-\\x{11946}\\x{119e2}\\x{11a3f}-\\x{11a46}" \
    "\\x{11a9a}-\\x{11a9c}\\x{11a9e}-\\x{11aa2}\\x{11b00}-\\x{11b09}\\x{11be1}" \
    "\\x{11c41}-\\x{11c45}\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}" \
    "\\x{11f43}-\\x{11f4f}\\x{11fff}\\x{12ff1}-\\x{12ff2}\\x{16d6d}-\\x{16d6f}" \
    "\\x{16e97}-\\x{16e9a}\\x{16fe2}\\x{1e5ff}\\x{1e95e}-\\x{1e95f}" \
    "])[!-/:-@\\[-`{-~\\p{P}\\x{166d}\\x{111c9}]"

/* Rust's \w, and what its is_numeric has besides N. */
#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}" \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define NUMERIC "[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]"

static enum rwk_prepend read_prepend(const struct rwk_node *node)
{
    size_t n;
    const char *scheme = text_of(node, "prepend_scheme", NULL, &n);
    if (!scheme)
        return rwk_tree_flag(node, "add_prefix_space", true) ? RWK_PREPEND_ALWAYS : RWK_PREPEND_NEVER;
    return strcmp(scheme, "first") == 0 ? RWK_PREPEND_FIRST : strcmp(scheme, "never") == 0 ? RWK_PREPEND_NEVER
                                                                                         : RWK_PREPEND_ALWAYS;
}

static enum rwk_status read_metaspace(const struct loader *l, const struct rwk_node *node)
{
    struct rwk_step step = { .kind = RWK_STEP_METASPACE, .option = read_prepend(node) };
    step.content = text_of(node, "replacement", "\xe2\x96\x81", &step.content_size);
    enum rwk_status status = rwk_steps_add(l->t, &l->t->splitter, step, l->error);
    if (status || !rwk_tree_flag(node, "split", true))
        return status;
    return add_split(l, step.content, true, RWK_MERGED_WITH_NEXT, false);
}

/* Runs of one script, where blanks, unassigned characters and scripts that the reference does not know belong to the run
 * before them, and Japanese is one script. */
static enum rwk_status add_scripts(const struct loader *l)
{
    static const char *const scripts[] = {
        "Adlam", "Ahom", "Anatolian_Hieroglyphs", "Arabic", "Armenian", "Avestan", "Balinese",
        "Bamum", "Bassa_Vah", "Batak", "Bengali", "Bhaiksuki", "Bopomofo", "Brahmi", "Braille",
        "Buginese", "Buhid", "Canadian_Aboriginal", "Carian", "Caucasian_Albanian", "Chakma",
        "Cham", "Cherokee", "Common", "Coptic", "Cuneiform", "Cypriot", "Cyrillic", "Deseret",
        "Devanagari", "Duployan", "Egyptian_Hieroglyphs", "Elbasan", "Ethiopic", "Georgian",
        "Glagolitic", "Gothic", "Grantha", "Greek", "Gujarati", "Gurmukhi", "Hangul", "Hanunoo",
        "Hatran", "Hebrew", "Imperial_Aramaic", "Inherited", "Inscriptional_Pahlavi",
        "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada", "Kayah_Li", "Kharoshthi",
        "Khmer", "Khojki", "Khudawadi", "Lao", "Latin", "Lepcha", "Limbu", "Linear_A", "Linear_B",
        "Lisu", "Lycian", "Lydian", "Mahajani", "Malayalam", "Mandaic", "Manichaean", "Marchen",
        "Meetei_Mayek", "Mende_Kikakui", "Meroitic_Cursive", "Meroitic_Hieroglyphs", "Miao",
        "Modi", "Mongolian", "Mro", "Multani", "Myanmar", "Nabataean", "New_Tai_Lue", "Newa",
        "Nko", "Ogham", "Ol_Chiki", "Old_Hungarian", "Old_Italic", "Old_North_Arabian",
        "Old_Permic", "Old_Persian", "Old_South_Arabian", "Old_Turkic", "Oriya", "Osage",
        "Osmanya", "Pahawh_Hmong", "Palmyrene", "Pau_Cin_Hau", "Phags_Pa", "Phoenician",
        "Psalter_Pahlavi", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada", "Shavian",
        "Siddham", "SignWriting", "Sinhala", "Sora_Sompeng", "Sundanese", "Syloti_Nagri", "Syriac",
        "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham", "Tai_Viet", "Takri", "Tamil", "Tangut",
        "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta", "Ugaritic", "Vai",
        "Warang_Citi", "Yi",
    };
#define ANY \
    " \\p{sc:Chorasmian}\\p{sc:Cypro_Minoan}\\p{sc:Dives_Akuru}\\p{sc:Dogra}\\p{sc:Elymaic}" \
    "\\p{sc:Gunjala_Gondi}\\p{sc:Hanifi_Rohingya}\\p{sc:Khitan_Small_Script}\\p{sc:Makasar}" \
    "\\p{sc:Masaram_Gondi}\\p{sc:Medefaidrin}\\p{sc:Nandinagari}\\p{sc:Nushu}" \
    "\\p{sc:Nyiakeng_Puachue_Hmong}\\p{sc:Old_Sogdian}\\p{sc:Old_Uyghur}\\p{sc:Sogdian}" \
    "\\p{sc:Soyombo}\\p{sc:Tangsa}\\p{sc:Toto}\\p{sc:Vithkuqi}\\p{sc:Wancho}\\p{sc:Yezidi}" \
    "\\p{sc:Zanabazar_Square}\\p{sc:Unknown}"
#define JAPANESE "\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30fc}"
    static const char begin[] = "(?(DEFINE)(?<any>[" ANY "]))[" JAPANESE "](?:[" JAPANESE "]|(?&any))*";
    struct rwk_buffer pattern = { .memory = &l->t->memory };
    char part[128];
    rwk_buffer_append(&pattern, begin, sizeof begin - 1);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        int n = snprintf(part, sizeof part, "|(?![ \\x{30fc}])\\p{sc:%s}(?:(?!\\x{30fc})\\p{sc:%s}|(?&any))*", scripts[i],
                         scripts[i]);
        rwk_buffer_append(&pattern, part, (size_t)n);
    }
    rwk_buffer_append(&pattern, "", 1);
    enum rwk_status status = pattern.failed ? rwk_fail_nomem(l->error, pattern.size)
                                            : add_split(l, pattern.data, false, RWK_REMOVED, true);
    rwk_buffer_finish(&pattern);
    return status;
}

static enum rwk_status read_pre_tokenizer(const struct loader *l, const struct rwk_node *node)
{
    const char *type = type_of(node);
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
        return add_split(l, NUMERIC, false,
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
        return add_split(l, text_of(node, "delimiter", " ", &n), true, RWK_REMOVED, false);
    }
    if (strcmp(type, "UnicodeScripts") == 0)
        return add_scripts(l);
    if (strcmp(type, "FixedLength") == 0) {
        const struct rwk_node *length = rwk_tree_member(node, "length");
        char pattern[32];
        int64_t n = length ? length->is_integer ? length->integer : 0 : 5;
        if (n < 1 || n > 65535)
            return malformed(l, "length", "must be from 1 to 65535");
        snprintf(pattern, sizeof pattern, "(?m:.{1,%d})", (int)n);
        return add_split(l, pattern, false, RWK_ISOLATED, false);
    }
    if (strcmp(type, "Split") == 0) {
        struct rwk_step step = { .kind = RWK_STEP_SPLIT, .invert = rwk_tree_flag(node, "invert", false) };
        status = read_behaviour(l, node, RWK_ISOLATED, &step.option);
        if (!status)
            status = read_pattern(l, node, &step.pattern);
        return status ? status : rwk_steps_add(l->t, &l->t->splitter, step, l->error);
    }
    return unsupported(l, "pre_tokenizer", type);
}

/* ---- added tokens ---- */

static enum rwk_status read_added(const struct loader *l, const struct rwk_node *list)
{
    /* New tokens are numbered from here on, whatever the file says. */
    uint32_t next = l->t->model == RWK_MODEL_UNIGRAM ? l->t->n_entries : (uint32_t)l->t->vocab.n_names;
    if (!list)
        return RWK_STATUS_OK;
    if (list->type != RWK_JSON_ARRAY)
        return malformed(l, "added_tokens", "must be a list");
    for (const struct rwk_node *node = list->children; node; node = node->next) {
        size_t n;
        const char *content = text_of(node, "content", NULL, &n);
        if (!content)
            return malformed(l, "added_tokens", "an entry has no content");
        struct rwk_added a = { .text = content, .size = (uint32_t)n, .single_word = rwk_tree_flag(node, "single_word", false),
                               .lstrip = rwk_tree_flag(node, "lstrip", false), .rstrip = rwk_tree_flag(node, "rstrip", false),
                               .special = rwk_tree_flag(node, "special", false) };
        a.normalized = rwk_tree_flag(node, "normalized", !a.special);
        a.id = next;
        enum rwk_status status = rwk_added_put(l->t, &a, l->error);
        if (status)
            return status;
        uint32_t used = l->t->n_added ? l->t->added[l->t->n_added - 1].id : 0;
        next = used >= next ? used + 1 : next;
    }
    return RWK_STATUS_OK;
}

/* ---- post-processors ---- */

/* An id before or behind the text. */
static enum rwk_status put_end(const struct loader *l, bool after, const struct rwk_node *id, const char *key)
{
    struct rwk_tokenizer *t = l->t;
    uint32_t **ids = after ? &t->suffix_ids : &t->prefix_ids;
    size_t *n = after ? &t->n_suffix : &t->n_prefix;
    if (!id || !id->is_integer || id->integer < 0 || id->integer >= t->n_entries)
        return malformed(l, key, "names an id that is not in the vocabulary");
    uint32_t *grown = rwk_realloc(&t->memory, *ids, (*n + 1) * sizeof *grown);
    if (!grown)
        return rwk_fail_nomem(l->error, (*n + 1) * sizeof *grown);
    *ids = grown;
    grown[(*n)++] = (uint32_t)id->integer;
    return RWK_STATUS_OK;
}

static enum rwk_status read_template(const struct loader *l, const struct rwk_node *node)
{
    const struct rwk_node *single = rwk_tree_member(node, "single"), *specials = rwk_tree_member(node, "special_tokens");
    bool after = false;
    enum rwk_status status = RWK_STATUS_OK;
    if (!single || single->type != RWK_JSON_ARRAY)
        return malformed(l, "post_processor", "a template must be a list");
    for (const struct rwk_node *part = single->children; part && !status; part = part->next) {
        const struct rwk_node *special = rwk_tree_find(part, "SpecialToken.id");
        if (rwk_tree_member(part, "Sequence")) {
            if (after)
                return unsupported(l, "post_processor", "a template that repeats the text");
            after = true;
            continue;
        }
        if (!special || special->type != RWK_JSON_STRING)
            return malformed(l, "post_processor", "a template's part is neither Sequence nor SpecialToken");
        const struct rwk_node *ids = rwk_tree_member(rwk_tree_member(specials, special->string), "ids");
        if (!ids || ids->type != RWK_JSON_ARRAY)
            return malformed(l, "post_processor", "a template names a special token that is not defined");
        for (const struct rwk_node *id = ids->children; id && !status; id = id->next)
            status = put_end(l, after, id, "post_processor");
    }
    return status || after ? status : unsupported(l, "post_processor", "a template without the text");
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

static enum rwk_status read_post_processor(const struct loader *l, const struct rwk_node *node)
{
    const char *type = type_of(node);
    bool byte_level = strcmp(type, "ByteLevel") == 0, roberta = strcmp(type, "RobertaProcessing") == 0;
    if ((byte_level || roberta) && rwk_tree_flag(node, "trim_offsets", true))
        l->t->trim = (struct rwk_trim){ true, rwk_tree_flag(node, "add_prefix_space", true) };
    if (byte_level)
        return RWK_STATUS_OK;
    if (l->t->n_prefix || l->t->n_suffix)
        return unsupported(l, "post_processor", "a second processor that adds tokens");
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(l, node);
    if (roberta || strcmp(type, "BertProcessing") == 0)
        return read_pairs(l, node);
    return unsupported(l, "post_processor", type);
}

/* ---- decoders ---- */

static enum rwk_status read_decoder(const struct loader *l, const struct rwk_node *node)
{
    const char *type = type_of(node);
    struct rwk_decode_step step = { .kind = RWK_DECODE_FUSE };
    enum rwk_status status = RWK_STATUS_OK;
    if (strcmp(type, "ByteLevel") == 0) {
        step.kind = RWK_DECODE_BYTES;
    } else if (strcmp(type, "ByteFallback") == 0) {
        step.kind = RWK_DECODE_BYTE_FALLBACK;
    } else if (strcmp(type, "Replace") == 0) {
        step.kind = RWK_DECODE_REPLACE;
        step.to = text_of(node, "content", "", &step.to_size);
        status = read_pattern(l, node, &step.pattern);
    } else if (strcmp(type, "Strip") == 0) {
        const struct rwk_node *start = rwk_tree_member(node, "start"), *stop = rwk_tree_member(node, "stop");
        step.kind = RWK_DECODE_STRIP;
        step.from = text_of(node, "content", " ", &step.from_size);
        step.start = start && start->is_integer && start->integer > 0 ? (uint32_t)start->integer : 0;
        step.stop = stop && stop->is_integer && stop->integer > 0 ? (uint32_t)stop->integer : 0;
    } else if (strcmp(type, "Metaspace") == 0) {
        step.kind = RWK_DECODE_METASPACE;
        step.from = text_of(node, "replacement", "\xe2\x96\x81", &step.from_size);
        step.option = read_prepend(node);
    } else if (strcmp(type, "BPEDecoder") == 0) {
        step.kind = RWK_DECODE_BPE;
        step.from = text_of(node, "suffix", "</w>", &step.from_size);
    } else if (strcmp(type, "WordPiece") == 0) {
        step.kind = RWK_DECODE_WORDPIECE;
        step.from = text_of(node, "prefix", "##", &step.from_size);
        step.option = rwk_tree_flag(node, "cleanup", true);
    } else if (strcmp(type, "CTC") == 0) {
        step.kind = RWK_DECODE_CTC;
        step.from = text_of(node, "pad_token", "<pad>", &step.from_size);
        step.to = text_of(node, "word_delimiter_token", "|", &step.to_size);
        step.option = rwk_tree_flag(node, "cleanup", true);
    } else if (strcmp(type, "Fuse") != 0) {
        return unsupported(l, "decoder", type);
    }
    return status ? status : rwk_decoder_add(l->t, step, l->error);
}

/* ---- the file ---- */

enum { F_VERSION, F_MODEL, F_NORMALIZER, F_ADDED, F_SPLITTER, F_POST, F_DECODER, N_FILE };

static enum rwk_status read_file(const struct loader *l, const struct rwk_file *file)
{
    struct member m[N_FILE] = { { .key = "version" }, { .key = "model" }, { .key = "normalizer" }, { .key = "added_tokens" },
                                { .key = "pre_tokenizer" }, { .key = "post_processor" }, { .key = "decoder" } };
    static const struct {
        int member;
        const char *list;
        node_fn fn;
    } parts[] = { { F_NORMALIZER, "normalizers", read_normalizer }, { F_SPLITTER, "pretokenizers", read_pre_tokenizer },
                  { F_POST, "processors", read_post_processor }, { F_DECODER, "decoders", read_decoder } };
    const struct rwk_node *node;
    enum rwk_status status = find_members(l, file->data, file->size, m, N_FILE);
    if (!status)
        status = read_model(l, &m[F_MODEL]);
    if (!status && !(status = tree_of(l, &m[F_ADDED], &node)))
        status = read_added(l, node);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++)
        if (!(status = tree_of(l, &m[parts[i].member], &node)))
            status = each_step(l, node, parts[i].list, parts[i].fn);
    if (!status)
        status = rwk_tokenizer_finish(l->t, l->error);
    l->t->join_with_blank = is_null(&m[F_DECODER]);
    return status;
}

enum rwk_status rwk_load_json(struct rwk_tokenizer *t, const char *path, struct rwk_error *error)
{
    struct rwk_file file = { 0 };
    struct loader l = { t, path, error };
    enum rwk_status status = rwk_file_open(&file, path, RWK_LOAD_READ, &t->memory, error);
    if (status)
        return status;
    status = read_file(&l, &file);
    rwk_file_close(&file);
    return status;
}

/* ---- vocab.json and merges.txt: byte-level BPE as GPT-2 has it ---- */

static enum rwk_status read_merges_text(const struct loader *l, const struct rwk_file *file)
{
    const char *text = file->data, *end = text + file->size;
    size_t n = 0;
    uint32_t rank = 0;
    for (const char *p = text; p < end; p++)
        n += *p == '\n';
    enum rwk_status status = rwk_merges_init(l->t, n + 1, l->error);
    for (const char *p = text; p < end && !status;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t size = stop ? (size_t)(stop - p) : (size_t)(end - p), next = size + 1;
        if (size && p[size - 1] == '\r')
            size--;
        const char *blank = size ? memchr(p, ' ', size) : NULL;
        if (size && !(p == text && size >= 9 && memcmp(p, "#version:", 9) == 0)) {
            if (!blank || !rwk_merges_put(l->t, p, (size_t)(blank - p), blank + 1, size - (size_t)(blank + 1 - p), rank++))
                status = rwk_fail_at(l->error, RWK_STATUS_FORMAT,
                                     &(struct rwk_where){ .file = l->file, .offset = (uint64_t)(p - text) },
                                     "a merge is no pair of known pieces");
        }
        p += next;
    }
    return status;
}

enum rwk_status rwk_load_two_files(struct rwk_tokenizer *t, const char *vocab_path, const char *merges_path,
                                   struct rwk_error *error)
{
    struct rwk_file vocab = { 0 }, merges = { 0 };
    struct loader l = { t, NULL, error };
    enum rwk_status status = rwk_file_open(&vocab, vocab_path, RWK_LOAD_READ, &t->memory, error);
    if (!status) {
        size_t mark = vocab.size >= 3 && memcmp(vocab.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        struct member m = { .text = (const char *)vocab.data + mark, .size = vocab.size - mark };
        l.file = vocab_path;
        status = read_vocab(&l, &m);
    }
    if (!status)
        status = rwk_file_open(&merges, merges_path, RWK_LOAD_READ, &t->memory, error);
    l.file = merges_path;
    if (!status)
        status = read_merges_text(&l, &merges);
    if (!status)
        status = rwk_merges_finish(t, error);
    if (!status)
        status = rwk_add_byte_level(t, false, true, merges_path, error);
    if (!status)
        status = rwk_decoder_add(t, (struct rwk_decode_step){ .kind = RWK_DECODE_BYTES }, error);
    rwk_file_close(&vocab);
    rwk_file_close(&merges);
    return status;
}
