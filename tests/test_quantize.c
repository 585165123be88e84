/* Quantised weights: near the weights that they stand for, the same bits however the work is cut
 * and wherever it was quantised (at load, or into a directory), and every choice that cannot be had
 * refused.
 *
 * Nearness. Rounding to 8 bits moves a weight by at most 1/510 of its block's range, to 4 bits by
 * 1/30; the models are random and small, so that much of a logit cancels and errors show. In the
 * Euclidean norm the logits of the checkpoints here move by at most 0.036 with 8 bits and 0.52 with
 * 4 (unrelated logits would by 1.4). The bounds, 0.05 and 0.7, find a wrong scale, layout or half,
 * not a lost bit, which tests/checkkernels finds. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "checkpoint.h"
#include "scratch.h"

enum { N_TOKENS = 40 };

static const char *const cases[] = {
    "llama-mha",
    "llama-tied-bias",
    "llama-headdim",
    "gpt2",
    "gpt2-untied-noscale",
    "bloom",
    "phi3-partial",
    "gemma2",
    "opt-350m-style",
    "falcon-new",
    "glm",
    "gptj",
    "mpt",
    "llama-bf16-sharded",
    "gpt2-f16-sharded",
};
static const struct {
    uint32_t weights;
    double bound;
} types[] = { { RWK_WEIGHTS_Q8, 0.05 }, { RWK_WEIGHTS_Q4, 0.7 } };

static struct rwk_model *open_weights(const char *path, uint32_t weights, struct rwk_pool *pool)
{
    struct rwk_model_options options;
    struct rwk_model *model = NULL;
    rwk_model_options_init(&options);
    options.weights = weights;
    options.pool = pool;
    ck_assert_msg(rwk_model_open(&model, path, &options, &failure) == RWK_STATUS_OK, "%s: %s", path,
                  failure.message);
    return model;
}

/* Logits [N_TOKENS][vocab] of a fixed sequence; the caller frees them. */
static float *logits_of(struct rwk_model *model, uint32_t chunk, struct rwk_pool *pool,
                        uint32_t activations, size_t *ret_vocab)
{
    struct rwk_model_info info = { .size = sizeof info };
    struct rwk_session_options options;
    uint32_t tokens[N_TOKENS];
    ck_assert_int_eq(rwk_model_get_info(model, &info), RWK_STATUS_OK);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (i * 37 + 5) % info.vocab_size;
    rwk_session_options_init(&options);
    options.kv_type = RWK_KV_F32;
    options.context = N_TOKENS;
    options.chunk = chunk;
    options.pool = pool;
    options.activations = activations;
    struct rwk_session *session = open_session(model, &options);
    ck_assert_msg(rwk_session_eval(session, tokens, N_TOKENS, RWK_EVAL_ALL_LOGITS, NULL,
                                   &failure) == RWK_STATUS_OK,
                  "%s", failure.message);
    float *all = malloc((size_t)N_TOKENS * info.vocab_size * sizeof *all);
    for (size_t i = 0; i < N_TOKENS; i++)
        memcpy(all + i * info.vocab_size, rwk_session_logits(session, i),
               info.vocab_size * sizeof *all);
    rwk_session_close(&session);
    *ret_vocab = info.vocab_size;
    return all;
}

