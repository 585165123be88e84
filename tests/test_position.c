/* Position schemes against values of the reference implementation (transformers 5, float32 on
 * CPU) and against long double.
 *
 * Tolerances: frequencies 4 ulp (two powf may differ by 2 ulp, the quotient and a scaling add one
 * each); embeddings and rotated vectors 2e-7 of the largest element (a few float32 roundings);
 * double scalars 1e-10. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/position/position.h"

#define N(array) (sizeof(array) / sizeof *(array))
#define FREQUENCIES(...) (const float[]) { __VA_ARGS__ }, N(((const float[]) { __VA_ARGS__ }))

static struct rwk_memory memory;
static struct rwk_arena arena;
static struct rwk_error error;

static void setup(void)
{
    rwk_memory_init(&memory, NULL, 0);
    arena = (struct rwk_arena) { .memory = &memory };
    error = (struct rwk_error) { .size = sizeof error };
}

static void teardown(void)
{
    rwk_arena_finish(&arena);
}

static struct rwk_position_request rope_request(uint32_t head_dim, double theta,
                                                enum rwk_rope_type type)
{
    return (struct rwk_position_request) {
        .scheme = "rope",
        .hidden_size = head_dim,
        .n_heads = 1,
        .head_dim = head_dim,
        .max_position_embeddings = 2048,
        .n_rope = 1,
        .rope = { { .name = "all",
                    .type = type,
                    .theta = theta,
                    .rotary_dim = head_dim,
                    .truncate = true } },
    };
}

static struct rwk_position_plan prepare(const struct rwk_position_request *request)
{
    struct rwk_position_plan plan;
    ck_assert_msg(rwk_position_prepare(&plan, request, &arena, &error) == RWK_STATUS_OK, "%s",
                  error.message);
    return plan;
}

/* The request is refused and `key` is named; the plan stays as it was. */
static void check_refused(const struct rwk_position_request *request, const char *key)
{
    struct rwk_position_plan plan = { .n_heads = 12345 };
    enum rwk_status status = rwk_position_prepare(&plan, request, &arena, &error);
    ck_assert_msg(status == RWK_STATUS_RANGE, "status %d, expected a refusal because of %s", status,
                  key);
    ck_assert_str_eq(error.subject, key);
    ck_assert_uint_eq(plan.n_heads, 12345);
}

static void check_ulp(const float *got, const float *expected, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float ulp = nextafterf(expected[i], INFINITY) - expected[i];
        ck_assert_msg(fabsf(got[i] - expected[i]) <= 4 * ulp, "[%zu] is %.9g, expected %.9g", i,
                      got[i], expected[i]);
    }
}

static void check_near(const float *got, const float *expected, size_t n)
{
    float max = 0;
    for (size_t i = 0; i < n; i++)
        max = fmaxf(max, fabsf(expected[i]));
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(got[i] - expected[i]) <= 2e-7f * max, "[%zu] is %.9g, expected %.9g", i,
                      got[i], expected[i]);
}

static void check_frequencies(const struct rwk_position_request *request, const float *expected,
                              size_t n)
{
    struct rwk_position_plan plan = prepare(request);
    ck_assert_uint_eq(plan.rope[0].n_pairs, n);
    check_ulp(plan.rope[0].inv_freq, expected, n);
}

/* ---- none, learned ---- */

START_TEST(none_has_no_hooks_and_no_bound)
{
    struct rwk_position_request r = { .scheme = "none" };
    struct rwk_position_plan plan = prepare(&r);
    ck_assert(!plan.scheme->embed && !plan.scheme->rotate && !plan.scheme->bias);
    ck_assert_uint_eq(plan.context, UINT64_MAX);
    ck_assert_uint_eq(plan.context_limit, UINT64_MAX);
    r.max_position_embeddings = 100;
    ck_assert_uint_eq(prepare(&r).context, 100);
}
END_TEST

START_TEST(learned_is_bounded_by_its_rows)
{
    struct rwk_position_request r = { .scheme = "learned",
                                      .learned_rows = 1024,
                                      .learned_offset = 2,
                                      .max_position_embeddings = 4096 };
    struct rwk_position_plan plan = prepare(&r);
    ck_assert_uint_eq(plan.context, 1024);
    ck_assert_uint_eq(plan.context_limit, 1024);
    ck_assert_uint_eq(plan.learned_offset, 2);
    r.learned_rows = 0;
    check_refused(&r, "max_position_embeddings");
}
END_TEST

START_TEST(unknown_schemes_are_unsupported)
{
    struct rwk_position_request r = { .scheme = "spiral" };
    struct rwk_position_plan plan;
    ck_assert_int_eq(rwk_position_prepare(&plan, &r, &arena, &error), RWK_STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "spiral"));
}
END_TEST

/* ---- sinusoidal ---- */

static void check_embedding(enum rwk_sinusoid kind, uint64_t position, const float *expected,
                            size_t d)
{
    struct rwk_position_request r = { .scheme = "sinusoidal",
                                      .hidden_size = (uint32_t)d,
                                      .sinusoid = kind };
    struct rwk_position_plan plan = prepare(&r);
    float x[64];
    for (size_t i = 0; i < d; i++)
        x[i] = 0;
    plan.scheme->embed(&plan, position, x);
    check_near(x, expected, d);
}

START_TEST(sinusoidal_interleaved)
{
    check_embedding(RWK_SINUSOID_INTERLEAVED, 1,
                    FREQUENCIES(0.841470957f, 0.540302277f, 0.0998334140f, 0.995004177f,
                                0.00999983307f, 0.999949992f, 0.000999999815f, 0.999999523f));
    check_embedding(RWK_SINUSOID_INTERLEAVED, 5,
                    FREQUENCIES(-0.958924294f, 0.283662200f, 0.479425550f, 0.877582550f,
                                0.0499791689f, 0.998750269f, 0.00499997940f, 0.999987483f));
}
END_TEST

