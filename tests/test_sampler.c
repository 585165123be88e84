/* The sampler against hand-computed distributions. Frequencies are taken over N_SEEDS seeds; a
 * frequency f of an event of probability p may differ by 5 standard deviations, 5 sqrt(p (1 - p)
 * / N_SEEDS): the seeds are fixed, so a case either always passes or never. */
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/error.h"
#include "runtime/base/exp.h"

enum { N_SEEDS = 2000, MAX_LOGITS = 8 };

static struct rwk_sampler_options options(double temperature)
{
    struct rwk_sampler_options o;
    rwk_sampler_options_init(&o);
    o.temperature = temperature;
    return o;
}

static struct rwk_sample sample_with(const struct rwk_sampler_options *o, const float *logits,
                                     size_t n, const uint32_t *history, size_t n_history)
{
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample sample = { 0 };
    struct rwk_error error = { .size = sizeof error };
    ck_assert_msg(rwk_sampler_create(&sampler, o, &error) == RWK_STATUS_OK, "%s", error.message);
    ck_assert_msg(rwk_sampler_sample(sampler, logits, n, history, n_history, &sample, &error) ==
                      RWK_STATUS_OK,
                  "%s", error.message);
    rwk_sampler_close(&sampler);
    return sample;
}

/* counts[token] over the seeds 0 .. N_SEEDS - 1 */
static void count(struct rwk_sampler_options o, const float *logits, size_t n,
                  const uint32_t *history, size_t n_history, int counts[MAX_LOGITS])
{
    memset(counts, 0, MAX_LOGITS * sizeof *counts);
    for (o.seed = 0; o.seed < N_SEEDS; o.seed++)
        counts[sample_with(&o, logits, n, history, n_history).token]++;
}

static void check_frequencies(const int *counts, const double *probability, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double p = probability[i], f = (double)counts[i] / N_SEEDS,
               bound = 5 * sqrt(p * (1 - p) / N_SEEDS);
        ck_assert_msg(fabs(f - p) <= bound, "token %zu: frequency %g, expected %g +- %g", i, f, p,
                      bound);
    }
}

/* The tokens that occur are exactly the first n_kept. */
static void check_kept(struct rwk_sampler_options o, const float *logits, size_t n, size_t n_kept)
{
    int counts[MAX_LOGITS];
    count(o, logits, n, NULL, 0, counts);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg((counts[i] > 0) == (i < n_kept),
                      "token %zu occurs %d times, %zu should be kept", i, counts[i], n_kept);
}

/* softmax .560893 .206341 .125152 .0759087 .0279252 .00377927 */
static const float six[6] = { 2, 1, 0.5f, 0, -1, -3 };

/* ---- exp ---- */

START_TEST(exp_is_within_one_ulp)
{
    for (float x = -87; x <= 88; x += 0.00137f) {
        double exact = exp((double)x), ulp = ldexp(1, ilogb(exact) - 23);
        float got = rwk_exp_x4((rwk_f32x4) { 0, x, x, 0 })[1];
        ck_assert_msg(fabs(got - exact) < ulp, "exp(%.9g) = %.9g, is %.9g", x, got, exact);
    }
}
END_TEST

START_TEST(exp_is_exact_at_the_ends)
{
    rwk_f32x4 e = rwk_exp_x4((rwk_f32x4) { 0, -INFINITY, -87.5f, -0.0f });
    ck_assert(e[0] == 1 && e[1] == 0 && e[2] == 0 && e[3] == 1);
}
END_TEST

/* ---- greedy ---- */

START_TEST(greedy_takes_the_lowest_of_equals)
{
    static const float logits[9] = { 1, 3, 3, 2, -1, 3, 0, 0, 3 };
    struct rwk_sampler_options o = options(0);
    for (o.seed = 0; o.seed < 5; o.seed++)
        for (size_t n = 2; n <= 9; n++)
            ck_assert_uint_eq(sample_with(&o, logits, n, NULL, 0).token, 1);
}
END_TEST

