/* Sessions: forks, prefixes, rewinding, steps of several, scores, cancelling, memory. The claim
 * behind most cases is the same: whatever was done before, the logits are those of a fresh session
 * given the same tokens, bit for bit. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include "one_model.h"

enum { LENGTH = 150 };

/* One checkpoint for each way of keeping time and memory: positions, windows, frequencies that
 * change with the length. */
static const char *const names[] = {
    "llama-mha",      "llama-dynamic", "llama-longrope-short", "gpt2", "bloom", "mpt",
    "mistral-window", "gemma2",        "smollm3-nope",         "xglm",
};
enum { N_NAMES = sizeof names / sizeof *names };

/* ---- what the cases share ---- */

static uint32_t length_of_text(void)
{
    return options.context < LENGTH + 10 ? (uint32_t)options.context - 10 : LENGTH;
}

static void eval(struct rwk_session *s, const uint32_t *ids, size_t n)
{
    assert_ok(rwk_session_eval(s, ids, n, 0, NULL, &failure));
}

/* The last logits of a fresh session given the sequence of `s`, against those that `s` has. */
static void assert_as_fresh(const struct rwk_session *s, const char *what)
{
    struct rwk_session *fresh = open_session(model, &options);
    const float *have = rwk_session_logits(s, RWK_LAST);
    ck_assert_ptr_nonnull(have);
    eval(fresh, rwk_session_tokens(s), (size_t)rwk_session_position(s));
    ck_assert_msg(memcmp(have, rwk_session_logits(fresh, RWK_LAST), vocab * sizeof *have) == 0,
                  "%s: other bits at position %d", what, (int)rwk_session_position(s));
    rwk_session_close(&fresh);
}

static struct rwk_session_stats stats_of(const struct rwk_session *s)
{
    struct rwk_session_stats stats = { .size = sizeof stats };
    assert_ok(rwk_session_get_stats(s, &stats));
    return stats;
}

/* A host's allocator that counts what it is asked for. */
struct counter {
    size_t calls, now, peak;
};

static void *counting_alloc(void *user_data, size_t size, size_t alignment)
{
    struct counter *c = user_data;
    void *p = NULL;
    c->calls++;
    c->now += size;
    c->peak = c->now > c->peak ? c->now : c->peak;
    return posix_memalign(&p, alignment, size) == 0 ? p : NULL;
}

static void counting_free(void *user_data, void *pointer, size_t size)
{
    ((struct counter *)user_data)->now -= size;
    free(pointer);
}

/* ---- forks ---- */

START_TEST(forks_share_their_past_and_part_for_good)
{
    open_model(names[_i]);
    uint32_t n = length_of_text();
    struct rwk_session *a = open_session(model, &options), *b = NULL, *c = NULL;
    eval(a, tokens, n);
    assert_ok(rwk_session_fork(&b, a, &failure));
    ck_assert_mem_eq(rwk_session_logits(a, RWK_LAST), rwk_session_logits(b, RWK_LAST), vocab * 4);
    ck_assert_uint_eq(rwk_session_position(b), n);
    struct rwk_session_stats sa = stats_of(a), sb = stats_of(b);
    ck_assert_uint_gt(sa.cache_pages, 0);
    ck_assert_uint_eq(sa.shared_pages, sa.cache_pages);
    ck_assert_uint_eq(sb.shared_pages, sa.cache_pages);
    ck_assert_uint_eq(sb.evaluated_tokens, 0);

    uint32_t left = 1, right = 2;
    eval(b, &left, 1);
    eval(a, &right, 1);
    assert_as_fresh(b, names[_i]);
    assert_as_fresh(a, names[_i]);
    assert_ok(rwk_session_fork(&c, b, &failure));
    rwk_session_close(&b);
    eval(c, tokens, 5);
    assert_as_fresh(c, names[_i]);
    rwk_session_close(&a);
    eval(c, tokens + 5, 3);
    assert_as_fresh(c, names[_i]);
    ck_assert_uint_eq(stats_of(c).shared_pages, 0);
    rwk_session_close(&c);
    rwk_model_close(&model);
}
END_TEST

START_TEST(a_fork_copies_only_the_page_it_writes_to)
{
    open_model("llama-mha");
    struct rwk_session *a = open_session(model, &options), *b = NULL;
    eval(a, tokens, 150); /* pages 0, 1 and part of 2 */
    assert_ok(rwk_session_fork(&b, a, &failure));
    eval(b, tokens, 1);
    ck_assert_uint_eq(stats_of(b).copied_pages, 1);
    ck_assert_uint_eq(stats_of(b).cache_pages, 3);
    ck_assert_uint_eq(stats_of(b).shared_pages, 2);
    ck_assert_uint_eq(stats_of(a).shared_pages, 2);
    eval(a, tokens, 1); /* the only one left to refer to its page */
    ck_assert_uint_eq(stats_of(a).copied_pages, 0);
    rwk_session_close(&a);
    rwk_session_close(&b);
    rwk_model_close(&model);
}
END_TEST

