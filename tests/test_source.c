/* Sources: the same files from a directory, from memory and through the host's functions give the
 * same model, tokenizer and plan, bit for bit; what goes wrong on the host's side is reported, and
 * every file is closed once. */
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "checkpoint.h"
#include "scratch.h"

enum { MAX_FILES = 16, N_TOKENS = 20 };

/* ---- the files of a directory in memory ---- */

static struct rwk_blob blobs[MAX_FILES];
static size_t n_blobs;

static void read_files(const char *directory)
{
    DIR *d = opendir(directory);
    ck_assert_ptr_nonnull(d);
    n_blobs = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!file)
            continue;
        fseek(file, 0, SEEK_END);
        size_t size = (size_t)ftell(file);
        char *data = malloc(size + 2), *at = data + 1; /* odd: any alignment will do */
        rewind(file);
        ck_assert_uint_eq(fread(at, 1, size, file), size);
        fclose(file);
        ck_assert_uint_lt(n_blobs, MAX_FILES);
        blobs[n_blobs++] = (struct rwk_blob) { strdup(entry->d_name), at, size };
    }
    closedir(d);
}

static void free_files(void)
{
    for (size_t i = 0; i < n_blobs; i++) {
        free((void *)blobs[i].name);
        free((char *)blobs[i].data - 1);
    }
    n_blobs = 0;
}

static struct rwk_source blob_source(void)
{
    struct rwk_source source;
    rwk_source_init(&source);
    source.blobs = blobs;
    source.n_blobs = n_blobs;
    return source;
}

/* ---- the host's functions ---- */

struct host {
    int n_open, n_reads, n_maps;
    const char *fails; /* name of a file that cannot be read */
    int code;
};

static int host_open(void *user_data, const char *name, void **ret_file, uint64_t *ret_size)
{
    struct host *h = user_data;
    for (size_t i = 0; i < n_blobs; i++)
        if (strcmp(blobs[i].name, name) == 0) {
            h->n_open++;
            *ret_file = &blobs[i];
            *ret_size = blobs[i].size;
            return 0;
        }
    return ENOENT;
}

static const void *host_map(void *user_data, void *file)
{
    struct host *h = user_data;
    const struct rwk_blob *blob = file;
    h->n_maps++;
    return h->fails && strcmp(h->fails, blob->name) == 0 ? NULL : blob->data;
}

static int host_read(void *user_data, void *file, uint64_t offset, void *buffer, size_t n)
{
    struct host *h = user_data;
    const struct rwk_blob *blob = file;
    h->n_reads++;
    if (h->fails && strcmp(h->fails, blob->name) == 0)
        return h->code;
    ck_assert_uint_le(offset, blob->size);
    ck_assert_uint_le(n, blob->size - offset);
    memcpy(buffer, (const char *)blob->data + offset, n);
    return 0;
}

static void host_close(void *user_data, void *file)
{
    ck_assert_ptr_nonnull(file);
    ((struct host *)user_data)->n_open--;
}

static const struct {
    bool map, read;
} abilities[] = { { true, true }, { true, false }, { false, true } };
enum { N_ABILITIES = sizeof abilities / sizeof *abilities };

static struct rwk_file_functions functions_of(struct host *host, int ability)
{
    return (struct rwk_file_functions) { host_open, abilities[ability].map ? host_map : NULL,
                                         abilities[ability].read ? host_read : NULL, host_close,
                                         host };
}

/* ---- comparing ---- */

static void last_logits(struct rwk_model *model, float *ret_logits, uint32_t *ret_vocab)
{
    struct rwk_model_info info = { .size = sizeof info };
    uint32_t tokens[N_TOKENS];
    struct rwk_session *session = open_session(model, NULL);
    assert_ok(rwk_model_get_info(model, &info));
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (i * 13 + 1) % info.vocab_size;
    assert_ok(rwk_session_eval(session, tokens, N_TOKENS, 0, NULL, &failure));
    memcpy(ret_logits, rwk_session_logits(session, RWK_LAST), info.vocab_size * sizeof *ret_logits);
    *ret_vocab = info.vocab_size;
    rwk_session_close(&session);
}

