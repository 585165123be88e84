/* The table of schemes: making a plan with one of them, and what depends on the length of the
 * sequence. */
#include "runtime/position/schemes.h"

#include <string.h>

static const struct rwk_position_scheme *const schemes[] = {
    &rwk_position_none, &rwk_position_learned, &rwk_position_sinusoidal,
    &rwk_position_rope, &rwk_position_alibi,
};

enum rwk_status rwk_position_prepare(struct rwk_position_plan *ret_plan,
                                     const struct rwk_position_request *request,
                                     struct rwk_arena *arena, struct rwk_error *error)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strcmp(schemes[i]->name, request->scheme) != 0)
            continue;
        struct rwk_position_plan plan = {
            .scheme = schemes[i],
            .hidden_size = request->hidden_size,
            .n_heads = request->n_heads,
            .head_dim = request->head_dim,
            .max_position_embeddings = request->max_position_embeddings,
            .context =
                request->max_position_embeddings ? request->max_position_embeddings : UINT64_MAX,
            .context_limit = UINT64_MAX,
        };
        enum rwk_status status = schemes[i]->prepare(&plan, request, arena, error);
        if (!status)
            *ret_plan = plan;
        return status;
    }
    return rwk_fail(error, RWK_STATUS_UNSUPPORTED, request->file,
                    "position scheme \"%.40s\" is not supported", request->scheme);
}

uint64_t rwk_position_epoch(const struct rwk_position_plan *plan, uint64_t length)
{
    uint64_t epoch = 0;
    for (uint32_t i = 0; i < plan->n_rope; i++) {
        const struct rwk_rope_scaling *scaling = &rwk_rope_scalings[plan->rope[i].type];
        uint64_t own = scaling->epoch ? scaling->epoch(&plan->rope[i], length) : 0;
        epoch = own > epoch ? own : epoch;
    }
    return epoch;
}

void rwk_position_frequencies(const struct rwk_position_plan *plan, uint32_t table, uint64_t epoch,
                              float *inv_freq)
{
    const struct rwk_rope_table *t = &plan->rope[table];
    const struct rwk_rope_scaling *scaling = &rwk_rope_scalings[t->type];
    uint64_t own = scaling->epoch ? scaling->epoch(t, epoch) : 0;
    if (own)
        scaling->frequencies(t, own, inv_freq);
    else
        memcpy(inv_freq, t->inv_freq, t->n_pairs * sizeof *inv_freq);
}