static void *append_in_thread(void *arg)
{
    uint32_t token = 3;
    struct rwk_session *s = arg;
    return rwk_session_eval(s, &token, 1, 0, NULL, NULL) == RWK_STATUS_OK ? s : NULL;
}

/* All write to one shared page, of a store that has not a page to spare. */
START_TEST(forks_may_part_on_different_threads_at_once)
{
    enum { N = 6 };
    open_model("llama-mha");
    options.context = 64;
    for (int round = 0; round < 20; round++) {
        struct rwk_session *s[N] = { open_session(model, &options) };
        pthread_t threads[N];
        eval(s[0], tokens, 40);
        for (int i = 1; i < N; i++)
            assert_ok(rwk_session_fork(&s[i], s[0], &failure));
        for (int i = 0; i < N; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, append_in_thread, s[i]), 0);
        for (int i = 0; i < N; i++) {
            void *done = NULL;
            pthread_join(threads[i], &done);
            ck_assert_ptr_eq(done, s[i]);
        }
        for (int i = 0; i < N; i++)
            ck_assert_mem_eq(rwk_session_logits(s[i], 0), rwk_session_logits(s[0], 0), vocab * 4);
        assert_as_fresh(s[N - 1], "threads");
        for (int i = 0; i < N; i++)
            rwk_session_close(&s[i]);
    }
    rwk_model_close(&model);
}
END_TEST

/* ---- prefixes ---- */

START_TEST(sync_keeps_the_common_prefix)
{
    open_model(names[_i]);
    uint32_t n = length_of_text(), other[CONTEXT];
    size_t reused = 77;
    bool is_static = strcmp(names[_i], "llama-dynamic") != 0 &&
                     strcmp(names[_i], "llama-longrope-short") != 0 &&
                     strcmp(names[_i], "mistral-window") != 0 && strcmp(names[_i], "gemma2") != 0;
    struct rwk_session *s = open_session(model, &options);
    assert_ok(rwk_session_sync(s, tokens, n - 20, &reused, &failure));
    ck_assert_uint_eq(reused, 0);
    assert_as_fresh(s, names[_i]);
    assert_ok(rwk_session_sync(s, tokens, n, &reused, &failure)); /* longer */
    if (is_static)
        ck_assert_uint_eq(reused, n - 20);
    assert_as_fresh(s, names[_i]);
    assert_ok(rwk_session_sync(s, tokens, n, &reused, &failure)); /* the same */
    ck_assert_uint_eq(reused, n);
    assert_as_fresh(s, names[_i]);
    memcpy(other, tokens, sizeof other);
    other[n - 30] = (other[n - 30] + 1) % vocab; /* another from there on */
    assert_ok(rwk_session_sync(s, other, n - 10, &reused, &failure));
    if (is_static)
        ck_assert_uint_eq(reused, n - 30);
    else
        ck_assert_uint_le(reused, n - 30);
    assert_as_fresh(s, names[_i]);
    assert_ok(rwk_session_sync(s, other, 7, &reused,
                               &failure)); /* shorter: the last token again, for its logits */
    if (is_static)
        ck_assert_uint_eq(reused, 6);
    ck_assert_uint_eq(rwk_session_position(s), 7);
    assert_as_fresh(s, names[_i]);
    assert_ok(rwk_session_sync(s, rwk_session_tokens(s), 7, &reused,
                               &failure)); /* the session's own list */
    ck_assert_uint_eq(reused, 7);
    rwk_session_close(&s);
    rwk_model_close(&model);
}
END_TEST

START_TEST(rewinding_forgets_what_came_later)
{
    open_model(names[_i]);
    uint32_t n = length_of_text();
    struct rwk_session *s = open_session(model, &options);
    eval(s, tokens, n);
    for (uint32_t position = n - 3; position < n; position -= 41) {
        assert_ok(rwk_session_rewind(s, position, &failure));
        ck_assert_uint_eq(rwk_session_position(s), position);
        ck_assert_ptr_null(rwk_session_logits(s, RWK_LAST));
        eval(s, tokens + 100, 2);
        assert_as_fresh(s, names[_i]);
    }
    uint64_t position = rwk_session_position(s);
    ck_assert_int_eq(rwk_session_rewind(s, position + 1, &failure), RWK_STATUS_RANGE);
    ck_assert_uint_eq(rwk_session_position(s), position);
    assert_ok(rwk_session_rewind(s, 0, &failure));
    eval(s, tokens, 3);
    assert_as_fresh(s, names[_i]);
    rwk_session_close(&s);
    rwk_model_close(&model);
}
END_TEST

/* ---- shifting ---- */

/* mpt of tests/data with its first layer only. There keys and values depend on nothing but their
 * own token, so a shifted sequence must go on exactly as one that never had the dropped tokens. */
