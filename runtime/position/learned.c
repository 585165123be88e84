/* A trained table of position embeddings:
 *
 *   x += table[position + offset]     GPT-2, GPT-Neo: offset 0; OPT: 2, rows that its padding used
 *
 * The table is a weight, so the decoder adds its rows; the plan says how far they reach. There is
 * nothing beyond the last row, so here the context is a hard bound. */
#include "runtime/position/schemes.h"

static enum rwk_status prepare(struct rwk_position_plan *plan,
                               const struct rwk_position_request *request, struct rwk_arena *arena,
                               struct rwk_error *error)
{
    (void)arena;
    if (request->learned_rows == 0)
        return rwk_fail_on(error, RWK_STATUS_RANGE, request->file, "max_position_embeddings",
                           "a learned table needs at least one position");
    plan->learned_offset = request->learned_offset;
    plan->context = plan->context_limit = request->learned_rows;
    return RWK_STATUS_OK;
}

const struct rwk_position_scheme rwk_position_learned = { .name = "learned", .prepare = prepare };
