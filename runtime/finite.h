/* Whether logits are numbers. By their bits: a compiler told that there are no others would drop a
 * comparison. */
#ifndef RWK_RUNTIME_FINITE_H
#define RWK_RUNTIME_FINITE_H

#include "runtime/base/error.h"
#include "runtime/base/exp.h"
#include "runtime/base/half.h"

/* The index of the first NaN or infinity in logits [n]; n where there is none. */
static inline size_t rwk_find_nonfinite(const float *logits, size_t n)
{
    const uint32_t exponent = 0x7f800000u;
    rwk_u32x4 bad = { 0 };
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        rwk_u32x4 bits;
        memcpy(&bits, logits + i, sizeof bits);
        bad |= (rwk_u32x4)((bits & exponent) == exponent);
    }
    for (i = bad[0] | bad[1] | bad[2] | bad[3] ? 0 : i; i < n; i++)
        if ((rwk_float_bits(logits[i]) & exponent) == exponent)
            break;
    return i;
}

#endif
