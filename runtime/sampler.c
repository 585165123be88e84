/* From logits to a token.
 *
 *   z [n] -> what the host makes of them -> repetition penalty
 *                               -> greedy: the largest, lowest id among equals
 *                               -> top-k -> w = exp((z - max) / temperature) -> top-p -> min-p
 *                               -> one draw from what is left
 *
 *   penalty p   z < 0 ? z p : z / p, once for each distinct token of the history
 *   top-k       z not below the k-th largest: equals of the k-th all stay
 *   top-p       a token stays if the mass strictly above it is below top_p; of equal logits the
 *               lower ids count as above
 *   min-p       w not below min_p times the largest
 *
 * Nothing is sorted. A cut through the order is found by its bits, from the top: the float's
 * order-preserving key in three digits of 11, 11 and 10 bits, the mass of each bucket, and on
 * into the bucket where the mass is reached. That serves top-k (a mass of one for each) and top-p
 * alike, in O(n) and for any input.
 *
 * Logits are float32, and so are exp and w; masses are summed up in double, over ids in ascending
 * order. exp is ours, so that a seed gives the same text on every machine. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "runtime/base/error.h"
#include "runtime/base/exp.h"
#include "runtime/base/half.h"
#include "runtime/base/memory.h"

/* Logits are float32, so a mass is known to some 1e-7: one that comes this near to top_p has
 * reached it. */
static const double MASS_TOLERANCE = 1e-6;

/* Invariant: between calls `seen` is all zero up to capacity. */
struct rwk_sampler {
    struct rwk_memory memory;
    struct rwk_sampler_options options;
    uint64_t n_draws;
    size_t capacity;
    void *block;    /* what the following lie in */
    uint64_t *seen; /* [capacity / 64 + 1] bits */
    float *scores;  /* [capacity] logits after the host and the penalty */
    float *weights; /* [capacity] of the kept tokens, in their order */
    uint32_t *kept; /* [capacity] ids, ascending */
};

/* ---- life ---- */

void rwk_sampler_options_init(struct rwk_sampler_options *options)
{
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    options->top_p = 1;
    options->repetition_penalty = 1;
}

static enum rwk_status check_options(const struct rwk_sampler_options *o, struct rwk_error *error)
{
    const struct {
        const char *name, *what;
        double value, min, max;
    } rows[] = {
        { "temperature", "must be 0 or a positive number", o->temperature, 0, DBL_MAX },
        { "top_p", "must be between 0 and 1", o->top_p, 0, 1 },
        { "min_p", "must be between 0 and 1", o->min_p, 0, 1 },
        { "repetition_penalty", "must be a positive number", o->repetition_penalty, DBL_TRUE_MIN,
          DBL_MAX },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(rows[i].value >= rows[i].min && rows[i].value <= rows[i].max))
            return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, rows[i].name, "%s", rows[i].what);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_sampler_create(struct rwk_sampler **ret_sampler,
                                   const struct rwk_sampler_options *options,
                                   struct rwk_error *error)
{
    struct rwk_sampler_options o;
    struct rwk_memory memory;
    rwk_sampler_options_init(&o);
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    enum rwk_status status = check_options(&o, error);
    if (status)
        return status;
    rwk_memory_init(&memory, o.allocator, 0);
    struct rwk_sampler *sampler = rwk_calloc(&memory, 1, sizeof *sampler);
    if (!sampler)
        return rwk_fail_nomem(error, sizeof *sampler);
    rwk_memory_init(&sampler->memory, o.allocator, 0);
    sampler->options = o;
    *ret_sampler = sampler;
    return RWK_STATUS_OK;
}

void rwk_sampler_close(struct rwk_sampler **sampler)
{
    struct rwk_memory memory;
    if (!sampler || !*sampler)
        return;
    rwk_memory_init(&memory, &(*sampler)->memory.host, 0);
    rwk_free(&(*sampler)->memory, (*sampler)->block);
    rwk_free(&memory, *sampler);
    *sampler = NULL;
}

void rwk_sampler_get_state(const struct rwk_sampler *sampler, uint64_t ret_state[2])
{
    ret_state[0] = sampler->options.seed;
    ret_state[1] = sampler->n_draws;
}

