/* From a text to ids: its pieces go through the splitting steps, each of which gives new pieces
 * (and perhaps a new text), and the model reads the last ones. Pieces are mostly words that come
 * again: what the model made of one is kept for the call. */
#include "loaders/tokenizer/internal.h"

#include "runtime/base/hash.h"

struct pieces {
    struct rwk_text text;
    struct rwk_buffer slices; /* struct rwk_slice */
};

/* ---- splitting ---- */

struct part {
    size_t begin, end;
    bool match;
};

static void put_slice(struct rwk_buffer *out, size_t begin, size_t end)
{
    struct rwk_slice s = { begin, end };
    if (begin < end)
        rwk_buffer_append(out, &s, sizeof s);
}

/* Parts of [s.begin, s.end) in order: matches (relative to s.begin) and what lies between; `invert`
 * swaps the two. */
static void make_parts(const struct rwk_slice *s, const struct rwk_slice *m, size_t n, bool invert,
                       struct rwk_buffer *parts)
{
    size_t at = s->begin;
    parts->size = 0;
    for (size_t i = 0; i <= n; i++) {
        size_t gap_end = i < n ? s->begin + m[i].begin : s->end;
        struct part gap = { at, gap_end, invert };
        if (at < gap_end)
            rwk_buffer_append(parts, &gap, sizeof gap);
        if (i == n)
            break;
        at = s->begin + m[i].end;
        rwk_buffer_append(parts, &(struct part) { s->begin + m[i].begin, at, !invert },
                          sizeof(struct part));
    }
}

/* Runs of parts become pieces. Contiguous: neighbours of a kind. Merged with the previous (next)
 * one: a match that stands after (before) something else joins it. */
static void merge_parts(const struct part *p, size_t n, int behaviour, struct rwk_buffer *out)
{
    size_t open = 0; /* the piece under way is parts [open, i) */
    for (size_t i = 1; i <= n; i++) {
        bool joins = false;
        if (i < n && behaviour == RWK_CONTIGUOUS)
            joins = p[i].match == p[i - 1].match;
        else if (i < n && behaviour == RWK_MERGED_WITH_PREVIOUS)
            joins = p[i].match && !p[i - 1].match;
        else if (i < n && behaviour == RWK_MERGED_WITH_NEXT)
            joins = p[i - 1].match && !p[i].match;
        if (joins)
            continue;
        if (n)
            put_slice(out, p[open].begin, p[i - 1].end);
        open = i;
    }
}

static enum rwk_status split(struct rwk_work *work, const struct rwk_step *step, struct pieces *p)
{
    struct rwk_buffer out = { .memory = &work->memory };
    const struct rwk_slice *s = (const struct rwk_slice *)(const void *)p->slices.data;
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = 0; i < p->slices.size / sizeof *s && !status; i++) {
        work->matches.size = 0;
        status = rwk_pattern_matches(step->pattern, &work->matcher, p->text.data + s[i].begin,
                                     s[i].end - s[i].begin, &work->matches, work->error);
        make_parts(&s[i], (const struct rwk_slice *)(const void *)work->matches.data,
                   work->matches.size / sizeof(struct rwk_slice), step->invert, &work->parts);
        const struct part *parts = (const struct part *)(const void *)work->parts.data;
        size_t n = work->parts.size / sizeof *parts;
        if (step->option > RWK_ISOLATED)
            merge_parts(parts, n, step->option, &out);
        else
            for (size_t k = 0; k < n; k++)
                if (step->option == RWK_ISOLATED || !parts[k].match)
                    put_slice(&out, parts[k].begin, parts[k].end);
    }
    if (work->parts.failed)
        out.failed = true;
    rwk_buffer_finish(&p->slices);
    p->slices = out;
    return status;
}

/* ---- steps that make a new text: each piece is rewritten into it ---- */

static void rewrite_metaspace(const struct rwk_step *step, const struct rwk_text *from,
                              size_t begin, size_t end, struct rwk_text *to)
{
    const char *bytes = from->data + begin;
    bool has = bytes[0] == ' ' || (end - begin >= step->content_size &&
                                   memcmp(bytes, step->content, step->content_size) == 0);
    uint32_t code;
    struct rwk_span first = rwk_text_span(from, begin, begin + rwk_utf8_next(bytes, &code));
    bool wants =
        step->option == RWK_PREPEND_ALWAYS ||
        (step->option == RWK_PREPEND_FIRST && rwk_text_span(from, begin, begin).begin == 0);
    if (wants && !has)
        rwk_text_put(to, step->content, step->content_size, first);
    for (size_t at = begin; at < end;) {
        const char *blank = memchr(from->data + at, ' ', end - at);
        size_t stop = blank ? (size_t)(blank - from->data) : end;
        rwk_text_copy(to, from, at, stop);
        if (blank)
            rwk_text_put(to, step->content, step->content_size,
                         rwk_text_span(from, stop, stop + 1));
        at = stop + (blank != NULL);
    }
}

