/* The rows of the table of schemes, one file each, and the rows of the table of rope scalings. */
#ifndef RWK_POSITION_SCHEMES_H
#define RWK_POSITION_SCHEMES_H

#include "runtime/position/position.h"

extern const struct rwk_position_scheme rwk_position_none, rwk_position_learned,
    rwk_position_sinusoidal, rwk_position_rope, rwk_position_alibi;

/* One rope type. The table comes with everything but its frequencies filled in; factor and
 * attention_factor are 1 or what was given. */
struct rwk_rope_scaling {
    const char *name;
    /* Checks the request's numbers, makes inv_freq, and factor and attention_factor where they
     * follow from others. */
    enum rwk_status (*prepare)(struct rwk_rope_table *table, const struct rwk_rope_request *request,
                               const char *file, struct rwk_error *error);
    /* The table's epoch at a length, and its frequencies in an epoch other than 0. NULL: static. */
    uint64_t (*epoch)(const struct rwk_rope_table *table, uint64_t length);
    void (*frequencies)(const struct rwk_rope_table *table, uint64_t epoch, float *inv_freq);
};
extern const struct rwk_rope_scaling rwk_rope_scalings[RWK_N_ROPE_TYPES];

#endif
