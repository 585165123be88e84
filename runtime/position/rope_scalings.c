/* How inv_freq [r/2] is made, by rope type. w_m = theta^(-2m/r); A: attention factor, 1 unless
 * said.
 *
 *   default   w_m                                                      Su et al. 2021
 *   linear    w_m / factor                                             Chen et al. 2023
 *   ntk       theta' = theta factor^(r/(r-2))                          bloc97 2023
 *   dynamic   theta' = theta (factor S/M - (factor-1))^(r/(r-2)),      emozilla 2023
 *             S = max(length, M)
 *   yarn      w_m/factor ramp_m + w_m (1 - ramp_m), ramp linear in m   Peng et al. 2023,
 *             between two pairs; A = 0.1 ln(factor) + 1                as its code has it
 *   llama3    by wavelength: kept, divided by factor, or blended       Llama 3.1
 *   longrope  w_m / f_m, f_m from one of two lists, by length;         Ding et al. 2024
 *             A = sqrt(1 + ln(factor) / ln(original))
 *
 * Float32 where the reference implementation uses float32, step for step and in its order (its
 * "scalar / tensor" is the tensor's reciprocal times the scalar): from about ten thousand
 * positions on, the last bit of a frequency is worth more in angle than any rounding of the angle
 * itself. A power is taken in double of the float32 operands and rounded, which is what a good
 * powf gives. */
#include "runtime/position/schemes.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double two_pi = 6.283185307179586;

static bool is_positive(double x)
{
    return x > 0 && x <= FLT_MAX;
}

static enum rwk_status refuse(const struct rwk_rope_request *q, const char *file, const char *key,
                              const char *what, struct rwk_error *error)
{
    return rwk_fail_on(error, RWK_STATUS_RANGE, file, key, "%s (rope type %s)", what,
                       rwk_rope_scalings[q->type].name);
}

static enum rwk_status refuse_factor(const struct rwk_rope_request *q, const char *file,
                                     struct rwk_error *error)
{
    return refuse(q, file, "factor", "must be a positive number", error);
}

/* theta^(2m/r) for m < r/2 */
static float power(double theta, uint32_t m, uint32_t n_pairs)
{
    float exponent = (float)(2 * m) / (float)(2 * n_pairs);
    return (float)pow((double)(float)theta, (double)exponent);
}

static void plain(float *inv_freq, double theta, uint32_t n_pairs)
{
    for (uint32_t m = 0; m < n_pairs; m++)
        inv_freq[m] = 1.0f / power(theta, m, n_pairs);
}

/* ---- default, linear ---- */

static enum rwk_status prepare_default(struct rwk_rope_table *t, const struct rwk_rope_request *q,
                                       const char *file, struct rwk_error *error)
{
    (void)file;
    (void)error;
    plain(t->inv_freq, q->theta, t->n_pairs);
    return RWK_STATUS_OK;
}

static enum rwk_status prepare_linear(struct rwk_rope_table *t, const struct rwk_rope_request *q,
                                      const char *file, struct rwk_error *error)
{
    if (!is_positive(q->factor))
        return refuse_factor(q, file, error);
    plain(t->inv_freq, q->theta, t->n_pairs);
    for (uint32_t m = 0; m < t->n_pairs; m++)
        t->inv_freq[m] /= (float)q->factor;
    return RWK_STATUS_OK;
}

/* ---- ntk, dynamic: another theta ---- */

static enum rwk_status check_ntk(const struct rwk_rope_request *q, const char *file,
                                 struct rwk_error *error)
{
    if (!is_positive(q->factor))
        return refuse_factor(q, file, error);
    if (q->rotary_dim <= 2)
        return refuse(q, file, "head_dim", "more than two elements of a head must be rotated",
                      error);
    return RWK_STATUS_OK;
}

static enum rwk_status prepare_ntk(struct rwk_rope_table *t, const struct rwk_rope_request *q,
                                   const char *file, struct rwk_error *error)
{
    enum rwk_status status = check_ntk(q, file, error);
    if (status)
        return status;
    double theta = q->theta * pow(q->factor, (double)q->rotary_dim / (q->rotary_dim - 2));
    if (!is_positive(theta))
        return refuse(q, file, "factor", "is too large", error);
    plain(t->inv_freq, theta, t->n_pairs);
    return RWK_STATUS_OK;
}

