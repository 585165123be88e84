/* Matrix products.
 *
 * [out][in] weights: lanes along K. Each output has one vector accumulator that takes the products in ascending order of K,
 * one fused multiply-add a vector, the tail padded with zeros, then one reduction tree. A tile of TILE_ROWS weight rows by
 * TILE_TOKENS tokens lives in registers. A single token runs over the weights as stored; for many tokens a strip of rows is
 * widened to float once into scratch and swept by all tokens. Both add the same numbers in the same order, so they give the
 * same bits.
 *
 * bfloat16: a full load holds 2 VF numbers; those at even places come out by one shift, those at odd ones by one mask. So the
 * order over K is evens, odds of each group of 2 VF, for activations (`prepare`) and widened strips alike.
 *
 * [in][out] weights: lanes along the outputs, K ascending, one accumulator lane per output. */

/* ---- the forms of activations ---- */

static size_t prepared_plain(uint32_t n) { return ((size_t)n * sizeof(float) + 2 * VF * sizeof(float) + 63) / 64 * 64; }

static void prepare_plain(void *dst, const float *x, uint32_t n)
{
    float *y = dst;
    memcpy(y, x, n * sizeof *x);
    memset(y + n, 0, prepared_plain(n) - n * sizeof *y);
}

/* evens, odds of each group of 2 VF */
static void prepare_bf16(void *dst, const float *x, uint32_t n)
{
    float *y = dst;
    memset(y + n / (2 * VF) * (2 * VF), 0, prepared_plain(n) - n / (2 * VF) * (2 * VF) * sizeof *y);
    for (uint32_t i = 0; i < n; i++)
        y[i / (2 * VF) * (2 * VF) + i % 2 * VF + i % (2 * VF) / 2] = x[i];
}

/* ---- tiles over K ---- */

/* Loads of one step of K, and their sizes: STEP floats of activations, step_bytes of weights. */
enum { STEP = 2 * VF };

static inline void load_f32(const char *p, vf *a, vf *b)
{
    *a = vf_load((const float *)p);
    *b = vf_load((const float *)p + VF);
}

static inline void load_f16(const char *p, vf *a, vf *b)
{
    *a = vf_from_f16(p);
    *b = vf_from_f16(p + 2 * VF);
}

static inline void load_bf16(const char *p, vf *a, vf *b) { vf_from_bf16_pair(p, a, b); }

#define ALWAYS static inline __attribute__((always_inline))

/* y[t][r] for R rows by T tokens; w: [R] rows row_bytes apart; x: [T] rows x_floats apart, padded with zeros to STEP. */
#define DEFINE_TILE(name, bytes)                                                                                  \
    ALWAYS void tile_##name(const char *w, size_t row_bytes, const float *x, size_t x_floats, float *y,           \
                            size_t y_stride, uint32_t k, const int R, const int T)                                \
    {                                                                                                             \
        vf acc[TILE_ROWS][TILE_TOKENS];                                                                           \
        _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)                                                       \
            _Pragma("GCC unroll 8") for (int t = 0; t < T; t++) acc[r][t] = vf_zero();                            \
        uint32_t whole = k / STEP * STEP, i = 0;                                                                  \
        for (; i < whole; i += STEP)                                                                              \
            _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)                                                   \
            {                                                                                                     \
                vf a, b;                                                                                          \
                load_##name(w + r * row_bytes + (size_t)i * bytes, &a, &b);                                       \
                _Pragma("GCC unroll 8") for (int t = 0; t < T; t++)                                               \
                    acc[r][t] = vf_fma(b, vf_load(x + t * x_floats + i + VF),                                     \
                                       vf_fma(a, vf_load(x + t * x_floats + i), acc[r][t]));                      \
            }                                                                                                     \
        if (i < k)                                                                                                \
            _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)                                                   \
            {                                                                                                     \
                vf a, b;                                                                                          \
                char rest[STEP * bytes] = { 0 };                                                                  \
                memcpy(rest, w + r * row_bytes + (size_t)i * bytes, (size_t)(k - i) * bytes);                     \
                load_##name(rest, &a, &b);                                                                        \
                _Pragma("GCC unroll 8") for (int t = 0; t < T; t++)                                               \
                    acc[r][t] = vf_fma(b, vf_load(x + t * x_floats + i + VF),                                     \
                                       vf_fma(a, vf_load(x + t * x_floats + i), acc[r][t]));                      \
            }                                                                                                     \
        _Pragma("GCC unroll 8") for (int t = 0; t < T; t++)                                                       \
            _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) y[t * y_stride + r] = vf_sum(acc[r][t]);          \
    }                                                                                                             \
    /* n_rows rows by one token, four in flight */                                                                \
    static void sweep_one_##name(const char *w, size_t row_bytes, const float *x, float *y, uint32_t k, uint32_t n_rows) \
    {                                                                                                             \
        uint32_t r = 0;                                                                                           \
        for (; r + TILE_ROWS <= n_rows; r += TILE_ROWS)                                                           \
            tile_##name(w + r * row_bytes, row_bytes, x, 0, y + r, 0, k, TILE_ROWS, 1);                           \
        for (; r < n_rows; r++)                                                                                   \
            tile_##name(w + r * row_bytes, row_bytes, x, 0, y + r, 0, k, 1, 1);                                   \
    }