START_TEST(sinusoidal_halves)
{
    check_embedding(RWK_SINUSOID_HALVES, 1,
                    FREQUENCIES(0.841470957f, 0.0998334140f, 0.00999983307f, 0.000999999815f,
                                0.540302277f, 0.995004177f, 0.999949992f, 0.999999523f));
}
END_TEST

START_TEST(sinusoidal_fairseq_counts_from_two)
{
    check_embedding(RWK_SINUSOID_FAIRSEQ, 0,
                    FREQUENCIES(0.909297407f, 0.0926985070f, 0.00430885609f, 0.000199999980f,
                                -0.416146845f, 0.995694220f, 0.999990702f, 1));
    check_embedding(RWK_SINUSOID_FAIRSEQ, 1,
                    FREQUENCIES(0.141120002f, 0.138798103f, 0.00646325899f, 0.000299999956f,
                                -0.989992499f, 0.990320683f, 0.999979138f, 0.999999940f));
}
END_TEST

START_TEST(sinusoidal_frequencies)
{
    static const float paper[] = { 1, 0.1f, 0.01f, 0.001f },
                       fairseq[] = { 1, 0.0464158883f, 0.00215443469f, 0.0001f };
    struct rwk_position_request r = { .scheme = "sinusoidal", .hidden_size = 8 };
    check_ulp(prepare(&r).sinusoid_freq, paper, 4);
    r.sinusoid = RWK_SINUSOID_FAIRSEQ;
    check_ulp(prepare(&r).sinusoid_freq, fairseq, 4);
}
END_TEST

START_TEST(sinusoidal_adds_and_leaves_an_odd_last_element)
{
    struct rwk_position_request r = { .scheme = "sinusoidal",
                                      .hidden_size = 201,
                                      .sinusoid = RWK_SINUSOID_HALVES };
    struct rwk_position_plan plan = prepare(&r);
    float x[202], zero[202];
    for (int i = 0; i < 202; i++) {
        x[i] = 2;
        zero[i] = 0;
    }
    plan.scheme->embed(&plan, 77, x);
    plan.scheme->embed(&plan, 77, zero);
    for (int i = 0; i < 202; i++)
        ck_assert(x[i] == 2 + zero[i]);
    ck_assert(x[200] == 2 && x[201] == 2);
    ck_assert_uint_eq(plan.context, UINT64_MAX);
    r.hidden_size = 3;
    check_refused(&r, "hidden_size");
}
END_TEST

/* ---- rope: frequencies ---- */

static struct rwk_position_request with_factor(uint32_t head_dim, double theta,
                                               enum rwk_rope_type type, double factor,
                                               uint64_t original)
{
    struct rwk_position_request r = rope_request(head_dim, theta, type);
    r.rope[0].factor = factor;
    r.rope[0].original_context = original;
    return r;
}

static struct rwk_position_request llama3(uint32_t head_dim, double theta, double factor,
                                          uint64_t original)
{
    struct rwk_position_request r = with_factor(head_dim, theta, RWK_ROPE_LLAMA3, factor, original);
    r.rope[0].low_freq_factor = 1;
    r.rope[0].high_freq_factor = 4;
    return r;
}

START_TEST(default_frequencies)
{
    struct rwk_position_request r = rope_request(8, 1e4, RWK_ROPE_DEFAULT);
    check_frequencies(&r, FREQUENCIES(1, 0.100000001f, 0.00999999978f, 0.00100000005f));
    r = rope_request(16, 1e4, RWK_ROPE_DEFAULT);
    check_frequencies(&r, FREQUENCIES(1, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f,
                                      0.00316227786f, 0.00100000005f, 0.000316227786f));
    r = rope_request(16, 5e5, RWK_ROPE_DEFAULT);
    check_frequencies(&r,
                      FREQUENCIES(1, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.00141421345f,
                                  0.000274248188f, 5.31829573e-05f, 1.03133852e-05f));
    r = rope_request(8, 1e6, RWK_ROPE_DEFAULT);
    check_frequencies(&r, FREQUENCIES(1, 0.0316227786f, 0.00100000005f, 3.16227743e-05f));
}
END_TEST

START_TEST(partial_rotation_takes_exponents_over_the_rotated_part)
{
    struct rwk_position_request r = rope_request(16, 1e4, RWK_ROPE_DEFAULT);
    r.rope[0].rotary_dim = 12;
    check_frequencies(&r, FREQUENCIES(1, 0.215443447f, 0.0464158840f, 0.00999999978f,
                                      0.00215443433f, 0.000464158948f));
}
END_TEST

START_TEST(linear_frequencies)
{
    struct rwk_position_request r = with_factor(8, 1e4, RWK_ROPE_LINEAR, 4, 0);
    check_frequencies(&r, FREQUENCIES(0.25f, 0.0250000004f, 0.00249999994f, 0.000250000012f));
}
END_TEST

static void check_dynamic(uint64_t length, const float *expected, size_t n)
{
    struct rwk_position_request r = with_factor(16, 1e4, RWK_ROPE_DYNAMIC, 2, 0);
    struct rwk_position_plan plan = prepare(&r);
    float inv_freq[8];
    ck_assert_uint_eq(n, 8);
    rwk_position_frequencies(&plan, 0, rwk_position_epoch(&plan, length), inv_freq);
    check_ulp(inv_freq, expected, 8);
}

START_TEST(dynamic_frequencies_grow_with_the_length)
{
    for (uint64_t length = 1; length <= 2048; length = length * 2)
        check_dynamic(length,
                      FREQUENCIES(1, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f,
                                  0.00316227786f, 0.00100000005f, 0.000316227786f));
    check_dynamic(2049, FREQUENCIES(1, 0.316183686f, 0.0999721140f, 0.0316095501f, 0.00999442395f,
                                    0.00316007389f, 0.000999163720f, 0.000315919257f));
    check_dynamic(4096, FREQUENCIES(1, 0.270296127f, 0.0730599985f, 0.0197478328f, 0.00533776265f,
                                    0.00144277664f, 0.000389976922f, 0.000105409257f));
}
END_TEST

