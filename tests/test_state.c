/* Saved states: a loaded session goes on with the bits that the saved one would have had; what is
 * damaged, truncated, foreign or made up is refused with nothing changed; a file is replaced as a
 * whole or not at all. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "one_model.h"
#include "runtime/base/hash.h"
#include "scratch.h"

enum { FIXED = 64, GROUP = 16 };

static const char *const names[] = {
    "llama-mha", "llama-dynamic", "llama-longrope-short", "phi", "bloom", "mistral-window",
    "gemma2",    "xglm",
};
enum { N_NAMES = sizeof names / sizeof *names };

/* ---- a state in memory ---- */

struct bytes {
    unsigned char *data;
    size_t size, capacity, at;
    int calls, fail_at, code; /* the call number fail_at (from 1) fails with the code */
};

static int write_bytes(void *user_data, const void *data, size_t size)
{
    struct bytes *b = user_data;
    if (++b->calls == b->fail_at)
        return b->code;
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size);
        b->data = realloc(b->data, b->capacity);
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return 0;
}

static int read_bytes(void *user_data, void *buffer, size_t size, size_t *ret_size)
{
    struct bytes *b = user_data;
    size_t left = b->size - b->at, n = size < left ? size : left;
    if (++b->calls == b->fail_at)
        return b->code;
    memcpy(buffer, b->data + b->at, n);
    b->at += n;
    *ret_size = n;
    return 0;
}

static enum rwk_status load(struct rwk_session **ret_session, struct bytes *b, size_t size)
{
    struct bytes copy = { .data = b->data, .size = size };
    failure.message[0] = '\0';
    return rwk_session_load(ret_session, model, &options, read_bytes, &copy, &failure);
}

static struct rwk_session *session_of(size_t n)
{
    struct rwk_session *s = open_session(model, &options);
    if (n)
        assert_ok(rwk_session_eval(s, tokens, n, 0, NULL, &failure));
    return s;
}

static void assert_same_future(struct rwk_session *a, struct rwk_session *b)
{
    ck_assert_uint_eq(rwk_session_position(a), rwk_session_position(b));
    ck_assert_mem_eq(rwk_session_tokens(a), rwk_session_tokens(b),
                     rwk_session_position(a) * sizeof(uint32_t));
    ck_assert((rwk_session_logits(a, RWK_LAST) == NULL) ==
              (rwk_session_logits(b, RWK_LAST) == NULL));
    for (int i = 0; i < 5; i++) {
        if (rwk_session_logits(a, RWK_LAST))
            ck_assert_mem_eq(rwk_session_logits(a, RWK_LAST), rwk_session_logits(b, RWK_LAST),
                             vocab * sizeof(float));
        assert_ok(rwk_session_eval(a, tokens + 7 * i, 2, 0, NULL, &failure));
        assert_ok(rwk_session_eval(b, tokens + 7 * i, 2, 0, NULL, &failure));
    }
    ck_assert_mem_eq(rwk_session_logits(a, RWK_LAST), rwk_session_logits(b, RWK_LAST),
                     vocab * sizeof(float));
}

START_TEST(a_loaded_session_goes_on_as_the_saved_one_would_have)
{
    static const size_t lengths[] = { 0, 1, 63, 64, 65, 100 };
    open_model(names[_i]);
    for (uint32_t type = RWK_KV_F16; type <= RWK_KV_Q8; type++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            struct rwk_session *a = NULL, *b = NULL;
            struct bytes state = { 0 };
            options.kv_type = type;
            options.chunk = 48;
            options.context = CONTEXT / 2;
            if (rwk_session_create(&a, model, &options, NULL) == RWK_STATUS_UNSUPPORTED)
                continue; /* a cache type that these kernels lack */
            rwk_session_close(&a);
            a = session_of(lengths[l]);
            assert_ok(rwk_session_save(a, write_bytes, &state, &failure));
            options.chunk = 5;
            options.context = CONTEXT / 2 + 3;
            ck_assert_msg(load(&b, &state, state.size) == RWK_STATUS_OK, "%s", failure.message);
            assert_same_future(a, b);
            rwk_session_close(&a);
            rwk_session_close(&b);
            free(state.data);
        }
    rwk_model_close(&model);
}
END_TEST

