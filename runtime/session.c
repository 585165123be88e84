/* Sessions: a list of tokens, what was computed for it, and the passes that compute more.
 *
 *   eval: check -> append tokens -> [recompute from 0 if the frequencies in force change] -> chunks of rows -> rwk_forward
 *
 * Invariants between calls
 *   1. tokens[0..position) is the sequence; the cache is valid for tokens[0..n_cached), n_cached <= position;
 *   2. the cache was computed in one frequency epoch, `epoch` (see rwk_position_epoch);
 *   3. logits: row i belongs to token logits_first + i of the last call.
 *
 * Schemes whose frequencies depend on the present length: a change of epoch makes everything computed so far stale, in every
 * layer but the first, so it is computed again from the tokens. Every result is then what one pass over the whole sequence
 * gives, however it was cut into calls. (Turning cached keys anew would not do: what deeper layers read of earlier
 * positions was computed with the old frequencies, too.) */
#include "runtime/session.h"

#include <math.h>
#include <string.h>
#include "runtime/kernels/kvpage.h"

enum { DEFAULT_CHUNK = 512, DEFAULT_CONTEXT = 4096, DEFAULT_CONTEXT_BOUND = 32768, MAX_CHUNK = 65536 };

static const enum rwk_element kv_elements[] = {
    [RWK_KV_F16] = RWK_ELEMENT_F16, [RWK_KV_F32] = RWK_ELEMENT_F32,
    [RWK_KV_BF16] = RWK_ELEMENT_BF16, [RWK_KV_Q8] = RWK_ELEMENT_Q8,
};

void rwk_session_options_init(struct rwk_session_options *options)
{
    *options = (struct rwk_session_options){ .size = sizeof *options };
}

/* ---- shape ---- */

/* What the options come to for a model. */
struct shape {
    struct rwk_session_options o;
    struct rwk_executor executor;
    enum rwk_element element;
    uint64_t context;
    uint32_t chunk;
    size_t kv_bytes, workspace_bytes, token_bytes, logits_bytes, total;
};

static enum rwk_status resolve_numbers(struct shape *s, const struct rwk_model *model, struct rwk_error *error)
{
    const struct rwk_position_plan *plan = &model->position;
    if (s->o.kv_type >= sizeof kv_elements / sizeof *kv_elements)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "kv_type", "%u is no cache type", s->o.kv_type);
    s->element = kv_elements[s->o.kv_type];
    if (!model->kernels->put_key[s->element])
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, "kv_type", "not available with %s kernels",
                           model->kernels->name);
    if (s->o.activations > RWK_ACTIVATIONS_INT8)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "activations", "%u is no type of activations", s->o.activations);
    if (s->o.activations == RWK_ACTIVATIONS_INT8 && model->n_quantized == 0)
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, "activations", "int8 activations need quantised weights");
    if (s->o.context > plan->context_limit)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "context", "%llu positions asked for, but the model's table of "
                           "positions ends at %llu", (unsigned long long)s->o.context,
                           (unsigned long long)plan->context_limit);
    s->context = s->o.context;
    if (!s->context && plan->context == UINT64_MAX)
        s->context = DEFAULT_CONTEXT;
    else if (!s->context)
        s->context = plan->context < DEFAULT_CONTEXT_BOUND ? plan->context : DEFAULT_CONTEXT_BOUND;
    if (s->context > UINT32_MAX / 2)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "context", "%llu positions are more than a session can hold",
                           (unsigned long long)s->context);
    s->chunk = s->o.chunk ? s->o.chunk : DEFAULT_CHUNK;
    s->chunk = s->chunk < MAX_CHUNK ? s->chunk : MAX_CHUNK;
    s->chunk = s->chunk < s->context ? s->chunk : (uint32_t)s->context;
    return RWK_STATUS_OK;
}

