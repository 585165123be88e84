/* See angles.h. */
#include "runtime/kernels/angles.h"

#include <math.h>

static double polynomial(double x, const double *c, int n)
{
    double p = c[n - 1];
    for (int i = n - 2; i >= 0; i--)
        p = p * x + c[i];
    return p;
}

static void sine_cosine(float theta, float *ret_cos, float *ret_sin)
{
    static const double sine[] = { 1,           -1 / 6.,        1 / 120.,       -1 / 5040.,
                                   1 / 362880., -1 / 39916800., 1 / 6227020800. };
    static const double cosine[] = { 1,          -1 / 2.,       1 / 24.,       -1 / 720.,
                                     1 / 40320., -1 / 3628800., 1 / 479001600. };
    const double first = 0x1.921fap+0, second = 0x1.54442p-20, third = 0x1.a308d313198a3p-41;
    if (!(fabsf(theta) < 0x1p33f)) {
        *ret_cos = *ret_sin = NAN;
        return;
    }
    double turns = (double)theta * 0x1.45f306dc9c883p-1;
    int64_t k = (int64_t)(turns + (turns < 0 ? -0.5 : 0.5));
    double r = (((double)theta - (double)k * first) - (double)k * second) - (double)k * third;
    double s = r * polynomial(r * r, sine, 7), c = polynomial(r * r, cosine, 7);
    float quarter[4] = { (float)c, (float)-s, (float)-c, (float)s };
    *ret_cos = quarter[k & 3];
    *ret_sin = quarter[(k + 3) & 3];
}

void rwk_angles(float *cos, float *sin, const float *inv_freq, float position, float factor,
                uint32_t n_pairs)
{
    for (uint32_t i = 0; i < n_pairs; i++) {
        float c, s;
        sine_cosine(position * inv_freq[i], &c, &s);
        cos[i] = c * factor;
        sin[i] = s * factor;
    }
}
