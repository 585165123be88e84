/* The arithmetic, as a table of functions per instruction set. Everything above this file is
 * written once; everything below is written once over the small vector vocabulary of simd_*.h and
 * compiled once per instruction set.
 *
 * The contract that every row of the table honours (DESIGN.md, contract 2): the bits of an output
 * depend on its own inputs only: not on how many rows or tokens are computed in the call, nor on
 * how ranges are cut. So each output of a matrix product is one vector accumulator that runs over K
 * in ascending order (fused multiply-adds, a tail padded with zeros in the same accumulator) and
 * ends in one fixed reduction tree; attention works in blocks of RWK_KEY_BLOCK keys counted from
 * position 0, merged in ascending order. No libm: exp, tanh, erf, sin and cos are ours.
 *
 * Activations and accumulation are float32. Buffers of our own (prepared activations, scratch, KV
 * pages, outputs) are 64-byte aligned; weights may lie anywhere. No function allocates, fails or
 * reads outside what it was given. */
#ifndef RWK_KERNELS_KERNELS_H
#define RWK_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ropewalk/ropewalk.h>

enum {
    RWK_KEY_BLOCK = 64,     /* positions in a page of the cache, keys in a block of attention */
    RWK_VECTOR_FLOATS = 16, /* the widest vector; rows of buffers of ours are padded to it */
    RWK_MAX_HEAD_DIM = 512,
    RWK_KERNEL_SCRATCH = 512 << 10 /* bytes of scratch for each worker */
};

/* How the elements of a matrix, or of a KV page, are stored. */
enum rwk_element {
    RWK_ELEMENT_F32,
    RWK_ELEMENT_F16,
    RWK_ELEMENT_BF16,
    RWK_ELEMENT_Q8, /* blocks of 32 along K (quantlayout.h), multiplied with quantised activations
                     */
    RWK_ELEMENT_Q4,
    RWK_ELEMENT_Q8_WIDE, /* stored as Q8, Q4, multiplied with the float32 activations themselves */
    RWK_ELEMENT_Q4_WIDE,
    RWK_N_ELEMENTS
};

/* Bytes of an element that is stored by itself: F32, F16, BF16. */
static inline size_t rwk_element_bytes(enum rwk_element e)
{
    return e == RWK_ELEMENT_F32 ? 4 : 2;
}

/* A weight matrix of `rows` outputs by `cols` inputs, as stored.
 *   transposed == false: [rows][cols], `stride` elements from row to row (PyTorch's Linear)
 *   transposed == true:  [cols][rows], `stride` elements from input to input (GPT-2's Conv1D) */
struct rwk_matrix {
    const void *data;
    const void *scales; /* Q8, Q4: laid out as quantlayout.h says; else NULL */
    enum rwk_element element;
    bool transposed;
    uint32_t rows, cols;
    size_t stride;
};

/* y[t][o] = sum over k of w[o][k] * x[t][k], for all n_tokens tokens and the outputs [row_begin,
 * row_end). Ranges of quantised matrices begin and end at multiples of RWK_QUANT_ROWS or at the
 * matrix's end. */
struct rwk_matmul {
    const struct rwk_matrix *w;
    const void *x;   /* [n_tokens] rows as `prepare` left them, x_stride bytes apart */
    size_t x_stride; /* as prepared_size says */
    float *y;        /* [n_tokens][y_stride]; only columns row_begin..row_end-1 are written */
    size_t y_stride; /* floats */
    uint32_t n_tokens;
};

/* One block of keys for n_queries query vectors that share a key/value head: scores, softmax over
 * the block, weighted sum of values, merged into a running state. For each query i, with lo =
 * first[i], hi = last[i] (lo >= hi: nothing happens): s_j = softcap(q_i . k_j) + bias[i][j] j in
 * [lo, hi) m   = max s_j;  p_j = exp(s_j - m);  l = sum p_j (fixed tree);  o = sum p_j v_j (j
 * ascending) M = max(max_i, m); sum_i = sum_i exp(max_i - M) + l exp(m - M); out_i likewise; max_i
 * = M A fresh state is max = -infinity, sum = 0, out = 0. */
struct rwk_attention_block {
    const float *q; /* [n_queries][q_stride], already multiplied by the attention scale */
    size_t q_stride;
    const void *k; /* [head_dim][RWK_KEY_BLOCK]: dimensions by keys, in `element` */
    const void
        *v; /* [RWK_KEY_BLOCK][v_stride]: keys by dimensions, in `element`, padded with zeros */
    enum rwk_element element; /* F32, F16, BF16 or Q8 */
    uint32_t head_dim;
    uint32_t v_stride; /* head_dim rounded up to RWK_VECTOR_FLOATS */
    uint32_t n_queries;
    const uint32_t *first; /* [n_queries] visible keys within the block: [first, last) */
    const uint32_t *last;
    const float *bias; /* [n_queries][RWK_KEY_BLOCK] or NULL */
    float softcap;     /* cap * tanh(s / cap); 0: none */
    float *max, *sum;  /* [n_queries] running state */
    float *out;        /* [n_queries][v_stride] running state */
};

