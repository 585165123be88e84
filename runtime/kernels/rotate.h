/* Rotary embeddings (Su et al. 2021): pairs of a head's numbers, turned by angles given as cosine
 * and sine. */
#ifndef RWK_KERNELS_ROTATE_H
#define RWK_KERNELS_ROTATE_H

#include "runtime/kernels/elementwise.h"

/* Pairs (m, m + n_pairs). */
static void rotate_half(float *x, const float *cos, const float *sin, uint32_t n_pairs)
{
    float *other = x + n_pairs;
    for (size_t i = 0; i < n_pairs; i += RWK_LANES) {
        size_t n = n_pairs - i < RWK_LANES ? n_pairs - i : RWK_LANES;
        vf a = vf_load_n(x + i, n), b = vf_load_n(other + i, n), c = vf_load_n(cos + i, n),
           s = vf_load_n(sin + i, n);
        vf_store_n(x + i, vf_sub(vf_mul(a, c), vf_mul(b, s)), n);
        vf_store_n(other + i, vf_add(vf_mul(b, c), vf_mul(a, s)), n);
    }
}

/* Pairs (2 m, 2 m + 1). */
static void rotate_pair(float *x, const float *cos, const float *sin, uint32_t n_pairs)
{
    for (size_t i = 0; i < n_pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cos[i] - b * sin[i];
        x[2 * i + 1] = b * cos[i] + a * sin[i];
    }
}

#endif
