/* config.json (+ options) -> the effective position plan, without weights. */
#include "commands.h"
#include "plan.h"
#include "tool.h"

int run_rope(const struct options *o)
{
    struct rwk_position_plan *plan = NULL;
    struct rwk_position_info info;
    plan_open(&plan, &info, o);
    if (o->json)
        plan_print_json(plan, &info);
    else
        plan_print(plan, &info, true);
    rwk_position_plan_close(&plan);
    return EXIT_DONE;
}
