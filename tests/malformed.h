/* A model directory that can be spoiled: the files of a good one in memory, written to the scratch
 * directory, and the try of what is there. */
#ifndef RWK_TESTS_MALFORMED_H
#define RWK_TESTS_MALFORMED_H

#include <stdbool.h>
#include <sys/stat.h>
#include "scratch.h"

enum { MAX_DIRECTORY_FILES = 24, TRY_LIMIT = 256 << 20, MAX_LOGITS = 2048 };

struct good_file {
    char name[128];
    unsigned char *data;
    size_t size;
};

struct good_directory {
    struct good_file files[MAX_DIRECTORY_FILES];
    int n;
    size_t size;
};

/* Counts what the library holds, and refuses what would exceed TRY_LIMIT. */
struct meter {
    size_t bytes, peak;
    long n_blocks;
    bool refused;
};
static struct meter meter;

static inline void *meter_alloc(void *user_data, size_t size, size_t alignment)
{
    struct meter *m = user_data;
    void *pointer = NULL;
    if (size > TRY_LIMIT - m->bytes) {
        m->refused = true;
        return NULL;
    }
    if (posix_memalign(&pointer, alignment, size) != 0)
        return NULL;
    m->bytes += size;
    m->n_blocks++;
    m->peak = m->bytes > m->peak ? m->bytes : m->peak;
    return pointer;
}

static inline void meter_free(void *user_data, void *pointer, size_t size)
{
    struct meter *m = user_data;
    m->bytes -= size;
    m->n_blocks--;
    free(pointer);
}

static const struct rwk_allocator meter_allocator = { meter_alloc, meter_free, &meter };

/* All files but those of expected results. */
static inline void good_read(struct good_directory *d, const char *path)
{
    DIR *directory = opendir(path);
    ck_assert_msg(directory != NULL, "%s", path);
    *d = (struct good_directory) { 0 };
    for (struct dirent *entry; (entry = readdir(directory));) {
        char name[512];
        if (entry->d_name[0] == '.' || !strncmp(entry->d_name, "expected", 8) ||
            !strncmp(entry->d_name, "golden", 6))
            continue;
        ck_assert_int_lt(d->n, MAX_DIRECTORY_FILES);
        struct good_file *f = &d->files[d->n++];
        snprintf(f->name, sizeof f->name, "%.127s", entry->d_name);
        snprintf(name, sizeof name, "%s/%s", path, f->name);
        FILE *file = fopen(name, "rb");
        ck_assert_ptr_nonnull(file);
        fseek(file, 0, SEEK_END);
        f->size = (size_t)ftell(file);
        rewind(file);
        f->data = malloc(f->size + 1);
        ck_assert_uint_eq(fread(f->data, 1, f->size, file), f->size);
        fclose(file);
        d->size += f->size;
    }
    closedir(directory);
}

static inline void good_free(struct good_directory *d)
{
    for (int i = 0; i < d->n; i++)
        free(d->files[i].data);
}

static inline void good_write(const struct good_directory *d)
{
    scratch_clear();
    for (int i = 0; i < d->n; i++)
        scratch_write(d->files[i].name, d->files[i].data, d->files[i].size);
}

static inline struct good_file *good_find(struct good_directory *d, const char *name)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->files[i].name, name))
            return &d->files[i];
    return NULL;
}

static struct rwk_error try_error;
static float try_logits[MAX_LOGITS]; /* of the latest model that could be evaluated */

/* A refusal must say what is wrong with which file, in one line. */
static inline void check_refusal(enum rwk_status status)
{
    static const unsigned allowed = 1u << RWK_STATUS_IO | 1u << RWK_STATUS_FORMAT |
                                    1u << RWK_STATUS_UNSUPPORTED | 1u << RWK_STATUS_MISMATCH |
                                    1u << RWK_STATUS_RANGE;
    ck_assert_msg((allowed >> status & 1) || (status == RWK_STATUS_NOMEM && meter.refused),
                  "%s: %s", rwk_status_name(status), try_error.message);
    ck_assert_int_eq(try_error.status, status);
    ck_assert_msg(try_error.message[0] && !strpbrk(try_error.message, "\r\n"), "\"%s\"",
                  try_error.message);
}