START_TEST(greedy_draws_no_random_number)
{
    struct rwk_sampler_options o = options(0);
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample sample;
    uint64_t state[2];
    o.seed = 77;
    rwk_sampler_create(&sampler, &o, NULL);
    rwk_sampler_sample(sampler, six, 6, NULL, 0, &sample, NULL);
    rwk_sampler_get_state(sampler, state);
    ck_assert_uint_eq(state[0], 77);
    ck_assert_uint_eq(state[1], 0);
    rwk_sampler_close(&sampler);
}
END_TEST

START_TEST(tiny_temperatures_are_greedy)
{
    static const double temperatures[] = { 1e-6, 1e-30, 1e-300 };
    static const float logits[5] = { -3e38f, 3e38f, 100, 3e38f, 99.9999f };
    for (size_t i = 0; i < 3; i++) {
        struct rwk_sampler_options o = options(temperatures[i]);
        for (o.seed = 0; o.seed < 50; o.seed++) {
            ck_assert_uint_eq(sample_with(&o, six, 6, NULL, 0).token, 0);
            ck_assert_uint_eq(sample_with(&o, logits, 5, NULL, 0).token % 2, 1);
        }
    }
}
END_TEST

/* ---- sampling ---- */

START_TEST(frequencies_are_the_softmax)
{
    static const double p[6] = { .560893, .206341, .125152, .0759087, .0279252, .00377927 };
    int counts[MAX_LOGITS];
    count(options(1), six, 6, NULL, 0, counts);
    check_frequencies(counts, p, 6);
}
END_TEST

START_TEST(temperature_divides_the_logits)
{
    int counts[MAX_LOGITS];
    double p[6], sum = 0;
    for (int i = 0; i < 6; i++)
        sum += p[i] = exp(six[i] / 2.5);
    for (int i = 0; i < 6; i++)
        p[i] /= sum;
    count(options(2.5), six, 6, NULL, 0, counts);
    check_frequencies(counts, p, 6);
}
END_TEST

START_TEST(huge_temperatures_are_uniform)
{
    static const double p[6] = { 1 / 6., 1 / 6., 1 / 6., 1 / 6., 1 / 6., 1 / 6. };
    int counts[MAX_LOGITS];
    count(options(1e300), six, 6, NULL, 0, counts);
    check_frequencies(counts, p, 6);
}
END_TEST

START_TEST(a_shift_of_all_logits_changes_nothing)
{
    float shifted[6];
    struct rwk_sampler_options o = options(0.75);
    for (int i = 0; i < 6; i++)
        shifted[i] = six[i] + 1024; /* exact in float32 */
    for (o.seed = 0; o.seed < 200; o.seed++)
        ck_assert_uint_eq(sample_with(&o, six, 6, NULL, 0).token,
                          sample_with(&o, shifted, 6, NULL, 0).token);
}
END_TEST

START_TEST(top_k_keeps_k_and_the_equals_of_the_last)
{
    static const float ties[4] = { 1, 1, 1, 0 }, zeros[4] = { 1, 0.0f, -0.0f, -1 };
    struct rwk_sampler_options o = options(1);
    o.top_k = 2;
    check_kept(o, ties, 4, 3);
    check_kept(o, zeros, 4, 3);
    check_kept(o, six, 6, 2);
    o.top_k = 1;
    check_kept(o, six, 6, 1);
    o.top_k = 4;
    check_kept(o, six, 6, 4);
}
END_TEST

START_TEST(top_k_of_zero_or_more_than_all_is_off)
{
    static const int32_t off[] = { 0, -1, INT32_MIN, 6, 7, INT32_MAX };
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        struct rwk_sampler_options o = options(3);
        o.top_k = off[i];
        check_kept(o, six, 6, 6);
    }
}
END_TEST

