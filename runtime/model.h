/* A model as the engine sees it: shapes, traits and weights, and nothing of files or family names.
 *
 * One decoder layer (x: the residual stream, [hidden]):
 *
 *   BLOCK_SEQUENTIAL       x += r * post_a(attention(pre_a(x)));  x += r * post_f(ffn(pre_f(x)))
 *   BLOCK_PARALLEL         n = pre_a(x);  x += attention(n) + ffn(n)
 *   BLOCK_PARALLEL_NORMS   x += attention(pre_a(x)) + ffn(pre_f(x))
 *   BLOCK_POST_NORM        x = post_a(x + attention(x));  x = post_f(x + ffn(x))
 *
 * where a norm that is not in `norms` is the identity, and with residual_from_norm the sum starts
 * from pre(x), not x. ffn: gated  down(act(gate x) * up x)      plain  down(act(up x))
 *
 * Made by models/open.c, constant afterwards. */
#ifndef RWK_RUNTIME_MODEL_H
#define RWK_RUNTIME_MODEL_H

#include <stdatomic.h>
#include "runtime/base/memory.h"
#include "runtime/kernels/kernels.h"
#include "runtime/position/position.h"

/* Matrices, [out][in]. */
enum rwk_matrix_slot {
    RWK_M_EMBED,       /* [vocab][word]: a table of rows, never a product unless tied to the head */
    RWK_M_POSITION,    /* [positions][hidden]: a table of rows */
    RWK_M_PROJECT_IN,  /* [hidden][word] */
    RWK_M_PROJECT_OUT, /* [word][hidden] */
    RWK_M_HEAD,        /* [vocab][word] */
    RWK_N_GLOBAL_MATRICES,

    RWK_M_QKV = 0, /* [q + 2 kv][hidden]; fused, or absent when Q, K, V are given */
    RWK_M_Q,
    RWK_M_K,
    RWK_M_V,
    RWK_M_O, /* [hidden][q] */
    RWK_M_GATE,
    RWK_M_UP,   /* [ffn][hidden] */
    RWK_M_DOWN, /* [hidden][ffn] */
    RWK_N_LAYER_MATRICES
};

/* Vectors, float32; NULL where the family has none. */
enum rwk_vector_slot {
    RWK_V_EMBED_NORM,
    RWK_V_EMBED_NORM_BIAS,
    RWK_V_FINAL_NORM,
    RWK_V_FINAL_NORM_BIAS,
    RWK_V_HEAD_BIAS,
    RWK_N_GLOBAL_VECTORS,

    RWK_V_ATTN_NORM = 0,
    RWK_V_ATTN_NORM_BIAS, /* pre_a  [hidden] */
    RWK_V_ATTN_POST,
    RWK_V_ATTN_POST_BIAS, /* post_a */
    RWK_V_FFN_NORM,
    RWK_V_FFN_NORM_BIAS, /* pre_f */
    RWK_V_FFN_POST,
    RWK_V_FFN_POST_BIAS, /* post_f */
    RWK_V_Q_NORM,
    RWK_V_K_NORM,   /* [head_dim], [heads * head_dim]: see rwk_qk_norm */
    RWK_V_QKV_BIAS, /* [q + 2 kv], in the order of the projected row */
    RWK_V_O_BIAS,
    RWK_V_GATE_BIAS,
    RWK_V_UP_BIAS,
    RWK_V_DOWN_BIAS,
    RWK_N_LAYER_VECTORS
};

enum rwk_norm { RWK_NORM_RMS, RWK_NORM_LAYER };
enum rwk_block {
    RWK_BLOCK_SEQUENTIAL,
    RWK_BLOCK_PARALLEL,
    RWK_BLOCK_PARALLEL_NORMS,
    RWK_BLOCK_POST_NORM
};
enum rwk_qk_norm {
    RWK_QK_NORM_NONE,
    RWK_QK_NORM_RMS_HEAD,  /* each head by itself, one weight [head_dim] */
    RWK_QK_NORM_RMS_ALL,   /* all heads as one vector, weight [heads * head_dim] */
    RWK_QK_NORM_LAYER_HEAD /* layer norm of each head, weight [heads][head_dim] */
};
/* Which norms are applied; bits of rwk_model.norms. */
enum {
    RWK_HAS_EMBED_NORM = 1,
    RWK_HAS_ATTN_NORM = 2,
    RWK_HAS_ATTN_POST = 4,
    RWK_HAS_FFN_NORM = 8,
    RWK_HAS_FFN_POST = 16,
    RWK_HAS_FINAL_NORM = 32
};

enum { RWK_NO_ROPE = -1, RWK_MAX_KV_GROUPS = 4 };

struct rwk_layer {
    struct rwk_matrix matrix[RWK_N_LAYER_MATRICES]; /* data NULL: absent */
    const float *vector[RWK_N_LAYER_VECTORS];
    float attention_scale;
    int rope_table;  /* RWK_NO_ROPE: q and k are not turned */
    uint64_t window; /* keys seen, the own one included; 0: all */
    uint32_t group;  /* of the cache: layers of one window */
    uint32_t index_in_group;
};

/* Layers whose cache has the same life: all positions, or a window of them. */
struct rwk_kv_group {
    uint64_t window;
    uint32_t n_layers;
};

struct rwk_model {
    /* shapes */
    uint32_t n_layers, hidden_size, word_size, n_heads, n_kv_heads, head_dim, ffn_size, vocab_size;
    /* where a head starts in the projected row [q + 2 kv] */
    const uint32_t *q_offset;            /* [n_heads] */
    const uint32_t *k_offset, *v_offset; /* [n_kv_heads] */

    /* traits */
    enum rwk_norm norm;
    enum rwk_block block;
    enum rwk_qk_norm qk_norm;
    enum rwk_activation activation;
    uint32_t norms;
    float norm_eps, qk_norm_eps;
    bool gated;
    bool residual_from_norm;
    float embed_scale, residual_scale, clip_qkv /* 0: none */, attention_softcap /* 0: none */;
    float logit_scale, logit_softcap /* 0: none */;

    /* weights */
    struct rwk_matrix matrix[RWK_N_GLOBAL_MATRICES];
    const float *vector[RWK_N_GLOBAL_VECTORS];
    struct rwk_layer *layers; /* [n_layers] */
    struct rwk_kv_group groups[RWK_MAX_KV_GROUPS];
    uint32_t n_groups;

    struct rwk_position_plan position;
    const struct rwk_kernels *kernels;
    uint64_t fingerprint; /* of what the numbers depend on (models/fingerprint.c) */
    uint64_t mapped_bytes, copied_bytes, n_parameters;
    uint32_t n_quantized;     /* matrices */
    uint64_t allocated_bytes; /* all that the model asked the allocator for and holds */

    struct rwk_generation_defaults generation;
    atomic_uint references;
    void *owner; /* what the maker needs to take it down: files, arena */
    void (*destroy)(struct rwk_model *model);
    /* Before every pass: fails where weights are no longer there to be read. */
    enum rwk_status (*check)(const struct rwk_model *model, struct rwk_error *error);
};

/* Floats of one projected row: queries, keys and values of all heads. */
static inline uint32_t rwk_qkv_size(const struct rwk_model *model)
{
    return (model->n_heads + 2 * model->n_kv_heads) * model->head_dim;
}

#endif
