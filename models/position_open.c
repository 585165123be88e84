/* The effective position plan of a config, without weights. */
#include <string.h>
#include "models/open.h"

struct rwk_position_plan_object {
    struct rwk_position_plan plan;
    struct rwk_memory memory;
    struct rwk_arena arena;
};

static enum rwk_status resolve(struct rwk_position_plan_object *o, const struct rwk_source *source,
                               const struct rwk_model_options *options, struct rwk_error *error)
{
    const struct rwk_node *config;
    const char *file, *family;
    struct rwk_position_request request;
    struct rwk_files files;
    enum rwk_status status = rwk_files_init(&files, source, &o->memory, NULL, error);
    if (!status)
        status = rwk_config_load(&config, &file, &files, files.is_directory ? "config.json" : NULL,
                                 &o->arena, error);
    if (!status)
        status = rwk_arch_position_request(&request, &family, config, file, &o->arena, error);
    if (!status)
        status = rwk_rope_keys_override(&request, options, &o->arena, error);
    if (!status)
        status = rwk_position_prepare(&o->plan, &request, &o->arena, error);
    if (!status)
        o->plan.family = family;
    return status;
}

enum rwk_status rwk_position_resolve(struct rwk_position_plan **ret_plan, const char *path,
                                     const struct rwk_model_options *options,
                                     struct rwk_error *error)
{
    struct rwk_source source = { .size = sizeof source, .path = path };
    return rwk_position_resolve_source(ret_plan, &source, options, error);
}

enum rwk_status rwk_position_resolve_source(struct rwk_position_plan **ret_plan,
                                            const struct rwk_source *source,
                                            const struct rwk_model_options *options,
                                            struct rwk_error *error)
{
    struct rwk_model_options o;
    struct rwk_memory memory;
    rwk_model_options_init(&o);
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    rwk_memory_init(&memory, o.allocator, 0);
    struct rwk_position_plan_object *object = rwk_calloc(&memory, 1, sizeof *object);
    if (!object)
        return rwk_fail_nomem(error, sizeof *object);
    rwk_memory_init(&object->memory, o.allocator, o.memory_budget);
    object->arena.memory = &object->memory;
    enum rwk_status status = resolve(object, source, &o, error);
    struct rwk_position_plan *plan = &object->plan;
    if (status)
        rwk_position_plan_close(&plan);
    else
        *ret_plan = plan;
    return status;
}

void rwk_position_plan_close(struct rwk_position_plan **plan)
{
    struct rwk_position_plan_object *object =
        plan ? (struct rwk_position_plan_object *)*plan : NULL;
    struct rwk_memory memory;
    if (!object)
        return;
    rwk_memory_init(&memory, &object->memory.host, 0);
    rwk_arena_finish(&object->arena);
    rwk_free(&memory, object);
    *plan = NULL;
}

enum rwk_status rwk_position_get_info(const struct rwk_position_plan *plan,
                                      struct rwk_position_info *ret_info)
{
    struct rwk_position_info info = {
        .size = ret_info->size,
        .n_tables = plan->n_rope,
        .family = plan->family,
        .scheme = plan->scheme->name,
        .context = plan->context,
        .context_limit = plan->context_limit,
        .n_slopes = plan->slopes ? plan->n_heads : 0,
        .interleaved = plan->n_rope && plan->rope[0].interleaved,
        .slopes = plan->slopes,
    };
    memcpy(ret_info, &info, ret_info->size < sizeof info ? ret_info->size : sizeof info);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_position_get_table(const struct rwk_position_plan *plan, uint32_t index,
                                       struct rwk_position_table *ret_table)
{
    if (index >= plan->n_rope)
        return RWK_STATUS_RANGE;
    const struct rwk_rope_table *t = &plan->rope[index];
    struct rwk_position_table table = {
        .size = ret_table->size,
        .n_pairs = t->n_pairs,
        .name = t->name,
        .scaling = rwk_rope_type_name(t->type),
        .inv_freq = t->inv_freq,
        .long_inv_freq = t->long_inv_freq,
        .theta = t->theta,
        .factor = t->factor,
        .attention_factor = t->attention_factor,
        .original_context = t->original_context,
    };
    memcpy(ret_table, &table, ret_table->size < sizeof table ? ret_table->size : sizeof table);
    return RWK_STATUS_OK;
}