static enum rwk_status resolve(struct shape *ret, const struct rwk_model *model, const struct rwk_session_options *options,
                               struct rwk_error *error)
{
    struct shape s = { 0 };
    struct rwk_workspace ws;
    rwk_session_options_init(&s.o);
    if (options)
        memcpy(&s.o, options, options->size < sizeof s.o ? options->size : sizeof s.o);
    enum rwk_status status = resolve_numbers(&s, model, error);
    if (status)
        return status;
    if (s.o.pool && s.o.parallel)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "pool", "a pool and an executor of the host's exclude each other");
    if (s.o.parallel && !s.o.n_workers)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "n_workers", "the host's executor needs at least one worker");
    s.executor = (struct rwk_executor){ s.o.pool, s.o.parallel, s.o.parallel_data,
                                        s.o.pool ? rwk_pool_n_threads(s.o.pool) : s.o.parallel ? s.o.n_workers : 1 };
    s.token_bytes = (size_t)s.context * sizeof(uint32_t) + s.chunk * sizeof(struct rwk_row);
    s.logits_bytes = model->vocab_size * sizeof(float);
    bool fits = rwk_kv_cache_bytes(model, s.element, s.context, s.chunk, &s.kv_bytes) &&
                rwk_workspace_layout(&ws, model, s.chunk, s.executor.n_workers, s.context, NULL, &s.workspace_bytes) &&
                rwk_size_add(s.kv_bytes, s.workspace_bytes, &s.total) && rwk_size_add(s.total, s.token_bytes, &s.total) &&
                rwk_size_add(s.total, s.logits_bytes, &s.total);
    if (!fits)
        return rwk_fail(error, RWK_STATUS_NOMEM, NULL, "a session of %llu positions exceeds the address space",
                        (unsigned long long)s.context);
    if (s.o.memory_budget && s.total > s.o.memory_budget)
        return rwk_fail(error, RWK_STATUS_NOMEM, NULL, "a session of %llu positions takes %zu bytes, the budget is %llu",
                        (unsigned long long)s.context, s.total, (unsigned long long)s.o.memory_budget);
    *ret = s;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_session_plan(const struct rwk_model *model, const struct rwk_session_options *options,
                                 struct rwk_memory_plan *ret_plan, struct rwk_error *error)
{
    struct shape s;
    enum rwk_status status = resolve(&s, model, options, error);
    if (status)
        return status;
    struct rwk_memory_plan plan = { .size = ret_plan->size, .mapped_bytes = model->mapped_bytes,
                                    .copied_bytes = model->copied_bytes, .kv_bytes = s.kv_bytes,
                                    .scratch_bytes = s.total - s.kv_bytes, .total_bytes = model->copied_bytes + s.total };
    memcpy(ret_plan, &plan, ret_plan->size < sizeof plan ? ret_plan->size : sizeof plan);
    return RWK_STATUS_OK;
}

/* ---- life ---- */

static void destroy(struct rwk_session *session)
{
    struct rwk_memory memory;
    rwk_memory_init(&memory, &session->memory.host, 0);
    rwk_kv_cache_finish(&session->sequence.cache);
    for (int i = 0; i < RWK_MAX_ROPE_TABLES; i++)
        rwk_free(&session->memory, session->sequence.inv_freq[i]);
    rwk_free(&session->memory, session->tokens);
    rwk_free(&session->memory, session->rows);
    rwk_free(&session->memory, session->logits);
    rwk_free(&session->memory, session->workspace_block);
    rwk_model_close(&session->model);
    rwk_free(&memory, session);
}

/* Everything but the cache; NULL members on failure. */
static bool allocate(struct rwk_session *session, const struct shape *s)
{
    struct rwk_memory *memory = &session->memory;
    const struct rwk_position_plan *plan = &session->model->position;
    size_t bytes;
    session->tokens = rwk_alloc(memory, (size_t)s->context * sizeof *session->tokens);
    session->rows = rwk_calloc(memory, s->chunk, sizeof *session->rows);
    session->logits = rwk_alloc(memory, s->logits_bytes);
    session->workspace_block = rwk_alloc(memory, s->workspace_bytes);
    for (uint32_t i = 0; i < plan->n_rope; i++) {
        session->sequence.inv_freq[i] = rwk_alloc(memory, (plan->rope[i].n_pairs + 1) * sizeof(float));
        if (!session->sequence.inv_freq[i])
            return false;
        rwk_position_frequencies(plan, i, 0, session->sequence.inv_freq[i]);
    }
    return session->tokens && session->rows && session->logits && session->workspace_block &&
           rwk_workspace_layout(&session->workspace, session->model, s->chunk, s->executor.n_workers, s->context,
                                session->workspace_block, &bytes);
}

