/* Context extension through the public API: schemes whose frequencies depend on the length give at
 * every step the bits of one pass over the whole sequence, learned positions end before the work,
 * and a choice that cannot be meant is refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>

#define N(array) (sizeof(array) / sizeof *(array))

enum { VOCAB = 101, LONGEST = 96 };

static struct rwk_error error = { .size = sizeof error };

/* Where the frequencies change: beyond `original` tokens, once or at every step. */
static const struct scheme {
    const char *checkpoint, *rope_scaling;
    uint64_t original_context; /* the option */
    size_t original;
} schemes[] = {
    { "llama-dynamic", NULL, 0, 64 },
    { "llama-longrope-short", NULL, 0, 32 },
    { "llama-mha", "dynamic:2", 40, 40 },
    { "gpt_neox", "dynamic:4", 24, 24 }, /* partial rotation */
    { "llama-headdim",
      "{\"rope_type\": \"longrope\", \"short_factor\": [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2], "
      "\"long_factor\": [1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8], "
      "\"original_max_position_embeddings\": 48}",
      0, 48 },
    { "mistral-window", "dynamic:4", 24, 24 }, /* keys are dropped as the window slides */
};

static uint32_t token_at(size_t i) { return 3 + (uint32_t)(i * i * 7 + i) % 90; }

static void fill(uint32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tokens[i] = token_at(i);
}

static enum rwk_status try_open(struct rwk_model **model, const char *checkpoint,
                                const char *rope_scaling, double theta, uint64_t original)
{
    char path[512];
    struct rwk_model_options options;
    rwk_model_options_init(&options);
    options.rope_scaling = rope_scaling;
    options.rope_theta = theta;
    options.original_context = original;
    snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%s", checkpoint);
    return rwk_model_open(model, path, &options, &error);
}

static struct rwk_model *open_scheme(const struct scheme *s)
{
    struct rwk_model *model = NULL;
    struct rwk_model_info info = { .size = sizeof info };
    enum rwk_status status =
        try_open(&model, s->checkpoint, s->rope_scaling, 0, s->original_context);
    ck_assert_msg(status == RWK_STATUS_OK, "%s: %s", s->checkpoint, error.message);
    ck_assert_int_eq(rwk_model_get_info(model, &info), RWK_STATUS_OK);
    ck_assert_uint_eq(info.vocab_size, VOCAB);
    return model;
}

static struct rwk_session *open_session(struct rwk_model *model)
{
    struct rwk_session *session = NULL;
    struct rwk_session_options options;
    rwk_session_options_init(&options);
    options.context = LONGEST;
    options.chunk = 16;
    ck_assert_msg(rwk_session_create(&session, model, &options, &error) == RWK_STATUS_OK, "%s",
                  error.message);
    return session;
}

static void eval(struct rwk_session *session, const uint32_t *tokens, size_t n)
{
    ck_assert_msg(rwk_session_eval(session, tokens, n, 0, NULL, &error) == RWK_STATUS_OK, "%s",
                  error.message);
}

/* ret_last[n - 1][VOCAB]: the last logits of a fresh session that evaluates n tokens at once. */
static float (*one_pass(struct rwk_model *model))[VOCAB]
{
    uint32_t tokens[LONGEST];
    float(*last)[VOCAB] = malloc(LONGEST * sizeof *last);
    fill(tokens, LONGEST);
    for (size_t n = 1; n <= LONGEST; n++) {
        struct rwk_session *session = open_session(model);
        eval(session, tokens, n);
        memcpy(last[n - 1], rwk_session_logits(session, n - 1), sizeof *last);
        rwk_session_close(&session);
    }
    return last;
}

static void check_same(const float *logits, const float *expected, const char *what, size_t n)
{
    ck_assert_msg(logits && memcmp(logits, expected, VOCAB * sizeof *logits) == 0,
                  "%s: other bits than one pass over %zu tokens", what, n);
}

