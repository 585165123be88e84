/* Text -> ids. A chunk is what lies between added tokens; its text and pieces go through the splitting steps, each of which
 * gives new pieces (and perhaps a new text), and the model reads the last ones. */
#include "loaders/tokenizer/internal.h"

#include <string.h>

struct encoder {
    const struct rwk_tokenizer *t;
    struct rwk_memory memory;    /* the call's own counters over the tokenizer's allocator */
    struct rwk_ids ids;
    struct rwk_error *error;
    uint32_t flags;
    bool with_spans;
};

/* ---- splitting ---- */

struct pieces {
    struct rwk_text text;
    struct rwk_buffer slices;    /* struct rwk_slice */
};

static void put_slice(struct rwk_buffer *out, size_t begin, size_t end)
{
    struct rwk_slice s = { begin, end };
    if (begin < end)
        rwk_buffer_append(out, &s, sizeof s);
}

/* The pieces that matches make of [begin, end); matches are relative to begin. Gaps and matches alternate; `invert` swaps
 * their parts. */
static void split_slice(const struct rwk_step *step, struct rwk_slice s, const struct rwk_slice *m, size_t n,
                        struct rwk_buffer *out)
{
    size_t at = s.begin, open = s.begin; /* open: where the piece under way began (merged and contiguous behaviours) */
    bool previous = false;               /* whether the last part was a match */
    for (size_t i = 0; i <= 2 * n; i++) {
        size_t end = i == 2 * n ? s.end : i % 2 ? s.begin + m[i / 2].end : s.begin + m[i / 2].begin;
        bool match = (i % 2 != 0) != step->invert;
        if (end == at)
            continue;
        switch (step->option) {
        case RWK_REMOVED:
            if (!match)
                put_slice(out, at, end);
            open = end;
            break;
        case RWK_ISOLATED:
            put_slice(out, at, end);
            open = end;
            break;
        case RWK_MERGED_WITH_PREVIOUS:
            if (!match || previous) {
                put_slice(out, open, at);
                open = at;
            }
            if (match) {
                put_slice(out, open, end);
                open = end;
            }
            break;
        case RWK_MERGED_WITH_NEXT:
            if (match) {
                put_slice(out, open, at);
                open = at;
            } else {
                put_slice(out, open, end);
                open = end;
            }
            break;
        case RWK_CONTIGUOUS:
            if (match != previous || at == s.begin) {
                put_slice(out, open, at);
                open = at;
            }
            break;
        }
        previous = match;
        at = end;
    }
    put_slice(out, open, s.end);
}

static enum rwk_status split(struct encoder *e, const struct rwk_step *step, struct pieces *p)
{
    struct rwk_buffer out = { .memory = &e->memory }, matches = { .memory = &e->memory };
    const struct rwk_slice *s = (const struct rwk_slice *)p->slices.data;
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = 0; i < p->slices.size / sizeof *s && !status; i++) {
        matches.size = 0;
        status = rwk_pattern_matches(step->pattern, p->text.bytes.data + s[i].begin, s[i].end - s[i].begin, &matches, e->error);
        if (!status)
            split_slice(step, s[i], (const struct rwk_slice *)matches.data, matches.size / sizeof *s, &out);
    }
    rwk_buffer_finish(&matches);
    rwk_buffer_finish(&p->slices);
    p->slices = out;
    return status;
}

/* Steps that make a new text: each piece is rewritten into it. `at_start`: the chunk begins the input. */
static enum rwk_status rewrite(struct encoder *e, const struct rwk_step *step, struct pieces *p, bool at_start)
{
    struct pieces q = { .slices = { .memory = &e->memory } };
    const struct rwk_slice *s = (const struct rwk_slice *)p->slices.data;
    rwk_text_init(&q.text, &e->memory, e->with_spans);
    for (size_t i = 0; i < p->slices.size / sizeof *s; i++) {
        size_t begin = q.text.bytes.size;
        const char *bytes = p->text.bytes.data + s[i].begin;
        if (step->kind == RWK_STEP_MAP_BYTES) {
            for (size_t at = s[i].begin; at < s[i].end; at++) {
                char out[4];
                rwk_text_put(&q.text, out, rwk_utf8_put(out, rwk_byte_to_code[(unsigned char)p->text.bytes.data[at]]), &p->text,
                             at, at + 1);
            }
        } else if (step->kind == RWK_STEP_PREFIX_SPACE) {
            if (bytes[0] != ' ')
                rwk_text_put(&q.text, " ", 1, &p->text, s[i].begin, s[i].begin);
            rwk_text_copy(&q.text, &p->text, s[i].begin, s[i].end);
        } else {
            bool has = s[i].end - s[i].begin >= step->content_size && memcmp(bytes, step->content, step->content_size) == 0;
            bool wants = step->option == RWK_PREPEND_ALWAYS || (step->option == RWK_PREPEND_FIRST && at_start && s[i].begin == 0);
            if (wants && bytes[0] != ' ' && !has)
                rwk_text_put(&q.text, step->content, step->content_size, &p->text, s[i].begin, s[i].begin);
            for (size_t at = s[i].begin; at < s[i].end; at++)
                if (p->text.bytes.data[at] == ' ')
                    rwk_text_put(&q.text, step->content, step->content_size, &p->text, at, at + 1);
                else
                    rwk_text_copy(&q.text, &p->text, at, at + 1);
        }
        put_slice(&q.slices, begin, q.text.bytes.size);
    }
    rwk_text_finish(&p->text);
    rwk_buffer_finish(&p->slices);
    *p = q;
    return RWK_STATUS_OK;
}

