/* options -> pool, model, session. */
#include "load.h"

#include <inttypes.h>
#include <stdlib.h>
#include "ids.h"
#include "progress.h"
#include "tool.h"

struct rwk_pool *pool_open(const struct options *options)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_pool *pool = NULL;
    uint32_t n = options->threads ? (uint32_t)options->threads : rwk_default_threads();
    if (n > 1)
        check(rwk_pool_create(&pool, n, NULL, &error), &error);
    return pool;
}

void model_options(struct rwk_model_options *ret, const struct options *options,
                   const char *rope_scaling)
{
    rwk_model_options_init(ret);
    ret->load_mode = options->load;
    ret->weights = options->weights;
    ret->cpu = options->cpu;
    ret->rope_scaling = rope_scaling;
    ret->rope_theta = options->rope_theta;
    ret->original_context = options->original_context;
}

const char *rope_scaling_of(const struct options *options)
{
    return options->rope_scaling.n ? options->rope_scaling.items[0] : NULL;
}

struct rwk_model *model_open(const char *path, const struct options *options,
                             const char *rope_scaling, struct rwk_pool *pool)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_model_options o;
    struct rwk_model *model = NULL;
    struct progress progress;
    progress_start(&progress, "load", options->quiet);
    model_options(&o, options, rope_scaling);
    o.pool = pool;
    o.progress = progress_update;
    o.progress_data = &progress;
    check(rwk_model_open(&model, path, &o, &error), &error);
    progress_clear();
    return model;
}

void model_info(const struct rwk_model *model, struct rwk_model_info *ret_info)
{
    *ret_info = (struct rwk_model_info){ .size = sizeof *ret_info };
    check(rwk_model_get_info(model, ret_info), NULL);
}

struct rwk_tokenizer *tokenizer_open(const char *path)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_tokenizer *tokenizer = NULL;
    check(rwk_tokenizer_open(&tokenizer, path, NULL, &error), &error);
    return tokenizer;
}

uint64_t context_limit(const struct rwk_model_info *info, const struct options *options)
{
    if (options->context)
        return options->context;
    return info->context < CONTEXT_BOUND ? info->context : CONTEXT_BOUND;
}

void context_notice(const struct rwk_model_info *info, const struct options *options,
                    uint64_t context)
{
    if (context > info->context && context <= info->context_limit && !options->quiet)
        warn("notice: %" PRIu64 " positions, while this model's are valid up to %" PRIu64, context,
             info->context);
}

void session_options(struct rwk_session_options *ret, const struct options *options,
                     uint64_t context, struct rwk_pool *pool)
{
    rwk_session_options_init(ret);
    ret->kv_type = options->kv_type;
    ret->activations = options->activations;
    ret->chunk = (uint32_t)options->chunk;
    ret->context = context;
    ret->pool = pool;
}

struct rwk_session *session_open(struct rwk_model *model, const struct rwk_session_options *options)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_session *session = NULL;
    check(rwk_session_create(&session, model, options, &error), &error);
    return session;
}

void encode(struct ids *ids, struct rwk_span **ret_spans, const struct rwk_tokenizer *tokenizer,
            const char *text, size_t size, uint32_t flags)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_span *spans = NULL;
    size_t n = 0;
    /* A guess that is nearly always enough saves encoding twice: few tokens are shorter than two
     * bytes. */
    reserve(&ids->items, &ids->capacity, size / 2 + 16, sizeof *ids->items);
    if (!ret_spans)
        check(rwk_tokenizer_encode(tokenizer, text, size, flags, ids->items, ids->capacity, NULL,
                                   &n, &error),
              &error);
    if (ret_spans || n > ids->capacity) {
        check(rwk_tokenizer_encode(tokenizer, text, size, flags, NULL, 0, NULL, &n, &error),
              &error);
        reserve(&ids->items, &ids->capacity, n, sizeof *ids->items);
        spans = ret_spans ? allocate(n, sizeof *spans) : NULL;
        check(rwk_tokenizer_encode(tokenizer, text, size, flags, ids->items, n, spans, &n, &error),
              &error);
    }
    ids->n = n;
    if (ret_spans)
        *ret_spans = spans;
}