static struct rwk_model *open_one_layer(void)
{
    struct rwk_model *one = NULL;
    struct rwk_blob blobs[2] = { { "config.json", NULL, 0 }, { "model.safetensors", NULL, 0 } };
    struct rwk_source source;
    struct rwk_model_options how;
    char path[1024];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", checkpoint_path("mpt"), blobs[i].name);
        FILE *file = fopen(path, "rb");
        ck_assert_ptr_nonnull(file);
        char *data = calloc(1, 1 << 20);
        blobs[i].data = data;
        blobs[i].size = fread(data, 1, (1 << 20) - 1, file);
        ck_assert(feof(file));
        fclose(file);
    }
    char *layers = strstr(blobs[0].data, "\"n_layers\": 3");
    ck_assert_ptr_nonnull(layers);
    layers[strlen("\"n_layers\": ")] = '1';
    rwk_source_init(&source);
    source.blobs = blobs;
    source.n_blobs = 2;
    rwk_model_options_init(&how);
    how.load_mode = RWK_LOAD_READ;
    assert_ok(rwk_model_open_source(&one, &source, &how, &failure));
    free((void *)blobs[0].data);
    free((void *)blobs[1].data);
    return one;
}

START_TEST(a_shifted_sequence_goes_on_without_what_was_dropped)
{
    static const struct {
        uint32_t n, keep, drop;
    } rows[] = {
        { 150, 0, 64 }, { 150, 64, 64 }, { 200, 64, 128 }, { 128, 64, 64 }, { 130, 0, 128 }
    };
    open_model("mpt");
    rwk_model_close(&model);
    model = open_one_layer();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rwk_session *s = open_session(model, &options), *fork = NULL;
        eval(s, tokens, rows[i].n);
        assert_ok(rwk_session_fork(&fork, s, &failure));
        assert_ok(rwk_session_shift(s, rows[i].keep, rows[i].drop, &failure));
        ck_assert_uint_eq(rwk_session_position(s), rows[i].n - rows[i].drop);
        ck_assert_uint_eq(stats_of(s).dropped_tokens, rows[i].drop);
        ck_assert_mem_eq(rwk_session_logits(s, RWK_LAST), rwk_session_logits(fork, RWK_LAST),
                         vocab * 4);
        for (int k = 0; k < 70; k++) {
            eval(s, tokens + k, 1);
            if (k % 23 == 0)
                assert_as_fresh(s, "shifted");
        }
        eval(fork, tokens, 2); /* its pages are its own affair */
        assert_as_fresh(fork, "unshifted");
        rwk_session_close(&s);
        rwk_session_close(&fork);
    }
    rwk_model_close(&model);
}
END_TEST

START_TEST(after_a_shift_sync_and_rewind_lead_back_to_fresh_results)
{
    uint32_t rest[CONTEXT];
    size_t reused = 0;
    open_model("bloom");
    struct rwk_session *s = open_session(model, &options), *fork = NULL;
    eval(s, tokens, 200);
    assert_ok(rwk_session_shift(s, 64, 64, &failure));
    memcpy(rest, rwk_session_tokens(s), 136 * sizeof *rest);
    ck_assert_mem_eq(rest, tokens, 64 * sizeof *rest);
    ck_assert_mem_eq(rest + 64, tokens + 128, 72 * sizeof *rest);
    eval(s, tokens, 1);
    assert_ok(rwk_session_fork(&fork, s, &failure));
    assert_ok(rwk_session_sync(fork, rest, 136, &reused, &failure));
    ck_assert_uint_eq(reused, 64);
    assert_as_fresh(fork, "sync");
    assert_ok(rwk_session_sync(fork, rest, 136, &reused, &failure));
    ck_assert_uint_eq(reused, 136);
    assert_ok(rwk_session_rewind(s, 60, &failure));
    eval(s, rest, 3);
    assert_as_fresh(s, "rewind");
    rwk_session_close(&s);
    rwk_session_close(&fork);
    rwk_model_close(&model);
}
END_TEST

START_TEST(shifts_that_cannot_be_are_refused)
{
    open_model("bloom");
    struct rwk_session *s = open_session(model, &options);
    eval(s, tokens, 130);
    ck_assert_int_eq(rwk_session_shift(s, 0, 63, &failure), RWK_STATUS_RANGE);
    ck_assert_int_eq(rwk_session_shift(s, 1, 64, &failure), RWK_STATUS_RANGE);
    ck_assert_int_eq(rwk_session_shift(s, 128, 64, &failure), RWK_STATUS_RANGE);
    ck_assert_int_eq(rwk_session_shift(s, 64, UINT64_MAX / 64 * 64, &failure), RWK_STATUS_RANGE);
    assert_ok(rwk_session_shift(s, 64, 0, &failure));
    ck_assert_uint_eq(rwk_session_position(s), 130);
    assert_as_fresh(s, "refused");
    rwk_session_close(&s);
    rwk_model_close(&model);
    static const char *const fixed[] = { "llama-mha", "gpt2", "xglm", "smollm3-nope",
                                         "mistral-window" };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        open_model(fixed[i]);
        s = open_session(model, &options);
        eval(s, tokens, 64 < options.context ? 64 : (size_t)options.context);
        ck_assert_int_eq(rwk_session_shift(s, 0, 64, &failure), RWK_STATUS_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(failure.message, "cannot be shifted"));
        assert_as_fresh(s, fixed[i]);
        rwk_session_close(&s);
        rwk_model_close(&model);
    }
}
END_TEST

