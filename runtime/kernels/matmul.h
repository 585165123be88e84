/* y[t][o] = sum over k of w[o][k] x[t][k], weights [out][in].
 *
 * Every output is one vector accumulator. It runs over groups of 2 RWK_LANES elements of k,
 * ascending: first one half of the group, then the other (the halves are its lower and upper
 * elements, or, for bf16, its even and odd ones, because these cost one operation to widen); the
 * last group is padded with zeros; vf_sum ends it. What follows only decides which outputs are
 * computed next to each other, never how one is computed:
 *
 *   few tokens    direct: weights are widened on their way into a tile of 4 or 8 rows by all
 * tokens; each is read once many tokens   for blocks of tokens, for strips of rows, for blocks of
 * k: the strip's block is widened once into scratch; tiles of 4 rows by RWK_TILE_TOKENS run over
 * it, their accumulators carried from one block of k to the next as whole vectors
 *
 * (The shape of tile is the usual one for operands that both run along k: Van Zee & Smith, "BLIS",
 * 2015, use it for their dot-product kernels.)  A tile's missing rows or tokens repeat the last one
 * and are not stored. */
#ifndef RWK_KERNELS_MATMUL_H
#define RWK_KERNELS_MATMUL_H

#include "runtime/kernels/convert.h"

enum {
    GROUP = 2 * RWK_LANES,
    TILE_ROWS = 4,
    MATVEC_ROWS = 8,
    STRIP_ROWS = 32,
    STRIP_K = 1024,
    STRIP_TOKENS = 96,
    PREFETCH_ROWS = 24 << 10, /* bytes that the next rows of a tile may be away to be asked for;
                                 else, along the row: */
    PREFETCH_ALONG = 1 << 10
};

/* Scratch of the many-token path. */
struct strip {
    float w[STRIP_ROWS][STRIP_K];
    float carried[STRIP_TOKENS / RWK_TILE_TOKENS][STRIP_ROWS / TILE_ROWS][RWK_TILE_TOKENS]
                 [TILE_ROWS][RWK_LANES];
};
_Static_assert(sizeof(struct strip) <= RWK_KERNEL_SCRATCH, "a strip fits the scratch");
_Static_assert(STRIP_TOKENS % RWK_TILE_TOKENS == 0 && STRIP_K % GROUP == 0,
               "blocks are made of whole tiles and groups");

/* ---- activations ---- */

/* An odd number of cache lines, so that rows do not share sets of the cache. */
static size_t prepared_size(uint32_t n)
{
    size_t groups = ((size_t)n + GROUP - 1) / GROUP,
           lines = (groups * GROUP * sizeof(float) + 63) / 64;
    return (lines | 1) * 64;
}

/* The row as it is, padded with zeros. */
static void prepare_plain(void *dst, const float *x, uint32_t n)
{
    memcpy(dst, x, n * sizeof *x);
    memset((float *)dst + n, 0, prepared_size(n) - n * sizeof *x);
}

/* Each group's even elements, then its odd ones. */
static void prepare_paired(void *dst, const float *x, uint32_t n)
{
    float *to = dst;
    size_t g = 0;
    for (; g + GROUP <= n; g += GROUP)
        for (size_t i = 0; i < RWK_LANES; i++) {
            to[g + i] = x[g + 2 * i];
            to[g + RWK_LANES + i] = x[g + 2 * i + 1];
        }
    memset(to + g, 0, prepared_size(n) - g * sizeof *to);
    for (size_t i = 0; i < n - g; i++)
        to[g + (i % 2) * RWK_LANES + i / 2] = x[g + i];
}

/* ---- weights ---- */

/* Half (0 or 1) of the group that begins at element k of a row. */
RWK_INLINE vf load_half(enum rwk_element e, const unsigned char *row, size_t k, int half)
{
    if (e == RWK_ELEMENT_BF16)
        return half ? vf_load_bf16_odd(row + 2 * k) : vf_load_bf16_even(row + 2 * k);
    return load_element(e, row + (k + (size_t)half * RWK_LANES) * rwk_element_bytes(e));
}

/* The same of a group of which the row has n < GROUP elements. */
RWK_INLINE vf load_half_n(enum rwk_element e, const unsigned char *row, size_t k, int half,
                          size_t n)
{
    float padded[GROUP] = { 0 };
    memcpy(padded, row + k * rwk_element_bytes(e), n * rwk_element_bytes(e));
    return load_half(e, (const unsigned char *)padded, 0, half);
}

RWK_INLINE const unsigned char *weight_row(const struct rwk_matrix *w, enum rwk_element e,
                                           uint32_t row)
{
    return (const unsigned char *)w->data + row * w->stride * rwk_element_bytes(e);
}

/* ---- the tile ---- */

/* Rows and tokens of one tile, as pointers to their first elements. */
struct tile {
    const unsigned char *w[MATVEC_ROWS];
    const float *x[RWK_TILE_TOKENS];
};

