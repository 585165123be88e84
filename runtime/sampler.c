/* Drawing a token: the reference's stages in its order.
 *
 *   logits -> repetition penalty -> temperature -> top-k -> top-p -> min-p -> softmax -> one uniform number
 *
 * Each stage works on what the one before has left. Candidates are (logit, id) pairs; sorting is put off until top-p needs
 * an order, and then concerns the survivors only. Ties: the lower id first. */
#include <ropewalk/ropewalk.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/error.h"
#include "runtime/base/exp.h"
#include "runtime/base/memory.h"

struct candidate {
    double logit;
    double weight; /* exp(logit - greatest logit) */
    uint32_t id;
};

struct rwk_sampler {
    struct rwk_memory memory;
    struct rwk_sampler_options o;
    uint64_t draws;
    struct candidate *candidates; /* [capacity] */
    uint32_t *seen;               /* [capacity] the draw in which a token's penalty was applied */
    size_t capacity;
    uint32_t stamp;
};

void rwk_sampler_options_init(struct rwk_sampler_options *options)
{
    *options = (struct rwk_sampler_options){ .size = sizeof *options, .top_p = 1, .repetition_penalty = 1 };
}

static enum rwk_status check(const struct rwk_sampler_options *o, struct rwk_error *error)
{
    const struct {
        const char *name;
        double value;
        bool good;
    } rows[] = {
        { "temperature", o->temperature, o->temperature >= 0 && isfinite(o->temperature) },
        { "top-p", o->top_p, o->top_p >= 0 && o->top_p <= 1 },
        { "min-p", o->min_p, o->min_p >= 0 && o->min_p <= 1 },
        { "repetition-penalty", o->repetition_penalty, o->repetition_penalty > 0 && isfinite(o->repetition_penalty) },
    };
    static const char *const bounds[] = { "must not be negative, NaN or infinite", "must be between 0 and 1",
                                          "must be between 0 and 1", "must be positive and finite" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].good)
            return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, rows[i].name, "%s", bounds[i]);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_sampler_create(struct rwk_sampler **ret_sampler, const struct rwk_sampler_options *options,
                                   struct rwk_error *error)
{
    struct rwk_sampler_options o;
    struct rwk_memory memory;
    rwk_sampler_options_init(&o);
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    enum rwk_status status = check(&o, error);
    if (status)
        return status;
    rwk_memory_init(&memory, NULL, 0);
    struct rwk_sampler *sampler = rwk_calloc(&memory, 1, sizeof *sampler);
    if (!sampler)
        return rwk_fail_nomem(error, sizeof *sampler);
    rwk_memory_init(&sampler->memory, NULL, 0);
    sampler->o = o;
    *ret_sampler = sampler;
    return RWK_STATUS_OK;
}

void rwk_sampler_close(struct rwk_sampler **sampler)
{
    struct rwk_sampler *s = sampler ? *sampler : NULL;
    struct rwk_memory memory;
    if (!s)
        return;
    rwk_memory_init(&memory, NULL, 0);
    rwk_free(&s->memory, s->candidates);
    rwk_free(&s->memory, s->seen);
    rwk_free(&memory, s);
    *sampler = NULL;
}

void rwk_sampler_get_state(const struct rwk_sampler *sampler, uint64_t ret_state[2])
{
    ret_state[0] = sampler->o.seed;
    ret_state[1] = sampler->draws;
}

void rwk_sampler_set_state(struct rwk_sampler *sampler, const uint64_t state[2])
{
    sampler->o.seed = state[0];
    sampler->draws = state[1];
}

