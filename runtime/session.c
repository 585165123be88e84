/* Sessions: a list of tokens, what was computed for it, and the passes that compute more.
 *
 *   eval: check -> append tokens -> [recompute from 0 if the frequencies in force change]
 *         -> chunks of rows -> rwk_forward
 *
 * Invariants between calls
 *   1. tokens[0..position) is the sequence; the cache is valid for tokens[0..n_cached),
 *      n_cached <= position;
 *   2. the cache was computed in one frequency epoch, `epoch` (see rwk_position_epoch);
 *   3. logits: row i belongs to token logits_first + i of the last call;
 *   4. what lies from n_exact on was moved by a shift: it serves to go on, not as a fresh result.
 *
 * Schemes whose frequencies depend on the present length: a change of epoch makes everything
 * computed so far stale, in every layer but the first, so it is computed again from the tokens.
 * Every result is then what one pass over the whole sequence gives, however it was cut into calls.
 * (Turning cached keys anew would not do: what deeper layers read of earlier positions was computed
 * with the old frequencies, too.) */
#include "runtime/session.h"

#include <string.h>
#include <time.h>
#include "runtime/kernels/kvpage.h"

enum {
    DEFAULT_CHUNK = 512,
    DEFAULT_CONTEXT = 4096,
    DEFAULT_CONTEXT_BOUND = 32768,
    MAX_CHUNK = 65536
};

static const enum rwk_element kv_elements[] = {
    [RWK_KV_F16] = RWK_ELEMENT_F16,
    [RWK_KV_F32] = RWK_ELEMENT_F32,
    [RWK_KV_BF16] = RWK_ELEMENT_BF16,
    [RWK_KV_Q8] = RWK_ELEMENT_Q8,
};

void rwk_session_options_init(struct rwk_session_options *options)
{
    *options = (struct rwk_session_options) { .size = sizeof *options };
}

/* ---- shape ---- */

/* What the options come to for a model. */
struct shape {
    struct rwk_session_options o;
    struct rwk_executor executor;
    enum rwk_element element;
    uint64_t context;
    uint32_t chunk;
    size_t kv_bytes, kv_table_bytes, workspace_bytes, logits_bytes;
    size_t total; /* all that creating a session asks the allocator for */
};

static enum rwk_status resolve_numbers(struct shape *s, const struct rwk_model *model,
                                       struct rwk_error *error)
{
    const struct rwk_position_plan *plan = &model->position;
    if (s->o.kv_type >= sizeof kv_elements / sizeof *kv_elements)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "kv_type", "%u is no cache type",
                           s->o.kv_type);
    s->element = kv_elements[s->o.kv_type];
    if (!model->kernels->put_key[s->element])
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, "kv_type",
                           "not available with %s kernels", model->kernels->name);
    if (s->o.activations > RWK_ACTIVATIONS_INT8)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "activations",
                           "%u is no type of activations", s->o.activations);
    if (s->o.activations == RWK_ACTIVATIONS_INT8 && model->n_quantized == 0)
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, "activations",
                           "int8 activations need quantised weights");
    if (s->o.context > plan->context_limit)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "context",
                           "%llu positions asked for, but the model's table of "
                           "positions ends at %llu",
                           (unsigned long long)s->o.context,
                           (unsigned long long)plan->context_limit);
    s->context = s->o.context;
    if (!s->context && plan->context == UINT64_MAX)
        s->context = DEFAULT_CONTEXT;
    else if (!s->context)
        s->context = plan->context < DEFAULT_CONTEXT_BOUND ? plan->context : DEFAULT_CONTEXT_BOUND;
    if (s->context > UINT32_MAX / 2)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "context",
                           "%llu positions are more than a session can hold",
                           (unsigned long long)s->context);
    s->chunk = s->o.chunk ? s->o.chunk : DEFAULT_CHUNK;
    s->chunk = s->chunk < MAX_CHUNK ? s->chunk : MAX_CHUNK;
    s->chunk = s->chunk < s->context ? s->chunk : (uint32_t)s->context;
    return RWK_STATUS_OK;
}

