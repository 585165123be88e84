/* Products with quantised matrices (quantlayout.h), and quantising.
 *
 * For each output, over blocks of 32 columns, ascending:
 *
 *   y = fma(round(s_w s_x), (float)sum of q_w q_x, y)
 *
 * The sum is an exact integer, so however it is formed, on any instruction set and with any number of tokens side by side,
 * the bits are the same. Activations are quantised row by row and block by block: s_x = max|x| / 127, q_x = x / s_x to the
 * nearest, ties to even. A block that holds a NaN or an infinity gets s_x = NaN, so that it cannot go unseen.
 *
 * The _WIDE elements multiply the activations as they are: blocks of the matrix are unpacked to floats and given to the
 * products of panel.h. */
#ifndef RWK_KERNELS_QUANT_H
#define RWK_KERNELS_QUANT_H

#include "runtime/kernels/panel.h"
#include "runtime/kernels/quantlayout.h"

enum {
    QUANT_VECTORS = RWK_QUANT_ROWS / RWK_LANES, /* of a group */
    QUANT_X_VECTORS = RWK_QUANT_BLOCK / RWK_LANES,
    QUANT_AHEAD = 16 << 10, /* bytes; far enough that the second cache has them in time */
    QUANT_X_TOKENS = 96                         /* tokens whose activations stay in the second cache */
};

/* ---- activations ---- */

struct quant_x {
    float scale;
    int32_t offset; /* added to sums: stored weights are raised by a constant */
    int8_t q[RWK_QUANT_BLOCK];
};

static size_t prepared_size_quant(uint32_t n)
{
    return ((rwk_quant_blocks(n) * sizeof(struct quant_x) + 63) / 64 | 1) * 64;
}

