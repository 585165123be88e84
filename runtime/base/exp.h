/* exp in float32, four at a time, the same bits on every machine: plain arithmetic, no libm, no
 * fused multiply-add.
 *
 *   x = k ln 2 + r, |r| <= ln 2 / 2;  e^x = 2^k (1 + (r + r^2 q(r)))
 *
 * with q from the Taylor series up to r^7 / 7!.
 *
 * k is x / ln 2 rounded by adding 1.5 * 2^23, which leaves it in the low bits of the sum. ln 2 is
 * taken in two parts, the first with 14 bits, so that its product with k is exact. Error below 1
 * ulp; e^0 is 1 exactly. x must not be above 88; below -87, and for NaN, the result is 0. */
#ifndef RWK_BASE_EXP_H
#define RWK_BASE_EXP_H

#include <stdint.h>

typedef float rwk_f32x4 __attribute__((vector_size(16)));
typedef uint32_t rwk_u32x4 __attribute__((vector_size(16)));

static inline rwk_f32x4 rwk_exp_x4(rwk_f32x4 x)
{
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f, round = 0x1.8p23f;
    rwk_u32x4 is_normal = (rwk_u32x4)(x >= -87.0f);
    x = (rwk_f32x4)((rwk_u32x4)x & is_normal);
    rwk_f32x4 sum = x * 0x1.715476p+0f + round, k = sum - round;
    rwk_f32x4 r = (x - k * ln2_high) - k * ln2_low, s = r * r;
    rwk_f32x4 even = 1 / 2.f + s * (1 / 24.f + s * (1 / 720.f));
    rwk_f32x4 odd = 1 / 6.f + s * (1 / 120.f + s * (1 / 5040.f));
    rwk_f32x4 scale = (rwk_f32x4)(((rwk_u32x4)sum + 127) << 23);
    return (rwk_f32x4)((rwk_u32x4)(scale * (1 + (r + s * (even + r * odd)))) & is_normal);
}

#endif