static enum rwk_status create(struct rwk_session **ret_session, struct rwk_model *model, const struct shape *s,
                              const struct rwk_session *parent, struct rwk_error *error)
{
    struct rwk_memory memory;
    rwk_memory_init(&memory, s->o.allocator, 0);
    struct rwk_session *session = rwk_calloc(&memory, 1, sizeof *session);
    if (!session)
        return rwk_fail_nomem(error, sizeof *session);
    rwk_memory_init(&session->memory, s->o.allocator, 0);
    session->model = rwk_model_retain(model);
    session->executor = s->executor;
    session->wide = s->o.activations == RWK_ACTIVATIONS_F32;
    session->options = s->o;
    session->context = s->context;
    session->chunk = s->chunk;
    session->logits_capacity = 1;
    atomic_init(&session->cancel, 0);
    atomic_flag_clear(&session->busy);
    enum rwk_status status = RWK_STATUS_OK;
    if (!allocate(session, s))
        status = rwk_fail(error, RWK_STATUS_NOMEM, NULL, "out of memory: a session of %llu positions takes %zu bytes",
                          (unsigned long long)s->context, s->total);
    else
        status = rwk_kv_cache_init(&session->sequence.cache, model, s->element, s->context, s->chunk,
                                   parent ? &parent->sequence.cache : NULL, &session->memory, error);
    if (status) {
        destroy(session);
        return status;
    }
    *ret_session = session;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_session_create(struct rwk_session **ret_session, struct rwk_model *model,
                                   const struct rwk_session_options *options, struct rwk_error *error)
{
    struct shape s;
    enum rwk_status status = resolve(&s, model, options, error);
    return status ? status : create(ret_session, model, &s, NULL, error);
}

void rwk_session_close(struct rwk_session **session)
{
    if (session && *session) {
        destroy(*session);
        *session = NULL;
    }
}

/* ---- one owner at a time ---- */

static enum rwk_status enter(struct rwk_session *session, struct rwk_error *error)
{
    if (atomic_flag_test_and_set_explicit(&session->busy, memory_order_acquire))
        return rwk_fail(error, RWK_STATUS_BUSY, NULL, "the session is in use by another call");
    return RWK_STATUS_OK;
}

static void leave(struct rwk_session *session) { atomic_flag_clear_explicit(&session->busy, memory_order_release); }

void rwk_session_cancel(struct rwk_session *session) { atomic_store(&session->cancel, 1); }

/* ---- evaluation ---- */

static enum rwk_status check_tokens(const struct rwk_session *s, uint64_t position, const uint32_t *tokens, size_t n,
                                    struct rwk_error *error)
{
    if (n == 0)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL, "no tokens were given");
    if (n > s->context - position)
        return rwk_fail(error, RWK_STATUS_CONTEXT_FULL, NULL, "%zu tokens do not fit: the context holds %llu, of which %llu "
                        "are in use", n, (unsigned long long)s->context, (unsigned long long)position);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= s->model->vocab_size)
            return rwk_fail(error, RWK_STATUS_RANGE, NULL, "token id %u is out of range: the vocabulary has %u entries",
                            tokens[i], s->model->vocab_size);
    return RWK_STATUS_OK;
}

static void set_epoch(struct rwk_session *s, uint64_t epoch)
{
    if (epoch == s->epoch)
        return;
    for (uint32_t i = 0; i < s->model->position.n_rope; i++)
        rwk_position_frequencies(&s->model->position, i, epoch, s->sequence.inv_freq[i]);
    s->epoch = epoch;
}

/* How far the cache serves a sequence of `length` tokens that agrees with it on the first n_cached. */
static uint64_t usable_cache(const struct rwk_session *s, uint64_t length)
{
    bool stale = rwk_position_epoch(&s->model->position, length) != s->epoch ||
                 rwk_kv_cache_has_dropped(&s->sequence.cache, s->n_cached);
    return stale ? 0 : s->n_cached;
}

