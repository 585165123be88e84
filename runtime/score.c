/* Scoring: what the model thought of each token of a text.
 *
 *   tokens -> append, with the logits of every one
 *          -> row by row: log softmax at the next token -> log-probability
 *
 * Rows are scored where their logits are computed, on any worker; only the last one's logits are
 * kept. */
#include "runtime/session.h"

#include <math.h>
#include <string.h>

struct score_job {
    struct rwk_session *session;
    uint64_t first;            /* position of tokens[0] */
    size_t n;                  /* tokens */
    double *logprobs;          /* [n - 1], or NULL: the fields below are wanted */
    struct rwk_sample *scores; /* [n - 1] */
    struct rwk_sample *top;    /* [n - 1][top_k] */
    uint32_t top_k;
    atomic_int not_finite;
};

/* Whether a comes before b when the likelier comes first, and of equals the lower id. */
static bool before(const float *logits, uint32_t a, uint32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

/* The job's top_k likeliest tokens of a row, by insertion into a list that stays sorted: k is small
 * and nearly every token loses against the last one of the list. */
static void find_top(const struct score_job *job, const float *logits, double log_normaliser,
                     struct rwk_sample *ret)
{
    uint32_t vocab = job->session->model->vocab_size, n = 0;
    for (uint32_t id = 0; id < vocab; id++) {
        if (n == job->top_k && !before(logits, id, ret[n - 1].token))
            continue;
        uint32_t at = n < job->top_k ? n++ : n - 1;
        for (; at > 0 && before(logits, id, ret[at - 1].token); at--)
            ret[at].token = ret[at - 1].token;
        ret[at].token = id;
    }
    for (uint32_t i = 0; i < n; i++) {
        ret[i].rank = i;
        ret[i].logprob = (double)logits[ret[i].token] - log_normaliser;
    }
}

static uint32_t rank_of(const float *logits, uint32_t vocab, uint32_t token)
{
    uint32_t rank = 0;
    for (uint32_t id = 0; id < vocab; id++)
        rank += before(logits, id, token);
    return rank;
}

static void score_row(void *arg, uint32_t row, const float *logits)
{
    struct score_job *job = arg;
    struct rwk_session *s = job->session;
    uint64_t position = s->rows[row].position;
    size_t index = (size_t)(position - job->first);
    uint32_t vocab = s->model->vocab_size;
    if (index + 1 == job->n) {
        memcpy(s->logits, logits, vocab * sizeof *logits);
        return;
    }
    float max;
    double sum;
    s->model->kernels->log_sum(logits, vocab, &max, &sum);
    uint32_t next = s->tokens[position + 1];
    double log_normaliser = max + log(sum), logprob = (double)logits[next] - max - log(sum);
    if (!isfinite(logprob))
        atomic_store_explicit(&job->not_finite, 1, memory_order_relaxed);
    if (job->logprobs)
        job->logprobs[index] = logprob;
    else
        job->scores[index] = (struct rwk_sample) { next, rank_of(logits, vocab, next), logprob };
    if (job->top_k)
        find_top(job, logits, log_normaliser, job->top + index * job->top_k);
}

static enum rwk_status score(struct score_job *job, const uint32_t *tokens, struct rwk_error *error)
{
    struct rwk_session *s = job->session;
    enum rwk_status status = rwk_session_enter(s, error);
    if (status)
        return status;
    job->first = s->position;
    status = rwk_session_check_tokens(s, s->position, tokens, job->n, error);
    if (!status)
        status = rwk_session_append(s, tokens, job->n, s->position, score_row, job, NULL, error);
    if (!status) {
        s->logits_first += job->n - 1;
        s->n_logits = 1;
    }
    if (!status && atomic_load(&job->not_finite)) {
        rwk_session_rewind_to(s, job->first);
        status = rwk_fail(error, RWK_STATUS_NUMERIC, NULL,
                          "a token has no finite log-probability: the model's logits are "
                          "NaN or infinite");
    }
    rwk_session_leave(s);
    return status;
}

enum rwk_status rwk_session_score(struct rwk_session *session, const uint32_t *tokens, size_t n,
                                  double *ret_logprobs, struct rwk_error *error)
{
    struct score_job job = { .session = session, .n = n, .logprobs = ret_logprobs };
    return score(&job, tokens, error);
}

enum rwk_status rwk_session_score_top(struct rwk_session *session, const uint32_t *tokens, size_t n,
                                      uint32_t top_k, struct rwk_sample *ret_scores,
                                      struct rwk_sample *ret_top, struct rwk_error *error)
{
    struct score_job job = {
        .session = session, .n = n, .scores = ret_scores, .top = ret_top, .top_k = top_k
    };
    if (top_k > session->model->vocab_size)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "top_k",
                           "%u is more than the vocabulary's %u entries", top_k,
                           session->model->vocab_size);
    return score(&job, tokens, error);
}
