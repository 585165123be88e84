/* One page of keys and values against the queries of one key/value head (kernels.h has the
 * formula).
 *
 *   s [6][64]  = q [6][head_dim] . K [head_dim][64]                        panel.h
 *   p [6][64]  = exp(s - max), 0 where masked; l = sum p, in a fixed tree
 *   o [6][256] = p [6][first..last) . V [64][256 of v_stride]              panel.h
 *   out        = out exp(max - M) + o exp(m - M)
 *
 * Masked scores are replaced, never multiplied, and rows of V outside a query's range are not read
 * for it, so that whatever lies in unwritten places of a page cannot matter. All queries of a block
 * of six share the rows that all of them see; the few before and after are added query by query,
 * still ascending. With more queries than one block the page is widened once. */
#ifndef RWK_KERNELS_ATTENTION_H
#define RWK_KERNELS_ATTENTION_H

#include "runtime/kernels/kvpage.h"
#include "runtime/kernels/mathfn.h"
#include "runtime/kernels/panel.h"

enum {
    QUERIES = PANEL_TOKENS,
    OUT_COLUMNS = 256,
    WIDENED_PAGE = RWK_KERNEL_SCRATCH / 2 /
                   sizeof(float) /* elements of K and of V that fit the scratch widened */
};

typedef void (*panel_fn)(const struct panel *p);

/* The page in the form in which it is read. */
struct page {
    const unsigned char *k, *v;
    size_t k_stride, v_stride; /* bytes */
    size_t size;               /* bytes of an element */
    panel_fn product;
};

/* Of one block of queries. */
struct weights {
    float p[QUERIES][RWK_KEY_BLOCK];
    float now[QUERIES], before[QUERIES]; /* factors of this page's sum and of the state */
};

/* max, sum and factors of a state that a page with m and l joins. The same function everywhere, so
 * that pages merged later and pages merged at once agree to the bit. */
RWK_INLINE void merge_sums(float *max, float *sum, float m, float l, float *ret_before,
                           float *ret_now)
{
    float top = *max > m ? *max : m, factor[RWK_LANES];
    const float arguments[2] = { *max - top, m - top };
    vf_store(factor, vf_exp(vf_load_n(arguments, 2)));
    const float before = factor[0], now = factor[1];
    *sum = *sum * before + l * now;
    *max = top;
    *ret_before = before;
    *ret_now = now;
}

/* out = out before + o now */
RWK_INLINE void merge_out(float *out, const float *o, float before, float now, size_t n)
{
    const vf b = vf_set1(before), w = vf_set1(now);
    size_t i = 0;
    for (; i + RWK_LANES <= n; i += RWK_LANES)
        vf_store(out + i, vf_fma(vf_load(o + i), w, vf_mul(vf_load(out + i), b)));
    if (i < n)
        vf_store_n(out + i,
                   vf_fma(vf_load_n(o + i, n - i), w, vf_mul(vf_load_n(out + i, n - i), b)), n - i);
}

static void attention_merge(float *max, float *sum, float *out, float later_max, float later_sum,
                            const float *later_out, uint32_t n)
{
    float before, now;
    if (later_max == -INFINITY && later_sum == 0)
        return; /* that page had nothing to see */
    merge_sums(max, sum, later_max, later_sum, &before, &now);
    merge_out(out, later_out, before, now, n);
}

