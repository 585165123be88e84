/* No positions at all (NoPE): the causal mask alone tells tokens apart. */
#include "runtime/position/schemes.h"

static enum rwk_status prepare(struct rwk_position_plan *plan,
                               const struct rwk_position_request *request, struct rwk_arena *arena,
                               struct rwk_error *error)
{
    (void)plan;
    (void)request;
    (void)arena;
    (void)error;
    return RWK_STATUS_OK;
}

const struct rwk_position_scheme rwk_position_none = { .name = "none",
                                                       .shifts = true,
                                                       .prepare = prepare };