enum rwk_activation {
    RWK_ACT_SILU, /* x * sigmoid(x) */
    RWK_ACT_RELU,
    RWK_ACT_GELU_ERF,   /* x/2 (1 + erf(x / sqrt 2)) */
    RWK_ACT_GELU_TANH,  /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    RWK_ACT_QUICK_GELU, /* x * sigmoid(1.702 x) */
    RWK_ACT_RELU2,      /* max(x, 0)^2 */
    RWK_N_ACTIVATIONS
};

struct rwk_kernels {
    const char *name; /* "scalar", "avx2", "avx512", "neon" */

    /* Matrix products. `prepare` brings one row of activations x[n] into the form that matrices of
     * this element type want (order, padding with zeros, int8 blocks); prepared_size is what a row
     * then takes, in bytes, a multiple of 64. matmul: [element][transposed]; `scratch`:
     * RWK_KERNEL_SCRATCH bytes of this worker's. NULL: not to be had. */
    size_t (*prepared_size[RWK_N_ELEMENTS])(uint32_t n);
    void (*prepare[RWK_N_ELEMENTS])(void *dst, const float *x, uint32_t n);
    void (*matmul[RWK_N_ELEMENTS][2])(const struct rwk_matmul *m, uint32_t row_begin,
                                      uint32_t row_end, void *scratch);

    /* Q8, Q4: quantises RWK_QUANT_ROWS rows of n floats, `stride` apart, into one group of rows
     * (quantlayout.h). */
    void (*quantize[RWK_N_ELEMENTS])(void *data, void *scales, const float *rows, size_t stride,
                                     uint32_t n);

    /* n elements of a stored type to float and back (F32, F16, BF16; the latter rounds to nearest
     * even). src may lie anywhere. */
    void (*widen[RWK_N_ELEMENTS])(float *dst, const void *src, size_t n);
    void (*narrow[RWK_N_ELEMENTS])(void *dst, const float *src, size_t n);

    /* Stores one key or value vector of a head into slot 0..63 of its page; values are padded with
     * zeros to v_stride. */
    void (*put_key[RWK_N_ELEMENTS])(void *page, uint32_t slot, const float *k, uint32_t head_dim);
    void (*put_value[RWK_N_ELEMENTS])(void *page, uint32_t slot, const float *v, uint32_t head_dim);

    void (*attention)(const struct rwk_attention_block *block, void *scratch);
    /* state (max, sum, out[n]) merged with a later partial of the same query by attention's
     * formula. */
    void (*attention_merge)(float *max, float *sum, float *out, float later_max, float later_sum,
                            const float *later_out, uint32_t n);

    /* y[n] = x / sqrt(mean(x^2) + eps) * w;  w NULL: 1. y may be x in all of these. */
    void (*rms_norm)(float *y, const float *x, const float *w, uint32_t n, float eps);
    /* y[n] = (x - mean) / sqrt(var + eps) * w + b;  w, b NULL: 1, 0. */
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, uint32_t n,
                       float eps);

    void (*activate[RWK_N_ACTIVATIONS])(float *y, const float *x, size_t n); /* y = act(x) */
    void (*gate[RWK_N_ACTIVATIONS])(float *y, const float *gate, const float *up,
                                    size_t n); /* y = act(gate) * up */

    void (*add)(float *y, const float *x, size_t n);                 /* y += x */
    void (*add_scaled)(float *y, const float *x, float s, size_t n); /* y += s x */
    void (*scale)(float *y, float s, size_t n);                      /* y *= s */
    void (*clip)(float *y, float limit, size_t n);  /* y = min(max(y, -limit), limit) */
    void (*softcap)(float *y, float cap, size_t n); /* y = cap tanh(y / cap) */

    /* Turns n_pairs pairs of x by the angles given as cosines and sines [n_pairs]:
     * half: pairs (m, m + n_pairs); pair: pairs (2m, 2m + 1).  a' = a c - b s, b' = b c + a s. */
    void (*rotate_half)(float *x, const float *cos, const float *sin, uint32_t n_pairs);
    void (*rotate_pair)(float *x, const float *cos, const float *sin, uint32_t n_pairs);
    /* cos and sin of position * inv_freq[m] (one float32 product, as the reference forms it), times
     * `factor`. */
    void (*angles)(float *cos, float *sin, const float *inv_freq, float position, float factor,
                   uint32_t n_pairs);

    /* max of x[n], and sum of exp(x - max), for log-probabilities. */
    void (*log_sum)(const float *x, size_t n, float *ret_max, double *ret_sum);
};

/* The table for a level: AUTO is the best that this processor and operating system offer. NULL when
 * the level is not to be had here. The tables are constant. */
const struct rwk_kernels *rwk_kernels_get(enum rwk_cpu level);

#endif