/* acc[row][token] += w x over the group at k, of which n elements exist. */
RWK_INLINE void tile_group(enum rwk_element e, int n_rows, int n_tokens, const struct tile *tile,
                           size_t k, size_t n, vf acc[][RWK_TILE_TOKENS])
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        vf x[RWK_TILE_TOKENS];
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++)
            x[t] = vf_load(tile->x[t] + k + half * RWK_LANES);
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) {
            vf w = n == GROUP ? load_half(e, tile->w[r], k, half)
                              : load_half_n(e, tile->w[r], k, half, n);
#pragma GCC unroll 8
            for (int t = 0; t < n_tokens; t++)
                acc[r][t] = vf_fma(w, x[t], acc[r][t]);
        }
    }
}

/* Rows that follow one another are short streams for the processor's own prefetching; asks for what
 * lies `ahead` bytes beyond the group at k of every row. Addresses past the matrix do no harm. */
RWK_INLINE void tile_prefetch(enum rwk_element e, int n_rows, const struct tile *tile, size_t k,
                              size_t ahead)
{
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 2
        for (size_t line = 0; line < GROUP * rwk_element_bytes(e); line += 64)
            __builtin_prefetch(
                (const void *)((uintptr_t)tile->w[r] + k * rwk_element_bytes(e) + ahead + line), 0,
                2);
}

/* acc[row][token] += w x over n elements. e, n_rows and n_tokens are constants at every use. */
RWK_INLINE void tile_run(enum rwk_element e, int n_rows, int n_tokens, const struct tile *tile,
                         size_t n, size_t ahead, vf acc[][RWK_TILE_TOKENS])
{
    size_t k = 0;
    for (; k + GROUP <= n; k += GROUP) {
        tile_prefetch(e, n_rows, tile, k, ahead);
        tile_group(e, n_rows, n_tokens, tile, k, GROUP, acc);
    }
    if (k < n)
        tile_group(e, n_rows, n_tokens, tile, k, n - k, acc);
}

/* y[t][0 .. rows-1] = sums of the accumulators, for the tokens and rows that exist. */
RWK_INLINE void tile_store(int n_rows, int n_tokens, vf acc[][RWK_TILE_TOKENS], float *y,
                           size_t y_stride, uint32_t rows, uint32_t tokens)
{
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++) {
        float sums[MATVEC_ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r += 4) {
            const vf four[4] = { acc[r][t], acc[r + 1][t], acc[r + 2][t], acc[r + 3][t] };
            vf_sum4(sums + r, four);
        }
        if ((uint32_t)t < tokens && rows >= (uint32_t)n_rows)
            memcpy(y + (size_t)t * y_stride, sums, (size_t)n_rows * sizeof *y);
        else if ((uint32_t)t < tokens)
            memcpy(y + (size_t)t * y_stride, sums, rows * sizeof *y);
    }
}

RWK_INLINE void tile_tokens(struct tile *tile, int n_tokens, const void *x, size_t x_stride,
                            uint32_t tokens)
{
    for (int t = 0; t < n_tokens; t++) {
        uint32_t token = (uint32_t)t < tokens ? (uint32_t)t : tokens - 1;
        tile->x[t] = (const float *)((const unsigned char *)x + token * x_stride);
    }
}

/* ---- few tokens ---- */

RWK_INLINE void direct(enum rwk_element e, int n_rows, int n_tokens, const struct rwk_matmul *m,
                       uint32_t row_begin, uint32_t row_end)
{
    struct tile tile;
    const size_t next_rows = (size_t)n_rows * m->w->stride * rwk_element_bytes(e);
    const size_t ahead = next_rows < PREFETCH_ROWS ? next_rows : PREFETCH_ALONG;
    tile_tokens(&tile, n_tokens, m->x, m->x_stride, m->n_tokens);
    for (uint32_t r = row_begin; r < row_end; r += (uint32_t)n_rows) {
        for (int i = 0; i < n_rows; i++)
            tile.w[i] =
                weight_row(m->w, e, (uint32_t)i < row_end - r ? r + (uint32_t)i : row_end - 1);
        vf acc[MATVEC_ROWS][RWK_TILE_TOKENS];
#pragma GCC unroll 8
        for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 8
            for (int t = 0; t < n_tokens; t++)
                acc[i][t] = vf_zero();
        tile_run(e, n_rows, n_tokens, &tile, m->w->cols, ahead, acc);
        tile_store(n_rows, n_tokens, acc, m->y + r, m->y_stride, row_end - r, m->n_tokens);
    }
}

/* ---- many tokens ---- */

/* Elements [k, k + n) of rows, widened into the order of prepared activations and padded to a whole
 * group. */
RWK_INLINE void strip_widen(enum rwk_element e, struct strip *strip, const struct rwk_matrix *w,
                            uint32_t row, uint32_t n_rows, size_t k, size_t n)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        const unsigned char *from = weight_row(w, e, row + r) + k * rwk_element_bytes(e);
        float *to = strip->w[r];
        size_t i = 0;
        for (; i + GROUP <= n; i += GROUP) {
            vf_store(to + i, load_half(e, from, i, 0));
            vf_store(to + i + RWK_LANES, load_half(e, from, i, 1));
        }
        if (i < n) {
            vf_store(to + i, load_half_n(e, from, i, 0, n - i));
            vf_store(to + i + RWK_LANES, load_half_n(e, from, i, 1, n - i));
        }
    }
}

