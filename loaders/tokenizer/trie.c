/* A trie whose edges stand in one open-addressed hash table: a step is one probe, whatever a node's
 * fan-out. */
#include "loaders/tokenizer/internal.h"

static struct rwk_edge *slot_of(struct rwk_edge *edges, size_t n_slots, uint32_t node,
                                unsigned char byte)
{
    size_t at =
        (size_t)(((uint64_t)node << 8 | byte) * 0x9e3779b97f4a7c15ull >> 24) & (n_slots - 1);
    while (edges[at].node != UINT32_MAX && (edges[at].node != node || edges[at].byte != byte))
        at = (at + 1) & (n_slots - 1);
    return &edges[at];
}

static bool grow(struct rwk_trie *trie)
{
    size_t n_slots = trie->n_slots ? 2 * trie->n_slots : 64, bytes;
    struct rwk_edge *edges =
        rwk_size_mul(n_slots, sizeof *edges, &bytes) ? rwk_alloc(trie->memory, bytes) : NULL;
    if (!edges)
        return false;
    for (size_t i = 0; i < n_slots; i++)
        edges[i].node = UINT32_MAX;
    for (size_t i = 0; i < trie->n_slots; i++)
        if (trie->edges[i].node != UINT32_MAX)
            *slot_of(edges, n_slots, trie->edges[i].node, trie->edges[i].byte) = trie->edges[i];
    rwk_free(trie->memory, trie->edges);
    trie->edges = edges;
    trie->n_slots = n_slots;
    return true;
}

bool rwk_trie_insert(struct rwk_trie *trie, const char *text, size_t size, uint32_t value)
{
    const uint32_t none = 0;
    uint32_t node = 0;
    if (trie->values.size == 0) /* the root */
        rwk_buffer_append(&trie->values, &none, sizeof none);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t child = rwk_trie_step(trie, node, byte);
        if (!child) {
            child = (uint32_t)(trie->values.size / sizeof none);
            if (child == UINT32_MAX || (trie->n_slots < 2 * (trie->n_edges + 1) && !grow(trie)))
                return false;
            rwk_buffer_append(&trie->values, &none, sizeof none);
            *slot_of(trie->edges, trie->n_slots, node, byte) =
                (struct rwk_edge) { node, child, byte };
            trie->n_edges++;
        }
        node = child;
    }
    if (trie->values.failed)
        return false;
    if (size) {
        trie->first[(unsigned char)text[0]] = true;
        ((uint32_t *)(void *)trie->values.data)[node] = value + 1;
    }
    return true;
}

void rwk_trie_finish(struct rwk_trie *trie)
{
    if (trie->memory)
        rwk_free(trie->memory, trie->edges);
    rwk_buffer_finish(&trie->values);
}
