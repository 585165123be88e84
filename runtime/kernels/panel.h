/* Products with a matrix that lies inputs by outputs: y[t][c] (+)= sum over k of x[t][k] p[k][c].
 *
 * Lanes lie along c; every output is one lane that runs over k ascending, a fused multiply-add a
 * step, however many tokens or columns are computed next to it. Three users: GPT-2's transposed
 * weights; attention's scores, where p is a page of keys [head_dim][RWK_KEY_BLOCK] and x the
 * queries; its sums of values, where p is a page of values [RWK_KEY_BLOCK][v_stride] and x the
 * weights of the keys. */
#ifndef RWK_KERNELS_PANEL_H
#define RWK_KERNELS_PANEL_H

#include "runtime/kernels/convert.h"

struct panel {
    const unsigned char *p; /* stored elements, at row k = 0 */
    size_t p_stride;        /* bytes from row to row */
    const float *x;         /* [n_tokens][x_stride] */
    size_t x_stride;        /* floats */
    float *y;               /* [n_tokens][y_stride], columns 0 .. n_columns-1 */
    size_t y_stride;        /* floats */
    uint32_t n_tokens, n_columns;
    uint32_t k_begin, k_end;
    bool onto; /* add to what y holds; else start from zero */
};

enum { PANEL_TOKENS = 6, PANEL_VECTORS = 8 /* at most */ };

/* The place of x[k] in a row whose groups of 2 RWK_LANES were put even before odd (`paired`), or in
 * a plain one. */
RWK_INLINE size_t x_index(bool paired, size_t k)
{
    const size_t in_group = 2 * RWK_LANES - 1;
    return paired ? (k & ~in_group) + (k & 1) * RWK_LANES + (k & in_group) / 2 : k;
}

/* Columns [column, column + n_vectors vectors), of which the last has n lanes; tokens [token, token
 * + width). Missing tokens repeat the last one. The constants at every use: e, paired, width,
 * n_vectors, whole (n == RWK_LANES). */