START_TEST(steps_and_chunks_give_the_bits_of_one_pass)
{
    static const size_t strides[] = { 1, 2, 7, 31 };
    const struct scheme *s = &schemes[_i];
    struct rwk_model *model = open_scheme(s);
    float(*expected)[VOCAB] = one_pass(model);
    uint32_t tokens[LONGEST];
    fill(tokens, LONGEST);
    for (size_t k = 0; k < N(strides); k++) {
        struct rwk_session *session = open_session(model);
        for (size_t n = 0; n < LONGEST;) {
            size_t step = strides[k] < LONGEST - n ? strides[k] : LONGEST - n;
            eval(session, tokens + n, step);
            n += step;
            check_same(rwk_session_logits(session, step - 1), expected[n - 1], s->checkpoint, n);
        }
        rwk_session_close(&session);
    }
    free(expected);
    rwk_model_close(&model);
}
END_TEST

/* The frequencies do change in these tests: with the first ones kept, the logits beyond the
 * original length would be those of the plain model. */
START_TEST(the_switch_is_noticed)
{
    const struct scheme *s = &schemes[_i];
    struct rwk_model *model = open_scheme(s), *plain = NULL;
    float(*extended)[VOCAB] = one_pass(model);
    ck_assert_int_eq(try_open(&plain, s->checkpoint, "none", 0, 0), RWK_STATUS_OK);
    float(*fixed)[VOCAB] = one_pass(plain);
    ck_assert_int_ne(memcmp(extended[s->original], fixed[s->original], sizeof *fixed), 0);
    if (strstr(s->checkpoint, "longrope") == NULL && !(s->rope_scaling && *s->rope_scaling == '{'))
        ck_assert_int_eq(memcmp(extended[s->original - 1], fixed[s->original - 1], sizeof *fixed),
                         0); /* dynamic begins as the plain model */
    free(extended);
    free(fixed);
    rwk_model_close(&model);
    rwk_model_close(&plain);
}
END_TEST

START_TEST(a_short_prompt_after_a_long_one_is_as_in_a_fresh_session)
{
    const struct scheme *s = &schemes[_i];
    struct rwk_model *model = open_scheme(s);
    float(*expected)[VOCAB] = one_pass(model);
    uint32_t tokens[LONGEST];
    size_t shorter = s->original / 2, reused;
    fill(tokens, LONGEST);
    struct rwk_session *session = open_session(model);
    for (int way = 0; way < 3; way++) {
        eval(session, tokens, LONGEST);
        if (way == 0) { /* from the start */
            ck_assert_int_eq(rwk_session_rewind(session, 0, &error), RWK_STATUS_OK);
            eval(session, tokens, shorter);
        } else if (way == 1) { /* keeping most of the prompt */
            enum rwk_status status = rwk_session_rewind(session, shorter - 1, &error);
            if (status == RWK_STATUS_UNSUPPORTED) { /* a window that has dropped keys */
                ck_assert_int_eq(rwk_session_rewind(session, 0, &error), RWK_STATUS_OK);
                continue;
            }
            ck_assert_int_eq(status, RWK_STATUS_OK);
            eval(session, tokens + shorter - 1, 1);
        } else { /* as a host does that sends whole prompts */
            ck_assert_msg(rwk_session_sync(session, tokens, shorter, &reused, &error) ==
                              RWK_STATUS_OK, "%s", error.message);
        }
        ck_assert_uint_eq(rwk_session_position(session), shorter);
        check_same(rwk_session_logits(session, way == 0 ? shorter - 1 : 0), expected[shorter - 1],
                   s->checkpoint, shorter);
        eval(session, tokens + shorter, LONGEST - shorter); /* and long again */
        check_same(rwk_session_logits(session, LONGEST - shorter - 1), expected[LONGEST - 1],
                   s->checkpoint, LONGEST);
        ck_assert_int_eq(rwk_session_rewind(session, 0, &error), RWK_STATUS_OK);
    }
    rwk_session_close(&session);
    free(expected);
    rwk_model_close(&model);
}
END_TEST

/* ---- learned positions ---- */

static int count_progress(void *user_data, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    ++*(int *)user_data;
    return 0;
}

