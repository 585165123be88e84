/* Unigram (Kudo 2018): the segmentation of greatest total score, by Viterbi over byte positions.
 *
 *   best[e] = max over pieces s..e of best[s] + score, replaced only by a strictly greater one, starts ascending, lengths
 *   ascending; where no piece is a single character, an unknown edge of that character at min_score - 10. Neighbouring unknown
 *   characters are joined; the joined text becomes byte tokens if the model falls back to bytes, else the unknown token. */
#include "loaders/tokenizer/internal.h"

#include <math.h>
#include <string.h>

struct node {
    double score;
    size_t from;
    uint32_t id; /* RWK_TOKEN_NONE: unknown */
    bool reached;
};

static void relax(struct node *nodes, size_t from, size_t to, double score, uint32_t id)
{
    if (!nodes[to].reached || score > nodes[to].score)
        nodes[to] = (struct node){ score, from, id, true };
}

static void forward(const struct rwk_tokenizer *t, const char *text, size_t size, struct node *nodes)
{
    nodes[0].reached = true;
    for (size_t s = 0; s < size;) {
        uint32_t code, node = 0;
        size_t n = rwk_utf8_next(text + s, text + size, &code);
        bool single = false;
        for (size_t e = s; e < size; e++) {
            node = rwk_trie_step(&t->pieces, node, (unsigned char)text[e]);
            if (!node)
                break;
            uint32_t value = ((const struct rwk_trie_node *)t->pieces.nodes.data)[node].value;
            if (!value)
                continue;
            relax(nodes, s, e + 1, nodes[s].score + (double)t->entries[value - 1].score, value - 1);
            single |= e + 1 - s == n;
        }
        if (!single)
            relax(nodes, s, s + n, nodes[s].score + (double)t->min_score - 10, RWK_TOKEN_NONE);
        s += n;
    }
}

static void put_unknown(const struct rwk_tokenizer *t, const struct rwk_text *text, size_t begin, size_t end,
                        struct rwk_ids *ids)
{
    const char *p = text->bytes.data;
    bool bytes = t->byte_fallback;
    uint32_t known = rwk_vocab_find(t, p + begin, end - begin);
    for (size_t i = begin; i < end && bytes; i++)
        bytes = t->byte_ids[(unsigned char)p[i]] != RWK_TOKEN_NONE;
    if (known != RWK_TOKEN_NONE && !t->spm)
        rwk_ids_put(ids, known, text, begin, end);
    else if (bytes)
        for (size_t i = begin; i < end; i++)
            rwk_ids_put(ids, t->byte_ids[(unsigned char)p[i]], text, begin, end);
    else if (t->unk != RWK_TOKEN_NONE)
        rwk_ids_put(ids, t->unk, text, begin, end);
}

enum rwk_status rwk_unigram_run(const struct rwk_tokenizer *t, const struct rwk_text *text, struct rwk_slice piece,
                                struct rwk_ids *ids, struct rwk_error *error)
{
    size_t size = piece.end - piece.begin, n = 0;
    struct node *nodes = rwk_calloc(ids->ids.memory, size + 1, sizeof *nodes);
    size_t *ends = rwk_alloc(ids->ids.memory, (size + 1) * sizeof *ends);
    if (!nodes || !ends) {
        rwk_free(ids->ids.memory, nodes);
        rwk_free(ids->ids.memory, ends);
        return rwk_fail_nomem(error, size * sizeof *nodes);
    }
    forward(t, text->bytes.data + piece.begin, size, nodes);
    for (size_t e = size; e > 0; e = nodes[e].from)
        ends[n++] = e;
    for (size_t i = n; i > 0;) {
        size_t begin = nodes[ends[i - 1]].from, end = ends[i - 1];
        if (nodes[end].id != RWK_TOKEN_NONE) {
            rwk_ids_put(ids, nodes[end].id, text, piece.begin + begin, piece.begin + end);
            i--;
            continue;
        }
        while (i > 0 && nodes[ends[i - 1]].id == RWK_TOKEN_NONE)
            end = ends[--i];
        put_unknown(t, text, piece.begin + begin, piece.begin + end, ids);
    }
    rwk_free(ids->ids.memory, nodes);
    rwk_free(ids->ids.memory, ends);
    return RWK_STATUS_OK;
}
