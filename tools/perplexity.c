/* text -> ids -> windows -> log-probabilities -> exp(-mean), for every model, scaling and length.
 * Whatever can be refused is refused for all of them before the first is measured.
 *
 * The rule
 *   - The text is tokenized once per model, with the special tokens that the tokenizer adds;
 *     --max-tokens keeps the first N.
 *   - Without --stride, windows of L tokens stand side by side, each evaluated from an empty
 *     cache; every token of a window but its first is scored (L - 1 of L).
 *   - With --stride S < L, a window begins every S tokens; the first one is scored as above, each
 *     later one only in its last S tokens, so that every token is scored at most once and with at
 *     least L - S tokens before it.
 *   - An incomplete last window is left out.
 *   - Perplexity = exp(mean over scored tokens of -ln p), the natural logarithm. */
#include "perplexity.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include "commands.h"
#include "ids.h"
#include "load.h"
#include "output.h"
#include "progress.h"
#include "tool.h"

double perplexity_of(const struct bucket *bucket)
{
    return exp(bucket->nll / (double)bucket->n_tokens);
}

/* ---- windows ---- */

static uint64_t window_step(uint64_t length, const struct options *o)
{
    return o->stride ? o->stride : length;
}

static uint64_t n_windows(uint64_t n_tokens, uint64_t length, const struct options *o)
{
    return n_tokens < length ? 0 : (n_tokens - length) / window_step(length, o) + 1;
}

/* The first position of a window that is scored. */
static uint64_t first_scored(uint64_t window, uint64_t length, const struct options *o)
{
    return window && o->stride ? length - o->stride : 1;
}

/* Positions [1, length) in n equal parts. */
static void buckets_make(struct measurement *m, uint64_t n)
{
    m->all = (struct bucket){ .begin = 1, .end = m->length };
    n = n < m->length - 1 ? n : m->length - 1;
    m->n_buckets = n;
    m->buckets = allocate(n, sizeof *m->buckets);
    for (uint64_t i = 0; i < n; i++) {
        m->buckets[i].begin = 1 + (m->length - 1) * i / n;
        m->buckets[i].end = 1 + (m->length - 1) * (i + 1) / n;
    }
}

static void bucket_add(struct bucket *b, double logprob)
{
    b->n_tokens++;
    b->nll -= logprob;
}

/* logprobs[i] belongs to position i + 1. */
static void measurement_add(struct measurement *m, const double *logprobs, uint64_t first)
{
    size_t k = 0;
    for (uint64_t position = first; position < m->length; position++) {
        double logprob = logprobs[position - 1];
        bucket_add(&m->all, logprob);
        while (k < m->n_buckets && position >= m->buckets[k].end)
            k++;
        if (k < m->n_buckets)
            bucket_add(&m->buckets[k], logprob);
    }
}

static void measure(struct measurement *m, struct rwk_session *session, const struct ids *text,
                    struct progress *progress, const struct options *o)
{
    struct rwk_error error = ERROR_INIT;
    double *logprobs = allocate(m->length, sizeof *logprobs);
    m->n_windows = n_windows(text->n, m->length, o);
    buckets_make(m, o->buckets);
    for (uint64_t w = 0; w < m->n_windows; w++) {
        const uint32_t *tokens = text->items + w * window_step(m->length, o);
        check(rwk_session_rewind(session, 0, &error), &error);
        check(rwk_session_score(session, tokens, m->length, logprobs, &error), &error);
        measurement_add(m, logprobs, first_scored(w, m->length, o));
        progress->base += m->length;
        progress_update(progress, 0, 0);
    }
    free(logprobs);
}

/* ---- one model under one scaling ---- */

struct job {
    const struct options *o;
    struct rwk_pool *pool;
    const char *path; /* of the model */
    struct ids text;
    struct counts lengths;
    uint64_t only; /* the length where none is asked for */
    struct measurements *results;
    struct progress progress;
};

static uint64_t longest(const struct counts *lengths)
{
    uint64_t most = 0;
    for (size_t i = 0; i < lengths->n; i++)
        most = lengths->items[i] > most ? lengths->items[i] : most;
    return most;
}

static uint64_t context_of(const struct job *job)
{
    return job->o->context ? job->o->context : longest(&job->lengths);
}

static void run_scaling(struct job *job, const char *rope_scaling)
{
    const struct options *o = job->o;
    struct rwk_model_info info;
    struct rwk_session_options s;
    uint64_t context = context_of(job);
    struct rwk_model *model = model_open(job->path, o, rope_scaling, job->pool);
    model_info(model, &info);
    context_notice(&info, o, context);
    session_options(&s, o, context, job->pool);
    s.progress = progress_update;
    s.progress_data = &job->progress;
    struct rwk_session *session = session_open(model, &s);
    for (size_t i = 0; i < job->lengths.n; i++) {
        struct measurements *r = job->results;
        reserve(&r->items, &r->capacity, r->n + 1, sizeof *r->items);
        r->items[r->n] = (struct measurement){ .model = job->path, .rope_scaling = rope_scaling,
                                               .length = job->lengths.items[i] };
        measure(&r->items[r->n++], session, &job->text, &job->progress, o);
    }
    rwk_session_close(&session);
    rwk_model_close(&model);
}

