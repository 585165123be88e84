/* Every checkpoint of tests/data/checkpoints against what the reference computed for it
 * (expected*.safetensors): the logits of the prompt, the greedy continuation through the cache, and
 * the same bits for every number of threads and every chunking.
 *
 * Tolerance: 2e-5 of the largest logit. The reference, in float32, differs from itself by 1e-6 to
 * 1e-5 between its own attention back ends; these are random models of a few layers, where rounding
 * has little room to grow. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "checkpoint.h"

#define TOLERANCE 2e-5

enum { MAX_CASES = 128, PATH_SIZE = 512 };

static char cases[MAX_CASES][128]; /* directory names */
static int n_cases;

struct expected {
    struct rwk_tensor_file *file;
    uint32_t *prompt, *greedy;
    size_t n_prompt, n_greedy, vocab;
    const unsigned char *logits; /* F32 [n_prompt][vocab], unaligned */
};

static uint32_t *read_ids(const struct rwk_tensor_info *info, size_t *ret_n)
{
    uint32_t *ids = malloc(info->n_bytes / 8 * sizeof *ids);
    *ret_n = info->n_bytes / 8;
    for (size_t i = 0; i < *ret_n; i++) {
        int64_t id;
        memcpy(&id, (const char *)info->data + i * 8, 8);
        ids[i] = (uint32_t)id;
    }
    return ids;
}

static void expected_open(struct expected *e, const char *path)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_tensor_info info;
    memset(e, 0, sizeof *e);
    ck_assert_msg(rwk_tensor_file_open(&e->file, path, NULL, &error) == RWK_STATUS_OK, "%s",
                  error.message);
    for (size_t i = 0; i < rwk_tensor_file_n_tensors(e->file); i++) {
        ck_assert_int_eq(rwk_tensor_file_get(e->file, i, &info), RWK_STATUS_OK);
        if (strcmp(info.name, "prompt") == 0) {
            e->prompt = read_ids(&info, &e->n_prompt);
        } else if (strcmp(info.name, "greedy") == 0) {
            e->greedy = read_ids(&info, &e->n_greedy);
        } else if (strcmp(info.name, "logits") == 0) {
            e->logits = info.data;
            e->vocab = info.shape[1];
        }
    }
    ck_assert_msg(e->prompt && e->logits, "%s lacks prompt or logits", path);
}

static void expected_close(struct expected *e)
{
    free(e->prompt);
    free(e->greedy);
    rwk_tensor_file_close(&e->file);
}

/* All logits of the prompt in one call; the caller frees them. */
static float *all_logits(struct rwk_model *model, const struct expected *e,
                         struct rwk_session_options options)
{
    struct rwk_error error = { .size = sizeof error };
    options.context = e->n_prompt;
    struct rwk_session *session = open_session(model, &options);
    ck_assert_msg(rwk_session_eval(session, e->prompt, e->n_prompt, RWK_EVAL_ALL_LOGITS, NULL,
                                   &error) == RWK_STATUS_OK,
                  "%s", error.message);
    float *all = malloc(e->n_prompt * e->vocab * sizeof *all);
    for (size_t i = 0; i < e->n_prompt; i++)
        memcpy(all + i * e->vocab, rwk_session_logits(session, i), e->vocab * sizeof *all);
    rwk_session_close(&session);
    return all;
}

static struct rwk_session_options exact_options(void)
{
    struct rwk_session_options options;
    rwk_session_options_init(&options);
    options.kv_type = RWK_KV_F32;
    return options;
}

static void check_close(const char *what, const float *got, const struct expected *e)
{
    double largest = 1, worst = 0;
    for (size_t i = 0; i < e->n_prompt * e->vocab; i++) {
        float want;
        memcpy(&want, e->logits + i * sizeof want, sizeof want);
        largest = fmax(largest, fabs((double)want));
        worst = fmax(worst, fabs((double)got[i] - want));
        ck_assert_msg(isfinite(got[i]), "%s: not finite", what);
    }
    ck_assert_msg(worst <= TOLERANCE * largest, "%s: differs by %g, largest logit %g", what, worst,
                  largest);
}

