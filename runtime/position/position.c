/* The table of schemes, and making a plan with one of them. */
#include "runtime/position/schemes.h"

#include <string.h>

static const struct rwk_position_scheme *const schemes[] = {
    &rwk_position_none, &rwk_position_learned, &rwk_position_sinusoidal, &rwk_position_rope, &rwk_position_alibi,
};

enum rwk_status rwk_position_prepare(struct rwk_position_plan *ret_plan, const struct rwk_position_request *request,
                                     struct rwk_arena *arena, struct rwk_error *error)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strcmp(schemes[i]->name, request->scheme) != 0)
            continue;
        struct rwk_position_plan plan = {
            .scheme = schemes[i], .hidden_size = request->hidden_size, .n_heads = request->n_heads,
            .head_dim = request->head_dim, .max_position_embeddings = request->max_position_embeddings,
            .context = request->max_position_embeddings ? request->max_position_embeddings : UINT64_MAX,
            .context_limit = UINT64_MAX,
        };
        enum rwk_status status = schemes[i]->prepare(&plan, request, arena, error);
        if (!status)
            *ret_plan = plan;
        return status;
    }
    return rwk_fail(error, RWK_STATUS_UNSUPPORTED, NULL, "position scheme \"%.40s\" is not supported", request->scheme);
}

/* ---- none: NoPE ---- */

static enum rwk_status prepare_none(struct rwk_position_plan *plan, const struct rwk_position_request *request,
                                    struct rwk_arena *arena, struct rwk_error *error)
{
    (void)plan;
    (void)request;
    (void)arena;
    (void)error;
    return RWK_STATUS_OK;
}

const struct rwk_position_scheme rwk_position_none = { .name = "none", .prepare = prepare_none };

/* ---- learned: a table of rows among the weights, which the decoder adds; the plan says how far it reaches ---- */

static enum rwk_status prepare_learned(struct rwk_position_plan *plan, const struct rwk_position_request *request,
                                       struct rwk_arena *arena, struct rwk_error *error)
{
    (void)arena;
    (void)error;
    plan->learned_offset = request->learned_offset;
    plan->context = plan->context_limit = request->learned_rows;
    return RWK_STATUS_OK;
}

const struct rwk_position_scheme rwk_position_learned = { .name = "learned", .prepare = prepare_learned };
