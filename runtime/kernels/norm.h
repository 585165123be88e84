/* RMS norm (Zhang & Sennrich 2019), layer norm (Ba et al. 2016), and the sum behind
 * log-probabilities.
 *
 *   rms_norm    y = x / sqrt(mean(x^2) + eps) * w
 *   layer_norm  y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b, in two passes over x
 *   log_sum     max x, sum exp(x - max) in double
 *
 * Sums run in float64: RWK_LANES running sums, element i into sum i % RWK_LANES, folded half onto
 * half at the end. */
#ifndef RWK_KERNELS_NORM_H
#define RWK_KERNELS_NORM_H

#include "runtime/kernels/mathfn.h"

struct lane_sums {
    double lane[RWK_LANES];
};

RWK_INLINE void lane_sums_add(struct lane_sums *s, vf v)
{
    float f[RWK_LANES];
    vf_store(f, v);
    for (int i = 0; i < RWK_LANES; i++)
        s->lane[i] += (double)f[i];
}

/* Squares are taken in double too, where they are exact. */
RWK_INLINE void lane_sums_add_square(struct lane_sums *s, vf v)
{
    float f[RWK_LANES];
    vf_store(f, v);
    for (int i = 0; i < RWK_LANES; i++)
        s->lane[i] += (double)f[i] * (double)f[i];
}

RWK_INLINE double lane_sums_total(struct lane_sums *s)
{
    for (int half = RWK_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            s->lane[i] += s->lane[i + half];
    return s->lane[0];
}

static void rms_norm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    struct lane_sums sums = { { 0 } };
    size_t i = 0;
    for (; i + RWK_LANES <= n; i += RWK_LANES)
        lane_sums_add_square(&sums, vf_load(x + i));
    if (i < n)
        lane_sums_add_square(&sums, vf_load_n(x + i, n - i));
    const vf factor = vf_set1((float)(1 / sqrt(lane_sums_total(&sums) / n + (double)eps)));
    if (w)
        FOR_EACH_VECTOR(y, x, w, n, r = vf_mul(vf_mul(a, factor), b));
    else
        FOR_EACH_VECTOR(y, x, x, n, r = vf_mul(a, factor));
}

static void layer_norm(float *y, const float *x, const float *w, const float *bias, uint32_t n,
                       float eps)
{
    struct lane_sums sums = { { 0 } }, squares = { { 0 } };
    size_t i = 0;
    for (; i + RWK_LANES <= n; i += RWK_LANES)
        lane_sums_add(&sums, vf_load(x + i));
    if (i < n)
        lane_sums_add(&sums, vf_load_n(x + i, n - i));
    const vf mean = vf_set1((float)(lane_sums_total(&sums) / n));
    for (i = 0; i + RWK_LANES <= n; i += RWK_LANES)
        lane_sums_add_square(&squares, vf_sub(vf_load(x + i), mean));
    if (i < n)
        lane_sums_add_square(&squares, vf_select(vm_range(0, (int)(n - i)),
                                                 vf_sub(vf_load_n(x + i, n - i), mean), vf_zero()));
    const vf factor = vf_set1((float)(1 / sqrt(lane_sums_total(&squares) / n + (double)eps)));
    if (w)
        FOR_EACH_VECTOR(y, x, w, n, r = vf_mul(vf_mul(vf_sub(a, mean), factor), b));
    else
        FOR_EACH_VECTOR(y, x, x, n, r = vf_mul(vf_sub(a, mean), factor));
    if (bias)
        add(y, bias, n);
}

static void log_sum(const float *x, size_t n, float *ret_max, double *ret_sum)
{
    struct lane_sums sums = { { 0 } };
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++)
        max = x[i] > max || x[i] != x[i] ? x[i] : max;
    const vf m = vf_set1(max);
    size_t i = 0;
    for (; i + RWK_LANES <= n; i += RWK_LANES)
        lane_sums_add(&sums, vf_exp(vf_sub(vf_load(x + i), m)));
    if (i < n)
        lane_sums_add(&sums, vf_select(vm_range(0, (int)(n - i)),
                                       vf_exp(vf_sub(vf_load_n(x + i, n - i), m)), vf_zero()));
    *ret_max = max;
    *ret_sum = lane_sums_total(&sums);
}

#endif
