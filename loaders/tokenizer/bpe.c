/* Byte-pair encoding of one piece: its characters -> symbols; then the pair of least rank, leftmost
 * first, is merged until none is left. Short pieces keep the ranks of all pairs in a row; long ones
 * use a heap of (rank, place), where an entry counts only while the place still has that rank: n
 * log n in all. SentencePiece's rank is the score of the merged piece.
 *
 * Where a text may be cut without changing anything: between two characters that are pieces by
 * themselves, where no merge has a left part that ends in the first and a right part that begins
 * with the second. The set of such pairs is kept as a hashed bit field (a pair that collides is
 * only not cut). */
#include "loaders/tokenizer/internal.h"

struct symbol {
    uint32_t id, begin, end;
    uint32_t rank, result;   /* of the merge with the next one; rank UINT32_MAX: none */
    uint32_t previous, next; /* long pieces; UINT32_MAX: none */
};

enum { SHORT_PIECE = 40 }; /* symbols up to which a row is quicker than a heap */

/* ---- symbols ---- */

static void push(struct rwk_work *work, uint32_t id, size_t begin, size_t end)
{
    struct symbol s = {
        .id = id, .begin = (uint32_t)begin, .end = (uint32_t)end, .rank = UINT32_MAX
    };
    rwk_buffer_append(&work->scratch, &s, sizeof s);
}

/* A character with the prefix and suffix that word parts have in some models. */
struct spelling {
    const char *text;
    size_t size;
    char joined[256];
};

static void spell(struct spelling *s, const struct rwk_tokenizer *t, const char *text, size_t size,
                  bool first, bool last)
{
    size_t prefix = first ? 0 : t->word_prefix_size, suffix = last ? t->word_suffix_size : 0;
    s->text = text;
    s->size = size;
    if ((!prefix && !suffix) || prefix + size + suffix > sizeof s->joined)
        return;
    if (prefix)
        memcpy(s->joined, t->word_prefix, prefix);
    memcpy(s->joined + prefix, text, size);
    if (suffix)
        memcpy(s->joined + prefix + size, t->word_suffix, suffix);
    s->text = s->joined;
    s->size = prefix + size + suffix;
}

/* The bytes of a spelling as <0xHH> tokens, if all of them exist. */
static bool push_bytes(struct rwk_work *work, const struct spelling *s, size_t begin, size_t end)
{
    const uint32_t *ids = work->t->byte_ids;
    for (size_t i = 0; i < s->size; i++)
        if (ids[(unsigned char)s->text[i]] == RWK_TOKEN_NONE)
            return false;
    for (size_t i = 0; i < s->size; i++)
        push(work, ids[(unsigned char)s->text[i]], begin, end);
    return true;
}

/* An unknown run waits for the next known character: byte tokens may overtake it, as they do in the
 * reference. */
static enum rwk_status split_characters(struct rwk_work *work, const char *text, size_t size)
{
    const struct rwk_tokenizer *t = work->t;
    bool pending = false;
    size_t begin = 0, end = 0;
    for (size_t at = 0, n; at < size; at += n) {
        struct spelling s;
        uint32_t code;
        n = rwk_utf8_next(text + at, &code);
        spell(&s, t, text + at, n, at == 0, at + n == size);
        uint32_t id = code < 512 && s.text != s.joined ? t->character_ids[code]
                                                       : rwk_vocab_find(t, s.text, s.size);
        if (id == RWK_TOKEN_NONE && t->byte_fallback && push_bytes(work, &s, at, at + n))
            continue;
        if (id == RWK_TOKEN_NONE && t->unk == RWK_TOKEN_NONE) {
            if (t->unk_name)
                return rwk_fail_unknown(work);
            continue; /* without an unknown token the character is dropped */
        }
        if (pending && !(id == RWK_TOKEN_NONE && t->fuse_unk)) {
            push(work, t->unk, begin, end);
            pending = false;
        }
        if (id != RWK_TOKEN_NONE) {
            push(work, id, at, at + n);
            continue;
        }
        begin = pending ? begin : at;
        end = at + n;
        pending = true;
    }
    if (pending)
        push(work, t->unk, begin, end);
    return RWK_STATUS_OK;
}

