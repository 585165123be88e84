/* exp, the logistic function, tanh and the normal distribution's cumulative function, lane by lane.
 *
 *   exp(x), x <= 0:   n = round(x / ln 2);  r = x - n ln 2, ln 2 in two parts;  2^n (1 + r + r^2
 * P(r)) sigmoid(x):       e = exp(-|x|);  x < 0: e / (1 + e), else 1 / (1 + e) tanh(x): |x| <
 * 0.625: x + x^3 P(x^2), else (1 - e) / (1 + e) with e = exp(-2 |x|) Phi(x):           z = |x| /
 * sqrt 2;  z < 1/2: (1 + erf z) / 2 with erf z = z P(z^2); else erfc by exp(-z^2) P(1 / (1 + z/2)),
 * where x is split so that x^2 is known beyond float32
 *
 * The polynomials are minimax fits (Remez) of our own with relative errors below 1e-8. Bounds that
 * checkkernels holds them to: exp 1.5 ulp, sigmoid and tanh 3 ulp, Phi 6 ulp. exp is 0 below -87;
 * NaN stays NaN. */
#ifndef RWK_KERNELS_MATHFN_H
#define RWK_KERNELS_MATHFN_H

#include "runtime/kernels/simd.h"

/* c[0] + c[1] x + ... + c[n-1] x^(n-1) */
RWK_INLINE vf vf_polynomial(vf x, const float *c, int n)
{
    vf p = vf_set1(c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        p = vf_fma(p, x, vf_set1(c[i]));
    return p;
}

/* x <= 0 */
RWK_INLINE vf vf_exp(vf x)
{
    static const float c[] = { 4.9999994e-01f, 1.6666521e-01f, 4.166839e-02f, 8.368745e-03f,
                               1.381454e-03f };
    const vf lowest = vf_set1(-87.0f);
    vf y = vf_max(lowest, x);
    vf n = vf_round(vf_mul(y, vf_set1(1.44269504f)));
    vf r = vf_fnma(n, vf_set1(0.693145751953125f), y); /* 16 bits: n times it is exact */
    r = vf_fnma(n, vf_set1(1.42860677e-6f), r);
    vf p = vf_fma(vf_mul(r, r), vf_polynomial(r, c, 5), r);
    return vf_select(vm_lt(x, lowest), vf_zero(), vf_scale2(vf_add(vf_set1(1), p), n));
}

RWK_INLINE vf vf_sigmoid(vf x)
{
    const vf one = vf_set1(1);
    vf e = vf_exp(vf_neg(vf_abs(x)));
    return vf_div(vf_select(vm_lt(x, vf_zero()), e, one), vf_add(one, e));
}

RWK_INLINE vf vf_tanh(vf x)
{
    static const float c[] = { -3.3333284e-01f, 1.3331491e-01f, -5.3743497e-02f, 2.0650588e-02f,
                               -5.7170456e-03f };
    const vf one = vf_set1(1);
    vf a = vf_abs(x), u = vf_mul(x, x);
    vf near = vf_fma(vf_mul(x, u), vf_polynomial(u, c, 5), x);
    vf e = vf_exp(vf_mul(a, vf_set1(-2)));
    vf far = vf_copysign(vf_div(vf_sub(one, e), vf_add(one, e)), x);
    return vf_select(vm_lt(a, vf_set1(0.625f)), near, far);
}

RWK_INLINE vf vf_normal_cdf(vf x)
{
    static const float erf_c[] = { 1.1283791e+00f, -3.7612608e-01f, 1.1282794e-01f, -2.675507e-02f,
                                   4.7132056e-03f };
    static const float erfc_c[] = { 4.135129e-06f,  2.819697e-01f,   2.8375188e-01f, 2.3418759e-01f,
                                    2.3771693e-01f, -1.1348298e-01f, 4.145171e-01f,  -6.187125e-01f,
                                    3.554369e-01f,  -7.5397894e-02f };
    static const float exp_c[] = { 1, -1, 0.5f, -1 / 6.0f, 1 / 24.0f }; /* exp(-d), d < 0.15 */
    const vf one = vf_set1(1), half = vf_set1(0.5f);
    x = vf_min(vf_set1(15), vf_max(vf_set1(-15), x)); /* beyond, it is 0 or 1 */
    vf z = vf_mul(x, vf_set1(0.707106781f)), a = vf_abs(z);
    vf near = vf_fma(vf_mul(z, half), vf_polynomial(vf_mul(z, z), erf_c, 5), half);
    /* exp(-x^2/2) = exp(-h^2/2) exp(-d), h = x without its low bits (h^2 is exact), d = (x - h)(x +
     * h)/2 small */
    vf h = vf_clear_low(x), d = vf_mul(vf_mul(vf_sub(x, h), vf_add(x, h)), half);
    vf e = vf_mul(vf_exp(vf_mul(vf_mul(h, h), vf_set1(-0.5f))), vf_polynomial(d, exp_c, 5));
    vf t = vf_div(one, vf_fma(a, half, one));
    vf tail = vf_mul(vf_mul(e, half), vf_polynomial(t, erfc_c, 10));
    vf far = vf_select(vm_lt(x, vf_zero()), tail, vf_sub(one, tail));
    return vf_select(vm_lt(a, half), near, far);
}

#endif
