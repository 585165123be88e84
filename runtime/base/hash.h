/* 64-bit hashes of bytes, for tables and checksums: xxHash (XXH3 for tables, since it is fast on
 * short keys). */
#ifndef RWK_BASE_HASH_H
#define RWK_BASE_HASH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t rwk_hash(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

#endif
