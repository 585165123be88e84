/* The vector vocabulary that every operation is written in; simd_<isa>.h gives it a meaning, and
 * the build compiles each operation once for each of them (RWK_SIMD_<ISA> chooses).
 *
 *   vf  RWK_LANES floats      vm  a truth value for each lane
 *
 *   vf_zero  vf_set1(x)  vf_load(p)  vf_store(p, v)         p may lie anywhere
 *   vf_load_n(p, n)  vf_store_n(p, v, n)                    the first n lanes; others are read as 0
 * and not written vf_add  vf_sub  vf_mul  vf_div  vf_abs  vf_neg vf_fma(a, b, c)   a b + c, in one
 * rounding where the ISA has it; vf_fnma(a, b, c)  c - a b vf_max(a, b)      a > b ? a : b, so b if
 * either is NaN; vf_min likewise vf_round(x)       to the nearest integer, |x| < 2^22 vf_scale2(p,
 * n)   p 2^n for integral n with p and p 2^n normal vf_clear_low(x)   the low 12 bits of the
 * significand cleared vf_copysign(magnitude, sign) vm_lt(a, b)  vm_range(begin, end): lanes
 * begin..end-1   vf_select(m, a, b): m ? a : b vf_sum(v)         the lanes' sum in a fixed tree:
 * upper half onto lower half until one is left vf_sum4(out, v)   out[i] = vf_sum(v[i]), same bits,
 * i < 4 vf_max_lanes(v)   the greatest lane; any, if one is NaN vf_load_f16(p)  vf_load_bf16(p)
 * vf_load_i8(p)          RWK_LANES stored elements, widened vf_load_bf16_even(p)
 * vf_load_bf16_odd(p)               of 2 RWK_LANES elements vf_store_f16(p, v)  vf_store_bf16(p, v)
 * rounded to nearest even vf_store_i8(p, v)  vf_store_u8(p, v)  vf_store_i16(p, v)  integral lanes
 * that fit; of others: any value
 *
 * and for quantised weights, RWK_LANES rows by 4 bytes at a time:
 *
 *   vb  4 RWK_LANES bytes
 *   vb_load(p)  vb_four(p): the 4 bytes at p in every lane
 *   vb_low(b)  vb_high(b)         each byte's lower, upper 4 bits
 *   vb_even(b)  vb_odd(b)         bytes 0 and 2, or 1 and 3, of each lane as two numbers of 16 bits
 *   vb_to_float(b, i)             byte i of each lane, unsigned
 *   vs16  sums under way of w x, numbers of 16 bits, w of 0..255, x signed: vs16_zero vs16_dot(sum,
 * w, x)  vs16_end(sum) vs8   the same of bytes, w of 0..15, x of -127..127, at most 8 calls of
 * vs8_dot: vs8_zero  vs8_dot(sum, w, x) vs8_end(sum)            the ends give floats, exact below
 * 2^24
 *
 * and constants: RWK_LANES; RWK_TILE_TOKENS, tokens in the widest register tile (4 rows tall);
 * RWK_PANEL_1, _2, _3, _6: vectors in the panel tile for so many tokens; RWK_QUANT_TOKENS and
 * RWK_QUANT_GROUPS, the tile of quantised weights, and RWK_QUANT_GROUPS_1, that for one token.
 * Nothing here depends on which lane a number lies in but the sums. */
#ifndef RWK_KERNELS_SIMD_H
#define RWK_KERNELS_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "runtime/base/half.h"

#define RWK_INLINE static inline __attribute__((always_inline))

#if defined(RWK_SIMD_AVX512)
#include "runtime/kernels/simd_avx512.h"
#define RWK_ISA(name) name##_avx512
#define RWK_ISA_NAME "avx512"
#elif defined(RWK_SIMD_AVX2)
#include "runtime/kernels/simd_avx2.h"
#define RWK_ISA(name) name##_avx2
#define RWK_ISA_NAME "avx2"
#elif defined(RWK_SIMD_DOTPROD) /* NEON with dot products of bytes */
#include "runtime/kernels/simd_neon.h"
#define RWK_ISA(name) name##_dotprod
#define RWK_ISA_NAME "neon"
#elif defined(RWK_SIMD_NEON)
#include "runtime/kernels/simd_neon.h"
#define RWK_ISA(name) name##_neon
#define RWK_ISA_NAME "neon"
#else
#include "runtime/kernels/simd_scalar.h"
#define RWK_ISA(name) name##_scalar
#define RWK_ISA_NAME "scalar"
#endif

#endif