/* |a - b| / |a| in the Euclidean norm. */
static double distance(const float *a, const float *b, size_t n)
{
    double size = 0, apart = 0;
    for (size_t i = 0; i < n; i++) {
        size += (double)a[i] * (double)a[i];
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return sqrt(apart / size);
}

START_TEST(near_the_weights_and_the_same_however_cut)
{
    static const uint32_t chunks[] = { 1, 3, 7, 64 };
    struct rwk_pool *pool = NULL;
    size_t vocab;
    ck_assert_int_eq(rwk_pool_create(&pool, 3, NULL, &failure), RWK_STATUS_OK);
    struct rwk_model *stored =
        open_weights(checkpoint_path(cases[_i]), RWK_WEIGHTS_AS_STORED, NULL);
    float *exact = logits_of(stored, 0, NULL, RWK_ACTIVATIONS_AUTO, &vocab);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct rwk_model *alone = open_weights(checkpoint_path(cases[_i]), types[t].weights, NULL);
        struct rwk_model *pooled = open_weights(checkpoint_path(cases[_i]), types[t].weights, pool);
        float *first = logits_of(alone, 0, NULL, RWK_ACTIVATIONS_AUTO, &vocab);
        float *wide = logits_of(alone, 0, NULL, RWK_ACTIVATIONS_F32, &vocab);
        size_t n = N_TOKENS * vocab;
        ck_assert_msg(memcmp(first, exact, n * sizeof *first) != 0, "%s: nothing was quantised",
                      cases[_i]);
        ck_assert_msg(memcmp(first, wide, n * sizeof *first) != 0, "%s: activations are the same",
                      cases[_i]);
        ck_assert_msg(distance(exact, first, n) < types[t].bound, "%s: %g", cases[_i],
                      distance(exact, first, n));
        ck_assert_msg(distance(exact, wide, n) < types[t].bound, "%s wide: %g", cases[_i],
                      distance(exact, wide, n));
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            float *again = logits_of(pooled, chunks[c], pool, RWK_ACTIVATIONS_INT8, &vocab);
            ck_assert_msg(memcmp(first, again, n * sizeof *first) == 0,
                          "%s: other bits in chunks of %u", cases[_i], chunks[c]);
            free(again);
            again = logits_of(pooled, chunks[c], pool, RWK_ACTIVATIONS_F32, &vocab);
            ck_assert_msg(memcmp(wide, again, n * sizeof *first) == 0,
                          "%s: other bits in chunks of %u", cases[_i], chunks[c]);
            free(again);
        }
        free(first);
        free(wide);
        rwk_model_close(&alone);
        rwk_model_close(&pooled);
    }
    free(exact);
    rwk_model_close(&stored);
    rwk_pool_close(&pool);
}
END_TEST

/* Directories below the scratch directory. */
static const char *output_path(void)
{
    return scratch_path("quantised");
}
static void remove_output(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", output_path());
    ck_assert_int_eq(system(command), 0);
}

static enum rwk_status quantize(const char *from, uint32_t weights)
{
    struct rwk_model_options options;
    rwk_model_options_init(&options);
    options.weights = weights;
    return rwk_quantize(from, output_path(), &options, &failure);
}

START_TEST(a_quantised_directory_gives_the_same_bits)
{
    size_t vocab;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct rwk_model_info loaded = { .size = sizeof loaded },
                              written = { .size = sizeof written };
        scratch_open();
        ck_assert_msg(quantize(checkpoint_path(cases[_i]), types[t].weights) == RWK_STATUS_OK,
                      "%s: %s", cases[_i], failure.message);
        struct rwk_model *at_load =
            open_weights(checkpoint_path(cases[_i]), types[t].weights, NULL);
        struct rwk_model *in_place = open_weights(output_path(), RWK_WEIGHTS_AS_STORED, NULL);
        float *a = logits_of(at_load, 0, NULL, RWK_ACTIVATIONS_AUTO, &vocab);
        float *b = logits_of(in_place, 5, NULL, RWK_ACTIVATIONS_AUTO, &vocab);
        ck_assert_msg(memcmp(a, b, N_TOKENS * vocab * sizeof *a) == 0, "%s", cases[_i]);
        ck_assert_int_eq(rwk_model_get_info(at_load, &loaded), RWK_STATUS_OK);
        ck_assert_int_eq(rwk_model_get_info(in_place, &written), RWK_STATUS_OK);
        ck_assert_msg(loaded.n_parameters == written.n_parameters, "%s: %llu parameters, and %llu",
                      cases[_i], (unsigned long long)loaded.n_parameters,
                      (unsigned long long)written.n_parameters);
        ck_assert(written.copied_bytes < loaded.copied_bytes); /* used where they lie */
        free(a);
        free(b);
        rwk_model_close(&at_load);
        rwk_model_close(&in_place);
        remove_output();
        scratch_close();
    }
}
END_TEST