/* SplitMix64 (Steele, Lea, Flood 2014) of seed and counter; the upper 53 bits as a number in [0, 1). */
static double uniform(uint64_t seed, uint64_t counter)
{
    uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* ---- stages ---- */

static enum rwk_status grow(struct rwk_sampler *s, size_t n, struct rwk_error *error)
{
    size_t bytes;
    if (n <= s->capacity)
        return RWK_STATUS_OK;
    if (!rwk_size_mul(n, sizeof *s->candidates, &bytes))
        return rwk_fail_nomem(error, SIZE_MAX);
    struct candidate *candidates = rwk_alloc(&s->memory, bytes);
    uint32_t *seen = rwk_calloc(&s->memory, n, sizeof *seen);
    if (!candidates || !seen) {
        rwk_free(&s->memory, candidates);
        rwk_free(&s->memory, seen);
        return rwk_fail_nomem(error, bytes);
    }
    rwk_free(&s->memory, s->candidates);
    rwk_free(&s->memory, s->seen);
    s->candidates = candidates;
    s->seen = seen;
    s->stamp = 0;
    s->capacity = n;
    return RWK_STATUS_OK;
}

static enum rwk_status load(struct rwk_sampler *s, const float *logits, size_t n, struct rwk_error *error)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return rwk_fail(error, RWK_STATUS_NUMERIC, NULL, "the logit of token %zu is not a finite number", i);
        s->candidates[i] = (struct candidate){ .logit = logits[i], .id = (uint32_t)i };
    }
    return RWK_STATUS_OK;
}

/* Each distinct token of the history once: towards less likely, whatever the sign. */
static void penalise(struct rwk_sampler *s, size_t n, const uint32_t *history, size_t n_history)
{
    if (s->o.repetition_penalty == 1)
        return;
    if (++s->stamp == 0) {
        memset(s->seen, 0, s->capacity * sizeof *s->seen);
        s->stamp = 1;
    }
    for (size_t i = 0; i < n_history; i++) {
        uint32_t id = history[i];
        if (id >= n || s->seen[id] == s->stamp)
            continue;
        s->seen[id] = s->stamp;
        double *z = &s->candidates[id].logit;
        *z = *z < 0 ? *z * s->o.repetition_penalty : *z / s->o.repetition_penalty;
    }
}

static size_t best(const struct candidate *c, size_t n)
{
    size_t b = 0;
    for (size_t i = 1; i < n; i++)
        if (c[i].logit > c[b].logit)
            b = i;
    return b;
}

static int by_rank(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->logit != y->logit ? (x->logit > y->logit ? -1 : 1) : (x->id < y->id ? -1 : 1);
}

/* The k-th greatest logit (k >= 1), by a heap of the k greatest seen so far. */
static double kth_greatest(const struct candidate *c, size_t n, size_t k, struct candidate *heap)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        if (size < k) { /* sift up */
            for (at = size++; at && heap[(at - 1) / 2].logit > c[i].logit; at = (at - 1) / 2)
                heap[at] = heap[(at - 1) / 2];
        } else if (c[i].logit > heap[0].logit) { /* replace the least, sift down */
            for (size_t child; (child = 2 * at + 1) < k; at = child) {
                child += child + 1 < k && heap[child + 1].logit < heap[child].logit;
                if (heap[child].logit >= c[i].logit)
                    break;
                heap[at] = heap[child];
            }
        } else {
            continue;
        }
        heap[at] = c[i];
    }
    return heap[0].logit;
}

/* Keeps logits not below the k-th greatest: ties with it survive. */
static enum rwk_status keep_top_k(struct rwk_sampler *s, size_t *n, struct rwk_error *error)
{
    size_t k = s->o.top_k > 0 ? (size_t)s->o.top_k : 0, kept = 0;
    if (k == 0 || k >= *n)
        return RWK_STATUS_OK;
    struct candidate *heap = rwk_alloc(&s->memory, k * sizeof *heap);
    if (!heap)
        return rwk_fail_nomem(error, k * sizeof *heap);
    double least = kth_greatest(s->candidates, *n, k, heap);
    rwk_free(&s->memory, heap);
    for (size_t i = 0; i < *n; i++)
        if (s->candidates[i].logit >= least)
            s->candidates[kept++] = s->candidates[i];
    *n = kept;
    return RWK_STATUS_OK;
}