/* Computes tokens[n_cached..end), which are in place; on_logits for the rows from `logits_from` on, with
 * their index relative to it. Leaves n_cached at what is whole. */
static enum rwk_status run(struct rwk_session *s, uint64_t end, uint64_t logits_from, rwk_logits_fn on_logits,
                           struct rwk_error *error)
{
    uint64_t first = usable_cache(s, end);
    if (first != s->n_cached)
        s->n_cached = first;
    rwk_kv_cache_truncate(&s->sequence.cache, first);
    set_epoch(s, rwk_position_epoch(&s->model->position, end));
    while (s->n_cached < end) {
        uint32_t n = end - s->n_cached < s->chunk ? (uint32_t)(end - s->n_cached) : s->chunk;
        for (uint32_t i = 0; i < n; i++)
            s->rows[i] = (struct rwk_row){ s->tokens[s->n_cached + i], s->n_cached + i >= logits_from, s->n_cached + i,
                                           &s->sequence };
        rwk_kv_cache_reserve(&s->sequence.cache, s->n_cached, s->n_cached + n);
        struct rwk_pass pass = { s->model, &s->workspace, &s->executor, s->rows, n, on_logits, s, &s->cancel, s->wide };
        bool done = rwk_forward(&pass);
        if (done)
            s->n_cached += n;
        if (done && s->options.progress && s->n_cached < end &&
            s->options.progress(s->options.progress_data, s->n_cached - first, end - first))
            done = false;
        if (!done)
            return rwk_fail(error, RWK_STATUS_CANCELLED, NULL, "cancelled after %llu of %llu tokens",
                            (unsigned long long)(s->n_cached - first), (unsigned long long)(end - first));
    }
    return RWK_STATUS_OK;
}

/* Appends and computes; the sequence then ends at what is whole. */
static enum rwk_status append(struct rwk_session *s, const uint32_t *tokens, size_t n, uint64_t logits_from,
                              rwk_logits_fn on_logits, size_t *ret_done, struct rwk_error *error)
{
    uint64_t before = s->position;
    memcpy(s->tokens + before, tokens, n * sizeof *tokens);
    s->logits_first = logits_from;
    s->n_logits = 0;
    s->call_first = before;
    enum rwk_status status = run(s, before + n, logits_from, on_logits, error);
    atomic_store(&s->cancel, 0);
    s->position = s->n_cached > before ? s->n_cached : before;
    if (ret_done)
        *ret_done = (size_t)(s->position - before);
    if (!status)
        s->n_logits = (size_t)(before + n - logits_from);
    return status;
}

static void keep_logits(void *arg, uint32_t row, const float *logits)
{
    struct rwk_session *s = arg;
    size_t index = (size_t)(s->rows[row].position - s->logits_first);
    memcpy(s->logits + index * s->model->vocab_size, logits, s->model->vocab_size * sizeof *logits);
}

/* Room for the logits of n tokens. */
static enum rwk_status grow_logits(struct rwk_session *s, size_t n, struct rwk_error *error)
{
    size_t bytes;
    if (n <= s->logits_capacity)
        return RWK_STATUS_OK;
    if (!rwk_size_mul(n, s->model->vocab_size * sizeof(float), &bytes))
        return rwk_fail_nomem(error, SIZE_MAX);
    float *fresh = rwk_alloc(&s->memory, bytes);
    if (!fresh)
        return rwk_fail_nomem(error, bytes);
    rwk_free(&s->memory, s->logits);
    s->logits = fresh;
    s->logits_capacity = n;
    s->n_logits = 0;
    return RWK_STATUS_OK;
}

static enum rwk_status eval(struct rwk_session *s, const uint32_t *tokens, size_t n, uint32_t flags, size_t *ret_done,
                            struct rwk_error *error)
{
    size_t kept = flags & RWK_EVAL_ALL_LOGITS ? n : 1;
    enum rwk_status status = check_tokens(s, s->position, tokens, n, error);
    if (!status)
        status = grow_logits(s, kept, error);
    return status ? status : append(s, tokens, n, s->position + n - kept, keep_logits, ret_done, error);
}

