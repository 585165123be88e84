/* The vocabulary of simd.h for AVX-512 (F, BW, VL, DQ, VNNI): sixteen lanes, thirty-two registers.
 */
#ifndef RWK_KERNELS_SIMD_AVX512_H
#define RWK_KERNELS_SIMD_AVX512_H

#include <immintrin.h>

enum {
    RWK_LANES = 16,
    RWK_TILE_TOKENS = 6, /* 24 accumulators, 6 tokens, 1 weight */
    RWK_PANEL_1 = 8,
    RWK_PANEL_2 = 8,
    RWK_PANEL_3 = 8,
    RWK_PANEL_6 = 4
};

typedef __m512 vf;
typedef __mmask16 vm;

RWK_INLINE __m512i vf_bits(vf v)
{
    return _mm512_castps_si512(v);
}
RWK_INLINE vf vf_from_bits(__m512i v)
{
    return _mm512_castsi512_ps(v);
}
RWK_INLINE vm lanes_below(int n)
{
    return (vm)(n <= 0 ? 0 : n >= RWK_LANES ? 0xffffu : (1u << n) - 1);
}

RWK_INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
RWK_INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
RWK_INLINE vf vf_load(const void *p)
{
    return _mm512_loadu_ps(p);
}
RWK_INLINE vf vf_load_n(const void *p, size_t n)
{
    return _mm512_maskz_loadu_ps(lanes_below((int)n), p);
}
RWK_INLINE void vf_store(void *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
RWK_INLINE void vf_store_n(void *p, vf v, size_t n)
{
    _mm512_mask_storeu_ps(p, lanes_below((int)n), v);
}

RWK_INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
RWK_INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
RWK_INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
RWK_INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
RWK_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
RWK_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}
RWK_INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
RWK_INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
RWK_INLINE vf vf_abs(vf a)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}
RWK_INLINE vf vf_neg(vf a)
{
    return _mm512_xor_ps(_mm512_set1_ps(-0.0f), a);
}
RWK_INLINE vf vf_copysign(vf magnitude, vf sign)
{
    return _mm512_or_ps(vf_abs(magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}
RWK_INLINE vf vf_clear_low(vf a)
{
    return _mm512_and_ps(a, vf_from_bits(_mm512_set1_epi32((int)0xfffff000u)));
}
RWK_INLINE vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RWK_INLINE vf vf_scale2(vf p, vf n)
{
    return _mm512_scalef_ps(p, n);
}

RWK_INLINE vm vm_lt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
RWK_INLINE vm vm_range(int begin, int end)
{
    return (vm)(lanes_below(end) & ~lanes_below(begin));
}
RWK_INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

RWK_INLINE float vf_sum(vf v)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
RWK_INLINE void vf_sum4(float *out, const vf v[4])
{
    vf ab = _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44),
                          _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    vf cd = _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44),
                          _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    vf s = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88),
                         _mm512_shuffle_f32x4(ab, cd, 0xdd)); /* 4 lanes each */
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0x4e));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0xb1));
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, s)));
}
RWK_INLINE float vf_max_lanes(vf v)
{
    return _mm512_reduce_max_ps(v);
}

RWK_INLINE vf vf_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
RWK_INLINE vf vf_load_bf16(const void *p)
{
    return vf_from_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
RWK_INLINE vf vf_load_bf16_even(const void *p)
{
    return vf_from_bits(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
RWK_INLINE vf vf_load_bf16_odd(const void *p)
{
    return vf_from_bits(
        _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000u)));
}
RWK_INLINE vf vf_load_i8(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}

RWK_INLINE void vf_store_f16(void *p, vf v)
{
    _mm256_storeu_si256(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
RWK_INLINE void vf_store_bf16(void *p, vf v)
{
    __m512i bits = vf_bits(v), high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    __m512i r = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), high,
                                     _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(r));
}

RWK_INLINE void vf_store_i8(void *p, vf v)
{
    _mm_storeu_si128(p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}
RWK_INLINE void vf_store_u8(void *p, vf v)
{
    _mm_storeu_si128(p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}
RWK_INLINE void vf_store_i16(void *p, vf v)
{
    _mm256_storeu_si256(p, _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v)));
}

typedef __m512i vb;
typedef __m512i vi;
typedef vi vs16;
typedef vi vs8;
enum { RWK_QUANT_TOKENS = 6, RWK_QUANT_GROUPS = 2, RWK_QUANT_GROUPS_1 = 2 };

RWK_INLINE vb vb_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
RWK_INLINE vb vb_four(const void *p)
{
    int four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}
RWK_INLINE vb vb_low(vb b)
{
    return _mm512_and_si512(b, _mm512_set1_epi8(15));
}
RWK_INLINE vb vb_high(vb b)
{
    return _mm512_and_si512(_mm512_srli_epi16(b, 4), _mm512_set1_epi8(15));
}
RWK_INLINE vb vb_even(vb b)
{
    return _mm512_and_si512(b, _mm512_set1_epi16(255));
}
RWK_INLINE vb vb_odd(vb b)
{
    return _mm512_srli_epi16(b, 8);
}
RWK_INLINE vf vb_to_float(vb b, int i)
{
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srlv_epi32(b, _mm512_set1_epi32(8 * i)), _mm512_set1_epi32(255)));
}

RWK_INLINE vs16 vs16_zero(void)
{
    return _mm512_setzero_si512();
}
RWK_INLINE vs16 vs16_dot(vs16 sum, vb w, vb x)
{
    return _mm512_dpwssd_epi32(sum, w, x);
}
RWK_INLINE vf vs16_end(vs16 sum)
{
    return _mm512_cvtepi32_ps(sum);
}
RWK_INLINE vs8 vs8_zero(void)
{
    return _mm512_setzero_si512();
}
RWK_INLINE vs8 vs8_dot(vs8 sum, vb w, vb x)
{
    return _mm512_dpbusd_epi32(sum, w, x);
}
RWK_INLINE vf vs8_end(vs8 sum)
{
    return _mm512_cvtepi32_ps(sum);
}

#endif
