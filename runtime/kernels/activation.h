/* Activation functions, and products of an activation with a second row.
 *
 *   silu        x sigmoid(x)                     Elfwing et al. 2017
 *   relu        max(x, 0), NaN stays NaN
 *   gelu_erf    x Phi(x)                         Hendrycks & Gimpel 2016
 *   gelu_tanh   x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3); since (1 + tanh u) / 2 =
 * sigmoid(2 u), without the cancellation that the tanh form has at negative x quick_gelu  x
 * sigmoid(1.702 x) relu2       max(x, 0)^2                      So et al. 2021 */
#ifndef RWK_KERNELS_ACTIVATION_H
#define RWK_KERNELS_ACTIVATION_H

#include "runtime/kernels/elementwise.h"

RWK_INLINE vf act_silu(vf x)
{
    return vf_mul(x, vf_sigmoid(x));
}
RWK_INLINE vf act_relu(vf x)
{
    return vf_max(vf_zero(), x);
}
RWK_INLINE vf act_gelu_erf(vf x)
{
    return vf_mul(x, vf_normal_cdf(x));
}
RWK_INLINE vf act_gelu_tanh(vf x)
{
    vf cubic = vf_fma(vf_mul(vf_mul(x, x), x), vf_set1(0.044715f), x);
    return vf_mul(x, vf_sigmoid(vf_mul(cubic, vf_set1(1.59576912f)))); /* 2 sqrt(2/pi) */
}
RWK_INLINE vf act_quick_gelu(vf x)
{
    return vf_mul(x, vf_sigmoid(vf_mul(x, vf_set1(1.702f))));
}
RWK_INLINE vf act_relu2(vf x)
{
    vf p = act_relu(x);
    return vf_mul(p, p);
}

#define ACTIVATION(name)                                                                           \
    static void activate_##name(float *y, const float *x, size_t n)                                \
    {                                                                                              \
        FOR_EACH_VECTOR(y, x, x, n, r = act_##name(a));                                            \
    }                                                                                              \
    static void gate_##name(float *y, const float *gate, const float *up, size_t n)                \
    {                                                                                              \
        FOR_EACH_VECTOR(y, gate, up, n, r = vf_mul(act_##name(a), b));                             \
    }

ACTIVATION(silu)
ACTIVATION(relu)
ACTIVATION(gelu_erf)
ACTIVATION(gelu_tanh)
ACTIVATION(quick_gelu)
ACTIVATION(relu2)

#endif
