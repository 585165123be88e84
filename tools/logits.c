/* logits: the whole list in one call, so that schemes that depend on the length see one sequence. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

static int get_ids(const struct options *o, uint32_t **ids, size_t *n)
{
    char *text = NULL;
    size_t size;
    if (!o->ids && !o->ids_file)
        return fail("logits: --ids or --ids-file is needed");
    if (o->ids)
        return parse_ids(o->ids, strlen(o->ids), ids, n);
    int status = read_whole(o->ids_file, &text, &size);
    if (!status)
        status = parse_ids(text, size, ids, n);
    free(text);
    return status;
}

static int evaluate(const struct options *o, struct rwk_model *model, struct rwk_pool *pool, const uint32_t *ids, size_t n)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_session_options so;
    struct rwk_session *session = NULL;
    struct rwk_model_info info = { .size = sizeof info };
    rwk_model_get_info(model, &info);
    session_options(o, pool, &so);
    so.context = so.context > n ? so.context : n;
    int status = check_context(o, model, so.context);
    if (status)
        return status;
    if (rwk_session_create(&session, model, &so, &error) ||
        rwk_session_eval(session, ids, n, RWK_EVAL_ALL_LOGITS, NULL, &error))
        status = fail_error(&error);
    else
        status = write_tensor(o->output, "logits", n, info.vocab_size, rwk_session_logits(session, 0));
    rwk_session_close(&session);
    return status;
}

int run_logits(const struct options *o)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_model_options mo;
    struct rwk_model *model = NULL;
    struct rwk_pool *pool = NULL;
    uint32_t *ids = NULL;
    size_t n = 0;
    if (!o->output)
        return fail("logits: --output is needed");
    int status = get_ids(o, &ids, &n);
    if (!status && n == 0)
        status = fail("ids: no tokens were given");
    if (!status)
        status = open_pool(o, &pool);
    model_options(o, o->n_rope_scaling ? o->rope_scaling[0] : NULL, &mo);
    mo.pool = pool;
    if (!status && rwk_model_open(&model, o->arguments[0], &mo, &error))
        status = fail_error(&error);
    if (!status)
        status = evaluate(o, model, pool, ids, n);
    rwk_model_close(&model);
    rwk_pool_close(&pool);
    free(ids);
    return status;
}