/* What destroy() gives back, beside the cache. */
static bool add_blocks(struct shape *s, const struct rwk_model *model)
{
    s->total = s->kv_bytes;
    for (uint32_t i = 0; i < model->position.n_rope; i++)
        if (!rwk_size_add_block(&s->total, model->position.rope[i].n_pairs + 1, sizeof(float)))
            return false;
    return rwk_size_add_block(&s->total, 1, sizeof(struct rwk_session)) &&
           rwk_size_add_block(&s->total, (size_t)s->context, sizeof(uint32_t)) &&
           rwk_size_add_block(&s->total, s->chunk, sizeof(struct rwk_row)) &&
           rwk_size_add_block(&s->total, 1, s->logits_bytes) &&
           rwk_size_add_block(&s->total, 1, s->workspace_bytes);
}

static enum rwk_status resolve(struct shape *ret, const struct rwk_model *model,
                               const struct rwk_session_options *options, struct rwk_error *error)
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
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "pool",
                           "a pool and an executor of the host's exclude each other");
    if (s.o.parallel && !s.o.n_workers)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "n_workers",
                           "the host's executor needs at least one worker");
    s.executor = (struct rwk_executor) { s.o.pool, s.o.parallel, s.o.parallel_data,
                                         s.o.pool       ? rwk_pool_n_threads(s.o.pool)
                                         : s.o.parallel ? s.o.n_workers
                                                        : 1 };
    s.logits_bytes = model->vocab_size * sizeof(float);
    bool fits =
        rwk_kv_cache_bytes(model, s.element, s.context, s.chunk, &s.kv_bytes, &s.kv_table_bytes) &&
        rwk_workspace_layout(&ws, model, s.chunk, s.executor.n_workers, s.context, NULL,
                             &s.workspace_bytes) &&
        add_blocks(&s, model);
    if (!fits)
        return rwk_fail(error, RWK_STATUS_NOMEM, NULL,
                        "a session of %llu positions exceeds the address space",
                        (unsigned long long)s.context);
    if (s.o.memory_budget && s.total > s.o.memory_budget)
        return rwk_fail(error, RWK_STATUS_NOMEM, NULL,
                        "a session of %llu positions takes %zu bytes, the budget is %llu",
                        (unsigned long long)s.context, s.total,
                        (unsigned long long)s.o.memory_budget);
    *ret = s;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_session_plan(const struct rwk_model *model,
                                 const struct rwk_session_options *options,
                                 struct rwk_memory_plan *ret_plan, struct rwk_error *error)
{
    struct shape s;
    enum rwk_status status = resolve(&s, model, options, error);
    if (status)
        return status;
    struct rwk_memory_plan plan = { .size = ret_plan->size,
                                    .mapped_bytes = model->mapped_bytes,
                                    .copied_bytes = model->copied_bytes,
                                    .kv_bytes = s.kv_bytes,
                                    .scratch_bytes = s.total - s.kv_bytes,
                                    .total_bytes = model->allocated_bytes + s.total,
                                    .model_bytes = model->allocated_bytes };
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
        session->sequence.inv_freq[i] =
            rwk_alloc(memory, (plan->rope[i].n_pairs + 1) * sizeof(float));
        if (!session->sequence.inv_freq[i])
            return false;
        rwk_position_frequencies(plan, i, 0, session->sequence.inv_freq[i]);
    }
    return session->tokens && session->rows && session->logits && session->workspace_block &&
           rwk_workspace_layout(&session->workspace, session->model, s->chunk,
                                s->executor.n_workers, s->context, session->workspace_block,
                                &bytes);
}

