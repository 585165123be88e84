/* Text -> ids: added tokens are cut out of the input, then of what the normalizer makes of the
 * rest; what lies between goes to the splitting steps and the model (split.c). */
#include "loaders/tokenizer/internal.h"

#include <utf8proc.h>

/* ---- offsets ---- */

static size_t space_at(const char *p)
{
    uint32_t c;
    size_t n = rwk_utf8_next(p, &c);
    return rwk_is_space(c) ? n : 0;
}

static size_t blanks(const char *text, size_t size, bool at_end)
{
    static const char mapped_blank[] = "\xc4\xa0"; /* of the byte-level alphabet */
    size_t n = 0;
    for (size_t begin = 0, end = size; begin < end; n++) {
        uint32_t code;
        size_t at = at_end ? rwk_utf8_back(text, end) : begin, k = rwk_utf8_next(text + at, &code);
        if (!rwk_is_space(code) && !(k == 2 && memcmp(text + at, mapped_blank, 2) == 0))
            break;
        begin += at_end ? 0 : k;
        end = at_end ? at : end;
    }
    return n;
}

/* Each blank that a token's spelling begins or ends with takes a character off its span. */
static void trim_span(const struct rwk_work *work, struct rwk_span *s, const char *text,
                      size_t size)
{
    size_t left = blanks(text, size, false), right = blanks(text, size, true);
    if (work->t->trim.prefix_space && left == 1 && (work->spans.size == 0 || s->begin == 0))
        left = 0;                               /* the blank that was put in front */
    for (; left && s->begin < s->end; left--) { /* the input may be broken */
        size_t n = rwk_utf8_length(work->input + s->begin, s->end - s->begin);
        s->begin += n ? n : 1;
    }
    for (; right && s->end > s->begin; right--)
        s->end = s->begin + rwk_utf8_back(work->input + s->begin, s->end - s->begin);
}

void rwk_work_put(struct rwk_work *work, uint32_t id, struct rwk_span span, const char *text,
                  size_t size)
{
    rwk_buffer_append(&work->ids, &id, sizeof id);
    if (!work->with_spans)
        return;
    if (work->t->trim.wanted)
        trim_span(work, &span, text, size);
    rwk_buffer_append(&work->spans, &span, sizeof span);
}

/* ---- added tokens ---- */

/* Word characters matter for single_word: letters, marks, digits, joining punctuation. */
static bool is_word_at(const char *p)
{
    uint32_t c;
    rwk_utf8_next(p, &c);
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
               (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
               (c >= 0x1f170 && c <= 0x1f189);
    }
}

/* The longest token of the trie at text[at..]; NULL if none. */
static const struct rwk_added *match_at(const struct rwk_work *work, const struct rwk_trie *trie,
                                        const struct rwk_text *text, size_t at, size_t *ret_end)
{
    const struct rwk_added *found = NULL;
    uint32_t node = 0;
    for (size_t i = at;
         i < text->size && (node = rwk_trie_step(trie, node, (unsigned char)text->data[i])); i++) {
        uint32_t value = rwk_trie_value(trie, node);
        if (value == RWK_TOKEN_NONE)
            continue;
        found = &work->t->added[value];
        *ret_end = i + 1;
    }
    return found;
}

enum rwk_status rwk_cut_added(struct rwk_work *work, const struct rwk_trie *trie,
                              const struct rwk_text *text, rwk_chunk_fn chunk)
{
    const char *p = text->data;
    size_t size = text->size, done = 0;
    for (size_t at = 0, next; at < size && trie->n_edges; at = next) {
        next = at + 1;
        const struct rwk_added *a =
            trie->first[(unsigned char)p[at]] ? match_at(work, trie, text, at, &next) : NULL;
        if (!a || (work->flags & RWK_ENCODE_PLAIN_SPECIAL && a->special))
            continue;
        size_t begin = at, end = next;
        if (a->single_word && ((begin > 0 && is_word_at(p + rwk_utf8_back(p, begin))) ||
                               (end < size && is_word_at(p + end))))
            continue;
        while (a->lstrip && begin > done && space_at(p + rwk_utf8_back(p, begin)))
            begin = rwk_utf8_back(p, begin);
        begin = a->lstrip && begin < done
                    ? done
                    : begin; /* an earlier token may have taken blanks of this one */
        while (a->rstrip && end < size && space_at(p + end))
            end += space_at(p + end);
        if (done < begin) {
            struct rwk_text slice = rwk_text_slice(text, done, begin);
            enum rwk_status status = chunk(work, &slice);
            if (status)
                return status;
        }
        if (begin < end)
            rwk_work_put(work, a->id, rwk_text_span(text, begin, end), p + begin, end - begin);
        done = end;
    }
    struct rwk_text slice = rwk_text_slice(text, done < size ? done : size, size);
    return slice.size ? chunk(work, &slice) : RWK_STATUS_OK;
}

