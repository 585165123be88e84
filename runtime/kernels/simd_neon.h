/* The vocabulary of simd.h for NEON as every 64-bit ARM has it: four lanes, thirty-two registers.
 */
#ifndef RWK_KERNELS_SIMD_NEON_H
#define RWK_KERNELS_SIMD_NEON_H

#include <arm_neon.h>

enum {
    RWK_LANES = 4,
    RWK_TILE_TOKENS = 6, /* 24 accumulators, 6 tokens, 1 weight */
    RWK_PANEL_1 = 8,
    RWK_PANEL_2 = 8,
    RWK_PANEL_3 = 8,
    RWK_PANEL_6 = 4
};

typedef float32x4_t vf;
typedef uint32x4_t vm;

RWK_INLINE uint32x4_t vf_bits(vf v)
{
    return vreinterpretq_u32_f32(v);
}
RWK_INLINE vf vf_from_bits(uint32x4_t v)
{
    return vreinterpretq_f32_u32(v);
}
/* Four 16-bit numbers from anywhere. */
RWK_INLINE uint16x4_t load_u16x4(const void *p)
{
    return vreinterpret_u16_u8(vld1_u8(p));
}
RWK_INLINE uint32x4_t load_u32x4(const void *p)
{
    return vreinterpretq_u32_u8(vld1q_u8(p));
}

RWK_INLINE vf vf_zero(void)
{
    return vdupq_n_f32(0);
}
RWK_INLINE vf vf_set1(float x)
{
    return vdupq_n_f32(x);
}
RWK_INLINE vf vf_load(const void *p)
{
    return vf_from_bits(load_u32x4(p));
}
RWK_INLINE vf vf_load_n(const void *p, size_t n)
{
    float lanes[RWK_LANES] = { 0 };
    memcpy(lanes, p, n * sizeof *lanes);
    return vld1q_f32(lanes);
}
RWK_INLINE void vf_store(void *p, vf v)
{
    vst1q_u8(p, vreinterpretq_u8_f32(v));
}
RWK_INLINE void vf_store_n(void *p, vf v, size_t n)
{
    float lanes[RWK_LANES];
    vst1q_f32(lanes, v);
    memcpy(p, lanes, n * sizeof *lanes);
}

RWK_INLINE vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}
RWK_INLINE vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}
RWK_INLINE vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}
RWK_INLINE vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}
RWK_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
RWK_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}
RWK_INLINE vf vf_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
RWK_INLINE vf vf_min(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
RWK_INLINE vf vf_abs(vf a)
{
    return vabsq_f32(a);
}
RWK_INLINE vf vf_neg(vf a)
{
    return vnegq_f32(a);
}
RWK_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude);
}
RWK_INLINE vf vf_clear_low(vf a)
{
    return vf_from_bits(vandq_u32(vf_bits(a), vdupq_n_u32(0xfffff000u)));
}
RWK_INLINE vf vf_round(vf a)
{
    return vrndnq_f32(a);
}
RWK_INLINE vf vf_scale2(vf p, vf n)
{
    return vf_from_bits(
        vaddq_u32(vf_bits(p), vshlq_n_u32(vreinterpretq_u32_s32(vcvtnq_s32_f32(n)), 23)));
}

RWK_INLINE vm vm_lt(vf a, vf b)
{
    return vcltq_f32(a, b);
}
RWK_INLINE vm vm_range(int begin, int end)
{
    const int32_t numbers[] = { 0, 1, 2, 3 };
    int32x4_t lane = vld1q_s32(numbers);
    return vandq_u32(vcgeq_s32(lane, vdupq_n_s32(begin)), vcltq_s32(lane, vdupq_n_s32(end)));
}
RWK_INLINE vf vf_select(vm m, vf a, vf b)
{
    return vbslq_f32(m, a, b);
}

RWK_INLINE float vf_sum(vf v)
{
    float32x2_t s = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vpadds_f32(s);
}
/* The lower halves of a and b plus the upper ones. */
RWK_INLINE vf fold_pair(vf a, vf b)
{
    float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(x, y)),
                     vreinterpretq_f32_f64(vzip2q_f64(x, y)));
}
RWK_INLINE void vf_sum4(float *out, const vf v[4])
{
    vst1q_f32(out, vpaddq_f32(fold_pair(v[0], v[1]), fold_pair(v[2], v[3])));
}
RWK_INLINE float vf_max_lanes(vf v)
{
    return vmaxvq_f32(v);
}