static enum rwk_status create(struct rwk_session **ret_session, struct rwk_model *model,
                              const struct shape *s, const struct rwk_session *parent,
                              struct rwk_error *error)
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
    session->options.allocator = &session->memory.host; /* the host's own struct need not live on */
    session->shared_bytes = s->kv_bytes - s->kv_table_bytes + sizeof *session + RWK_ALLOC_HEADER;
    session->n_exact = UINT64_MAX;
    session->context = s->context;
    session->chunk = s->chunk;
    session->logits_capacity = 1;
    atomic_init(&session->cancel, 0);
    atomic_flag_clear(&session->busy);
    enum rwk_status status = RWK_STATUS_OK;
    if (!allocate(session, s))
        status = rwk_fail(error, RWK_STATUS_NOMEM, NULL,
                          "out of memory: a session of %llu positions takes %zu bytes",
                          (unsigned long long)s->context, s->total);
    else
        status =
            rwk_kv_cache_init(&session->sequence.cache, model, s->element, s->context, s->chunk,
                              parent ? &parent->sequence.cache : NULL, &session->memory, error);
    if (status) {
        destroy(session);
        return status;
    }
    *ret_session = session;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_session_create(struct rwk_session **ret_session, struct rwk_model *model,
                                   const struct rwk_session_options *options,
                                   struct rwk_error *error)
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

enum rwk_status rwk_session_enter(struct rwk_session *session, struct rwk_error *error)
{
    if (atomic_flag_test_and_set_explicit(&session->busy, memory_order_acquire))
        return rwk_fail(error, RWK_STATUS_BUSY, NULL, "the session is in use by another call");
    return RWK_STATUS_OK;
}

void rwk_session_leave(struct rwk_session *session)
{
    atomic_flag_clear_explicit(&session->busy, memory_order_release);
}

void rwk_session_cancel(struct rwk_session *session)
{
    atomic_store(&session->cancel, 1);
}

/* ---- evaluation ---- */

enum rwk_status rwk_session_check_tokens(const struct rwk_session *s, uint64_t position,
                                         const uint32_t *tokens, size_t n, struct rwk_error *error)
{
    if (n == 0)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL, "no tokens were given");
    if (n > s->context - position)
        return rwk_fail(error, RWK_STATUS_CONTEXT_FULL, NULL,
                        "%zu tokens do not fit: the context holds %llu, of which %llu "
                        "are in use",
                        n, (unsigned long long)s->context, (unsigned long long)position);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= s->model->vocab_size)
            return rwk_fail(error, RWK_STATUS_RANGE, NULL,
                            "token id %u is out of range: the vocabulary has %u entries", tokens[i],
                            s->model->vocab_size);
    return RWK_STATUS_OK;
}

void rwk_session_set_epoch(struct rwk_session *s, uint64_t epoch)
{
    if (epoch == s->epoch)
        return;
    for (uint32_t i = 0; i < s->model->position.n_rope; i++)
        rwk_position_frequencies(&s->model->position, i, epoch, s->sequence.inv_freq[i]);
    s->epoch = epoch;
}

/* How far the cache serves a sequence of `length` tokens that agrees with it on the first n_cached.
 */
uint64_t rwk_session_usable_cache(const struct rwk_session *s, uint64_t length)
{
    bool stale = rwk_position_epoch(&s->model->position, length) != s->epoch ||
                 rwk_kv_cache_has_dropped(&s->sequence.cache, s->n_cached);
    return stale ? 0 : s->n_cached;
}

/* Computes tokens[n_cached..end), which are in place; on_logits for the rows from `logits_from` on,
 * with their index relative to it. Leaves n_cached at what is whole. */
static enum rwk_status run(struct rwk_session *s, uint64_t end, uint64_t logits_from,
                           rwk_logits_fn on_logits, void *on_logits_arg, struct rwk_error *error)
{
    uint64_t first = rwk_session_usable_cache(s, end);
    s->n_cached = first;
    if (first <= s->n_exact)
        s->n_exact = UINT64_MAX;
    rwk_kv_cache_truncate(&s->sequence.cache, first);
    rwk_session_set_epoch(s, rwk_position_epoch(&s->model->position, end));
    while (s->n_cached < end) {
        uint32_t n = end - s->n_cached < s->chunk ? (uint32_t)(end - s->n_cached) : s->chunk;
        for (uint32_t i = 0; i < n; i++)
            s->rows[i] =
                (struct rwk_row) { s->tokens[s->n_cached + i], s->n_cached + i >= logits_from,
                                   s->n_cached + i, &s->sequence };
        rwk_kv_cache_reserve(&s->sequence.cache, s->n_cached, s->n_cached + n);
        struct rwk_pass pass = { s->model,  &s->workspace, &s->executor, s->rows, n,
                                 on_logits, on_logits_arg, &s->cancel,   s->wide };
        bool done = rwk_forward(&pass);
        s->stats.passes++;
        if (done) {
            uint64_t known = s->position > s->n_cached ? s->position - s->n_cached : 0;
            s->stats.recomputed_tokens += known < n ? known : n;
            s->n_cached += n;
        }
        if (done && s->options.progress && s->n_cached < end &&
            s->options.progress(s->options.progress_data, s->n_cached - first, end - first))
            done = false;
        if (!done)
            return rwk_fail(
                error, RWK_STATUS_CANCELLED, NULL, "cancelled after %llu of %llu tokens",
                (unsigned long long)(s->n_cached - first), (unsigned long long)(end - first));
    }
    return RWK_STATUS_OK;
}