static void rank_pair(const struct rwk_tokenizer *t, struct symbol *s, const struct symbol *next)
{
    const struct rwk_merge *m = next ? rwk_merge_find(t, s->id, next->id) : NULL;
    s->rank = m ? m->rank : UINT32_MAX;
    s->result = m ? m->result : 0;
}

/* ---- short pieces ---- */

static size_t merge_short(const struct rwk_tokenizer *t, struct symbol *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rank_pair(t, &s[i], i + 1 < n ? &s[i + 1] : NULL);
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            best = s[i].rank < s[best].rank ? i : best;
        if (n < 2 || s[best].rank == UINT32_MAX)
            return n;
        s[best].id = s[best].result;
        s[best].end = s[best + 1].end;
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof *s);
        rank_pair(t, &s[best], best + 1 < n ? &s[best + 1] : NULL);
        if (best)
            rank_pair(t, &s[best - 1], &s[best]);
    }
}

/* ---- long pieces: a heap of rank << 32 | place, four children to a node ---- */

static void heap_push(struct rwk_buffer *heap, uint64_t value)
{
    size_t at = heap->size / sizeof value;
    rwk_buffer_append(heap, &value, sizeof value);
    if (heap->failed)
        return;
    uint64_t *h = (uint64_t *)(void *)heap->data;
    for (; at && value < h[(at - 1) / 4]; at = (at - 1) / 4)
        h[at] = h[(at - 1) / 4];
    h[at] = value;
}

static uint64_t heap_pop(struct rwk_buffer *heap)
{
    uint64_t *h = (uint64_t *)(void *)heap->data;
    size_t n = heap->size / sizeof *h - 1, at = 0;
    uint64_t top = h[0], last = h[n];
    heap->size -= sizeof *h;
    for (size_t child; (child = 4 * at + 1) < n; at = child) {
        size_t end = child + 4 < n ? child + 4 : n;
        for (size_t k = child + 1; k < end; k++)
            child = h[k] < h[child] ? k : child;
        if (h[child] >= last)
            break;
        h[at] = h[child];
    }
    if (n)
        h[at] = last;
    return top;
}

static void consider(struct rwk_work *work, struct symbol *s, uint32_t at)
{
    rank_pair(work->t, &s[at], s[at].next == UINT32_MAX ? NULL : &s[s[at].next]);
    if (s[at].rank != UINT32_MAX)
        heap_push(&work->heap, (uint64_t)s[at].rank << 32 | at);
}

static void merge_long(struct rwk_work *work, struct symbol *s, uint32_t n)
{
    work->heap.size = 0;
    for (uint32_t i = 0; i < n; i++) {
        s[i].previous = i ? i - 1 : UINT32_MAX;
        s[i].next = i + 1 < n ? i + 1 : UINT32_MAX;
    }
    for (uint32_t i = 0; i < n; i++)
        consider(work, s, i);
    while (work->heap.size && !work->heap.failed) {
        uint64_t top = heap_pop(&work->heap);
        uint32_t at = (uint32_t)top;
        if (s[at].rank != (uint32_t)(top >> 32))
            continue; /* the pair is no more */
        struct symbol *gone = &s[s[at].next];
        s[at].id = s[at].result;
        s[at].end = gone->end;
        s[at].next = gone->next;
        gone->rank = UINT32_MAX;
        if (s[at].next != UINT32_MAX)
            s[s[at].next].previous = at;
        if (s[at].previous != UINT32_MAX)
            consider(work, s, s[at].previous);
        consider(work, s, at);
    }
}

