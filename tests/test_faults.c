/* Every allocation and every system call fails once, in turn: the call then gives an error of the
 * right kind or the very result that it gives otherwise, leaves its object as it was, and leaks
 * nothing. */
#include <errno.h>
#include "faults.h"
#include "scratch.h"

enum { N_PROMPT = 20, MAX_VOCAB = 1024, MAX_CALLS = 20000 };

#define CHECKPOINTS RWK_TEST_DATA "/checkpoints/"
#define TOKENIZERS RWK_TEST_DATA "/tokenizers/"
#define EXAMPLE RWK_TEST_DATA "/../../examples/rope-llama"

static struct rwk_error error = { .size = sizeof error };
static uint32_t prompt[N_PROMPT];

static void setup(void)
{
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (i * 11 + 3) % 60;
}

static void teardown(void)
{
    ck_assert_int_eq(faults.n_blocks, 0);
    ck_assert_int_eq(faults.n_mappings, 0);
}

/* ---- what is done, with faults and without ---- */

static enum rwk_status open_model(struct rwk_model **ret, const char *path, uint32_t load_mode,
                                  uint32_t weights)
{
    struct rwk_model_options options;
    rwk_model_options_init(&options);
    options.allocator = fault_allocator();
    options.load_mode = load_mode;
    options.weights = weights;
    return rwk_model_open(ret, path, &options, &error);
}

static enum rwk_status open_tokenizer(struct rwk_tokenizer **ret, const char *path)
{
    struct rwk_tokenizer_options options;
    rwk_tokenizer_options_init(&options);
    options.allocator = fault_allocator();
    return rwk_tokenizer_open(ret, path, &options, &error);
}

static enum rwk_status create_session(struct rwk_session **ret, struct rwk_model *model)
{
    struct rwk_session_options options;
    rwk_session_options_init(&options);
    options.allocator = fault_allocator();
    options.context = 64;
    options.chunk = 16;
    return rwk_session_create(ret, model, &options, &error);
}

static uint32_t vocab_of(const struct rwk_model *model)
{
    struct rwk_model_info info = { .size = sizeof info };
    rwk_model_get_info(model, &info);
    ck_assert_uint_le(info.vocab_size, MAX_VOCAB);
    return info.vocab_size;
}

/* The logits of the prompt's last token. */
static void evaluate(float ret_logits[MAX_VOCAB], struct rwk_model *model)
{
    struct rwk_session *session = NULL;
    memset(ret_logits, 0, MAX_VOCAB * sizeof *ret_logits);
    ck_assert_msg(!create_session(&session, model), "%s", error.message);
    ck_assert_msg(!rwk_session_eval(session, prompt, N_PROMPT, 0, NULL, &error), "%s",
                  error.message);
    memcpy(ret_logits, rwk_session_logits(session, N_PROMPT - 1),
           vocab_of(model) * sizeof *ret_logits);
    rwk_session_close(&session);
}

static size_t encode(uint32_t ret_ids[128], const struct rwk_tokenizer *tokenizer)
{
    static const char text[] = "It was a dark and stormy night; \xc3\xa9t\xc3\xa9 <s> 12";
    size_t n = 0;
    ck_assert_msg(!rwk_tokenizer_encode(tokenizer, text, sizeof text - 1, RWK_ENCODE_ADD_SPECIAL,
                                        ret_ids, 128, NULL, &n, &error),
                  "%s", error.message);
    ck_assert_uint_le(n, 128);
    return n;
}

/* ---- opening ---- */

/* A kind of fault, and the status it may lead to. */
struct trouble {
    unsigned kinds;
    int os_error;
    enum rwk_status status;
};
static const struct trouble out_of_memory = { FAULT_HOST | FAULT_MALLOC, 0, RWK_STATUS_NOMEM };
static const struct trouble troubles[] = {
    { FAULT_OPEN, EMFILE, RWK_STATUS_IO },   { FAULT_OPEN, EACCES, RWK_STATUS_IO },
    { FAULT_EXAMINE, EIO, RWK_STATUS_IO },   { FAULT_EXAMINE, EACCES, RWK_STATUS_IO },
    { FAULT_READ, EIO, RWK_STATUS_IO },      { FAULT_READ, 0, RWK_STATUS_IO },
    { FAULT_MAP, ENOMEM, RWK_STATUS_IO },    { FAULT_MAP, EPERM, RWK_STATUS_IO },
};
enum { N_TROUBLES = sizeof troubles / sizeof *troubles };