uint64_t rwk_session_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

enum rwk_status rwk_session_append(struct rwk_session *s, const uint32_t *tokens, size_t n,
                                   uint64_t logits_from, rwk_logits_fn on_logits,
                                   void *on_logits_arg, size_t *ret_done, struct rwk_error *error)
{
    uint64_t before = s->position, start = rwk_session_clock();
    memmove(s->tokens + before, tokens, n * sizeof *tokens); /* they may be the session's own */
    s->logits_first = logits_from;
    s->n_logits = 0;
    s->call_first = before;
    enum rwk_status status = run(s, before + n, logits_from, on_logits, on_logits_arg, error);
    atomic_store(&s->cancel, 0);
    s->position = s->n_cached > before ? s->n_cached : before;
    s->stats.evaluated_tokens += s->position - before;
    s->stats.eval_ns += rwk_session_clock() - start;
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

/* What the session holds of the host's memory. */
static uint64_t memory_bytes(const struct rwk_session *s)
{
    return s->shared_bytes + atomic_load_explicit(&s->memory.used, memory_order_relaxed);
}

/* Room for the logits of n tokens. */
static enum rwk_status grow_logits(struct rwk_session *s, size_t n, struct rwk_error *error)
{
    size_t bytes;
    if (n <= s->logits_capacity)
        return RWK_STATUS_OK;
    if (!rwk_size_mul(n, s->model->vocab_size * sizeof(float), &bytes))
        return rwk_fail_nomem(error, SIZE_MAX);
    uint64_t budget = s->options.memory_budget, used = memory_bytes(s);
    if (budget && (used > budget || bytes > budget - used))
        return rwk_fail(error, RWK_STATUS_NOMEM, NULL,
                        "the logits of %zu tokens take %zu bytes more, the budget is %llu", n,
                        bytes, (unsigned long long)budget);
    float *fresh = rwk_alloc(&s->memory, bytes);
    if (!fresh)
        return rwk_fail_nomem(error, bytes);
    rwk_free(&s->memory, s->logits);
    s->logits = fresh;
    s->logits_capacity = n;
    s->n_logits = 0;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_session_evaluate(struct rwk_session *s, const uint32_t *tokens, size_t n,
                                     uint32_t flags, size_t *ret_done, struct rwk_error *error)
{
    size_t kept = flags & RWK_EVAL_ALL_LOGITS ? n : 1;
    enum rwk_status status = rwk_session_check_tokens(s, s->position, tokens, n, error);
    if (!status)
        status = grow_logits(s, kept, error);
    return status ? status
                  : rwk_session_append(s, tokens, n, s->position + n - kept, keep_logits, s,
                                       ret_done, error);
}

enum rwk_status rwk_session_eval(struct rwk_session *session, const uint32_t *tokens, size_t n,
                                 uint32_t flags, size_t *ret_done, struct rwk_error *error)
{
    enum rwk_status status = rwk_session_enter(session, error);
    if (status)
        return status;
    status = rwk_session_evaluate(session, tokens, n, flags, ret_done, error);
    rwk_session_leave(session);
    return status;
}

static enum rwk_status next(struct rwk_session *s, struct rwk_sampler *sampler,
                            struct rwk_sample *ret_sample, struct rwk_error *error)
{
    struct rwk_sample sample;
    const float *logits = rwk_session_logits(s, RWK_LAST);
    if (!logits)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL,
                        "there are no logits to draw from: nothing was evaluated last");
    if (s->position == s->context)
        return rwk_fail(error, RWK_STATUS_CONTEXT_FULL, NULL,
                        "all %llu positions of the context are in use",
                        (unsigned long long)s->context);
    uint64_t before[2];
    rwk_sampler_get_state(sampler, before);
    enum rwk_status status = rwk_sampler_sample(sampler, logits, s->model->vocab_size, s->tokens,
                                                (size_t)s->position, &sample, error);
    if (!status)
        status = rwk_session_evaluate(s, &sample.token, 1, 0, NULL, error);
    if (status)
        rwk_sampler_set_state(sampler, before);
    else
        *ret_sample = sample;
    return status;
}

enum rwk_status rwk_session_next(struct rwk_session *session, struct rwk_sampler *sampler,
                                 struct rwk_sample *ret_sample, struct rwk_error *error)
{
    enum rwk_status status = rwk_session_enter(session, error);
    if (status)
        return status;
    status = next(session, sampler, ret_sample, error);
    rwk_session_leave(session);
    return status;
}

void rwk_session_rewind_to(struct rwk_session *s, uint64_t position)
{
    s->position = position;
    if (s->n_cached > position)
        s->n_cached = position;
    if (position <= s->n_exact)
        s->n_exact = UINT64_MAX;
    s->n_logits = 0;
}

enum rwk_status rwk_session_sync(struct rwk_session *session, const uint32_t *tokens, size_t n,
                                 size_t *ret_reused, struct rwk_error *error)
{
    enum rwk_status status = rwk_session_enter(session, error);
    if (status)
        return status;
    struct rwk_session *s = session;
    size_t same = 0;
    status = rwk_session_check_tokens(s, 0, tokens, n, error);
    while (!status && same < n && same < s->position && tokens[same] == s->tokens[same])
        same++;
    same = same < s->n_exact ? same
                             : (size_t)s->n_exact; /* what followed a shift is no fresh session's */
    bool have = same == n && s->position == n && s->n_logits && s->logits_first + s->n_logits == n;
    if (!status && !have) {
        same = same < n ? same : n - 1; /* the last one's logits are wanted */
        rwk_session_rewind_to(s, same);
        uint64_t usable = rwk_session_usable_cache(s, n);
        status = rwk_session_evaluate(s, tokens + same, n - same, 0, NULL, error);
        same = usable < same ? (size_t)usable : same;
    }
    if (!status)
        session->stats.reused_tokens += same;
    if (!status && ret_reused)
        *ret_reused = same;
    rwk_session_leave(s);
    return status;
}

enum rwk_status rwk_session_rewind(struct rwk_session *session, uint64_t position,
                                   struct rwk_error *error)
{
    enum rwk_status status = rwk_session_enter(session, error);
    if (status)
        return status;
    if (position > session->position)
        status = rwk_fail(error, RWK_STATUS_RANGE, NULL,
                          "cannot rewind to %llu: the sequence has %llu tokens",
                          (unsigned long long)position, (unsigned long long)session->position);
    else
        rwk_session_rewind_to(session, position);
    rwk_session_leave(session);
    return status;
}

/* ---- shift ---- */

static enum rwk_status check_shift(const struct rwk_session *s, uint64_t keep, uint64_t n,
                                   struct rwk_error *error)
{
    const char *scheme = s->model->position.scheme->name;
    if (!s->model->position.scheme->shifts)
        return rwk_fail(error, RWK_STATUS_UNSUPPORTED, NULL,
                        "a sequence cannot be shifted where positions are part of what is "
                        "cached (%s): rewind, and evaluate the tokens that are to stay",
                        scheme);
    if (keep % RWK_KEY_BLOCK || n % RWK_KEY_BLOCK)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL,
                        "a shift keeps and drops multiples of %d tokens, not %llu and %llu",
                        RWK_KEY_BLOCK, (unsigned long long)keep, (unsigned long long)n);
    if (n > s->position || keep > s->position - n)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL,
                        "cannot drop %llu tokens after the first %llu: the sequence has %llu",
                        (unsigned long long)n, (unsigned long long)keep,
                        (unsigned long long)s->position);
    return RWK_STATUS_OK;
}

