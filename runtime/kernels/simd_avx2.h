/* The vocabulary of simd.h for AVX2 with FMA and F16C: eight lanes, sixteen registers. */
#ifndef RWK_KERNELS_SIMD_AVX2_H
#define RWK_KERNELS_SIMD_AVX2_H

#include <immintrin.h>

enum {
    RWK_LANES = 8,
    RWK_TILE_TOKENS = 3, /* 12 accumulators, 3 tokens, 1 weight */
    RWK_PANEL_1 = 8,
    RWK_PANEL_2 = 4,
    RWK_PANEL_3 = 4,
    RWK_PANEL_6 = 2
};

typedef __m256 vf;
typedef __m256 vm;

RWK_INLINE __m256i vf_bits(vf v)
{
    return _mm256_castps_si256(v);
}
RWK_INLINE vf vf_from_bits(__m256i v)
{
    return _mm256_castsi256_ps(v);
}
RWK_INLINE __m256i lane_numbers(void)
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
RWK_INLINE __m256i lanes_below(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane_numbers());
}

RWK_INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}
RWK_INLINE vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}
RWK_INLINE vf vf_load(const void *p)
{
    return _mm256_loadu_ps(p);
}
RWK_INLINE vf vf_load_n(const void *p, size_t n)
{
    return _mm256_maskload_ps(p, lanes_below(n));
}
RWK_INLINE void vf_store(void *p, vf v)
{
    _mm256_storeu_ps(p, v);
}
RWK_INLINE void vf_store_n(void *p, vf v, size_t n)
{
    _mm256_maskstore_ps(p, lanes_below(n), v);
}

RWK_INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
RWK_INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
RWK_INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
RWK_INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
RWK_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
RWK_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}
RWK_INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
RWK_INLINE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
RWK_INLINE vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
RWK_INLINE vf vf_neg(vf a)
{
    return _mm256_xor_ps(_mm256_set1_ps(-0.0f), a);
}
RWK_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    return _mm256_or_ps(vf_abs(magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}
RWK_INLINE vf vf_clear_low(vf a)
{
    return _mm256_and_ps(a, vf_from_bits(_mm256_set1_epi32((int)0xfffff000u)));
}
RWK_INLINE vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RWK_INLINE vf vf_scale2(vf p, vf n)
{
    return vf_from_bits(_mm256_add_epi32(vf_bits(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}

RWK_INLINE vm vm_lt(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
RWK_INLINE vm vm_range(int begin, int end)
{
    __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(begin), lane_numbers());
    return vf_from_bits(
        _mm256_andnot_si256(below, _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane_numbers())));
}
RWK_INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, m);
}

RWK_INLINE float vf_sum(vf v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
RWK_INLINE void vf_sum4(float *out, const vf v[4])
{
    vf ab = _mm256_add_ps(_mm256_permute2f128_ps(v[0], v[1], 0x20),
                          _mm256_permute2f128_ps(v[0], v[1], 0x31));
    vf cd = _mm256_add_ps(_mm256_permute2f128_ps(v[2], v[3], 0x20),
                          _mm256_permute2f128_ps(v[2], v[3], 0x31));
    vf s = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    s = _mm256_add_ps(_mm256_shuffle_ps(s, s, 0x88),
                      _mm256_shuffle_ps(s, s, 0xdd)); /* a c . . | b d . . */
    _mm_storeu_ps(out, _mm_unpacklo_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
RWK_INLINE float vf_max_lanes(vf v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

RWK_INLINE vf vf_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
RWK_INLINE vf vf_load_bf16(const void *p)
{
    return vf_from_bits(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
RWK_INLINE vf vf_load_bf16_even(const void *p)
{
    return vf_from_bits(_mm256_slli_epi32(_mm256_loadu_si256(p), 16));
}
RWK_INLINE vf vf_load_bf16_odd(const void *p)
{
    return vf_from_bits(
        _mm256_and_si256(_mm256_loadu_si256(p), _mm256_set1_epi32((int)0xffff0000u)));
}
RWK_INLINE vf vf_load_i8(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}

RWK_INLINE void vf_store_f16(void *p, vf v)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
RWK_INLINE void vf_store_bf16(void *p, vf v)
{
    __m256i bits = vf_bits(v), high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i r = _mm256_blendv_epi8(rounded, quiet, vf_bits(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
    _mm_storeu_si128(p, _mm256_castsi256_si128(r));
}

RWK_INLINE __m128i vf_to_i16(vf v)
{
    __m256i n = _mm256_cvtps_epi32(v);
    return _mm_packs_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
}
RWK_INLINE void vf_store_i8(void *p, vf v)
{
    _mm_storel_epi64(p, _mm_packs_epi16(vf_to_i16(v), _mm_setzero_si128()));
}
RWK_INLINE void vf_store_u8(void *p, vf v)
{
    _mm_storel_epi64(p, _mm_packus_epi16(vf_to_i16(v), _mm_setzero_si128()));
}
RWK_INLINE void vf_store_i16(void *p, vf v)
{
    _mm_storeu_si128(p, vf_to_i16(v));
}

typedef __m256i vb;
typedef __m256i vi;
typedef vi vs16;
typedef __m256i vs8; /* sums of 16 bits: 16 products of at most 15 * 127 fit */
enum { RWK_QUANT_TOKENS = 4, RWK_QUANT_GROUPS = 1, RWK_QUANT_GROUPS_1 = 2 };

RWK_INLINE vb vb_load(const void *p)
{
    return _mm256_loadu_si256(p);
}
RWK_INLINE vb vb_four(const void *p)
{
    int four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}
RWK_INLINE vb vb_low(vb b)
{
    return _mm256_and_si256(b, _mm256_set1_epi8(15));
}
RWK_INLINE vb vb_high(vb b)
{
    return _mm256_and_si256(_mm256_srli_epi16(b, 4), _mm256_set1_epi8(15));
}
RWK_INLINE vb vb_even(vb b)
{
    return _mm256_and_si256(b, _mm256_set1_epi16(255));
}
RWK_INLINE vb vb_odd(vb b)
{
    return _mm256_srli_epi16(b, 8);
}
RWK_INLINE vf vb_to_float(vb b, int i)
{
    return _mm256_cvtepi32_ps(
        _mm256_and_si256(_mm256_srlv_epi32(b, _mm256_set1_epi32(8 * i)), _mm256_set1_epi32(255)));
}

RWK_INLINE vs16 vs16_zero(void)
{
    return _mm256_setzero_si256();
}
RWK_INLINE vs16 vs16_dot(vs16 sum, vb w, vb x)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
}
RWK_INLINE vf vs16_end(vs16 sum)
{
    return _mm256_cvtepi32_ps(sum);
}
RWK_INLINE vs8 vs8_zero(void)
{
    return _mm256_setzero_si256();
}
RWK_INLINE vs8 vs8_dot(vs8 sum, vb w, vb x)
{
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
}
RWK_INLINE vf vs8_end(vs8 sum)
{
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
}

#endif