static enum rwk_status encode_chunk(struct encoder *e, const struct rwk_text *text, size_t begin, size_t end, bool at_start)
{
    struct pieces p = { .slices = { .memory = &e->memory } };
    enum rwk_status status = RWK_STATUS_OK;
    if (begin == end)
        return RWK_STATUS_OK;
    rwk_text_init(&p.text, &e->memory, e->with_spans);
    rwk_text_copy(&p.text, text, begin, end);
    put_slice(&p.slices, 0, p.text.bytes.size);
    for (size_t i = 0; i < e->t->splitter.n && !status; i++) {
        const struct rwk_step *step = &e->t->splitter.items[i];
        status = step->kind == RWK_STEP_SPLIT ? split(e, step, &p) : rewrite(e, step, &p, at_start);
        if (!status && (rwk_text_failed(&p.text) || p.slices.failed))
            status = rwk_fail_nomem(e->error, end - begin);
    }
    const struct rwk_slice *s = (const struct rwk_slice *)p.slices.data;
    for (size_t i = 0; !status && i < p.slices.size / sizeof *s; i++)
        status = rwk_model_run(e->t, &p.text, s[i], &e->ids, e->error);
    rwk_text_finish(&p.text);
    rwk_buffer_finish(&p.slices);
    return status;
}

/* ---- added tokens ---- */

static bool is_space_at(const char *p, const char *end, size_t *ret_size)
{
    uint32_t c;
    *ret_size = rwk_utf8_next(p, end, &c);
    return rwk_is_space(c);
}

/* Word characters matter for single_word: letters, digits, underscore, and everything beyond ASCII but blanks and the
 * punctuation blocks. */
static bool is_word_at(const char *p, const char *end)
{
    uint32_t c;
    rwk_utf8_next(p, end, &c);
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return !(c < 0xaa || (c >= 0x2000 && c <= 0x206f) || (c >= 0x3000 && c <= 0x3004) || c == 0xd7 || c == 0xf7);
}

