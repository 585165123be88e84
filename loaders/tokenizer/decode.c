/* Ids -> text: the pieces go through the decoder's steps as a list, then are joined. */
#include "loaders/tokenizer/internal.h"

/* A list of strings in one buffer. */
struct list {
    struct rwk_buffer bytes, ends; /* ends: size_t */
};

static void list_init(struct list *l, struct rwk_memory *memory)
{
    *l = (struct list) { .bytes = { .memory = memory }, .ends = { .memory = memory } };
}

static void list_finish(struct list *l)
{
    rwk_buffer_finish(&l->bytes);
    rwk_buffer_finish(&l->ends);
}

static void list_close(struct list *l)
{
    rwk_buffer_append(&l->ends, &l->bytes.size, sizeof l->bytes.size);
}

static size_t list_count(const struct list *l)
{
    return l->ends.size / sizeof(size_t);
}

static const char *list_get(const struct list *l, size_t i, size_t *ret_size)
{
    const size_t *ends = (const size_t *)l->ends.data;
    size_t begin = i ? ends[i - 1] : 0;
    *ret_size = ends[i] - begin;
    return l->bytes.data ? l->bytes.data + begin : "";
}

/* Appends bytes as UTF-8, one U+FFFD for each maximal broken part. */
static void append_lossy(struct rwk_buffer *out, const char *p, size_t n)
{
    for (size_t i = 0, k; i < n; i += k) {
        k = rwk_ascii_length(p + i, n - i);
        if (!k)
            k = rwk_utf8_length(p + i, n - i);
        if (k) {
            rwk_buffer_append(out, p + i, k);
            continue;
        }
        rwk_buffer_append(out, "\xef\xbf\xbd", 3);
        k = rwk_utf8_broken(p + i, n - i);
    }
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of "<0xHH>", or -1. */
static int byte_token(const char *p, size_t n)
{
    if (n != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>' || hex(p[3]) < 0 || hex(p[4]) < 0)
        return -1;
    return hex(p[3]) << 4 | hex(p[4]);
}

static void byte_level(const struct list *in, struct list *out)
{
    struct rwk_buffer raw = { .memory = out->bytes.memory };
    for (size_t i = 0; i < list_count(in); i++) {
        size_t n, mark = raw.size;
        const char *p = list_get(in, i, &n), *end = p + n;
        for (const char *q = p; q < end;) {
            uint32_t code;
            q += rwk_utf8_next(q, &code);
            int byte = rwk_code_to_byte(code);
            char b = (char)byte;
            if (byte < 0) { /* not of the alphabet: the whole token as it is */
                raw.size = mark;
                rwk_buffer_append(&raw, p, n);
                break;
            }
            rwk_buffer_append(&raw, &b, 1);
        }
    }
    append_lossy(&out->bytes, raw.data, raw.size);
    out->bytes.failed |= raw.failed;
    rwk_buffer_finish(&raw);
    list_close(out);
}

static void put_byte_run(struct list *out, struct rwk_buffer *run)
{
    bool valid = true;
    for (size_t i = 0, k; i < run->size && valid; i += k)
        valid = (k = rwk_utf8_length(run->data + i, run->size - i)) > 0;
    if (run->size && valid) {
        rwk_buffer_append(&out->bytes, run->data, run->size);
        list_close(out);
    }
    for (size_t i = 0; i < run->size && !valid; i++) {
        rwk_buffer_append(&out->bytes, "\xef\xbf\xbd", 3);
        list_close(out);
    }
    run->size = 0;
}

static void byte_fallback(const struct list *in, struct list *out)
{
    struct rwk_buffer run = { .memory = out->bytes.memory };
    for (size_t i = 0; i < list_count(in); i++) {
        size_t n;
        const char *p = list_get(in, i, &n);
        int byte = byte_token(p, n);
        char b = (char)byte;
        if (byte >= 0) {
            rwk_buffer_append(&run, &b, 1);
            continue;
        }
        put_byte_run(out, &run);
        rwk_buffer_append(&out->bytes, p, n);
        list_close(out);
    }
    put_byte_run(out, &run);
    out->bytes.failed |= run.failed;
    rwk_buffer_finish(&run);
}

static enum rwk_status replace(const struct rwk_decode_step *step, const struct list *in,
                               struct list *out, struct rwk_error *error)
{
    struct rwk_buffer matches = { .memory = out->bytes.memory };
    struct rwk_matcher matcher = { .memory = out->bytes.memory };
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = 0; i < list_count(in) && !status; i++) {
        size_t n, at = 0;
        const char *p = list_get(in, i, &n);
        matches.size = 0;
        status = rwk_pattern_matches(step->pattern, &matcher, p, n, &matches, error);
        const struct rwk_slice *m = (const struct rwk_slice *)(const void *)matches.data;
        for (size_t k = 0; !status && k < matches.size / sizeof *m; k++) {
            rwk_buffer_append(&out->bytes, p + at, m[k].begin - at);
            rwk_buffer_append(&out->bytes, step->to, step->to_size);
            at = m[k].end;
        }
        rwk_buffer_append(&out->bytes, p + at, n - at);
        list_close(out);
    }
    rwk_buffer_finish(&matches);
    rwk_matcher_finish(&matcher);
    return status;
}

static void strip(const struct rwk_decode_step *step, const struct list *in, struct list *out)
{
    for (size_t i = 0; i < list_count(in); i++) {
        size_t n;
        const char *p = list_get(in, i, &n);
        for (uint32_t k = 0; k < step->start && step->from_size && n >= step->from_size &&
                             memcmp(p, step->from, step->from_size) == 0;
             k++) {
            p += step->from_size;
            n -= step->from_size;
        }
        for (uint32_t k = 0; k < step->stop && step->from_size && n >= step->from_size &&
                             memcmp(p + n - step->from_size, step->from, step->from_size) == 0;
             k++)
            n -= step->from_size;
        rwk_buffer_append(&out->bytes, p, n);
        list_close(out);
    }
}

/* The mark becomes a blank; in the first token, where a mark was put in front, it goes. */
static void metaspace(const struct rwk_decode_step *step, const struct list *in, struct list *out)
{
    for (size_t i = 0; i < list_count(in); i++) {
        size_t n;
        const char *p = list_get(in, i, &n);
        for (size_t at = 0; at < n;) {
            if (n - at >= step->from_size && memcmp(p + at, step->from, step->from_size) == 0) {
                if (i > 0 || step->option == RWK_PREPEND_NEVER)
                    rwk_buffer_append(&out->bytes, " ", 1);
                at += step->from_size;
            } else {
                rwk_buffer_append(&out->bytes, p + at++, 1);
            }
        }
        list_close(out);
    }
}

static void bpe_suffix(const struct rwk_decode_step *step, const struct list *in, struct list *out)
{
    size_t count = list_count(in);
    for (size_t i = 0; i < count; i++) {
        size_t n;
        const char *p = list_get(in, i, &n);
        for (size_t at = 0; at < n;) {
            if (step->from_size && n - at >= step->from_size &&
                memcmp(p + at, step->from, step->from_size) == 0) {
                if (i + 1 < count)
                    rwk_buffer_append(&out->bytes, " ", 1);
                at += step->from_size;
            } else {
                rwk_buffer_append(&out->bytes, p + at++, 1);
            }
        }
        list_close(out);
    }
}

/* Blanks before punctuation and English contractions go, in out's bytes from `mark` on. */
static void clean_up(struct rwk_buffer *out, size_t mark)
{
    static const char *const rules[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },    { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },  { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" }
    };
    for (size_t c = 0; !out->failed && c < sizeof rules / sizeof *rules; c++) {
        size_t from = strlen(rules[c][0]), to = strlen(rules[c][1]), kept = mark, at = mark;
        for (char *found; at < out->size; at = (size_t)(found - out->data) + from) {
            found = memmem(out->data + at, out->size - at, rules[c][0], from);
            size_t end = found ? (size_t)(found - out->data) : out->size;
            memmove(out->data + kept, out->data + at, end - at);
            kept += end - at;
            if (!found)
                break;
            memcpy(out->data + kept, rules[c][1], to); /* `to` is the shorter one */
            kept += to;
        }
        out->size = kept;
    }
}

static void wordpiece(const struct rwk_decode_step *step, const struct list *in, struct list *out)
{
    for (size_t i = 0; i < list_count(in); i++) {
        size_t n, mark = out->bytes.size;
        const char *p = list_get(in, i, &n);
        bool inside = i > 0 && n >= step->from_size && memcmp(p, step->from, step->from_size) == 0;
        if (i > 0 && !inside)
            rwk_buffer_append(&out->bytes, " ", 1);
        rwk_buffer_append(&out->bytes, inside ? p + step->from_size : p,
                          inside ? n - step->from_size : n);
        if (step->option)
            clean_up(&out->bytes, mark);
        list_close(out);
    }
}

/* Appends p[0..n) with every `from` replaced. */
static void append_replaced(struct rwk_buffer *out, const char *p, size_t n, const char *from,
                            size_t from_size, const char *to)
{
    for (size_t at = 0; at < n;) {
        const char *found = from_size ? memmem(p + at, n - at, from, from_size) : NULL;
        size_t end = found ? (size_t)(found - p) : n;
        rwk_buffer_append(out, p + at, end - at);
        if (found)
            rwk_buffer_append(out, to, strlen(to));
        at = found ? end + from_size : n;
    }
}

/* Connectionist temporal classification: repeated tokens count once, padding goes, the delimiter is
 * a blank. */
static void ctc(const struct rwk_decode_step *step, const struct list *in, struct list *out)
{
    struct rwk_buffer one = { .memory = out->bytes.memory };
    const char *before = NULL;
    size_t before_size = 0;
    for (size_t i = 0; i < list_count(in); i++) {
        size_t n, mark = out->bytes.size;
        const char *p = list_get(in, i, &n);
        if (before && n == before_size && memcmp(p, before, n) == 0)
            continue;
        before = p;
        before_size = n;
        one.size = 0;
        append_replaced(&one, p, n, step->from, step->from_size, "");
        if (step->option)
            clean_up(&one, 0);
        append_replaced(&out->bytes, one.data, one.size, step->to, step->option ? step->to_size : 0,
                        " ");
        if (out->bytes.size > mark)
            list_close(out);
    }
    out->bytes.failed |= one.failed;
    rwk_buffer_finish(&one);
}

/* SentencePiece: the word mark before the text goes; `option`: one of each piece while there is no
 * text yet. */
static void leading_marks(const struct rwk_decode_step *step, const struct list *in,
                          struct list *out)
{
    bool at_start = true;
    for (size_t i = 0; i < list_count(in); i++) {
        size_t n;
        const char *p = list_get(in, i, &n);
        bool marked =
            at_start && n >= step->from_size && memcmp(p, step->from, step->from_size) == 0;
        size_t skip = marked ? step->from_size : 0;
        rwk_buffer_append(&out->bytes, p + skip, n - skip);
        list_close(out);
        at_start = at_start && n == skip && !(marked && !step->option);
    }
}

static enum rwk_status run_step(const struct rwk_decode_step *step, const struct list *in,
                                struct list *out, struct rwk_error *error)
{
    switch (step->kind) {
    case RWK_DECODE_BYTES:
        byte_level(in, out);
        break;
    case RWK_DECODE_BYTE_FALLBACK:
        byte_fallback(in, out);
        break;
    case RWK_DECODE_REPLACE:
        return replace(step, in, out, error);
    case RWK_DECODE_FUSE:
        rwk_buffer_append(&out->bytes, in->bytes.data, in->bytes.size);
        list_close(out);
        break;
    case RWK_DECODE_STRIP:
        strip(step, in, out);
        break;
    case RWK_DECODE_METASPACE:
        metaspace(step, in, out);
        break;
    case RWK_DECODE_BPE:
        bpe_suffix(step, in, out);
        break;
    case RWK_DECODE_WORDPIECE:
        wordpiece(step, in, out);
        break;
    case RWK_DECODE_CTC:
        ctc(step, in, out);
        break;
    case RWK_DECODE_LEADING_MARKS:
        leading_marks(step, in, out);
        break;
    }
    return RWK_STATUS_OK;
}

/* The text of an id for the decoder's steps; NULL where it has no part in the text. A normalized
 * added token stands there in its normalized spelling, and by that the reference looks for special
 * tokens, so that few of them are skipped. */
const char *rwk_decode_text(const struct rwk_tokenizer *t, uint32_t id, uint32_t flags,
                            size_t *ret_size)
{
    const struct rwk_entry *e = id < t->n_entries && t->entries[id].exists ? &t->entries[id] : NULL;
    if (!e)
        return NULL;
    const char *text = e->text;
    bool special = e->special;
    *ret_size = e->size;
    if (id == t->unk && t->unk_text) {
        text = t->unk_text;
        *ret_size = t->unk_text_size;
    }
    const struct rwk_added *a = e->added_index ? &t->added[e->added_index - 1] : NULL;
    if (a && a->decoded) {
        text = a->decoded;
        *ret_size = a->decoded_size;
        const uint32_t *same = rwk_names_find(&t->added_names, text, *ret_size);
        special = same && t->entries[*same].special;
    }
    return special && flags & RWK_DECODE_SKIP_SPECIAL ? NULL : text;
}

enum rwk_status rwk_decode_append(const struct rwk_tokenizer *t, const uint32_t *ids, size_t n,
                                  uint32_t flags, struct rwk_buffer *out, struct rwk_error *error)
{
    struct list list;
    enum rwk_status status = RWK_STATUS_OK;
    list_init(&list, out->memory);
    for (size_t i = 0; i < n; i++) {
        size_t size;
        const char *text = rwk_decode_text(t, ids[i], flags, &size);
        if (!text)
            continue;
        if (t->join_with_blank && list_count(&list))
            rwk_buffer_append(&list.bytes, " ", 1);
        rwk_buffer_append(&list.bytes, text, size);
        list_close(&list);
    }
    for (size_t i = 0; i < t->n_decoder && !status && list_count(&list); i++) {
        struct list next;
        list_init(&next, out->memory);
        status = run_step(&t->decoder[i], &list, &next, error);
        list_finish(&list);
        list = next;
    }
    if (!status && (list.bytes.failed || list.ends.failed))
        status = rwk_fail_nomem(error, n);
    if (!status)
        rwk_buffer_append(out, list.bytes.data, list.bytes.size);
    list_finish(&list);
    return status ? status : out->failed ? rwk_fail_nomem(error, n) : RWK_STATUS_OK;
}

enum rwk_status rwk_tokenizer_decode(const struct rwk_tokenizer *tokenizer, const uint32_t *ids,
                                     size_t n_ids, uint32_t flags, char *ret_text, size_t capacity,
                                     size_t *ret_size, struct rwk_error *error)
{
    struct rwk_memory memory;
    struct rwk_buffer out = { .memory = &memory };
    rwk_memory_init(&memory, &tokenizer->memory.host, 0);
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] >= tokenizer->n_entries || !tokenizer->entries[ids[i]].exists)
            return rwk_fail(error, RWK_STATUS_RANGE, NULL, "token id %u does not exist", ids[i]);
    enum rwk_status status = rwk_decode_append(tokenizer, ids, n_ids, flags, &out, error);
    if (!status) {
        size_t kept = out.size < capacity ? out.size : capacity;
        if (kept)
            memcpy(ret_text, out.data, kept);
        *ret_size = out.size;
    }
    rwk_buffer_finish(&out);
    return status;
}
