/* Rotary positions (Su et al. 2021) and their scalings: how inv_freq [r/2] is made. w_m = theta^(-2m/r).
 *
 *   linear    w_m / factor                                                        (kaiokendev 2023)
 *   ntk       theta' = theta factor^(r/(r-2))                                     (bloc97 2023)
 *   dynamic   theta' = theta (factor S/M - (factor-1))^(r/(r-2)), S = max(length, M)   (emozilla 2023)
 *   yarn      w_m/factor ramp_m + w_m (1 - ramp_m), ramp linear in m between low and high (Peng et al. 2023, as its code)
 *   llama3    by wavelength: kept, divided by factor, or blended in between
 *   longrope  w_m / f_m, f_m from one of two lists, by length                     (Ding et al. 2024)
 *
 * Float32 where the reference uses float32, step for step: from about ten thousand positions on, the last bit of a frequency
 * is worth more in angle than any rounding of the angle itself. The power is taken in double of the float32 operands and
 * rounded, which is what a good powf gives. */
#include "runtime/position/schemes.h"

#include <math.h>
#include <string.h>

static const double two_pi = 6.283185307179586;

/* theta^(2m/r) in float32 */
static float power(double theta, uint32_t m, uint32_t r)
{
    float exponent = (float)(2 * m) / (float)r;
    return (float)pow((double)(float)theta, (double)exponent);
}

static void plain(const struct rwk_rope_request *q, double theta, float *inv_freq)
{
    for (uint32_t m = 0; m < q->rotary_dim / 2; m++)
        inv_freq[m] = 1.0f / power(theta, m, q->rotary_dim);
}

/* ---- one function for each scaling; each has checked its numbers before ---- */

static enum rwk_status need(const struct rwk_rope_request *q, bool good, const char *key, const char *what,
                            struct rwk_error *error)
{
    return good ? RWK_STATUS_OK
                : rwk_fail_on(error, RWK_STATUS_RANGE, NULL, key, "%s (rope type %s)", what, rwk_rope_type_name(q->type));
}

static enum rwk_status need_factor(const struct rwk_rope_request *q, struct rwk_error *error)
{
    return need(q, q->factor > 0 && q->factor <= 1e9, "factor", "must be a positive number", error);
}

static enum rwk_status make_default(struct rwk_rope_table *t, const struct rwk_rope_request *q, struct rwk_error *error)
{
    (void)error;
    plain(q, q->theta, t->inv_freq);
    return RWK_STATUS_OK;
}

static enum rwk_status make_linear(struct rwk_rope_table *t, const struct rwk_rope_request *q, struct rwk_error *error)
{
    enum rwk_status status = need_factor(q, error);
    if (status)
        return status;
    plain(q, q->theta, t->inv_freq);
    for (uint32_t m = 0; m < t->n_pairs; m++)
        t->inv_freq[m] /= (float)q->factor;
    return RWK_STATUS_OK;
}

static enum rwk_status need_exponent(const struct rwk_rope_request *q, struct rwk_error *error)
{
    enum rwk_status status = need_factor(q, error);
    return status ? status : need(q, q->rotary_dim > 2, "head_dim", "this scaling needs more than two rotated dimensions", error);
}

static enum rwk_status make_ntk(struct rwk_rope_table *t, const struct rwk_rope_request *q, struct rwk_error *error)
{
    enum rwk_status status = need_exponent(q, error);
    if (!status)
        plain(q, q->theta * pow(q->factor, (double)q->rotary_dim / (q->rotary_dim - 2)), t->inv_freq);
    return status;
}

static enum rwk_status make_dynamic(struct rwk_rope_table *t, const struct rwk_rope_request *q, struct rwk_error *error)
{
    enum rwk_status status = need_exponent(q, error);
    if (!status)
        status = need(q, t->max_position_embeddings > 0, "max_position_embeddings", "must be given", error);
    if (!status)
        plain(q, q->theta, t->inv_freq);
    return status;
}

/* The pair that makes `rotations` turns over the original context. */
static double correction(const struct rwk_rope_request *q, double rotations)
{
    return q->rotary_dim * log((double)q->original_context / (rotations * two_pi)) / (2 * log(q->theta));
}

/* YaRN's temperature, as a factor on cos and sin. */
static double yarn_scale(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1; }

