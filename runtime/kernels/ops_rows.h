/* What concerns one row: sums, norms, activations, rotation, conversion. Every loop runs over whole vectors and ends in one
 * partial vector whose missing lanes are zero. */

#define EACH_VECTOR(n, whole, rest)              \
    do {                                         \
        size_t i = 0;                            \
        for (; i + VF <= (size_t)(n); i += VF) { \
            whole;                               \
        }                                        \
        if (i < (size_t)(n)) {                   \
            size_t left = (size_t)(n) - i;       \
            rest;                                \
        }                                        \
    } while (0)

/* y[i] = f(...) where f is an expression in a (y's vector) and b (x's vector). */
#define MAP2(n, y, x, expression)                                                                  \
    EACH_VECTOR(n, vf a = vf_load((y) + i); vf b = vf_load((x) + i); (void)a; (void)b;                 \
                vf_store((y) + i, expression),                                                      \
                vf a = vf_load_n((y) + i, left); vf b = vf_load_n((x) + i, left); (void)a; (void)b;    \
                vf_store_n((y) + i, expression, left))

static void add(float *y, const float *x, size_t n) { MAP2(n, y, x, vf_add(a, b)); }

static void add_scaled(float *y, const float *x, float s, size_t n) { MAP2(n, y, x, vf_fma(b, vf_set1(s), a)); }

static void scale(float *y, float s, size_t n) { MAP2(n, y, y, vf_mul(a, vf_set1(s))); }

static void clip(float *y, float limit, size_t n)
{
    MAP2(n, y, y, vf_min(vf_max(a, vf_set1(-limit)), vf_set1(limit)));
}

static void softcap(float *y, float cap, size_t n)
{
    MAP2(n, y, y, vf_mul(vf_set1(cap), v_tanh(vf_div(a, vf_set1(cap)))));
}

/* ---- norms ---- */

static void rms_norm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    vf sum = vf_zero();
    EACH_VECTOR(n, vf a = vf_load(x + i); sum = vf_fma(a, a, sum), vf a = vf_load_n(x + i, left); sum = vf_fma(a, a, sum));
    vf r = vf_set1(1 / sqrtf(vf_sum(sum) / (float)n + eps));
    if (w)
        EACH_VECTOR(n, vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), r), vf_load(w + i))),
                    vf_store_n(y + i, vf_mul(vf_mul(vf_load_n(x + i, left), r), vf_load_n(w + i, left)), left));
    else
        MAP2(n, y, x, vf_mul(b, r));
}

static void layer_norm(float *y, const float *x, const float *w, const float *b, uint32_t n, float eps)
{
    vf sum = vf_zero(), square = vf_zero();
    EACH_VECTOR(n, sum = vf_add(sum, vf_load(x + i)), sum = vf_add(sum, vf_load_n(x + i, left)));
    float mean = vf_sum(sum) / (float)n;
    vf m = vf_set1(mean);
    EACH_VECTOR(n, vf a = vf_sub(vf_load(x + i), m); square = vf_fma(a, a, square),
                float rest[VF]; vf_store(rest, vf_sub(vf_load_n(x + i, left), m));
                vf a = vf_load_n(rest, left); square = vf_fma(a, a, square));
    vf r = vf_set1(1 / sqrtf(vf_sum(square) / (float)n + eps)), zero = vf_zero(), one = vf_set1(1);
    EACH_VECTOR(n, vf a = vf_mul(vf_sub(vf_load(x + i), m), r);
                vf_store(y + i, vf_fma(a, w ? vf_load(w + i) : one, b ? vf_load(b + i) : zero)),
                vf a = vf_mul(vf_sub(vf_load_n(x + i, left), m), r);
                vf_store_n(y + i, vf_fma(a, w ? vf_load_n(w + i, left) : one, b ? vf_load_n(b + i, left) : zero), left));
}

/* ---- activations ---- */

static inline vf act_silu(vf x) { return vf_mul(x, v_sigmoid(x)); }
static inline vf act_relu(vf x) { return vf_max(x, vf_zero()); }
static inline vf act_gelu_erf(vf x)
{
    vf half = vf_mul(x, vf_set1(0.5f));
    return vf_fma(half, v_erf(vf_mul(x, vf_set1(0.70710678f))), half);
}
/* x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3) */
static inline vf act_gelu_tanh(vf x)
{
    vf cube = vf_mul(vf_mul(x, x), x), half = vf_mul(x, vf_set1(0.5f));
    vf u = vf_mul(vf_set1(0.79788456f), vf_fma(cube, vf_set1(0.044715f), x));
    return vf_fma(half, v_tanh(u), half);
}
static inline vf act_quick_gelu(vf x) { return vf_mul(x, v_sigmoid(vf_mul(x, vf_set1(1.702f)))); }
static inline vf act_relu2(vf x) { vf r = act_relu(x); return vf_mul(r, r); }