START_TEST(a_rewound_session_is_saved_as_it_stands)
{
    open_model(names[_i]);
    struct rwk_session *a = session_of(110), *b = NULL;
    struct bytes state = { 0 };
    assert_ok(rwk_session_rewind(a, 70, &failure));
    assert_ok(rwk_session_save(a, write_bytes, &state, &failure));
    assert_ok(load(&b, &state, state.size));
    assert_same_future(a, b);
    rwk_session_close(&a);
    rwk_session_close(&b);
    free(state.data);
    rwk_model_close(&model);
}
END_TEST

START_TEST(a_shifted_session_is_saved_as_it_stands)
{
    size_t reused = 0;
    open_model("bloom");
    struct rwk_session *a = session_of(150), *b = NULL;
    struct bytes state = { 0 };
    assert_ok(rwk_session_shift(a, 64, 64, &failure));
    assert_ok(rwk_session_save(a, write_bytes, &state, &failure));
    assert_ok(load(&b, &state, state.size));
    assert_same_future(a, b);
    assert_ok(rwk_session_sync(b, rwk_session_tokens(b), 86, &reused, &failure));
    ck_assert_uint_eq(reused, 64);
    rwk_session_close(&a);
    rwk_session_close(&b);
    free(state.data);
    rwk_model_close(&model);
}
END_TEST

/* ---- refusals ---- */

START_TEST(a_foreign_state_is_refused)
{
    struct rwk_session *a, *b = NULL;
    struct bytes state = { 0 };
    open_model("llama-mha");
    a = session_of(100);
    assert_ok(rwk_session_save(a, write_bytes, &state, &failure));
    options.kv_type = RWK_KV_F32;
    ck_assert_int_eq(load(&b, &state, state.size), RWK_STATUS_MISMATCH);
    ck_assert_ptr_nonnull(strstr(failure.message, "cache type"));
    options.kv_type = RWK_KV_F16;
    options.context = 99;
    ck_assert_int_eq(load(&b, &state, state.size), RWK_STATUS_CONTEXT_FULL);
    options.context = CONTEXT;
    rwk_session_close(&a);
    rwk_model_close(&model);

    struct rwk_model_options how; /* the same weights, turned otherwise */
    rwk_model_options_init(&how);
    how.rope_scaling = "linear:2";
    model = open_checkpoint("llama-mha", &how);
    ck_assert_int_eq(load(&b, &state, state.size), RWK_STATUS_MISMATCH);
    ck_assert_ptr_nonnull(strstr(failure.message, "another model"));
    rwk_model_close(&model);
    model = open_checkpoint("qwen3", NULL);
    ck_assert_int_eq(load(&b, &state, state.size), RWK_STATUS_MISMATCH);
    ck_assert_ptr_null(b);
    rwk_model_close(&model);
    model = open_checkpoint("llama-mha", NULL); /* opened anew it is the same model */
    assert_ok(load(&b, &state, state.size));
    rwk_session_close(&b);
    rwk_model_close(&model);
    free(state.data);
}
END_TEST

START_TEST(a_truncated_or_damaged_state_is_refused)
{
    open_model(names[_i]);
    struct rwk_session *a = session_of(70), *b = NULL;
    struct bytes state = { 0 };
    assert_ok(rwk_session_save(a, write_bytes, &state, &failure));
    for (size_t n = 0; n < state.size; n += n < 600 ? 1 : 997) {
        ck_assert_int_eq(load(&b, &state, n), RWK_STATUS_FORMAT);
        ck_assert_uint_gt(strlen(failure.message), 0);
    }
    ck_assert_int_eq(load(&b, &state, state.size - 1), RWK_STATUS_FORMAT);
    for (size_t i = 0; i < state.size; i += i < 600 ? 1 : 991) {
        state.data[i] ^= (unsigned char)(1 << i % 8);
        ck_assert_int_ne(load(&b, &state, state.size), RWK_STATUS_OK);
        ck_assert_ptr_null(b);
        ck_assert_uint_gt(strlen(failure.message), 0);
        state.data[i] ^= (unsigned char)(1 << i % 8);
    }
    assert_ok(load(&b, &state, state.size)); /* it was put together again */
    rwk_session_close(&a);
    rwk_session_close(&b);
    free(state.data);
    rwk_model_close(&model);
}
END_TEST