void rwk_sampler_set_state(struct rwk_sampler *sampler, const uint64_t state[2])
{
    sampler->options.seed = state[0];
    sampler->n_draws = state[1];
}

/* Room for n logits; allocates when n is larger than ever before. */
static enum rwk_status reserve(struct rwk_sampler *s, size_t n, struct rwk_error *error)
{
    size_t n_words = n / 64 + 1,
           n_bytes = n_words * sizeof *s->seen +
                     n * (sizeof *s->scores + sizeof *s->weights + sizeof *s->kept);
    if (n <= s->capacity)
        return RWK_STATUS_OK;
    void *block = rwk_calloc(&s->memory, 1, n_bytes);
    if (!block)
        return rwk_fail_nomem(error, n_bytes);
    rwk_free(&s->memory, s->block);
    s->block = block;
    s->seen = block;
    s->scores = (float *)(s->seen + n_words);
    s->weights = s->scores + n;
    s->kept = (uint32_t *)(s->weights + n);
    s->capacity = n;
    return RWK_STATUS_OK;
}

/* ---- stages ---- */

static rwk_f32x4 load(const float *z)
{
    rwk_f32x4 v;
    memcpy(&v, z, sizeof v);
    return v;
}

/* NaN and infinity by their bits: a compiler told that there are none would drop a comparison. */
static enum rwk_status check_finite(const float *logits, size_t n, struct rwk_error *error)
{
    const uint32_t exponent = 0x7f800000u;
    rwk_u32x4 bad = { 0 };
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        bad |= (rwk_u32x4)(((rwk_u32x4)load(logits + i) & exponent) == exponent);
    for (i = bad[0] | bad[1] | bad[2] | bad[3] ? 0 : i; i < n; i++)
        if ((rwk_float_bits(logits[i]) & exponent) == exponent)
            return rwk_fail(error, RWK_STATUS_NUMERIC, NULL,
                            "the logit of token %zu is not a finite number", i);
    return RWK_STATUS_OK;
}

/* The lowest id of those with the largest value. */
static uint32_t largest(const float *z, size_t n)
{
    float max = z[0];
    size_t i = 0;
    if (n >= 4) {
        rwk_f32x4 m = load(z);
        for (; i + 4 <= n; i += 4) {
            rwk_f32x4 v = load(z + i);
            rwk_u32x4 is_larger = (rwk_u32x4)(v > m);
            m = (rwk_f32x4)(((rwk_u32x4)v & is_larger) | ((rwk_u32x4)m & ~is_larger));
        }
        for (int lane = 0; lane < 4; lane++)
            max = m[lane] > max ? m[lane] : max;
    }
    for (; i < n; i++)
        max = z[i] > max ? z[i] : max;
    for (i = 0; z[i] != max;)
        i++;
    return (uint32_t)i;
}

static float penalised(float z, double penalty)
{
    double x = z < 0 ? z * penalty : z / penalty;
    return (float)(x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x);
}

/* The host's turn on the scores. It may forbid tokens by minus infinity, which then counts as the
 * least number that there is. */
static enum rwk_status adjust(struct rwk_sampler *s, size_t n, struct rwk_error *error)
{
    const uint32_t minus_infinity = 0xff800000u;
    bool is_empty = true;
    s->options.adjust(s->options.adjust_data, s->scores, n);
    for (size_t i = 0; i < n; i++) {
        bool forbidden = rwk_float_bits(s->scores[i]) == minus_infinity;
        s->scores[i] = forbidden ? -FLT_MAX : s->scores[i];
        is_empty &= forbidden;
    }
    if (is_empty)
        return rwk_fail(error, RWK_STATUS_NUMERIC, NULL, "every token was forbidden");
    return check_finite(s->scores, n, error);
}

