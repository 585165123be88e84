/* Unigram (Kudo 2018): the segmentation of greatest total score, by Viterbi over byte positions.
 *
 *   best[e] = max over pieces s..e of best[s] + score, replaced only by a strictly greater one,
 * starts ascending, lengths ascending; where no piece is a single character, an unknown edge of
 * that character at min_score - 10. Neighbouring unknown characters are joined; the joined text
 * becomes byte tokens if the model falls back to bytes, else the unknown token.
 *
 * tokenizer.json adds in double, SentencePiece in float. */
#include "loaders/tokenizer/internal.h"

struct node {
    double score;
    uint32_t from; /* UINT32_MAX: not reached */
    uint32_t id;   /* RWK_TOKEN_NONE: unknown */
};

static void relax(struct node *nodes, size_t from, size_t to, double score, bool narrow,
                  uint32_t id)
{
    score = narrow ? (double)((float)nodes[from].score + (float)score) : nodes[from].score + score;
    if (nodes[to].from == UINT32_MAX || score > nodes[to].score)
        nodes[to] = (struct node) { score, (uint32_t)from, id };
}

static void forward(const struct rwk_tokenizer *t, const char *text, size_t size,
                    struct node *nodes)
{
    for (size_t i = 0; i <= size; i++)
        nodes[i] = (struct node) { 0, UINT32_MAX, 0 };
    for (size_t s = 0; s < size;) {
        uint32_t code, node = 0;
        size_t n = rwk_utf8_next(text + s, &code);
        bool single = false;
        for (size_t e = s;
             e < size && (node = rwk_trie_step(&t->pieces, node, (unsigned char)text[e])); e++) {
            uint32_t id = rwk_trie_value(&t->pieces, node);
            if (id == RWK_TOKEN_NONE)
                continue;
            relax(nodes, s, e + 1, t->entries[id].score, t->spm, id);
            single |= e + 1 - s == n;
        }
        if (!single)
            relax(nodes, s, s + n, t->min_score - 10, t->spm, RWK_TOKEN_NONE);
        s += n;
    }
}

static enum rwk_status put_unknown(struct rwk_work *work, const char *text, size_t begin,
                                   size_t end)
{
    const struct rwk_tokenizer *t = work->t;
    bool bytes = t->byte_fallback;
    uint32_t known = t->spm ? RWK_TOKEN_NONE : rwk_vocab_find(t, text + begin, end - begin);
    for (size_t i = begin; i < end && bytes; i++)
        bytes = t->byte_ids[(unsigned char)text[i]] != RWK_TOKEN_NONE;
    if (known != RWK_TOKEN_NONE)
        rwk_token_put(work, known, begin, end);
    else if (bytes)
        for (size_t i = begin; i < end; i++)
            rwk_token_put(work, t->byte_ids[(unsigned char)text[i]], begin, end);
    else if (t->unk == RWK_TOKEN_NONE)
        return rwk_fail_unknown(work);
    else
        rwk_token_put(work, t->unk, begin, end);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_unigram_run(struct rwk_work *work, const char *text, size_t size)
{
    work->scratch.size = work->heap.size = 0;
    if (!rwk_buffer_reserve(&work->scratch, (size + 1) * sizeof(struct node)))
        return rwk_fail_nomem(work->error, size * sizeof(struct node));
    struct node *nodes = (struct node *)(void *)work->scratch.data;
    enum rwk_status status = RWK_STATUS_OK;
    forward(work->t, text, size, nodes);
    for (uint32_t e = (uint32_t)size; e > 0; e = nodes[e].from)
        rwk_buffer_append(&work->heap, &e, sizeof e); /* ends of the path, last first */
    if (work->heap.failed)
        return rwk_fail_nomem(work->error, size);
    const uint32_t *ends = (const uint32_t *)(const void *)work->heap.data;
    for (size_t i = work->heap.size / sizeof *ends; i > 0 && !status;) {
        size_t end = ends[--i], begin = nodes[end].from;
        /* SentencePiece's bytes of neighbouring unknown characters are the same, joined or not. */
        if (nodes[end].id != RWK_TOKEN_NONE && (nodes[end].id != work->t->unk || work->t->spm)) {
            rwk_token_put(work, nodes[end].id, begin, end);
            continue;
        }
        while (i > 0 && (nodes[ends[i - 1]].id == RWK_TOKEN_NONE ||
                         (nodes[ends[i - 1]].id == work->t->unk && !work->t->spm)))
            end = ends[--i];
        status = put_unknown(work, text, begin, end);
    }
    return status;
}