static void assert_same_model(struct rwk_model *model, const char *name)
{
    float *want = calloc(1 << 16, sizeof *want), *have = calloc(1 << 16, sizeof *have);
    uint32_t vocab, other;
    struct rwk_model *plain = open_checkpoint(name, NULL);
    last_logits(plain, want, &vocab);
    last_logits(model, have, &other);
    ck_assert_uint_eq(vocab, other);
    ck_assert_mem_eq(want, have, vocab * sizeof *want);
    struct rwk_generation_defaults a = { .size = sizeof a }, b = { .size = sizeof b };
    assert_ok(rwk_model_get_generation_defaults(plain, &a));
    assert_ok(rwk_model_get_generation_defaults(model, &b));
    ck_assert_uint_eq(a.bos_token, b.bos_token);
    ck_assert_uint_eq(a.n_eos_tokens, b.n_eos_tokens);
    rwk_model_close(&plain);
    free(want);
    free(have);
}

static const char *const names[] = { "llama-mha", "gpt2-f16-sharded", "bloom-bf16-sharded" };
enum { N_NAMES = sizeof names / sizeof *names };

/* ---- models ---- */

START_TEST(a_model_from_memory_is_the_model_of_the_directory)
{
    for (uint32_t mode = RWK_LOAD_MAP; mode <= RWK_LOAD_READ; mode++) {
        struct rwk_model_options how;
        struct rwk_model_info info = { .size = sizeof info };
        struct rwk_model *model = NULL;
        read_files(checkpoint_path(names[_i]));
        struct rwk_source source = blob_source();
        rwk_model_options_init(&how);
        how.load_mode = mode;
        assert_ok(rwk_model_open_source(&model, &source, &how, &failure));
        assert_ok(rwk_model_get_info(model, &info));
        ck_assert((info.mapped_bytes > 0) == (mode == RWK_LOAD_MAP));
        if (mode == RWK_LOAD_READ)
            free_files(); /* what was read is the model's own */
        assert_same_model(model, names[_i]);
        rwk_model_close(&model);
        free_files();
    }
}
END_TEST

START_TEST(a_model_through_functions_is_the_model_of_the_directory)
{
    for (int ability = 0; ability < N_ABILITIES; ability++)
        for (uint32_t mode = RWK_LOAD_MAP; mode <= RWK_LOAD_READ; mode++) {
            struct host host = { 0 };
            struct rwk_file_functions functions = functions_of(&host, ability);
            struct rwk_model_options how;
            struct rwk_source source;
            struct rwk_model *model = NULL;
            read_files(checkpoint_path(names[_i]));
            rwk_source_init(&source);
            source.functions = &functions;
            rwk_model_options_init(&how);
            how.load_mode = mode;
            assert_ok(rwk_model_open_source(&model, &source, &how, &failure));
            memset(&functions, 0, sizeof functions); /* copied */
            bool is_mapped = mode == RWK_LOAD_MAP && abilities[ability].map;
            ck_assert((host.n_open > 0) == is_mapped);
            assert_same_model(model, names[_i]);
            rwk_model_close(&model);
            ck_assert_int_eq(host.n_open, 0);
            ck_assert((host.n_reads > 0) == abilities[ability].read);
            free_files();
        }
}
END_TEST

START_TEST(every_load_mode_and_prefetch_gives_the_same_model)
{
    for (uint32_t mode = RWK_LOAD_MAP; mode <= RWK_LOAD_MAP_LOCK; mode++)
        for (uint32_t prefetch = RWK_PREFETCH_AUTO; prefetch <= RWK_PREFETCH_NOW; prefetch++) {
            struct rwk_model_options how;
            struct rwk_model_info info = { .size = sizeof info };
            rwk_model_options_init(&how);
            how.load_mode = mode;
            how.prefetch = prefetch;
            struct rwk_model *model = open_checkpoint(names[_i], &how);
            assert_ok(rwk_model_get_info(model, &info));
            ck_assert((info.mapped_bytes == 0) == (mode == RWK_LOAD_READ));
            assert_same_model(model, names[_i]);
            rwk_model_close(&model);
        }
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* whose mlock does nothing */
/* Gives up what lets root lock as much as it likes; this test has a process of its own. */
static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };
    ck_assert_int_eq(syscall(SYS_capset, &header, none), 0);
}