static void check_failure(const char *path, const struct trouble *t, long call,
                          enum rwk_status status, long n_blocks)
{
    ck_assert_msg(status == t->status, "%s, call %ld of kind %u: %s: %s", path, call, t->kinds,
                  rwk_status_name(status), error.message);
    ck_assert_int_eq(faults.n_blocks, n_blocks);
    ck_assert_msg(t->kinds & ~(FAULT_OPEN | FAULT_READ | FAULT_MAP) ||
                      error.os_error == t->os_error,
                  "%s, call %ld of kind %u: %s", path, call, t->kinds, error.message);
}

static long try_models(const char *name, uint32_t load_mode, uint32_t weights,
                       const struct trouble *t)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    char path[256];
    struct rwk_model *model = NULL;
    long call = 0, n_files = faults.n_files;
    snprintf(path, sizeof path, CHECKPOINTS "%s", name);
    ck_assert_msg(!open_model(&model, path, load_mode, weights), "%s", error.message);
    evaluate(expected, model);
    rwk_model_close(&model);
    for (bool failed = true; failed; call++) {
        ck_assert_int_lt(call, MAX_CALLS);
        faults_begin(t->kinds, call, t->os_error);
        enum rwk_status status = open_model(&model, path, load_mode, weights);
        failed = faults_end();
        if (status) {
            ck_assert(failed && !model);
            check_failure(path, t, call, status, 0);
        } else {
            evaluate(logits, model);
            ck_assert_mem_eq(logits, expected, sizeof logits);
            rwk_model_close(&model);
        }
        ck_assert_int_eq(faults.n_blocks, 0);
        ck_assert_int_eq(faults.n_mappings, 0);
        ck_assert_int_eq(faults.n_files, n_files);
    }
    return call;
}

static long try_tokenizers(const char *path, const struct trouble *t)
{
    uint32_t expected[128] = { 0 }, ids[128] = { 0 };
    struct rwk_tokenizer *tokenizer = NULL;
    long call = 0, n_files = faults.n_files;
    ck_assert_msg(!open_tokenizer(&tokenizer, path), "%s", error.message);
    size_t n = encode(expected, tokenizer);
    rwk_tokenizer_close(&tokenizer);
    for (bool failed = true; failed; call++) {
        ck_assert_int_lt(call, MAX_CALLS);
        faults_begin(t->kinds, call, t->os_error);
        enum rwk_status status = open_tokenizer(&tokenizer, path);
        failed = faults_end();
        if (status) {
            ck_assert(failed && !tokenizer);
            check_failure(path, t, call, status, 0);
        } else {
            ck_assert_uint_eq(encode(ids, tokenizer), n);
            ck_assert_mem_eq(ids, expected, sizeof ids);
            rwk_tokenizer_close(&tokenizer);
        }
        ck_assert_int_eq(faults.n_blocks, 0);
        ck_assert_int_eq(faults.n_files, n_files);
    }
    return call;
}

static const char *const checkpoints[] = { "gpt2",       "llama-bf16-sharded",
                                           "llama-yarn", "gemma3_text",
                                           "bloom",      "opt" };
static const char *const tokenizers[] = { TOKENIZERS "bloom-style", TOKENIZERS "spm-bpe-small",
                                          TOKENIZERS "spm-unigram-small",
                                          TOKENIZERS "unigram-metaspace", EXAMPLE };
enum {
    N_CHECKPOINTS = sizeof checkpoints / sizeof *checkpoints,
    N_TOKENIZERS = sizeof tokenizers / sizeof *tokenizers
};

START_TEST(a_model_opens_or_says_that_memory_is_out)
{
    for (uint32_t mode = RWK_LOAD_MAP; mode <= RWK_LOAD_READ; mode++)
        ck_assert_int_gt(try_models(checkpoints[_i], mode, 0, &out_of_memory), 5);
    ck_assert_int_gt(try_models(checkpoints[_i], RWK_LOAD_MAP, RWK_WEIGHTS_Q8, &out_of_memory), 5);
}
END_TEST