/* Where a tile of the strip stands in the sum over blocks of k. */
enum { FIRST_BLOCK = 1, LAST_BLOCK = 2 };

static void strip_tile(const struct tile *tile, size_t n, int place,
                       float carried[RWK_TILE_TOKENS][TILE_ROWS][RWK_LANES], float *y,
                       size_t y_stride, uint32_t rows, uint32_t tokens)
{
    vf acc[TILE_ROWS][RWK_TILE_TOKENS];
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 8
        for (int t = 0; t < RWK_TILE_TOKENS; t++)
            acc[r][t] = place & FIRST_BLOCK ? vf_zero() : vf_load(carried[t][r]);
    for (size_t k = 0; k < n; k += GROUP)
        tile_group(RWK_ELEMENT_F32, TILE_ROWS, RWK_TILE_TOKENS, tile, k, GROUP, acc);
    if (place & LAST_BLOCK) {
        tile_store(TILE_ROWS, RWK_TILE_TOKENS, acc, y, y_stride, rows, tokens);
        return;
    }
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 8
        for (int t = 0; t < RWK_TILE_TOKENS; t++)
            vf_store(carried[t][r], acc[r][t]);
}

/* All tiles of a strip's block of n elements from k on, for tokens [token, token + n_tokens). */
static void strip_sweep(const struct rwk_matmul *m, struct strip *strip, uint32_t row,
                        uint32_t n_rows, uint32_t token, uint32_t n_tokens, size_t k, size_t n)
{
    int place = (k == 0 ? FIRST_BLOCK : 0) | (k + n == m->w->cols ? LAST_BLOCK : 0);
    for (uint32_t t = 0; t < n_tokens; t += RWK_TILE_TOKENS) {
        struct tile tile;
        tile_tokens(&tile, RWK_TILE_TOKENS,
                    (const float *)((const unsigned char *)m->x + (token + t) * m->x_stride) + k,
                    m->x_stride, n_tokens - t);
        for (uint32_t r = 0; r < n_rows; r += TILE_ROWS) {
            for (uint32_t i = 0; i < TILE_ROWS; i++)
                tile.w[i] = (const unsigned char *)strip->w[r + i < n_rows ? r + i : n_rows - 1];
            strip_tile(&tile, (n + GROUP - 1) / GROUP * GROUP, place,
                       strip->carried[t / RWK_TILE_TOKENS][r / TILE_ROWS],
                       m->y + (token + t) * m->y_stride + row + r, m->y_stride, n_rows - r,
                       n_tokens - t);
        }
    }
}

RWK_INLINE void strips(enum rwk_element e, const struct rwk_matmul *m, uint32_t row_begin,
                       uint32_t row_end, struct strip *strip)
{
    for (uint32_t token = 0; token < m->n_tokens; token += STRIP_TOKENS) {
        uint32_t n_tokens = m->n_tokens - token < STRIP_TOKENS ? m->n_tokens - token : STRIP_TOKENS;
        for (uint32_t row = row_begin; row < row_end; row += STRIP_ROWS) {
            uint32_t n_rows = row_end - row < STRIP_ROWS ? row_end - row : STRIP_ROWS;
            for (size_t k = 0; k < m->w->cols; k += STRIP_K) {
                size_t n = m->w->cols - k < STRIP_K ? m->w->cols - k : STRIP_K;
                strip_widen(e, strip, m->w, row, n_rows, k, n);
                strip_sweep(m, strip, row, n_rows, token, n_tokens, k, n);
            }
        }
    }
}

RWK_INLINE void matmul(enum rwk_element e, const struct rwk_matmul *m, uint32_t row_begin,
                       uint32_t row_end, void *scratch)
{
    if (m->n_tokens == 0)
        return;
    if (m->n_tokens == 1)
        direct(e, MATVEC_ROWS, 1, m, row_begin, row_end);
    else if (m->n_tokens == 2)
        direct(e, TILE_ROWS, 2, m, row_begin, row_end);
    else if (m->n_tokens == 3)
        direct(e, TILE_ROWS, 3, m, row_begin, row_end);
    else if (m->n_tokens <= RWK_TILE_TOKENS)
        direct(e, TILE_ROWS, RWK_TILE_TOKENS, m, row_begin, row_end);
    else
        strips(e, m, row_begin, row_end, scratch);
}

static void matmul_f32(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                       void *scratch)
{
    matmul(RWK_ELEMENT_F32, m, row_begin, row_end, scratch);
}
static void matmul_f16(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                       void *scratch)
{
    matmul(RWK_ELEMENT_F16, m, row_begin, row_end, scratch);
}
static void matmul_bf16(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                        void *scratch)
{
    matmul(RWK_ELEMENT_BF16, m, row_begin, row_end, scratch);
}

#endif
