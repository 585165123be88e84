/* Products with quantised matrices (quantlayout.h), and quantising.
 *
 * For each output, over blocks of 32 columns, ascending:
 *
 *   y = fma(round(s_w s_x), sum of q_w q_x, y);  y = fma(m_w, round(s_x sum of q_x), y)
 *
 * The sums are exact integers below 2^24, so however they are formed, on any instruction set and
 * with any number of tokens side by side, the bits are the same. Activations are quantised row by
 * row and block by block, to the nearest, ties to even:
 *
 *   Q4   q_x of 8 bits, s_x = max|x| / 127
 *   Q8   q_x of 12 bits, s_x = max|x| / 2047, so that next to nothing is lost beside the weights'
 * own rounding, and 32 * 255 * 2047 < 2^24
 *
 * A block that holds a NaN or an infinity gets s_x = NaN, so that it cannot go unseen.
 *
 * The _WIDE elements multiply the activations as they are: blocks of the matrix are unpacked to
 * floats and given to the products of panel.h. */
#ifndef RWK_KERNELS_QUANT_H
#define RWK_KERNELS_QUANT_H

#include "runtime/kernels/panel.h"
#include "runtime/kernels/quantblock.h"
#include "runtime/kernels/quantlayout.h"

enum {
    QUANT_VECTORS = RWK_QUANT_ROWS / RWK_LANES, /* of a group */
    QUANT_AHEAD = 16 << 10, /* bytes; far enough that the second cache has them in time */
    QUANT_X_TOKENS = 96     /* tokens whose activations stay in the second cache */
};

/* ---- activations ---- */

struct quant_x8 {
    float scale, sum; /* sum: scale times the sum of q */
    int8_t q[RWK_QUANT_BLOCK];
};
struct quant_x16 {
    float scale, sum;
    int16_t q[RWK_QUANT_BLOCK];
};

RWK_INLINE void quant_x8(struct quant_x8 *to, const float *x)
{
    vf q[QUANT_X_VECTORS];
    to->scale = quant_row_block(q, x, 127, &to->sum);
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        vf_store_i8(to->q + i * RWK_LANES, q[i]);
}

RWK_INLINE void quant_x16(struct quant_x16 *to, const float *x)
{
    vf q[QUANT_X_VECTORS];
    to->scale = quant_row_block(q, x, 2047, &to->sum);
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        vf_store_i16(to->q + i * RWK_LANES, q[i]);
}