static enum rwk_status normalize_chunk(struct rwk_work *work, const struct rwk_text *text)
{
    struct rwk_text chunk = rwk_text_slice(text, 0, text->size);
    enum rwk_status status =
        rwk_normalize(work->t, &work->matcher, &work->memory, &chunk, work->error);
    if (!status && work->t->spm &&
        work->t->model == RWK_MODEL_UNIGRAM) /* the lattice knows user-defined pieces */
        status = chunk.size ? rwk_encode_chunk(work, &chunk) : RWK_STATUS_OK;
    else if (!status)
        status = rwk_cut_added(work, &work->t->normalized_trie, &chunk, rwk_encode_chunk);
    rwk_text_finish(&chunk);
    return status;
}

/* ---- the whole ---- */

/* The input as valid UTF-8: itself, or with one U+FFFD for each maximal broken part. */
static bool take_input(struct rwk_text *to, const char *text, size_t size)
{
    size_t done = 0;
    const struct rwk_text whole = { .data = text, .size = size, .with_spans = to->with_spans };
    for (size_t i = 0, n; i < size; i += n) {
        n = rwk_ascii_length(text + i, size - i);
        if (!n)
            n = rwk_utf8_length(text + i, size - i);
        if (n)
            continue;
        n = rwk_utf8_broken(text + i, size - i);
        rwk_text_copy(to, &whole, done, i);
        rwk_text_put(to, "\xef\xbf\xbd", 3, (struct rwk_span) { i, i + n });
        done = i + n;
    }
    if (done == 0) {
        *to = whole;
        return true;
    }
    rwk_text_copy(to, &whole, done, size);
    return rwk_text_ready(to);
}

static enum rwk_status encode(struct rwk_work *work, const char *text, size_t size)
{
    const struct rwk_tokenizer *t = work->t;
    struct rwk_text input;
    rwk_text_init(&input, &work->memory, work->with_spans);
    work->input = text;
    enum rwk_status status = take_input(&input, size ? text : "", size)
                                 ? rwk_cut_added(work, &t->raw_trie, &input, normalize_chunk)
                                 : rwk_fail_nomem(work->error, size);
    rwk_text_finish(&input);
    return status;
}

/* Tokens before and behind the text; places them at its ends. */
static void put_outside(struct rwk_work *work, uint64_t size, uint32_t *ret_ids, size_t capacity,
                        struct rwk_span *ret_spans, size_t *ret_count)
{
    const struct rwk_tokenizer *t = work->t;
    bool add = work->flags & RWK_ENCODE_ADD_SPECIAL;
    const struct {
        const uint32_t *ids;
        size_t n;
    } runs[] = { { t->prefix_ids, add ? t->n_prefix : 0 },
                 { (const uint32_t *)(const void *)work->ids.data,
                   work->ids.size / sizeof(uint32_t) },
                 { t->suffix_ids, add ? t->n_suffix : 0 } };
    size_t n = 0;
    for (int r = 0; r < 3; n += runs[r++].n) {
        size_t kept = n >= capacity ? 0 : runs[r].n < capacity - n ? runs[r].n : capacity - n;
        if (kept)
            memcpy(ret_ids + n, runs[r].ids, kept * sizeof *ret_ids);
        if (kept && ret_spans && r == 1)
            memcpy(ret_spans + n, work->spans.data, kept * sizeof *ret_spans);
        for (size_t i = 0; ret_spans && r != 1 && i < kept; i++)
            ret_spans[n + i].begin = ret_spans[n + i].end = r ? size : 0;
    }
    *ret_count = n;
}

enum rwk_status rwk_tokenizer_encode(const struct rwk_tokenizer *tokenizer, const char *text,
                                     size_t size, uint32_t flags, uint32_t *ret_ids,
                                     size_t capacity, struct rwk_span *ret_spans, size_t *ret_count,
                                     struct rwk_error *error)
{
    struct rwk_work work = { .t = tokenizer,
                             .error = error,
                             .flags = flags,
                             .with_spans = ret_spans != NULL || tokenizer->needs_spans };
    rwk_memory_init(&work.memory, &tokenizer->memory.host, 0);
    struct rwk_buffer *const buffers[] = { &work.ids,          &work.spans,  &work.matches,
                                           &work.parts,        &work.mapped, &work.tokens,
                                           &work.scratch,      &work.heap,   &work.keys,
                                           &work.cached_tokens };
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        buffers[i]->memory = &work.memory;
    work.matcher.memory = &work.memory;
    enum rwk_status status = encode(&work, text, size);
    if (!status && (work.ids.failed || work.spans.failed))
        status = rwk_fail_nomem(error, size);
    if (!status)
        put_outside(&work, size, ret_ids, capacity, ret_spans, ret_count);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        rwk_buffer_finish(buffers[i]);
    rwk_free(&work.memory, work.slots);
    rwk_matcher_finish(&work.matcher);
    return status;
}