START_TEST(memory_that_cannot_be_locked_is_an_error)
{
    struct rwk_model_options how;
    struct rwk_model *model = NULL;
    struct rlimit none = { 0, 0 };
    drop_capabilities();
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    rwk_model_options_init(&how);
    how.load_mode = RWK_LOAD_MAP_LOCK;
    ck_assert_int_eq(rwk_model_open(&model, checkpoint_path("llama-mha"), &how, &failure),
                     RWK_STATUS_IO);
    ck_assert_ptr_nonnull(strstr(failure.message, "cannot be locked"));
    ck_assert_int_ne(failure.os_error, 0);
}
END_TEST
#endif

/* ---- what goes wrong ---- */

START_TEST(a_source_names_one_place)
{
    struct rwk_model *model = NULL;
    struct rwk_source source;
    struct host host = { 0 };
    struct rwk_file_functions functions = functions_of(&host, 0);
    read_files(checkpoint_path("llama-mha"));
    rwk_source_init(&source);
    ck_assert_int_eq(rwk_model_open_source(&model, &source, NULL, &failure), RWK_STATUS_RANGE);
    source = blob_source();
    source.path = checkpoint_path("llama-mha");
    ck_assert_int_eq(rwk_model_open_source(&model, &source, NULL, &failure), RWK_STATUS_RANGE);
    source = blob_source();
    source.functions = &functions;
    ck_assert_int_eq(rwk_model_open_source(&model, &source, NULL, &failure), RWK_STATUS_RANGE);
    source.blobs = NULL;
    functions.map = NULL;
    functions.read = NULL;
    ck_assert_int_eq(rwk_model_open_source(&model, &source, NULL, &failure), RWK_STATUS_RANGE);
    ck_assert_ptr_nonnull(strstr(failure.message, "map or read"));
    ck_assert_ptr_null(model);
    free_files();
}
END_TEST

START_TEST(foreign_memory_cannot_be_locked)
{
    struct rwk_model *model = NULL;
    struct rwk_model_options how;
    read_files(checkpoint_path("llama-mha"));
    struct rwk_source source = blob_source();
    rwk_model_options_init(&how);
    how.load_mode = RWK_LOAD_MAP_LOCK;
    ck_assert_int_eq(rwk_model_open_source(&model, &source, &how, &failure),
                     RWK_STATUS_UNSUPPORTED);
    free_files();
}
END_TEST

/* Each file in turn: missing, or failing when its bytes are wanted. */
START_TEST(a_file_that_the_host_cannot_give_is_reported_by_name)
{
    read_files(checkpoint_path("gpt2-f16-sharded"));
    for (size_t i = 0; i < n_blobs; i++)
        for (int ability = 0; ability < N_ABILITIES; ability++) {
            struct host host = { .fails = blobs[i].name, .code = EIO };
            struct rwk_file_functions functions = functions_of(&host, ability);
            struct rwk_source source;
            struct rwk_model *model = NULL;
            rwk_source_init(&source);
            source.functions = &functions;
            enum rwk_status status = rwk_model_open_source(&model, &source, NULL, &failure);
            if (status) {
                ck_assert_int_eq(status, RWK_STATUS_IO);
                ck_assert_str_eq(failure.file, blobs[i].name);
                if (abilities[ability].read && !abilities[ability].map)
                    ck_assert_int_eq(failure.os_error, EIO);
            } else {
                ck_assert_msg(!strstr(blobs[i].name, "model") &&
                                  strcmp(blobs[i].name, "config.json") != 0,
                              "%s is not needed?", blobs[i].name);
                rwk_model_close(&model);
            }
            ck_assert_int_eq(host.n_open, 0);
        }
    for (size_t i = 0; i < n_blobs; i++) { /* a blob less */
        struct rwk_blob missing = blobs[i];
        struct rwk_model *model = NULL;
        bool is_needed = strstr(missing.name, "model-0") || !strcmp(missing.name, "config.json") ||
                         !strcmp(missing.name, "model.safetensors.index.json");
        blobs[i].name = "other";
        struct rwk_source source = blob_source();
        enum rwk_status status = rwk_model_open_source(&model, &source, NULL, &failure);
        ck_assert_int_eq(status, is_needed ? RWK_STATUS_IO : RWK_STATUS_OK);
        rwk_model_close(&model);
        blobs[i] = missing;
    }
    free_files();
}
END_TEST

