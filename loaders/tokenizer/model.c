/* The models on one piece of text: byte-pair encoding, WordPiece, WordLevel (Unigram stands by itself).
 *
 * BPE: the piece's characters -> symbols; then the pair of least rank, leftmost first, is merged until none is left. Short
 * pieces are scanned anew for each merge; long ones use a heap of candidate pairs with stale entries recognised by their
 * parts, n log n in all. SentencePiece's rank is the score of the merged piece. */
#include "loaders/tokenizer/internal.h"

#include <string.h>

void rwk_ids_put(struct rwk_ids *ids, uint32_t id, const struct rwk_text *text, size_t begin, size_t end)
{
    rwk_buffer_append(&ids->ids, &id, sizeof id);
    if (!text || !text->with_spans)
        return;
    const struct rwk_span *spans = (const struct rwk_span *)text->spans.data;
    struct rwk_span span = { 0, 0 };
    if (begin < end)
        span = (struct rwk_span){ spans[begin].begin, spans[end - 1].end };
    rwk_buffer_append(&ids->spans, &span, sizeof span);
}

/* ---- BPE ---- */

struct symbol {
    uint32_t id;
    size_t begin, end;
    uint32_t previous, next; /* UINT32_MAX: none */
};

enum { SHORT_WORD = 24 }; /* symbols up to which scanning anew is quicker than a heap */

struct candidate {
    uint32_t rank, left, right_id, left_id, result;
};

struct word {
    const struct rwk_tokenizer *t;
    struct symbol *symbols;
    uint32_t n;
    struct candidate *heap;
    size_t heap_size;
    struct rwk_buffer heap_memory;
};

/* The symbol of the character(s) at [begin, end), or RWK_TOKEN_NONE; prefix and suffix of word parts where the model has them. */
static uint32_t character(const struct rwk_tokenizer *t, const char *text, size_t size, bool first, bool last)
{
    char joined[256];
    size_t n = 0, prefix = first ? 0 : t->word_prefix_size, suffix = last ? t->word_suffix_size : 0;
    if (!prefix && !suffix)
        return rwk_vocab_find(t, text, size);
    if (prefix + size + suffix > sizeof joined)
        return RWK_TOKEN_NONE;
    if (prefix)
        memcpy(joined, t->word_prefix, prefix);
    memcpy(joined + (n += prefix), text, size);
    if (suffix)
        memcpy(joined + (n += size), t->word_suffix, suffix);
    return rwk_vocab_find(t, joined, prefix + size + suffix);
}

struct unknown {
    bool pending;
    size_t begin, end;
};

static void push(struct rwk_buffer *symbols, uint32_t id, size_t begin, size_t end)
{
    struct symbol s = { .id = id, .begin = begin, .end = end };
    rwk_buffer_append(symbols, &s, sizeof s);
}

/* Bytes of a character as <0xHH> tokens, if all of them exist. */
static bool push_bytes(const struct rwk_tokenizer *t, struct rwk_buffer *symbols, const char *text, size_t begin, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t->byte_ids[(unsigned char)text[begin + i]] == RWK_TOKEN_NONE)
            return false;
    for (size_t i = 0; i < n; i++)
        push(symbols, t->byte_ids[(unsigned char)text[begin + i]], begin, begin + n);
    return true;
}

static void flush_unknown(const struct rwk_tokenizer *t, struct rwk_buffer *symbols, struct unknown *u)
{
    if (u->pending)
        push(symbols, t->unk, u->begin, u->end);
    u->pending = false;
}