/* ---- several at once ---- */

START_TEST(a_step_gives_each_session_the_bits_it_gets_alone)
{
    enum { N = 5 };
    open_model(names[_i]);
    uint32_t n = length_of_text();
    struct rwk_session *together[N], *alone[N];
    options.chunk = 2; /* fewer rows than sessions: several passes */
    for (uint32_t i = 0; i < N; i++) {
        together[i] = open_session(model, &options);
        alone[i] = open_session(model, &options);
        eval(together[i], tokens + i, 1 + (n - 20) * i / N);
        eval(alone[i], tokens + i, 1 + (n - 20) * i / N);
    }
    for (uint32_t round = 0; round < 4; round++) {
        uint32_t next[N];
        for (uint32_t i = 0; i < N; i++)
            next[i] = tokens[50 + round * N + i];
        assert_ok(rwk_step(together, next, N, &failure));
        for (uint32_t i = 0; i < N; i++) {
            eval(alone[i], &next[i], 1);
            ck_assert_mem_eq(rwk_session_logits(together[i], 0), rwk_session_logits(alone[i], 0),
                             vocab * 4);
            ck_assert_uint_eq(rwk_session_position(together[i]), rwk_session_position(alone[i]));
        }
        if (round == 1) /* one of them will have to compute its past again */
            assert_ok(rwk_session_rewind(together[N - 1], 9, &failure));
        if (round == 1)
            assert_ok(rwk_session_rewind(alone[N - 1], 9, &failure));
    }
    for (uint32_t i = 0; i < N; i++) {
        assert_as_fresh(together[i], names[_i]);
        rwk_session_close(&together[i]);
        rwk_session_close(&alone[i]);
    }
    rwk_model_close(&model);
}
END_TEST

START_TEST(a_step_that_cannot_be_done_changes_no_session)
{
    struct rwk_model *other_model = open_checkpoint("qwen3", NULL);
    open_model("llama-mha");
    struct rwk_session *a = open_session(model, &options), *b = open_session(model, &options);
    struct rwk_session *stranger = open_session(other_model, &options), *full, *wide;
    options.kv_type = RWK_KV_F32;
    wide = open_session(model, &options);
    options.kv_type = RWK_KV_F16;
    options.context = 3;
    full = open_session(model, &options);
    options.context = CONTEXT;
    eval(a, tokens, 10);
    eval(b, tokens, 20);
    eval(full, tokens, 3);
    eval(stranger, tokens, 4);
    eval(wide, tokens, 4);
    const struct {
        struct rwk_session *second;
        uint32_t token;
        enum rwk_status status;
    } rows[] = {
        { b, vocab, RWK_STATUS_RANGE },       { a, 1, RWK_STATUS_BUSY },
        { full, 1, RWK_STATUS_CONTEXT_FULL }, { stranger, 1, RWK_STATUS_MISMATCH },
        { wide, 1, RWK_STATUS_MISMATCH },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rwk_session *pair[2] = { a, rows[i].second };
        uint32_t next[2] = { 1, rows[i].token };
        ck_assert_int_eq(rwk_step(pair, next, 2, &failure), rows[i].status);
        ck_assert_uint_gt(strlen(failure.message), 0);
        ck_assert_uint_eq(rwk_session_position(a), 10);
        assert_as_fresh(a, "refused step");
        if (i == 0)
            assert_as_fresh(b, "refused step");
    }
    assert_ok(rwk_step(NULL, NULL, 0, &failure));
    struct rwk_session *all[] = { a, b, full, stranger, wide };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        rwk_session_close(&all[i]);
    rwk_model_close(&other_model);
    rwk_model_close(&model);
}
END_TEST

/* ---- scores ---- */

/* Tolerance: logits are float32; their maximum is subtracted in float32 and exp is good to about
 * 1e-7, so a sum of positive terms keeps that relative error. */