START_TEST(what_cannot_be_had_is_refused)
{
    struct rwk_model_options options;
    struct rwk_session_options session_options;
    struct rwk_model *model = NULL;
    struct rwk_session *session = NULL;
    scratch_open();
    ck_assert_int_eq(quantize(checkpoint_path("gpt2"), RWK_WEIGHTS_AS_STORED), RWK_STATUS_RANGE);
    ck_assert_int_eq(quantize(checkpoint_path("no-such-model"), RWK_WEIGHTS_Q8), RWK_STATUS_IO);
    ck_assert_int_eq(quantize(checkpoint_path("gpt2"), RWK_WEIGHTS_Q8), RWK_STATUS_OK);
    ck_assert_int_eq(quantize(checkpoint_path("gpt2"), RWK_WEIGHTS_Q8),
                     RWK_STATUS_IO); /* a model lies there */

    rwk_model_options_init(&options);
    options.weights = RWK_WEIGHTS_Q4; /* of files of 8 bits */
    ck_assert_int_eq(rwk_model_open(&model, output_path(), &options, &failure),
                     RWK_STATUS_UNSUPPORTED);
    options.weights = RWK_WEIGHTS_Q8;
    ck_assert_int_eq(rwk_model_open(&model, output_path(), &options, &failure), RWK_STATUS_OK);
    rwk_model_close(&model);

    model = open_weights(checkpoint_path("gpt2"), RWK_WEIGHTS_AS_STORED, NULL);
    rwk_session_options_init(&session_options);
    session_options.activations = RWK_ACTIVATIONS_INT8; /* beside weights in floating point */
    ck_assert_int_eq(rwk_session_create(&session, model, &session_options, &failure),
                     RWK_STATUS_UNSUPPORTED);
    rwk_model_close(&model);
    remove_output();
    scratch_close();
}
END_TEST

