/* One sequence however it came about: in one pass, in any chunks, token by token, after a longer
 * one, after a rewind. Always the same bits. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>

enum { N = 40, LONG = 60 };

static const char *const names[] = { "gpt2",
                                     "llama-mha",
                                     "bloom",
                                     "mistral-window",
                                     "gemma3_text",
                                     "llama-dynamic",
                                     "llama-longrope-short",
                                     "xglm",
                                     "mpt" };

static struct rwk_model *model;
static uint32_t vocab, tokens[LONG];
static float *expected; /* after each of tokens[0..N), in one pass */

static struct rwk_session *open_session(uint32_t chunk)
{
    struct rwk_session_options options;
    struct rwk_session *session = NULL;
    rwk_session_options_init(&options);
    options.context = LONG;
    options.chunk = chunk;
    ck_assert_int_eq(rwk_session_create(&session, model, &options, NULL), RWK_STATUS_OK);
    return session;
}

static void eval(struct rwk_session *session, const uint32_t *ids, size_t n)
{
    struct rwk_error error = { .size = sizeof error };
    ck_assert_msg(!rwk_session_eval(session, ids, n, 0, NULL, &error), "%s", error.message);
}

/* The logits after the session's last token, of which `n_last` came in the last call. */
static void assert_expected(const struct rwk_session *session, size_t n_last, const char *how)
{
    size_t at = (size_t)rwk_session_position(session) - 1;
    ck_assert_msg(!memcmp(rwk_session_logits(session, n_last - 1), expected + at * vocab,
                          vocab * sizeof *expected),
                  "other bits after token %zu: %s", at, how);
}

static void start(const char *name)
{
    char path[256];
    struct rwk_model_info info = { .size = sizeof info };
    snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%s", name);
    ck_assert_int_eq(rwk_model_open(&model, path, NULL, NULL), RWK_STATUS_OK);
    rwk_model_get_info(model, &info);
    vocab = info.vocab_size;
    for (uint32_t i = 0; i < LONG; i++)
        tokens[i] = (i * i * 7 + i + 3) % (vocab - 1);
    expected = malloc(N * vocab * sizeof *expected);
    /* A pass over the first i + 1 tokens for each i: frequencies may depend on the length. */
    for (size_t i = 0; i < N; i++) {
        struct rwk_session *session = open_session(0);
        eval(session, tokens, i + 1);
        memcpy(expected + i * vocab, rwk_session_logits(session, i), vocab * sizeof *expected);
        rwk_session_close(&session);
    }
}

static void finish(void)
{
    free(expected);
    rwk_model_close(&model);
}

START_TEST(one_token_at_a_time)
{
    start(names[_i]);
    struct rwk_session *session = open_session(0);
    for (size_t i = 0; i < N; i++) {
        eval(session, tokens + i, 1);
        assert_expected(session, 1, "one at a time");
    }
    rwk_session_close(&session);
    finish();
}
END_TEST

START_TEST(cut_anywhere)
{
    start(names[_i]);
    for (size_t cut = 1; cut < N; cut++) {
        struct rwk_session *session = open_session((uint32_t)cut);
        eval(session, tokens, cut);
        assert_expected(session, cut, "before the cut");
        eval(session, tokens + cut, N - cut);
        assert_expected(session, N - cut, "behind the cut");
        rwk_session_close(&session);
    }
    finish();
}
END_TEST

START_TEST(after_a_longer_one)
{
    start(names[_i]);
    struct rwk_session *session = open_session(0);
    uint32_t other[LONG];
    for (size_t i = 0; i < LONG; i++)
        other[i] = tokens[LONG - 1 - i];
    for (size_t n = 1; n <= N; n += 13) {
        ck_assert_int_eq(rwk_session_rewind(session, 0, NULL), RWK_STATUS_OK);
        eval(session, other, LONG);
        ck_assert_int_eq(rwk_session_rewind(session, 0, NULL), RWK_STATUS_OK);
        eval(session, tokens, n);
        assert_expected(session, n, "after a longer sequence");
    }
    rwk_session_close(&session);
    finish();
}
END_TEST

START_TEST(after_a_rewind_into_it)
{
    start(names[_i]);
    struct rwk_session *session = open_session(0);
    uint32_t other[3] = { 1, 2, 1 };
    eval(session, tokens, N);
    for (uint64_t at = N - 1; at > 0; at -= at > 6 ? 6 : 1) {
        enum rwk_status status = rwk_session_rewind(session, at, NULL);
        if (status == RWK_STATUS_UNSUPPORTED) /* a window has dropped what would be needed */
            continue;
        ck_assert_int_eq(status, RWK_STATUS_OK);
        eval(session, other, 3);
        ck_assert_int_eq(rwk_session_rewind(session, at, NULL), RWK_STATUS_OK);
        eval(session, tokens + at, N - (size_t)at);
        assert_expected(session, N - (size_t)at, "after a rewind");
    }
    rwk_session_close(&session);
    finish();
}
END_TEST

int main(void)
{
    const int n = sizeof names / sizeof *names;
    Suite *suite = suite_create("sequences");
    TCase *tcase = tcase_create("sequences");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, one_token_at_a_time, 0, n);
    tcase_add_loop_test(tcase, cut_anywhere, 0, n);
    tcase_add_loop_test(tcase, after_a_longer_one, 0, n);
    tcase_add_loop_test(tcase, after_a_rewind_into_it, 0, n);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
