/* One page of keys and values against the queries that share it; see struct rwk_attention_block for the formulas.
 *
 *   page -> float (in scratch, unless it is float already) -> for each tile of queries: scores, lanes along the keys ->
 *   softmax over the page -> sum of values, lanes along the dimensions, keys ascending -> merged into the state
 *
 * Each query's sums run over its own visible keys in ascending order, whatever its neighbours see. */

enum { KEY_VECTORS = RWK_KEY_BLOCK / VF };

/* s[q][64] = sum over d of q[d] k[d][0..63], Q queries by V vectors of keys at a time */
ALWAYS void score_tile(const float *q, size_t q_stride, const float *k, uint32_t head_dim, float *s, const int Q, const int V)
{
    vf acc[TILE_QUERIES][TILE_VECTORS];
    _Pragma("GCC unroll 8") for (int i = 0; i < Q; i++)
        _Pragma("GCC unroll 8") for (int v = 0; v < V; v++) acc[i][v] = vf_zero();
    for (uint32_t d = 0; d < head_dim; d++, k += RWK_KEY_BLOCK) {
        vf keys[TILE_VECTORS];
        _Pragma("GCC unroll 8") for (int v = 0; v < V; v++) keys[v] = vf_load(k + v * VF);
        _Pragma("GCC unroll 8") for (int i = 0; i < Q; i++)
        {
            vf b = vf_set1(q[i * q_stride + d]);
            _Pragma("GCC unroll 8") for (int v = 0; v < V; v++) acc[i][v] = vf_fma(b, keys[v], acc[i][v]);
        }
    }
    _Pragma("GCC unroll 8") for (int i = 0; i < Q; i++)
        _Pragma("GCC unroll 8") for (int v = 0; v < V; v++) vf_store(s + i * RWK_KEY_BLOCK + v * VF, acc[i][v]);
}

/* out[q][n] = sum over keys j in [lo, hi) of p[q][j] v[j][n], Q queries by V vectors of dimensions at a time */
ALWAYS void value_tile(const float *p, const float *v, size_t v_stride, uint32_t lo, uint32_t hi, float *out,
                       size_t out_stride, const int Q, const int V)
{
    vf acc[TILE_QUERIES][TILE_VECTORS];
    _Pragma("GCC unroll 8") for (int i = 0; i < Q; i++)
        _Pragma("GCC unroll 8") for (int n = 0; n < V; n++) acc[i][n] = vf_zero();
    for (uint32_t j = lo; j < hi; j++) {
        vf values[TILE_VECTORS];
        _Pragma("GCC unroll 8") for (int n = 0; n < V; n++) values[n] = vf_load(v + j * v_stride + n * VF);
        _Pragma("GCC unroll 8") for (int i = 0; i < Q; i++)
        {
            vf b = vf_set1(p[i * RWK_KEY_BLOCK + j]);
            _Pragma("GCC unroll 8") for (int n = 0; n < V; n++) acc[i][n] = vf_fma(b, values[n], acc[i][n]);
        }
    }
    _Pragma("GCC unroll 8") for (int i = 0; i < Q; i++)
        _Pragma("GCC unroll 8") for (int n = 0; n < V; n++) vf_store(out + i * out_stride + n * VF, acc[i][n]);
}

static void scores(const float *q, size_t q_stride, const float *k, uint32_t head_dim, float *s, int n_queries)
{
    const int V = KEY_VECTORS < TILE_VECTORS ? KEY_VECTORS : TILE_VECTORS;
    for (int v = 0; v < KEY_VECTORS; v += V) {
        if (n_queries == TILE_QUERIES)
            score_tile(q, q_stride, k + v * VF, head_dim, s + v * VF, TILE_QUERIES, V);
        else
            for (int i = 0; i < n_queries; i++)
                score_tile(q + i * q_stride, 0, k + v * VF, head_dim, s + i * RWK_KEY_BLOCK + v * VF, 1, V);
    }
}

static void values(const float *p, const float *v, uint32_t v_stride, uint32_t lo, uint32_t hi, float *out, int n_queries)
{
    uint32_t vectors = v_stride / VF, n = 0;
    for (; n + TILE_VECTORS <= vectors; n += TILE_VECTORS) {
        if (n_queries == TILE_QUERIES)
            value_tile(p, v + n * VF, v_stride, lo, hi, out + n * VF, v_stride, TILE_QUERIES, TILE_VECTORS);
        else
            for (int i = 0; i < n_queries; i++)
                value_tile(p + i * RWK_KEY_BLOCK, v + n * VF, v_stride, lo, hi, out + i * v_stride + n * VF, 0, 1,
                           TILE_VECTORS);
    }
    for (; n < vectors; n++)
        for (int i = 0; i < n_queries; i++)
            value_tile(p + i * RWK_KEY_BLOCK, v + n * VF, v_stride, lo, hi, out + i * v_stride + n * VF, 0, 1, 1);
}

