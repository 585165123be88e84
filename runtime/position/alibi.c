/* ALiBi (Press, Smith, Lewis 2022): score += slope(head) * (key - query).
 *
 * Slopes for n heads, P the largest power of two <= n, b the bias maximum (8): head h < P gets
 * 2^(-b(h+1)/P); the rest take every other member of the series for 2P, from the first. MPT: Q
 * the smallest power of two >= n, s_k = 2^(-b(k+1)/Q); where Q is not n, the odd places of the
 * series first, then the even ones, cut to n.
 *
 * A term that is the same for all keys of a query drops out of the softmax, so slope * key
 * (BLOOM's form) and slope * (key - query) are one scheme; the latter stays small near the query,
 * where it counts. Not so in Falcon, which rounds slope, key and product to bfloat16: there the
 * form is part of the model. It also divides the bias by sqrt(head_dim) with the score, hence
 * alibi_scale. */
#include "runtime/position/schemes.h"

#include <math.h>
#include "runtime/base/half.h"

static double slope(const struct rwk_position_request *r, uint32_t head)
{
    uint32_t below = 1;
    while (below <= r->n_heads / 2)
        below *= 2;
    if (r->alibi_mpt_order && below != r->n_heads) {
        uint32_t above = 2 * below, k = head < below ? 2 * head + 1 : 2 * (head - below);
        return exp2(-r->alibi_bias_max * (k + 1) / above);
    }
    if (head < below)
        return exp2(-r->alibi_bias_max * (head + 1) / below);
    return exp2(-r->alibi_bias_max * (2 * (head - below) + 1) / (2.0 * below));
}

static float round_bf16(float x)
{
    return rwk_bf16_to_float(rwk_float_to_bf16(x));
}

static enum rwk_status prepare(struct rwk_position_plan *plan,
                               const struct rwk_position_request *request, struct rwk_arena *arena,
                               struct rwk_error *error)
{
    if (!(request->alibi_bias_max > 0 &&
          request->alibi_bias_max <= 100)) /* slopes stay normal float32 numbers */
        return rwk_fail_on(error, RWK_STATUS_RANGE, request->file, "alibi_bias_max",
                           "must be positive and at most 100");
    plan->alibi_bf16 = request->alibi_bf16;
    plan->alibi_scale = request->alibi_scale;
    plan->slopes = rwk_arena_alloc(arena, plan->n_heads * sizeof *plan->slopes);
    if (!plan->slopes)
        return rwk_fail_nomem(error, plan->n_heads * sizeof *plan->slopes);
    for (uint32_t h = 0; h < plan->n_heads; h++) {
        plan->slopes[h] = (float)slope(request, h);
        if (plan->alibi_bf16)
            plan->slopes[h] = round_bf16(plan->slopes[h]);
    }
    return RWK_STATUS_OK;
}

static void bias(const struct rwk_position_plan *plan, uint32_t head, uint64_t q_position,
                 uint64_t key_begin, float *ret_bias)
{
    float s = plan->slopes[head];
    for (int j = 0; j < RWK_KEY_BLOCK; j++) {
        uint64_t key = key_begin + (uint64_t)j;
        ret_bias[j] = plan->alibi_bf16
                          ? round_bf16(s * round_bf16((float)key)) * plan->alibi_scale
                          : s * (float)((int64_t)key - (int64_t)q_position) * plan->alibi_scale;
    }
}

const struct rwk_position_scheme rwk_position_alibi = { .name = "alibi",
                                                        .shifts = true,
                                                        .prepare = prepare,
                                                        .bias = bias };