RWK_INLINE void panel_tile(enum rwk_element e, bool paired, int width, int n_vectors, bool whole,
                           const struct panel *p, uint32_t token, uint32_t column, size_t n)
{
    const float *x[PANEL_TOKENS];
    vf acc[PANEL_TOKENS][PANEL_VECTORS];
    uint32_t tokens = p->n_tokens - token;
#pragma GCC unroll 8
    for (int t = 0; t < width; t++) {
        size_t row = token + ((uint32_t)t < tokens ? (uint32_t)t : tokens - 1);
        x[t] = p->x + row * p->x_stride;
#pragma GCC unroll 16
        for (int v = 0; v < n_vectors; v++) {
            const float *y = p->y + row * p->y_stride + column + v * RWK_LANES;
            acc[t][v] = !p->onto ? vf_zero() : whole ? vf_load(y) : vf_load_n(y, n);
        }
    }
    const unsigned char *row = p->p + column * rwk_element_bytes(e) + p->k_begin * p->p_stride;
    for (uint32_t k = p->k_begin; k < p->k_end; k++, row += p->p_stride) {
        vf w[PANEL_VECTORS];
        size_t at = x_index(paired, k);
#pragma GCC unroll 16
        for (int v = 0; v < n_vectors; v++) {
            const unsigned char *from = row + (size_t)v * RWK_LANES * rwk_element_bytes(e);
            w[v] = whole ? load_element(e, from) : load_element_n(e, from, n);
        }
#pragma GCC unroll 8
        for (int t = 0; t < width; t++) {
            const vf factor = vf_set1(x[t][at]);
#pragma GCC unroll 16
            for (int v = 0; v < n_vectors; v++)
                acc[t][v] = vf_fma(factor, w[v], acc[t][v]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < width; t++) {
        if ((uint32_t)t >= tokens)
            break;
#pragma GCC unroll 16
        for (int v = 0; v < n_vectors; v++) {
            float *y = p->y + (token + (uint32_t)t) * p->y_stride + column + v * RWK_LANES;
            if (whole)
                vf_store(y, acc[t][v]);
            else
                vf_store_n(y, acc[t][v], n);
        }
    }
}

/* All columns for tokens [token, token + width). */
RWK_INLINE void panel_columns(enum rwk_element e, bool paired, int width, int n_vectors,
                              const struct panel *p, uint32_t token)
{
    uint32_t c = 0, step = (uint32_t)n_vectors * RWK_LANES;
    for (; c + step <= p->n_columns; c += step)
        panel_tile(e, paired, width, n_vectors, true, p, token, c, RWK_LANES);
    for (; c + RWK_LANES <= p->n_columns; c += RWK_LANES)
        panel_tile(e, paired, width, 1, true, p, token, c, RWK_LANES);
    if (c < p->n_columns)
        panel_tile(e, paired, width, 1, false, p, token, c, p->n_columns - c);
}

RWK_INLINE void panel_run(enum rwk_element e, bool paired, const struct panel *p)
{
    for (uint32_t t = 0, left; t < p->n_tokens; t += left < PANEL_TOKENS ? left : PANEL_TOKENS) {
        left = p->n_tokens - t;
        if (left == 1)
            panel_columns(e, paired, 1, RWK_PANEL_1, p, t);
        else if (left == 2)
            panel_columns(e, paired, 2, RWK_PANEL_2, p, t);
        else if (left == 3)
            panel_columns(e, paired, 3, RWK_PANEL_3, p, t);
        else
            panel_columns(e, paired, 6, RWK_PANEL_6, p, t);
    }
}

static void panel_f32(const struct panel *p)
{
    panel_run(RWK_ELEMENT_F32, false, p);
}
static void panel_f16(const struct panel *p)
{
    panel_run(RWK_ELEMENT_F16, false, p);
}
static void panel_bf16(const struct panel *p)
{
    panel_run(RWK_ELEMENT_BF16, false, p);
}

/* ---- transposed weights ---- */

/* With many tokens, blocks of rows k by columns are widened into scratch once, and all tokens run
 * over each. */
enum { PACK_K = 256, PACK_COLUMNS = 64 };

RWK_INLINE void matmul_transposed_packed(enum rwk_element e, bool paired,
                                         const struct rwk_matmul *m, uint32_t row_begin,
                                         uint32_t row_end, float (*scratch)[PACK_COLUMNS])
{
    const unsigned char *data = m->w->data;
    for (uint32_t column = row_begin; column < row_end; column += PACK_COLUMNS)
        for (uint32_t k = 0; k < m->w->cols; k += PACK_K) {
            uint32_t n_columns = row_end - column < PACK_COLUMNS ? row_end - column : PACK_COLUMNS;
            uint32_t n = m->w->cols - k < PACK_K ? m->w->cols - k : PACK_K;
            for (uint32_t i = 0; i < n; i++)
                widen(e, scratch[i],
                      data + ((k + i) * m->w->stride + column) * rwk_element_bytes(e), n_columns);
            struct panel p = { .p = (const unsigned char *)scratch,
                               .p_stride = sizeof *scratch,
                               .x = (const float *)m->x + k,
                               .x_stride = m->x_stride / sizeof(float),
                               .y = m->y + column,
                               .y_stride = m->y_stride,
                               .n_tokens = m->n_tokens,
                               .n_columns = n_columns,
                               .k_end = n,
                               .onto = k > 0 };
            panel_run(RWK_ELEMENT_F32, paired, &p);
        }
}

RWK_INLINE void matmul_transposed(enum rwk_element e, bool paired, const struct rwk_matmul *m,
                                  uint32_t row_begin, uint32_t row_end, void *scratch)
{
    if (m->n_tokens > PANEL_TOKENS) {
        matmul_transposed_packed(e, paired, m, row_begin, row_end, scratch);
        return;
    }
    struct panel p = { .p = (const unsigned char *)m->w->data + row_begin * rwk_element_bytes(e),
                       .p_stride = m->w->stride * rwk_element_bytes(e),
                       .x = m->x,
                       .x_stride = m->x_stride / sizeof(float),
                       .y = m->y + row_begin,
                       .y_stride = m->y_stride,
                       .n_tokens = m->n_tokens,
                       .n_columns = row_end - row_begin,
                       .k_end = m->w->cols };
    panel_run(e, paired, &p);
}

static void matmul_transposed_f32(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                                  void *scratch)
{
    matmul_transposed(RWK_ELEMENT_F32, false, m, row_begin, row_end, scratch);
}
static void matmul_transposed_f16(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                                  void *scratch)
{
    matmul_transposed(RWK_ELEMENT_F16, false, m, row_begin, row_end, scratch);
}
static void matmul_transposed_bf16(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                                   void *scratch)
{
    matmul_transposed(RWK_ELEMENT_BF16, true, m, row_begin, row_end, scratch);
}

#endif