/* prepare and prepared_size of one kind of activations. */
#define QUANT_PREPARE(element, kind)                                                               \
    static size_t prepared_size_##element(uint32_t n)                                              \
    {                                                                                              \
        return ((rwk_quant_blocks(n) * sizeof(struct quant_##kind) + 63) / 64 | 1) * 64;           \
    }                                                                                              \
    static void prepare_##element(void *dst, const float *x, uint32_t n)                           \
    {                                                                                              \
        struct quant_##kind *to = dst;                                                             \
        uint32_t k = 0;                                                                            \
        for (; k + RWK_QUANT_BLOCK <= n; k += RWK_QUANT_BLOCK)                                     \
            quant_##kind(to++, x + k);                                                             \
        if (k < n) {                                                                               \
            float padded[RWK_QUANT_BLOCK] = { 0 };                                                 \
            memcpy(padded, x + k, (n - k) * sizeof *x);                                            \
            quant_##kind(to, padded);                                                              \
        }                                                                                          \
    }
QUANT_PREPARE(q8, x16)
QUANT_PREPARE(q4, x8)
#undef QUANT_PREPARE

/* ---- the tile ---- */

enum {
    QUANT_MOST_GROUPS =
        RWK_QUANT_GROUPS_1 > RWK_QUANT_GROUPS ? RWK_QUANT_GROUPS_1 : RWK_QUANT_GROUPS,
    QUANT_ROW_VECTORS = QUANT_VECTORS * QUANT_MOST_GROUPS
};

struct quant_tile {
    const unsigned char *data[QUANT_MOST_GROUPS], *scales[QUANT_MOST_GROUPS];
    const unsigned char *x[RWK_QUANT_TOKENS]; /* rows of struct quant_x16 (Q8) or quant_x8 (Q4) */
};

/* Vector v of the rows of a tile, at byte `at` of its block. */
RWK_INLINE vb quant_load(const struct quant_tile *tile, int v, size_t at)
{
    return vb_load(tile->data[v / QUANT_VECTORS] + at + v % QUANT_VECTORS * 4 * RWK_LANES);
}

RWK_INLINE size_t quant_x_bytes(enum rwk_element e)
{
    return e == RWK_ELEMENT_Q8 ? sizeof(struct quant_x16) : sizeof(struct quant_x8);
}

/* Block b of token t: scale, sum, and its numbers. */
RWK_INLINE const float *quant_x_head(enum rwk_element e, const struct quant_tile *tile, int t,
                                     size_t b)
{
    return (const float *)(const void *)(tile->x[t] + b * quant_x_bytes(e));
}
RWK_INLINE const unsigned char *quant_x_numbers(enum rwk_element e, const struct quant_tile *tile,
                                                int t, size_t b)
{
    return tile->x[t] + b * quant_x_bytes(e) + 2 * sizeof(float);
}

/* sum[v][t] = the integer sums of block b, as floats. */
RWK_INLINE void quant_sums_q8(int n_vectors, int n_tokens, const struct quant_tile *tile, size_t b,
                              vf sum[][RWK_QUANT_TOKENS])
{
    vs16 part[QUANT_ROW_VECTORS][RWK_QUANT_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++)
            part[v][t] = vs16_zero();
#pragma GCC unroll 2 /* more of it spills */
    for (size_t s = 0; s < 8; s++) {
        vb even[QUANT_ROW_VECTORS], odd[QUANT_ROW_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            const vb w = quant_load(
                tile, v, b * rwk_quant_block_bytes(RWK_ELEMENT_Q8) + s * 4 * RWK_QUANT_ROWS);
            even[v] = vb_even(w);
            odd[v] = vb_odd(w);
        }
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++) {
            const unsigned char *q = quant_x_numbers(RWK_ELEMENT_Q8, tile, t, b) + 8 * s;
            const vb x = vb_four(q), x2 = vb_four(q + 4);
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++)
                part[v][t] = vs16_dot(vs16_dot(part[v][t], even[v], x), odd[v], x2);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++)
            sum[v][t] = vs16_end(part[v][t]);
}

RWK_INLINE void quant_sums_q4(int n_vectors, int n_tokens, const struct quant_tile *tile, size_t b,
                              vf sum[][RWK_QUANT_TOKENS])
{
    vs8 part[QUANT_ROW_VECTORS][RWK_QUANT_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++)
            part[v][t] = vs8_zero();
#pragma GCC unroll 2
    for (size_t s = 0; s < 4; s++) {
        vb low[QUANT_ROW_VECTORS], high[QUANT_ROW_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            const vb w = quant_load(
                tile, v, b * rwk_quant_block_bytes(RWK_ELEMENT_Q4) + s * 4 * RWK_QUANT_ROWS);
            low[v] = vb_low(w);
            high[v] = vb_high(w);
        }
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++) {
            const unsigned char *q = quant_x_numbers(RWK_ELEMENT_Q4, tile, t, b) + 4 * s;
            const vb x = vb_four(q), x16 = vb_four(q + 16);
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++)
                part[v][t] = vs8_dot(vs8_dot(part[v][t], low[v], x), high[v], x16);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++)
            sum[v][t] = vs8_end(part[v][t]);
}

/* Asks for what a single token's product reads next. */
RWK_INLINE void quant_prefetch(enum rwk_element e, int n_groups, const struct quant_tile *tile,
                               size_t b)
{
#pragma GCC unroll 8
    for (int g = 0; g < n_groups; g++)
#pragma GCC unroll 8
        for (size_t line = 0; line < rwk_quant_block_bytes(e); line += 64)
            __builtin_prefetch((const void *)((uintptr_t)tile->data[g] +
                                              b * rwk_quant_block_bytes(e) + QUANT_AHEAD + line),
                               0, 2);
}

/* Groups [group, group + n_groups) by tokens [token, token + n_tokens). Missing ones repeat the
 * last and are not stored. */
RWK_INLINE void quant_product(enum rwk_element e, int n_groups, int n_tokens,
                              const struct rwk_matmul *m, size_t group, size_t group_end,
                              uint32_t token)
{
    const size_t blocks = rwk_quant_blocks(m->w->cols);
    const int n_vectors = n_groups * QUANT_VECTORS;
    struct quant_tile tile;
    for (int g = 0; g < n_groups; g++) {
        const size_t first =
            (group + (size_t)g < group_end ? group + (size_t)g : group_end - 1) * blocks;
        tile.data[g] = (const unsigned char *)m->w->data + first * rwk_quant_block_bytes(e);
        tile.scales[g] = (const unsigned char *)m->w->scales + first * rwk_quant_scale_bytes();
    }
    for (int t = 0; t < n_tokens; t++) {
        const uint32_t row =
            token + (uint32_t)t < m->n_tokens ? token + (uint32_t)t : m->n_tokens - 1;
        tile.x[t] = (const unsigned char *)m->x + row * m->x_stride;
    }
    vf acc[QUANT_ROW_VECTORS][RWK_QUANT_TOKENS];
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++)
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++)
            acc[v][t] = vf_zero();
    for (size_t b = 0; b < blocks; b++) {
        vf sum[QUANT_ROW_VECTORS][RWK_QUANT_TOKENS], scale[QUANT_ROW_VECTORS],
            least[QUANT_ROW_VECTORS];
        if (n_tokens == 1)
            quant_prefetch(e, n_groups, &tile, b);
        if (e == RWK_ELEMENT_Q8)
            quant_sums_q8(n_vectors, n_tokens, &tile, b, sum);
        else
            quant_sums_q4(n_vectors, n_tokens, &tile, b, sum);
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            const unsigned char *at = tile.scales[v / QUANT_VECTORS] + b * rwk_quant_scale_bytes() +
                                      v % QUANT_VECTORS * RWK_LANES * sizeof(uint16_t);
            scale[v] = vf_load_f16(at);
            least[v] = vf_load_f16(at + RWK_QUANT_ROWS * sizeof(uint16_t));
        }
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++) {
            const float *head = quant_x_head(e, &tile, t, b);
            const vf x_scale = vf_set1(head[0]), x_sum = vf_set1(head[1]);
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++)
                acc[v][t] = vf_fma(least[v], x_sum,
                                   vf_fma(vf_mul(scale[v], x_scale), sum[v][t], acc[v][t]));
        }
    }
    for (int t = 0; t < n_tokens && token + (uint32_t)t < m->n_tokens; t++)
        for (int v = 0; v < n_vectors; v++) {
            const size_t row = group * RWK_QUANT_ROWS + (size_t)v * RWK_LANES;
            float *y = m->y + (token + (size_t)t) * m->y_stride + row;
            if (group + (size_t)v / QUANT_VECTORS >= group_end || row >= m->w->rows)
                break;
            if (row + RWK_LANES <= m->w->rows)
                vf_store(y, acc[v][t]);
            else
                vf_store_n(y, acc[v][t], m->w->rows - row);
        }
}