enum rwk_status rwk_session_eval(struct rwk_session *session, const uint32_t *tokens, size_t n, uint32_t flags,
                                 size_t *ret_done, struct rwk_error *error)
{
    enum rwk_status status = enter(session, error);
    if (status)
        return status;
    status = eval(session, tokens, n, flags, ret_done, error);
    leave(session);
    return status;
}

static void rewind_to(struct rwk_session *s, uint64_t position)
{
    s->position = position;
    if (s->n_cached > position)
        s->n_cached = position;
    s->n_logits = 0;
}

enum rwk_status rwk_session_sync(struct rwk_session *session, const uint32_t *tokens, size_t n, size_t *ret_reused,
                                 struct rwk_error *error)
{
    enum rwk_status status = enter(session, error);
    if (status)
        return status;
    struct rwk_session *s = session;
    size_t same = 0;
    status = check_tokens(s, 0, tokens, n, error);
    while (!status && same < n && same < s->position && tokens[same] == s->tokens[same])
        same++;
    bool have = same == n && s->position == n && s->n_logits && s->logits_first + s->n_logits == n;
    if (!status && !have) {
        same = same < n ? same : n - 1; /* the last one's logits are wanted */
        rewind_to(s, same);
        uint64_t usable = usable_cache(s, n);
        status = eval(s, tokens + same, n - same, 0, NULL, error);
        same = usable < same ? (size_t)usable : same;
    }
    if (!status && ret_reused)
        *ret_reused = same;
    leave(s);
    return status;
}

enum rwk_status rwk_session_rewind(struct rwk_session *session, uint64_t position, struct rwk_error *error)
{
    enum rwk_status status = enter(session, error);
    if (status)
        return status;
    if (position > session->position)
        status = rwk_fail(error, RWK_STATUS_RANGE, NULL, "cannot rewind to %llu: the sequence has %llu tokens",
                          (unsigned long long)position, (unsigned long long)session->position);
    else
        rewind_to(session, position);
    leave(session);
    return status;
}

/* ---- score ---- */

static void score_row(void *arg, uint32_t row, const float *logits)
{
    struct rwk_session *s = arg;
    size_t index = (size_t)(s->rows[row].position - s->call_first);
    if (index + 1 == s->score_n) {
        memcpy(s->logits, logits, s->model->vocab_size * sizeof *logits);
        return;
    }
    float max;
    double sum;
    s->model->kernels->log_sum(logits, s->model->vocab_size, &max, &sum);
    s->scores[index] = (double)logits[s->tokens[s->rows[row].position + 1]] - max - log(sum);
}

enum rwk_status rwk_session_score(struct rwk_session *session, const uint32_t *tokens, size_t n, double *ret_logprobs,
                                  struct rwk_error *error)
{
    enum rwk_status status = enter(session, error);
    if (status)
        return status;
    struct rwk_session *s = session;
    status = check_tokens(s, s->position, tokens, n, error);
    if (!status) {
        s->scores = ret_logprobs;
        s->score_n = n;
        status = append(s, tokens, n, s->position, score_row, NULL, error);
        if (!status) {
            s->logits_first += n - 1;
            s->n_logits = 1;
        }
    }
    leave(s);
    return status;
}

/* ---- many at once ---- */

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

static enum rwk_status check_step(struct rwk_session *const *sessions, const uint32_t *tokens, size_t n, bool *ret_together,
                                  struct rwk_error *error)
{
    *ret_together = true;
    for (size_t i = 0; i < n; i++) {
        const struct rwk_session *s = sessions[i];
        enum rwk_status status = check_tokens(s, s->position, &tokens[i], 1, error);
        if (!status && s->model != sessions[0]->model)
            status = rwk_fail(error, RWK_STATUS_MISMATCH, NULL, "sessions of different models cannot be stepped together");
        if (!status && s->sequence.cache.element != sessions[0]->sequence.cache.element)
            status = rwk_fail(error, RWK_STATUS_MISMATCH, NULL, "sessions of different cache types cannot be stepped "
                              "together");
        if (!status && s->wide != sessions[0]->wide)
            status = rwk_fail(error, RWK_STATUS_MISMATCH, NULL, "sessions of different activations cannot be stepped "
                              "together");
        if (!status && s->context > sessions[0]->context)
            status = rwk_fail(error, RWK_STATUS_MISMATCH, NULL, "the first session's context must be the largest");
        if (status)
            return status;
        *ret_together &= usable_cache(s, s->position + 1) == s->position;
    }
    return RWK_STATUS_OK;
}

