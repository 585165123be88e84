/* Blocks of 32 floats -> integers and a scale: activations of quantised products, keys and values
 * of a quantised cache. A block depends on its own numbers only. */
#ifndef RWK_KERNELS_QUANTBLOCK_H
#define RWK_KERNELS_QUANTBLOCK_H

#include "runtime/kernels/simd.h"

enum { QUANT_FLOATS = 32, QUANT_X_VECTORS = QUANT_FLOATS / RWK_LANES };

RWK_INLINE float quant_lane_sum(vf v[QUANT_X_VECTORS])
{
    for (int half = QUANT_X_VECTORS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v[i] = vf_add(v[i], v[i + half]);
    return vf_sum(v[0]);
}

/* max|v| */
RWK_INLINE float quant_top(const vf v[QUANT_X_VECTORS])
{
    vf m = vf_abs(v[0]);
    for (int i = 1; i < QUANT_X_VECTORS; i++)
        m = vf_max(m, vf_abs(v[i]));
    return vf_max_lanes(m);
}

/* 0, or NaN if any of v is not finite */
RWK_INLINE float quant_taint(const vf v[QUANT_X_VECTORS])
{
    vf zero[QUANT_X_VECTORS];
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        zero[i] = vf_mul(v[i], vf_zero());
    return quant_lane_sum(zero);
}

/* v -> q, integral floats of at most `most`; returns the scale, and with it the sum of q. */
RWK_INLINE float quant_row_block(vf q[QUANT_X_VECTORS], const float *x, float most, float *ret_sum)
{
    vf v[QUANT_X_VECTORS], copy[QUANT_X_VECTORS];
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        v[i] = vf_load(x + i * RWK_LANES);
    const float top = quant_top(v), scale = top / most + quant_taint(v);
    const vf inverse =
        vf_set1(top > 1e-30f ? most / top : 0); /* below, the inverse would overflow */
    for (int i = 0; i < QUANT_X_VECTORS; i++)
        copy[i] = q[i] = vf_round(vf_mul(v[i], inverse));
    *ret_sum = scale * quant_lane_sum(copy);
    return scale;
}

#endif