static void rewrite_piece(const struct rwk_step *step, const struct rwk_text *from, size_t begin,
                          size_t end, struct rwk_text *to)
{
    uint32_t code;
    char out[4];
    if (step->kind == RWK_STEP_METASPACE) {
        rewrite_metaspace(step, from, begin, end, to);
    } else if (step->kind == RWK_STEP_PREFIX_SPACE) {
        if (from->data[begin] != ' ')
            rwk_text_put(
                to, " ", 1,
                rwk_text_span(from, begin, begin + rwk_utf8_next(from->data + begin, &code)));
        rwk_text_copy(to, from, begin, end);
    } else {
        for (size_t at = begin; at < end; at++)
            rwk_text_put(to, out,
                         rwk_utf8_put(out, rwk_byte_to_code[(unsigned char)from->data[at]]),
                         rwk_text_span(from, at, at + 1));
    }
}

static enum rwk_status rewrite(struct rwk_work *work, const struct rwk_step *step, struct pieces *p)
{
    struct pieces q = { .slices = { .memory = &work->memory } };
    const struct rwk_slice *s = (const struct rwk_slice *)(const void *)p->slices.data;
    rwk_text_init(&q.text, &work->memory, work->with_spans);
    for (size_t i = 0; i < p->slices.size / sizeof *s; i++) {
        size_t begin = q.text.own_bytes.size;
        rewrite_piece(step, &p->text, s[i].begin, s[i].end, &q.text);
        put_slice(&q.slices, begin, q.text.own_bytes.size);
    }
    rwk_text_finish(&p->text);
    rwk_buffer_finish(&p->slices);
    *p = q;
    return rwk_text_ready(&p->text) ? RWK_STATUS_OK
                                    : rwk_fail_nomem(work->error, s ? p->text.size : 0);
}

/* ---- the pieces seen before ---- */

enum { LONGEST_KEY = 256, MOST_SLOTS = 1 << 18 };

struct rwk_cache_slot {
    uint32_t hash, key, size; /* key: where in keys; size 0: free */
    uint32_t first, n;        /* tokens in cached_tokens */
};

static struct rwk_cache_slot *slot_of(struct rwk_work *work, uint32_t hash, const char *text,
                                      size_t size)
{
    size_t at = hash & (work->n_slots - 1);
    for (; work->slots[at].size; at = (at + 1) & (work->n_slots - 1))
        if (work->slots[at].hash == hash && work->slots[at].size == size &&
            memcmp(work->keys.data + work->slots[at].key, text, size) == 0)
            break;
    return &work->slots[at];
}

/* Room for one more; a full cache begins anew. */
static bool make_room(struct rwk_work *work)
{
    if (2 * work->n_used < work->n_slots)
        return true;
    size_t n_slots = work->n_slots ? 4 * work->n_slots : 64;
    if (n_slots > MOST_SLOTS) {
        memset(work->slots, 0, work->n_slots * sizeof *work->slots);
        work->n_used = work->keys.size = work->cached_tokens.size = 0;
        return true;
    }
    struct rwk_cache_slot *slots = rwk_calloc(&work->memory, n_slots, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < work->n_slots; i++) {
        size_t at = work->slots[i].hash & (n_slots - 1);
        while (work->slots[i].size && slots[at].size)
            at = (at + 1) & (n_slots - 1);
        if (work->slots[i].size)
            slots[at] = work->slots[i];
    }
    rwk_free(&work->memory, work->slots);
    work->slots = slots;
    work->n_slots = n_slots;
    return true;
}

/* ---- the model on one piece ---- */

/* Bytes -> work->mapped, in the byte-level alphabet. */
static void map_bytes(struct rwk_work *work, const char *text, size_t size)
{
    work->mapped.size = 0;
    for (size_t i = 0; i < size; i++) {
        char out[4];
        rwk_buffer_append(&work->mapped, out,
                          rwk_utf8_put(out, rwk_byte_to_code[(unsigned char)text[i]]));
    }
}

/* The piece in the byte-level alphabet; tokens then speak of the bytes that it was. */
static enum rwk_status run_mapped(struct rwk_work *work, const char *text, size_t size)
{
    size_t at = 0, bytes = 0;
    map_bytes(work, text, size);
    if (work->mapped.failed)
        return rwk_fail_nomem(work->error, 2 * size);
    enum rwk_status status = rwk_model_run(work, work->mapped.data, work->mapped.size);
    struct rwk_token *tokens = (struct rwk_token *)(void *)work->tokens.data;
    for (size_t i = 0; !status && i < work->tokens.size / sizeof *tokens; i++) {
        uint32_t ends[2] = { tokens[i].begin, tokens[i].end };
        for (int k = 0; k < 2; k++) {
            for (; at < ends[k]; at++)
                bytes += ((unsigned char)work->mapped.data[at] & 0xc0) != 0x80;
            for (; at > ends[k]; at--)
                bytes -= ((unsigned char)work->mapped.data[at - 1] & 0xc0) != 0x80;
            ends[k] = (uint32_t)bytes;
        }
        tokens[i].begin = ends[0];
        tokens[i].end = ends[1];
    }
    return status;
}

