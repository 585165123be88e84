/* Pages of the key/value cache, as attention reads them: keys as [head_dim][64], so that the scores of 64 keys are whole
 * vectors without a tail, values as [64][v_stride], where v_stride is head_dim rounded up to the widest vector. */
#ifndef RWK_KERNELS_KVPAGE_H
#define RWK_KERNELS_KVPAGE_H

#include "runtime/kernels/kernels.h"

static inline size_t rwk_kv_element_bytes(enum rwk_element element) { return element == RWK_ELEMENT_F32 ? 4 : 2; }

static inline uint32_t rwk_kv_value_stride(uint32_t head_dim)
{
    return (head_dim + RWK_VECTOR_FLOATS - 1) / RWK_VECTOR_FLOATS * RWK_VECTOR_FLOATS;
}

/* Bytes of one head's page of keys, and of values. */
static inline size_t rwk_kv_key_bytes(enum rwk_element element, uint32_t head_dim)
{
    return (size_t)head_dim * RWK_KEY_BLOCK * rwk_kv_element_bytes(element);
}

static inline size_t rwk_kv_value_bytes(enum rwk_element element, uint32_t head_dim)
{
    return (size_t)rwk_kv_value_stride(head_dim) * RWK_KEY_BLOCK * rwk_kv_element_bytes(element);
}

#endif