/* Both checksums made right again, as somebody would who wants to be trusted. */
static void seal(struct bytes *state)
{
    uint32_t n_groups;
    memcpy(&n_groups, state->data + 60, 4);
    size_t header = FIXED + GROUP * (n_groups < 4 ? n_groups : 4);
    uint64_t sum = rwk_hash(state->data, header);
    if (header + 16 > state->size)
        return;
    memcpy(state->data + header, &sum, 8);
    sum = rwk_hash(state->data, state->size - 8);
    memcpy(state->data + state->size - 8, &sum, 8);
}

START_TEST(a_state_with_good_checksums_and_bad_numbers_is_refused)
{
    static const uint64_t values[] = { 0,   1,   64,         99,         101,
                                       256, 257, UINT32_MAX, UINT64_MAX, UINT64_MAX / 4 + 1 };
    open_model("gemma2");
    struct rwk_session *a = session_of(100), *b = NULL;
    struct bytes state = { 0 };
    assert_ok(rwk_session_save(a, write_bytes, &state, &failure));
    unsigned char *copy = malloc(state.size);
    memcpy(copy, state.data, state.size);
    for (size_t at = 0; at < FIXED + 2 * GROUP; at += 4)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            for (size_t width = 4; width <= 8; width += 4) {
                /* Harmless, since they say less than is true: how many tokens are exact, and one
                 * cached token less in the same number of pages. */
                memcpy(state.data + at, &values[v], width);
                seal(&state);
                enum rwk_status status = load(&b, &state, state.size);
                /* Harmless, since they say less than is true: how many tokens are exact, and one
                 * cached token less in the same number of pages. */
                bool harmless = at == 32 && values[v] == 99;
                harmless |= memcmp(state.data, copy, 48) == 0 &&
                            memcmp(state.data + 56, copy + 56, FIXED + 2 * GROUP - 56) == 0;
                bool same = memcmp(state.data, copy, FIXED + 2 * GROUP) == 0;
                ck_assert_msg((status == RWK_STATUS_OK) == (same || harmless),
                              "offset %zu, width %zu, value %llx: %s", at, width,
                              (unsigned long long)values[v], failure.message);
                rwk_session_close(&b);
                memcpy(state.data, copy, state.size);
            }
    size_t first_token = FIXED + 2 * GROUP + 8;
    memcpy(state.data + first_token + 4 * 57, &vocab, 4);
    seal(&state);
    ck_assert_int_eq(load(&b, &state, state.size), RWK_STATUS_FORMAT);
    ck_assert_ptr_nonnull(strstr(failure.message, "token id"));
    rwk_session_close(&a);
    free(state.data);
    free(copy);
    rwk_model_close(&model);
}
END_TEST

START_TEST(what_the_host_refuses_is_reported_and_changes_nothing)
{
    open_model("gemma2");
    struct rwk_session *a = session_of(100), *b = NULL, *untouched = session_of(100);
    struct bytes state = { 0 };
    assert_ok(rwk_session_save(a, write_bytes, &state, &failure));
    int n = state.calls;
    ck_assert_int_gt(n, 5);
    for (int at = 1; at <= n; at++) {
        struct bytes out = { .fail_at = at, .code = ENOSPC };
        ck_assert_int_eq(rwk_session_save(a, write_bytes, &out, &failure), RWK_STATUS_IO);
        ck_assert_int_eq(failure.os_error, ENOSPC);
        struct bytes in = { .data = state.data, .size = state.size, .fail_at = at, .code = EIO };
        ck_assert_int_eq(rwk_session_load(&b, model, &options, read_bytes, &in, &failure),
                         RWK_STATUS_IO);
        ck_assert_int_eq(failure.os_error, EIO);
        ck_assert_ptr_null(b);
        free(out.data);
    }
    assert_same_future(a, untouched);
    rwk_session_close(&a);
    rwk_session_close(&untouched);
    free(state.data);
    rwk_model_close(&model);
}
END_TEST

