/* The vector vocabulary for AVX2 with FMA and F16C: eight floats. */
#ifndef RWK_KERNELS_SIMD_AVX2_H
#define RWK_KERNELS_SIMD_AVX2_H

#include <immintrin.h>
#include "runtime/base/half.h"

#define VF 8
#define TILE_ROWS 4      /* 12 accumulators, 3 tokens and a weight: 16 registers */
#define TILE_TOKENS 3
#define TILE_LANES 2
#define TILE_QUERIES 3
#define TILE_VECTORS 4
#define RWK_TABLE rwk_kernels_avx2
#define RWK_TABLE_NAME "avx2"

typedef __m256 vf;

static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_set1(float x) { return _mm256_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
static inline __m256i lanes_below(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf vf_load_n(const float *p, size_t n) { return _mm256_maskload_ps(p, lanes_below(n)); }
static inline void vf_store_n(float *p, vf v, size_t n) { _mm256_maskstore_ps(p, lanes_below(n), v); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf sign_bits(void) { return _mm256_set1_ps(-0.0f); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(sign_bits(), a); }
static inline vf vf_sign(vf a, vf b) { return _mm256_or_ps(vf_abs(a), _mm256_and_ps(sign_bits(), b)); }
static inline vf vf_if_less(vf a, vf b, vf x, vf y) { return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
static inline vf vf_ldexp(vf p, vf n)
{
    __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shift));
}
static inline float sum4(__m128 v)
{
    v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)));
}
static inline float vf_sum(vf v) { return sum4(_mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1))); }
static inline float vf_hmax(vf v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static inline vf vf_from_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline vf vf_from_bf16(const void *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline void vf_from_bf16_pair(const void *p, vf *even, vf *odd)
{
    __m256i both = _mm256_loadu_si256((const __m256i *)p);
    *even = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    *odd = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xffff0000)));
}
static inline void vf_to_f16(void *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vf_to_bf16(void *p, vf v)
{
    float lanes[8];
    vf_store(lanes, v);
    for (int i = 0; i < 8; i++) {
        uint16_t h = rwk_float_to_bf16(lanes[i]);
        memcpy((char *)p + 2 * i, &h, 2);
    }
}

#endif