/* s -> p in place, for keys [first, last); returns the maximum and the sum. */
RWK_INLINE void softmax(float *s, const float *bias, float cap, uint32_t first, uint32_t last,
                        float *ret_max, float *ret_sum)
{
    enum { VECTORS = RWK_KEY_BLOCK / RWK_LANES };
    const vf lowest = vf_set1(-INFINITY), c = vf_set1(cap);
    vf v[VECTORS], m = lowest;
    for (int i = 0; i < VECTORS; i++) {
        v[i] = vf_load(s + i * RWK_LANES);
        if (cap > 0)
            v[i] = vf_mul(c, vf_tanh(vf_div(v[i], c)));
        if (bias)
            v[i] = vf_add(v[i], vf_load(bias + i * RWK_LANES));
        vm seen = vm_range((int)first - i * RWK_LANES, (int)last - i * RWK_LANES);
        v[i] = vf_select(seen, v[i], lowest);
        m = vf_max(m, v[i]);
    }
    *ret_max = vf_max_lanes(m);
    m = vf_set1(*ret_max);
    for (int i = 0; i < VECTORS; i++) {
        vm seen = vm_range((int)first - i * RWK_LANES, (int)last - i * RWK_LANES);
        v[i] = vf_select(seen, vf_exp(vf_sub(v[i], m)), vf_zero());
        vf_store(s + i * RWK_LANES, v[i]);
    }
    for (int half = VECTORS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v[i] = vf_add(v[i], v[i + half]);
    *ret_sum = vf_sum(v[0]);
}

/* Rows [begin, end) of a page of quantised values. */
static void widen_values_q8(float *to, const struct rwk_attention_block *b, uint32_t begin,
                            uint32_t end)
{
    const size_t blocks = rwk_kv_blocks(b->head_dim);
    const int8_t *q = b->v;
    const float *scales = (const float *)(const void *)(q + (size_t)RWK_KEY_BLOCK * b->v_stride);
    for (size_t j = begin; j < end; j++)
        for (size_t d = 0; d < b->v_stride; d += RWK_LANES) {
            const vf scale = vf_set1(scales[j * blocks + d / RWK_KV_BLOCK]);
            vf_store(to + j * b->v_stride + d, vf_mul(scale, vf_load_i8(q + j * b->v_stride + d)));
        }
}

static void widen_keys_q8(float *to, const struct rwk_attention_block *b)
{
    const int8_t *q = b->k;
    const float *scales = (const float *)(const void *)(q + (size_t)b->head_dim * RWK_KEY_BLOCK);
    for (size_t d = 0; d < b->head_dim; d++)
        for (size_t j = 0; j < RWK_KEY_BLOCK; j += RWK_LANES) {
            const vf scale = vf_load(scales + d / RWK_KV_BLOCK * RWK_KEY_BLOCK + j);
            vf_store(to + d * RWK_KEY_BLOCK + j,
                     vf_mul(scale, vf_load_i8(q + d * RWK_KEY_BLOCK + j)));
        }
}

/* The page as floats in scratch, keys first. */
static struct page widened_page(const struct rwk_attention_block *b, float *scratch)
{
    return (struct page) { (const unsigned char *)scratch,
                           (const unsigned char *)(scratch + WIDENED_PAGE),
                           RWK_KEY_BLOCK * sizeof(float),
                           b->v_stride * sizeof(float),
                           sizeof(float),
                           panel_f32 };
}
_Static_assert(RWK_MAX_HEAD_DIM *RWK_KEY_BLOCK <= WIDENED_PAGE,
               "every page of quantised keys or values fits widened");

/* The page, widened into scratch if that pays and fits, or if it is quantised. */
static struct page open_page(const struct rwk_attention_block *b, uint32_t begin, uint32_t end,
                             float *scratch)
{
    static const panel_fn products[] = { [RWK_ELEMENT_F32] = panel_f32,
                                         [RWK_ELEMENT_F16] = panel_f16,
                                         [RWK_ELEMENT_BF16] = panel_bf16 };
    static void (*const widen_page[])(float *, const void *, size_t) = {
        [RWK_ELEMENT_F16] = widen_f16, [RWK_ELEMENT_BF16] = widen_bf16
    };
    if (b->element == RWK_ELEMENT_Q8) {
        widen_keys_q8(scratch, b);
        widen_values_q8(scratch + WIDENED_PAGE, b, begin, end);
        return widened_page(b, scratch);
    }
    size_t size = rwk_element_bytes(b->element), n_k = (size_t)b->head_dim * RWK_KEY_BLOCK,
           n_v = (size_t)RWK_KEY_BLOCK * b->v_stride;
    struct page page = {
        b->k, b->v, RWK_KEY_BLOCK * size, b->v_stride * size, size, products[b->element]
    };
    if (b->element == RWK_ELEMENT_F32 || b->n_queries <= QUERIES || n_k > WIDENED_PAGE ||
        n_v > WIDENED_PAGE)
        return page;
    float *v = scratch + WIDENED_PAGE;
    widen_page[b->element](scratch, b->k, n_k);
    widen_page[b->element](v + (size_t)begin * b->v_stride, page.v + begin * page.v_stride,
                           (size_t)(end - begin) * b->v_stride);
    return widened_page(b, scratch);
}

/* Scores of queries [i, i + n) over the vectors of keys that any of them sees, made into weights;
 * the states' maxima and sums are brought up to date. */
static void weigh(const struct rwk_attention_block *b, const struct page *page, uint32_t i,
                  uint32_t n, uint32_t begin, uint32_t end, struct weights *w)
{
    uint32_t from = begin / RWK_LANES * RWK_LANES,
             to = (end + RWK_LANES - 1) / RWK_LANES * RWK_LANES;
    struct panel scores = { .p = page->k + from * page->size,
                            .p_stride = page->k_stride,
                            .x = b->q + i * b->q_stride,
                            .x_stride = b->q_stride,
                            .y = w->p[0] + from,
                            .y_stride = RWK_KEY_BLOCK,
                            .n_tokens = n,
                            .n_columns = to - from,
                            .k_end = b->head_dim };
    page->product(&scores);
    for (uint32_t j = 0; j < n; j++) {
        float m, l;
        if (b->first[i + j] >= b->last[i + j]) {
            w->before[j] = 1;
            w->now[j] = 0;
            continue;
        }
        softmax(w->p[j], b->bias ? b->bias + (size_t)(i + j) * RWK_KEY_BLOCK : NULL, b->softcap,
                b->first[i + j], b->last[i + j], &m, &l);
        merge_sums(&b->max[i + j], &b->sum[i + j], m, l, &w->before[j], &w->now[j]);
    }
}

/* o[n][columns] += weights . V rows, each query over its own range. */
static void sum_values(const struct rwk_attention_block *b, const struct page *page, uint32_t i,
                       uint32_t n, const struct weights *w, uint32_t column, uint32_t n_columns,
                       float o[QUERIES][OUT_COLUMNS])
{
    uint32_t common_first = 0, common_last = RWK_KEY_BLOCK;
    for (uint32_t j = i; j < i + n; j++) {
        common_first = b->first[j] > common_first ? b->first[j] : common_first;
        common_last = b->last[j] < common_last ? b->last[j] : common_last;
    }
    if (common_first >= common_last)
        common_first = common_last = RWK_KEY_BLOCK; /* every query by itself */
    struct panel values = { .p = page->v + column * page->size,
                            .p_stride = page->v_stride,
                            .x_stride = RWK_KEY_BLOCK,
                            .y_stride = OUT_COLUMNS,
                            .n_columns = n_columns,
                            .onto = true };
    for (uint32_t j = 0; j < n; j++) {
        struct panel before = values;
        before.x = w->p[j];
        before.y = o[j];
        before.n_tokens = 1;
        before.k_begin = b->first[i + j];
        before.k_end = b->last[i + j] < common_first ? b->last[i + j] : common_first;
        if (before.k_begin < before.k_end)
            page->product(&before);
    }
    values.x = w->p[0];
    values.y = o[0];
    values.n_tokens = n;
    values.k_begin = common_first;
    values.k_end = common_last;
    if (common_first < common_last)
        page->product(&values);
    for (uint32_t j = 0; j < n; j++) {
        struct panel after = values;
        after.x = w->p[j];
        after.y = o[j];
        after.n_tokens = 1;
        after.k_begin = common_last;
        after.k_end = b->last[i + j];
        if (after.k_begin < after.k_end)
            page->product(&after);
    }
}

static void attention(const struct rwk_attention_block *b, void *scratch)
{
    uint32_t begin = RWK_KEY_BLOCK, end = 0;
    for (uint32_t i = 0; i < b->n_queries; i++)
        if (b->first[i] < b->last[i]) {
            begin = b->first[i] < begin ? b->first[i] : begin;
            end = b->last[i] > end ? b->last[i] : end;
        }
    if (begin >= end)
        return;
    struct page page = open_page(b, begin, end, scratch);
    for (uint32_t i = 0; i < b->n_queries; i += QUERIES) {
        uint32_t n = b->n_queries - i < QUERIES ? b->n_queries - i : QUERIES;
        struct weights w;
        float o[QUERIES][OUT_COLUMNS];
        weigh(b, &page, i, n, begin, end, &w);
        for (uint32_t c = 0; c < b->v_stride; c += OUT_COLUMNS) {
            uint32_t n_columns = b->v_stride - c < OUT_COLUMNS ? b->v_stride - c : OUT_COLUMNS;
            for (uint32_t j = 0; j < n; j++)
                memset(o[j], 0, n_columns * sizeof o[j][0]);
            sum_values(b, &page, i, n, &w, c, n_columns, o);
            for (uint32_t j = 0; j < n; j++)
                if (b->first[i + j] < b->last[i + j])
                    merge_out(b->out + (size_t)(i + j) * b->v_stride + c, o[j], w.before[j],
                              w.now[j], n_columns);
        }
    }
}

#endif
