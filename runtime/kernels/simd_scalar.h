/* The vocabulary of simd.h in plain C: the written reference, and the table that runs anywhere. Eight lanes, since eight
 * partial sums err less than one; products and sums are rounded separately. */
#ifndef RWK_KERNELS_SIMD_SCALAR_H
#define RWK_KERNELS_SIMD_SCALAR_H

enum {
    RWK_LANES = 8,
    RWK_TILE_TOKENS = 3,
    RWK_PANEL_1 = 4, RWK_PANEL_2 = 2, RWK_PANEL_3 = 1, RWK_PANEL_6 = 1
};

typedef struct {
    float lane[RWK_LANES];
} vf;
typedef struct {
    uint32_t lane[RWK_LANES]; /* all ones or zero */
} vm;

#define VF_EACH(expression)                                                                                             \
    vf r;                                                                                                               \
    for (int i = 0; i < RWK_LANES; i++)                                                                                 \
        r.lane[i] = (expression);                                                                                       \
    return r

RWK_INLINE vf vf_set1(float x) { VF_EACH(x); }
RWK_INLINE vf vf_zero(void) { return vf_set1(0); }

RWK_INLINE vf vf_load(const void *p)
{
    vf r;
    memcpy(&r, p, sizeof r);
    return r;
}
RWK_INLINE vf vf_load_n(const void *p, size_t n)
{
    vf r = vf_zero();
    memcpy(&r, p, n * sizeof(float));
    return r;
}
RWK_INLINE void vf_store(void *p, vf v) { memcpy(p, &v, sizeof v); }
RWK_INLINE void vf_store_n(void *p, vf v, size_t n) { memcpy(p, &v, n * sizeof(float)); }

RWK_INLINE vf vf_add(vf a, vf b) { VF_EACH(a.lane[i] + b.lane[i]); }
RWK_INLINE vf vf_sub(vf a, vf b) { VF_EACH(a.lane[i] - b.lane[i]); }
RWK_INLINE vf vf_mul(vf a, vf b) { VF_EACH(a.lane[i] * b.lane[i]); }
RWK_INLINE vf vf_div(vf a, vf b) { VF_EACH(a.lane[i] / b.lane[i]); }
RWK_INLINE vf vf_fma(vf a, vf b, vf c) { VF_EACH(a.lane[i] * b.lane[i] + c.lane[i]); }
RWK_INLINE vf vf_fnma(vf a, vf b, vf c) { VF_EACH(c.lane[i] - a.lane[i] * b.lane[i]); }
RWK_INLINE vf vf_max(vf a, vf b) { VF_EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
RWK_INLINE vf vf_min(vf a, vf b) { VF_EACH(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]); }
RWK_INLINE vf vf_abs(vf a) { VF_EACH(rwk_float_from_bits(rwk_float_bits(a.lane[i]) & 0x7fffffffu)); }
RWK_INLINE vf vf_neg(vf a) { VF_EACH(-a.lane[i]); }
RWK_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    VF_EACH(rwk_float_from_bits((rwk_float_bits(magnitude.lane[i]) & 0x7fffffffu) |
                                (rwk_float_bits(sign.lane[i]) & 0x80000000u)));
}
RWK_INLINE vf vf_clear_low(vf a) { VF_EACH(rwk_float_from_bits(rwk_float_bits(a.lane[i]) & 0xfffff000u)); }

/* Adding 1.5 * 2^23 leaves no fraction bits. */
RWK_INLINE vf vf_round(vf a) { VF_EACH((a.lane[i] + 12582912.0f) - 12582912.0f); }
RWK_INLINE vf vf_scale2(vf p, vf n)
{
    VF_EACH(rwk_float_from_bits(rwk_float_bits(p.lane[i]) + (rwk_float_bits(n.lane[i] + 12582912.0f) << 23)));
}

RWK_INLINE vm vm_lt(vf a, vf b)
{
    vm r;
    for (int i = 0; i < RWK_LANES; i++)
        r.lane[i] = a.lane[i] < b.lane[i] ? UINT32_MAX : 0;
    return r;
}
RWK_INLINE vm vm_range(int begin, int end)
{
    vm r;
    for (int i = 0; i < RWK_LANES; i++)
        r.lane[i] = i >= begin && i < end ? UINT32_MAX : 0;
    return r;
}
RWK_INLINE vf vf_select(vm m, vf a, vf b)
{
    VF_EACH(rwk_float_from_bits((rwk_float_bits(a.lane[i]) & m.lane[i]) | (rwk_float_bits(b.lane[i]) & ~m.lane[i])));
}

RWK_INLINE float vf_sum(vf v)
{
    for (int half = RWK_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v.lane[i] += v.lane[i + half];
    return v.lane[0];
}
RWK_INLINE void vf_sum4(float *out, const vf v[4])
{
    for (int i = 0; i < 4; i++)
        out[i] = vf_sum(v[i]);
}
RWK_INLINE float vf_max_lanes(vf v)
{
    for (int half = RWK_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v.lane[i] = v.lane[i] > v.lane[i + half] ? v.lane[i] : v.lane[i + half];
    return v.lane[0];
}

RWK_INLINE uint16_t load_u16(const void *p, size_t i)
{
    uint16_t h;
    memcpy(&h, (const unsigned char *)p + 2 * i, sizeof h);
    return h;
}
RWK_INLINE vf vf_load_f16(const void *p) { VF_EACH(rwk_f16_to_float(load_u16(p, (size_t)i))); }
RWK_INLINE vf vf_load_bf16(const void *p) { VF_EACH(rwk_bf16_to_float(load_u16(p, (size_t)i))); }
RWK_INLINE vf vf_load_bf16_even(const void *p) { VF_EACH(rwk_bf16_to_float(load_u16(p, 2 * (size_t)i))); }
RWK_INLINE vf vf_load_bf16_odd(const void *p) { VF_EACH(rwk_bf16_to_float(load_u16(p, 2 * (size_t)i + 1))); }
RWK_INLINE vf vf_load_i8(const void *p) { VF_EACH(((const int8_t *)p)[i]); }

RWK_INLINE void vf_store_f16(void *p, vf v)
{
    for (int i = 0; i < RWK_LANES; i++) {
        uint16_t h = rwk_float_to_f16(v.lane[i]);
        memcpy((unsigned char *)p + 2 * i, &h, sizeof h);
    }
}
RWK_INLINE void vf_store_bf16(void *p, vf v)
{
    for (int i = 0; i < RWK_LANES; i++) {
        uint16_t h = rwk_float_to_bf16(v.lane[i]);
        memcpy((unsigned char *)p + 2 * i, &h, sizeof h);
    }
}
#undef VF_EACH

#endif