static size_t back(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

/* The longest token of the trie at text[at..]; NULL if none. */
static const struct rwk_added *match_at(const struct encoder *e, const struct rwk_trie *trie, const char *text, size_t size,
                                        size_t at, size_t *ret_end)
{
    const struct rwk_added *found = NULL;
    uint32_t node = 0;
    for (size_t i = at; i < size; i++) {
        node = rwk_trie_step(trie, node, (unsigned char)text[i]);
        if (!node)
            break;
        uint32_t value = ((const struct rwk_trie_node *)trie->nodes.data)[node].value;
        if (!value || (e->flags & RWK_ENCODE_PLAIN_SPECIAL && e->t->added[value - 1].special))
            continue;
        found = &e->t->added[value - 1];
        *ret_end = i + 1;
    }
    return found;
}

typedef enum rwk_status (*chunk_fn)(struct encoder *e, const struct rwk_text *text, size_t begin, size_t end, bool at_start);

/* Cuts added tokens out of a text; what lies between goes to `chunk`. */
static enum rwk_status cut(struct encoder *e, const struct rwk_trie *trie, const struct rwk_text *text, bool at_start,
                           chunk_fn chunk)
{
    const char *p = text->bytes.data;
    size_t size = text->bytes.size, done = 0;
    for (size_t at = 0; at < size && trie->nodes.size;) {
        size_t end = at, step;
        if (!trie->root[(unsigned char)p[at]]) {
            at++;
            continue;
        }
        const struct rwk_added *a = match_at(e, trie, p, size, at, &end);
        if (!a) {
            at++;
            continue;
        }
        if (a->single_word && ((at > 0 && is_word_at(p + back(p, at), p + size)) || (end < size && is_word_at(p + end, p + size)))) {
            at = end;
            continue;
        }
        size_t begin = at;
        while (a->lstrip && begin > done && is_space_at(p + back(p, begin), p + size, &step))
            begin = back(p, begin);
        while (a->rstrip && end < size && is_space_at(p + end, p + size, &step))
            end += step;
        enum rwk_status status = chunk(e, text, done, begin, at_start && done == 0);
        if (status)
            return status;
        rwk_ids_put(&e->ids, a->id, text, begin, end);
        at = done = end;
    }
    return chunk(e, text, done, size, at_start && done == 0);
}

static enum rwk_status normalize_chunk(struct encoder *e, const struct rwk_text *text, size_t begin, size_t end, bool at_start)
{
    struct rwk_text chunk;
    if (begin == end)
        return RWK_STATUS_OK;
    rwk_text_init(&chunk, &e->memory, e->with_spans);
    rwk_text_copy(&chunk, text, begin, end);
    enum rwk_status status = rwk_text_failed(&chunk) ? rwk_fail_nomem(e->error, end - begin)
                                                     : rwk_normalize(e->t, &chunk, e->error);
    if (!status && chunk.bytes.size)
        status = cut(e, &e->t->normalized_trie, &chunk, at_start, encode_chunk);
    rwk_text_finish(&chunk);
    return status;
}

/* ---- the whole ---- */

/* The input as valid UTF-8: one U+FFFD for each maximal broken part. */
static void take_input(struct rwk_text *to, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        bool incomplete;
        size_t n = rwk_utf8_valid(text + i, size - i, &incomplete), used = n ? n : 1;
        struct rwk_span span = { i, i + used };
        rwk_buffer_append(&to->bytes, n ? text + i : "\xef\xbf\xbd", n ? n : 3);
        for (size_t k = 0; to->with_spans && k < (n ? n : 3); k++) {
            struct rwk_span own = n ? (struct rwk_span){ i + k, i + k + 1 } : span;
            rwk_buffer_append(&to->spans, &own, sizeof own);
        }
        i += used;
    }
}

static void put_template(struct encoder *e, const uint32_t *ids, size_t n, size_t place)
{
    struct rwk_span span = { place, place };
    for (size_t i = 0; i < n; i++) {
        rwk_buffer_append(&e->ids.ids, &ids[i], sizeof *ids);
        if (e->with_spans)
            rwk_buffer_append(&e->ids.spans, &span, sizeof span);
    }
}

enum rwk_status rwk_tokenizer_encode(const struct rwk_tokenizer *tokenizer, const char *text, size_t size, uint32_t flags,
                                     uint32_t *ret_ids, size_t capacity, struct rwk_span *ret_spans, size_t *ret_count,
                                     struct rwk_error *error)
{
    struct encoder e = { .t = tokenizer, .error = error, .flags = flags, .with_spans = ret_spans != NULL };
    struct rwk_text input;
    rwk_memory_init(&e.memory, &tokenizer->memory.host, 0);
    e.ids = (struct rwk_ids){ .ids = { .memory = &e.memory }, .spans = { .memory = &e.memory } };
    rwk_text_init(&input, &e.memory, e.with_spans);
    take_input(&input, text, size);
    enum rwk_status status = rwk_text_failed(&input) ? rwk_fail_nomem(error, size) : RWK_STATUS_OK;
    if (flags & RWK_ENCODE_ADD_SPECIAL)
        put_template(&e, tokenizer->prefix_ids, tokenizer->n_prefix, 0);
    if (!status)
        status = cut(&e, &tokenizer->raw_trie, &input, true, normalize_chunk);
    if (flags & RWK_ENCODE_ADD_SPECIAL)
        put_template(&e, tokenizer->suffix_ids, tokenizer->n_suffix, size);
    if (!status && (e.ids.ids.failed || e.ids.spans.failed))
        status = rwk_fail_nomem(error, size);
    if (!status) {
        size_t n = e.ids.ids.size / sizeof(uint32_t), kept = n < capacity ? n : capacity;
        if (kept)
            memcpy(ret_ids, e.ids.ids.data, kept * sizeof *ret_ids);
        if (kept && ret_spans)
            memcpy(ret_spans, e.ids.spans.data, kept * sizeof *ret_spans);
        *ret_count = n;
    }
    rwk_text_finish(&input);
    rwk_buffer_finish(&e.ids.ids);
    rwk_buffer_finish(&e.ids.spans);
    return status;
}
