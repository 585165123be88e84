/* The vocabulary of simd.h in portable C, with the compiler's generic vectors of four floats for
 * brevity: the written reference, and the table that runs anywhere. Products and sums are rounded
 * separately. */
#ifndef RWK_KERNELS_SIMD_SCALAR_H
#define RWK_KERNELS_SIMD_SCALAR_H

enum {
    RWK_LANES = 4,
    RWK_TILE_TOKENS = 3,
    RWK_PANEL_1 = 4,
    RWK_PANEL_2 = 4,
    RWK_PANEL_3 = 4,
    RWK_PANEL_6 = 2
};

typedef float vf __attribute__((vector_size(4 * RWK_LANES)));
typedef int32_t vm __attribute__((vector_size(4 * RWK_LANES))); /* all ones or zero */
typedef uint32_t vu __attribute__((vector_size(4 * RWK_LANES)));

#define VF_EACH(expression)                                                                        \
    vf r;                                                                                          \
    for (int i = 0; i < RWK_LANES; i++)                                                            \
        r[i] = (expression);                                                                       \
    return r

RWK_INLINE vf vf_set1(float x)
{
    return (vf) { x, x, x, x };
}
RWK_INLINE vf vf_zero(void)
{
    return vf_set1(0);
}
RWK_INLINE vu vu_set1(uint32_t x)
{
    return (vu) { x, x, x, x };
}

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
RWK_INLINE void vf_store(void *p, vf v)
{
    memcpy(p, &v, sizeof v);
}
RWK_INLINE void vf_store_n(void *p, vf v, size_t n)
{
    memcpy(p, &v, n * sizeof(float));
}

RWK_INLINE vm vm_lt(vf a, vf b)
{
    return a < b;
}
RWK_INLINE vm vm_range(int begin, int end)
{
    const vm lane = { 0, 1, 2, 3 };
    return (lane >= begin) & (lane < end);
}
RWK_INLINE vf vf_select(vm m, vf a, vf b)
{
    return (vf)(((vm)a & m) | ((vm)b & ~m));
}

RWK_INLINE vf vf_add(vf a, vf b)
{
    return a + b;
}
RWK_INLINE vf vf_sub(vf a, vf b)
{
    return a - b;
}
RWK_INLINE vf vf_mul(vf a, vf b)
{
    return a * b;
}
RWK_INLINE vf vf_div(vf a, vf b)
{
    return a / b;
}
RWK_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}
RWK_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return c - a * b;
}
RWK_INLINE vf vf_max(vf a, vf b)
{
    return vf_select(a > b, a, b);
}
RWK_INLINE vf vf_min(vf a, vf b)
{
    return vf_select(a < b, a, b);
}
RWK_INLINE vf vf_abs(vf a)
{
    return (vf)((vu)a & vu_set1(0x7fffffffu));
}
RWK_INLINE vf vf_neg(vf a)
{
    return -a;
}
RWK_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    return (vf)((vu)vf_abs(magnitude) | ((vu)sign & vu_set1(0x80000000u)));
}
RWK_INLINE vf vf_clear_low(vf a)
{
    return (vf)((vu)a & vu_set1(0xfffff000u));
}

/* Adding 1.5 * 2^23 leaves no fraction bits. */
RWK_INLINE vf vf_round(vf a)
{
    return a + vf_set1(12582912.0f) - vf_set1(12582912.0f);
}
RWK_INLINE vf vf_scale2(vf p, vf n)
{
    return (vf)((vu)p + ((vu)(n + vf_set1(12582912.0f)) << 23));
}

RWK_INLINE float vf_sum(vf v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}
RWK_INLINE void vf_sum4(float *out, const vf v[4])
{
    for (int i = 0; i < 4; i++)
        out[i] = vf_sum(v[i]);
}
RWK_INLINE float vf_max_lanes(vf v)
{
    vf upper = { v[2], v[3], v[2], v[3] }, m = vf_max(v, upper);
    return m[0] > m[1] ? m[0] : m[1];
}

