/* A weight file that is cut or replaced while a model is in use. */
#include "malformed.h"

#include <fcntl.h>

enum { N_IDS = 8 };

static const uint32_t ids[N_IDS] = { 3, 5, 7, 9, 11, 13, 15, 17 };

static struct good_directory good;
static struct rwk_error error;
static struct rwk_model *model;
static struct rwk_session *session, *other;

static void setup(void)
{
    scratch_open();
    good_read(&good, RWK_TEST_DATA "/checkpoints/llama-bf16-sharded");
    good_write(&good);
    error = (struct rwk_error) { .size = sizeof error };
}

static void teardown(void)
{
    rwk_session_close(&session);
    rwk_session_close(&other);
    rwk_model_close(&model);
    good_free(&good);
    scratch_close();
}

static void start(uint32_t load_mode)
{
    struct rwk_model_options options;
    rwk_model_options_init(&options);
    options.load_mode = load_mode;
    ck_assert_msg(!rwk_model_open(&model, scratch, &options, &error), "%s", error.message);
    ck_assert_int_eq(rwk_session_create(&session, model, NULL, &error), RWK_STATUS_OK);
    ck_assert_int_eq(rwk_session_create(&other, model, NULL, &error), RWK_STATUS_OK);
    ck_assert_int_eq(rwk_session_eval(session, ids, 4, 0, NULL, &error), RWK_STATUS_OK);
}

/* What eval, sync, score and step say of the next tokens. */
static void assert_all_fail(const char *file)
{
    double scores[3];
    size_t done = 77;
    const enum rwk_status got[] = {
        rwk_session_eval(session, ids + 4, 4, 0, &done, &error),
        rwk_session_score(session, ids + 4, 4, scores, &error),
        rwk_step((struct rwk_session *[]) { session, other }, ids, 2, &error),
        rwk_session_sync(other, ids, 4, NULL, &error),
    };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        ck_assert_int_eq(got[i], RWK_STATUS_IO);
    ck_assert_msg(strstr(error.message, file) && strstr(error.message, "shorter"), "%s",
                  error.message);
    ck_assert_uint_eq(rwk_session_position(session), 4);
}

static void assert_goes_on(const float *expected, size_t n)
{
    ck_assert_msg(!rwk_session_eval(session, ids + 4, 4, 0, NULL, &error), "%s", error.message);
    ck_assert_mem_eq(rwk_session_logits(session, 3), expected, n * sizeof *expected);
}

static size_t expect(float ret_logits[MAX_LOGITS])
{
    struct rwk_model_info info = { .size = sizeof info };
    rwk_model_get_info(model, &info);
    ck_assert_int_eq(rwk_session_eval(other, ids, N_IDS, 0, NULL, &error), RWK_STATUS_OK);
    memcpy(ret_logits, rwk_session_logits(other, N_IDS - 1), info.vocab_size * sizeof *ret_logits);
    ck_assert_int_eq(rwk_session_rewind(other, 0, NULL), RWK_STATUS_OK);
    return info.vocab_size;
}

START_TEST(a_shard_cut_under_the_mapping_is_an_error)
{
    static const char shard[] = "model-00003-of-00004.safetensors";
    static float expected[MAX_LOGITS];
    const struct good_file *f = good_find(&good, shard);
    start(RWK_LOAD_MAP);
    size_t n = expect(expected);
    const size_t sizes[] = { 0, 8, f->size / 2, f->size - 1 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ck_assert_int_eq(truncate(scratch_path(shard), (off_t)sizes[i]), 0);
        assert_all_fail(shard);
    }
    /* Once it is whole again, so are the results. */
    int fd = open(scratch_path(shard), O_WRONLY);
    ck_assert_int_eq(write(fd, f->data, f->size), (ssize_t)f->size);
    close(fd);
    assert_goes_on(expected, n);
}
END_TEST

START_TEST(what_was_read_does_not_depend_on_the_files)
{
    static float expected[MAX_LOGITS];
    start(RWK_LOAD_READ);
    size_t n = expect(expected);
    for (int i = 0; i < good.n; i++)
        ck_assert_int_eq(truncate(scratch_path(good.files[i].name), 0), 0);
    scratch_clear();
    assert_goes_on(expected, n);
}
END_TEST

START_TEST(files_that_are_replaced_or_removed_stay_mapped)
{
    static float expected[MAX_LOGITS];
    start(RWK_LOAD_MAP);
    size_t n = expect(expected);
    scratch_clear();
    scratch_write("model-00001-of-00004.safetensors", "new", 3);
    assert_goes_on(expected, n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shrink");
    TCase *tcase = tcase_create("shrink");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_shard_cut_under_the_mapping_is_an_error);
    tcase_add_test(tcase, what_was_read_does_not_depend_on_the_files);
    tcase_add_test(tcase, files_that_are_replaced_or_removed_stay_mapped);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