static void split_characters(const struct rwk_tokenizer *t, const char *text, struct rwk_slice piece,
                             struct rwk_buffer *symbols)
{
    struct unknown u = { 0 };
    for (size_t at = piece.begin; at < piece.end;) {
        uint32_t code;
        size_t n = rwk_utf8_next(text + at, text + piece.end, &code);
        uint32_t id = character(t, text + at, n, at == piece.begin, at + n == piece.end);
        if (id != RWK_TOKEN_NONE) {
            flush_unknown(t, symbols, &u);
            push(symbols, id, at, at + n);
        } else if (!(t->byte_fallback && push_bytes(t, symbols, text, at, n)) && t->unk != RWK_TOKEN_NONE) {
            if (!t->fuse_unk)
                flush_unknown(t, symbols, &u);
            if (!u.pending)
                u.begin = at;
            u.pending = true;
            u.end = at + n;
        }
        at += n;
    }
    flush_unknown(t, symbols, &u);
}

static bool less(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void heap_push(struct word *w, struct candidate c)
{
    rwk_buffer_append(&w->heap_memory, &c, sizeof c);
    if (w->heap_memory.failed)
        return;
    w->heap = (struct candidate *)w->heap_memory.data;
    size_t at = w->heap_size++;
    for (; at && less(&c, &w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = c;
}

static struct candidate heap_pop(struct word *w)
{
    struct candidate top = w->heap[0], last = w->heap[--w->heap_size];
    w->heap_memory.size -= sizeof last;
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < w->heap_size; at = child) {
        child += child + 1 < w->heap_size && less(&w->heap[child + 1], &w->heap[child]);
        if (!less(&w->heap[child], &last))
            break;
        w->heap[at] = w->heap[child];
    }
    if (w->heap_size)
        w->heap[at] = last;
    return top;
}

static void consider(struct word *w, uint32_t left)
{
    const struct symbol *s = &w->symbols[left];
    if (left == UINT32_MAX || s->next == UINT32_MAX)
        return;
    const struct rwk_merge *m = rwk_merge_find(w->t, s->id, w->symbols[s->next].id);
    if (m)
        heap_push(w, (struct candidate){ m->rank, left, m->right, m->left, m->result });
}

/* Symbol `left` takes in its right neighbour. */
static void join(struct word *w, uint32_t left, uint32_t result)
{
    struct symbol *s = &w->symbols[left], *gone = &w->symbols[s->next];
    s->id = result;
    s->end = gone->end;
    s->next = gone->next;
    gone->id = RWK_TOKEN_NONE;
    if (s->next != UINT32_MAX)
        w->symbols[s->next].previous = left;
}

static void merge_long(struct word *w)
{
    for (uint32_t i = 0; i + 1 < w->n; i++)
        consider(w, i);
    while (w->heap_size && !w->heap_memory.failed) {
        struct candidate c = heap_pop(w);
        const struct symbol *s = &w->symbols[c.left];
        if (s->id != c.left_id || s->next == UINT32_MAX || w->symbols[s->next].id != c.right_id)
            continue;
        join(w, c.left, c.result);
        if (s->previous != UINT32_MAX)
            consider(w, s->previous);
        consider(w, c.left);
    }
}

static void merge_short(struct word *w)
{
    for (;;) {
        const struct rwk_merge *best = NULL;
        uint32_t at = 0;
        for (uint32_t i = 0; i != UINT32_MAX && w->symbols[i].next != UINT32_MAX; i = w->symbols[i].next) {
            const struct rwk_merge *m = rwk_merge_find(w->t, w->symbols[i].id, w->symbols[w->symbols[i].next].id);
            if (m && (!best || m->rank < best->rank)) {
                best = m;
                at = i;
            }
        }
        if (!best)
            return;
        join(w, at, best->result);
    }
}

static enum rwk_status bpe(const struct rwk_tokenizer *t, const struct rwk_text *text, struct rwk_slice piece,
                           struct rwk_ids *ids, struct rwk_error *error)
{
    if (t->ignore_merges) {
        uint32_t id = rwk_vocab_find(t, text->bytes.data + piece.begin, piece.end - piece.begin);
        if (id != RWK_TOKEN_NONE) {
            rwk_ids_put(ids, id, text, piece.begin, piece.end);
            return RWK_STATUS_OK;
        }
    }
    struct rwk_buffer symbols = { .memory = ids->ids.memory };
    split_characters(t, text->bytes.data, piece, &symbols);
    struct word w = { .t = t, .symbols = (struct symbol *)symbols.data, .n = (uint32_t)(symbols.size / sizeof(struct symbol)),
                      .heap_memory = { .memory = ids->ids.memory } };
    if (symbols.size / sizeof(struct symbol) >= UINT32_MAX)
        symbols.failed = true;
    for (uint32_t i = 0; i < w.n && !symbols.failed; i++) {
        w.symbols[i].previous = i ? i - 1 : UINT32_MAX;
        w.symbols[i].next = i + 1 < w.n ? i + 1 : UINT32_MAX;
    }
    if (w.n > 1 && t->merges && !symbols.failed)
        (w.n <= SHORT_WORD ? merge_short : merge_long)(&w);
    for (uint32_t i = 0; w.n && !symbols.failed && i != UINT32_MAX; i = w.symbols[i].next)
        rwk_ids_put(ids, w.symbols[i].id, text, w.symbols[i].begin, w.symbols[i].end);
    bool failed = symbols.failed || w.heap_memory.failed;
    rwk_buffer_finish(&symbols);
    rwk_buffer_finish(&w.heap_memory);
    return failed ? rwk_fail_nomem(error, piece.end - piece.begin) : RWK_STATUS_OK;
}

/* ---- WordPiece: greedy, longest first, all or nothing ---- */

static void wordpiece(const struct rwk_tokenizer *t, const struct rwk_text *text, struct rwk_slice piece, struct rwk_ids *ids)
{
    size_t mark_ids = ids->ids.size, mark_spans = ids->spans.size, characters = 0;
    const char *p = text->bytes.data;
    for (size_t i = piece.begin; i < piece.end; i++)
        characters += ((unsigned char)p[i] & 0xc0) != 0x80;
    for (size_t at = piece.begin; at < piece.end && characters <= t->max_word;) {
        uint32_t id = RWK_TOKEN_NONE;
        size_t end = piece.end;
        for (; end > at; end--) {
            if (end < piece.end && ((unsigned char)p[end] & 0xc0) == 0x80)
                continue;
            if (end - at > 200)
                continue;
            id = character(t, p + at, end - at, at == piece.begin, false);
            if (id != RWK_TOKEN_NONE)
                break;
        }
        if (id == RWK_TOKEN_NONE) {
            characters = SIZE_MAX;
            break;
        }
        rwk_ids_put(ids, id, text, at, end);
        at = end;
    }
    if (characters > t->max_word) {
        ids->ids.size = mark_ids;
        ids->spans.size = mark_spans;
        if (t->unk != RWK_TOKEN_NONE)
            rwk_ids_put(ids, t->unk, text, piece.begin, piece.end);
    }
}

static enum rwk_status wordlevel(const struct rwk_tokenizer *t, const struct rwk_text *text, struct rwk_slice piece,
                                 struct rwk_ids *ids, struct rwk_error *error)
{
    uint32_t id = rwk_vocab_find(t, text->bytes.data + piece.begin, piece.end - piece.begin);
    id = id == RWK_TOKEN_NONE ? t->unk : id;
    if (id == RWK_TOKEN_NONE)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL, "a word is not in the vocabulary, and there is no unknown token");
    rwk_ids_put(ids, id, text, piece.begin, piece.end);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_model_run(const struct rwk_tokenizer *t, const struct rwk_text *text, struct rwk_slice piece,
                              struct rwk_ids *ids, struct rwk_error *error)
{
    switch (t->model) {
    case RWK_MODEL_BPE: return bpe(t, text, piece, ids, error);
    case RWK_MODEL_UNIGRAM: return rwk_unigram_run(t, text, piece, ids, error);
    case RWK_MODEL_WORDPIECE: wordpiece(t, text, piece, ids); return RWK_STATUS_OK;
    case RWK_MODEL_WORDLEVEL: return wordlevel(t, text, piece, ids, error);
    }
    return RWK_STATUS_OK;
}
