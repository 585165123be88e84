/* Two models and four sessions on four threads at once: every result is what it is alone. Meant for
 * a build with the thread sanitizer, and a test of the results in any other. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>

enum { N_MODELS = 2, N_SESSIONS = 4, N_PROMPT = 12, N_STEPS = 24, MAX_VOCAB = 1024 };

static const char *const names[N_MODELS] = { "llama-yarn", "gpt2" };

struct world {
    struct rwk_model *models[N_MODELS];
    struct rwk_tokenizer *tokenizer;
    struct rwk_pool *pool; /* shared by sessions 0 and 1; the others have none */
};

/* What a session has come to: checked against the same session run alone. */
struct outcome {
    uint32_t tokens[N_STEPS];
    float logits[MAX_VOCAB];
    double score;
    size_t n_ids;
};

struct job {
    const struct world *world;
    int index;
    struct outcome outcome;
};

static void world_open(struct world *w)
{
    char path[512];
    struct rwk_error error = { .size = sizeof error };
    *w = (struct world){ 0 };
    for (int i = 0; i < N_MODELS; i++) {
        snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%s", names[i]);
        ck_assert_msg(!rwk_model_open(&w->models[i], path, NULL, &error), "%s", error.message);
    }
    ck_assert_msg(!rwk_tokenizer_open(&w->tokenizer, RWK_TEST_DATA "/../../examples/rope-llama",
                                      NULL, &error),
                  "%s", error.message);
    ck_assert_int_eq(rwk_pool_create(&w->pool, 3, NULL, NULL), RWK_STATUS_OK);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_MODELS; i++)
        rwk_model_close(&w->models[i]);
    rwk_tokenizer_close(&w->tokenizer);
    rwk_pool_close(&w->pool);
}

/* Assertions of Check are for one thread: here a failure leaves NaN, which no comparison takes. */
static void give_up(struct outcome *o) { o->logits[0] = NAN; }

static uint32_t largest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* Prompt, greedy steps, a fork that goes its own way, a rewind, scores, an encoding. */
static void *run(void *arg)
{
    struct job *job = arg;
    struct outcome *o = &job->outcome;
    struct rwk_session_options options;
    struct rwk_session *session = NULL, *fork = NULL;
    struct rwk_model *model = rwk_model_retain(job->world->models[job->index % N_MODELS]);
    struct rwk_model_info info = { .size = sizeof info };
    uint32_t prompt[N_PROMPT], ids[64];
    double scores[N_PROMPT - 1];
    const float *logits = NULL;
    rwk_session_options_init(&options);
    rwk_model_get_info(model, &info);
    options.context = 64;
    options.pool = job->index < 2 ? job->world->pool : NULL;
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (i * 7 + (uint32_t)job->index * 13 + 3) % 60;
    if (info.vocab_size > MAX_VOCAB || rwk_session_create(&session, model, &options, NULL))
        give_up(o);
    rwk_model_close(&model);
    if (session && !rwk_session_eval(session, prompt, N_PROMPT, 0, NULL, NULL))
        logits = rwk_session_logits(session, N_PROMPT - 1);
    for (int i = 0; i < N_STEPS && logits; i++) {
        o->tokens[i] = largest(logits, info.vocab_size);
        logits = rwk_session_eval(session, &o->tokens[i], 1, 0, NULL, NULL)
                     ? NULL
                     : rwk_session_logits(session, 0);
        if (i == N_STEPS / 2 && rwk_session_fork(&fork, session, NULL))
            logits = NULL;
    }
    if (!logits || rwk_session_eval(fork, prompt, N_PROMPT, 0, NULL, NULL) ||
        rwk_session_rewind(session, 3, NULL) ||
        rwk_session_score(session, prompt, N_PROMPT, scores, NULL) ||
        rwk_tokenizer_encode(job->world->tokenizer, "once upon a time", 16, 0, ids, 64, NULL,
                             &o->n_ids, NULL)) {
        give_up(o);
    } else {
        memcpy(o->logits, rwk_session_logits(fork, N_PROMPT - 1),
               info.vocab_size * sizeof *o->logits);
        for (int i = 0; i < N_PROMPT - 1; i++)
            o->score += scores[i];
    }
    rwk_session_close(&fork);
    rwk_session_close(&session);
    return NULL;
}