/* A token's spelling, as the reference keeps it: the unknown token of Unigram is spelled as the
 * text is. */
static void put_token(struct rwk_work *work, const struct rwk_text *text, size_t begin,
                      const struct rwk_token *token, bool raw)
{
    const struct rwk_entry *e = &work->t->entries[token->id];
    struct rwk_span span = { 0, 0 };
    if (work->with_spans)
        span = rwk_text_span(text, begin + token->begin, begin + token->end);
    if (token->id != work->t->unk || work->t->model != RWK_MODEL_UNIGRAM) {
        rwk_work_put(work, token->id, span, e->text, e->size);
        return;
    }
    const char *bytes = text->data + begin + token->begin;
    size_t size = token->end - token->begin;
    if (raw)
        map_bytes(work, bytes, size);
    rwk_work_put(work, token->id, span, raw ? work->mapped.data : bytes,
                 raw ? work->mapped.size : size);
}

static void put_tokens(struct rwk_work *work, const struct rwk_text *text, size_t begin,
                       const struct rwk_token *tokens, size_t n, bool raw)
{
    for (size_t i = 0; i < n; i++)
        put_token(work, text, begin, &tokens[i], raw);
}

static enum rwk_status encode_part(struct rwk_work *work, const struct rwk_text *text, size_t begin,
                                   size_t size, bool raw)
{
    const char *bytes = text->data + begin;
    struct rwk_cache_slot *slot = NULL;
    uint32_t hash = 0;
    if (size <= LONGEST_KEY) {
        if (!make_room(work))
            return rwk_fail_nomem(work->error, work->n_slots);
        hash = (uint32_t)rwk_hash(bytes, size);
        slot = slot_of(work, hash, bytes, size);
        if (slot->size) {
            const struct rwk_token *cached =
                (const struct rwk_token *)(const void *)work->cached_tokens.data;
            put_tokens(work, text, begin, slot->n ? cached + slot->first : NULL, slot->n, raw);
            return RWK_STATUS_OK;
        }
    }
    work->tokens.size = 0;
    enum rwk_status status = raw ? run_mapped(work, bytes, size) : rwk_model_run(work, bytes, size);
    if (status)
        return status;
    size_t n = work->tokens.size / sizeof(struct rwk_token);
    if (slot) {
        *slot = (struct rwk_cache_slot) {
            hash, (uint32_t)work->keys.size, (uint32_t)size,
            (uint32_t)(work->cached_tokens.size / sizeof(struct rwk_token)), (uint32_t)n
        };
        work->n_used++;
        rwk_buffer_append(&work->keys, bytes, size);
        rwk_buffer_append(&work->cached_tokens, work->tokens.data, work->tokens.size);
    }
    put_tokens(work, text, begin, (const struct rwk_token *)(const void *)work->tokens.data, n,
               raw);
    return work->keys.failed || work->cached_tokens.failed || work->tokens.failed ||
                   work->ids.failed || work->spans.failed
               ? rwk_fail_nomem(work->error, size)
               : RWK_STATUS_OK;
}

/* Long pieces in parts where that makes no difference, so that their words, too, are known. */
static enum rwk_status encode_piece(struct rwk_work *work, const struct rwk_text *text,
                                    struct rwk_slice s, bool raw)
{
    enum { LONG = 48 };
    enum rwk_status status = RWK_STATUS_OK;
    if (s.end - s.begin > UINT32_MAX / 4)
        return rwk_fail(work->error, RWK_STATUS_RANGE, NULL,
                        "a piece of the text is longer than 1 GiB");
    if (s.end - s.begin <= LONG || !work->t->joins)
        return encode_part(work, text, s.begin, s.end - s.begin, raw);
    for (size_t at = s.begin, n; at < s.end && !status; at += n) {
        n = rwk_bpe_part(work->t, text->data + at, s.end - at, raw);
        status = encode_part(work, text, at, n, raw);
    }
    return status;
}

enum rwk_status rwk_encode_chunk(struct rwk_work *work, const struct rwk_text *text)
{
    const struct rwk_tokenizer *t = work->t;
    struct pieces p = { .text = rwk_text_slice(text, 0, text->size),
                        .slices = { .memory = &work->memory } };
    enum rwk_status status = RWK_STATUS_OK;
    put_slice(&p.slices, 0, text->size);
    for (size_t i = 0; i < t->n_split_steps && !status; i++) {
        const struct rwk_step *step = &t->splitter.items[i];
        status = step->kind == RWK_STEP_SPLIT ? split(work, step, &p) : rewrite(work, step, &p);
        if (!status && p.slices.failed)
            status = rwk_fail_nomem(work->error, text->size);
    }
    const struct rwk_slice *s = (const struct rwk_slice *)(const void *)p.slices.data;
    for (size_t i = 0; !status && i < p.slices.size / sizeof *s; i++)
        status = encode_piece(work, &p.text, s[i], t->n_split_steps < t->splitter.n);
    rwk_text_finish(&p.text);
    rwk_buffer_finish(&p.slices);
    return status;
}