RWK_INLINE void matmul_quant(enum rwk_element e, const struct rwk_matmul *m, uint32_t row_begin,
                             uint32_t row_end)
{
    const size_t begin = row_begin / RWK_QUANT_ROWS, end = rwk_quant_groups(row_end);
    if (m->n_tokens == 1) {
        for (size_t g = begin; g < end; g += RWK_QUANT_GROUPS_1)
            quant_product(e, RWK_QUANT_GROUPS_1, 1, m, g, end, 0);
        return;
    }
    for (uint32_t first = 0; first < m->n_tokens; first += QUANT_X_TOKENS) {
        const uint32_t last =
            m->n_tokens - first < QUANT_X_TOKENS ? m->n_tokens : first + QUANT_X_TOKENS;
        for (size_t g = begin; g < end; g += RWK_QUANT_GROUPS) {
            uint32_t t = first;
            for (; t + RWK_QUANT_TOKENS <= last; t += RWK_QUANT_TOKENS)
                quant_product(e, RWK_QUANT_GROUPS, RWK_QUANT_TOKENS, m, g, end, t);
            for (; t + 2 <= last; t += 2)
                quant_product(e, RWK_QUANT_GROUPS, 2, m, g, end, t);
            if (t < last)
                quant_product(e, RWK_QUANT_GROUPS, 1, m, g, end, t);
        }
    }
}