DEFINE_TILE(f32, 4)
DEFINE_TILE(f16, 2)
DEFINE_TILE(bf16, 2)

/* n_rows rows of floats in the order of the activations, zero-padded, by n_tokens tokens. */
static void sweep_strip(const float *w, size_t w_floats, uint32_t n_rows, const float *x, size_t x_floats, uint32_t n_tokens,
                        float *y, size_t y_stride, uint32_t k)
{
    const char *strip = (const char *)w;
    size_t bytes = w_floats * sizeof(float);
    uint32_t t = 0;
    for (; t + TILE_TOKENS <= n_tokens; t += TILE_TOKENS) {
        uint32_t r = 0;
        for (; r + TILE_ROWS <= n_rows; r += TILE_ROWS)
            tile_f32(strip + r * bytes, bytes, x + t * x_floats, x_floats, y + t * y_stride + r, y_stride, k, TILE_ROWS,
                     TILE_TOKENS);
        for (; r < n_rows; r++)
            tile_f32(strip + r * bytes, bytes, x + t * x_floats, x_floats, y + t * y_stride + r, y_stride, k, 1, TILE_TOKENS);
    }
    for (; t < n_tokens; t++)
        sweep_one_f32(strip, bytes, x + t * x_floats, y + t * y_stride, k, n_rows);
}

/* One weight row as floats in the order of the activations, padded with zeros to STEP. */
#define DEFINE_SPREAD(name, bytes)                                                                     \
    static void spread_##name(float *dst, const char *src, uint32_t k)                                 \
    {                                                                                                  \
        uint32_t i = 0;                                                                                \
        for (; i + STEP <= k; i += STEP) {                                                             \
            vf a, b;                                                                                   \
            load_##name(src + (size_t)i * bytes, &a, &b);                                              \
            vf_store(dst + i, a);                                                                      \
            vf_store(dst + i + VF, b);                                                                 \
        }                                                                                              \
        if (i < k) {                                                                                   \
            vf a, b;                                                                                   \
            char rest[STEP * bytes] = { 0 };                                                           \
            memcpy(rest, src + (size_t)i * bytes, (size_t)(k - i) * bytes);                            \
            load_##name(rest, &a, &b);                                                                 \
            vf_store(dst + i, a);                                                                      \
            vf_store(dst + i + VF, b);                                                                 \
        }                                                                                              \
    }
DEFINE_SPREAD(f32, 4)
DEFINE_SPREAD(f16, 2)
DEFINE_SPREAD(bf16, 2)

enum { STRIP_ROWS = 4 * TILE_ROWS };

#define DEFINE_MATMUL(name, bytes)                                                                                     \
    static void matmul_##name(const struct rwk_matmul *m, uint32_t begin, uint32_t end, void *scratch)                 \
    {                                                                                                                  \
        uint32_t k = m->w->cols, padded = (k + STEP - 1) / STEP * STEP;                                                \
        size_t row_bytes = m->w->stride * bytes, x_floats = m->x_stride / sizeof(float);                               \
        const char *w = m->w->data;                                                                                    \
        size_t fits = RWK_KERNEL_SCRATCH / ((size_t)padded * sizeof(float));                                           \
        uint32_t strip = fits < STRIP_ROWS ? (uint32_t)fits : STRIP_ROWS;                                              \
        if (m->n_tokens < TILE_TOKENS || strip == 0) {                                                                 \
            for (uint32_t t = 0; t < m->n_tokens; t++)                                                                 \
                sweep_one_##name(w + begin * row_bytes, row_bytes, (const float *)m->x + t * x_floats,                 \
                                 m->y + t * m->y_stride + begin, k, end - begin);                                      \
            return;                                                                                                    \
        }                                                                                                              \
        for (uint32_t r = begin; r < end; r += strip) {                                                                \
            uint32_t n = end - r < strip ? end - r : strip;                                                            \
            for (uint32_t i = 0; i < n; i++)                                                                           \
                spread_##name((float *)scratch + (size_t)i * padded, w + (r + i) * row_bytes, k);                      \
            sweep_strip(scratch, padded, n, m->x, x_floats, m->n_tokens, m->y + r, m->y_stride, padded);               \
        }                                                                                                              \
    }
DEFINE_MATMUL(f32, 4)
DEFINE_MATMUL(f16, 2)
DEFINE_MATMUL(bf16, 2)

/* ---- [in][out] ---- */

static inline vf wide_f32(const char *p) { return vf_load((const float *)p); }
static inline vf wide_f16(const char *p) { return vf_from_f16(p); }
static inline vf wide_bf16(const char *p) { return vf_from_bf16(p); }

enum { COLUMN_STRIP = 512 }; /* outputs of one token whose accumulators stay in the first-level cache */

