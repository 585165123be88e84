/* The buffers of a pass: sizes from the model's shapes, laid out one after the other, 64-byte
 * aligned. */
#include "runtime/decoder.h"

/* Takes `count * size` bytes at *offset; false on overflow. */
static bool take(size_t *offset, size_t count, size_t size, void *base, void *ret_pointer)
{
    size_t bytes, end;
    if (!rwk_size_mul(count, size, &bytes) || bytes > SIZE_MAX - 64 ||
        !rwk_size_add(*offset, rwk_round_up(bytes, 64), &end))
        return false;
    *(void **)ret_pointer = base ? (char *)base + *offset : NULL;
    *offset = end;
    return true;
}

static size_t stride(size_t n) { return rwk_round_up(n, RWK_VECTOR_FLOATS); }

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

/* The widest prepared row over all element types in use and all input widths. */
static size_t prepared_stride(const struct rwk_model *m)
{
    const uint32_t widths[] = { m->hidden_size, m->word_size, m->n_heads * m->head_dim,
                                m->ffn_size };
    size_t widest = 0;
    for (int e = 0; e < RWK_N_ELEMENTS; e++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            if (m->kernels->prepared_size[e])
                widest = max_size(widest, m->kernels->prepared_size[e](widths[i]));
    return rwk_round_up(widest, 64);
}

bool rwk_workspace_layout(struct rwk_workspace *ret, const struct rwk_model *m, uint32_t max_rows,
                          uint32_t n_workers, uint64_t context, void *base, size_t *ret_bytes)
{
    struct rwk_workspace ws = { .max_rows = max_rows, .n_workers = n_workers };
    size_t offset = 0, n_tables = m->position.n_rope, pairs = 0;
    for (uint32_t i = 0; i < m->position.n_rope; i++)
        pairs = max_size(pairs, m->position.rope[i].n_pairs);
    ws.x_stride = stride(max_size(m->hidden_size, m->word_size));
    ws.qkv_stride = stride(rwk_qkv_size(m));
    ws.heads_stride = stride((size_t)m->n_heads * m->head_dim);
    ws.ffn_stride = stride(m->ffn_size);
    ws.logits_stride = stride(m->vocab_size);
    ws.pairs_stride = stride(pairs);
    ws.prepared_stride = prepared_stride(m);
    ws.query_bytes = rwk_attention_query_bytes(m);
    size_t blocks = (size_t)(context / RWK_KEY_BLOCK) + 1;
    if (!rwk_size_mul(blocks, m->n_heads, &ws.partial_capacity))
        return false;
    size_t state = (stride(m->head_dim) + 2) * sizeof(float);
    if (!take(&offset, max_rows, ws.x_stride * sizeof(float), base, &ws.x) ||
        !take(&offset, max_rows, ws.x_stride * sizeof(float), base, &ws.normed) ||
        !take(&offset, max_rows, ws.x_stride * sizeof(float), base, &ws.branch) ||
        !take(&offset, max_rows, ws.qkv_stride * sizeof(float), base, &ws.qkv) ||
        !take(&offset, max_rows, ws.heads_stride * sizeof(float), base, &ws.heads) ||
        !take(&offset, max_rows, ws.ffn_stride * sizeof(float), base, &ws.gate) ||
        !take(&offset, max_rows, ws.ffn_stride * sizeof(float), base, &ws.up) ||
        !take(&offset, max_rows, n_tables * ws.pairs_stride * sizeof(float), base, &ws.cos) ||
        !take(&offset, max_rows, n_tables * ws.pairs_stride * sizeof(float), base, &ws.sin) ||
        !take(&offset, RWK_LOGIT_ROWS, ws.logits_stride * sizeof(float), base, &ws.logits) ||
        !take(&offset, max_rows, ws.prepared_stride, base, &ws.prepared) ||
        !take(&offset, max_rows, sizeof *ws.units, base, &ws.units) ||
        !take(&offset, max_rows, sizeof *ws.wanted, base, &ws.wanted) ||
        !take(&offset, n_workers, RWK_KERNEL_SCRATCH, base, &ws.kernel_scratch) ||
        !take(&offset, n_workers, ws.query_bytes, base, &ws.query_scratch) ||
        !take(&offset, ws.partial_capacity, state, base, &ws.partial))
        return false;
    *ret = ws;
    *ret_bytes = offset;
    return true;
}
