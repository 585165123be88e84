/* How a page of the key/value cache is laid out: RWK_KEY_BLOCK positions of one head.
 *
 *   element        K page                                   V page
 *   F32 F16 BF16   [head_dim][64] elements                  [64][v_stride] elements
 *   Q8             [head_dim][64] int8, then                [64][v_stride] int8, then
 *                  [blocks][64] float scales                [64][blocks] float scales
 *
 * v_stride: head_dim rounded up to RWK_VECTOR_FLOATS, the rest zero. blocks: of 32 dimensions,
 * rounded up; a stored number stands for scale * int8. rwk_kernels has the functions that put a
 * position's key or value into its slot; a page need not be cleared before. */
#ifndef RWK_KERNELS_KVPAGE_H
#define RWK_KERNELS_KVPAGE_H

#include "runtime/kernels/kernels.h"

enum { RWK_KV_BLOCK = 32 };

/* Bytes of a page, a multiple of 64. */
size_t rwk_kv_key_bytes(enum rwk_element element, uint32_t head_dim);
size_t rwk_kv_value_bytes(enum rwk_element element, uint32_t head_dim);

static inline size_t rwk_kv_value_stride(uint32_t head_dim)
{
    return ((size_t)head_dim + RWK_VECTOR_FLOATS - 1) / RWK_VECTOR_FLOATS * RWK_VECTOR_FLOATS;
}
static inline size_t rwk_kv_blocks(uint32_t head_dim)
{
    return ((size_t)head_dim + RWK_KV_BLOCK - 1) / RWK_KV_BLOCK;
}

#endif