static void shift(struct rwk_session *s, uint64_t keep, uint64_t n)
{
    memmove(s->tokens + keep, s->tokens + keep + n,
            (size_t)(s->position - keep - n) * sizeof *s->tokens);
    rwk_kv_cache_truncate(&s->sequence.cache, s->n_cached);
    rwk_kv_cache_drop(&s->sequence.cache, keep / RWK_KEY_BLOCK, n / RWK_KEY_BLOCK);
    s->n_cached = s->n_cached >= keep + n ? s->n_cached - n
                  : s->n_cached < keep    ? s->n_cached
                                          : keep;
    s->position -= n;
    s->n_exact = s->n_exact < keep ? s->n_exact : keep;
    s->stats.dropped_tokens += n;
    if (s->n_logits > 1)
        memmove(s->logits, s->logits + (s->n_logits - 1) * s->model->vocab_size,
                s->model->vocab_size * sizeof *s->logits);
    s->n_logits = s->n_logits && s->position ? 1 : 0;
    s->call_first = s->logits_first = s->position - s->n_logits;
}

enum rwk_status rwk_session_shift(struct rwk_session *session, uint64_t keep, uint64_t n,
                                  struct rwk_error *error)
{
    enum rwk_status status = rwk_session_enter(session, error);
    if (status)
        return status;
    status = check_shift(session, keep, n, error);
    if (!status && n)
        shift(session, keep, n);
    rwk_session_leave(session);
    return status;
}