START_TEST(a_model_opens_or_says_what_the_system_refused)
{
    for (uint32_t mode = RWK_LOAD_MAP; mode <= RWK_LOAD_MAP_LOCK; mode++)
        for (int t = 0; t < N_TROUBLES; t++)
            try_models(checkpoints[_i], mode, 0, &troubles[t]);
}
END_TEST

START_TEST(a_tokenizer_opens_or_says_that_memory_is_out)
{
    ck_assert_int_gt(try_tokenizers(tokenizers[_i], &out_of_memory), 5);
}
END_TEST

START_TEST(a_tokenizer_opens_or_says_what_the_system_refused)
{
    for (int t = 0; t < N_TROUBLES; t++)
        try_tokenizers(tokenizers[_i], &troubles[t]);
}
END_TEST

START_TEST(reads_that_come_in_single_bytes_and_are_interrupted_are_whole)
{
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    struct rwk_model *model = NULL;
    ck_assert_int_eq(open_model(&model, CHECKPOINTS "gpt2", RWK_LOAD_MAP, 0), RWK_STATUS_OK);
    evaluate(expected, model);
    rwk_model_close(&model);
    faults.trickle = true;
    ck_assert_msg(!open_model(&model, CHECKPOINTS "gpt2", RWK_LOAD_READ, 0), "%s", error.message);
    faults.trickle = false;
    evaluate(logits, model);
    ck_assert_mem_eq(logits, expected, sizeof logits);
    rwk_model_close(&model);
}
END_TEST

/* ---- writing ---- */

static void empty_directory(void)
{
    scratch_clear();
    rmdir(scratch);
}

static bool holds(const char *name) { return access(scratch_path(name), F_OK) == 0; }

/* Nothing that was begun is there under its name but what is whole, and no temporary file. */
static void check_written(void)
{
    DIR *directory = opendir(scratch);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        ck_assert_msg(!strstr(entry->d_name, "tmp") && !strstr(entry->d_name, "part"), "%s is left",
                      entry->d_name);
    if (directory)
        closedir(directory);
}

START_TEST(quantised_weights_are_written_or_not_there)
{
    static const struct trouble more[] = { { FAULT_WRITE, ENOSPC, RWK_STATUS_IO },
                                           { FAULT_WRITE, EIO, RWK_STATUS_IO } };
    static float expected[MAX_VOCAB], logits[MAX_VOCAB];
    const struct trouble *t = _i < 2 ? &more[_i] : _i == 2 ? &out_of_memory : &troubles[_i - 3];
    struct rwk_model *model = NULL;
    struct rwk_model_options options;
    rwk_model_options_init(&options);
    options.allocator = fault_allocator();
    options.weights = RWK_WEIGHTS_Q8;
    ck_assert_msg(!open_model(&model, CHECKPOINTS "gpt_neo", RWK_LOAD_MAP, RWK_WEIGHTS_Q8), "%s",
                  error.message);
    evaluate(expected, model);
    rwk_model_close(&model);
    scratch_open();
    long call = 0, n_files = faults.n_files;
    for (bool failed = true; failed; call++) {
        ck_assert_int_lt(call, MAX_CALLS);
        empty_directory();
        faults_begin(t->kinds, call, t->os_error);
        enum rwk_status status = rwk_quantize(CHECKPOINTS "gpt_neo", scratch, &options, &error);
        failed = faults_end();
        check_written();
        if (status) {
            ck_assert(failed);
            check_failure(scratch, t, call, status, 0);
            ck_assert_msg(!(holds("model.safetensors") && holds("config.json")), "call %ld: %s",
                          call, error.message);
        } else {
            ck_assert_msg(!open_model(&model, scratch, RWK_LOAD_MAP, 0), "call %ld: %s", call,
                          error.message);
            evaluate(logits, model);
            ck_assert_mem_eq(logits, expected, sizeof logits);
            rwk_model_close(&model);
        }
        ck_assert_int_eq(faults.n_blocks, 0);
        ck_assert_int_eq(faults.n_mappings, 0);
        ck_assert_int_eq(faults.n_files, n_files);
    }
    ck_assert_int_gt(call, 1);
    empty_directory();
}
END_TEST