/* All caches serve: one pass (several when there are more sessions than rows in a pass). */
static enum rwk_status step_together(struct rwk_session *const *sessions, const uint32_t *tokens, size_t n,
                                     struct rwk_error *error)
{
    struct rwk_session *lead = sessions[0];
    for (size_t first = 0; first < n;) {
        uint32_t rows = n - first < lead->chunk ? (uint32_t)(n - first) : lead->chunk;
        for (uint32_t i = 0; i < rows; i++) {
            struct rwk_session *s = sessions[first + i];
            rwk_kv_cache_truncate(&s->sequence.cache, s->position);
            rwk_kv_cache_reserve(&s->sequence.cache, s->position, s->position + 1);
            lead->rows[i] = (struct rwk_row){ tokens[first + i], true, s->position, &s->sequence };
            s->n_logits = 0;
        }
        struct step_job job = { sessions, (uint32_t)first };
        struct rwk_pass pass = { lead->model, &lead->workspace, &lead->executor, lead->rows, rows, keep_step_logits, &job,
                                 &lead->cancel, lead->wide };
        bool done = rwk_forward(&pass);
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
    }
    return RWK_STATUS_OK;
}

/* Some must be computed anew first: one after the other, with the same bits. */
static enum rwk_status step_apart(struct rwk_session *const *sessions, const uint32_t *tokens, size_t n,
                                  struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    size_t done = 0;
    for (; done < n && !status; done += !status)
        status = eval(sessions[done], &tokens[done], 1, 0, NULL, error);
    for (size_t i = 0; status && i < done; i++)
        rewind_to(sessions[i], sessions[i]->position - 1);
    return status;
}

enum rwk_status rwk_step(struct rwk_session *const *sessions, const uint32_t *tokens, size_t n, struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    size_t entered = 0;
    bool together;
    if (n == 0)
        return RWK_STATUS_OK;
    for (; entered < n && !status; entered += !status) /* a session given twice is found busy here */
        status = enter(sessions[entered], error);
    if (!status)
        status = check_step(sessions, tokens, n, &together, error);
    if (!status)
        status = together ? step_together(sessions, tokens, n, error) : step_apart(sessions, tokens, n, error);
    while (entered > 0)
        leave(sessions[--entered]);
    return status;
}

/* ---- fork ---- */

enum rwk_status rwk_session_fork(struct rwk_session **ret_session, struct rwk_session *session, struct rwk_error *error)
{
    struct rwk_session *fork = NULL;
    struct shape shape;
    enum rwk_status status = enter(session, error);
    if (status)
        return status;
    status = resolve(&shape, session->model, &session->options, error);
    if (!status)
        status = create(&fork, session->model, &shape, session, error);
    if (!status) {
        memcpy(fork->tokens, session->tokens, (size_t)session->position * sizeof *fork->tokens);
        fork->position = session->position;
        fork->n_cached = session->n_cached;
        set_epoch(fork, session->epoch);
        if (session->n_logits) {
            /* The last token's logits go along, so that both can sample from them. */
            memcpy(fork->logits, session->logits + (session->n_logits - 1) * session->model->vocab_size,
                   session->model->vocab_size * sizeof *fork->logits);
            fork->n_logits = 1;
            fork->call_first = fork->logits_first = session->logits_first + session->n_logits - 1;
        }
        *ret_session = fork;
    }
    leave(session);
    return status;
}

/* ---- what can be asked ---- */

const float *rwk_session_logits(const struct rwk_session *session, size_t index)
{
    uint64_t token = session->call_first + index;
    if (token < session->logits_first || token - session->logits_first >= session->n_logits)
        return NULL;
    return session->logits + (size_t)(token - session->logits_first) * session->model->vocab_size;
}

uint64_t rwk_session_position(const struct rwk_session *session) { return session->position; }

uint64_t rwk_session_context(const struct rwk_session *session) { return session->context; }

const uint32_t *rwk_session_tokens(const struct rwk_session *session) { return session->tokens; }