/* Weights relative to the greatest; returns their sum. */
static double weigh(struct candidate *c, size_t n)
{
    double greatest = c[best(c, n)].logit, sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += c[i].weight = rwk_exp(c[i].logit - greatest);
    return sum;
}

/* Keeps a token iff the mass above it is below top_p, so the one that crosses it stays; at least the best. Tokens lighter
 * than a share of the rest that cannot matter are set aside before sorting. */
static void keep_top_p(struct rwk_sampler *s, size_t *n)
{
    if (s->o.top_p >= 1)
        return;
    struct candidate *c = s->candidates;
    double sum = weigh(c, *n), cut = sum * (1 - s->o.top_p) / (double)*n;
    size_t heavy = 0, kept = 1;
    for (size_t i = 0; i < *n; i++) {
        /* All tokens below `cut` together weigh less than 1 - top_p of the whole, so none of them can be needed. */
        if (c[i].weight >= cut)
            c[heavy++] = c[i];
    }
    qsort(c, heavy, sizeof *c, by_rank);
    double above = c[0].weight;
    while (kept < heavy && above < s->o.top_p * sum)
        above += c[kept++].weight;
    *n = kept;
}

static void keep_min_p(struct rwk_sampler *s, size_t *n)
{
    size_t kept = 0;
    if (s->o.min_p <= 0)
        return;
    weigh(s->candidates, *n); /* the best weighs 1 */
    for (size_t i = 0; i < *n; i++)
        if (s->candidates[i].weight >= s->o.min_p)
            s->candidates[kept++] = s->candidates[i];
    *n = kept;
}

static size_t draw(struct rwk_sampler *s, size_t n)
{
    double sum = weigh(s->candidates, n), target = uniform(s->o.seed, s->draws++) * sum, reached = 0;
    size_t last = best(s->candidates, n);
    for (size_t i = 0; i < n; i++) {
        if (s->candidates[i].weight <= 0)
            continue;
        last = i;
        reached += s->candidates[i].weight;
        if (target < reached)
            break;
    }
    return last;
}

/* Rank and log-probability under the unmodified logits. */
static void describe(const float *logits, size_t n, struct rwk_sample *sample)
{
    float own = logits[sample->token], greatest = own;
    double sum = 0;
    sample->rank = 0;
    for (size_t i = 0; i < n; i++) {
        greatest = logits[i] > greatest ? logits[i] : greatest;
        sample->rank += logits[i] > own || (logits[i] == own && i < sample->token);
    }
    for (size_t i = 0; i < n; i++)
        sum += rwk_exp((double)logits[i] - greatest);
    sample->logprob = (double)own - greatest - log(sum);
}

enum rwk_status rwk_sampler_sample(struct rwk_sampler *sampler, const float *logits, size_t n_logits,
                                   const uint32_t *history, size_t n_history, struct rwk_sample *ret_sample,
                                   struct rwk_error *error)
{
    struct rwk_sampler *s = sampler;
    size_t n = n_logits, chosen;
    if (n == 0 || n > UINT32_MAX)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL, "%zu logits cannot be sampled from", n);
    enum rwk_status status = grow(s, n, error);
    if (!status)
        status = load(s, logits, n, error);
    if (status)
        return status;
    penalise(s, n, history, n_history);
    if (s->o.temperature == 0) {
        chosen = best(s->candidates, n);
    } else {
        double greatest = s->candidates[best(s->candidates, n)].logit; /* taken off first: no overflow at 1e-30 */
        for (size_t i = 0; i < n; i++)
            s->candidates[i].logit = (s->candidates[i].logit - greatest) / s->o.temperature;
        status = keep_top_k(s, &n, error);
        if (status)
            return status;
        keep_top_p(s, &n);
        keep_min_p(s, &n);
        chosen = draw(s, n);
    }
    struct rwk_sample sample = { .token = s->candidates[chosen].id };
    describe(logits, n_logits, &sample);
    *ret_sample = sample;
    return RWK_STATUS_OK;
}