/* ---- objects without files of their own ---- */

/* One call, repeated with a fault in each of its allocations and, at last, without. `check` sees
 * the object after every failure. */
struct attempt {
    enum rwk_status (*call)(void *arg);
    void (*check)(void *arg);
    long n_kept; /* blocks that a failure may leave with the object, to be used by the next try */
};

static long try_call(const struct attempt *a, void *arg)
{
    long call = 0, n_blocks = faults.n_blocks;
    enum rwk_status status = RWK_STATUS_NOMEM;
    for (; status; call++) {
        faults_begin(out_of_memory.kinds, call, 0);
        status = a->call(arg);
        bool failed = faults_end();
        if (!status)
            break;
        ck_assert_msg(failed && status == RWK_STATUS_NOMEM, "allocation %ld: %s: %s", call,
                      rwk_status_name(status), error.message);
        ck_assert_msg(faults.n_blocks - n_blocks <= a->n_kept,
                      "allocation %ld: %ld blocks are left", call, faults.n_blocks - n_blocks);
        if (a->check)
            a->check(arg);
    }
    return call;
}

struct running {
    struct rwk_model *model;
    struct rwk_session *session, *other;
    uint64_t position;
    float logits[MAX_VOCAB]; /* of the last token */
    double scores[N_PROMPT];
};

static void is_as_before(void *arg)
{
    struct running *r = arg;
    ck_assert_uint_eq(rwk_session_position(r->session), r->position);
    ck_assert_ptr_null(r->other);
    ck_assert_int_eq(
        memcmp(rwk_session_tokens(r->session), prompt, (size_t)r->position * sizeof *prompt), 0);
}

static enum rwk_status call_create(void *arg)
{
    struct running *r = arg;
    return create_session(&r->session, r->model);
}
static enum rwk_status call_eval(void *arg)
{
    struct running *r = arg;
    return rwk_session_eval(r->session, prompt + 4, 8, RWK_EVAL_ALL_LOGITS, NULL, &error);
}
static enum rwk_status call_sync(void *arg)
{
    struct running *r = arg;
    return rwk_session_sync(r->session, prompt, 14, NULL, &error);
}
static enum rwk_status call_score(void *arg)
{
    struct running *r = arg;
    return rwk_session_score(r->session, prompt + 14, 4, r->scores, &error);
}
static enum rwk_status call_fork(void *arg)
{
    struct running *r = arg;
    return rwk_session_fork(&r->other, r->session, &error);
}
static enum rwk_status call_step(void *arg)
{
    struct running *r = arg;
    return rwk_step((struct rwk_session *[]) { r->session, r->other }, prompt + 18, 2, &error);
}

START_TEST(a_session_stands_where_it_did)
{
    static struct running r;
    static float expected[MAX_VOCAB];
    char path[256];
    snprintf(path, sizeof path, CHECKPOINTS "%s", checkpoints[_i]);
    memset(&r, 0, sizeof r);
    ck_assert_msg(!open_model(&r.model, path, RWK_LOAD_MAP, 0), "%s", error.message);
    evaluate(expected, r.model);
    ck_assert_int_gt(try_call(&(struct attempt) { call_create }, &r), 3);
    ck_assert_int_eq(rwk_session_eval(r.session, prompt, 4, 0, NULL, &error), RWK_STATUS_OK);
    r.position = 4;
    ck_assert_int_ge(try_call(&(struct attempt) { call_eval, is_as_before }, &r), 1);
    r.position = 12;
    try_call(&(struct attempt) { call_sync, is_as_before }, &r);
    r.position = 14;
    try_call(&(struct attempt) { call_score, is_as_before }, &r);
    r.position = 18;
    ck_assert_int_gt(try_call(&(struct attempt) { call_fork, is_as_before, 3 }, &r), 3);
    try_call(&(struct attempt) { call_step }, &r);
    /* Both now differ in their last token; the first one is one token short of the prompt. */
    ck_assert_uint_eq(rwk_session_position(r.other), 19);
    ck_assert_int_eq(rwk_session_eval(r.session, prompt + 19, 1, 0, NULL, &error), RWK_STATUS_OK);
    ck_assert_mem_eq(rwk_session_logits(r.session, 0), expected, vocab_of(r.model) * sizeof(float));
    rwk_session_close(&r.session);
    rwk_session_close(&r.other);
    rwk_model_close(&r.model);
}
END_TEST