RWK_INLINE float quant_lane_sum(vf v[QUANT_X_VECTORS])
{
    for (int half = QUANT_X_VECTORS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v[i] = vf_add(v[i], v[i + half]);
    return vf_sum(v[0]);
}

RWK_INLINE float quant_max(const vf v[QUANT_X_VECTORS])
{
    vf m = vf_abs(v[0]);
    for (int i = 1; i < QUANT_X_VECTORS; i++)
        m = vf_max(m, vf_abs(v[i]));
    return vf_max_lanes(m);
}

/* 0, or NaN if any of v is not finite */
RWK_INLINE float quant_taint(const vf v[QUANT_X_VECTORS])
{
    vf zero[QUANT_X_VECTORS];
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        zero[i] = vf_mul(v[i], vf_zero());
    return quant_lane_sum(zero);
}

RWK_INLINE void quant_block(struct quant_x *to, const float *x, int32_t raised)
{
    vf v[QUANT_X_VECTORS], q[QUANT_X_VECTORS];
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        v[i] = vf_load(x + i * RWK_LANES);
    const float max = quant_max(v);
    const vf inverse = vf_set1(max > 1e-30f ? 127 / max : 0); /* below, the inverse would overflow */
    for (int i = 0; i < QUANT_X_VECTORS; i++) {
        q[i] = vf_round(vf_mul(v[i], inverse));
        vf_store_i8(to->q + i * RWK_LANES, q[i]);
    }
    const float sum = quant_lane_sum(q), taint = quant_taint(v);
    to->scale = max / 127 + taint;
    to->offset = taint == 0 ? -raised * (int32_t)sum : 0;
}

RWK_INLINE void prepare_quant(void *dst, const float *x, uint32_t n, int32_t raised)
{
    struct quant_x *to = dst;
    uint32_t k = 0;
    for (; k + RWK_QUANT_BLOCK <= n; k += RWK_QUANT_BLOCK)
        quant_block(to++, x + k, raised);
    if (k < n) {
        float padded[RWK_QUANT_BLOCK] = { 0 };
        memcpy(padded, x + k, (n - k) * sizeof *x);
        quant_block(to, padded, raised);
    }
}

static void prepare_q8(void *dst, const float *x, uint32_t n) { prepare_quant(dst, x, n, RWK_Q8_OFFSET); }
static void prepare_q4(void *dst, const float *x, uint32_t n) { prepare_quant(dst, x, n, 8); }

/* ---- the tile ---- */

struct quant_tile {
    const unsigned char *data[RWK_QUANT_GROUPS_1 > RWK_QUANT_GROUPS ? RWK_QUANT_GROUPS_1 : RWK_QUANT_GROUPS];
    const unsigned char *scales[RWK_QUANT_GROUPS_1 > RWK_QUANT_GROUPS ? RWK_QUANT_GROUPS_1 : RWK_QUANT_GROUPS];
    const struct quant_x *x[RWK_QUANT_TOKENS];
};

enum { QUANT_ROW_VECTORS = QUANT_VECTORS * (RWK_QUANT_GROUPS_1 > RWK_QUANT_GROUPS ? RWK_QUANT_GROUPS_1 : RWK_QUANT_GROUPS) };

/* Vector v of the rows of a tile, at byte `at` of its block. */
RWK_INLINE vb quant_load(const struct quant_tile *tile, int v, size_t at)
{
    return vb_load(tile->data[v / QUANT_VECTORS] + at + v % QUANT_VECTORS * 4 * RWK_LANES);
}

/* sum[v][t] = the integer sums of block b. */
RWK_INLINE void quant_sums(enum rwk_element e, int n_vectors, int n_tokens, const struct quant_tile *tile, size_t b,
                           vi sum[][RWK_QUANT_TOKENS])
{
    const size_t block = b * rwk_quant_block_bytes(e), step = 4 * RWK_QUANT_ROWS;
    if (e == RWK_ELEMENT_Q8) {
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++)
                sum[v][t] = vw8_start(tile->x[t][b].offset);
#pragma GCC unroll 8
        for (int s = 0; s < 8; s++) {
            vw8 w[QUANT_ROW_VECTORS];
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++)
                w[v] = vw8_make(quant_load(tile, v, block + (size_t)s * step));
#pragma GCC unroll 8
            for (int t = 0; t < n_tokens; t++) {
                const vb x = vb_four(tile->x[t][b].q + 4 * s);
#pragma GCC unroll 8
                for (int v = 0; v < n_vectors; v++)
                    sum[v][t] = vw8_dot(sum[v][t], w[v], x);
            }
        }
        return;
    }
    vn part[QUANT_ROW_VECTORS][RWK_QUANT_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++)
            part[v][t] = vn_start(tile->x[t][b].offset);
#pragma GCC unroll 4
    for (int s = 0; s < 4; s++) {
        vb low[QUANT_ROW_VECTORS], high[QUANT_ROW_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            const vb w = quant_load(tile, v, block + (size_t)s * step);
            low[v] = vb_low(w);
            high[v] = vb_high(w);
        }
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++) {
            const vb x = vb_four(tile->x[t][b].q + 4 * s), x16 = vb_four(tile->x[t][b].q + 16 + 4 * s);
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++)
                part[v][t] = vn_dot(vn_dot(part[v][t], low[v], x), high[v], x16);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++)
            sum[v][t] = vn_end(part[v][t], tile->x[t][b].offset);
}