START_TEST(dynamic_theta_at_known_lengths)
{
    /* theta' = 35097.9244 and 92432.8473 at 4096 and 8192; 31082.24 for a head of 64 at 4096 */
    static const struct {
        uint32_t head_dim;
        uint64_t length;
        double theta;
    } cases[] = { { 16, 2049, 10011.1615 },
                  { 16, 4096, 35097.9244 },
                  { 16, 8192, 92432.8473 },
                  { 64, 4096, 31082.24 } };
    for (size_t i = 0; i < N(cases); i++) {
        struct rwk_position_request r = with_factor(cases[i].head_dim, 1e4, RWK_ROPE_DYNAMIC, 2, 0);
        struct rwk_position_plan plan = prepare(&r);
        float inv_freq[32];
        rwk_position_frequencies(&plan, 0, rwk_position_epoch(&plan, cases[i].length), inv_freq);
        double theta = pow(inv_freq[1], -(double)cases[i].head_dim / 2);
        ck_assert_double_eq_tol(theta / cases[i].theta, 1,
                                4e-6); /* 1 ulp of inv_freq, to the 32nd power */
    }
}
END_TEST

START_TEST(dynamic_epochs)
{
    struct rwk_position_request r = with_factor(16, 1e4, RWK_ROPE_DYNAMIC, 2, 0);
    struct rwk_position_plan plan = prepare(&r);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 1), 0);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 2048), 0);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 2049), 2049);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 5000), 5000);
    r.rope[0].original_context = 100; /* takes the place of max_position_embeddings */
    plan = prepare(&r);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 100), 0);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 101), 101);
}
END_TEST

START_TEST(ntk_frequencies)
{
    struct rwk_position_request r = with_factor(8, 1e4, RWK_ROPE_NTK, 2, 0);
    check_frequencies(&r, FREQUENCIES(1, 0.0793700526f, 0.00629960525f, 0.0005f));
    r = with_factor(8, 1e4, RWK_ROPE_NTK, 4, 0);
    check_frequencies(&r, FREQUENCIES(1, 0.0629960525f, 0.00396850263f, 0.00025f));
    r = with_factor(8, 1e4, RWK_ROPE_NTK, 8, 0);
    check_frequencies(&r, FREQUENCIES(1, 0.05f, 0.0025f, 0.000125f));
    r = with_factor(16, 1e4, RWK_ROPE_NTK, 2, 0);
    check_frequencies(&r, FREQUENCIES(1, 0.286414971f, 0.0820335356f, 0.0234956327f, 0.00672950096f,
                                      0.00192742982f, 0.000552044757f, 0.000158113883f));
    r = with_factor(16, 1e4, RWK_ROPE_NTK, 4, 0);
    struct rwk_position_plan plan = prepare(&r);
    check_ulp(plan.rope[0].inv_freq + 1, (const float[]) { 0.259412817f }, 1);
    check_ulp(plan.rope[0].inv_freq + 7, (const float[]) { 7.90569415e-05f }, 1);
}
END_TEST

START_TEST(ntk_leaves_the_first_and_divides_the_last_frequency)
{
    static const uint32_t dims[] = { 4, 64, 80, 128, 256 };
    for (size_t i = 0; i < N(dims); i++) {
        struct rwk_position_request plain = rope_request(dims[i], 5e5, RWK_ROPE_DEFAULT),
                                    ntk = with_factor(dims[i], 5e5, RWK_ROPE_NTK, 4, 0);
        const float *before = prepare(&plain).rope[0].inv_freq,
                    *after = prepare(&ntk).rope[0].inv_freq;
        ck_assert(after[0] == 1);
        ck_assert_double_eq_tol(after[dims[i] / 2 - 1] * 4 / before[dims[i] / 2 - 1], 1, 4e-7);
    }
}
END_TEST

START_TEST(llama3_frequencies)
{
    struct rwk_position_request r = llama3(16, 5e5, 8, 8192);
    check_frequencies(&r,
                      FREQUENCIES(1, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.000524846022f,
                                  3.42810235e-05f, 6.64786967e-06f, 1.28917316e-06f));
    r = llama3(16, 5e5, 32, 8192);
    check_frequencies(&r,
                      FREQUENCIES(1, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.000429556797f,
                                  8.57025549e-06f, 1.66196747e-06f, 3.22293293e-07f));
    r = llama3(8, 1e4, 4, 1024);
    check_frequencies(&r, FREQUENCIES(1, 0.1f, 0.00407436654f, 0.00025f));
}
END_TEST

START_TEST(llama3_blends_three_pairs_of_a_head_of_64)
{
    struct rwk_position_request r = llama3(64, 5e5, 32, 8192),
                                plain = rope_request(64, 5e5, RWK_ROPE_DEFAULT);
    const float *before = prepare(&plain).rope[0].inv_freq, *after = prepare(&r).rope[0].inv_freq;
    for (int m = 0; m < 32; m++) {
        if (m < 15)
            ck_assert(after[m] == before[m]);
        else if (m > 17)
            ck_assert(after[m] == before[m] / 32);
    }
    ck_assert_double_eq_tol(after[15], 0.00129055, 5e-9);
    ck_assert_double_eq_tol(after[16], 0.000429557, 5e-10);
    ck_assert_double_eq_tol(after[17], 0.0000970829, 5e-11);
}
END_TEST