RWK_INLINE vf vf_load_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(load_u16x4(p)));
}
RWK_INLINE vf vf_load_bf16(const void *p)
{
    return vf_from_bits(vshll_n_u16(load_u16x4(p), 16));
}
RWK_INLINE vf vf_load_bf16_even(const void *p)
{
    return vf_from_bits(vshlq_n_u32(load_u32x4(p), 16));
}
RWK_INLINE vf vf_load_bf16_odd(const void *p)
{
    return vf_from_bits(vandq_u32(load_u32x4(p), vdupq_n_u32(0xffff0000u)));
}
RWK_INLINE vf vf_load_i8(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
}

RWK_INLINE void vf_store_f16(void *p, vf v)
{
    vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v)));
}
RWK_INLINE void vf_store_bf16(void *p, vf v)
{
    uint32x4_t bits = vf_bits(v), high = vshrq_n_u32(bits, 16),
               odd = vandq_u32(high, vdupq_n_u32(1));
    uint32x4_t rounded = vshrq_n_u32(vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
    uint32x4_t r = vbslq_u32(vceqq_f32(v, v), rounded, vorrq_u32(high, vdupq_n_u32(0x40)));
    vst1_u8(p, vreinterpret_u8_u16(vmovn_u32(r)));
}

RWK_INLINE int16x4_t vf_to_i16(vf v)
{
    return vqmovn_s32(vcvtnq_s32_f32(v));
}
RWK_INLINE void vf_store_i8(void *p, vf v)
{
    int8_t lanes[8];
    vst1_s8(lanes, vqmovn_s16(vcombine_s16(vf_to_i16(v), vdup_n_s16(0))));
    memcpy(p, lanes, RWK_LANES);
}
RWK_INLINE void vf_store_u8(void *p, vf v)
{
    uint8_t lanes[8];
    vst1_u8(lanes, vqmovun_s16(vcombine_s16(vf_to_i16(v), vdup_n_s16(0))));
    memcpy(p, lanes, RWK_LANES);
}
RWK_INLINE void vf_store_i16(void *p, vf v)
{
    int16_t lanes[4];
    vst1_s16(lanes, vf_to_i16(v));
    memcpy(p, lanes, sizeof lanes);
}

typedef int8x16_t vb;
typedef struct {
    int32x4_t low, high;
} vs16; /* two sums a row, rows 0 1 and 2 3 */
typedef int32x4_t vs8;
enum { RWK_QUANT_TOKENS = 3, RWK_QUANT_GROUPS = 1, RWK_QUANT_GROUPS_1 = 1 };

RWK_INLINE vb vb_load(const void *p)
{
    return vreinterpretq_s8_u8(vld1q_u8(p));
}
RWK_INLINE vb vb_four(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
RWK_INLINE vb vb_low(vb b)
{
    return vandq_s8(b, vdupq_n_s8(15));
}
RWK_INLINE vb vb_high(vb b)
{
    return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(b), 4));
}
RWK_INLINE vb vb_even(vb b)
{
    return vreinterpretq_s8_s16(vandq_s16(vreinterpretq_s16_s8(b), vdupq_n_s16(255)));
}
RWK_INLINE vb vb_odd(vb b)
{
    return vreinterpretq_s8_u16(vshrq_n_u16(vreinterpretq_u16_s8(b), 8));
}
RWK_INLINE vf vb_to_float(vb b, int i)
{
    const uint32x4_t shifted = vshlq_u32(vreinterpretq_u32_s8(b), vdupq_n_s32(-8 * i));
    return vcvtq_f32_u32(vandq_u32(shifted, vdupq_n_u32(255)));
}

RWK_INLINE vs16 vs16_zero(void)
{
    return (vs16) { vdupq_n_s32(0), vdupq_n_s32(0) };
}
RWK_INLINE vs16 vs16_dot(vs16 sum, vb w, vb x)
{
    const int16x8_t a = vreinterpretq_s16_s8(w), b = vreinterpretq_s16_s8(x);
    return (vs16) { vmlal_s16(sum.low, vget_low_s16(a), vget_low_s16(b)),
                    vmlal_high_s16(sum.high, a, b) };
}
RWK_INLINE vf vs16_end(vs16 sum)
{
    return vcvtq_f32_s32(vpaddq_s32(sum.low, sum.high));
}
RWK_INLINE vs8 vs8_zero(void)
{
    return vdupq_n_s32(0);
}
RWK_INLINE vs8 vs8_dot(vs8 sum, vb w, vb x)
{
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(sum, w, x);
#else
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    return vaddq_s32(sum, vpaddq_s32(low, vpaddlq_s16(vmull_high_s8(w, x))));
#endif
}
RWK_INLINE vf vs8_end(vs8 sum)
{
    return vcvtq_f32_s32(sum);
}

#endif
