/* The forward pass: rows in, logits out.
 *
 * A row is a token at a position of a sequence. One prompt in chunks, one step of one sequence and
 * one step of many are the same code with different rows; nothing in a row's result depends on the
 * other rows of the pass. */
#ifndef RWK_RUNTIME_DECODER_H
#define RWK_RUNTIME_DECODER_H

#include "runtime/base/pool.h"
#include "runtime/kvcache.h"

/* What a row needs of its session. */
struct rwk_sequence {
    struct rwk_kv_cache cache;
    float *inv_freq[RWK_MAX_ROPE_TABLES]; /* [n_pairs] frequencies now in force */
};

struct rwk_row {
    uint32_t token;
    bool wants_logits;
    uint64_t position;
    struct rwk_sequence *sequence;
};

/* Called once for each row that wants logits [vocab_size], on any worker; the buffer is the pass's.
 */
typedef void (*rwk_logits_fn)(void *arg, uint32_t row, const float *logits);

/* Consecutive rows of one sequence, attended to together. */
struct rwk_attention_unit {
    uint32_t row_begin, n_rows;
};

enum {
    RWK_LOGIT_ROWS = 16, /* rows whose logits are computed together */
    RWK_QUERY_BLOCK =
        32 /* query vectors of one key/value head handled together, at least one row's */
};

/* Buffers of a pass, carved out of one allocation. Strides are in floats, multiples of
 * RWK_VECTOR_FLOATS. */
struct rwk_workspace {
    uint32_t max_rows, n_workers;
    size_t x_stride, qkv_stride, heads_stride, ffn_stride, logits_stride, pairs_stride,
        prepared_stride /* bytes */;
    float *x;                         /* [max_rows][hidden] the residual stream */
    float *normed;                    /* [max_rows][hidden] what a sub-block reads */
    float *branch;                    /* [max_rows][hidden] what a sub-block gives */
    float *qkv;                       /* [max_rows][q + 2 kv] */
    float *heads;                     /* [max_rows][n_heads * head_dim] */
    float *gate, *up;                 /* [max_rows][ffn] */
    float *cos, *sin;                 /* [max_rows][tables][pairs] */
    float *logits;                    /* [RWK_LOGIT_ROWS][vocab] */
    unsigned char *prepared;          /* [max_rows] rows as a matrix product wants them */
    struct rwk_attention_unit *units; /* [max_rows] */
    uint32_t *wanted;                 /* [max_rows] rows whose logits are wanted */
    unsigned char *kernel_scratch;    /* [n_workers][RWK_KERNEL_SCRATCH] */
    unsigned char *query_scratch;     /* [n_workers][query_bytes] */
    size_t query_bytes;
    float *partial; /* [partial_capacity] states of single key blocks: out [v_stride], max, sum */
    size_t partial_capacity; /* in states */
};

/* Lays the workspace out from `base` on (NULL to learn the size only). False when the size does not
 * fit. */
bool rwk_workspace_layout(struct rwk_workspace *ret, const struct rwk_model *model,
                          uint32_t max_rows, uint32_t n_workers, uint64_t context, void *base,
                          size_t *ret_bytes);

struct rwk_pass {
    const struct rwk_model *model;
    struct rwk_workspace *ws;
    const struct rwk_executor *executor;
    const struct rwk_row *rows; /* [n_rows] */
    uint32_t n_rows;
    rwk_logits_fn on_logits;
    void *on_logits_arg;
    atomic_int *cancel; /* non-zero: stop soon */
    bool wide;          /* quantised weights are multiplied with float32 activations */
};

/* Evaluates the rows, whose positions the caller has reserved in their caches. False when
 * cancelled: the caches then hold garbage at these positions. */
bool rwk_forward(const struct rwk_pass *pass);

/* ---- the parts, in files of their own ---- */

static inline bool rwk_pass_cancelled(const struct rwk_pass *pass)
{
    return atomic_load_explicit(pass->cancel, memory_order_relaxed) != 0;
}

/* Runs fn over the pass's rows; few rows stay on the calling thread. */
void rwk_pass_rows(const struct rwk_pass *pass, uint32_t n_rows, rwk_task_fn fn, void *arg);

struct rwk_product {
    const struct rwk_matrix *w;
    float *y; /* [n_rows][y_stride] */
    size_t y_stride;
};
/* Brings row `row` of activations x[n] into the form that products with matrix `w` want. */
void rwk_product_prepare(const struct rwk_pass *pass, const struct rwk_matrix *w, uint32_t row,
                         const float *x, uint32_t n);
/* y = w x for up to 3 matrices over the n_rows rows of x [n_rows][x_stride]. `prepared`: the rows
 * were already prepared for the first matrix. */
void rwk_product_run(const struct rwk_pass *pass, const struct rwk_product *products,
                     uint32_t n_products, uint32_t n_rows, const float *x, size_t x_stride,
                     bool prepared);

/* Attention of one layer over all rows: ws->qkv (rotated, keys and values stored) -> ws->heads. */
void rwk_attention_run(const struct rwk_pass *pass, const struct rwk_layer *layer,
                       uint32_t n_units);
/* Splits the rows into units of consecutive positions; returns their number. */
uint32_t rwk_attention_units(const struct rwk_pass *pass);
size_t rwk_attention_query_bytes(const struct rwk_model *model);

#endif
