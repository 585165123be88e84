/* Several sessions, one token each, in one pass over the weights.
 *
 *   check all -> rows (session i's token at its own position, on its own cache)
 *             -> rwk_forward -> each its logits
 *
 * Nothing in a row's result depends on the other rows of the pass, so the bits are those of each
 * session stepped alone. Where a cache does not serve (other frequencies came into force, or a
 * window has dropped keys) the sessions are evaluated one after the other instead. */
#include "runtime/session.h"

#include <string.h>

struct step_job {
    struct rwk_session *const *sessions;
    uint32_t first; /* session of row 0 */
};

static void keep_step_logits(void *arg, uint32_t row, const float *logits)
{
    const struct step_job *job = arg;
    struct rwk_session *s = job->sessions[job->first + row];
    memcpy(s->logits, logits, s->model->vocab_size * sizeof *logits);
}

static enum rwk_status check_step(struct rwk_session *const *sessions, const uint32_t *tokens,
                                  size_t n, bool *ret_together, struct rwk_error *error)
{
    *ret_together = true;
    for (size_t i = 0; i < n; i++) {
        const struct rwk_session *s = sessions[i];
        enum rwk_status status = rwk_session_check_tokens(s, s->position, &tokens[i], 1, error);
        if (!status && s->model != sessions[0]->model)
            status = rwk_fail(error, RWK_STATUS_MISMATCH, NULL,
                              "sessions of different models cannot be stepped together");
        if (!status && s->sequence.cache.element != sessions[0]->sequence.cache.element)
            status = rwk_fail(error, RWK_STATUS_MISMATCH, NULL,
                              "sessions of different cache types cannot be stepped "
                              "together");
        if (!status && s->wide != sessions[0]->wide)
            status = rwk_fail(error, RWK_STATUS_MISMATCH, NULL,
                              "sessions of different activations cannot be stepped together");
        if (!status && s->context > sessions[0]->context)
            status = rwk_fail(error, RWK_STATUS_MISMATCH, NULL,
                              "the first session's context must be the largest");
        if (status)
            return status;
        *ret_together &= rwk_session_usable_cache(s, s->position + 1) == s->position;
    }
    return RWK_STATUS_OK;
}

/* All caches serve: one pass (several when there are more sessions than rows in a pass). */
static enum rwk_status step_together(struct rwk_session *const *sessions, const uint32_t *tokens,
                                     size_t n, struct rwk_error *error)
{
    struct rwk_session *lead = sessions[0];
    uint64_t start = rwk_session_clock();
    for (size_t first = 0; first < n;) {
        uint32_t rows = n - first < lead->chunk ? (uint32_t)(n - first) : lead->chunk;
        for (uint32_t i = 0; i < rows; i++) {
            struct rwk_session *s = sessions[first + i];
            rwk_kv_cache_truncate(&s->sequence.cache, s->position);
            rwk_kv_cache_reserve(&s->sequence.cache, s->position, s->position + 1);
            lead->rows[i] = (struct rwk_row) { tokens[first + i], true, s->position, &s->sequence };
            s->n_logits = 0;
        }
        struct step_job job = { sessions, (uint32_t)first };
        struct rwk_pass pass = {
            lead->model, &lead->workspace, &lead->executor, lead->rows, rows, keep_step_logits,
            &job,        &lead->cancel,    lead->wide
        };
        bool done = rwk_forward(&pass);
        lead->stats.passes++;
        atomic_store(&lead->cancel, 0);
        if (!done)
            return rwk_fail(error, RWK_STATUS_CANCELLED, NULL, "cancelled");
        first += rows;
    }
    for (size_t i = 0; i < n; i++) {
        struct rwk_session *s = sessions[i];
        s->tokens[s->position] = tokens[i];
        s->call_first = s->logits_first = s->position++;
        s->n_cached = s->position;
        s->n_logits = 1;
        s->stats.evaluated_tokens++;
        s->stats.eval_ns += rwk_session_clock() - start;
    }
    return RWK_STATUS_OK;
}

/* Some must be computed anew first: one after the other, with the same bits. */
static enum rwk_status step_apart(struct rwk_session *const *sessions, const uint32_t *tokens,
                                  size_t n, struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    size_t done = 0;
    for (; done < n && !status; done += !status)
        status = rwk_session_evaluate(sessions[done], &tokens[done], 1, 0, NULL, error);
    for (size_t i = 0; status && i < done; i++)
        rwk_session_rewind_to(sessions[i], sessions[i]->position - 1);
    return status;
}

enum rwk_status rwk_step(struct rwk_session *const *sessions, const uint32_t *tokens, size_t n,
                         struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    size_t entered = 0;
    bool together;
    if (n == 0)
        return RWK_STATUS_OK;
    for (; entered < n && !status;
         entered += !status) /* a session given twice is found busy here */
        status = rwk_session_enter(sessions[entered], error);
    if (!status)
        status = check_step(sessions, tokens, n, &together, error);
    if (!status)
        status = together ? step_together(sessions, tokens, n, error)
                          : step_apart(sessions, tokens, n, error);
    while (entered > 0)
        rwk_session_leave(sessions[--entered]);
    return status;
}
