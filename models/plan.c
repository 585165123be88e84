/* What a model and a session of it will need, told from the headers of the files alone: the model
 * is opened in such a way that nothing is read, copied or quantised, asked, and closed. */
#include <string.h>
#include "models/open.h"

/* The weight files' bytes, and how many files there are, by how the options would have them held. A
 * file that could not be had but by reading it is counted by the model already. */
static void count_files(const struct rwk_opened *o, uint64_t *ret_bytes, uint64_t *ret_files)
{
    *ret_bytes = *ret_files = 0;
    for (size_t i = 0; i < o->weights.n_files; i++)
        if (o->weights.files[i].load_mode != RWK_LOAD_READ) {
            *ret_bytes += o->weights.files[i].size;
            ++*ret_files;
        }
}

enum rwk_status rwk_plan(const struct rwk_source *source, const struct rwk_model_options *options,
                         const struct rwk_session_options *session_options,
                         struct rwk_memory_plan *ret_plan, struct rwk_error *error)
{
    struct rwk_model_options o;
    struct rwk_opened *opened = NULL;
    struct rwk_memory_plan plan = { .size = sizeof plan };
    rwk_model_options_init(&o);
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    bool reads = o.load_mode == RWK_LOAD_READ;
    o.load_mode = RWK_LOAD_MAP;
    o.prefetch = RWK_PREFETCH_NONE;
    o.progress = NULL;
    o.memory_budget = 0;
    enum rwk_status status = rwk_opened_open(&opened, source, &o, true, error);
    if (status)
        return status;
    struct rwk_model *model = &opened->model;
    status = rwk_session_plan(model, session_options, &plan, error);
    if (!status) {
        uint64_t file_bytes, n_files, more = opened->quantized_bytes;
        count_files(opened, &file_bytes, &n_files);
        if (reads) {
            more += file_bytes + n_files * RWK_ALLOC_HEADER;
            plan.copied_bytes += file_bytes;
        }
        plan.mapped_bytes = reads ? 0 : file_bytes;
        plan.model_bytes += more;
        plan.total_bytes += more;
        plan.size = ret_plan->size;
        memcpy(ret_plan, &plan, ret_plan->size < sizeof plan ? ret_plan->size : sizeof plan);
    }
    rwk_model_close(&model);
    return status;
}
