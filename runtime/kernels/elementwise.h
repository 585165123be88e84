/* Sums, scales and bounds, element by element. The tail of a row goes through the same vector
 * operations as its body, with the missing lanes read as zero and not written; so a number's bits
 * do not depend on its place. */
#ifndef RWK_KERNELS_ELEMENTWISE_H
#define RWK_KERNELS_ELEMENTWISE_H

#include "runtime/kernels/mathfn.h"

/* Runs `statement`, which turns vectors a = p[i..], b = q[i..] into vf r, over n elements and
 * stores r to y. */
#define FOR_EACH_VECTOR(y, p, q, n, statement)                                                     \
    do {                                                                                           \
        size_t i_ = 0;                                                                             \
        for (; i_ + RWK_LANES <= (n); i_ += RWK_LANES) {                                           \
            vf a = vf_load((p) + i_), b = vf_load((q) + i_), r;                                    \
            (void)b;                                                                               \
            statement;                                                                             \
            vf_store((y) + i_, r);                                                                 \
        }                                                                                          \
        if (i_ < (n)) {                                                                            \
            vf a = vf_load_n((p) + i_, (n)-i_), b = vf_load_n((q) + i_, (n)-i_), r;                \
            (void)b;                                                                               \
            statement;                                                                             \
            vf_store_n((y) + i_, r, (n)-i_);                                                       \
        }                                                                                          \
    } while (0)

static void add(float *y, const float *x, size_t n)
{
    FOR_EACH_VECTOR(y, y, x, n, r = vf_add(a, b));
}

static void add_scaled(float *y, const float *x, float s, size_t n)
{
    const vf factor = vf_set1(s);
    FOR_EACH_VECTOR(y, y, x, n, r = vf_fma(factor, b, a));
}

static void scale(float *y, float s, size_t n)
{
    const vf factor = vf_set1(s);
    FOR_EACH_VECTOR(y, y, y, n, r = vf_mul(a, factor));
}

/* The operands' order lets NaN through. */
static void clip(float *y, float limit, size_t n)
{
    const vf high = vf_set1(limit), low = vf_set1(-limit);
    FOR_EACH_VECTOR(y, y, y, n, r = vf_min(high, vf_max(low, a)));
}

static void softcap(float *y, float cap, size_t n)
{
    const vf c = vf_set1(cap);
    FOR_EACH_VECTOR(y, y, y, n, r = vf_mul(c, vf_tanh(vf_div(a, c))));
}

#endif
