/* Rotary positions (Su et al. 2021): queries and keys are turned, pair by pair, by angles that
 * grow with the position, so that their product depends on the distance only.
 *
 *   request -> checks -> inv_freq [r/2] by the scaling (rope_scalings.c) -> context
 *   angle = position * inv_freq[m] (kernels->angles, attention factor on cosine and sine) -> rotate
 *
 * r, the rotary dimension, counts from the head's first element; what is beyond passes through.
 * Pairs are (m, m + r/2) in most checkpoints and (2m, 2m + 1) in some; nothing in the weights
 * tells which.
 *
 * Context. Chosen by the caller: factor times what the model was trained for. By the config:
 * max_position_embeddings, which then counts the extension already; only `dynamic` extends from
 * there as it goes. */
#include "runtime/position/schemes.h"

#include <float.h>
#include <math.h>
#include <string.h>

const char *rwk_rope_type_name(enum rwk_rope_type type)
{
    return rwk_rope_scalings[type].name;
}

bool rwk_rope_type_parse(const char *name, enum rwk_rope_type *ret_type)
{
    for (int i = 0; i < RWK_N_ROPE_TYPES; i++)
        if (strcmp(rwk_rope_scalings[i].name, name) == 0) {
            *ret_type = (enum rwk_rope_type)i;
            return true;
        }
    return false;
}

static enum rwk_status check(const struct rwk_rope_request *q,
                             const struct rwk_position_request *request, struct rwk_error *error)
{
    const char *dim_key = q->rotary_dim == request->head_dim ? "head_dim" : "partial_rotary_factor";
    if (q->rotary_dim == 0 || q->rotary_dim % 2 || q->rotary_dim > request->head_dim)
        return rwk_fail_on(error, RWK_STATUS_RANGE, request->file, dim_key,
                           "%u of a head's %u elements cannot be rotated: "
                           "must be even, positive and at most the head",
                           q->rotary_dim, request->head_dim);
    if (!(q->theta > 0 && q->theta <= FLT_MAX))
        return rwk_fail_on(error, RWK_STATUS_RANGE, request->file, "rope_theta",
                           "must be a positive number");
    if (!(q->attention_factor >= 0 && q->attention_factor <= FLT_MAX))
        return rwk_fail_on(error, RWK_STATUS_RANGE, request->file, "attention_factor",
                           "must be a positive number");
    return RWK_STATUS_OK;
}

static bool is_finite(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static enum rwk_status prepare_table(struct rwk_rope_table *ret_table,
                                     const struct rwk_rope_request *q,
                                     const struct rwk_position_request *request,
                                     struct rwk_arena *arena, struct rwk_error *error)
{
    enum rwk_status status = check(q, request, error);
    if (status)
        return status;
    bool moved = q->type == RWK_ROPE_DYNAMIC && q->original_context;
    size_t bytes = q->rotary_dim / 2 * sizeof(float);
    struct rwk_rope_table t = {
        .name = q->name,
        .type = q->type,
        .n_pairs = q->rotary_dim / 2,
        .interleaved = q->interleaved,
        .theta = q->theta,
        .factor = q->factor ? q->factor : 1,
        .attention_factor = q->attention_factor ? q->attention_factor : 1,
        .original_context = q->original_context,
        .max_position_embeddings = moved ? q->original_context : request->max_position_embeddings,
        .inv_freq = rwk_arena_alloc(arena, bytes),
        .long_inv_freq = q->type == RWK_ROPE_LONGROPE ? rwk_arena_alloc(arena, bytes) : NULL,
    };
    if (!t.inv_freq || (q->type == RWK_ROPE_LONGROPE && !t.long_inv_freq))
        return rwk_fail_nomem(error, bytes);
    status = rwk_rope_scalings[q->type].prepare(&t, q, request->file, error);
    if (!status && !(is_finite(t.inv_freq, t.n_pairs) &&
                     (!t.long_inv_freq || is_finite(t.long_inv_freq, t.n_pairs))))
        status = rwk_fail_on(error, RWK_STATUS_RANGE, request->file, "rope_theta",
                             "the frequencies overflow");
    if (!status)
        *ret_table = t;
    return status;
}

/* factor * n, or no bound where that is beyond any. */
static uint64_t extended(double factor, uint64_t n)
{
    double length = factor * (double)n;
    return length < 9e18 ? (uint64_t)length : UINT64_MAX;
}

static enum rwk_status prepare(struct rwk_position_plan *plan,
                               const struct rwk_position_request *request, struct rwk_arena *arena,
                               struct rwk_error *error)
{
    plan->n_rope = request->n_rope;
    for (uint32_t i = 0; i < request->n_rope; i++) {
        enum rwk_status status =
            prepare_table(&plan->rope[i], &request->rope[i], request, arena, error);
        if (status)
            return status;
    }
    const struct rwk_rope_table *t = &plan->rope[0];
    if (request->trained_context)
        plan->context = extended(t->factor, request->trained_context);
    else if (t->type == RWK_ROPE_DYNAMIC)
        plan->context = extended(t->factor, t->max_position_embeddings);
    return RWK_STATUS_OK;
}

static void rotate(const struct rwk_position_plan *plan, const struct rwk_kernels *kernels,
                   uint32_t table, const float *cos, const float *sin, float *x, uint32_t n_heads,
                   size_t stride)
{
    const struct rwk_rope_table *t = &plan->rope[table];
    for (uint32_t h = 0; h < n_heads; h++)
        (t->interleaved ? kernels->rotate_pair : kernels->rotate_half)(x + h * stride, cos, sin,
                                                                       t->n_pairs);
}

const struct rwk_position_scheme rwk_position_rope = { .name = "rope",
                                                       .prepare = prepare,
                                                       .rotate = rotate };