static enum rwk_status penalise(struct rwk_sampler *s, size_t n, const uint32_t *history,
                                size_t n_history, struct rwk_error *error)
{
    for (size_t i = 0; i < n_history; i++)
        if (history[i] >= n)
            return rwk_fail(error, RWK_STATUS_RANGE, NULL,
                            "token %u of the history has no logit: there are %zu", history[i], n);
    for (size_t i = 0; i < n_history; i++) {
        uint64_t bit = UINT64_C(1) << history[i] % 64, *word = &s->seen[history[i] / 64];
        if (!(*word & bit))
            s->scores[history[i]] = penalised(s->scores[history[i]], s->options.repetition_penalty);
        *word |= bit;
    }
    for (size_t i = 0; i < n_history; i++)
        s->seen[history[i] / 64] = 0;
    return RWK_STATUS_OK;
}

/* Unsigned numbers in the order of the floats; 0 and -0 are equal. */
static uint32_t key_of(float z)
{
    uint32_t bits = rwk_float_bits(z + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* A place in the order: tokens with a larger key are above it, and have this mass together. */
struct cut {
    uint32_t key;
    double above;
};

/* The place where the mass, taken from the top, reaches `target`; the lowest there is if it never
 * does. Tokens are ids[0..n), or 0..n-1 where ids is NULL; weights[i] is the mass of the i-th, or
 * 1 where weights is NULL. */
static struct cut find_cut(const float *scores, const uint32_t *ids, size_t n, const float *weights,
                           double target)
{
    static const struct {
        uint32_t shift, n_buckets;
    } digits[] = { { 21, 2048 }, { 10, 2048 }, { 0, 1024 } };
    struct cut cut = { 0, 0 };
    uint32_t known = 0;
    for (int d = 0; d < 3; d++) {
        uint32_t shift = digits[d].shift, mask = digits[d].n_buckets - 1, chosen = 0;
        double mass[2048] = { 0 }, above = cut.above;
        for (size_t i = 0; i < n; i++) {
            uint32_t key = key_of(scores[ids ? ids[i] : i]);
            if ((key & known) == cut.key)
                mass[key >> shift & mask] += weights ? weights[i] : 1;
        }
        for (uint32_t b = mask + 1; b-- > 0;) {
            if (mass[b] == 0)
                continue;
            chosen = b;
            cut.above = above;
            above += mass[b];
            if (above >= target)
                break;
        }
        cut.key |= chosen << shift;
        known |= mask << shift;
    }
    return cut;
}

static size_t keep_top_k(struct rwk_sampler *s, const float *scores, size_t n)
{
    size_t n_kept = 0;
    int32_t k = s->options.top_k;
    if (k <= 0 || (size_t)k >= n) {
        for (size_t i = 0; i < n; i++)
            s->kept[i] = (uint32_t)i;
        return n;
    }
    uint32_t key = find_cut(scores, NULL, n, NULL, k).key;
    for (size_t i = 0; i < n; i++)
        if (key_of(scores[i]) >= key)
            s->kept[n_kept++] = (uint32_t)i;
    return n_kept;
}

/* w = exp((z - max) / temperature) of the kept. A temperature that float32 does not hold is taken
 * as the nearest it does. */
static void weigh(struct rwk_sampler *s, const float *scores, size_t n, float max)
{
    double t = s->options.temperature;
    float temperature = (float)(t < FLT_MIN ? FLT_MIN : t > FLT_MAX ? FLT_MAX : t);
    for (size_t i = 0; i < n; i += 4) { /* beyond n the last one again */
        const uint32_t *id = s->kept + i;
        size_t last = n - i > 3 ? 3 : n - i - 1;
        rwk_f32x4 z = { scores[id[0]], scores[id[last < 1 ? last : 1]],
                        scores[id[last < 2 ? last : 2]], scores[id[last]] };
        z = rwk_exp_x4((z - max) / temperature);
        for (size_t j = 0; j <= last; j++)
            s->weights[i + j] = z[j];
    }
}

static size_t keep_top_p(struct rwk_sampler *s, const float *scores, size_t n)
{
    double total = 0, target;
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        total += s->weights[i];
    target = (s->options.top_p - MASS_TOLERANCE) * total;
    struct cut cut = find_cut(scores, s->kept, n, s->weights, target);
    for (size_t i = 0; i < n; i++) {
        uint32_t key = key_of(scores[s->kept[i]]);
        if (key < cut.key)
            continue;
        /* equals come in one by one, the first in any case where nothing is above */
        if (key == cut.key) {
            if (cut.above >= target && cut.above > 0)
                continue;
            cut.above += s->weights[i];
        }
        s->kept[n_kept] = s->kept[i];
        s->weights[n_kept++] = s->weights[i];
    }
    return n_kept;
}

static size_t keep_min_p(struct rwk_sampler *s, size_t n)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        if (s->weights[i] >= s->options.min_p) {
            s->kept[n_kept] = s->kept[i];
            s->weights[n_kept++] = s->weights[i];
        }
    return n_kept;
}

/* ---- the draw ---- */

/* Uniform in [0, 1) with 53 bits: SplitMix64 (Steele, Lea, Flood 2014), whose state after n steps
 * is seed + n times a constant, so the n-th number needs no others. */
static double uniform(uint64_t seed, uint64_t n)
{
    uint64_t x = seed + (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static uint32_t draw(struct rwk_sampler *s, const float *scores, size_t n_logits)
{
    const struct rwk_sampler_options *o = &s->options;
    double total = 0, sum = 0;
    size_t n = keep_top_k(s, scores, n_logits);
    weigh(s, scores, n, scores[largest(scores, n_logits)]);
    if (o->top_p < 1)
        n = keep_top_p(s, scores, n);
    if (o->min_p > 0)
        n = keep_min_p(s, n);
    for (size_t i = 0; i < n; i++)
        total += s->weights[i];
    double place = uniform(o->seed, s->n_draws++) * total;
    uint32_t token = 0;
    for (size_t i = 0; i < n && sum <= place; i++)
        if (s->weights[i] > 0) {
            token = s->kept[i];
            sum += s->weights[i];
        }
    return token;
}

/* The sum of exp(z - max), in four sums of every fourth. */
static double exp_sum(const float *z, size_t n, float max)
{
    double sum[4] = { 0 };
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        rwk_f32x4 w = rwk_exp_x4(load(z + i) - max);
        for (int lane = 0; lane < 4; lane++)
            sum[lane] += w[lane];
    }
    for (int lane = 0; i < n; i++, lane++)
        sum[lane] += rwk_exp_x4((rwk_f32x4) { z[i] - max })[0];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static struct rwk_sample describe(const float *logits, size_t n, uint32_t token)
{
    float max = logits[largest(logits, n)], z = logits[token];
    uint32_t rank = 0;
    for (size_t i = 0; i < n; i++)
        rank += logits[i] > z;
    for (size_t i = 0; i < token; i++)
        rank += logits[i] == z;
    return (struct rwk_sample) { token, rank, (double)z - max - log(exp_sum(logits, n, max)) };
}

enum rwk_status rwk_sampler_sample(struct rwk_sampler *sampler, const float *logits,
                                   size_t n_logits, const uint32_t *history, size_t n_history,
                                   struct rwk_sample *ret_sample, struct rwk_error *error)
{
    const struct rwk_sampler_options *o = &sampler->options;
    bool is_greedy = o->temperature == 0, has_penalty = o->repetition_penalty != 1 && n_history > 0;
    if (n_logits == 0 || n_logits > UINT32_MAX)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL, "one token cannot be drawn from %zu logits",
                        n_logits);
    enum rwk_status status = check_finite(logits, n_logits, error);
    bool has_scores = has_penalty || o->adjust;
    if (!status && (has_scores || !is_greedy))
        status = reserve(sampler, n_logits, error);
    if (!status && has_scores)
        memcpy(sampler->scores, logits, n_logits * sizeof *logits);
    if (!status && o->adjust)
        status = adjust(sampler, n_logits, error);
    if (!status && has_penalty)
        status = penalise(sampler, n_logits, history, n_history, error);
    if (status)
        return status;
    const float *scores = has_scores ? sampler->scores : logits;
    uint32_t token = is_greedy ? largest(scores, n_logits) : draw(sampler, scores, n_logits);
    *ret_sample = describe(logits, n_logits, token);
    return RWK_STATUS_OK;
}