START_TEST(survives_every_refused_allocation)
{
    static const enum rwk_load_mode modes[] = { RWK_LOAD_MAP, RWK_LOAD_READ };
    read_files(checkpoint_path("gpt2-f16-sharded"));
    for (int m = 0; m < 2; m++) {
        enum rwk_status status = RWK_STATUS_NOMEM;
        for (long refuse = 0; status != RWK_STATUS_OK; refuse++) {
            struct refusing r = { .refuse = refuse };
            struct rwk_allocator allocator = refusing_allocator(&r);
            struct host host = { 0 };
            struct rwk_file_functions functions = functions_of(&host, 0);
            struct rwk_model_options how;
            struct rwk_source source;
            struct rwk_model *model = NULL;
            rwk_source_init(&source);
            source.functions = &functions;
            rwk_model_options_init(&how);
            how.load_mode = modes[m];
            how.allocator = &allocator;
            status = rwk_model_open_source(&model, &source, &how, &failure);
            ck_assert_int_eq(status, model ? RWK_STATUS_OK : RWK_STATUS_NOMEM);
            rwk_model_close(&model);
            ck_assert_int_eq(host.n_open, 0);
            ck_assert_int_eq(r.n_held, 0);
        }
    }
    free_files();
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
    ck_assert_uint_ge(done, w->done);
    ck_assert_uint_le(done, total);
    w->done = done;
    w->total = total;
    return ++w->calls == w->stop_at;
}

START_TEST(loading_tells_its_progress_and_can_be_cancelled)
{
    const struct {
        uint32_t mode, prefetch;
        bool tells;
    } rows[] = { { RWK_LOAD_MAP, RWK_PREFETCH_AUTO, false },
                 { RWK_LOAD_MAP, RWK_PREFETCH_NOW, true },
                 { RWK_LOAD_READ, RWK_PREFETCH_AUTO, true },
                 { RWK_LOAD_READ, RWK_PREFETCH_NOW, true } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct watch w = { 0 };
        struct rwk_model_options how;
        struct rwk_model_info info = { .size = sizeof info };
        struct rwk_model *model = NULL;
        rwk_model_options_init(&how);
        how.load_mode = rows[i].mode;
        how.prefetch = rows[i].prefetch;
        how.progress = watch_progress;
        how.progress_data = &w;
        model = open_checkpoint("gpt2-f16-sharded", &how);
        assert_ok(rwk_model_get_info(model, &info));
        rwk_model_close(&model);
        ck_assert((w.calls > 0) == rows[i].tells);
        ck_assert_uint_eq(w.done, w.total);
        if (rows[i].mode == RWK_LOAD_MAP && w.calls)
            ck_assert_uint_eq(w.total, info.mapped_bytes);
        for (int at = 1, n = w.calls; at <= n; at++) {
            w = (struct watch) { .stop_at = at };
            ck_assert_int_eq(
                rwk_model_open(&model, checkpoint_path("gpt2-f16-sharded"), &how, &failure),
                RWK_STATUS_CANCELLED);
            ck_assert_ptr_null(model);
            ck_assert_int_eq(w.calls, at);
        }
    }
}
END_TEST

/* ---- tokenizers and plans ---- */

static void assert_same_ids(struct rwk_tokenizer *a, struct rwk_tokenizer *b)
{
    static const char text[] = "It was a dark and stormy night: 3.14 naïve 日本 <s>";
    uint32_t x[256], y[256];
    size_t n = 0, m = 0;
    assert_ok(rwk_tokenizer_encode(a, text, sizeof text - 1, RWK_ENCODE_ADD_SPECIAL, x, 256, NULL,
                                   &n, &failure));
    assert_ok(rwk_tokenizer_encode(b, text, sizeof text - 1, RWK_ENCODE_ADD_SPECIAL, y, 256, NULL,
                                   &m, &failure));
    ck_assert_uint_eq(n, m);
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_lt(n, 256);
    ck_assert_mem_eq(x, y, n * sizeof *x);
    ck_assert_uint_eq(rwk_tokenizer_special(a, RWK_SPECIAL_EOS),
                      rwk_tokenizer_special(b, RWK_SPECIAL_EOS));
}

