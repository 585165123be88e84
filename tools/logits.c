/* ids -> one evaluation that keeps every token's logits -> tensor `logits` F32 [tokens,
 * vocabulary]. One evaluation, so that positions which depend on the length of the whole see the
 * whole. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "commands.h"
#include "ids.h"
#include "load.h"
#include "output.h"
#include "progress.h"
#include "tool.h"

static void read_ids(struct ids *ids, const struct options *o)
{
    size_t size;
    if ((o->ids != NULL) + (o->ids_file != NULL) != 1)
        usage_error("logits", "give either --ids or --ids-file");
    if (!o->output)
        usage_error("logits", "--output: is missing");
    if (o->ids) {
        ids_parse(ids, o->ids, strlen(o->ids), "--ids");
    } else {
        char *text = read_whole(o->ids_file, &size);
        ids_parse(ids, text, size, o->ids_file);
        free(text);
    }
    if (!ids->n)
        die("%s: holds no token ids", o->ids ? "--ids" : o->ids_file);
}

static struct rwk_session *evaluate(struct rwk_model *model, const struct rwk_model_info *info,
                                    const struct ids *ids, const struct options *o,
                                    struct rwk_pool *pool)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_session_options s;
    struct progress progress;
    uint64_t context = o->context ? o->context : ids->n;
    context_notice(info, o, context);
    progress_start(&progress, "logits", o->quiet);
    session_options(&s, o, context, pool);
    s.progress = progress_update;
    s.progress_data = &progress;
    struct rwk_session *session = session_open(model, &s);
    check(rwk_session_eval(session, ids->items, ids->n, RWK_EVAL_ALL_LOGITS, NULL, &error), &error);
    progress_clear();
    return session;
}

int run_logits(const struct options *o)
{
    struct ids ids = { 0 };
    struct rwk_model_info info;
    read_ids(&ids, o);
    struct rwk_pool *pool = pool_open(o);
    struct rwk_model *model = model_open(o->arguments[0], o, rope_scaling_of(o), pool);
    model_info(model, &info);
    FILE *file = file_open(o->output);
    struct rwk_session *session = evaluate(model, &info, &ids, o, pool);
    safetensors_head(file, "logits", ids.n, info.vocab_size);
    for (size_t i = 0; i < ids.n; i++)
        fwrite(rwk_session_logits(session, i), sizeof(float), info.vocab_size, file);
    file_close(file, o->output);
    rwk_session_close(&session);
    rwk_model_close(&model);
    rwk_pool_close(&pool);
    ids_finish(&ids);
    return EXIT_DONE;
}
