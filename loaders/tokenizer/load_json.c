/* tokenizer.json.
 *
 * The file's members are found first (their order is free), then read in the order that they need
 * each other: model, normalizer, added tokens, pre-tokenizer, post-processor, decoder. Small
 * members become trees; vocabulary and merges are read straight from the text. What is not
 * understood is refused by name. */
#include "loaders/tokenizer/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct member {
    const char *key;
    const char *text; /* NULL: absent */
    size_t size;
};

/* Finds the values of the wanted members of the object that text holds. */
static enum rwk_status find_members(const struct loader *l, const char *text, size_t size,
                                    struct member *members, size_t n)
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

static enum rwk_status tree_of(const struct loader *l, const struct member *m,
                               const struct rwk_node **ret)
{
    struct rwk_node *root = NULL;
    *ret = NULL;
    if (is_null(m))
        return RWK_STATUS_OK;
    enum rwk_status status =
        rwk_tree_parse(&root, &l->t->arena, m->text, m->size, l->file, l->error);
    *ret = root;
    return status;
}

/* ---- vocabulary and merges ---- */

static enum rwk_status take(struct rwk_json *json, struct rwk_buffer *buffer,
                            struct rwk_error *error)
{
    buffer->size = 0;
    if (!rwk_buffer_reserve(buffer, json->raw_size + 1))
        return rwk_fail_nomem(error, json->raw_size);
    buffer->size = rwk_json_decode(json, buffer->data);
    return RWK_STATUS_OK;
}

/* An object of piece -> id (BPE, WordPiece, WordLevel). Ids beyond what the file's size can justify
 * are refused. */
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
        if (!status && (rwk_json_next(&json) != RWK_JSON_NUMBER || !rwk_json_uint64(&json, &id) ||
                        id > m->size))
            status =
                rwk_json_fail(&json, "the vocabulary must map pieces to ids in a sensible range");
        if (!status)
            status = rwk_vocab_put(l->t, (uint32_t)id, piece.data, piece.size, l->error);
    }
    rwk_buffer_finish(&piece);
    rwk_vocab_finish(l->t);
    return status ? status : json.status;
}