static inline void try_begin(void)
{
    meter = (struct meter) { 0 };
    try_error = (struct rwk_error) { .size = sizeof try_error };
}

/* A few tokens through the model that opened: numbers, or a refusal of the sampler's. */
static inline void try_evaluate(struct rwk_model *model)
{
    struct rwk_session_options options;
    struct rwk_session *session = NULL;
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample sample = { 0 };
    struct rwk_model_info info = { .size = sizeof info };
    uint32_t ids[4];
    rwk_model_get_info(model, &info);
    for (uint32_t i = 0; i < 4; i++)
        ids[i] = i * 7 % info.vocab_size;
    rwk_session_options_init(&options);
    options.allocator = &meter_allocator;
    options.context = info.context_limit < 4 ? info.context_limit : 4;
    enum rwk_status status = rwk_session_create(&session, model, &options, &try_error);
    if (status) {
        check_refusal(status);
        return;
    }
    size_t n = (size_t)options.context;
    ck_assert_msg(!rwk_session_eval(session, ids, n, 0, NULL, &try_error), "%s", try_error.message);
    const float *logits = rwk_session_logits(session, n - 1);
    memset(try_logits, 0, sizeof try_logits);
    memcpy(try_logits, logits,
           (info.vocab_size < MAX_LOGITS ? info.vocab_size : MAX_LOGITS) * sizeof *logits);
    ck_assert_int_eq(rwk_sampler_create(&sampler, NULL, NULL), RWK_STATUS_OK);
    status = rwk_sampler_sample(sampler, logits, info.vocab_size, NULL, 0, &sample, NULL);
    ck_assert(status == RWK_STATUS_NUMERIC ||
              (status == RWK_STATUS_OK && sample.token < info.vocab_size));
    rwk_sampler_close(&sampler);
    rwk_session_close(&session);
}

/* Opens and, if that works, uses the model in the scratch directory. Memory at opening is bounded
 * by the files' size. */
static inline enum rwk_status try_model(const struct good_directory *d, uint32_t load_mode)
{
    struct rwk_model_options options;
    struct rwk_model *model = NULL;
    try_begin();
    rwk_model_options_init(&options);
    options.allocator = &meter_allocator;
    options.load_mode = load_mode;
    enum rwk_status status = rwk_model_open(&model, scratch, &options, &try_error);
    ck_assert_msg(meter.peak <= (16 << 20) + 20 * d->size, "%zu bytes for files of %zu: %s",
                  meter.peak, d->size, try_error.message);
    if (status) {
        ck_assert_ptr_null(model);
        check_refusal(status);
    } else {
        try_evaluate(model);
    }
    rwk_model_close(&model);
    ck_assert_int_eq(meter.n_blocks, 0);
    return status;
}

/* The same for a tokenizer. */
static inline enum rwk_status try_tokenizer(void)
{
    static const char text[] = "once upon a \xc3\xa9 <s> 12\n";
    struct rwk_tokenizer_options options;
    struct rwk_tokenizer *tokenizer = NULL;
    uint32_t ids[128];
    char out[1024];
    size_t n = 0, size = 0;
    try_begin();
    rwk_tokenizer_options_init(&options);
    options.allocator = &meter_allocator;
    enum rwk_status status = rwk_tokenizer_open(&tokenizer, scratch, &options, &try_error);
    if (status) {
        ck_assert_ptr_null(tokenizer);
        check_refusal(status);
    } else if (!rwk_tokenizer_encode(tokenizer, text, sizeof text - 1, 1, ids, 128, NULL, &n,
                                     &try_error) &&
               n <= 128) {
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_lt(ids[i], rwk_tokenizer_n_tokens(tokenizer));
        enum rwk_status decoded =
            rwk_tokenizer_decode(tokenizer, ids, n, 0, out, sizeof out, &size, &try_error);
        ck_assert_msg(!decoded || decoded == RWK_STATUS_UNSUPPORTED, "%s", try_error.message);
    }
    rwk_tokenizer_close(&tokenizer);
    ck_assert_int_eq(meter.n_blocks, 0);
    return status;
}

#endif