struct reading {
    struct rwk_tokenizer *tokenizer;
    struct rwk_stream *stream;
    struct rwk_position_plan *plan;
    struct rwk_tensor_file *file;
    struct rwk_sampler *sampler;
    struct rwk_pool *pool;
    struct rwk_sample sample;
    uint32_t ids[128];
    struct rwk_span spans[128];
    char text[512], streamed[512];
    size_t n_ids, size, n_streamed;
};

static enum rwk_status call_encode(void *arg)
{
    struct reading *r = arg;
    return rwk_tokenizer_encode(r->tokenizer, "A dark \xe2\x80\xa6 night", 16, 0, r->ids, 128,
                                r->spans, &r->n_ids, &error);
}
static enum rwk_status call_decode(void *arg)
{
    struct reading *r = arg;
    return rwk_tokenizer_decode(r->tokenizer, r->ids, r->n_ids, 0, r->text, sizeof r->text,
                                &r->size, &error);
}
static enum rwk_status call_stream_create(void *arg)
{
    struct reading *r = arg;
    return rwk_stream_create(&r->stream, r->tokenizer, 0, &error);
}
static enum rwk_status call_add_stop(void *arg)
{
    struct reading *r = arg;
    return rwk_stream_add_stop(r->stream, "@@@", 3, &error);
}
static void keep_streamed(struct reading *r, const char *text, size_t size)
{
    ck_assert_uint_le(r->n_streamed + size, sizeof r->streamed);
    memcpy(r->streamed + r->n_streamed, text, size);
    r->n_streamed += size;
}
static enum rwk_status call_push(void *arg)
{
    struct reading *r = arg;
    const char *text;
    size_t size;
    int stopped;
    enum rwk_status status =
        rwk_stream_push(r->stream, r->ids[r->n_ids], &text, &size, &stopped, &error);
    if (!status)
        keep_streamed(r, text, size);
    return status;
}
static enum rwk_status call_flush(void *arg)
{
    struct reading *r = arg;
    const char *text;
    size_t size;
    enum rwk_status status = rwk_stream_flush(r->stream, &text, &size, &error);
    if (!status)
        keep_streamed(r, text, size);
    return status;
}

START_TEST(texts_come_out_whole)
{
    static struct reading r;
    memset(&r, 0, sizeof r);
    ck_assert_msg(!open_tokenizer(&r.tokenizer, tokenizers[_i]), "%s", error.message);
    try_call(&(struct attempt) { call_encode }, &r); /* short texts may need no memory */
    try_call(&(struct attempt) { call_decode }, &r);
    ck_assert_int_ge(try_call(&(struct attempt) { call_stream_create }, &r), 1);
    ck_assert_int_ge(try_call(&(struct attempt) { call_add_stop }, &r), 1);
    size_t n = r.n_ids;
    for (r.n_ids = 0; r.n_ids < n; r.n_ids++) {
        /* What the stream keeps of earlier pushes may grow, and stay grown, in a push that fails
         * later. */
        enum rwk_status status = RWK_STATUS_NOMEM;
        for (long call = 0; status; call++) {
            faults_begin(out_of_memory.kinds, call, 0);
            status = call_push(&r);
            faults_end();
            ck_assert(status == RWK_STATUS_OK || status == RWK_STATUS_NOMEM);
        }
    }
    enum rwk_status status = RWK_STATUS_NOMEM;
    for (long call = 0; status; call++) {
        faults_begin(out_of_memory.kinds, call, 0);
        status = call_flush(&r);
        faults_end();
        ck_assert(status == RWK_STATUS_OK || status == RWK_STATUS_NOMEM);
    }
    ck_assert_uint_eq(r.n_streamed, r.size);
    ck_assert_mem_eq(r.streamed, r.text, r.size);
    rwk_stream_close(&r.stream);
    rwk_tokenizer_close(&r.tokenizer);
}
END_TEST