/* Replaces the first `from` of a file by `to`, which is as long. */
static void patch(const char *name, const char *from, const char *to)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", output_path(), name);
    FILE *file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    static char text[1 << 16];
    size_t size = fread(text, 1, sizeof text, file);
    char *at = memmem(text, size, from, strlen(from));
    ck_assert_msg(at != NULL, "%s has no %s", name, from);
    memcpy(at, to, strlen(to));
    rewind(file);
    ck_assert_uint_eq(fwrite(text, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

static const struct {
    const char *file, *from, *to;
    enum rwk_status status;
} spoils[] = {
    { "config.json", "\"bits\": 8", "\"bits\": 4", RWK_STATUS_MISMATCH }, /* the shape says */
    { "config.json", "\"bits\": 8", "\"bits\": 7", RWK_STATUS_FORMAT },
    { "config.json", "\"ropewalk\"", "\"ropewolk\"", RWK_STATUS_UNSUPPORTED },
    { "config.json", "quantization_config", "quantisation_config", RWK_STATUS_MISMATCH },
    { "model.safetensors", ".scales", ".scalex", RWK_STATUS_MISMATCH },
    { "model.safetensors", "\"F16\"", "\"I16\"", RWK_STATUS_MISMATCH },
    { "model.safetensors", "\"U8\"", "\"I8\"", RWK_STATUS_MISMATCH },
};

START_TEST(spoiled_directories_are_refused)
{
    struct rwk_model *model = NULL;
    scratch_open();
    ck_assert_int_eq(quantize(checkpoint_path("gpt2"), RWK_WEIGHTS_Q8), RWK_STATUS_OK);
    patch(spoils[_i].file, spoils[_i].from, spoils[_i].to);
    enum rwk_status status = rwk_model_open(&model, output_path(), NULL, &failure);
    ck_assert_msg(status == spoils[_i].status, "%s: %s: %s", spoils[_i].to, rwk_status_name(status),
                  status ? failure.message : "opened");
    ck_assert_ptr_null(model);
    remove_output();
    scratch_close();
}
END_TEST

static int stop_at_once(void *data, uint64_t done, uint64_t total)
{
    int *calls = data;
    ck_assert(done <= total);
    return ++*calls >= 2;
}

START_TEST(quantising_can_be_cancelled)
{
    struct rwk_model_options options;
    struct rwk_model *model = NULL;
    int calls = 0;
    scratch_open();
    rwk_model_options_init(&options);
    options.weights = RWK_WEIGHTS_Q4;
    options.progress = stop_at_once;
    options.progress_data = &calls;
    ck_assert_int_eq(rwk_model_open(&model, checkpoint_path("llama-mha"), &options, &failure),
                     RWK_STATUS_CANCELLED);
    ck_assert_ptr_null(model);
    calls = 0;
    ck_assert_int_eq(rwk_quantize(checkpoint_path("llama-mha"), output_path(), &options, &failure),
                     RWK_STATUS_CANCELLED);
    ck_assert_int_ne(access(scratch_path("quantised/model.safetensors"), F_OK), 0);
    remove_output();
    scratch_close();
}
END_TEST

/* A cache of 8 bits: 1/254 of a block's greatest number, softened by the softmax; twice the worst
 * seen here. */
START_TEST(quantised_cache)
{
    struct rwk_model *model = open_weights(checkpoint_path(cases[_i]), RWK_WEIGHTS_AS_STORED, NULL);
    struct rwk_model_info info = { .size = sizeof info };
    ck_assert_int_eq(rwk_model_get_info(model, &info), RWK_STATUS_OK);
    float *logits[3];
    for (int run = 0; run < 3; run++) {
        uint32_t tokens[N_TOKENS];
        struct rwk_session_options options;
        rwk_session_options_init(&options);
        options.kv_type = run == 0 ? RWK_KV_F32 : RWK_KV_Q8;
        options.context = N_TOKENS;
        options.chunk = run == 2 ? 3 : 0;
        struct rwk_session *session = open_session(model, &options);
        for (uint32_t i = 0; i < N_TOKENS; i++)
            tokens[i] = (i * 37 + 5) % info.vocab_size;
        ck_assert_int_eq(rwk_session_eval(session, tokens, N_TOKENS, 0, NULL, &failure),
                         RWK_STATUS_OK);
        logits[run] = malloc(info.vocab_size * sizeof(float));
        memcpy(logits[run], rwk_session_logits(session, N_TOKENS - 1),
               info.vocab_size * sizeof(float));
        rwk_session_close(&session);
    }
    ck_assert_msg(distance(logits[0], logits[1], info.vocab_size) < 0.05, "%s: %g", cases[_i],
                  distance(logits[0], logits[1], info.vocab_size));
    ck_assert_int_ne(memcmp(logits[0], logits[1], info.vocab_size * sizeof(float)), 0);
    ck_assert_int_eq(memcmp(logits[1], logits[2], info.vocab_size * sizeof(float)), 0);
    for (int run = 0; run < 3; run++)
        free(logits[run]);
    rwk_model_close(&model);
}
END_TEST

int main(void)
{
    const int n = sizeof cases / sizeof *cases;
    Suite *suite = suite_create("quantize");
    TCase *tcase = tcase_create("weights");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, near_the_weights_and_the_same_however_cut, 0, n);
    tcase_add_loop_test(tcase, a_quantised_directory_gives_the_same_bits, 0, n);
    tcase_add_loop_test(tcase, quantised_cache, 0, n);
    tcase_add_test(tcase, what_cannot_be_had_is_refused);
    tcase_add_loop_test(tcase, spoiled_directories_are_refused, 0,
                        sizeof spoils / sizeof *spoils);
    tcase_add_test(tcase, quantising_can_be_cancelled);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