START_TEST(top_p_keeps_the_token_that_crosses)
{
    struct rwk_sampler_options o = options(1);
    float logits[3] = { logf(0.6f), logf(0.3f), logf(0.1f) };
    int counts[MAX_LOGITS];
    o.top_p = 0.7;
    count(o, logits, 3, NULL, 0, counts);
    check_frequencies(counts, (const double[]) { 2 / 3., 1 / 3., 0 }, 3);
    o.top_p = 0.6; /* reached exactly, up to the rounding of the logits */
    check_kept(o, logits, 3, 1);
    o.top_p = 0.9;
    check_kept(o, logits, 3, 2);
    o.top_p = 0.5;
    check_kept(o, six, 6, 1);
    o.top_p = 0.6;
    check_kept(o, six, 6, 2);
    o.top_p = 0.9;
    check_kept(o, six, 6, 4);
}
END_TEST

START_TEST(top_p_of_zero_keeps_the_best_alone)
{
    static const float logits[5] = { 0, 2, 7, 7, 1 };
    struct rwk_sampler_options o = options(5);
    o.top_p = 0;
    for (o.seed = 0; o.seed < 200; o.seed++)
        ck_assert_uint_eq(sample_with(&o, logits, 5, NULL, 0).token, 2);
}
END_TEST

START_TEST(top_p_of_one_is_off)
{
    struct rwk_sampler_options o = options(3);
    check_kept(o, six, 6, 6);
}
END_TEST