START_TEST(yarn_frequencies)
{
    struct rwk_position_request r = with_factor(16, 1e4, RWK_ROPE_YARN, 4, 2048);
    check_frequencies(&r, FREQUENCIES(1, 0.316227764f, 0.100000001f, 0.0256935060f, 0.00624999963f,
                                      0.00138349656f, 0.000250000012f, 7.90569466e-05f));
    ck_assert_double_eq_tol(prepare(&r).rope[0].attention_factor, 1.13862943611, 1e-10);
    r.rope[0].truncate = false;
    check_ulp(prepare(&r).rope[0].inv_freq + 3,
              (const float[]) { 0.0238701962f, 0.00505697168f, 0.000811290462f }, 3);
    r = with_factor(16, 1e6, RWK_ROPE_YARN, 4, 32768);
    check_frequencies(&r,
                      FREQUENCIES(1, 0.177827939f, 0.0316227786f, 0.00421755994f, 0.000500000024f,
                                  4.44569851e-05f, 7.90569356e-06f, 1.40585337e-06f));
    r = with_factor(8, 1e4, RWK_ROPE_YARN, 4, 2048);
    check_frequencies(&r, FREQUENCIES(1, 0.100000001f, 0.00624999963f, 0.000250000012f));
    r = with_factor(16, 1.5e5, RWK_ROPE_YARN, 32, 4096);
    r.rope[0].truncate = false;
    check_frequencies(&r,
                      FREQUENCIES(1, 0.225418001f, 0.0508132726f, 0.00679495931f, 0.000456483918f,
                                  1.81883370e-05f, 4.09997847e-06f, 9.24208962e-07f));
    ck_assert_double_eq_tol(prepare(&r).rope[0].attention_factor, 1.34657359028, 1e-10);
}
END_TEST

START_TEST(yarn_bounds_of_a_head_of_64)
{
    struct rwk_position_request r = with_factor(64, 1e4, RWK_ROPE_YARN, 4, 2048);
    const float *inv_freq = prepare(&r).rope[0].inv_freq;
    ck_assert_double_eq_tol(inv_freq[12], 0.0243252, 5e-8);
    ck_assert_double_eq_tol(inv_freq[18], 0.00237914, 5e-9);
    r.rope[0].truncate = false;
    inv_freq = prepare(&r).rope[0].inv_freq;
    ck_assert_double_eq_tol(inv_freq[12], 0.0238702, 5e-8);
    ck_assert_double_eq_tol(inv_freq[18], 0.00214322, 5e-9);
}
END_TEST

/* The ramp of an original context of 131072 ends at pair 34.55, beyond the last one: no pair is
 * divided by the whole factor. */
START_TEST(yarn_ramp_may_end_beyond_the_last_pair)
{
    struct rwk_position_request r = with_factor(64, 1e4, RWK_ROPE_YARN, 4, 131072),
                                plain = rope_request(64, 1e4, RWK_ROPE_DEFAULT);
    float yarn = prepare(&r).rope[0].inv_freq[31], before = prepare(&plain).rope[0].inv_freq[31];
    double low = floor(64 * log(131072 / (32 * 2 * M_PI)) / (2 * log(1e4))),
           ramp = (31 - low) / (35 - low);
    ck_assert_double_eq_tol(yarn / (before * (ramp / 4 + 1 - ramp)), 1, 1e-6);
}
END_TEST

START_TEST(yarn_attention_factor)
{
    static const struct {
        double factor, given, mscale, mscale_all_dim, expected;
    } cases[] = {
        { 16, 0, 0, 0, 1.27725887222 },
        { 4, 0, 0, 0, 1.13862943611 },
        { 16, 1, 0, 0, 1 },
        { 64, 0.8, 1, 0.5, 0.8 },
        { 40, 0, 0, 0, 1.36888794541 },
        { 40, 0, 1, 1, 1 },
        { 40, 0, 0.707, 1, 0.921042355316 },
        { 40, 0, 0.707, 0, 1.36888794541 },
        { 1, 0, 0, 0, 1 },
        { 0.5, 0, 0, 0, 1 },
    };
    for (size_t i = 0; i < N(cases); i++) {
        struct rwk_position_request r = with_factor(64, 1e4, RWK_ROPE_YARN, cases[i].factor, 2048);
        r.rope[0].attention_factor = cases[i].given;
        r.rope[0].mscale = cases[i].mscale;
        r.rope[0].mscale_all_dim = cases[i].mscale_all_dim;
        ck_assert_double_eq_tol(prepare(&r).rope[0].attention_factor, cases[i].expected, 1e-10);
    }
}
END_TEST

START_TEST(yarn_takes_the_ratio_of_contexts_only_without_a_factor)
{
    struct rwk_position_request r = with_factor(64, 1e4, RWK_ROPE_YARN, 16, 2048);
    r.max_position_embeddings = 8192;
    ck_assert_double_eq_tol(prepare(&r).rope[0].attention_factor, 1.27725887222, 1e-10);
    r.rope[0].factor = 0;
    struct rwk_position_plan plan = prepare(&r);
    ck_assert_double_eq_tol(plan.rope[0].attention_factor, 1.13862943611, 1e-10);
    ck_assert(plan.rope[0].factor == 4);
}
END_TEST

START_TEST(yarn_survives_equal_bounds)
{
    struct rwk_position_request r =
        with_factor(16, 1e4, RWK_ROPE_YARN, 4, 2); /* both bounds fall on 0 */
    r.rope[0].truncate = false;
    const float *inv_freq = prepare(&r).rope[0].inv_freq;
    for (int m = 0; m < 8; m++)
        ck_assert(isfinite(inv_freq[m]) && inv_freq[m] > 0);
}
END_TEST

static const double short_list[] = { 1, 1.1, 1.25, 1.5 }, long_list[] = { 1, 2, 8, 32 };

static struct rwk_position_request longrope(void)
{
    struct rwk_position_request r = with_factor(8, 1e4, RWK_ROPE_LONGROPE, 0, 4096);
    r.max_position_embeddings = 131072;
    r.rope[0].short_factor = short_list;
    r.rope[0].long_factor = long_list;
    r.rope[0].n_short = r.rope[0].n_long = 4;
    return r;
}