enum rwk_status rwk_bpe_run(struct rwk_work *work, const char *text, size_t size)
{
    const struct rwk_tokenizer *t = work->t;
    if (t->ignore_merges) {
        uint32_t id = rwk_vocab_find(t, text, size);
        if (id != RWK_TOKEN_NONE) {
            rwk_token_put(work, id, 0, size);
            return RWK_STATUS_OK;
        }
    }
    work->scratch.size = 0;
    enum rwk_status status = split_characters(work, text, size);
    struct symbol *s = (struct symbol *)(void *)work->scratch.data;
    size_t n = work->scratch.size / sizeof *s;
    if (status || work->scratch.failed)
        return status ? status : rwk_fail_nomem(work->error, size);
    if (n > SHORT_PIECE && t->merges) {
        merge_long(work, s, (uint32_t)n);
        if (work->heap.failed)
            return rwk_fail_nomem(work->error, size);
        for (uint32_t i = 0; i != UINT32_MAX; i = s[i].next)
            rwk_token_put(work, s[i].id, s[i].begin, s[i].end);
        return RWK_STATUS_OK;
    }
    if (t->merges)
        n = merge_short(t, s, n);
    for (size_t i = 0; i < n; i++)
        rwk_token_put(work, s[i].id, s[i].begin, s[i].end);
    return RWK_STATUS_OK;
}

/* ---- where to cut ---- */

static size_t join_bit(const struct rwk_tokenizer *t, uint32_t left, uint32_t right)
{
    return (size_t)(((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15ull >> 20) &
           (t->n_join_bits - 1);
}

/* The joins of all merges. Where symbols are not spelled as the text is, or whole pieces are looked
 * up first, there are none: nothing is cut. */
enum rwk_status rwk_merges_finish(struct rwk_tokenizer *t, struct rwk_error *error)
{
    if (!t->merges || t->word_prefix_size || t->word_suffix_size || t->ignore_merges)
        return RWK_STATUS_OK;
    for (size_t i = 0; i < t->n_merge_buckets; i++) {
        const struct rwk_merge *m = &t->merges[i];
        if (m->rank != UINT32_MAX &&
            (t->entries[m->left].byte || t->entries[m->right].byte || m->left == t->unk ||
             m->right == t->unk || !t->entries[m->left].size || !t->entries[m->right].size))
            return RWK_STATUS_OK;
    }
    t->n_join_bits = 1024;
    while (t->n_join_bits < 8 * t->n_merge_buckets)
        t->n_join_bits *= 2;
    t->joins = rwk_calloc(&t->memory, t->n_join_bits / 64, sizeof *t->joins);
    t->known = rwk_calloc(&t->memory, 1024, sizeof *t->known);
    if (!t->joins || !t->known)
        return rwk_fail_nomem(error, t->n_join_bits / 8);
    for (size_t i = 0; i < t->n_merge_buckets; i++) {
        const struct rwk_merge *m = &t->merges[i];
        if (m->rank == UINT32_MAX)
            continue;
        const struct rwk_entry *left = &t->entries[m->left];
        uint32_t a, b;
        rwk_utf8_next(left->text + rwk_utf8_back(left->text, left->size), &a);
        rwk_utf8_next(t->entries[m->right].text, &b);
        size_t bit = join_bit(t, a, b);
        t->joins[bit / 64] |= 1ull << bit % 64;
    }
    for (uint32_t id = 0; id < t->n_entries; id++) {
        const struct rwk_entry *e = &t->entries[id];
        uint32_t code;
        if (e->exists && e->size && rwk_utf8_next(e->text, &code) == e->size && code < 0x10000 &&
            rwk_vocab_find(t, e->text, e->size) != RWK_TOKEN_NONE)
            t->known[code / 64] |= 1ull << code % 64;
    }
    return RWK_STATUS_OK;
}

static size_t read_code(const char *text, bool raw, uint32_t *ret_code)
{
    if (!raw)
        return rwk_utf8_next(text, ret_code);
    *ret_code = rwk_byte_to_code[(unsigned char)*text];
    return 1;
}

static bool is_known(const struct rwk_tokenizer *t, uint32_t code)
{
    return code < 0x10000 && t->known[code / 64] >> code % 64 & 1;
}

size_t rwk_bpe_part(const struct rwk_tokenizer *t, const char *text, size_t size, bool raw)
{
    uint32_t left, right;
    size_t at = read_code(text, raw, &left);
    bool known = is_known(t, left);
    while (at < size) {
        size_t n = read_code(text + at, raw, &right);
        bool also = is_known(t, right);
        if (known && also) {
            size_t bit = join_bit(t, left, right);
            if (!(t->joins[bit / 64] >> bit % 64 & 1))
                return at;
        }
        known = also;
        left = right;
        at += n;
    }
    return size;
}