START_TEST(top_p_takes_equals_one_by_one)
{
    static const float equal[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    struct rwk_sampler_options o = options(1);
    o.top_p = 0.3;
    check_kept(o, equal, 8, 3);
    o.top_p = 0.25;
    check_kept(o, equal, 8, 2);
}
END_TEST

START_TEST(min_p_is_relative_to_the_best)
{
    static const float logits[4] = { 3, 3, 2, 1 };
    struct rwk_sampler_options o = options(1);
    o.min_p = 0.1;
    check_kept(o, six, 6, 4);
    o.min_p = 0.3;
    check_kept(o, six, 6, 2);
    o.min_p = 1;
    check_kept(o, six, 6, 1);
    check_kept(o, logits, 4, 2);
}
END_TEST

START_TEST(temperature_comes_before_top_p)
{
    static const float logits[3] = { 3, 2, 1 };
    struct rwk_sampler_options o = options(0.5);
    o.top_p = 0.8;
    check_kept(o, logits, 3,
               1); /* 0.867 for the first; without temperature 0.665, and two would be kept */
    o.temperature = 1;
    check_kept(o, logits, 3, 2);
}
END_TEST

START_TEST(top_k_comes_before_top_p)
{
    static const float equal[8] = { 1, 1, 1, 1, 1, 1, 0, 0 };
    struct rwk_sampler_options o = options(1);
    float logits[4] = { logf(0.4f), logf(0.3f), logf(0.2f), logf(0.1f) };
    o.top_k = 2;
    o.top_p = 0.57; /* 0.4 of 0.7 is 0.571; of 1 it would need a second one */
    check_kept(o, logits, 4, 1);
    o.top_k = 4;
    check_kept(o, logits, 4, 2);
    o.top_p = 0.5;
    check_kept(o, equal, 8, 3);
}
END_TEST

/* The kept set of a large random problem equals the one found by sorting. */
static const float *sorted_logits;
static int by_logit(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    float x = sorted_logits[i], y = sorted_logits[j];
    return x > y ? -1 : x < y ? 1 : i < j ? -1 : 1;
}

START_TEST(cuts_agree_with_sorting)
{
    enum { N = 3001 };
    static float logits[N];
    static uint32_t order[N];
    static char may[N];
    uint32_t noise = 12345;
    for (uint32_t i = 0; i < N; i++) {
        noise = noise * 1664525u + 1013904223u;
        logits[i] = (float)((int32_t)noise >> 16) / 4096; /* -8 .. 8 in steps, with many equals */
        order[i] = i;
    }
    sorted_logits = logits;
    qsort(order, N, sizeof *order, by_logit);
    double total = 0, mass = 0;
    for (uint32_t i = 0; i < N; i++)
        total += exp(logits[i]);
    for (uint32_t i = 0; i < N; i++) {
        may[order[i]] = mass < 0.4 * total;
        mass += exp(logits[order[i]]);
    }
    struct rwk_sampler_options o = options(1);
    o.top_p = 0.4;
    bool seen_last = false;
    uint32_t last = 0;
    for (uint32_t i = 0; i < N; i++)
        last = may[order[i]] ? order[i] : last;
    for (o.seed = 0; o.seed < 20000; o.seed++) {
        uint32_t token = sample_with(&o, logits, N, NULL, 0).token;
        ck_assert_msg(may[token], "token %u, logit %g", token, logits[token]);
        seen_last = seen_last || token == last;
    }
    ck_assert_msg(seen_last, "the last token of the nucleus, %u, never came", last);
    o.top_p = 1;
    o.top_k = 40;
    for (o.seed = 0; o.seed < 5000; o.seed++)
        ck_assert(logits[sample_with(&o, logits, N, NULL, 0).token] >= logits[order[39]]);
}
END_TEST

/* ---- repetition penalty ---- */

START_TEST(penalty_divides_positive_and_multiplies_negative_logits)
{
    static const float logits[3] = { 2, -1, 0.5f };
    static const uint32_t history[] = { 0, 1 };
    struct rwk_sampler_options o = options(1);
    int counts[MAX_LOGITS];
    double sum = exp(1) + exp(-2) + exp(0.5);
    o.repetition_penalty = 2;
    count(o, logits, 3, history, 2, counts);
    check_frequencies(counts, (const double[]) { exp(1) / sum, exp(-2) / sum, exp(0.5) / sum }, 3);
}
END_TEST

START_TEST(penalty_counts_each_token_once)
{
    static const uint32_t once[] = { 0, 4 }, often[] = { 0, 4, 0, 0, 4, 4, 0 };
    struct rwk_sampler_options o = options(1);
    int counts[MAX_LOGITS], more[MAX_LOGITS];
    double p[6] = { 2 / 1.3, 1, 0.5, 0, -1.3, -3 }, sum = 0;
    o.repetition_penalty = 1.3;
    count(o, six, 6, once, 2, counts);
    count(o, six, 6, often, 7, more);
    ck_assert_int_eq(memcmp(counts, more, sizeof counts), 0);
    for (int i = 0; i < 6; i++)
        sum += p[i] = exp(p[i]);
    for (int i = 0; i < 6; i++)
        p[i] /= sum;
    check_frequencies(counts, p, 6);
}
END_TEST

START_TEST(penalty_of_one_is_none)
{
    static const uint32_t history[] = { 0, 1, 2 };
    struct rwk_sampler_options o = options(1);
    for (o.seed = 0; o.seed < 200; o.seed++)
        ck_assert_uint_eq(sample_with(&o, six, 6, history, 3).token,
                          sample_with(&o, six, 6, NULL, 0).token);
}
END_TEST

START_TEST(penalty_holds_for_greedy_too_and_is_forgotten_afterwards)
{
    static const uint32_t history[] = { 0 };
    struct rwk_sampler_options o = options(0);
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample sample;
    o.repetition_penalty = 4;
    rwk_sampler_create(&sampler, &o, NULL);
    ck_assert_int_eq(rwk_sampler_sample(sampler, six, 6, history, 1, &sample, NULL), RWK_STATUS_OK);
    ck_assert_uint_eq(sample.token, 1);
    ck_assert_uint_eq(sample.rank, 1);
    ck_assert_double_eq_tol(sample.logprob, log(.206341), 1e-5);
    ck_assert_int_eq(rwk_sampler_sample(sampler, six, 6, NULL, 0, &sample, NULL), RWK_STATUS_OK);
    ck_assert_uint_eq(sample.token, 0);
    rwk_sampler_close(&sampler);
}
END_TEST

START_TEST(extreme_penalties_stay_finite)
{
    static const float logits[3] = { 3e38f, -3e38f, 0 };
    static const uint32_t history[] = { 0, 1, 2 };
    static const double penalties[] = { 1e300, 5e-324 };
    for (int i = 0; i < 2; i++) {
        struct rwk_sampler_options o = options(1);
        o.repetition_penalty = penalties[i];
        uint32_t token = sample_with(&o, logits, 3, history, 3).token;
        ck_assert(i ? token == 0 : token != 1);
    }
}
END_TEST

/* ---- generator ---- */

START_TEST(generator_is_split_mix_64)
{
    /* SplitMix64 of seed 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f: 0.8833,
     * 0.4315, 0.0264 of the whole */
    static const uint32_t expected[] = { 883, 431, 26 };
    static float flat[1000];
    struct rwk_sampler_options o = options(1);
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample sample;
    rwk_sampler_create(&sampler, &o, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(rwk_sampler_sample(sampler, flat, 1000, NULL, 0, &sample, NULL),
                         RWK_STATUS_OK);
        ck_assert_uint_eq(sample.token, expected[i]);
    }
    rwk_sampler_close(&sampler);
}
END_TEST

START_TEST(state_can_be_carried_over)
{
    struct rwk_sampler_options o = options(1);
    struct rwk_sampler *first = NULL, *second = NULL;
    struct rwk_sample a, b;
    uint64_t state[2];
    o.seed = 42;
    rwk_sampler_create(&first, &o, NULL);
    for (int i = 0; i < 10; i++)
        rwk_sampler_sample(first, six, 6, NULL, 0, &a, NULL);
    rwk_sampler_get_state(first, state);
    ck_assert_uint_eq(state[1], 10);
    o.seed = 7;
    rwk_sampler_create(&second, &o, NULL);
    rwk_sampler_set_state(second, state);
    for (int i = 0; i < 100; i++) {
        rwk_sampler_sample(first, six, 6, NULL, 0, &a, NULL);
        rwk_sampler_sample(second, six, 6, NULL, 0, &b, NULL);
        ck_assert_uint_eq(a.token, b.token);
    }
    rwk_sampler_close(&first);
    rwk_sampler_close(&second);
}
END_TEST

/* ---- what is returned, what is refused ---- */

START_TEST(rank_and_logprob_are_those_of_the_unmodified_logits)
{
    static const double p[6] = { .560893, .206341, .125152, .0759087, .0279252, .00377927 };
    struct rwk_sampler_options o = options(2);
    o.top_k = 4;
    for (o.seed = 0; o.seed < 100; o.seed++) {
        struct rwk_sample s = sample_with(&o, six, 6, (const uint32_t[]) { 5 }, 1);
        ck_assert_uint_eq(s.rank, s.token);
        ck_assert_double_eq_tol(s.logprob, log(p[s.token]), 1e-5); /* p has 6 digits */
    }
}
END_TEST

START_TEST(one_logit_is_enough)
{
    struct rwk_sampler_options o = options(0.5);
    o.top_p = 0.1;
    o.top_k = 1;
    o.min_p = 1;
    struct rwk_sample s = sample_with(&o, (const float[]) { -5 }, 1, NULL, 0);
    ck_assert_uint_eq(s.token, 0);
    ck_assert(s.logprob == 0);
}
END_TEST

START_TEST(refuses_logits_that_are_not_finite)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (double t = 0; t < 2; t++)
        for (int b = 0; b < 3; b++)
            for (size_t at = 0; at < 6; at++) {
                struct rwk_sampler_options o = options(t);
                struct rwk_sampler *sampler = NULL;
                struct rwk_sample sample = { 99, 99, 99 };
                struct rwk_error error = { .size = sizeof error };
                uint64_t state[2];
                float logits[6];
                memcpy(logits, six, sizeof logits);
                logits[at] = bad[b];
                rwk_sampler_create(&sampler, &o, NULL);
                ck_assert_int_eq(rwk_sampler_sample(sampler, logits, 6, NULL, 0, &sample, &error),
                                 RWK_STATUS_NUMERIC);
                ck_assert_uint_eq(sample.token, 99);
                rwk_sampler_get_state(sampler, state);
                ck_assert_uint_eq(state[1], 0);
                rwk_sampler_close(&sampler);
            }
}
END_TEST