#define ACTIVATION(name)                                                                             \
    static void activate_##name(float *y, const float *x, size_t n) { MAP2(n, y, x, act_##name(b)); } \
    static void gate_##name(float *y, const float *gate, const float *up, size_t n)                   \
    {                                                                                                 \
        EACH_VECTOR(n, vf_store(y + i, vf_mul(act_##name(vf_load(gate + i)), vf_load(up + i))),        \
                    vf_store_n(y + i, vf_mul(act_##name(vf_load_n(gate + i, left)), vf_load_n(up + i, left)), left)); \
    }
ACTIVATION(silu)
ACTIVATION(relu)
ACTIVATION(gelu_erf)
ACTIVATION(gelu_tanh)
ACTIVATION(quick_gelu)
ACTIVATION(relu2)

/* ---- rotation ---- */

static void rotate_half(float *x, const float *cos, const float *sin, uint32_t n)
{
    float *y = x + n;
    EACH_VECTOR(n, vf a = vf_load(x + i); vf b = vf_load(y + i); vf c = vf_load(cos + i); vf s = vf_load(sin + i);
                vf_store(x + i, vf_sub(vf_mul(a, c), vf_mul(b, s))); vf_store(y + i, vf_add(vf_mul(b, c), vf_mul(a, s))),
                vf a = vf_load_n(x + i, left); vf b = vf_load_n(y + i, left); vf c = vf_load_n(cos + i, left);
                vf s = vf_load_n(sin + i, left); vf_store_n(x + i, vf_sub(vf_mul(a, c), vf_mul(b, s)), left);
                vf_store_n(y + i, vf_add(vf_mul(b, c), vf_mul(a, s)), left));
}

static void rotate_pair(float *x, const float *cos, const float *sin, uint32_t n)
{
    for (uint32_t m = 0; m < n; m++) {
        float a = x[2 * m], b = x[2 * m + 1];
        x[2 * m] = a * cos[m] - b * sin[m];
        x[2 * m + 1] = b * cos[m] + a * sin[m];
    }
}

/* ---- conversion ---- */

static void widen_f32(float *dst, const void *src, size_t n) { memcpy(dst, src, n * sizeof *dst); }
static void narrow_f32(void *dst, const float *src, size_t n) { memcpy(dst, src, n * sizeof *src); }

#define HALF(name)                                                                                        \
    static void widen_##name(float *dst, const void *src, size_t n)                                       \
    {                                                                                                     \
        const char *p = src;                                                                              \
        EACH_VECTOR(n, vf_store(dst + i, vf_from_##name(p + 2 * i)), char rest[2 * VF] = { 0 };           \
                    memcpy(rest, p + 2 * i, 2 * left); vf_store_n(dst + i, vf_from_##name(rest), left));  \
    }                                                                                                     \
    static void narrow_##name(void *dst, const float *src, size_t n)                                      \
    {                                                                                                     \
        char *p = dst;                                                                                    \
        EACH_VECTOR(n, vf_to_##name(p + 2 * i, vf_load(src + i)), char rest[2 * VF];                      \
                    vf_to_##name(rest, vf_load_n(src + i, left)); memcpy(p + 2 * i, rest, 2 * left));     \
    }
HALF(f16)
HALF(bf16)

/* ---- the cache ---- */

#define PUT(name, type)                                                                                        \
    static void put_key_##name(void *page, uint32_t slot, const float *k, uint32_t head_dim)                   \
    {                                                                                                          \
        type *column = (type *)page + slot, narrow[RWK_MAX_HEAD_DIM];                                          \
        narrow_##name(narrow, k, head_dim);                                                                    \
        for (uint32_t d = 0; d < head_dim; d++)                                                                \
            column[(size_t)d * RWK_KEY_BLOCK] = narrow[d];                                                     \
    }                                                                                                          \
    static void put_value_##name(void *page, uint32_t slot, const float *v, uint32_t head_dim)                 \
    {                                                                                                          \
        uint32_t stride = rwk_kv_value_stride(head_dim);                                                       \
        type *row = (type *)page + (size_t)slot * stride;                                                      \
        narrow_##name(row, v, head_dim);                                                                       \
        memset(row + head_dim, 0, (stride - head_dim) * sizeof *row);                                          \
    }
PUT(f32, float)
PUT(f16, uint16_t)
PUT(bf16, uint16_t)

/* ---- log-probabilities ---- */

static void log_sum(const float *x, size_t n, float *ret_max, double *ret_sum)
{
    float max = -__builtin_inff();
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    vf m = vf_set1(max);
    for (size_t i = 0; i < n; i += VF) {
        float lanes[VF];
        size_t left = n - i < VF ? n - i : VF;
        vf_store(lanes, v_exp(vf_sub(vf_load_n(x + i, left), m)));
        for (size_t j = 0; j < left; j++)
            sum += lanes[j];
    }
    *ret_max = max;
    *ret_sum = sum;
}