static void matmul_q8(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                      void *scratch)
{
    (void)scratch;
    matmul_quant(RWK_ELEMENT_Q8, m, row_begin, row_end);
}
static void matmul_q4(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                      void *scratch)
{
    (void)scratch;
    matmul_quant(RWK_ELEMENT_Q4, m, row_begin, row_end);
}

/* ---- with activations as they are ---- */

/* One block of one group as floats, [32 columns], `stride` floats apart, of 16 rows. */
RWK_INLINE void quant_unpack(enum rwk_element e, float *to, size_t stride,
                             const unsigned char *data, const unsigned char *scales)
{
    for (size_t v = 0; v < QUANT_VECTORS;
         v++, to += RWK_LANES, scales += RWK_LANES * sizeof(uint16_t)) {
        const vf scale = vf_load_f16(scales),
                 least = vf_load_f16(scales + RWK_QUANT_ROWS * sizeof(uint16_t));
        for (size_t column = 0; column < RWK_QUANT_BLOCK; column++) {
            const size_t at = rwk_quant_place(e, v * RWK_LANES, column);
            const vb b = vb_load(data + at / 4 * 4), q = e == RWK_ELEMENT_Q8 ? b
                                                         : column < 16       ? vb_low(b)
                                                                             : vb_high(b);
            vf_store(to + column * stride, vf_fma(scale, vb_to_float(q, (int)(at % 4)), least));
        }
    }
}

RWK_INLINE void matmul_quant_wide(enum rwk_element e, const struct rwk_matmul *m,
                                  uint32_t row_begin, uint32_t row_end,
                                  float (*scratch)[PACK_COLUMNS])
{
    const size_t blocks = rwk_quant_blocks(m->w->cols);
    for (uint32_t row = row_begin; row < row_end; row += PACK_COLUMNS)
        for (size_t k = 0; k < m->w->cols; k += PACK_K) {
            const size_t n = m->w->cols - k < PACK_K ? m->w->cols - k : PACK_K;
            const uint32_t n_rows = row_end - row < PACK_COLUMNS ? row_end - row : PACK_COLUMNS;
            for (uint32_t r = 0; r < n_rows; r += RWK_QUANT_ROWS)
                for (size_t i = 0; i < n; i += RWK_QUANT_BLOCK) {
                    const size_t at =
                        (row + r) / RWK_QUANT_ROWS * blocks + (k + i) / RWK_QUANT_BLOCK;
                    quant_unpack(e, scratch[i] + r, PACK_COLUMNS,
                                 (const unsigned char *)m->w->data + at * rwk_quant_block_bytes(e),
                                 (const unsigned char *)m->w->scales +
                                     at * rwk_quant_scale_bytes());
                }
            struct panel p = { .p = (const unsigned char *)scratch,
                               .p_stride = sizeof *scratch,
                               .x = (const float *)m->x + k,
                               .x_stride = m->x_stride / sizeof(float),
                               .y = m->y + row,
                               .y_stride = m->y_stride,
                               .n_tokens = m->n_tokens,
                               .n_columns = n_rows,
                               .k_end = (uint32_t)n,
                               .onto = k > 0 };
            panel_run(RWK_ELEMENT_F32, false, &p);
        }
}