START_TEST(scores_are_the_log_softmax_of_the_logits)
{
    enum { TOP = 4 };
    open_model(names[_i]);
    uint32_t n = length_of_text() / 2;
    double *logprobs = calloc(n, sizeof *logprobs);
    struct rwk_sample *scores = calloc(n, sizeof *scores), *top = calloc(n * TOP, sizeof *top);
    struct rwk_session *s = open_session(model, &options), *plain = open_session(model, &options);
    assert_ok(rwk_session_eval(plain, tokens, n, RWK_EVAL_ALL_LOGITS, NULL, &failure));
    assert_ok(rwk_session_score(s, tokens, n, logprobs, &failure));
    ck_assert_mem_eq(rwk_session_logits(s, n - 1), rwk_session_logits(plain, n - 1), vocab * 4);
    ck_assert_ptr_null(rwk_session_logits(s, 0));
    assert_ok(rwk_session_rewind(s, 0, &failure));
    assert_ok(rwk_session_score_top(s, tokens, n, TOP, scores, top, &failure));
    ck_assert_mem_eq(rwk_session_logits(s, RWK_LAST), rwk_session_logits(plain, n - 1), vocab * 4);
    for (uint32_t i = 0; i + 1 < n; i++) {
        const float *logits = rwk_session_logits(plain, i);
        double max = -INFINITY, sum = 0, logprob;
        uint32_t rank = 0;
        for (uint32_t v = 0; v < vocab; v++)
            max = fmax(max, (double)logits[v]);
        for (uint32_t v = 0; v < vocab; v++) {
            sum += exp((double)logits[v] - max);
            rank += logits[v] > logits[tokens[i + 1]] ||
                    (logits[v] == logits[tokens[i + 1]] && v < tokens[i + 1]);
        }
        logprob = (double)logits[tokens[i + 1]] - max - log(sum);
        ck_assert_double_eq_tol(logprobs[i], logprob, 1e-6 * fmax(1, fabs(logprob)));
        ck_assert_uint_eq(scores[i].token, tokens[i + 1]);
        ck_assert_uint_eq(scores[i].rank, rank);
        ck_assert_msg(scores[i].logprob == logprobs[i], "two answers to one question");
        for (uint32_t k = 0; k < TOP; k++) {
            const struct rwk_sample *t = &top[i * TOP + k];
            uint32_t above = 0;
            for (uint32_t v = 0; v < vocab; v++)
                above +=
                    logits[v] > logits[t->token] || (logits[v] == logits[t->token] && v < t->token);
            ck_assert_uint_eq(above, k);
            ck_assert_uint_eq(t->rank, k);
            ck_assert_double_eq_tol(t->logprob, (double)logits[t->token] - max - log(sum), 1e-5);
        }
    }
    ck_assert_int_eq(rwk_session_score_top(s, tokens, 2, vocab + 1, scores, top, &failure),
                     RWK_STATUS_RANGE);
    ck_assert_uint_eq(rwk_session_position(s), n);
    rwk_session_close(&s);
    rwk_session_close(&plain);
    free(logprobs);
    free(scores);
    free(top);
    rwk_model_close(&model);
}
END_TEST

START_TEST(next_draws_and_appends)
{
    struct rwk_sampler_options how;
    struct rwk_sampler *sampler = NULL, *same = NULL;
    struct rwk_sample drawn, expected;
    uint64_t before[2], after[2];
    open_model("llama-mha");
    options.context = 14;
    rwk_sampler_options_init(&how);
    how.temperature = 1;
    how.repetition_penalty = 1.3;
    how.seed = 7;
    assert_ok(rwk_sampler_create(&sampler, &how, &failure));
    assert_ok(rwk_sampler_create(&same, &how, &failure));
    struct rwk_session *s = open_session(model, &options);
    ck_assert_int_eq(rwk_session_next(s, sampler, &drawn, &failure), RWK_STATUS_RANGE);
    eval(s, tokens, 10);
    for (int i = 0; i < 4; i++) {
        assert_ok(rwk_sampler_sample(same, rwk_session_logits(s, RWK_LAST), vocab,
                                     rwk_session_tokens(s), (size_t)rwk_session_position(s),
                                     &expected, &failure));
        assert_ok(rwk_session_next(s, sampler, &drawn, &failure));
        ck_assert_uint_eq(drawn.token, expected.token);
        ck_assert_uint_eq(rwk_session_tokens(s)[10 + i], expected.token);
        assert_as_fresh(s, "next");
    }
    rwk_sampler_get_state(sampler, before);
    ck_assert_int_eq(rwk_session_next(s, sampler, &drawn, &failure), RWK_STATUS_CONTEXT_FULL);
    rwk_sampler_get_state(sampler, after);
    ck_assert_mem_eq(before, after, sizeof before);
    assert_as_fresh(s, "next");
    rwk_session_close(&s);
    rwk_sampler_close(&sampler);
    rwk_sampler_close(&same);
    rwk_model_close(&model);
}
END_TEST

/* ---- cancelling ---- */

struct watch {
    struct rwk_session *session;
    int calls, stop_at;
    uint64_t done, total;
    enum rwk_status inner;
};

static int watch_progress(void *user_data, uint64_t done, uint64_t total)
{
    struct watch *w = user_data;
    uint32_t token = 0;
    ck_assert_uint_gt(done, w->calls ? w->done : 0);
    ck_assert_uint_le(done, total);
    w->done = done;
    w->total = total;
    w->inner =
        rwk_session_eval(w->session, &token, 1, 0, NULL, NULL); /* it has an owner at this moment */
    return ++w->calls == w->stop_at;
}