START_TEST(refuses_no_logits_and_a_history_beyond_them)
{
    struct rwk_sampler_options o = options(1);
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample sample;
    o.repetition_penalty = 1.1;
    rwk_sampler_create(&sampler, &o, NULL);
    ck_assert_int_eq(rwk_sampler_sample(sampler, six, 0, NULL, 0, &sample, NULL), RWK_STATUS_RANGE);
    ck_assert_int_eq(
        rwk_sampler_sample(sampler, six, 6, (const uint32_t[]) { 1, 6 }, 2, &sample, NULL),
        RWK_STATUS_RANGE);
    ck_assert_int_eq(
        rwk_sampler_sample(sampler, six, 6, (const uint32_t[]) { 1, 5 }, 2, &sample, NULL),
        RWK_STATUS_OK);
    rwk_sampler_close(&sampler);
}
END_TEST

START_TEST(refuses_options_out_of_range_by_name)
{
    static const struct {
        const char *name;
        size_t field;
        double value;
    } cases[] = {
#define CASE(name, value) { #name, offsetof(struct rwk_sampler_options, name), value }
        CASE(temperature, -1),
        CASE(temperature, NAN),
        CASE(temperature, INFINITY),
        CASE(top_p, -0.1),
        CASE(top_p, 1.01),
        CASE(top_p, NAN),
        CASE(min_p, -0.1),
        CASE(min_p, 1.5),
        CASE(min_p, NAN),
        CASE(repetition_penalty, 0),
        CASE(repetition_penalty, -1),
        CASE(repetition_penalty, NAN),
        CASE(repetition_penalty, INFINITY),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rwk_sampler_options o = options(1);
        struct rwk_sampler *sampler = NULL;
        struct rwk_error error = { .size = sizeof error };
        memcpy((char *)&o + cases[i].field, &cases[i].value, sizeof(double));
        ck_assert_int_eq(rwk_sampler_create(&sampler, &o, &error), RWK_STATUS_RANGE);
        ck_assert_ptr_null(sampler);
        ck_assert_str_eq(error.subject, cases[i].name);
    }
}
END_TEST