static void matmul_q8_wide(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                           void *scratch)
{
    matmul_quant_wide(RWK_ELEMENT_Q8, m, row_begin, row_end, scratch);
}
static void matmul_q4_wide(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                           void *scratch)
{
    matmul_quant_wide(RWK_ELEMENT_Q4, m, row_begin, row_end, scratch);
}

/* ---- quantising ---- */

RWK_INLINE float quant_f16(uint16_t *half, float x)
{
    *half = rwk_float_to_f16(x);
    return rwk_f16_to_float(*half);
}

/* The least and the greatest number stand at both ends of q's range. Scale and minimum are taken as
 * float16 before the rest is rounded against them. */
RWK_INLINE void quantize_block(uint8_t q[RWK_QUANT_BLOCK], uint16_t *scale, uint16_t *least,
                               const float *x, float most)
{
    vf v[QUANT_X_VECTORS], low, high;
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        v[i] = vf_load(x + i * RWK_LANES);
    low = vf_neg(v[0]);
    high = v[0];
    for (int i = 1; i < QUANT_X_VECTORS; i++) {
        low = vf_max(low, vf_neg(v[i]));
        high = vf_max(high, v[i]);
    }
    const float m = quant_f16(least, -vf_max_lanes(low) + quant_taint(v));
    const float s = quant_f16(scale, (vf_max_lanes(high) - m) / most);
    const vf inverse = vf_set1(s > 0 ? 1 / s : 0);
    for (int i = 0; i < QUANT_X_VECTORS; i++) {
        const vf n = vf_round(vf_mul(vf_sub(v[i], vf_set1(m)), inverse));
        vf_store_u8(q + i * RWK_LANES, vf_max(vf_min(n, vf_set1(most)), vf_zero()));
    }
}

RWK_INLINE void quantize(enum rwk_element e, unsigned char *data, unsigned char *scales,
                         const float *rows, size_t stride, uint32_t n)
{
    for (size_t b = 0; b < rwk_quant_blocks(n);
         b++, data += rwk_quant_block_bytes(e), scales += rwk_quant_scale_bytes()) {
        uint16_t head[2][RWK_QUANT_ROWS];
        for (size_t r = 0; r < RWK_QUANT_ROWS; r++) {
            const size_t k = b * RWK_QUANT_BLOCK,
                         left = n - k < RWK_QUANT_BLOCK ? n - k : RWK_QUANT_BLOCK;
            float padded[RWK_QUANT_BLOCK] = { 0 };
            uint8_t q[RWK_QUANT_BLOCK];
            memcpy(padded, rows + r * stride + k, left * sizeof *rows);
            quantize_block(q, &head[0][r], &head[1][r], padded, e == RWK_ELEMENT_Q8 ? 255 : 15);
            for (size_t i = 0; e == RWK_ELEMENT_Q8 && i < RWK_QUANT_BLOCK; i++)
                data[rwk_quant_place(e, r, i)] = q[i];
            for (size_t i = 0; e == RWK_ELEMENT_Q4 && i < RWK_QUANT_BLOCK / 2; i++)
                data[rwk_quant_place(e, r, i)] = (uint8_t)(q[i] | q[i + RWK_QUANT_BLOCK / 2] << 4);
        }
        memcpy(scales, head, sizeof head);
    }
}

static void quantize_q8(void *data, void *scales, const float *rows, size_t stride, uint32_t n)
{
    quantize(RWK_ELEMENT_Q8, data, scales, rows, stride, n);
}
static void quantize_q4(void *data, void *scales, const float *rows, size_t stride, uint32_t n)
{
    quantize(RWK_ELEMENT_Q4, data, scales, rows, stride, n);
}

#endif
