/* A NaN or an infinity in the weights: it is reported where a number is wanted, never sampled or
 * scored in silence. */
#include "malformed.h"

#include <math.h>
#include <stdint.h>

#define CHECKPOINTS RWK_TEST_DATA "/checkpoints/"

enum { N_IDS = 6 };

static const uint32_t ids[N_IDS] = { 3, 5, 7, 9, 11, 13 };

static struct good_directory good;

static void setup(void) { scratch_open(); }

static void teardown(void)
{
    good_free(&good);
    scratch_close();
}

static bool all_finite(const float *logits, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return false;
    return true;
}

/* Draws from the logits after the ids in every way; all must agree on whether there is something to
 * draw from. */
static bool draws(const float *logits, size_t n)
{
    static const struct {
        double temperature, top_p, min_p, penalty;
        int32_t top_k;
    } ways[] = { { 0, 1, 0, 1, 0 },
                 { 1, 1, 0, 1, 0 },
                 { 0.5, 0.9, 0, 1, 0 },
                 { 2, 1, 0.1, 1.2, 5 },
                 { 0, 1, 0, 1.5, 0 } };
    enum rwk_status expected = all_finite(logits, n) ? RWK_STATUS_OK : RWK_STATUS_NUMERIC;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct rwk_sampler_options options;
        struct rwk_sampler *sampler = NULL;
        struct rwk_sample sample = { .token = 12345 };
        struct rwk_error error = { .size = sizeof error };
        rwk_sampler_options_init(&options);
        options.temperature = ways[i].temperature;
        options.top_p = ways[i].top_p;
        options.min_p = ways[i].min_p;
        options.repetition_penalty = ways[i].penalty;
        options.top_k = ways[i].top_k;
        ck_assert_int_eq(rwk_sampler_create(&sampler, &options, NULL), RWK_STATUS_OK);
        ck_assert_int_eq(rwk_sampler_sample(sampler, logits, n, ids, N_IDS, &sample, &error),
                         expected);
        ck_assert(!expected || (sample.token == 12345 && strstr(error.message, "finite")));
        rwk_sampler_close(&sampler);
    }
    return expected == RWK_STATUS_OK;
}

/* Evaluates, draws, scores; false where the numbers were refused. */
static bool use_model(const char *what)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_model *model = NULL;
    struct rwk_session *session = NULL;
    struct rwk_model_info info = { .size = sizeof info };
    double scores[N_IDS - 1];
    ck_assert_msg(!rwk_model_open(&model, scratch, NULL, &error), "%s", error.message);
    rwk_model_get_info(model, &info);
    ck_assert_int_eq(rwk_session_create(&session, model, NULL, &error), RWK_STATUS_OK);
    ck_assert_int_eq(rwk_session_eval(session, ids, N_IDS, RWK_EVAL_ALL_LOGITS, NULL, &error),
                     RWK_STATUS_OK);
    bool finite = true, last = true;
    for (size_t i = 0; i < N_IDS; i++) {
        last = draws(rwk_session_logits(session, i), info.vocab_size);
        finite &= last || i == N_IDS - 1;
    }
    ck_assert_int_eq(rwk_session_rewind(session, 0, NULL), RWK_STATUS_OK);
    enum rwk_status status = rwk_session_score(session, ids, N_IDS, scores, &error);
    ck_assert_msg(finite ? !status : status == RWK_STATUS_NUMERIC, "%s: %s", what,
                  rwk_status_name(status));
    ck_assert_uint_eq(rwk_session_position(session), status ? 0 : N_IDS);
    for (int i = 0; i < N_IDS - 1; i++)
        ck_assert(status || isfinite(scores[i]));
    rwk_session_close(&session);
    rwk_model_close(&model);
    return finite && last;
}

/* Where the data begin, in the mapping and in the file. */
static const char *first_data(const struct good_file *f, const struct rwk_tensor_file *weights,
                              size_t *ret_offset)
{
    const char *first = NULL;
    uint64_t header;
    for (size_t i = 0; i < rwk_tensor_file_n_tensors(weights); i++) {
        struct rwk_tensor_info t = { 0 };
        rwk_tensor_file_get(weights, i, &t);
        first = !first || (const char *)t.data < first ? t.data : first;
    }
    memcpy(&header, f->data, 8);
    *ret_offset = 8 + (size_t)header;
    return first;
}

static const char *const names[] = { "gpt2", "llama-mha", "bloom" };

START_TEST(what_is_no_number_is_not_sampled)
{
    static const uint32_t values[] = { 0x7fc00000u, 0x7f800000u, 0xff800000u,
                                       0x7f800001u }; /* NaN, inf, -inf, signalling */
    char path[256];
    struct rwk_tensor_file *weights = NULL;
    size_t n_refused = 0;
    snprintf(path, sizeof path, CHECKPOINTS "%s", names[_i]);
    good_read(&good, path);
    good_write(&good);
    ck_assert(use_model(names[_i]));
    snprintf(path, sizeof path, CHECKPOINTS "%s/model.safetensors", names[_i]);
    ck_assert_int_eq(rwk_tensor_file_open(&weights, path, NULL, NULL), RWK_STATUS_OK);
    const struct good_file *f = good_find(&good, "model.safetensors");
    unsigned char *spoiled = malloc(f->size);
    size_t data_begin;
    const char *first = first_data(f, weights, &data_begin);
    for (size_t i = 0; i < rwk_tensor_file_n_tensors(weights); i++) {
        struct rwk_tensor_info t = { 0 };
        rwk_tensor_file_get(weights, i, &t);
        if (t.dtype != RWK_DTYPE_F32)
            continue;
        size_t offset = data_begin + (size_t)((const char *)t.data - first) + t.n_bytes / 8 * 4;
        memcpy(spoiled, f->data, f->size);
        memcpy(spoiled + offset, &values[i % 4], 4);
        scratch_write("model.safetensors", spoiled, f->size);
        n_refused += !use_model(t.name);
    }
    ck_assert_uint_gt(n_refused,
                      rwk_tensor_file_n_tensors(weights) / 2); /* not all reach the logits */
    free(spoiled);
    rwk_tensor_file_close(&weights);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nonfinite");
    TCase *tcase = tcase_create("nonfinite");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, what_is_no_number_is_not_sampled, 0, sizeof names / sizeof *names);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