START_TEST(longrope_has_two_sets_of_frequencies)
{
    static const float shorter[] = { 1, 0.0909090936f, 0.00800000038f, 0.000666666660f },
                       longer[] = { 1, 0.0500000007f, 0.00124999997f, 3.12500015e-05f };
    struct rwk_position_request r = longrope();
    struct rwk_position_plan plan = prepare(&r);
    float inv_freq[4];
    check_ulp(plan.rope[0].inv_freq, shorter, 4);
    check_ulp(plan.rope[0].long_inv_freq, longer, 4);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 1), 0);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 4096), 0);
    ck_assert_uint_eq(rwk_position_epoch(&plan, 4097), rwk_position_epoch(&plan, 131072));
    rwk_position_frequencies(&plan, 0, rwk_position_epoch(&plan, 4096), inv_freq);
    check_ulp(inv_freq, shorter, 4);
    rwk_position_frequencies(&plan, 0, rwk_position_epoch(&plan, 4097), inv_freq);
    check_ulp(inv_freq, longer, 4);
}
END_TEST

START_TEST(longrope_attention_factor)
{
    struct rwk_position_request r = longrope();
    ck_assert_double_eq_tol(prepare(&r).rope[0].attention_factor, 1.19023807142, 1e-10);
    r.rope[0].factor = 16;
    ck_assert_double_eq_tol(prepare(&r).rope[0].attention_factor, 1.15470053838, 1e-10);
    r.rope[0].attention_factor = 1.5;
    ck_assert(prepare(&r).rope[0].attention_factor == 1.5);
    r = longrope();
    r.max_position_embeddings = 2048;
    ck_assert(prepare(&r).rope[0].attention_factor == 1);
}
END_TEST

START_TEST(tables_of_several_kinds_share_an_epoch)
{
    struct rwk_position_request r = longrope(),
                                dynamic = with_factor(8, 1e4, RWK_ROPE_DYNAMIC, 2, 6000);
    struct rwk_position_plan plan, alone[2];
    r.n_rope = 2;
    r.rope[1] = dynamic.rope[0];
    plan = prepare(&r);
    r.n_rope = 1;
    alone[0] = prepare(&r);
    r.rope[0] = dynamic.rope[0];
    alone[1] = prepare(&r);
    for (uint64_t length = 4000; length < 8000; length += 97)
        for (uint32_t t = 0; t < 2; t++) {
            float together[4], own[4];
            rwk_position_frequencies(&plan, t, rwk_position_epoch(&plan, length), together);
            rwk_position_frequencies(&alone[t], 0, rwk_position_epoch(&alone[t], length), own);
            ck_assert_int_eq(memcmp(together, own, sizeof own), 0);
        }
    ck_assert_uint_eq(rwk_position_epoch(&plan, 4200), rwk_position_epoch(&plan, 5900));
}
END_TEST

/* ---- rope: rotation ---- */

static void check_rotation(bool interleaved, uint64_t position, const float *expected, size_t n)
{
    struct rwk_position_request r = rope_request(8, 1e4, RWK_ROPE_DEFAULT);
    r.rope[0].interleaved = interleaved;
    struct rwk_position_plan plan = prepare(&r);
    const struct rwk_kernels *kernels = rwk_kernels_get(RWK_CPU_SCALAR);
    float cos[16], sin[16], q[2][16];
    for (int i = 0; i < 16; i++)
        q[0][i] = q[1][i] = (float)(i + 1);
    kernels->angles(cos, sin, plan.rope[0].inv_freq, (float)position, 1, 4);
    plan.scheme->rotate(&plan, kernels, 0, cos, sin, q[0], 2, 16);
    ck_assert_uint_eq(n, 8);
    for (int h = 0; h < 2; h++) {
        check_near(q[h], expected, 8);
        for (int i = 8; i < 16; i++)
            ck_assert(q[h][i] == (float)(i + 1));
    }
}

START_TEST(rotates_halves)
{
    check_rotation(false, 1,
                   FREQUENCIES(-3.66705227f, 1.39100790f, 2.92985129f, 3.99199820f, 3.54298258f,
                               6.16969204f, 7.02964973f, 8.00399590f));
    check_rotation(false, 5,
                   FREQUENCIES(5.07828379f, -1.12138820f, 2.64639664f, 3.95995021f, 0.459386706f,
                               6.22434616f, 7.14118958f, 8.01989937f));
}
END_TEST

START_TEST(rotates_pairs)
{
    check_rotation(true, 1,
                   FREQUENCIES(-1.14263964f, 1.92207563f, 2.58567882f, 4.27951717f, 4.93975115f,
                               6.04969931f, 6.99199677f, 8.00699615f));
    check_rotation(true, 5,
                   FREQUENCIES(2.20151091f, -0.391599894f, 0.715045452f, 4.94860697f, 4.69387674f,
                               6.24239779f, 6.95991230f, 8.03489971f));
}
END_TEST

