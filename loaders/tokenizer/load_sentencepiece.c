/* tokenizer.model: a protocol buffer of SentencePiece's ModelProto.
 *
 *   1 pieces: { 1 piece (bytes), 2 score (float), 3 type (1 normal, 2 unknown, 3 control, 4 user
 * defined, 5 unused, 6 byte) } 2 trainer_spec: { 3 model_type (1 unigram, 2 bpe), 24
 * treat_whitespace_as_suffix, 35 byte_fallback, 44 unk_surface } 3 normalizer_spec: { 2
 * precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces }
 *
 * Control pieces cannot be written in text: "<s>" in a text is four characters, as SentencePiece
 * has it.
 *
 * BPE: neighbours are merged when the joined piece exists, highest score first, leftmost among
 * equals. All splits of all pieces into two pieces, ranked by score, are the same merges. */
#include "loaders/tokenizer/internal.h"

#include <stdlib.h>

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE };

struct wire {
    const unsigned char *p, *end;
    bool bad;
};

static uint64_t varint(struct wire *w)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (w->p >= w->end)
            break;
        unsigned char c = *w->p++;
        value |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return value;
    }
    w->bad = true;
    return 0;
}

/* The next field: its number, and its value as a number or as bytes; 0 at the end. */
static uint32_t field(struct wire *w, uint64_t *ret_number, struct wire *ret_bytes)
{
    if (w->p >= w->end || w->bad)
        return 0;
    uint64_t key = varint(w);
    size_t fixed = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : 0;
    *ret_bytes = (struct wire) { NULL, NULL, false };
    *ret_number = 0;
    if ((key & 7) == 0) {
        *ret_number = varint(w);
    } else if ((key & 7) == 2 || fixed) {
        uint64_t n = fixed ? fixed : varint(w);
        if (w->bad || n > (uint64_t)(w->end - w->p)) {
            w->bad = true;
            return 0;
        }
        *ret_bytes = (struct wire) { w->p, w->p + n, false };
        for (size_t i = fixed; i-- > 0;)
            *ret_number = *ret_number << 8 | w->p[i];
        w->p += n;
    } else {
        w->bad = true;
    }
    if (key >> 3 == 0 || key >> 3 > 1u << 29)
        w->bad = true;
    return w->bad ? 0 : (uint32_t)(key >> 3);
}

struct spec {
    int model;
    bool byte_fallback, suffix, dummy_prefix, remove_extra, escape;
    struct wire charsmap, unk_surface;
};

static bool read_piece(struct rwk_tokenizer *t, struct wire w, uint32_t id, struct rwk_error *error,
                       enum rwk_status *status)
{
    uint64_t number, type = NORMAL;
    uint32_t bits = 0, f;
    struct wire bytes, text = { NULL, NULL, false };
    while ((f = field(&w, &number, &bytes))) {
        if (f == 1)
            text = bytes;
        else if (f == 2)
            bits = (uint32_t)number;
        else if (f == 3)
            type = number;
    }
    if (w.bad)
        return false;
    const char *p = text.p ? (const char *)text.p : "";
    size_t size = (size_t)(text.end - text.p);
    if (!rwk_utf8_all(p, size))
        return false;
    bool plain =
        type == NORMAL || type == BYTE; /* what text can give; the others are only known by name */
    *status = plain ? rwk_vocab_put(t, id, p, size, error) : rwk_entry_put(t, id, p, size, error);
    if (*status)
        return true;
    struct rwk_entry *e = &t->entries[id];
    float score;
    memcpy(&score, &bits, sizeof bits);
    e->score = score > -1e30f && score < 1e30f ? (double)score : 0;
    e->special = type == CONTROL || type == UNKNOWN;
    e->added = !plain;
    e->byte = type == BYTE;
    if (type == UNKNOWN)
        t->unk = id;
    if (type == USER_DEFINED) {
        struct rwk_added a = {
            .text = p, .size = (uint32_t)size, .id = id, .normalized = true, .verbatim = true
        };
        *status = rwk_added_put(t, &a, error);
    } else if (!plain && !rwk_names_put(&t->added_names, e->text, e->size, id)) {
        *status = rwk_fail_nomem(error, size);
    }
    return true;
}

static void read_trainer(struct wire w, struct spec *s)
{
    uint64_t number;
    uint32_t f;
    struct wire bytes;
    while ((f = field(&w, &number, &bytes))) {
        if (f == 3)
            s->model = (int)number;
        else if (f == 24)
            s->suffix = number != 0;
        else if (f == 35)
            s->byte_fallback = number != 0;
        else if (f == 44)
            s->unk_surface = bytes;
    }
}

