/* Arrays that grow by doubling, in an object's memory. */
#ifndef RWK_LOADERS_GROW_H
#define RWK_LOADERS_GROW_H

#include "runtime/base/memory.h"

/* An array of n elements with room for one more: `array` itself, or where it has moved to. NULL:
 * out of memory, and the array stays as it was. */
static inline void *rwk_grow(struct rwk_memory *memory, void *array, size_t n, size_t *capacity,
                             size_t element)
{
    size_t wanted = n ? 2 * n : 32, bytes;
    if (n < *capacity)
        return array;
    void *grown = rwk_size_mul(wanted, element, &bytes) ? rwk_realloc(memory, array, bytes) : NULL;
    if (grown)
        *capacity = wanted;
    return grown;
}

#endif