START_TEST(close_accepts_nothing)
{
    struct rwk_sampler *sampler = NULL;
    rwk_sampler_close(&sampler);
    rwk_sampler_close(NULL);
    ck_assert_int_eq(rwk_sampler_create(&sampler, NULL, NULL), RWK_STATUS_OK);
    rwk_sampler_close(&sampler);
    ck_assert_ptr_null(sampler);
}
END_TEST

START_TEST(buffers_grow_with_the_vocabulary)
{
    static float flat[5000];
    struct rwk_sampler_options o = options(1);
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample sample;
    o.repetition_penalty = 1.2;
    o.top_p = 0.9;
    rwk_sampler_create(&sampler, &o, NULL);
    for (uint32_t n = 1; n <= 5000; n += 77) {
        uint32_t last = n - 1;
        ck_assert_int_eq(rwk_sampler_sample(sampler, flat, n, &last, 1, &sample, NULL),
                         RWK_STATUS_OK);
        ck_assert_uint_lt(sample.token, n);
    }
    rwk_sampler_close(&sampler);
}
END_TEST

/* ---- the host's stage ---- */

struct bias {
    uint32_t token;
    float by; /* added; or, with -INFINITY, forbidden */
    bool all;
    int calls;
};

static void add_bias(void *user_data, float *logits, size_t n)
{
    struct bias *b = user_data;
    b->calls++;
    for (size_t i = 0; i < n; i++)
        if (b->all || i == b->token)
            logits[i] += b->by;
}