#define DEFINE_TRANSPOSED(name, bytes)                                                                                 \
    /* L vectors of outputs by T tokens */                                                                             \
    ALWAYS void lanes_##name(const char *w, size_t in_bytes, const float *x, size_t x_floats, float *y,                \
                             size_t y_stride, uint32_t k, const int L, const int T)                                    \
    {                                                                                                                  \
        vf acc[TILE_LANES][TILE_TOKENS];                                                                               \
        _Pragma("GCC unroll 8") for (int l = 0; l < L; l++)                                                            \
            _Pragma("GCC unroll 8") for (int t = 0; t < T; t++) acc[l][t] = vf_zero();                                 \
        for (uint32_t i = 0; i < k; i++, w += in_bytes)                                                                \
            _Pragma("GCC unroll 8") for (int t = 0; t < T; t++)                                                        \
            {                                                                                                          \
                vf b = vf_set1(x[t * x_floats + i]);                                                                   \
                _Pragma("GCC unroll 8") for (int l = 0; l < L; l++)                                                    \
                    acc[l][t] = vf_fma(wide_##name(w + l * VF * bytes), b, acc[l][t]);                                 \
            }                                                                                                          \
        _Pragma("GCC unroll 8") for (int t = 0; t < T; t++)                                                            \
            _Pragma("GCC unroll 8") for (int l = 0; l < L; l++) vf_store(y + t * y_stride + l * VF, acc[l][t]);        \
    }                                                                                                                  \
    /* One token: the weights are read row after row, the sums of a strip of outputs stay in y. */                     \
    static void strip_##name(const char *w, size_t in_bytes, const float *x, float *y, uint32_t k, uint32_t n)         \
    {                                                                                                                  \
        memset(y, 0, n * sizeof *y);                                                                                   \
        for (uint32_t i = 0; i < k; i++, w += in_bytes) {                                                              \
            vf b = vf_set1(x[i]);                                                                                      \
            for (uint32_t o = 0; o < n; o += VF)                                                                       \
                vf_store(y + o, vf_fma(wide_##name(w + (size_t)o * bytes), b, vf_load(y + o)));                        \
        }                                                                                                              \
    }                                                                                                                  \
    /* The last n < VF outputs. */                                                                                     \
    static void last_##name(const char *w, size_t in_bytes, const float *x, float *y, uint32_t k, uint32_t n)          \
    {                                                                                                                  \
        vf acc = vf_zero();                                                                                            \
        for (uint32_t i = 0; i < k; i++, w += in_bytes) {                                                              \
            char rest[VF * bytes] = { 0 };                                                                             \
            memcpy(rest, w, (size_t)n * bytes);                                                                        \
            acc = vf_fma(wide_##name(rest), vf_set1(x[i]), acc);                                                       \
        }                                                                                                              \
        vf_store_n(y, acc, n);                                                                                         \
    }                                                                                                                  \
    static void matmul_transposed_##name(const struct rwk_matmul *m, uint32_t begin, uint32_t end, void *scratch)      \
    {                                                                                                                  \
        uint32_t k = m->w->cols, vectors_end = begin + (end - begin) / VF * VF, t = 0;                                 \
        size_t in_bytes = m->w->stride * bytes, x_floats = m->x_stride / sizeof(float);                                \
        const char *w = m->w->data;                                                                                    \
        const float *x = m->x;                                                                                         \
        (void)scratch;                                                                                                 \
        for (; t + TILE_TOKENS <= m->n_tokens; t += TILE_TOKENS) {                                                     \
            uint32_t o = begin;                                                                                        \
            for (; o + TILE_LANES * VF <= vectors_end; o += TILE_LANES * VF)                                           \
                lanes_##name(w + (size_t)o * bytes, in_bytes, x + t * x_floats, x_floats, m->y + t * m->y_stride + o,  \
                             m->y_stride, k, TILE_LANES, TILE_TOKENS);                                                 \
            for (; o < vectors_end; o += VF)                                                                           \
                lanes_##name(w + (size_t)o * bytes, in_bytes, x + t * x_floats, x_floats, m->y + t * m->y_stride + o,  \
                             m->y_stride, k, 1, TILE_TOKENS);                                                          \
        }                                                                                                              \
        for (; t < m->n_tokens; t++)                                                                                   \
            for (uint32_t o = begin, n; o < vectors_end; o += n) {                                                     \
                n = vectors_end - o < COLUMN_STRIP ? vectors_end - o : COLUMN_STRIP;                                   \
                strip_##name(w + (size_t)o * bytes, in_bytes, x + t * x_floats, m->y + t * m->y_stride + o, k, n);     \
            }                                                                                                          \
        for (t = 0; vectors_end < end && t < m->n_tokens; t++)                                                         \
            last_##name(w + (size_t)vectors_end * bytes, in_bytes, x + t * x_floats,                                   \
                        m->y + t * m->y_stride + vectors_end, k, end - vectors_end);                                   \
    }
DEFINE_TRANSPOSED(f32, 4)
DEFINE_TRANSPOSED(f16, 2)
DEFINE_TRANSPOSED(bf16, 2)