static void read_normalizer(struct wire w, struct spec *s)
{
    uint64_t number;
    uint32_t f;
    struct wire bytes;
    while ((f = field(&w, &number, &bytes))) {
        if (f == 2)
            s->charsmap = bytes;
        else if (f == 3)
            s->dummy_prefix = number != 0;
        else if (f == 4)
            s->remove_extra = number != 0;
        else if (f == 5)
            s->escape = number != 0;
    }
}

/* ---- BPE's merges ---- */

struct pair {
    double score;
    uint32_t id;
    size_t split;
};

static int by_score(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id != y->id ? (x->id < y->id ? -1 : 1) : (x->split < y->split ? -1 : 1);
}

static enum rwk_status make_merges(struct rwk_tokenizer *t, struct rwk_error *error)
{
    struct rwk_buffer pairs = { .memory = &t->memory };
    for (uint32_t id = 0; id < t->n_entries; id++) {
        const struct rwk_entry *e = &t->entries[id];
        if (!e->exists || e->added || e->byte)
            continue;
        for (size_t at = 1; at < e->size && e->size < 1024; at++) {
            uint32_t left, right;
            if (((unsigned char)e->text[at] & 0xc0) == 0x80 ||
                (left = rwk_vocab_find(t, e->text, at)) == RWK_TOKEN_NONE ||
                (right = rwk_vocab_find(t, e->text + at, e->size - at)) == RWK_TOKEN_NONE ||
                t->entries[left].added || t->entries[right].added || t->entries[left].byte ||
                t->entries[right].byte)
                continue;
            struct pair p = { e->score, id, at };
            rwk_buffer_append(&pairs, &p, sizeof p);
        }
    }
    size_t n = pairs.size / sizeof(struct pair);
    struct pair *list = (struct pair *)(void *)pairs.data;
    enum rwk_status status =
        pairs.failed ? rwk_fail_nomem(error, pairs.size) : rwk_merges_init(t, n, error);
    if (!status && n)
        qsort(list, n, sizeof *list, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; i < n && !status; i++) {
        const struct rwk_entry *e = &t->entries[list[i].id];
        rank = i && list[i].score != list[i - 1].score ? (uint32_t)i
                                                       : rank; /* equals merge leftmost first */
        rwk_merges_put(t, e->text, list[i].split, e->text + list[i].split, e->size - list[i].split,
                       rank);
    }
    rwk_buffer_finish(&pairs);
    return status ? status : rwk_merges_finish(t, error);
}

/* User-defined pieces stand in the lattice like others, with a score of their own. */
static enum rwk_status make_trie(struct rwk_tokenizer *t, struct rwk_error *error)
{
    float least = 0, most = 0;
    bool first = true;
    for (uint32_t id = 0; id < t->n_entries; id++) {
        const struct rwk_entry *e = &t->entries[id];
        if (!e->exists || e->added || e->byte || !e->size)
            continue;
        least = first || (float)e->score < least ? (float)e->score : least;
        most = first || (float)e->score > most ? (float)e->score : most;
        first = false;
        if (!rwk_trie_insert(&t->pieces, e->text, e->size, id))
            return rwk_fail_nomem(error, e->size);
    }
    t->min_score = (double)least;
    for (size_t i = 0; i < t->n_added; i++) {
        struct rwk_entry *e = &t->entries[t->added[i].id];
        e->score = (double)((float)e->size * most - 0.1f);
        if (!rwk_trie_insert(&t->pieces, e->text, e->size, t->added[i].id))
            return rwk_fail_nomem(error, e->size);
    }
    return RWK_STATUS_OK;
}

/* ---- steps ---- */

static const char mark[] = "\xe2\x96\x81";

static enum rwk_status make_steps(struct rwk_tokenizer *t, const struct spec *s, const char *path,
                                  struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    size_t n = (size_t)(s->charsmap.end - s->charsmap.p);
    if (s->charsmap.p && n > 4) {
        const unsigned char *p = s->charsmap.p;
        uint32_t trie = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        char *copy = rwk_arena_string(&t->arena, (const char *)p, n);
        if (trie > n - 4)
            return rwk_fail(error, RWK_STATUS_FORMAT, path, "the map of characters is truncated");
        if (!copy)
            return rwk_fail_nomem(error, n);
        status = rwk_steps_add(
            t, &t->normalizer,
            (struct rwk_step) { .kind = RWK_STEP_CHARSMAP, .content = copy, .content_size = n },
            error);
    }
    if (!status && s->remove_extra)
        status =
            rwk_steps_add(t, &t->normalizer, (struct rwk_step) { .kind = RWK_STEP_SQUEEZE }, error);
    if (!status && s->dummy_prefix)
        status = rwk_steps_add(
            t, &t->normalizer,
            (struct rwk_step) {
                .kind = RWK_STEP_PREPEND, .option = 1, .content = " ", .content_size = 1 },
            error);
    if (!status && s->escape) {
        struct rwk_step step = { .kind = RWK_STEP_REPLACE,
                                 .content = mark,
                                 .content_size = sizeof mark - 1 };
        status = rwk_pattern_compile(&step.pattern, " ", 1, true, &t->memory, path, error);
        if (!status)
            status = rwk_steps_add(t, &t->normalizer, step, error);
    }
    struct rwk_step end = { .kind = RWK_STEP_TRIM_END,
                            .content = s->escape ? mark : " ",
                            .content_size = s->escape ? 3 : 1 };
    if (!status && s->remove_extra)
        status = rwk_steps_add(t, &t->normalizer, end, error);
    return status;
}

