/* One position's key or value into its slot of a page (kvpage.h). */
#ifndef RWK_KERNELS_KVPUT_H
#define RWK_KERNELS_KVPUT_H

#include "runtime/kernels/convert.h"
#include "runtime/kernels/kvpage.h"
#include "runtime/kernels/quantblock.h"

enum { PUT_CHUNK = 64 };

RWK_INLINE void put_key(enum rwk_element e, void *page, uint32_t slot, const float *k,
                        uint32_t head_dim)
{
    unsigned char stored[PUT_CHUNK * sizeof(float)];
    unsigned char *to = (unsigned char *)page + slot * rwk_element_bytes(e);
    for (uint32_t d = 0; d < head_dim; d += PUT_CHUNK) {
        uint32_t n = head_dim - d < PUT_CHUNK ? head_dim - d : PUT_CHUNK;
        narrow(e, stored, k + d, n);
        for (uint32_t i = 0; i < n; i++, to += RWK_KEY_BLOCK * rwk_element_bytes(e))
            memcpy(to, stored + i * rwk_element_bytes(e), rwk_element_bytes(e));
    }
}

RWK_INLINE void put_value(enum rwk_element e, void *page, uint32_t slot, const float *v,
                          uint32_t head_dim)
{
    size_t stride = rwk_kv_value_stride(head_dim);
    unsigned char *to = (unsigned char *)page + slot * stride * rwk_element_bytes(e);
    narrow(e, to, v, head_dim);
    memset(to + head_dim * rwk_element_bytes(e), 0, (stride - head_dim) * rwk_element_bytes(e));
}

#define PUT(name, element)                                                                         \
    static void put_key_##name(void *page, uint32_t slot, const float *k, uint32_t head_dim)       \
    {                                                                                              \
        put_key(element, page, slot, k, head_dim);                                                 \
    }                                                                                              \
    static void put_value_##name(void *page, uint32_t slot, const float *v, uint32_t head_dim)     \
    {                                                                                              \
        put_value(element, page, slot, v, head_dim);                                               \
    }

_Static_assert((int)RWK_KV_BLOCK == (int)QUANT_FLOATS, "one block has one scale");

/* Up to 32 numbers of x -> q, which is zero beyond them; returns the scale. */
RWK_INLINE float put_block(int8_t q[RWK_KV_BLOCK], const float *x, size_t n)
{
    float padded[RWK_KV_BLOCK] = { 0 }, sum;
    vf v[QUANT_X_VECTORS];
    memcpy(padded, x, n * sizeof *x);
    const float scale = quant_row_block(v, padded, 127, &sum);
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        vf_store_i8(q + i * RWK_LANES, v[i]);
    return scale;
}

static void put_key_q8(void *page, uint32_t slot, const float *k, uint32_t head_dim)
{
    int8_t *to = (int8_t *)page + slot, q[RWK_KV_BLOCK];
    float *scales = (float *)(void *)((char *)page + (size_t)head_dim * RWK_KEY_BLOCK) + slot;
    for (uint32_t d = 0; d < head_dim; d += RWK_KV_BLOCK, scales += RWK_KEY_BLOCK) {
        uint32_t n = head_dim - d < RWK_KV_BLOCK ? head_dim - d : RWK_KV_BLOCK;
        *scales = put_block(q, k + d, n);
        for (uint32_t i = 0; i < n; i++, to += RWK_KEY_BLOCK)
            *to = q[i];
    }
}

static void put_value_q8(void *page, uint32_t slot, const float *v, uint32_t head_dim)
{
    const size_t stride = rwk_kv_value_stride(head_dim), blocks = rwk_kv_blocks(head_dim);
    int8_t *to = (int8_t *)page + slot * stride, q[RWK_KV_BLOCK];
    float *scales = (float *)(void *)((char *)page + RWK_KEY_BLOCK * stride) + slot * blocks;
    for (uint32_t d = 0; d < stride; d += RWK_KV_BLOCK, scales++) {
        const size_t n = head_dim - d < RWK_KV_BLOCK ? head_dim - d : RWK_KV_BLOCK;
        *scales = put_block(q, v + d, n);
        memcpy(to + d, q, stride - d < RWK_KV_BLOCK ? stride - d : RWK_KV_BLOCK);
    }
}

PUT(f32, RWK_ELEMENT_F32)
PUT(f16, RWK_ELEMENT_F16)
PUT(bf16, RWK_ELEMENT_BF16)

#endif