START_TEST(a_cancelled_prefill_stands_at_a_whole_token)
{
    open_model(names[_i]);
    uint32_t n = length_of_text();
    struct watch w = { .stop_at = 2 };
    size_t done = 0;
    options.chunk = 16;
    options.progress = watch_progress;
    options.progress_data = &w;
    struct rwk_session *s = w.session = open_session(model, &options);
    options.progress = NULL;
    ck_assert_int_eq(rwk_session_eval(s, tokens, n, 0, &done, &failure), RWK_STATUS_CANCELLED);
    ck_assert_uint_eq(done, 32);
    ck_assert_uint_eq(w.total, n);
    ck_assert_int_eq(w.inner, RWK_STATUS_BUSY);
    ck_assert_uint_eq(rwk_session_position(s), 32);
    ck_assert_ptr_null(rwk_session_logits(s, RWK_LAST));
    w.stop_at = -1;
    w.calls = 0;
    eval(s, tokens + 32, n - 32);
    assert_as_fresh(s, names[_i]);

    rwk_session_cancel(s); /* before it begins */
    done = 99;
    ck_assert_int_eq(rwk_session_eval(s, tokens, 3, 0, &done, &failure), RWK_STATUS_CANCELLED);
    ck_assert_uint_eq(done, 0);
    ck_assert_uint_eq(rwk_session_position(s), n);
    w.calls = 0;
    eval(s, tokens, 3);
    assert_as_fresh(s, names[_i]);
    rwk_session_close(&s);
    rwk_model_close(&model);
}
END_TEST

static void *cancel_soon(void *arg)
{
    for (int i = 0; i < 50; i++) {
        rwk_session_cancel(arg);
        nanosleep(&(struct timespec) { .tv_nsec = 100000 }, NULL);
    }
    return NULL;
}

START_TEST(another_thread_may_cancel_at_any_moment)
{
    open_model("llama-mha");
    pthread_t thread;
    options.chunk = 8;
    struct rwk_session *s = open_session(model, &options);
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, s), 0);
    for (size_t at = 0, done; at < LENGTH; at += done)
        ck_assert_int_ne(rwk_session_eval(s, tokens + at, LENGTH - at, 0, &done, NULL),
                         RWK_STATUS_RANGE);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(rwk_session_position(s), LENGTH);
    assert_ok(rwk_session_rewind(s, LENGTH - 1, &failure));
    while (rwk_session_eval(s, tokens + LENGTH - 1, 1, 0, NULL, NULL) != RWK_STATUS_OK)
        ;
    assert_as_fresh(s, "cancelled often");
    rwk_session_close(&s);
    rwk_model_close(&model);
}
END_TEST

/* ---- what does not fit ---- */

START_TEST(refused_calls_leave_sequence_and_logits)
{
    open_model("llama-mha");
    options.context = 20;
    double logprobs[32];
    struct rwk_session *s = open_session(model, &options);
    uint32_t bad[2] = { 1, vocab };
    eval(s, tokens, 18);
    ck_assert_int_eq(rwk_session_eval(s, tokens, 3, 0, NULL, &failure), RWK_STATUS_CONTEXT_FULL);
    ck_assert_int_eq(rwk_session_eval(s, bad, 2, 0, NULL, &failure), RWK_STATUS_RANGE);
    ck_assert_int_eq(rwk_session_eval(s, bad, 0, 0, NULL, &failure), RWK_STATUS_RANGE);
    ck_assert_int_eq(rwk_session_score(s, bad, 2, logprobs, &failure), RWK_STATUS_RANGE);
    ck_assert_int_eq(rwk_session_sync(s, tokens, 21, NULL, &failure), RWK_STATUS_CONTEXT_FULL);
    ck_assert_int_eq(rwk_session_sync(s, bad, 2, NULL, &failure), RWK_STATUS_RANGE);
    ck_assert_uint_eq(rwk_session_position(s), 18);
    assert_as_fresh(s, "refused");
    rwk_session_close(&s);
    rwk_model_close(&model);
}
END_TEST

/* ---- memory ---- */

START_TEST(the_plan_is_what_the_allocator_is_asked_for)
{
    for (uint32_t type = RWK_KV_F16; type <= RWK_KV_BF16; type++) {
        struct counter of_model = { 0 }, of_session = { 0 };
        struct rwk_model_options how;
        struct rwk_memory_plan plan = { .size = sizeof plan };
        rwk_model_options_init(&how);
        struct rwk_allocator counted = { counting_alloc, counting_free, &of_model };
        how.allocator = &counted;
        struct rwk_session_stats stats;
        open_model(names[_i]);
        rwk_model_close(&model);
        model = open_checkpoint(names[_i], &how);
        counted.user_data = &of_session;
        options.allocator = &counted;
        options.kv_type = type;
        assert_ok(rwk_session_plan(model, &options, &plan, &failure));
        ck_assert_uint_eq(of_session.calls, 0);
        ck_assert_uint_eq(plan.model_bytes, of_model.now);
        struct rwk_session *s = open_session(model, &options), *fork = NULL;
        ck_assert_uint_eq(plan.total_bytes, of_model.now + of_session.now);
        ck_assert_uint_eq(plan.total_bytes, plan.model_bytes + plan.kv_bytes + plan.scratch_bytes);
        stats = stats_of(s);
        ck_assert_uint_eq(stats.memory_bytes, of_session.now);
        size_t calls = of_session.calls;
        eval(s, tokens, length_of_text());
        ck_assert_uint_eq(of_session.calls, calls);
        memset(&counted, 0, sizeof counted); /* the struct may go once the session is there */
        assert_ok(rwk_session_fork(&fork, s, &failure));
        ck_assert_uint_le(of_session.now, 2 * (plan.kv_bytes + plan.scratch_bytes));
        rwk_session_close(&s);
        rwk_session_close(&fork);
        ck_assert_uint_eq(of_session.now, 0);
        rwk_model_close(&model);
        ck_assert_uint_eq(of_model.now, 0);
    }
}
END_TEST