static size_t argmax(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

START_TEST(logits_and_continuation_are_the_references)
{
    char path[PATH_SIZE];
    struct expected e;
    struct rwk_error error = { .size = sizeof error };
    const char *name = cases[_i];
    snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%.127s/expected.safetensors", name);
    expected_open(&e, path);
    struct rwk_model *model = open_checkpoint(name, NULL);
    float *logits = all_logits(model, &e, exact_options());
    check_close(name, logits, &e);
    free(logits);
    if (e.n_greedy) {
        struct rwk_session_options options = exact_options();
        options.context = e.n_prompt + e.n_greedy;
        struct rwk_session *session = open_session(model, &options);
        ck_assert_int_eq(rwk_session_eval(session, e.prompt, e.n_prompt, 0, NULL, &error),
                         RWK_STATUS_OK);
        const float *last = rwk_session_logits(session, e.n_prompt - 1);
        for (size_t i = 0; i < e.n_greedy; i++) {
            uint32_t token = (uint32_t)argmax(last, e.vocab);
            ck_assert_msg(token == e.greedy[i], "%s: token %zu is %u, not %u", name, i, token,
                          e.greedy[i]);
            ck_assert_int_eq(rwk_session_eval(session, &token, 1, 0, NULL, &error), RWK_STATUS_OK);
            last = rwk_session_logits(session, 0);
        }
        rwk_session_close(&session);
    }
    rwk_model_close(&model);
    expected_close(&e);
}
END_TEST

START_TEST(bits_do_not_depend_on_threads_or_chunks)
{
    char path[PATH_SIZE];
    struct expected e;
    struct rwk_pool *pool = NULL;
    const char *name = cases[_i];
    snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%.127s/expected.safetensors", name);
    expected_open(&e, path);
    struct rwk_model *model = open_checkpoint(name, NULL);
    ck_assert_int_eq(rwk_pool_create(&pool, 3, NULL, NULL), RWK_STATUS_OK);
    struct rwk_session_options options;
    rwk_session_options_init(&options);
    float *base = all_logits(model, &e, options);
    for (int threads = 0; threads < 2; threads++)
        for (uint32_t chunk = 1; chunk < 40; chunk += 6) {
            options.pool = threads ? pool : NULL;
            options.chunk = chunk;
            float *other = all_logits(model, &e, options);
            ck_assert_msg(memcmp(base, other, e.n_prompt * e.vocab * sizeof *base) == 0,
                          "%s: other bits with chunk %u and %d threads", name, chunk,
                          threads ? 3 : 1);
            free(other);
        }
    free(base);
    rwk_pool_close(&pool);
    rwk_model_close(&model);
    expected_close(&e);
}
END_TEST

/* Load-time scalings, as the files expected-<what>.safetensors were made with. */
static const struct {
    const char *what, *rope_scaling;
    double theta;
} scalings[] = {
    { "linear4", "linear:4", 0 },
    { "dynamic4", "dynamic:4", 0 },
    { "yarn4",
      "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 64}", 0 },
    { "llama3x8",
      "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
      "\"high_freq_factor\": 4.0, "
      "\"original_max_position_embeddings\": 64}",
      0 },
    { "ntk4", "ntk:4", 0 },
    { "theta1e6", NULL, 1e6 },
};

START_TEST(scalings_chosen_at_load_time_are_the_references)
{
    char path[PATH_SIZE];
    struct expected e;
    struct rwk_model_options options;
    for (int c = 0; c < n_cases; c++) {
        snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%.127s/expected-%s.safetensors",
                 cases[c], scalings[_i].what);
        FILE *probe = fopen(path, "rb");
        if (!probe)
            continue;
        fclose(probe);
        expected_open(&e, path);
        rwk_model_options_init(&options);
        options.rope_scaling = scalings[_i].rope_scaling;
        options.rope_theta = scalings[_i].theta;
        struct rwk_model *model = open_checkpoint(cases[c], &options);
        float *logits = all_logits(model, &e, exact_options());
        check_close(path, logits, &e);
        free(logits);
        rwk_model_close(&model);
        expected_close(&e);
    }
}
END_TEST

/* A host's allocator that counts. */
struct counter {
    size_t calls, now;
};

static void *counting_alloc(void *user_data, size_t size, size_t alignment)
{
    struct counter *c = user_data;
    void *p = NULL;
    c->calls++;
    c->now += size;
    return posix_memalign(&p, alignment, size) == 0 ? p : NULL;
}

static void counting_free(void *user_data, void *pointer, size_t size)
{
    ((struct counter *)user_data)->now -= size;
    free(pointer);
}

/* Every layer of this checkpoint slides, so its cache is the window and one pass, however long the
 * sequence. */
START_TEST(a_window_model_decodes_ten_thousand_tokens_in_constant_memory)
{
    struct counter counter = { 0 };
    struct rwk_allocator allocator = { counting_alloc, counting_free, &counter };
    struct rwk_session_options options;
    struct rwk_memory_plan plan = { .size = sizeof plan }, longer = { .size = sizeof longer };
    struct rwk_model *model = open_checkpoint("mistral-window", NULL);
    rwk_session_options_init(&options);
    options.allocator = &allocator;
    options.chunk = 64;
    options.context = 1000;
    ck_assert_int_eq(rwk_session_plan(model, &options, &plan, NULL), RWK_STATUS_OK);
    options.context = 10064;
    ck_assert_int_eq(rwk_session_plan(model, &options, &longer, NULL), RWK_STATUS_OK);
    ck_assert_uint_lt(longer.kv_bytes,
                      plan.kv_bytes + 10064 / 64 * 64); /* more page-table entries, no more pages */
    struct rwk_session *session = open_session(model, &options);
    size_t calls = counter.calls, now = counter.now;
    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t token = 3 + i * 7 % 90;
        ck_assert_int_eq(rwk_session_eval(session, &token, 1, 0, NULL, NULL), RWK_STATUS_OK);
    }
    ck_assert_uint_eq(counter.calls, calls); /* decoding allocates nothing */
    ck_assert_uint_eq(counter.now, now);
    rwk_session_close(&session);
    ck_assert_uint_eq(counter.now, 0);
    rwk_model_close(&model);
}
END_TEST

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int main(void)
{
    DIR *directory = opendir(RWK_TEST_DATA "/checkpoints");
    for (struct dirent *entry; directory && (entry = readdir(directory)) && n_cases < MAX_CASES;)
        if (entry->d_name[0] != '.')
            snprintf(cases[n_cases++], sizeof *cases, "%.127s", entry->d_name);
    if (!directory || !n_cases) {
        fprintf(stderr, "no checkpoints in " RWK_TEST_DATA "\n");
        return 1;
    }
    closedir(directory);
    qsort(cases, (size_t)n_cases, sizeof *cases, by_name);

    Suite *suite = suite_create("families");
    TCase *tcase = tcase_create("checkpoints");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, logits_and_continuation_are_the_references, 0, n_cases);
    tcase_add_loop_test(tcase, bits_do_not_depend_on_threads_or_chunks, 0, n_cases);
    tcase_add_loop_test(tcase, scalings_chosen_at_load_time_are_the_references, 0,
                        (int)(sizeof scalings / sizeof *scalings));
    tcase_add_test(tcase, a_window_model_decodes_ten_thousand_tokens_in_constant_memory);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
