/* exp in double, in plain arithmetic: the same bits on every machine, so that a seed gives the same text everywhere.
 * x = n ln 2 + r; Taylor to r^13 (|r| <= 0.347: the first dropped term is below 1e-17). Below -708: 0. Arguments <= 709. */
#ifndef RWK_BASE_EXP_H
#define RWK_BASE_EXP_H

#include <stdint.h>
#include <string.h>

static inline double rwk_exp(double x)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    if (x < -708)
        return 0;
    double n = x * 1.4426950408889634074 + magic - magic;
    double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    for (int k = 12; k >= 1; k--) {
        static const double inverse[] = { 1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                          1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600 };
        p = p * r + inverse[k];
    }
    p = p * r + 1;
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

#endif