/* s[64] -> exp(s - max) over [lo, hi), zero elsewhere; returns max and the sum. */
static void softmax_page(float *s, const float *bias, float cap, uint32_t lo, uint32_t hi, float *ret_max, float *ret_sum)
{
    if (cap > 0)
        softcap(s, cap, RWK_KEY_BLOCK);
    if (bias)
        add(s, bias, RWK_KEY_BLOCK);
    for (uint32_t j = 0; j < lo; j++)
        s[j] = -__builtin_inff();
    for (uint32_t j = hi; j < RWK_KEY_BLOCK; j++)
        s[j] = -__builtin_inff();
    vf max = vf_load(s), sum = vf_zero();
    for (int v = 1; v < KEY_VECTORS; v++)
        max = vf_max(max, vf_load(s + v * VF));
    *ret_max = vf_hmax(max);
    vf m = vf_set1(*ret_max);
    for (int v = 0; v < KEY_VECTORS; v++) {
        vf p = v_exp(vf_sub(vf_load(s + v * VF), m));
        vf_store(s + v * VF, p);
        sum = vf_add(sum, p);
    }
    *ret_sum = vf_sum(sum);
}

static float exp_one(float x)
{
    float lanes[VF];
    vf_store(lanes, v_exp(vf_set1(x)));
    return lanes[0];
}

static void attention_merge(float *max, float *sum, float *out, float later_max, float later_sum, const float *later_out,
                            uint32_t n)
{
    if (later_max == -__builtin_inff())
        return;
    float together = *max > later_max ? *max : later_max;
    float a = exp_one(*max - together), b = exp_one(later_max - together);
    vf va = vf_set1(a), vb = vf_set1(b);
    for (uint32_t i = 0; i < n; i += VF)
        vf_store(out + i, vf_fma(vf_load(out + i), va, vf_mul(vf_load(later_out + i), vb)));
    float scaled = later_sum * b;
    *sum = *sum * a;
    *sum = *sum + scaled;
    *max = together;
}

/* The page's keys or values [n] as floats. */
static const float *as_floats(float **scratch, const void *page, enum rwk_element element, size_t n)
{
    if (element == RWK_ELEMENT_F32)
        return page;
    float *floats = *scratch;
    (element == RWK_ELEMENT_F16 ? widen_f16 : widen_bf16)(floats, page, n);
    *scratch += n;
    return floats;
}

static void attend_tile(const struct rwk_attention_block *b, uint32_t first, int n, const float *k, const float *v,
                        float *s, float *out)
{
    float max[TILE_QUERIES], sum[TILE_QUERIES];
    bool alike = true;
    scores(b->q + first * b->q_stride, b->q_stride, k, b->head_dim, s, n);
    for (int i = 0; i < n; i++) {
        uint32_t lo = b->first[first + i], hi = b->last[first + i];
        alike &= lo == b->first[first] && hi == b->last[first];
        max[i] = -__builtin_inff();
        if (lo < hi)
            softmax_page(s + i * RWK_KEY_BLOCK, b->bias ? b->bias + (size_t)(first + i) * RWK_KEY_BLOCK : NULL, b->softcap,
                         lo, hi, &max[i], &sum[i]);
    }
    if (alike)
        values(s, v, b->v_stride, b->first[first], b->last[first], out, n);
    else
        for (int i = 0; i < n; i++)
            values(s + i * RWK_KEY_BLOCK, v, b->v_stride, b->first[first + i], b->last[first + i], out + i * b->v_stride, 1);
    for (int i = 0; i < n; i++)
        if (b->first[first + i] < b->last[first + i])
            attention_merge(&b->max[first + i], &b->sum[first + i], b->out + (size_t)(first + i) * b->v_stride, max[i],
                            sum[i], out + i * b->v_stride, b->v_stride);
}

static void attention(const struct rwk_attention_block *b, void *scratch)
{
    uint32_t lo = RWK_KEY_BLOCK, hi = 0;
    for (uint32_t i = 0; i < b->n_queries; i++)
        if (b->first[i] < b->last[i]) {
            lo = b->first[i] < lo ? b->first[i] : lo;
            hi = b->last[i] > hi ? b->last[i] : hi;
        }
    if (lo >= hi)
        return;
    float *s = scratch, *out = s + TILE_QUERIES * RWK_KEY_BLOCK, *rest = out + TILE_QUERIES * b->v_stride;
    const float *k = as_floats(&rest, b->k, b->element, (size_t)b->head_dim * RWK_KEY_BLOCK);
    const float *v = as_floats(&rest, b->v, b->element, (size_t)hi * b->v_stride);
    for (uint32_t i = 0; i < b->n_queries; i += TILE_QUERIES)
        attend_tile(b, i, (int)(b->n_queries - i < TILE_QUERIES ? b->n_queries - i : TILE_QUERIES), k, v, s, out);
}