/* ---- fork ---- */

enum rwk_status rwk_session_fork(struct rwk_session **ret_session, struct rwk_session *session,
                                 struct rwk_error *error)
{
    struct rwk_session *fork = NULL;
    struct shape shape;
    enum rwk_status status = rwk_session_enter(session, error);
    if (status)
        return status;
    status = resolve(&shape, session->model, &session->options, error);
    if (!status)
        status = create(&fork, session->model, &shape, session, error);
    if (!status) {
        memcpy(fork->tokens, session->tokens, (size_t)session->position * sizeof *fork->tokens);
        fork->position = session->position;
        fork->n_cached = session->n_cached;
        fork->n_exact = session->n_exact;
        rwk_session_set_epoch(fork, session->epoch);
        if (session->n_logits) {
            /* The last token's logits go along, so that both can sample from them. */
            memcpy(fork->logits,
                   session->logits + (session->n_logits - 1) * session->model->vocab_size,
                   session->model->vocab_size * sizeof *fork->logits);
            fork->n_logits = 1;
            fork->call_first = fork->logits_first = session->logits_first + session->n_logits - 1;
        }
        *ret_session = fork;
    }
    rwk_session_leave(session);
    return status;
}

/* ---- what can be asked ---- */

const float *rwk_session_logits(const struct rwk_session *session, size_t index)
{
    if (index == RWK_LAST)
        return session->n_logits
                   ? session->logits + (session->n_logits - 1) * session->model->vocab_size
                   : NULL;
    uint64_t token = session->call_first + index;
    if (token < session->logits_first || token - session->logits_first >= session->n_logits)
        return NULL;
    return session->logits + (size_t)(token - session->logits_first) * session->model->vocab_size;
}

enum rwk_status rwk_session_get_stats(const struct rwk_session *session,
                                      struct rwk_session_stats *ret_stats)
{
    struct rwk_session_stats stats = session->stats;
    stats.size = ret_stats->size;
    stats.memory_bytes = memory_bytes(session);
    stats.copied_pages = session->sequence.cache.n_copied;
    rwk_kv_cache_count(&session->sequence.cache, &stats.cache_pages, &stats.shared_pages);
    memcpy(ret_stats, &stats, ret_stats->size < sizeof stats ? ret_stats->size : sizeof stats);
    return RWK_STATUS_OK;
}

uint64_t rwk_session_position(const struct rwk_session *session)
{
    return session->position;
}

uint64_t rwk_session_context(const struct rwk_session *session)
{
    return session->context;
}

const uint32_t *rwk_session_tokens(const struct rwk_session *session)
{
    return session->tokens;
}