/* Groups [group, group + n_groups) by tokens [token, token + n_tokens). Missing ones repeat the last and are not stored. */
RWK_INLINE void quant_product(enum rwk_element e, int n_groups, int n_tokens, const struct rwk_matmul *m, size_t group,
                              size_t group_end, uint32_t token)
{
    const size_t blocks = rwk_quant_blocks(m->w->cols);
    const int n_vectors = n_groups * QUANT_VECTORS;
    struct quant_tile tile;
    for (int g = 0; g < n_groups; g++) {
        const size_t first = (group + (size_t)g < group_end ? group + (size_t)g : group_end - 1) * blocks;
        tile.data[g] = (const unsigned char *)m->w->data + first * rwk_quant_block_bytes(e);
        tile.scales[g] = (const unsigned char *)m->w->scales + first * rwk_quant_scale_bytes();
    }
    for (int t = 0; t < n_tokens; t++) {
        const uint32_t row = token + (uint32_t)t < m->n_tokens ? token + (uint32_t)t : m->n_tokens - 1;
        tile.x[t] = (const struct quant_x *)(const void *)((const unsigned char *)m->x + row * m->x_stride);
    }
    vf acc[QUANT_ROW_VECTORS][RWK_QUANT_TOKENS];
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++)
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++)
            acc[v][t] = vf_zero();
    for (size_t b = 0; b < blocks; b++) {
        vi sum[QUANT_ROW_VECTORS][RWK_QUANT_TOKENS];
        vf scale[QUANT_ROW_VECTORS];
        if (n_tokens == 1)
            for (int g = 0; g < n_groups; g++)
#pragma GCC unroll 8
                for (size_t line = 0; line < rwk_quant_block_bytes(e); line += 64)
                    __builtin_prefetch((const void *)((uintptr_t)tile.data[g] + b * rwk_quant_block_bytes(e) + QUANT_AHEAD + line), 0, 2);
        quant_sums(e, n_vectors, n_tokens, &tile, b, sum);
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++)
            scale[v] = vf_load_f16(tile.scales[v / QUANT_VECTORS] + b * rwk_quant_scale_bytes() +
                                   v % QUANT_VECTORS * RWK_LANES * sizeof(uint16_t));
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++) {
            const vf x = vf_set1(tile.x[t][b].scale);
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++)
                acc[v][t] = vf_fma(vf_mul(scale[v], x), vi_to_float(sum[v][t]), acc[v][t]);
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

