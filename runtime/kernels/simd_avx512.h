/* The vector vocabulary for AVX-512 (F, BW, DQ, VL): sixteen floats. */
#ifndef RWK_KERNELS_SIMD_AVX512_H
#define RWK_KERNELS_SIMD_AVX512_H

#include <immintrin.h>
#include "runtime/base/half.h"

#define VF 16
#define TILE_ROWS 4      /* 24 accumulators, 6 tokens and a weight: 31 of 32 registers */
#define TILE_TOKENS 6
#define TILE_LANES 4
#define TILE_QUERIES 4
#define TILE_VECTORS 4
#define RWK_TABLE rwk_kernels_avx512
#define RWK_TABLE_NAME "avx512"

typedef __m512 vf;

static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
static inline __mmask16 lanes_below(size_t n) { return (__mmask16)((1u << n) - 1); }
static inline vf vf_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(lanes_below(n), p); }
static inline void vf_store_n(float *p, vf v, size_t n) { _mm512_mask_storeu_ps(p, lanes_below(n), v); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_sign(vf a, vf b) { return _mm512_or_ps(vf_abs(a), _mm512_and_ps(_mm512_set1_ps(-0.0f), b)); }
static inline vf vf_if_less(vf a, vf b, vf x, vf y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
static inline vf vf_ldexp(vf p, vf n)
{
    __m512i shift = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), shift));
}
static inline __m256 fold(__m512 v) { return _mm512_extractf32x8_ps(v, 1); }
static inline float vf_sum(vf v)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), fold(v));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
static inline float vf_hmax(vf v)
{
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), fold(v));
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

static inline vf vf_from_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline vf vf_from_bf16(const void *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline void vf_from_bf16_pair(const void *p, vf *even, vf *odd)
{
    __m512i both = _mm512_loadu_si512(p);
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000)));
}
static inline void vf_to_f16(void *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vf_to_bf16(void *p, vf v)
{
    float lanes[16];
    vf_store(lanes, v);
    for (int i = 0; i < 16; i++) {
        uint16_t h = rwk_float_to_bf16(lanes[i]);
        memcpy((char *)p + 2 * i, &h, 2);
    }
}

#endif