RWK_INLINE uint16_t load_u16(const void *p, int i)
{
    uint16_t h;
    memcpy(&h, (const unsigned char *)p + 2 * i, sizeof h);
    return h;
}
RWK_INLINE void store_u16(void *p, int i, uint16_t h)
{
    memcpy((unsigned char *)p + 2 * i, &h, sizeof h);
}
RWK_INLINE vf vf_load_f16(const void *p)
{
    VF_EACH(rwk_f16_to_float(load_u16(p, i)));
}
RWK_INLINE vf vf_load_bf16(const void *p)
{
    VF_EACH(rwk_bf16_to_float(load_u16(p, i)));
}
RWK_INLINE vf vf_load_bf16_even(const void *p)
{
    VF_EACH(rwk_bf16_to_float(load_u16(p, 2 * i)));
}
RWK_INLINE vf vf_load_bf16_odd(const void *p)
{
    VF_EACH(rwk_bf16_to_float(load_u16(p, 2 * i + 1)));
}
RWK_INLINE vf vf_load_i8(const void *p)
{
    VF_EACH(((const int8_t *)p)[i]);
}
RWK_INLINE void vf_store_f16(void *p, vf v)
{
    for (int i = 0; i < RWK_LANES; i++)
        store_u16(p, i, rwk_float_to_f16(v[i]));
}
RWK_INLINE void vf_store_bf16(void *p, vf v)
{
    for (int i = 0; i < RWK_LANES; i++)
        store_u16(p, i, rwk_float_to_bf16(v[i]));
}

/* Not a number becomes the lower bound: a conversion of it would be undefined. */
RWK_INLINE float clamp(float x, float low, float high)
{
    return x > low ? x < high ? x : high : low;
}
#define VF_STORE(name, type, low, high)                                                            \
    RWK_INLINE void name(void *p, vf v)                                                            \
    {                                                                                              \
        type n[RWK_LANES];                                                                         \
        for (int i = 0; i < RWK_LANES; i++)                                                        \
            n[i] = (type)clamp(v[i], low, high);                                                   \
        memcpy(p, n, sizeof n);                                                                    \
    }
VF_STORE(vf_store_i8, int8_t, -128, 127)
VF_STORE(vf_store_u8, uint8_t, 0, 255)
VF_STORE(vf_store_i16, int16_t, -32768, 32767)
#undef VF_STORE

typedef uint8_t vb __attribute__((vector_size(4 * RWK_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * RWK_LANES)));
typedef int16_t vh __attribute__((vector_size(4 * RWK_LANES)));
typedef vi vs16;
typedef vi vs8;
enum { RWK_QUANT_TOKENS = 2, RWK_QUANT_GROUPS = 1, RWK_QUANT_GROUPS_1 = 1 };

RWK_INLINE vb vb_load(const void *p)
{
    vb r;
    memcpy(&r, p, sizeof r);
    return r;
}
RWK_INLINE vb vb_four(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return (vb)(vi) { four, four, four, four };
}
RWK_INLINE vb vb_low(vb b)
{
    return b & 15;
}
RWK_INLINE vb vb_high(vb b)
{
    return b >> 4;
}
RWK_INLINE vb vb_even(vb b)
{
    return (vb)((vh)b & 255);
}
RWK_INLINE vb vb_odd(vb b)
{
    return (vb)((vh)b >> 8 & 255);
}
RWK_INLINE vf vb_to_float(vb b, int i)
{
    return __builtin_convertvector((vi)b >> 8 * i & 255, vf);
}

RWK_INLINE vs16 vs16_zero(void)
{
    return (vs16) { 0 };
}
RWK_INLINE vs16 vs16_dot(vs16 sum, vb w, vb x)
{
    const vi a = (vi)w, b = (vi)x; /* two numbers of 16 bits in each lane */
    return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
}
RWK_INLINE vf vs16_end(vs16 sum)
{
    return __builtin_convertvector(sum, vf);
}
RWK_INLINE vs8 vs8_zero(void)
{
    return (vs8) { 0 };
}
RWK_INLINE vs8 vs8_dot(vs8 sum, vb w, vb x)
{
    const vi a = (vi)w, b = (vi)x;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        sum += (a >> 8 * i & 255) * ((vi)((vu)b << (24 - 8 * i)) >> 24);
    return sum;
}
RWK_INLINE vf vs8_end(vs8 sum)
{
    return __builtin_convertvector(sum, vf);
}

#endif