RWK_INLINE void matmul_quant(enum rwk_element e, const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end)
{
    const size_t begin = row_begin / RWK_QUANT_ROWS, end = rwk_quant_groups(row_end);
    if (m->n_tokens == 1) {
        for (size_t g = begin; g < end; g += RWK_QUANT_GROUPS_1)
            quant_product(e, RWK_QUANT_GROUPS_1, 1, m, g, end, 0);
        return;
    }
    for (uint32_t first = 0; first < m->n_tokens; first += QUANT_X_TOKENS) {
        const uint32_t last = m->n_tokens - first < QUANT_X_TOKENS ? m->n_tokens : first + QUANT_X_TOKENS;
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

static void matmul_q8(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end, void *scratch)
{
    (void)scratch;
    matmul_quant(RWK_ELEMENT_Q8, m, row_begin, row_end);
}
static void matmul_q4(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end, void *scratch)
{
    (void)scratch;
    matmul_quant(RWK_ELEMENT_Q4, m, row_begin, row_end);
}

/* ---- with activations as they are ---- */

/* One block of one group as floats, [32 columns], `stride` floats apart, of 16 rows. */
RWK_INLINE void quant_unpack(enum rwk_element e, float *to, size_t stride, const unsigned char *data, const unsigned char *scales)
{
    const size_t step = 4 * RWK_QUANT_ROWS;
    for (int v = 0; v < QUANT_VECTORS; v++, to += RWK_LANES) {
        const vf scale = vf_load_f16(scales + v * RWK_LANES * sizeof(uint16_t));
        for (size_t s = 0; s < (e == RWK_ELEMENT_Q8 ? 8 : 4); s++) {
            const vb b = vb_load(data + s * step + (size_t)v * 4 * RWK_LANES), low = vb_low(b), high = vb_high(b);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                float *column = to + (4 * s + (size_t)i) * stride;
                if (e == RWK_ELEMENT_Q8) {
                    vf_store(column, vf_mul(scale, vi_to_float(vi_byte(b, i))));
                    continue;
                }
                vf_store(column, vf_mul(scale, vf_sub(vi_to_float(vi_byte(low, i)), vf_set1(8))));
                vf_store(column + 16 * stride, vf_mul(scale, vf_sub(vi_to_float(vi_byte(high, i)), vf_set1(8))));
            }
        }
    }
}

RWK_INLINE void matmul_quant_wide(enum rwk_element e, const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end,
                                  float (*scratch)[PACK_COLUMNS])
{
    const size_t blocks = rwk_quant_blocks(m->w->cols);
    for (uint32_t row = row_begin; row < row_end; row += PACK_COLUMNS)
        for (size_t k = 0; k < m->w->cols; k += PACK_K) {
            const size_t n = m->w->cols - k < PACK_K ? m->w->cols - k : PACK_K;
            const uint32_t n_rows = row_end - row < PACK_COLUMNS ? row_end - row : PACK_COLUMNS;
            for (uint32_t r = 0; r < n_rows; r += RWK_QUANT_ROWS)
                for (size_t i = 0; i < n; i += RWK_QUANT_BLOCK) {
                    const size_t at = (row + r) / RWK_QUANT_ROWS * blocks + (k + i) / RWK_QUANT_BLOCK;
                    quant_unpack(e, scratch[i] + r, PACK_COLUMNS,
                                 (const unsigned char *)m->w->data + at * rwk_quant_block_bytes(e),
                                 (const unsigned char *)m->w->scales + at * rwk_quant_scale_bytes());
                }
            struct panel p = { .p = (const unsigned char *)scratch, .p_stride = sizeof *scratch,
                               .x = (const float *)m->x + k, .x_stride = m->x_stride / sizeof(float), .y = m->y + row,
                               .y_stride = m->y_stride, .n_tokens = m->n_tokens, .n_columns = n_rows,
                               .k_end = (uint32_t)n, .onto = k > 0 };
            panel_run(RWK_ELEMENT_F32, false, &p);
        }
}

static void matmul_q8_wide(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end, void *scratch)
{
    matmul_quant_wide(RWK_ELEMENT_Q8, m, row_begin, row_end, scratch);
}
static void matmul_q4_wide(const struct rwk_matmul *m, uint32_t row_begin, uint32_t row_end, void *scratch)
{
    matmul_quant_wide(RWK_ELEMENT_Q4, m, row_begin, row_end, scratch);
}

/* ---- quantising ---- */

/* q = v / scale to the nearest within low..high; 0 where the scale is. */
RWK_INLINE void quant_round(vf q[QUANT_X_VECTORS], const vf v[QUANT_X_VECTORS], float scale, float low, float high)
{
    const vf inverse = vf_set1(scale != 0 ? 1 / scale : 0);
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        q[i] = vf_max(vf_min(vf_round(vf_mul(v[i], inverse)), vf_set1(high)), vf_set1(low));
}

RWK_INLINE float quant_f16(uint16_t *half, float x)
{
    *half = rwk_float_to_f16(x);
    return rwk_f16_to_float(*half);
}

/* Numbers q for the scale that fits v, and what is lost: the sum of squared errors. */
RWK_INLINE float quant_try(vf q[QUANT_X_VECTORS], const vf v[QUANT_X_VECTORS], float scale, float low, float high)
{
    vf lost[QUANT_X_VECTORS];
    quant_round(q, v, scale, low, high);
    for (int i = 0; i < QUANT_X_VECTORS; i++) {
        const vf error = vf_sub(v[i], vf_mul(q[i], vf_set1(scale)));
        lost[i] = vf_mul(error, error);
    }
    return quant_lane_sum(lost);
}

/* The best scale for given numbers, by least squares. */
RWK_INLINE float quant_fit(const vf q[QUANT_X_VECTORS], const vf v[QUANT_X_VECTORS])
{
    vf products[QUANT_X_VECTORS], squares[QUANT_X_VECTORS];
    for (int i = 0; i < QUANT_X_VECTORS; i++) {
        products[i] = vf_mul(v[i], q[i]);
        squares[i] = vf_mul(q[i], q[i]);
    }
    const float sum = quant_lane_sum(squares);
    return sum > 0 ? quant_lane_sum(products) / sum : 0;
}

/* Of the scales that put the number of greatest magnitude at one of the steps, and of those that fit best what these give,
 * the one that loses least; a scale that is fine enough to make it exact is one of them where the numbers came from a grid
 * of four bits. */
RWK_INLINE uint16_t quantize_block(int8_t q[RWK_QUANT_BLOCK], const vf v[QUANT_X_VECTORS], const float *steps, size_t n_steps,
                                   float low, float high)
{
    float x[RWK_QUANT_BLOCK], top = 0, best = INFINITY;
    uint16_t best_half = rwk_float_to_f16(NAN); /* what stays where v is not finite */
    memset(q, 0, RWK_QUANT_BLOCK);
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        vf_store(x + i * RWK_LANES, v[i]);
    for (int i = 0; i < RWK_QUANT_BLOCK; i++)
        top = fabsf(x[i]) > fabsf(top) ? x[i] : top;
    for (size_t c = 0; c < n_steps; c++) {
        float scale = top / steps[c];
        for (int pass = 0; pass < 2; pass++) {
            uint16_t half;
            vf n[QUANT_X_VECTORS];
            const float lost = quant_try(n, v, quant_f16(&half, scale), low, high);
            if (lost < best) {
                best = lost;
                best_half = half;
                for (int i = 0; i < QUANT_X_VECTORS; i++)
                    vf_store_i8(q + i * RWK_LANES, n[i]);
            }
            scale = quant_fit(n, v);
        }
    }
    return best_half;
}

static uint16_t quantize_block_q8(int8_t q[RWK_QUANT_BLOCK], const vf v[QUANT_X_VECTORS])
{
    static const float steps[] = { 127, 126, 120, 119, 112, 105, 104 };
    return quantize_block(q, v, steps, sizeof steps / sizeof *steps, -127, 127);
}

static uint16_t quantize_block_q4(int8_t q[RWK_QUANT_BLOCK], const vf v[QUANT_X_VECTORS])
{
    static const float steps[] = { -8, -7, -7.5f, -8.5f, -9 };
    return quantize_block(q, v, steps, sizeof steps / sizeof *steps, -8, 7);
}

RWK_INLINE void quantize(enum rwk_element e, unsigned char *data, unsigned char *scales, const float *rows, size_t stride,
                         uint32_t n)
{
    for (size_t b = 0; b < rwk_quant_blocks(n); b++, data += rwk_quant_block_bytes(e), scales += rwk_quant_scale_bytes())
        for (size_t r = 0; r < RWK_QUANT_ROWS; r++) {
            const size_t k = b * RWK_QUANT_BLOCK, left = n - k < RWK_QUANT_BLOCK ? n - k : RWK_QUANT_BLOCK;
            float padded[RWK_QUANT_BLOCK] = { 0 };
            int8_t q[RWK_QUANT_BLOCK];
            vf v[QUANT_X_VECTORS];
            memcpy(padded, rows + r * stride + k, left * sizeof *rows);
            for (int i = 0; i < QUANT_X_VECTORS; i++)
                v[i] = vf_load(padded + i * RWK_LANES);
            const uint16_t half = e == RWK_ELEMENT_Q8 ? quantize_block_q8(q, v) : quantize_block_q4(q, v);
            memcpy(scales + 2 * r, &half, sizeof half);
            if (e == RWK_ELEMENT_Q4)
                for (int i = 0; i < 16; i++)
                    q[i] = (int8_t)((q[i] + 8) | (q[16 + i] + 8) << 4);
            for (size_t s = 0; s < (e == RWK_ELEMENT_Q8 ? 8 : 4); s++)
                memcpy(data + (s * RWK_QUANT_ROWS + r) * 4, q + 4 * s, 4);
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