START_TEST(a_plan_made_before_opening_is_what_opening_takes)
{
    for (uint32_t weights = RWK_WEIGHTS_AS_STORED; weights <= RWK_WEIGHTS_Q4; weights++)
        for (uint32_t mode = RWK_LOAD_MAP; mode <= RWK_LOAD_READ; mode++) {
            struct counter counter = { 0 };
            struct rwk_allocator counted = { counting_alloc, counting_free, &counter };
            struct rwk_memory_plan before = { .size = sizeof before },
                                   after = { .size = sizeof after };
            struct rwk_model_options how;
            struct rwk_source source;
            open_model(names[_i]);
            rwk_model_close(&model);
            rwk_source_init(&source);
            source.path = checkpoint_path(names[_i]);
            rwk_model_options_init(&how);
            how.allocator = &counted;
            how.load_mode = mode;
            how.weights = weights;
            assert_ok(rwk_plan(&source, &how, &options, &before, &failure));
            ck_assert_uint_eq(counter.now, 0);
            if (mode == RWK_LOAD_READ) /* no weights were read for it */
                ck_assert_uint_lt(counter.peak, before.model_bytes);
            counter = (struct counter) { 0 };
            model = open_checkpoint(names[_i], &how);
            assert_ok(rwk_session_plan(model, &options, &after, &failure));
            ck_assert_uint_eq(after.mapped_bytes, before.mapped_bytes);
            ck_assert_uint_eq(after.copied_bytes, before.copied_bytes);
            ck_assert_uint_eq(after.kv_bytes, before.kv_bytes);
            ck_assert_uint_eq(after.scratch_bytes, before.scratch_bytes);
            uint64_t slack = 0;
            for (size_t t = 0; weights && t < rwk_model_n_tensors(model); t++)
                slack += 128; /* at most one matrix each */
            slack += weights ? 1 << 16 : 0;
            ck_assert_uint_ge(before.model_bytes + slack, counter.now);
            ck_assert_uint_le(before.model_bytes, counter.now + slack);
            rwk_model_close(&model);
            ck_assert_uint_eq(counter.now, 0);
        }
}
END_TEST

START_TEST(a_budget_is_kept)
{
    struct rwk_memory_plan plan = { .size = sizeof plan };
    struct counter counter = { 0 };
    struct rwk_allocator counted = { counting_alloc, counting_free, &counter };
    struct rwk_session *s = NULL;
    open_model("llama-mha");
    options.allocator = &counted;
    assert_ok(rwk_session_plan(model, &options, &plan, &failure));
    options.memory_budget = plan.kv_bytes + plan.scratch_bytes - 1;
    ck_assert_int_eq(rwk_session_create(&s, model, &options, &failure), RWK_STATUS_NOMEM);
    ck_assert_ptr_null(s);
    ck_assert_uint_eq(counter.peak, 0);
    options.memory_budget++;
    s = open_session(model, &options);
    eval(s, tokens, 10);
    ck_assert_int_eq(rwk_session_eval(s, tokens, 100, RWK_EVAL_ALL_LOGITS, NULL, &failure),
                     RWK_STATUS_NOMEM);
    ck_assert_uint_eq(counter.peak, options.memory_budget);
    options.memory_budget = 0;
    assert_as_fresh(s, "over budget");
    rwk_session_close(&s);

    struct rwk_model_options how;
    struct rwk_model *small = NULL;
    rwk_model_options_init(&how);
    how.allocator = &counted;
    how.memory_budget = 1000;
    ck_assert_int_eq(rwk_model_open(&small, checkpoint_path("llama-mha"), &how, &failure),
                     RWK_STATUS_NOMEM);
    ck_assert_ptr_null(small);
    ck_assert_uint_eq(counter.now, 0);
    rwk_model_close(&model);
}
END_TEST

/* ---- threads of the host ---- */

/* The worst that a host may do within its promise: ranges of odd sizes, last first, each on a
 * thread of its own. */
struct share {
    rwk_task_fn fn;
    void *arg;
    uint32_t begin, end, worker;
};

static void *run_share(void *arg)
{
    struct share *share = arg;
    share->fn(share->arg, share->begin, share->end, share->worker);
    return NULL;
}