static enum rwk_status make_decoder(struct rwk_tokenizer *t, const struct spec *s, const char *path,
                                    struct rwk_error *error)
{
    struct rwk_decode_step start = {
        .kind = RWK_DECODE_LEADING_MARKS, .from = mark, .from_size = 3, .option = s->remove_extra
    };
    struct rwk_decode_step replace = { .kind = RWK_DECODE_REPLACE, .to = " ", .to_size = 1 };
    enum rwk_status status = RWK_STATUS_OK;
    if (s->dummy_prefix || s->remove_extra)
        status = rwk_decoder_add(t, start, error);
    if (!status)
        status = rwk_pattern_compile(&replace.pattern, mark, sizeof mark - 1, true, &t->memory,
                                     path, error);
    if (!status)
        status = rwk_decoder_add(t, replace, error);
    if (!status)
        status = rwk_decoder_add(t, (struct rwk_decode_step) { .kind = RWK_DECODE_BYTE_FALLBACK },
                                 error);
    return status ? status
                  : rwk_decoder_add(t, (struct rwk_decode_step) { .kind = RWK_DECODE_FUSE }, error);
}

/* What the unknown token is in decoded text. */
static enum rwk_status name_unknown(struct rwk_tokenizer *t, const struct spec *s, const char *path,
                                    struct rwk_error *error)
{
    const char *text = s->unk_surface.p ? (const char *)s->unk_surface.p : " \xe2\x81\x87 ";
    size_t size = s->unk_surface.p ? (size_t)(s->unk_surface.end - s->unk_surface.p) : strlen(text);
    if (!rwk_utf8_all(text, size))
        return rwk_fail(error, RWK_STATUS_FORMAT, path,
                        "the text of the unknown token is not UTF-8");
    t->unk_text = rwk_arena_string(&t->arena, text, size);
    t->unk_text_size = size;
    return t->unk_text ? RWK_STATUS_OK : rwk_fail_nomem(error, size);
}

static enum rwk_status read_model(struct rwk_tokenizer *t, const struct rwk_file *file,
                                  const char *path, struct rwk_error *error)
{
    struct spec s = {
        .model = UNIGRAM, .dummy_prefix = true, .remove_extra = true, .escape = true
    };
    struct wire w = { file->data, (const unsigned char *)file->data + file->size, false }, bytes;
    uint64_t number;
    uint32_t f, id = 0;
    enum rwk_status status = RWK_STATUS_OK;
    while (!status && (f = field(&w, &number, &bytes))) {
        if (f == 1 && !read_piece(t, bytes, id++, error, &status))
            w.bad = true;
        else if (f == 2)
            read_trainer(bytes, &s);
        else if (f == 3)
            read_normalizer(bytes, &s);
    }
    if (status)
        return status;
    if (w.bad || id == 0)
        return rwk_fail(error, RWK_STATUS_FORMAT, path, "is not a SentencePiece model");
    if (s.model != UNIGRAM && s.model != BPE)
        return rwk_fail(error, RWK_STATUS_UNSUPPORTED, path,
                        "SentencePiece model type %d is not supported", s.model);
    if (s.suffix)
        return rwk_fail(error, RWK_STATUS_UNSUPPORTED, path,
                        "treat_whitespace_as_suffix is not supported");
    t->spm = true;
    t->byte_fallback = s.byte_fallback;
    t->fuse_unk = true;
    t->model = s.model == BPE ? RWK_MODEL_BPE : RWK_MODEL_UNIGRAM;
    rwk_vocab_finish(t);
    status = s.model == BPE ? make_merges(t, error) : make_trie(t, error);
    if (!status)
        status = make_steps(t, &s, path, error);
    if (!status)
        status = make_decoder(t, &s, path, error);
    return status ? status : name_unknown(t, &s, path, error);
}

enum rwk_status rwk_load_sentencepiece(struct rwk_tokenizer *t, const struct rwk_files *files,
                                       const char *name, struct rwk_error *error)
{
    struct rwk_file file = { 0 };
    enum rwk_status status = rwk_files_open(&file, files, name, RWK_LOAD_READ, error);
    if (status)
        return status;
    status = read_model(t, &file, file.path, error);
    rwk_file_close(&file);
    return status;
}
