/* Stored elements to float32 and back, n at a time. */
#ifndef RWK_KERNELS_CONVERT_H
#define RWK_KERNELS_CONVERT_H

#include "runtime/kernels/kernels.h"
#include "runtime/kernels/simd.h"

/* RWK_LANES elements at p. `e` is a constant at every use, so that nothing of the choice is left at
 * run time. */
RWK_INLINE vf load_element(enum rwk_element e, const void *p)
{
    return e == RWK_ELEMENT_F32   ? vf_load(p)
           : e == RWK_ELEMENT_F16 ? vf_load_f16(p)
                                  : vf_load_bf16(p);
}

RWK_INLINE vf load_element_n(enum rwk_element e, const void *p, size_t n)
{
    if (e == RWK_ELEMENT_F32)
        return vf_load_n(p, n);
    uint16_t padded[RWK_LANES] = { 0 };
    memcpy(padded, p, n * sizeof *padded);
    return load_element(e, padded);
}

RWK_INLINE void store_element(enum rwk_element e, void *p, vf v)
{
    if (e == RWK_ELEMENT_F32)
        vf_store(p, v);
    else if (e == RWK_ELEMENT_F16)
        vf_store_f16(p, v);
    else
        vf_store_bf16(p, v);
}

RWK_INLINE void widen(enum rwk_element e, float *dst, const void *src, size_t n)
{
    const unsigned char *from = src;
    size_t i = 0;
    for (; i + RWK_LANES <= n; i += RWK_LANES)
        vf_store(dst + i, load_element(e, from + i * rwk_element_bytes(e)));
    if (i < n)
        vf_store_n(dst + i, load_element_n(e, from + i * rwk_element_bytes(e), n - i), n - i);
}

RWK_INLINE void narrow(enum rwk_element e, void *dst, const float *src, size_t n)
{
    unsigned char *to = dst;
    size_t i = 0;
    for (; i + RWK_LANES <= n; i += RWK_LANES)
        store_element(e, to + i * rwk_element_bytes(e), vf_load(src + i));
    if (i < n) {
        float padded[RWK_LANES];
        store_element(e, padded, vf_load_n(src + i, n - i));
        memcpy(to + i * rwk_element_bytes(e), padded, (n - i) * rwk_element_bytes(e));
    }
}

static void widen_f32(float *dst, const void *src, size_t n)
{
    widen(RWK_ELEMENT_F32, dst, src, n);
}
static void widen_f16(float *dst, const void *src, size_t n)
{
    widen(RWK_ELEMENT_F16, dst, src, n);
}
static void widen_bf16(float *dst, const void *src, size_t n)
{
    widen(RWK_ELEMENT_BF16, dst, src, n);
}
static void narrow_f32(void *dst, const float *src, size_t n)
{
    narrow(RWK_ELEMENT_F32, dst, src, n);
}
static void narrow_f16(void *dst, const float *src, size_t n)
{
    narrow(RWK_ELEMENT_F16, dst, src, n);
}
static void narrow_bf16(void *dst, const float *src, size_t n)
{
    narrow(RWK_ELEMENT_BF16, dst, src, n);
}

#endif