START_TEST(partial_rotation_pairs_inside_the_rotated_part)
{
    struct rwk_position_request r = rope_request(8, 1e4, RWK_ROPE_DEFAULT);
    r.rope[0].rotary_dim = 4;
    struct rwk_position_plan plan = prepare(&r);
    const struct rwk_kernels *kernels = rwk_kernels_get(RWK_CPU_SCALAR);
    float c[16], s[16], q[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    kernels->angles(c, s, plan.rope[0].inv_freq, 3, 1, 2);
    plan.scheme->rotate(&plan, kernels, 0, c, s, q, 1, 8);
    double a = 3, b = 3 * 0.01; /* 1, 10000^(-1/2) */
    check_near(q,
               (const float[]) { (float)(cos(a) - 3 * sin(a)), (float)(2 * cos(b) - 4 * sin(b)),
                                 (float)(3 * cos(a) + sin(a)), (float)(4 * cos(b) + 2 * sin(b)), 5,
                                 6, 7, 8 },
               8);
}
END_TEST

/* Up to a million positions. Cosine and sine of the float32 angle, against long double: one
 * rounding to float32, 2^-24 at most of a value of at most 1, is 6e-8. The angle itself, against
 * the exact one: relative to it, half an ulp each for the exponent 2m/r times ln(theta), the
 * power, its reciprocal and the product: (ln(theta)/2 + 3) 2^-24. */
START_TEST(angles_hold_up_to_a_million_positions)
{
    static const uint64_t positions[] = { 0,      1,      2,      1000,   4095,   65536,
                                          131071, 250001, 524287, 999983, 1000000 };
    static const double thetas[] = { 1e4, 5e5, 1e7 };
    for (size_t k = 0; k < N(thetas); k++) {
        struct rwk_position_request r = rope_request(128, thetas[k], RWK_ROPE_DEFAULT);
        struct rwk_position_plan plan = prepare(&r);
        for (size_t i = 0; i < N(positions); i++) {
            float c[64], s[64], p = (float)positions[i];
            rwk_kernels_get(RWK_CPU_SCALAR)->angles(c, s, plan.rope[0].inv_freq, p, 1, 64);
            for (int m = 0; m < 64; m++) {
                long double angle = (long double)(p * plan.rope[0].inv_freq[m]);
                long double exact = p * powl((long double)thetas[k], -m / 64.0L);
                ck_assert(fabsl(c[m] - cosl(angle)) <= 6e-8L && fabsl(s[m] - sinl(angle)) <= 6e-8L);
                ck_assert(fabsl(angle - exact) <= exact * (logl(thetas[k]) / 2 + 3) * 0x1p-24L);
            }
        }
    }
}
END_TEST

/* ---- rope: context ---- */

START_TEST(context_of_the_config_counts_its_extension_already)
{
    struct rwk_position_request r = with_factor(16, 1e4, RWK_ROPE_LINEAR, 4, 0);
    ck_assert_uint_eq(prepare(&r).context, 2048);
    r = with_factor(16, 1e4, RWK_ROPE_YARN, 4, 512);
    ck_assert_uint_eq(prepare(&r).context, 2048);
    r = llama3(16, 1e4, 8, 512);
    ck_assert_uint_eq(prepare(&r).context, 2048);
    r = longrope();
    ck_assert_uint_eq(prepare(&r).context, 131072);
    r = with_factor(16, 1e4, RWK_ROPE_DYNAMIC, 4, 0);
    ck_assert_uint_eq(prepare(&r).context, 4 * 2048);
    ck_assert_uint_eq(prepare(&r).context_limit, UINT64_MAX);
}
END_TEST

START_TEST(context_of_the_caller_is_factor_times_trained)
{
    static const enum rwk_rope_type types[] = { RWK_ROPE_LINEAR, RWK_ROPE_NTK, RWK_ROPE_DYNAMIC,
                                                RWK_ROPE_YARN };
    for (size_t i = 0; i < N(types); i++) {
        struct rwk_position_request r =
            with_factor(16, 1e4, types[i], 2.5, types[i] == RWK_ROPE_YARN ? 1000 : 0);
        r.trained_context = 1000;
        ck_assert_uint_eq(prepare(&r).context, 2500);
    }
    struct rwk_position_request r =
        rope_request(16, 1e4, RWK_ROPE_DEFAULT); /* a scaling taken away */
    r.trained_context = 1000;
    ck_assert_uint_eq(prepare(&r).context, 1000);
}
END_TEST

START_TEST(huge_contexts_do_not_overflow)
{
    struct rwk_position_request r = with_factor(16, 1e4, RWK_ROPE_DYNAMIC, 1e30, 0);
    r.max_position_embeddings = UINT64_MAX / 2;
    struct rwk_position_plan plan = prepare(&r);
    float inv_freq[8];
    ck_assert_uint_eq(plan.context, UINT64_MAX);
    rwk_position_frequencies(&plan, 0, rwk_position_epoch(&plan, UINT64_MAX - 1), inv_freq);
    for (int m = 0; m < 8; m++)
        ck_assert(inv_freq[m] >= 0 && inv_freq[m] <= 1);
}
END_TEST

/* ---- rope: refusals ---- */

START_TEST(refuses_rotary_dimensions_that_do_not_pair_up)
{
    struct rwk_position_request r = rope_request(9, 1e4, RWK_ROPE_DEFAULT);
    check_refused(&r, "head_dim");
    r.rope[0].rotary_dim = 10;
    check_refused(&r, "partial_rotary_factor");
    r.rope[0].rotary_dim = 5;
    check_refused(&r, "partial_rotary_factor");
    r.rope[0].rotary_dim = 0;
    check_refused(&r, "partial_rotary_factor");
}
END_TEST

START_TEST(refuses_theta_that_is_no_positive_number)
{
    static const double bad[] = { 0, -1e4, NAN, INFINITY, 1e39 };
    for (size_t i = 0; i < N(bad); i++) {
        struct rwk_position_request r = rope_request(16, bad[i], RWK_ROPE_DEFAULT);
        check_refused(&r, "rope_theta");
    }
    struct rwk_position_request r = with_factor(16, 1, RWK_ROPE_YARN, 4, 2048);
    check_refused(&r, "rope_theta");
    r = rope_request(16, 1e-45, RWK_ROPE_DEFAULT); /* its reciprocal is no float32 */
    check_refused(&r, "rope_theta");
}
END_TEST

START_TEST(refuses_factors_that_are_no_positive_number)
{
    static const enum rwk_rope_type types[] = { RWK_ROPE_LINEAR, RWK_ROPE_NTK, RWK_ROPE_DYNAMIC,
                                                RWK_ROPE_YARN, RWK_ROPE_LLAMA3 };
    static const double bad[] = { 0, -2, NAN, INFINITY };
    for (size_t t = 0; t < N(types); t++)
        for (size_t i = 0; i < N(bad); i++) {
            struct rwk_position_request r = llama3(16, 1e4, bad[i], 2048);
            r.rope[0].type = types[t];
            if (types[t] == RWK_ROPE_YARN && bad[i] == 0)
                continue; /* not given: the ratio of contexts */
            check_refused(&r, "factor");
        }
}
END_TEST

START_TEST(refuses_what_a_scaling_cannot_use)
{
    struct rwk_position_request r = llama3(16, 1e4, 8, 2048);
    r.rope[0].high_freq_factor = 1;
    check_refused(&r, "high_freq_factor");
    r.rope[0].low_freq_factor = 0;
    check_refused(&r, "low_freq_factor");
    r = llama3(16, 1e4, 8, 0);
    check_refused(&r, "original_max_position_embeddings");
    r = with_factor(16, 1e4, RWK_ROPE_YARN, 4, 0);
    check_refused(&r, "original_max_position_embeddings");
    r = with_factor(16, 1e4, RWK_ROPE_YARN, 4, 2048);
    r.rope[0].beta_fast = -1;
    check_refused(&r, "beta_fast");
    r.rope[0].beta_fast = 0;
    r.rope[0].beta_slow = NAN;
    check_refused(&r, "beta_slow");
    r.rope[0].beta_slow = 0;
    r.rope[0].attention_factor = -1;
    check_refused(&r, "attention_factor");
    r.rope[0].attention_factor = 0;
    r.rope[0].mscale = -100;
    r.rope[0].mscale_all_dim = 1;
    check_refused(&r, "mscale");
    r = with_factor(2, 1e4, RWK_ROPE_NTK, 4, 0); /* r - 2 divides */
    check_refused(&r, "head_dim");
    r = with_factor(16, 1e4, RWK_ROPE_DYNAMIC, 4, 0);
    r.max_position_embeddings = 0;
    check_refused(&r, "max_position_embeddings");
}
END_TEST

START_TEST(refuses_longrope_lists_that_do_not_fit)
{
    static const double zeros[4] = { 1, 1, 0, 1 };
    struct rwk_position_request r = longrope();
    r.rope[0].n_short = 3;
    check_refused(&r, "short_factor");
    r = longrope();
    r.rope[0].n_long = 5;
    check_refused(&r, "long_factor");
    r = longrope();
    r.rope[0].long_factor = zeros;
    check_refused(&r, "long_factor");
    r = longrope();
    r.rope[0].original_context = 1;
    check_refused(&r, "original_max_position_embeddings");
}
END_TEST

START_TEST(refusals_name_the_file)
{
    struct rwk_position_request r = rope_request(16, -1, RWK_ROPE_DEFAULT);
    r.file = "model/config.json";
    check_refused(&r, "rope_theta");
    ck_assert_str_eq(error.file, "model/config.json");
}
END_TEST

START_TEST(rope_type_names_go_both_ways)
{
    for (int t = 0; t < RWK_N_ROPE_TYPES; t++) {
        enum rwk_rope_type type = RWK_N_ROPE_TYPES;
        ck_assert(rwk_rope_type_parse(rwk_rope_type_name((enum rwk_rope_type)t), &type));
        ck_assert_int_eq(type, t);
    }
    enum rwk_rope_type type = RWK_ROPE_YARN;
    ck_assert(!rwk_rope_type_parse("YARN", &type) && !rwk_rope_type_parse("", &type));
    ck_assert_int_eq(type, RWK_ROPE_YARN);
}
END_TEST

/* ---- ALiBi ---- */

static struct rwk_position_request alibi(uint32_t n_heads)
{
    return (struct rwk_position_request) {
        .scheme = "alibi", .n_heads = n_heads, .alibi_bias_max = 8, .alibi_scale = 1
    };
}

static void check_slopes(const struct rwk_position_request *r, const float *expected, size_t n)
{
    struct rwk_position_plan plan = prepare(r);
    ck_assert_uint_eq(plan.n_heads, n);
    check_ulp(plan.slopes, expected, n);
}

START_TEST(alibi_slopes)
{
    struct rwk_position_request r = alibi(1);
    check_slopes(&r, FREQUENCIES(0.00390625f));
    r = alibi(4);
    check_slopes(&r, FREQUENCIES(.25f, .0625f, .015625f, .00390625f));
    r = alibi(6);
    check_slopes(&r, FREQUENCIES(.25f, .0625f, .015625f, .00390625f, .5f, .125f));
    r = alibi(8);
    check_slopes(&r,
                 FREQUENCIES(.5f, .25f, .125f, .0625f, .03125f, .015625f, .0078125f, .00390625f));
    r = alibi(12);
    check_slopes(&r, FREQUENCIES(.5f, .25f, .125f, .0625f, .03125f, .015625f, .0078125f, .00390625f,
                                 0.707106781f, 0.353553391f, 0.176776695f, 0.0883883476f));
    r = alibi(20);
    struct rwk_position_plan plan = prepare(&r);
    for (int h = 0; h < 16; h++)
        check_ulp(plan.slopes + h, (const float[]) { (float)pow(2, -(h + 1) / 2.0) }, 1);
    check_ulp(plan.slopes + 16,
              (const float[]) { 0.840896415f, 0.594603558f, 0.420448208f, 0.297301779f }, 4);
}
END_TEST

START_TEST(alibi_slopes_in_mpt_order)
{
    struct rwk_position_request r = alibi(12);
    r.alibi_mpt_order = true;
    check_slopes(&r, FREQUENCIES(.5f, .25f, .125f, .0625f, .03125f, .015625f, .0078125f, .00390625f,
                                 0.707106781f, 0.353553391f, 0.176776695f, 0.0883883476f));
    r.alibi_bias_max = 16;
    check_slopes(&r,
                 FREQUENCIES(.25f, .0625f, .015625f, .00390625f, .0009765625f, .000244140625f,
                             6.103515625e-05f, 1.52587891e-05f, .5f, .125f, .03125f, .0078125f));
    r = alibi(8);
    r.alibi_mpt_order = true;
    r.alibi_bias_max = 16;
    check_slopes(&r, FREQUENCIES(.25f, .0625f, .015625f, .00390625f, .0009765625f, .000244140625f,
                                 6.103515625e-05f, 1.52587891e-05f));
}
END_TEST

START_TEST(alibi_bias_is_slope_times_distance)
{
    struct rwk_position_request r = alibi(8);
    struct rwk_position_plan plan = prepare(&r);
    float bias[RWK_KEY_BLOCK];
    plan.scheme->bias(&plan, 2, 1000000, 999936, bias);
    for (int j = 0; j < RWK_KEY_BLOCK; j++)
        ck_assert(bias[j] == 0.125f * (float)(j - 64));
    plan.scheme->bias(&plan, 0, 10, 0, bias);
    for (int j = 0; j < RWK_KEY_BLOCK; j++)
        ck_assert(bias[j] == 0.5f * (float)(j - 10));
    ck_assert_uint_eq(plan.context, UINT64_MAX);
    r.max_position_embeddings = 2048;
    ck_assert_uint_eq(prepare(&r).context, 2048);
}
END_TEST

/* bfloat16 holds 8 bits: slope, key and product are each rounded, to even where halfway. */
START_TEST(alibi_in_bfloat16)
{
    struct rwk_position_request r = alibi(12);
    r.alibi_bf16 = true;
    struct rwk_position_plan plan = prepare(&r);
    float bias[RWK_KEY_BLOCK];
    ck_assert(plan.slopes[0] == 0.5f && plan.slopes[8] == 0.70703125f);
    plan.scheme->bias(&plan, 0, 300, 256, bias);
    ck_assert(bias[1] == 128 && bias[3] == 130);
    plan.scheme->bias(&plan, 8, 300, 256, bias);
    ck_assert(
        bias[1] ==
        181); /* 0.70703125 * 256; the exact product with 257 is 181.7, which would round to 182 */
    r.alibi_scale = 0.25f;
    plan = prepare(&r);
    plan.scheme->bias(&plan, 0, 300, 256, bias);
    ck_assert(bias[3] == 32.5f);
}
END_TEST

START_TEST(refuses_an_alibi_bias_maximum_of_no_use)
{
    static const double bad[] = { 0, -8, NAN, INFINITY };
    for (size_t i = 0; i < N(bad); i++) {
        struct rwk_position_request r = alibi(8);
        r.alibi_bias_max = bad[i];
        check_refused(&r, "alibi_bias_max");
    }
}
END_TEST

START_TEST(out_of_memory_is_reported)
{
    struct rwk_position_request requests[] = { alibi(4096),
                                               rope_request(512, 1e4, RWK_ROPE_DEFAULT),
                                               { .scheme = "sinusoidal", .hidden_size = 4096 } };
    struct rwk_memory tight;
    struct rwk_arena small = { .memory = &tight };
    struct rwk_position_plan plan;
    rwk_memory_init(&tight, NULL, 16);
    for (size_t i = 0; i < N(requests); i++)
        ck_assert_int_eq(rwk_position_prepare(&plan, &requests[i], &small, &error),
                         RWK_STATUS_NOMEM);
    rwk_arena_finish(&small);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        none_has_no_hooks_and_no_bound,
        learned_is_bounded_by_its_rows,
        unknown_schemes_are_unsupported,
        sinusoidal_interleaved,
        sinusoidal_halves,
        sinusoidal_fairseq_counts_from_two,
        sinusoidal_frequencies,
        sinusoidal_adds_and_leaves_an_odd_last_element,
        default_frequencies,
        partial_rotation_takes_exponents_over_the_rotated_part,
        linear_frequencies,
        dynamic_frequencies_grow_with_the_length,
        dynamic_theta_at_known_lengths,
        dynamic_epochs,
        ntk_frequencies,
        ntk_leaves_the_first_and_divides_the_last_frequency,
        llama3_frequencies,
        llama3_blends_three_pairs_of_a_head_of_64,
        yarn_frequencies,
        yarn_bounds_of_a_head_of_64,
        yarn_ramp_may_end_beyond_the_last_pair,
        yarn_attention_factor,
        yarn_takes_the_ratio_of_contexts_only_without_a_factor,
        yarn_survives_equal_bounds,
        longrope_has_two_sets_of_frequencies,
        longrope_attention_factor,
        tables_of_several_kinds_share_an_epoch,
        rotates_halves,
        rotates_pairs,
        partial_rotation_pairs_inside_the_rotated_part,
        angles_hold_up_to_a_million_positions,
        context_of_the_config_counts_its_extension_already,
        context_of_the_caller_is_factor_times_trained,
        huge_contexts_do_not_overflow,
        refuses_rotary_dimensions_that_do_not_pair_up,
        refuses_theta_that_is_no_positive_number,
        refuses_factors_that_are_no_positive_number,
        refuses_what_a_scaling_cannot_use,
        refuses_longrope_lists_that_do_not_fit,
        refusals_name_the_file,
        rope_type_names_go_both_ways,
        alibi_slopes,
        alibi_slopes_in_mpt_order,
        alibi_bias_is_slope_times_distance,
        alibi_in_bfloat16,
        refuses_an_alibi_bias_maximum_of_no_use,
        out_of_memory_is_reported,
    };
    Suite *suite = suite_create("position");
    TCase *tcase = tcase_create("position");
    tcase_add_checked_fixture(tcase, setup, teardown);
    for (size_t i = 0; i < N(tests); i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