static enum rwk_status prepare_dynamic(struct rwk_rope_table *t, const struct rwk_rope_request *q,
                                       const char *file, struct rwk_error *error)
{
    enum rwk_status status = check_ntk(q, file, error);
    if (status)
        return status;
    if (!t->max_position_embeddings)
        return refuse(q, file, "max_position_embeddings", "must be given", error);
    plain(t->inv_freq, q->theta, t->n_pairs);
    return RWK_STATUS_OK;
}

static uint64_t epoch_dynamic(const struct rwk_rope_table *t, uint64_t length)
{
    return length > t->max_position_embeddings ? length : 0;
}

static void frequencies_dynamic(const struct rwk_rope_table *t, uint64_t epoch, float *inv_freq)
{
    double exponent = 2.0 * t->n_pairs / (2.0 * t->n_pairs - 2);
    float stretch = (float)t->factor * (float)epoch / (float)t->max_position_embeddings -
                    (float)(t->factor - 1);
    plain(inv_freq, (float)t->theta * (float)pow((double)stretch, exponent), t->n_pairs);
}

/* ---- yarn ---- */

/* The pair, counted in fractions, that makes `rotations` turns over the original context. */
static double correction(const struct rwk_rope_request *q, double rotations)
{
    return q->rotary_dim * log((double)q->original_context / (rotations * two_pi)) /
           (2 * log(q->theta));
}

/* Where the ramp begins and ends. The upper bound is r - 1, twice as far as there are pairs, so
 * that it may lie beyond all of them. */