START_TEST(a_tokenizer_from_anywhere_is_the_tokenizer_of_the_directory)
{
    DIR *d = opendir(RWK_TEST_DATA "/tokenizers");
    int n = 0;
    ck_assert_ptr_nonnull(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[512];
        struct rwk_tokenizer *plain = NULL, *other = NULL;
        snprintf(path, sizeof path, RWK_TEST_DATA "/tokenizers/%s", entry->d_name);
        if (entry->d_name[0] == '.' ||
            rwk_tokenizer_open(&plain, path, NULL, NULL) != RWK_STATUS_OK)
            continue;
        read_files(path);
        struct rwk_source source = blob_source();
        assert_ok(rwk_tokenizer_open_source(&other, &source, NULL, &failure));
        assert_same_ids(plain, other);
        rwk_tokenizer_close(&other);
        for (int ability = 0; ability < N_ABILITIES; ability++) {
            struct host host = { 0 };
            struct rwk_file_functions functions = functions_of(&host, ability);
            rwk_source_init(&source);
            source.functions = &functions;
            assert_ok(rwk_tokenizer_open_source(&other, &source, NULL, &failure));
            ck_assert_int_eq(host.n_open, 0);
            assert_same_ids(plain, other);
            rwk_tokenizer_close(&other);
        }
        rwk_tokenizer_close(&plain);
        free_files();
        n++;
    }
    closedir(d);
    ck_assert_int_gt(n, 1);
    struct rwk_tokenizer *none = NULL;
    struct rwk_blob nothing = { "notes.txt", "", 0 };
    struct rwk_source source;
    rwk_source_init(&source);
    source.blobs = &nothing;
    source.n_blobs = 1;
    ck_assert_int_eq(rwk_tokenizer_open_source(&none, &source, NULL, &failure), RWK_STATUS_IO);
}
END_TEST

START_TEST(a_plan_from_memory_is_the_plan_of_the_directory)
{
    struct rwk_position_plan *plain = NULL, *other = NULL;
    struct rwk_position_table a = { .size = sizeof a }, b = { .size = sizeof b };
    read_files(checkpoint_path("llama-yarn"));
    struct rwk_source source = blob_source();
    assert_ok(rwk_position_resolve(&plain, checkpoint_path("llama-yarn"), NULL, &failure));
    assert_ok(rwk_position_resolve_source(&other, &source, NULL, &failure));
    assert_ok(rwk_position_get_table(plain, 0, &a));
    assert_ok(rwk_position_get_table(other, 0, &b));
    ck_assert_uint_eq(a.n_pairs, b.n_pairs);
    ck_assert_mem_eq(a.inv_freq, b.inv_freq, a.n_pairs * sizeof *a.inv_freq);
    rwk_position_plan_close(&plain);
    rwk_position_plan_close(&other);
    free_files();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("source");
    TCase *tcase = tcase_create("source");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_model_from_memory_is_the_model_of_the_directory, 0, N_NAMES);
    tcase_add_loop_test(tcase, a_model_through_functions_is_the_model_of_the_directory, 0, N_NAMES);
    tcase_add_loop_test(tcase, every_load_mode_and_prefetch_gives_the_same_model, 0, N_NAMES);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(tcase, memory_that_cannot_be_locked_is_an_error);
#endif
    tcase_add_test(tcase, a_source_names_one_place);
    tcase_add_test(tcase, foreign_memory_cannot_be_locked);
    tcase_add_test(tcase, a_file_that_the_host_cannot_give_is_reported_by_name);
    tcase_add_test(tcase, survives_every_refused_allocation);
    tcase_add_test(tcase, loading_tells_its_progress_and_can_be_cancelled);
    tcase_add_test(tcase, a_tokenizer_from_anywhere_is_the_tokenizer_of_the_directory);
    tcase_add_test(tcase, a_plan_from_memory_is_the_plan_of_the_directory);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
