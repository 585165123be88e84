/* The vector vocabulary for AArch64's Advanced SIMD: four floats. */
#ifndef RWK_KERNELS_SIMD_NEON_H
#define RWK_KERNELS_SIMD_NEON_H

#include <arm_neon.h>
#include "runtime/base/half.h"

#define VF 4
#define TILE_ROWS 4      /* 24 accumulators, 6 tokens and a weight: 31 of 32 registers */
#define TILE_TOKENS 6
#define TILE_LANES 4
#define TILE_QUERIES 4
#define TILE_VECTORS 4
#define RWK_TABLE rwk_kernels_neon
#define RWK_TABLE_NAME "neon"

typedef float32x4_t vf;

static inline vf vf_zero(void) { return vdupq_n_f32(0); }
static inline vf vf_set1(float x) { return vdupq_n_f32(x); }
static inline vf vf_load(const float *p) { return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p)); }
static inline void vf_store(float *p, vf v) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_f32(v)); }
static inline vf vf_load_n(const float *p, size_t n)
{
    float lanes[4] = { 0 };
    memcpy(lanes, p, n * sizeof *p);
    return vld1q_f32(lanes);
}
static inline void vf_store_n(float *p, vf v, size_t n)
{
    float lanes[4];
    vst1q_f32(lanes, v);
    memcpy(p, lanes, n * sizeof *p);
}
static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf vf_max(vf a, vf b) { return vmaxq_f32(a, b); }
static inline vf vf_min(vf a, vf b) { return vminq_f32(a, b); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vf vf_sign(vf a, vf b) { return vbslq_f32(vdupq_n_u32(0x80000000), b, vabsq_f32(a)); }
static inline vf vf_if_less(vf a, vf b, vf x, vf y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
static inline vf vf_ldexp(vf p, vf n)
{
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vcvtnq_s32_f32(n), 23)));
}
static inline float vf_sum(vf v) { return vaddvq_f32(v); }
static inline float vf_hmax(vf v) { return vmaxvq_f32(v); }

static inline vf vf_from_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
static inline vf vf_from_bf16(const void *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}
static inline void vf_from_bf16_pair(const void *p, vf *even, vf *odd)
{
    uint32x4_t both = vreinterpretq_u32_u8(vld1q_u8(p));
    *even = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
    *odd = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000)));
}
static inline void vf_to_f16(void *p, vf v) { vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v))); }
static inline void vf_to_bf16(void *p, vf v)
{
    float lanes[4];
    vst1q_f32(lanes, v);
    for (int i = 0; i < 4; i++) {
        uint16_t h = rwk_float_to_bf16(lanes[i]);
        memcpy((char *)p + 2 * i, &h, 2);
    }
}

#endif