static enum rwk_status make_yarn(struct rwk_rope_table *t, const struct rwk_rope_request *q, struct rwk_error *error)
{
    double factor = q->factor, fast = q->beta_fast ? q->beta_fast : 32, slow = q->beta_slow ? q->beta_slow : 1;
    enum rwk_status status = need(q, q->original_context > 0, "original_max_position_embeddings", "must be positive", error);
    if (!status && !factor)
        factor = (double)t->max_position_embeddings / (double)q->original_context;
    if (!status)
        status = need(q, factor > 0 && factor <= 1e9, "factor", "must be a positive number", error);
    if (!status)
        status = need(q, q->theta > 1 && fast > 0 && slow > 0, "beta_fast", "beta_fast and beta_slow must be positive and "
                      "rope_theta above 1", error);
    if (status)
        return status;
    double low = correction(q, fast), high = correction(q, slow);
    if (q->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < q->rotary_dim - 1.0 ? high : q->rotary_dim - 1.0;
    if (low == high)
        high += 0.001;
    for (uint32_t m = 0; m < t->n_pairs; m++) {
        float ramp = ((float)m - (float)low) / (float)(high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        float frequency = power(q->theta, m, q->rotary_dim), keep = 1 - ramp;
        t->inv_freq[m] = 1.0f / ((float)factor * frequency) * (1 - keep) + 1.0f / frequency * keep;
    }
    t->factor = factor;
    if (!q->attention_factor)
        t->attention_factor = q->mscale && q->mscale_all_dim
                                  ? yarn_scale(factor, q->mscale) / yarn_scale(factor, q->mscale_all_dim)
                                  : yarn_scale(factor, 1);
    return RWK_STATUS_OK;
}

static enum rwk_status make_llama3(struct rwk_rope_table *t, const struct rwk_rope_request *q, struct rwk_error *error)
{
    double lo = q->low_freq_factor, hi = q->high_freq_factor, original = (double)q->original_context;
    enum rwk_status status = need_factor(q, error);
    if (!status)
        status = need(q, lo > 0 && hi > lo, "high_freq_factor", "must be above low_freq_factor, which must be positive", error);
    if (!status)
        status = need(q, original > 0, "original_max_position_embeddings", "must be positive", error);
    if (status)
        return status;
    plain(q, q->theta, t->inv_freq);
    float longest = (float)(original / lo), shortest = (float)(original / hi), factor = (float)q->factor;
    for (uint32_t m = 0; m < t->n_pairs; m++) {
        float w = t->inv_freq[m], wavelength = (float)two_pi / w;
        float smooth = ((float)original / wavelength - (float)lo) / (float)(hi - lo);
        if (wavelength > longest)
            t->inv_freq[m] = w / factor;
        else if (!(wavelength < shortest))
            t->inv_freq[m] = (1 - smooth) * w / factor + smooth * w;
    }
    return RWK_STATUS_OK;
}

static enum rwk_status make_longrope(struct rwk_rope_table *t, const struct rwk_rope_request *q, struct rwk_error *error)
{
    enum rwk_status status = need(q, q->original_context > 1, "original_max_position_embeddings", "must be above 1", error);
    if (!status)
        status = need(q, q->n_short == t->n_pairs, "short_factor", "must have one number for each rotated pair", error);
    if (!status)
        status = need(q, q->n_long == t->n_pairs, "long_factor", "must have one number for each rotated pair", error);
    if (status)
        return status;
    for (uint32_t m = 0; m < t->n_pairs; m++) {
        float frequency = power(q->theta, m, q->rotary_dim);
        t->inv_freq[m] = 1.0f / ((float)q->short_factor[m] * frequency);
        t->long_inv_freq[m] = 1.0f / ((float)q->long_factor[m] * frequency);
    }
    double s = q->factor ? q->factor : (double)t->max_position_embeddings / (double)q->original_context;
    t->factor = s > 1 ? s : 1;
    if (!q->attention_factor)
        t->attention_factor = s <= 1 ? 1 : sqrt(1 + log(s) / log((double)q->original_context));
    return RWK_STATUS_OK;
}

static const struct {
    const char *name;
    enum rwk_status (*make)(struct rwk_rope_table *table, const struct rwk_rope_request *request, struct rwk_error *error);
} types[RWK_N_ROPE_TYPES] = {
    [RWK_ROPE_DEFAULT] = { "default", make_default },    [RWK_ROPE_LINEAR] = { "linear", make_linear },
    [RWK_ROPE_DYNAMIC] = { "dynamic", make_dynamic },    [RWK_ROPE_NTK] = { "ntk", make_ntk },
    [RWK_ROPE_YARN] = { "yarn", make_yarn },             [RWK_ROPE_LLAMA3] = { "llama3", make_llama3 },
    [RWK_ROPE_LONGROPE] = { "longrope", make_longrope },
};

const char *rwk_rope_type_name(enum rwk_rope_type type) { return types[type].name; }

bool rwk_rope_type_parse(const char *name, enum rwk_rope_type *ret_type)
{
    for (int i = 0; i < RWK_N_ROPE_TYPES; i++)
        if (strcmp(types[i].name, name) == 0) {
            *ret_type = (enum rwk_rope_type)i;
            return true;
        }
    return false;
}

/* ---- the scheme ---- */

static bool all_finite(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static enum rwk_status prepare_table(struct rwk_rope_table *t, const struct rwk_rope_request *q,
                                     const struct rwk_position_request *request, struct rwk_arena *arena,
                                     struct rwk_error *error)
{
    if (q->rotary_dim == 0 || q->rotary_dim % 2 || q->rotary_dim > request->head_dim)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "partial_rotary_factor", "%u rotated dimensions of a head of %u: "
                           "must be even, positive and at most the head", q->rotary_dim, request->head_dim);
    if (!(q->theta > 0 && q->theta <= 1e30))
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope_theta", "must be a positive number");
    *t = (struct rwk_rope_table){
        .name = q->name, .type = q->type, .n_pairs = q->rotary_dim / 2, .interleaved = q->interleaved, .theta = q->theta,
        .factor = q->factor ? q->factor : 1, .attention_factor = q->attention_factor ? q->attention_factor : 1,
        .original_context = q->original_context,
        .max_position_embeddings = q->type == RWK_ROPE_DYNAMIC && q->original_context ? q->original_context
                                                                                      : request->max_position_embeddings,
    };
    size_t bytes = (t->n_pairs + 1) * sizeof(float);
    t->inv_freq = rwk_arena_calloc(arena, 1, bytes);
    t->long_inv_freq = q->type == RWK_ROPE_LONGROPE ? rwk_arena_calloc(arena, 1, bytes) : NULL;
    if (!t->inv_freq || (q->type == RWK_ROPE_LONGROPE && !t->long_inv_freq))
        return rwk_fail_nomem(error, bytes);
    enum rwk_status status = types[q->type].make(t, q, error);
    if (!status && (!all_finite(t->inv_freq, t->n_pairs) ||
                    (t->long_inv_freq && !all_finite(t->long_inv_freq, t->n_pairs))))
        status = rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope_parameters", "the frequencies overflow");
    return status;
}

/* factor * n, or no bound where that is beyond any. */
static uint64_t extended(double factor, uint64_t n)
{
    double length = factor * (double)n;
    return length < 9e18 ? (uint64_t)length : UINT64_MAX;
}

static enum rwk_status prepare(struct rwk_position_plan *plan, const struct rwk_position_request *request,
                               struct rwk_arena *arena, struct rwk_error *error)
{
    plan->n_rope = request->n_rope;
    for (uint32_t i = 0; i < request->n_rope; i++) {
        enum rwk_status status = prepare_table(&plan->rope[i], &request->rope[i], request, arena, error);
        if (status)
            return status;
    }
    const struct rwk_rope_table *t = &plan->rope[0];
    bool chosen = request->trained_context > 0, scaled = t->type != RWK_ROPE_DEFAULT;
    if (chosen && scaled && t->type != RWK_ROPE_LONGROPE)
        plan->context = extended(t->factor, request->trained_context);
    else if (!chosen && t->type == RWK_ROPE_DYNAMIC)
        plan->context = extended(t->factor, request->max_position_embeddings);
    return RWK_STATUS_OK;
}

static void rotate(const struct rwk_position_plan *plan, const struct rwk_kernels *kernels, uint32_t table,
                   const float *cos, const float *sin, float *x, uint32_t n_heads, size_t stride)
{
    const struct rwk_rope_table *t = &plan->rope[table];
    for (uint32_t h = 0; h < n_heads; h++)
        (t->interleaved ? kernels->rotate_pair : kernels->rotate_half)(x + h * stride, cos, sin, t->n_pairs);
}

const struct rwk_position_scheme rwk_position_rope = { .name = "rope", .prepare = prepare, .rotate = rotate };

/* ---- what depends on the length ---- */

static uint64_t table_epoch(const struct rwk_rope_table *t, uint64_t length)
{
    if (t->type == RWK_ROPE_DYNAMIC)
        return length > t->max_position_embeddings ? length : 0;
    return t->type == RWK_ROPE_LONGROPE && length > t->original_context ? 1 : 0;
}

uint64_t rwk_position_epoch(const struct rwk_position_plan *plan, uint64_t length)
{
    for (uint32_t i = 0; i < plan->n_rope; i++)
        if (table_epoch(&plan->rope[i], length))
            return table_epoch(&plan->rope[i], length);
    return 0;
}

void rwk_position_frequencies(const struct rwk_position_plan *plan, uint32_t table, uint64_t epoch, float *inv_freq)
{
    const struct rwk_rope_table *t = &plan->rope[table];
    if (t->type == RWK_ROPE_DYNAMIC && epoch) {
        struct rwk_rope_request q = { .rotary_dim = 2 * t->n_pairs };
        double stretch = t->factor * (double)epoch / (double)t->max_position_embeddings - (t->factor - 1);
        plain(&q, t->theta * pow(stretch, (double)q.rotary_dim / (q.rotary_dim - 2)), inv_freq);
    } else {
        memcpy(inv_freq, t->type == RWK_ROPE_LONGROPE && epoch ? t->long_inv_freq : t->inv_freq,
               t->n_pairs * sizeof *inv_freq);
    }
}