static void ramp_bounds(const struct rwk_rope_request *q, double *ret_low, double *ret_high)
{
    double low = correction(q, q->beta_fast ? q->beta_fast : 32),
           high = correction(q, q->beta_slow ? q->beta_slow : 1);
    if (q->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < q->rotary_dim - 1.0 ? high : q->rotary_dim - 1.0;
    *ret_low = low;
    *ret_high = low == high ? high + 0.001 : high;
}

/* YaRN's temperature, as a factor on cosine and sine. */
static double temperature(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static enum rwk_status check_yarn(const struct rwk_rope_request *q, const char *file,
                                  struct rwk_error *error)
{
    if (!q->original_context)
        return refuse(q, file, "original_max_position_embeddings", "must be positive", error);
    if (!(q->theta > 1))
        return refuse(q, file, "rope_theta", "must be above 1", error);
    if (!(q->beta_fast >= 0 && q->beta_fast <= FLT_MAX))
        return refuse(q, file, "beta_fast", "must be a positive number", error);
    if (!(q->beta_slow >= 0 && q->beta_slow <= FLT_MAX))
        return refuse(q, file, "beta_slow", "must be a positive number", error);
    return RWK_STATUS_OK;
}

static enum rwk_status prepare_yarn(struct rwk_rope_table *t, const struct rwk_rope_request *q,
                                    const char *file, struct rwk_error *error)
{
    enum rwk_status status = check_yarn(q, file, error);
    if (status)
        return status;
    double low, high, factor = q->factor;
    if (!factor)
        factor = (double)t->max_position_embeddings / (double)q->original_context;
    if (!is_positive(factor))
        return refuse_factor(q, file, error);
    ramp_bounds(q, &low, &high);
    for (uint32_t m = 0; m < t->n_pairs; m++) {
        float ramp = ((float)m - (float)low) / (float)(high - low);
        float keep = 1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);
        float p = power(q->theta, m, t->n_pairs);
        t->inv_freq[m] = 1.0f / ((float)factor * p) * (1 - keep) + 1.0f / p * keep;
    }
    t->factor = factor;
    if (!q->attention_factor) {
        bool pair = q->mscale != 0 && q->mscale_all_dim != 0;
        t->attention_factor =
            pair ? temperature(factor, q->mscale) / temperature(factor, q->mscale_all_dim)
                 : temperature(factor, 1);
    }
    return is_positive(t->attention_factor)
               ? RWK_STATUS_OK
               : refuse(q, file, "mscale", "gives an attention factor of no use", error);
}

/* ---- llama3 ---- */

static enum rwk_status check_llama3(const struct rwk_rope_request *q, const char *file,
                                    struct rwk_error *error)
{
    if (!is_positive(q->factor))
        return refuse_factor(q, file, error);
    if (!is_positive(q->low_freq_factor))
        return refuse(q, file, "low_freq_factor", "must be a positive number", error);
    if (!(is_positive(q->high_freq_factor) && q->high_freq_factor > q->low_freq_factor))
        return refuse(q, file, "high_freq_factor", "must be above low_freq_factor", error);
    if (!q->original_context)
        return refuse(q, file, "original_max_position_embeddings", "must be positive", error);
    return RWK_STATUS_OK;
}

static enum rwk_status prepare_llama3(struct rwk_rope_table *t, const struct rwk_rope_request *q,
                                      const char *file, struct rwk_error *error)
{
    enum rwk_status status = check_llama3(q, file, error);
    if (status)
        return status;
    double lo = q->low_freq_factor, hi = q->high_freq_factor,
           original = (double)q->original_context;
    float longest = (float)(original / lo), shortest = (float)(original / hi),
          factor = (float)q->factor;
    plain(t->inv_freq, q->theta, t->n_pairs);
    for (uint32_t m = 0; m < t->n_pairs; m++) {
        float w = t->inv_freq[m], wavelength = 1.0f / w * (float)two_pi;
        float smooth = (1.0f / wavelength * (float)original - (float)lo) / (float)(hi - lo);
        if (wavelength > longest)
            t->inv_freq[m] = w / factor;
        else if (!(wavelength < shortest))
            t->inv_freq[m] = (1 - smooth) * w / factor + smooth * w;
    }
    return RWK_STATUS_OK;
}

/* ---- longrope ---- */

static enum rwk_status divide(float *inv_freq, const struct rwk_rope_request *q, const double *list,
                              uint32_t n, const char *file, const char *key,
                              struct rwk_error *error)
{
    uint32_t n_pairs = q->rotary_dim / 2;
    if (n != n_pairs)
        return rwk_fail_on(error, RWK_STATUS_RANGE, file, key,
                           "holds %u numbers, and %u pairs are rotated", n, n_pairs);
    for (uint32_t m = 0; m < n_pairs; m++) {
        if (!is_positive(list[m]))
            return refuse(q, file, key, "must hold positive numbers", error);
        inv_freq[m] = 1.0f / ((float)list[m] * power(q->theta, m, n_pairs));
    }
    return RWK_STATUS_OK;
}

static enum rwk_status prepare_longrope(struct rwk_rope_table *t, const struct rwk_rope_request *q,
                                        const char *file, struct rwk_error *error)
{
    if (q->original_context < 2)
        return refuse(q, file, "original_max_position_embeddings", "must be above 1", error);
    enum rwk_status status =
        divide(t->inv_freq, q, q->short_factor, q->n_short, file, "short_factor", error);
    if (!status)
        status = divide(t->long_inv_freq, q, q->long_factor, q->n_long, file, "long_factor", error);
    if (status)
        return status;
    double factor =
        q->factor ? q->factor : (double)t->max_position_embeddings / (double)q->original_context;
    t->factor = factor > 1 ? factor : 1;
    if (!q->attention_factor)
        t->attention_factor = sqrt(1 + log(t->factor) / log((double)q->original_context));
    return RWK_STATUS_OK;
}

static uint64_t epoch_longrope(const struct rwk_rope_table *t, uint64_t length)
{
    return length > t->original_context ? t->original_context + 1 : 0;
}

static void frequencies_longrope(const struct rwk_rope_table *t, uint64_t epoch, float *inv_freq)
{
    (void)epoch;
    memcpy(inv_freq, t->long_inv_freq, t->n_pairs * sizeof *inv_freq);
}

const struct rwk_rope_scaling rwk_rope_scalings[RWK_N_ROPE_TYPES] = {
    [RWK_ROPE_DEFAULT] = { "default", prepare_default, NULL, NULL },
    [RWK_ROPE_LINEAR] = { "linear", prepare_linear, NULL, NULL },
    [RWK_ROPE_DYNAMIC] = { "dynamic", prepare_dynamic, epoch_dynamic, frequencies_dynamic },
    [RWK_ROPE_NTK] = { "ntk", prepare_ntk, NULL, NULL },
    [RWK_ROPE_YARN] = { "yarn", prepare_yarn, NULL, NULL },
    [RWK_ROPE_LLAMA3] = { "llama3", prepare_llama3, NULL, NULL },
    [RWK_ROPE_LONGROPE] = { "longrope", prepare_longrope, epoch_longrope, frequencies_longrope },
};
