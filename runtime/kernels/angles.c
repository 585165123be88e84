#include "angles.h"
void rwk_sincos(double x, double *ret_sin, double *ret_cos)
{
    const double magic = 6755399441055744.0;
    double q = x * 0.63661977236758134308 + magic - magic;
    double r = ((x - q * 1.57079632673412561417e+00) - q * 6.07710050630396597660e-11) - q * 2.02226624879595063154e-21;
    double t = r * r;
    double s = 1.0 / 355687428096000.0, c = -1.0 / 6402373705728000.0;
    s = s * t - 1.0 / 1307674368000.0;
    s = s * t + 1.0 / 6227020800.0;
    s = s * t - 1.0 / 39916800.0;
    s = s * t + 1.0 / 362880.0;
    s = s * t - 1.0 / 5040.0;
    s = s * t + 1.0 / 120.0;
    s = s * t - 1.0 / 6.0;
    s = s * t * r + r;
    c = c * t + 1.0 / 20922789888000.0;
    c = c * t - 1.0 / 87178291200.0;
    c = c * t + 1.0 / 479001600.0;
    c = c * t - 1.0 / 3628800.0;
    c = c * t + 1.0 / 40320.0;
    c = c * t - 1.0 / 720.0;
    c = c * t + 1.0 / 24.0;
    c = c * t - 0.5;
    c = c * t + 1.0;
    int64_t quadrant = (int64_t)q & 3;
    *ret_sin = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
    *ret_cos = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
}
void rwk_angles(float *cos, float *sin, const float *inv_freq, float position, float factor, uint32_t n_pairs)
{
    for (uint32_t m = 0; m < n_pairs; m++) {
        float theta = position * inv_freq[m];
        double s, c;
        rwk_sincos(theta, &s, &c);
        cos[m] = (float)c * factor;
        sin[m] = (float)s * factor;
    }
}
