/* One position's key or value into its slot of a page (kvpage.h). */
#ifndef RWK_KERNELS_KVPUT_H
#define RWK_KERNELS_KVPUT_H

#include "runtime/kernels/convert.h"
#include "runtime/kernels/kvpage.h"

enum { PUT_CHUNK = 64 };

RWK_INLINE void put_key(enum rwk_element e, void *page, uint32_t slot, const float *k, uint32_t head_dim)
{
    unsigned char stored[PUT_CHUNK * sizeof(float)];
    unsigned char *to = (unsigned char *)page + slot * element_size(e);
    for (uint32_t d = 0; d < head_dim; d += PUT_CHUNK) {
        uint32_t n = head_dim - d < PUT_CHUNK ? head_dim - d : PUT_CHUNK;
        narrow(e, stored, k + d, n);
        for (uint32_t i = 0; i < n; i++, to += RWK_KEY_BLOCK * element_size(e))
            memcpy(to, stored + i * element_size(e), element_size(e));
    }
}

RWK_INLINE void put_value(enum rwk_element e, void *page, uint32_t slot, const float *v, uint32_t head_dim)
{
    size_t stride = rwk_kv_value_stride(head_dim);
    unsigned char *to = (unsigned char *)page + slot * stride * element_size(e);
    narrow(e, to, v, head_dim);
    memset(to + head_dim * element_size(e), 0, (stride - head_dim) * element_size(e));
}

#define PUT(name, element)                                                                                              \
    static void put_key_##name(void *page, uint32_t slot, const float *k, uint32_t head_dim)                            \
    {                                                                                                                   \
        put_key(element, page, slot, k, head_dim);                                                                      \
    }                                                                                                                   \
    static void put_value_##name(void *page, uint32_t slot, const float *v, uint32_t head_dim)                          \
    {                                                                                                                   \
        put_value(element, page, slot, v, head_dim);                                                                    \
    }

PUT(f32, RWK_ELEMENT_F32)
PUT(f16, RWK_ELEMENT_F16)
PUT(bf16, RWK_ELEMENT_BF16)

#endif