START_TEST(survives_every_refused_allocation)
{
    open_model("gemma2");
    scratch_open();
    const char *path = scratch_path("state");
    struct rwk_session *a = session_of(70), *b = NULL, *c = NULL;
    assert_ok(rwk_session_save_file(a, path, &failure));
    for (long refuse = 0;; refuse++) {
        struct refusing r = { .refuse = refuse };
        struct rwk_allocator allocator = refusing_allocator(&r);
        options.allocator = &allocator;
        enum rwk_status status = rwk_session_load_file(&b, model, &options, path, &failure);
        options.allocator = NULL;
        if (status == RWK_STATUS_OK) { /* nothing was left to refuse */
            ck_assert_int_le(r.n_asked, refuse);
            rwk_session_close(&b);
            ck_assert_int_eq(r.n_held, 0);
            break;
        }
        ck_assert_int_eq(status, RWK_STATUS_NOMEM);
        ck_assert_ptr_null(b);
        ck_assert_int_eq(r.n_held, 0);
    }

    struct refusing r = { .refuse = -1 }; /* the same for forks and for saving */
    struct rwk_allocator allocator = refusing_allocator(&r);
    options.allocator = &allocator;
    b = session_of(70);
    options.allocator = NULL;
    long held = r.n_held;
    for (enum rwk_status status = RWK_STATUS_NOMEM; status != RWK_STATUS_OK;) {
        static long k;
        r.refuse = r.n_asked + k++;
        status = rwk_session_fork(&c, b, &failure);
        ck_assert_int_eq(status, c ? RWK_STATUS_OK : RWK_STATUS_NOMEM);
        rwk_session_close(&c);
        /* Room for one more cache may stay with the store: a slab of three blocks a group. */
        ck_assert_int_le(r.n_held, held + 6);
    }
    held = r.n_held;
    r.refuse = r.n_asked;
    ck_assert_int_eq(rwk_session_save_file(b, path, &failure), RWK_STATUS_NOMEM);
    ck_assert_int_eq(r.n_held, held);
    r.refuse = -1;
    assert_same_future(a, b);
    rwk_session_close(&b);
    ck_assert_int_eq(r.n_held, 0);
    rwk_session_close(&a);
    rwk_model_close(&model);
    scratch_close();
}
END_TEST

/* ---- progress ---- */

struct watch {
    int calls, stop_at;
    uint64_t done, total;
};

static int watch_progress(void *user_data, uint64_t done, uint64_t total)
{
    struct watch *w = user_data;
    ck_assert_uint_gt(done, w->done);
    ck_assert_uint_le(done, total);
    w->done = done;
    w->total = total;
    return ++w->calls == w->stop_at;
}

START_TEST(saving_and_loading_tell_their_progress_and_can_be_cancelled)
{
    struct watch w = { 0 };
    open_model("gemma2");
    options.progress = watch_progress;
    options.progress_data = &w;
    options.chunk = CONTEXT; /* one chunk: no progress in prefill */
    struct rwk_session *a = session_of(100), *b = NULL;
    struct bytes state = { 0 };
    ck_assert_int_eq(w.calls, 0);
    assert_ok(rwk_session_save(a, write_bytes, &state, &failure));
    ck_assert_uint_eq(w.done, state.size);
    ck_assert_uint_eq(w.total, state.size);
    int n = w.calls;
    for (int at = 1; at <= n; at++) {
        struct bytes out = { 0 };
        w = (struct watch) { .stop_at = at };
        ck_assert_int_eq(rwk_session_save(a, write_bytes, &out, &failure), RWK_STATUS_CANCELLED);
        free(out.data);
    }
    w = (struct watch) { 0 };
    rwk_session_cancel(a);
    struct bytes out = { 0 };
    ck_assert_int_eq(rwk_session_save(a, write_bytes, &out, &failure), RWK_STATUS_CANCELLED);
    free(out.data);
    w = (struct watch) { 0 };
    assert_ok(load(&b, &state, state.size));
    ck_assert_uint_eq(w.done, state.size);
    rwk_session_close(&b);
    n = w.calls;
    for (int at = 1; at <= n; at++) {
        w = (struct watch) { .stop_at = at };
        ck_assert_int_eq(load(&b, &state, state.size), RWK_STATUS_CANCELLED);
        ck_assert_ptr_null(b);
    }
    rwk_session_close(&a);
    free(state.data);
    rwk_model_close(&model);
}
END_TEST

/* ---- files ---- */