static void host_parallel(void *user_data, uint32_t n_tasks, rwk_task_fn fn, void *arg)
{
    enum { N = 3 };
    struct share shares[N];
    pthread_t threads[N];
    ++*(int *)user_data;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t cuts[] = { 0, n_tasks / 5, n_tasks / 2, n_tasks };
        shares[i] = (struct share) { fn, arg, cuts[2 - i], cuts[3 - i], i };
        if (pthread_create(&threads[i], NULL, run_share, &shares[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
}

START_TEST(the_hosts_executor_gives_the_same_bits)
{
    struct rwk_pool *pool = NULL;
    struct rwk_session *s = NULL;
    int calls = 0;
    open_model(names[_i]);
    options.parallel = host_parallel;
    options.parallel_data = &calls;
    ck_assert_int_eq(rwk_session_create(&s, model, &options, &failure),
                     RWK_STATUS_RANGE); /* no workers */
    options.n_workers = 3;
    s = open_session(model, &options);
    eval(s, tokens, 40);
    eval(s, tokens, 1);
    ck_assert_int_gt(calls, 0);
    assert_ok(rwk_pool_create(&pool, 2, NULL, &failure));
    options.pool = pool;
    struct rwk_session *both = NULL;
    ck_assert_int_eq(rwk_session_create(&both, model, &options, &failure), RWK_STATUS_RANGE);
    options.parallel = NULL;
    assert_as_fresh(s, names[_i]); /* against the pool */
    options.pool = NULL;
    assert_as_fresh(s, names[_i]); /* against one thread */
    rwk_session_close(&s);
    rwk_pool_close(&pool);
    rwk_model_close(&model);
}
END_TEST

START_TEST(statistics_tell_what_was_done)
{
    open_model("llama-dynamic");
    struct rwk_session_stats stats;
    struct rwk_session *s = open_session(model, &options);
    eval(s, tokens, 100);
    stats = stats_of(s);
    ck_assert_uint_eq(stats.evaluated_tokens, 100);
    ck_assert_uint_eq(stats.recomputed_tokens, 0);
    ck_assert_uint_eq(stats.passes, 3);
    ck_assert_uint_gt(stats.eval_ns, 0);
    eval(s, tokens, 1); /* beyond the trained length every token changes the frequencies */
    stats = stats_of(s);
    ck_assert_uint_eq(stats.evaluated_tokens, 101);
    ck_assert_uint_eq(stats.recomputed_tokens, 100);
    struct {
        struct rwk_session_stats head;
        unsigned char canary[16];
    } small;
    memset(&small, 0xa5, sizeof small);
    small.head.size = 16;
    assert_ok(rwk_session_get_stats(s, &small.head)); /* an older caller's struct */
    ck_assert_uint_eq(small.head.evaluated_tokens, 101);
    ck_assert_uint_eq(small.head.recomputed_tokens, 0xa5a5a5a5a5a5a5a5u);
    rwk_session_close(&s);
    rwk_model_close(&model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session");
    TCase *tcase = tcase_create("session");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, forks_share_their_past_and_part_for_good, 0, N_NAMES);
    tcase_add_test(tcase, a_fork_copies_only_the_page_it_writes_to);
    tcase_add_test(tcase, forks_may_part_on_different_threads_at_once);
    tcase_add_loop_test(tcase, sync_keeps_the_common_prefix, 0, N_NAMES);
    tcase_add_loop_test(tcase, rewinding_forgets_what_came_later, 0, N_NAMES);
    tcase_add_test(tcase, a_shifted_sequence_goes_on_without_what_was_dropped);
    tcase_add_test(tcase, after_a_shift_sync_and_rewind_lead_back_to_fresh_results);
    tcase_add_test(tcase, shifts_that_cannot_be_are_refused);
    tcase_add_loop_test(tcase, a_step_gives_each_session_the_bits_it_gets_alone, 0, N_NAMES);
    tcase_add_test(tcase, a_step_that_cannot_be_done_changes_no_session);
    tcase_add_loop_test(tcase, scores_are_the_log_softmax_of_the_logits, 0, N_NAMES);
    tcase_add_test(tcase, next_draws_and_appends);
    tcase_add_loop_test(tcase, a_cancelled_prefill_stands_at_a_whole_token, 0, N_NAMES);
    tcase_add_test(tcase, another_thread_may_cancel_at_any_moment);
    tcase_add_test(tcase, refused_calls_leave_sequence_and_logits);
    tcase_add_loop_test(tcase, the_plan_is_what_the_allocator_is_asked_for, 0, N_NAMES);
    tcase_add_loop_test(tcase, a_plan_made_before_opening_is_what_opening_takes, 0, N_NAMES);
    tcase_add_test(tcase, a_budget_is_kept);
    tcase_add_loop_test(tcase, the_hosts_executor_gives_the_same_bits, 0, N_NAMES);
    tcase_add_test(tcase, statistics_tell_what_was_done);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