START_TEST(four_sessions_of_two_models_give_what_each_gives_alone)
{
    static struct job alone[N_SESSIONS], together[N_SESSIONS];
    struct world world;
    pthread_t threads[N_SESSIONS];
    world_open(&world);
    for (int i = 0; i < N_SESSIONS; i++) {
        alone[i] = together[i] = (struct job){ .world = &world, .index = i };
        run(&alone[i]);
    }
    for (int i = 0; i < N_SESSIONS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run, &together[i]), 0);
    for (int i = 0; i < N_SESSIONS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_SESSIONS; i++) {
        ck_assert(alone[i].outcome.logits[0] == alone[i].outcome.logits[0]);
        ck_assert(alone[i].outcome.n_ids > 0 && alone[i].outcome.score < 0);
        ck_assert_mem_eq(&alone[i].outcome, &together[i].outcome, sizeof alone[i].outcome);
    }
    world_close(&world);
}
END_TEST

/* ---- one session, several callers ---- */

struct contest {
    struct rwk_session *session;
    atomic_int n_ok, n_busy, n_other, running;
};

static void *contend(void *arg)
{
    struct contest *c = arg;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t token = i;
        enum rwk_status status = rwk_session_eval(c->session, &token, 1, 0, NULL, NULL);
        atomic_fetch_add(status == RWK_STATUS_OK     ? &c->n_ok
                         : status == RWK_STATUS_BUSY ? &c->n_busy
                                                     : &c->n_other,
                         1);
    }
    return NULL;
}

START_TEST(a_second_caller_is_told_that_the_session_is_busy)
{
    struct world world;
    struct contest contest = { 0 };
    pthread_t threads[4];
    world_open(&world);
    ck_assert_int_eq(rwk_session_create(&contest.session, world.models[0], NULL, NULL),
                     RWK_STATUS_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, contend, &contest), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&contest.n_other), 0);
    ck_assert_int_eq(atomic_load(&contest.n_ok) + atomic_load(&contest.n_busy), 160);
    ck_assert_uint_eq(rwk_session_position(contest.session), (uint64_t)atomic_load(&contest.n_ok));
    rwk_session_close(&contest.session);
    world_close(&world);
}
END_TEST

static void *keep_cancelling(void *arg)
{
    struct contest *c = arg;
    while (atomic_load(&c->running))
        rwk_session_cancel(c->session);
    return NULL;
}

START_TEST(cancelling_from_another_thread_leaves_whole_tokens)
{
    struct world world;
    struct contest contest = { .running = 1 };
    struct rwk_session_options options;
    pthread_t thread;
    uint32_t tokens[256];
    size_t n_cancelled = 0;
    world_open(&world);
    rwk_session_options_init(&options);
    options.pool = world.pool;
    options.context = 256;
    options.chunk = 16;
    for (uint32_t i = 0; i < 256; i++)
        tokens[i] = i % 50;
    ck_assert_int_eq(rwk_session_create(&contest.session, world.models[0], &options, NULL),
                     RWK_STATUS_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, keep_cancelling, &contest), 0);
    for (int i = 0; i < 50; i++) {
        size_t done = SIZE_MAX;
        enum rwk_status status = rwk_session_eval(contest.session, tokens, 256, 0, &done, NULL);
        ck_assert(status == RWK_STATUS_OK || status == RWK_STATUS_CANCELLED);
        ck_assert_uint_eq(rwk_session_position(contest.session), done);
        n_cancelled += status == RWK_STATUS_CANCELLED;
        ck_assert_int_eq(rwk_session_rewind(contest.session, 0, NULL), RWK_STATUS_OK);
    }
    atomic_store(&contest.running, 0);
    pthread_join(thread, NULL);
    ck_assert_uint_gt(n_cancelled, 0);
    rwk_session_close(&contest.session);
    world_close(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("threads");
    TCase *tcase = tcase_create("threads");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, four_sessions_of_two_models_give_what_each_gives_alone);
    tcase_add_test(tcase, a_second_caller_is_told_that_the_session_is_busy);
    tcase_add_test(tcase, cancelling_from_another_thread_leaves_whole_tokens);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