static int n_files_in_scratch(void)
{
    int n = 0;
    DIR *d = opendir(scratch);
    for (struct dirent *entry; d && (entry = readdir(d));)
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

START_TEST(a_file_is_replaced_as_a_whole_or_stays)
{
    open_model("llama-mha");
    scratch_open();
    struct rwk_session *a = session_of(40), *longer = session_of(150), *b = NULL;
    const char *path = scratch_path("state");
    struct stat st;
    assert_ok(rwk_session_save_file(a, path, &failure));
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);

    /* The disk is full after half of it. */
    struct rlimit before, half = { (rlim_t)st.st_size / 2, RLIM_INFINITY };
    getrlimit(RLIMIT_FSIZE, &before);
    half.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &half), 0);
    ck_assert_int_eq(rwk_session_save_file(longer, path, &failure), RWK_STATUS_IO);
    ck_assert_int_eq(failure.os_error, EFBIG);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(n_files_in_scratch(), 1);
    assert_ok(rwk_session_load_file(&b, model, &options, path, &failure));
    ck_assert_uint_eq(rwk_session_position(b), 40);
    assert_same_future(a, b);
    rwk_session_close(&b);

    rwk_session_cancel(longer);
    ck_assert_int_eq(rwk_session_save_file(longer, path, &failure), RWK_STATUS_CANCELLED);
    ck_assert_int_eq(n_files_in_scratch(), 1);
    assert_ok(rwk_session_save_file(longer, path, &failure));
    assert_ok(rwk_session_load_file(&b, model, &options, path, &failure));
    ck_assert_uint_eq(rwk_session_position(b), 150);
    assert_same_future(longer, b);
    ck_assert_int_eq(n_files_in_scratch(), 1);
    rwk_session_close(&a);
    rwk_session_close(&b);
    rwk_session_close(&longer);
    rwk_model_close(&model);
    scratch_close();
}
END_TEST

START_TEST(files_that_are_no_states_are_refused)
{
    open_model("llama-mha");
    scratch_open();
    struct rwk_session *a = session_of(4), *b = NULL;
    const char *path = scratch_path("state");
    ck_assert_int_eq(rwk_session_load_file(&b, model, &options, path, &failure), RWK_STATUS_IO);
    ck_assert_int_eq(failure.os_error, ENOENT);
    ck_assert_int_eq(rwk_session_load_file(&b, model, &options, scratch, &failure), RWK_STATUS_IO);
    ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0600), 0);
    ck_assert_int_eq(rwk_session_load_file(&b, model, &options, scratch_path("pipe"), &failure),
                     RWK_STATUS_IO);
    ck_assert_int_eq(rwk_session_load_file(&b, model, &options,
                                           checkpoint_path("llama-mha/model.safetensors"),
                                           &failure),
                     RWK_STATUS_FORMAT);
    ck_assert_ptr_nonnull(strstr(failure.message, "no saved state"));
    assert_ok(rwk_session_save_file(a, path, &failure));
    FILE *file = fopen(path, "ab");
    fputc(0, file);
    fclose(file);
    ck_assert_int_eq(rwk_session_load_file(&b, model, &options, path, &failure), RWK_STATUS_FORMAT);
    ck_assert_ptr_nonnull(strstr(failure.message, "follow the end"));
    assert_message(&failure, path);
    ck_assert_int_eq(rwk_session_save_file(a, "/nowhere/state", &failure), RWK_STATUS_IO);
    ck_assert_ptr_null(b);
    rwk_session_close(&a);
    rwk_model_close(&model);
    scratch_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("state");
    TCase *tcase = tcase_create("state");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, a_loaded_session_goes_on_as_the_saved_one_would_have, 0, N_NAMES);
    tcase_add_loop_test(tcase, a_rewound_session_is_saved_as_it_stands, 0, N_NAMES);
    tcase_add_test(tcase, a_shifted_session_is_saved_as_it_stands);
    tcase_add_test(tcase, a_foreign_state_is_refused);
    tcase_add_loop_test(tcase, a_truncated_or_damaged_state_is_refused, 0, N_NAMES);
    tcase_add_test(tcase, a_state_with_good_checksums_and_bad_numbers_is_refused);
    tcase_add_test(tcase, what_the_host_refuses_is_reported_and_changes_nothing);
    tcase_add_test(tcase, survives_every_refused_allocation);
    tcase_add_test(tcase, saving_and_loading_tell_their_progress_and_can_be_cancelled);
    tcase_add_test(tcase, a_file_is_replaced_as_a_whole_or_stays);
    tcase_add_test(tcase, files_that_are_no_states_are_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
