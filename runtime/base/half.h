/* 16-bit floats, one number at a time, in integer arithmetic: the same result on every machine. */
#ifndef RWK_BASE_HALF_H
#define RWK_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float rwk_float_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t rwk_float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float rwk_bf16_to_float(uint16_t h)
{
    return rwk_float_from_bits((uint32_t)h << 16);
}

/* Round to nearest, ties to even; NaN stays NaN. */
static inline uint16_t rwk_float_to_bf16(float f)
{
    uint32_t bits = rwk_float_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* IEEE binary16, subnormals exact. The multiplication by 2^112 moves the exponent's bias from 15 to
 * 127. */
static inline float rwk_f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = (uint32_t)(h & 0x7fff) << 13;
    if (magnitude >= 0x0f800000u) /* infinity and NaN */
        return rwk_float_from_bits(sign | magnitude | 0x7f800000u);
    float f = rwk_float_from_bits(magnitude) * rwk_float_from_bits(0x77800000u);
    return rwk_float_from_bits(sign | rwk_float_bits(f));
}

/* Round to nearest, ties to even; overflow to infinity; subnormals exact; NaN stays NaN. */
static inline uint16_t rwk_float_to_f16(float f)
{
    uint32_t bits = rwk_float_bits(f), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00);
    if (a >= 0x47800000u) /* 65536 and above */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000u) { /* below 2^-14: the sum puts the bits in place and rounds in hardware, at
                              a fixed exponent */
        float sum = rwk_float_from_bits(a) + 0.5f;
        return (uint16_t)(sign | (rwk_float_bits(sum) - 0x3f000000u));
    }
    a += 0xc8000000u + 0xfff + (a >> 13 & 1); /* exponent bias 127 -> 15, rounding */
    return (uint16_t)(sign | a >> 13);
}

#endif