static enum rwk_status read_merge(const struct loader *l, struct rwk_json *json,
                                  enum rwk_json_event event, struct rwk_buffer *left,
                                  struct rwk_buffer *right, uint32_t rank)
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
        return rwk_json_fail(json, "merge %u makes or takes a piece that is not in the vocabulary",
                             rank);
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
    for (uint32_t rank = 0; !status && (event = rwk_json_next(&json)) != RWK_JSON_ARRAY_END;
         rank++) {
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

/* A score as the reference reads it: digits as one whole number, rounded, then scaled by a power of
 * ten and rounded again. Where two segmentations have the same pieces in another order, the last
 * bit decides. */
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

enum {
    M_TYPE,
    M_VOCAB,
    M_MERGES,
    M_UNK,
    M_UNK_ID,
    M_PREFIX,
    M_SUFFIX,
    M_FUSE,
    M_BYTES,
    M_IGNORE,
    M_MAX_WORD,
    N_MODEL
};

static enum rwk_status model_flag(const struct loader *l, const struct member *m, bool *ret)
{
    const struct rwk_node *node;
    enum rwk_status status = tree_of(l, m, &node);
    if (!status && node && node->type != RWK_JSON_TRUE && node->type != RWK_JSON_FALSE)
        return rwk_load_malformed(l, m->key, "must be true or false");
    if (!status && node)
        *ret = node->type == RWK_JSON_TRUE;
    return status;
}

static enum rwk_status model_text(const struct loader *l, const struct member *m, const char **ret,
                                  size_t *ret_size)
{
    const struct rwk_node *node;
    enum rwk_status status = tree_of(l, m, &node);
    if (!status && node && node->type != RWK_JSON_STRING)
        return rwk_load_malformed(l, m->key, "must be a string");
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
        return rwk_load_malformed(l, m->key, "must be a whole number");
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
            return rwk_load_malformed(l, "unk_id", "is not in the vocabulary");
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
    struct member m[N_MODEL] = { { .key = "type" },
                                 { .key = "vocab" },
                                 { .key = "merges" },
                                 { .key = "unk_token" },
                                 { .key = "unk_id" },
                                 { .key = "continuing_subword_prefix" },
                                 { .key = "end_of_word_suffix" },
                                 { .key = "fuse_unk" },
                                 { .key = "byte_fallback" },
                                 { .key = "ignore_merges" },
                                 { .key = "max_input_chars_per_word" } };
    static const struct {
        const char *type, *unk, *prefix; /* and what is meant where the file says nothing */
    } kinds[] = { [RWK_MODEL_BPE] = { "BPE", NULL, "" },
                  [RWK_MODEL_UNIGRAM] = { "Unigram", NULL, "" },
                  [RWK_MODEL_WORDPIECE] = { "WordPiece", "[UNK]", "##" },
                  [RWK_MODEL_WORDLEVEL] = { "WordLevel", "<unk>", "" } };
    const char *type = NULL;
    size_t n = 0, kind = 0;
    if (is_null(model))
        return rwk_load_malformed(l, "model", "is missing");
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
        return rwk_load_unsupported(l, "model", type);
    if (!m[M_VOCAB].text)
        return rwk_load_malformed(l, "vocab", "is missing");
    t->model = (enum rwk_model_kind)kind;
    t->max_word = 100;
    t->unk_name = kinds[kind].unk;
    t->unk_name_size = t->unk_name ? strlen(t->unk_name) : 0;
    t->word_prefix = kinds[kind].prefix;
    t->word_prefix_size = strlen(t->word_prefix);
    status = read_flags(l, m);
    if (!status)
        status =
            kind == RWK_MODEL_UNIGRAM ? read_unigram(l, &m[M_VOCAB]) : read_vocab(l, &m[M_VOCAB]);
    if (!status)
        status = read_unk(l, m);
    if (!status && kind == RWK_MODEL_BPE && !is_null(&m[M_MERGES]))
        status = read_merges(l, &m[M_MERGES]);
    return status || kind != RWK_MODEL_BPE ? status : rwk_merges_finish(t, l->error);
}

/* ---- added tokens ---- */

static enum rwk_status read_added(const struct loader *l, const struct rwk_node *list)
{
    /* New tokens are numbered from here on, whatever the file says. */
    uint32_t next =
        l->t->model == RWK_MODEL_UNIGRAM ? l->t->n_entries : (uint32_t)l->t->vocab.n_names;
    if (!list)
        return RWK_STATUS_OK;
    if (list->type != RWK_JSON_ARRAY)
        return rwk_load_malformed(l, "added_tokens", "must be a list");
    for (const struct rwk_node *node = list->children; node; node = node->next) {
        size_t n;
        const char *content = rwk_node_text(node, "content", NULL, &n);
        if (!content)
            return rwk_load_malformed(l, "added_tokens", "an entry has no content");
        struct rwk_added a = { .text = content,
                               .size = (uint32_t)n,
                               .single_word = rwk_tree_flag(node, "single_word", false),
                               .lstrip = rwk_tree_flag(node, "lstrip", false),
                               .rstrip = rwk_tree_flag(node, "rstrip", false),
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

/* ---- the file ---- */

enum { F_VERSION, F_MODEL, F_NORMALIZER, F_ADDED, F_SPLITTER, F_POST, F_DECODER, N_FILE };

static enum rwk_status read_file(const struct loader *l, const struct rwk_file *file)
{
    struct member m[N_FILE] = { { .key = "version" },       { .key = "model" },
                                { .key = "normalizer" },    { .key = "added_tokens" },
                                { .key = "pre_tokenizer" }, { .key = "post_processor" },
                                { .key = "decoder" } };
    static const struct {
        int member;
        const char *list;
        rwk_node_fn fn;
    } parts[] = { { F_NORMALIZER, "normalizers", rwk_read_normalizer },
                  { F_SPLITTER, "pretokenizers", rwk_read_pre_tokenizer },
                  { F_POST, "processors", rwk_read_post_processor },
                  { F_DECODER, "decoders", rwk_read_decoder } };
    const struct rwk_node *node;
    enum rwk_status status = find_members(l, file->data, file->size, m, N_FILE);
    if (!status)
        status = read_model(l, &m[F_MODEL]);
    if (!status && !(status = tree_of(l, &m[F_ADDED], &node)))
        status = read_added(l, node);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++)
        if (!(status = tree_of(l, &m[parts[i].member], &node)))
            status = rwk_read_each(l, node, parts[i].list, parts[i].fn);
    if (!status)
        status = rwk_tokenizer_finish(l->t, l->error);
    l->t->join_with_blank = is_null(&m[F_DECODER]);
    return status;
}

enum rwk_status rwk_load_json(struct rwk_tokenizer *t, const struct rwk_files *files,
                              const char *name, struct rwk_error *error)
{
    struct rwk_file file = { 0 };
    enum rwk_status status = rwk_files_open(&file, files, name, RWK_LOAD_READ, error);
    if (status)
        return status;
    struct loader l = { t, file.path, error };
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
            if (!blank || !rwk_merges_put(l->t, p, (size_t)(blank - p), blank + 1,
                                          size - (size_t)(blank + 1 - p), rank++))
                status = rwk_fail_at(
                    l->error, RWK_STATUS_FORMAT,
                    &(struct rwk_where) { .file = l->file, .offset = (uint64_t)(p - text) },
                    "a merge is no pair of known pieces");
        }
        p += next;
    }
    return status;
}

enum rwk_status rwk_load_two_files(struct rwk_tokenizer *t, const struct rwk_files *files,
                                   struct rwk_error *error)
{
    struct rwk_file vocab = { 0 }, merges = { 0 };
    struct loader l = { t, NULL, error };
    enum rwk_status status = rwk_files_open(&vocab, files, "vocab.json", RWK_LOAD_READ, error);
    if (!status) {
        size_t mark = vocab.size >= 3 && memcmp(vocab.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        struct member m = { .text = (const char *)vocab.data + mark, .size = vocab.size - mark };
        l.file = vocab.path;
        status = read_vocab(&l, &m);
    }
    if (!status)
        status = rwk_files_open(&merges, files, "merges.txt", RWK_LOAD_READ, error);
    l.file = merges.path;
    if (!status)
        status = read_merges_text(&l, &merges);
    if (!status)
        status = rwk_merges_finish(t, error);
    if (!status)
        status = rwk_add_byte_level(t, false, true, files->label, error);
    if (!status)
        status = rwk_decoder_add(t, (struct rwk_decode_step) { .kind = RWK_DECODE_BYTES }, error);
    rwk_file_close(&vocab);
    rwk_file_close(&merges);
    return status;
}
