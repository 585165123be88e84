/* The effective position plan of a model directory or a bare config.json. */
#ifndef PLAN_H
#define PLAN_H

#include <ropewalk/ropewalk.h>
#include "options.h"
#include "output.h"

/* Resolves the plan of the first argument under the command line's position options. */
void plan_open(struct rwk_position_plan **ret_plan, struct rwk_position_info *ret_info,
               const struct options *options);
void plan_print_json(const struct rwk_position_plan *plan, const struct rwk_position_info *info);
/* Family, scheme and bounds; with `tables` also every frequency or slope. */
void plan_print(const struct rwk_position_plan *plan, const struct rwk_position_info *info,
                bool tables);
/* One line: label and number, or "without bound" for UINT64_MAX. */
void print_bound(const char *label, uint64_t value);

#endif
