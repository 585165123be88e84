/* The library as a plug-in: loaded, used and unloaded again and again, leaving nothing behind.
 * Knows it through dlsym only. RWK_TEST_LIBRARY is its path. */
#include <check.h>
#include <dlfcn.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>

enum { LOADS = 100, WARM_UP = 10 };

static const char model_path[] = RWK_TEST_DATA "/checkpoints/gpt2";
static const char tokenizer_path[] = RWK_TEST_DATA "/../../examples/rope-llama";

struct functions {
    void *library;
    __typeof__(rwk_pool_create) *pool_create;
    __typeof__(rwk_pool_close) *pool_close;
    __typeof__(rwk_model_open) *model_open;
    __typeof__(rwk_model_close) *model_close;
    __typeof__(rwk_tokenizer_open) *tokenizer_open;
    __typeof__(rwk_tokenizer_encode) *tokenizer_encode;
    __typeof__(rwk_tokenizer_close) *tokenizer_close;
    __typeof__(rwk_session_options_init) *session_options_init;
    __typeof__(rwk_session_create) *session_create;
    __typeof__(rwk_session_eval) *session_eval;
    __typeof__(rwk_session_logits) *session_logits;
    __typeof__(rwk_session_close) *session_close;
};

/* A function's address; through memory, since ISO C has no cast from void * to a function. */
static void find(struct functions *f, const char *name, void *ret_function)
{
    void *address = dlsym(f->library, name);
    ck_assert_msg(address != NULL, "no %s", name);
    memcpy(ret_function, &address, sizeof address);
}

static void load(struct functions *f)
{
    f->library = dlopen(RWK_TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(f->library != NULL, "%s", dlerror());
    find(f, "rwk_pool_create", &f->pool_create);
    find(f, "rwk_pool_close", &f->pool_close);
    find(f, "rwk_model_open", &f->model_open);
    find(f, "rwk_model_close", &f->model_close);
    find(f, "rwk_tokenizer_open", &f->tokenizer_open);
    find(f, "rwk_tokenizer_encode", &f->tokenizer_encode);
    find(f, "rwk_tokenizer_close", &f->tokenizer_close);
    find(f, "rwk_session_options_init", &f->session_options_init);
    find(f, "rwk_session_create", &f->session_create);
    find(f, "rwk_session_eval", &f->session_eval);
    find(f, "rwk_session_logits", &f->session_logits);
    find(f, "rwk_session_close", &f->session_close);
}

static void use_tokenizer(const struct functions *f)
{
    struct rwk_tokenizer *tokenizer = NULL;
    uint32_t ids[64];
    size_t n = 0;
    ck_assert_int_eq(f->tokenizer_open(&tokenizer, tokenizer_path, NULL, NULL), RWK_STATUS_OK);
    ck_assert_int_eq(
        f->tokenizer_encode(tokenizer, "It was a dark", 13, 0, ids, 64, NULL, &n, NULL),
        RWK_STATUS_OK);
    ck_assert_uint_gt(n, 0);
    f->tokenizer_close(&tokenizer);
}

/* The first logit after a few tokens, on two threads. */
static float use_model(const struct functions *f)
{
    static const uint32_t ids[] = { 1, 2, 3, 4 };
    struct rwk_pool *pool = NULL;
    struct rwk_model *model = NULL;
    struct rwk_session *session = NULL;
    struct rwk_session_options options;
    ck_assert_int_eq(f->pool_create(&pool, 2, NULL, NULL), RWK_STATUS_OK);
    ck_assert_int_eq(f->model_open(&model, model_path, NULL, NULL), RWK_STATUS_OK);
    f->session_options_init(&options);
    options.pool = pool;
    ck_assert_int_eq(f->session_create(&session, model, &options, NULL), RWK_STATUS_OK);
    ck_assert_int_eq(f->session_eval(session, ids, 4, 0, NULL, NULL), RWK_STATUS_OK);
    float logit = f->session_logits(session, 3)[0];
    f->session_close(&session);
    f->model_close(&model);
    f->pool_close(&pool);
    return logit;
}

/* Mappings of this process; 0 under a sanitizer, which maps for itself, and finds leaks in its own
 * way. */
static unsigned count_mappings(void)
{
    unsigned n = 0;
#ifdef __SANITIZE_ADDRESS__
    return 0;
#endif
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    for (int c; (c = fgetc(maps)) != EOF;)
        n += c == '\n';
    fclose(maps);
    return n;
}

START_TEST(loads_and_unloads_without_a_trace)
{
    struct functions f;
    unsigned warm = 0;
    float first = 0;
    for (int i = 0; i < LOADS; i++) {
        load(&f);
        if (i % WARM_UP == 0)
            use_tokenizer(&f);
        float logit = use_model(&f);
        first = i ? first : logit;
        ck_assert(logit == first);
        ck_assert_int_eq(dlclose(f.library), 0);
        ck_assert_msg(!dlopen(RWK_TEST_LIBRARY, RTLD_NOW | RTLD_NOLOAD),
                      "still loaded after dlclose");
        warm = i == WARM_UP ? count_mappings() : warm;
    }
    ck_assert_uint_le(count_mappings(), warm + 4); /* 90 loads more must not leave one each */
}
END_TEST

/* Rounding, and numbers below the normal ones: what a library that was linked with the wrong
 * options switches over. */
START_TEST(the_hosts_arithmetic_stays_as_it_was)
{
    struct functions f;
    volatile float tiny = 0x1p-149f, third = 1.0f / 3;
    fenv_t before, after;
    fesetround(FE_UPWARD);
    fegetenv(&before);
    load(&f);
    use_model(&f);
    dlclose(f.library);
    fegetenv(&after);
    ck_assert_int_eq(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    ck_assert(tiny * 1.0f > 0 && tiny + tiny == 0x1p-148f && third * 3 == 1.0f);
#ifdef __x86_64__
    /* flush-to-zero, denormals-are-zero, rounding and exception masks; the flags of what happened
     * may differ */
    ck_assert_uint_eq(before.__mxcsr & ~0x3fu, after.__mxcsr & ~0x3fu);
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin");
    TCase *tcase = tcase_create("plugin");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, loads_and_unloads_without_a_trace);
    tcase_add_test(tcase, the_hosts_arithmetic_stays_as_it_was);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