static enum rwk_status call_resolve(void *arg)
{
    struct reading *r = arg;
    struct rwk_model_options options;
    rwk_model_options_init(&options);
    options.allocator = fault_allocator();
    options.rope_scaling = "{\"rope_type\": \"yarn\", \"factor\": 4.0}";
    return rwk_position_resolve(&r->plan, CHECKPOINTS "llama-f16", &options, &error);
}
static enum rwk_status call_open_file(void *arg)
{
    struct reading *r = arg;
    return rwk_tensor_file_open(&r->file, CHECKPOINTS "gpt2/model.safetensors", fault_allocator(),
                                &error);
}
static enum rwk_status call_pool(void *arg)
{
    struct reading *r = arg;
    return rwk_pool_create(&r->pool, 3, fault_allocator(), &error);
}
static enum rwk_status call_sampler(void *arg)
{
    struct reading *r = arg;
    struct rwk_sampler_options options;
    rwk_sampler_options_init(&options);
    options.temperature = 1;
    options.top_k = 3;
    options.top_p = 0.9;
    options.repetition_penalty = 1.1;
    return rwk_sampler_create(&r->sampler, &options, &error);
}
static enum rwk_status call_sample(void *arg)
{
    static const float logits[] = { 1, 2, 3, 4, 5, 6, 7 };
    static const uint32_t history[] = { 1, 2 };
    struct reading *r = arg;
    return rwk_sampler_sample(r->sampler, logits, 7, history, 2, &r->sample, &error);
}
static void has_drawn_nothing(void *arg)
{
    const struct reading *r = arg;
    uint64_t state[2];
    rwk_sampler_get_state(r->sampler, state);
    ck_assert_uint_eq(state[1], 0);
}

START_TEST(everything_else_opens_or_says_that_memory_is_out)
{
    static struct reading r;
    memset(&r, 0, sizeof r);
    ck_assert_int_gt(try_call(&(struct attempt) { call_resolve }, &r), 1);
    ck_assert_int_gt(try_call(&(struct attempt) { call_open_file }, &r), 1);
    ck_assert_int_gt(try_call(&(struct attempt) { call_pool }, &r), 1);
    ck_assert_int_ge(try_call(&(struct attempt) { call_sampler }, &r), 1);
    ck_assert_int_ge(try_call(&(struct attempt) { call_sample, has_drawn_nothing }, &r), 1);
    rwk_position_plan_close(&r.plan);
    rwk_tensor_file_close(&r.file);
    rwk_pool_close(&r.pool);
    rwk_sampler_close(&r.sampler);
}
END_TEST

START_TEST(a_pool_whose_threads_do_not_start_is_refused)
{
    struct rwk_pool *pool = NULL;
    for (long call = 0; call < 3; call++) {
        faults_begin(FAULT_THREAD, call, EAGAIN);
        enum rwk_status status = rwk_pool_create(&pool, 4, fault_allocator(), &error);
        ck_assert(faults_end());
        ck_assert_int_eq(status, RWK_STATUS_NOMEM);
        ck_assert_int_eq(error.os_error, EAGAIN);
        ck_assert_ptr_null(pool);
        ck_assert_int_eq(faults.n_blocks, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults");
    TCase *tcase = tcase_create("faults");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, a_model_opens_or_says_that_memory_is_out, 0, N_CHECKPOINTS);
    tcase_add_loop_test(tcase, a_model_opens_or_says_what_the_system_refused, 0, N_CHECKPOINTS);
    tcase_add_loop_test(tcase, a_tokenizer_opens_or_says_that_memory_is_out, 0, N_TOKENIZERS);
    tcase_add_loop_test(tcase, a_tokenizer_opens_or_says_what_the_system_refused, 0, N_TOKENIZERS);
    tcase_add_test(tcase, reads_that_come_in_single_bytes_and_are_interrupted_are_whole);
    tcase_add_loop_test(tcase, quantised_weights_are_written_or_not_there, 0, 3 + N_TROUBLES);
    tcase_add_loop_test(tcase, a_session_stands_where_it_did, 0, N_CHECKPOINTS);
    tcase_add_loop_test(tcase, texts_come_out_whole, 0, N_TOKENIZERS);
    tcase_add_test(tcase, everything_else_opens_or_says_that_memory_is_out);
    tcase_add_test(tcase, a_pool_whose_threads_do_not_start_is_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