/* ---- one model ---- */

/* Without --length: the model's context, or the whole text if that is shorter. */
static uint64_t default_length(const struct job *job)
{
    struct rwk_model_info info;
    struct rwk_model *model = model_open(job->path, job->o, rope_scaling_of(job->o), job->pool);
    model_info(model, &info);
    rwk_model_close(&model);
    uint64_t length = context_limit(&info, job->o);
    return job->text.n < length ? job->text.n : length;
}

static void check_lengths(const struct job *job)
{
    const struct options *o = job->o;
    for (size_t i = 0; i < job->lengths.n; i++) {
        uint64_t length = job->lengths.items[i];
        if (length < 2 || job->text.n < length)
            die("%s: nothing to score: the text has %zu tokens, a window %" PRIu64,
                o->arguments[o->n_arguments - 1], job->text.n, length < 2 ? 2 : length);
        if (o->stride >= length)
            die("--stride: %" PRIu64 " is not shorter than a window of %" PRIu64, o->stride,
                length);
        if (o->context && length > o->context)
            die("--length: %" PRIu64 " is more than the context of %" PRIu64, length, o->context);
    }
}

/* The scalings to compare; without any, the config's own (NULL). */
static size_t n_scalings(const struct options *o)
{
    return o->rope_scaling.n ? o->rope_scaling.n : 1;
}

static const char *scaling_at(const struct options *o, size_t i)
{
    return o->rope_scaling.n ? o->rope_scaling.items[i] : NULL;
}

/* The position plan, which needs no weights, tells whether a scaling applies and the lengths
 * fit. */
static void check_plan(const struct job *job, const char *rope_scaling)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_position_plan *plan = NULL;
    struct rwk_position_info info = { .size = sizeof info };
    struct rwk_model_options options;
    model_options(&options, job->o, rope_scaling);
    check(rwk_position_resolve(&plan, job->path, &options, &error), &error);
    check(rwk_position_get_info(plan, &info), NULL);
    if (context_of(job) > info.context_limit)
        die("%s: %" PRIu64 " positions, while this model's end at %" PRIu64, job->path,
            context_of(job), info.context_limit);
    rwk_position_plan_close(&plan);
}

static uint64_t total_tokens(const struct job *job)
{
    uint64_t total = 0;
    for (size_t i = 0; i < job->lengths.n; i++)
        total += job->lengths.items[i] * n_windows(job->text.n, job->lengths.items[i], job->o);
    return total * n_scalings(job->o);
}

static void prepare_model(struct job *job, const char *text, size_t size)
{
    const struct options *o = job->o;
    struct rwk_tokenizer *tokenizer = tokenizer_open(job->path);
    encode(&job->text, NULL, tokenizer, text, size, RWK_ENCODE_ADD_SPECIAL);
    rwk_tokenizer_close(&tokenizer);
    if (o->max_tokens && job->text.n > o->max_tokens)
        job->text.n = o->max_tokens;
    job->lengths = o->length;
    if (!o->length.n) {
        job->only = default_length(job);
        job->lengths = (struct counts){ .items = &job->only, .n = 1 };
    }
    check_lengths(job);
    for (size_t i = 0; i < n_scalings(o); i++)
        check_plan(job, scaling_at(o, i));
}

static void run_model(struct job *job)
{
    progress_start(&job->progress, job->path, job->o->quiet);
    job->progress.total = total_tokens(job);
    for (size_t i = 0; i < n_scalings(job->o); i++)
        run_scaling(job, scaling_at(job->o, i));
    progress_clear();
}

int run_perplexity(const struct options *o)
{
    struct measurements results = { 0 };
    size_t size, n_jobs = o->n_arguments - 1;
    report_check(o);
    char *owned = read_whole(o->arguments[n_jobs], &size);
    const char *text = skip_byte_order_mark(owned, &size);
    struct rwk_pool *pool = pool_open(o);
    struct job *jobs = allocate(n_jobs, sizeof *jobs);
    for (size_t i = 0; i < n_jobs; i++) {
        jobs[i] = (struct job){ .o = o, .pool = pool, .path = o->arguments[i],
                                .results = &results };
        prepare_model(&jobs[i], text, size);
    }
    for (size_t i = 0; i < n_jobs; i++) {
        run_model(&jobs[i]);
        ids_finish(&jobs[i].text);
    }
    free(jobs);
    rwk_pool_close(&pool);
    report(&results, o);
    for (size_t i = 0; i < results.n; i++)
        free(results.items[i].buckets);
    free(results.items);
    free(owned);
    return EXIT_DONE;
}