START_TEST(the_hosts_stage_works_on_a_copy_of_the_logits)
{
    static const float logits[] = { 1, 4, 3, 2 };
    const uint32_t history[] = { 2 };
    struct bias bias = { .token = 1, .by = -INFINITY };
    struct rwk_sampler_options o;
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample sample;
    float copy[4];
    struct rwk_error error = { .size = sizeof error };
    memcpy(copy, logits, sizeof copy);
    rwk_sampler_options_init(&o);
    o.adjust = add_bias;
    o.adjust_data = &bias;
    ck_assert_int_eq(rwk_sampler_create(&sampler, &o, &error), RWK_STATUS_OK);
    ck_assert_int_eq(rwk_sampler_sample(sampler, copy, 4, NULL, 0, &sample, &error), RWK_STATUS_OK);
    ck_assert_uint_eq(sample.token, 2);
    ck_assert_uint_eq(sample.rank, 1); /* of the logits as the model gave them */
    bias.by = -3;
    ck_assert_int_eq(rwk_sampler_sample(sampler, copy, 4, NULL, 0, &sample, &error), RWK_STATUS_OK);
    ck_assert_uint_eq(sample.token, 2);
    ck_assert_mem_eq(copy, logits, sizeof copy);
    rwk_sampler_close(&sampler);

    o.temperature = 0.5;
    o.repetition_penalty = 4; /* 3 / 4: the other two are likelier now */
    bias.by = -INFINITY;
    ck_assert_int_eq(rwk_sampler_create(&sampler, &o, &error), RWK_STATUS_OK);
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(rwk_sampler_sample(sampler, copy, 4, history, 1, &sample, &error),
                         RWK_STATUS_OK);
        ck_assert_uint_ne(sample.token, 1); /* never what was forbidden */
    }
    ck_assert_int_eq(bias.calls, 202);
    bias.all = true;
    ck_assert_int_eq(rwk_sampler_sample(sampler, copy, 4, NULL, 0, &sample, &error),
                     RWK_STATUS_NUMERIC);
    bias.by = NAN;
    ck_assert_int_eq(rwk_sampler_sample(sampler, copy, 4, NULL, 0, &sample, &error),
                     RWK_STATUS_NUMERIC);
    bias.by = INFINITY;
    ck_assert_int_eq(rwk_sampler_sample(sampler, copy, 4, NULL, 0, &sample, &error),
                     RWK_STATUS_NUMERIC);
    ck_assert_mem_eq(copy, logits, sizeof copy);
    rwk_sampler_close(&sampler);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        exp_is_within_one_ulp,
        the_hosts_stage_works_on_a_copy_of_the_logits,
        exp_is_exact_at_the_ends,
        greedy_takes_the_lowest_of_equals,
        greedy_draws_no_random_number,
        tiny_temperatures_are_greedy,
        frequencies_are_the_softmax,
        temperature_divides_the_logits,
        huge_temperatures_are_uniform,
        a_shift_of_all_logits_changes_nothing,
        top_k_keeps_k_and_the_equals_of_the_last,
        top_k_of_zero_or_more_than_all_is_off,
        top_p_keeps_the_token_that_crosses,
        top_p_of_zero_keeps_the_best_alone,
        top_p_of_one_is_off,
        top_p_takes_equals_one_by_one,
        min_p_is_relative_to_the_best,
        temperature_comes_before_top_p,
        top_k_comes_before_top_p,
        cuts_agree_with_sorting,
        penalty_divides_positive_and_multiplies_negative_logits,
        penalty_counts_each_token_once,
        penalty_of_one_is_none,
        penalty_holds_for_greedy_too_and_is_forgotten_afterwards,
        extreme_penalties_stay_finite,
        generator_is_split_mix_64,
        state_can_be_carried_over,
        rank_and_logprob_are_those_of_the_unmodified_logits,
        one_logit_is_enough,
        refuses_logits_that_are_not_finite,
        refuses_no_logits_and_a_history_beyond_them,
        refuses_options_out_of_range_by_name,
        close_accepts_nothing,
        buffers_grow_with_the_vocabulary,
    };
    Suite *suite = suite_create("sampler");
    TCase *tcase = tcase_create("sampler");
    tcase_set_timeout(tcase, 120);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