START_TEST(learned_positions_end_before_the_work)
{
    struct rwk_model *model = NULL;
    struct rwk_session *session = NULL;
    struct rwk_model_info info = { .size = sizeof info };
    struct rwk_session_options options;
    int n_calls = 0;
    ck_assert_int_eq(try_open(&model, "gpt2", NULL, 0, 0), RWK_STATUS_OK);
    ck_assert_int_eq(rwk_model_get_info(model, &info), RWK_STATUS_OK);
    uint64_t rows = info.context_limit;
    ck_assert(rows > 1 && rows < 1000);
    rwk_session_options_init(&options);
    options.context = rows + 1;
    ck_assert_int_eq(rwk_session_create(&session, model, &options, &error), RWK_STATUS_RANGE);
    ck_assert_ptr_null(session);
    options.context = rows;
    options.chunk = 1;
    options.progress = count_progress;
    options.progress_data = &n_calls;
    ck_assert_int_eq(rwk_session_create(&session, model, &options, &error), RWK_STATUS_OK);
    uint32_t *tokens = malloc((rows + 1) * sizeof *tokens);
    fill(tokens, rows + 1);
    ck_assert_int_eq(rwk_session_eval(session, tokens, rows + 1, 0, NULL, &error),
                     RWK_STATUS_CONTEXT_FULL);
    ck_assert_int_eq(n_calls, 0);
    ck_assert_uint_eq(rwk_session_position(session), 0);
    eval(session, tokens, rows);
    ck_assert_int_gt(n_calls, 0);
    ck_assert_int_eq(rwk_session_eval(session, tokens, 1, 0, NULL, &error),
                     RWK_STATUS_CONTEXT_FULL);
    ck_assert_uint_eq(rwk_session_position(session), rows);
    free(tokens);
    rwk_session_close(&session);
    rwk_model_close(&model);
}
END_TEST

/* ---- refusals ---- */

static const struct refusal {
    const char *checkpoint, *rope_scaling;
    double theta;
    uint64_t original_context;
    const char *option, *reason;
} refusals[] = {
    { "gpt2", "yarn:4", 0, 0, "rope-scaling", "does not apply to learned positions" },
    { "gpt2", NULL, 1e6, 0, "rope-theta", "does not apply to learned positions" },
    { "bloom", "linear:2", 0, 0, "rope-scaling", "does not apply to alibi positions" },
    { "xglm", "none", 0, 0, "rope-scaling", "does not apply to sinusoidal positions" },
    { "llama-mha", "none", 0, 32, "original-context", "has no effect" },
    { "llama-mha", NULL, 0, 32, "original-context", "has no effect" },
    { "llama-mha", "{\"rope_type\": \"ntk\", \"factor\": 2, \"rope_theta\": 5e4}", 1e6, 0,
      "rope-theta", "given twice" },
    { "llama-mha",
      "{\"rope_type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 32}", 0, 64,
      "original-context", "given twice" },
    { "llama-mha", "{\"rope_type\": \"linear\", \"factor\": 2, \"beta_fast\": 8}", 0, 0,
      "rope-scaling", "has no effect" },
    { "llama-mha", "yarn:0.5", 0, 0, "rope-scaling", "below 1" },
};

START_TEST(choices_that_contradict_or_do_not_apply_are_refused)
{
    const struct refusal *r = &refusals[_i];
    char path[512];
    struct rwk_model *model = NULL;
    struct rwk_position_plan *plan = NULL;
    struct rwk_model_options options;
    enum rwk_status status =
        try_open(&model, r->checkpoint, r->rope_scaling, r->theta, r->original_context);
    ck_assert_msg(status == RWK_STATUS_RANGE, "opened with %s %s", r->option, r->rope_scaling);
    ck_assert_ptr_null(model);
    ck_assert_str_eq(error.subject, r->option);
    ck_assert_msg(strstr(error.message, r->reason) != NULL, "%s", error.message);
    /* the same without weights */
    rwk_model_options_init(&options);
    options.rope_scaling = r->rope_scaling;
    options.rope_theta = r->theta;
    options.original_context = r->original_context;
    snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%s/config.json", r->checkpoint);
    ck_assert_int_eq(rwk_position_resolve(&plan, path, &options, &error), status);
    ck_assert_ptr_null(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("extension");
    TCase *tcase = tcase_create("extension");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, steps_and_chunks_give_the_bits_of_one_pass, 0, (int)N(schemes));
    tcase_add_loop_test(tcase, the_switch_is_noticed, 0, (int)N(schemes));
    tcase_add_loop_test(tcase, a_short_prompt_after_a_long_one_is_as_in_a_fresh_session, 0,
                        (int)N(schemes));
    tcase_add_test(tcase, learned_positions_end_before_the_work);
    tcase_add_loop_test(tcase, choices_that_contradict_or_do_not_apply_are_refused, 0,
                        (int)N(refusals));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
