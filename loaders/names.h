/* A table from names to numbers: which tensor, which file, whether a key was there before. */
#ifndef RWK_LOADERS_NAMES_H
#define RWK_LOADERS_NAMES_H

#include "runtime/base/memory.h"

struct rwk_name {
    const char *text; /* NULL: a free slot */
    uint32_t size, value;
};

/* Zero-initialise, then set `memory`. */
struct rwk_names {
    struct rwk_memory *memory;
    struct rwk_name *slots; /* [n_slots] */
    size_t n_slots;         /* 0 or a power of two, at least 2 * n_names */
    size_t n_names;
};

/* Makes room for n_names in all; false when there is no memory. */
bool rwk_names_reserve(struct rwk_names *names, size_t n_names);

/* Where the number of a name stands; a name that is new gets `value`. So numbers that are all
 * different tell whether the name was there: *rwk_names_put(names, text, size, i) != i. The text is
 * not copied and must outlive the table. NULL: out of memory. */
uint32_t *rwk_names_put(struct rwk_names *names, const char *text, size_t size, uint32_t value);

/* NULL when there is no such name. */
const uint32_t *rwk_names_find(const struct rwk_names *names, const char *text, size_t size);

void rwk_names_finish(struct rwk_names *names); /* zeroed objects are fine */

#endif
