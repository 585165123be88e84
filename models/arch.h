/* Families as tables.
 *
 * A family is one file with one `const struct rwk_arch`: which config keys it reads, what its
 * tensors are called and where they go, and its traits. Nothing outside the file knows its name;
 * registry.c lists it. What tables cannot say (a key that changes the kind of block, windows by
 * layer) is said by its `finish` function, which only fills in struct rwk_facts.
 *
 *   config.json --config rows--> facts --finish--> facts --position--> request
 *   weight rows --bind.c--> struct rwk_model
 */
#ifndef RWK_MODELS_ARCH_H
#define RWK_MODELS_ARCH_H

#include "loaders/tree.h"
#include "models/rope_keys.h"
#include "runtime/model.h"

enum rwk_qkv {
    RWK_QKV_CONCAT, /* all queries, all keys, all values: also where they are separate matrices */
    /* for each key/value head: its queries, its key, its value (one query each: BLOOM, NeoX) */
    RWK_QKV_GROUPS
};

/* What a config comes to: read by config rows, completed by `finish`. */
struct rwk_facts {
    uint32_t n_layers, hidden_size, word_size /* 0: hidden */, n_heads, n_kv_heads /* 0: n_heads */,
        head_dim /* 0: hidden / heads */, ffn_size, vocab_size;
    uint64_t max_positions, window;
    double norm_eps, embed_scale, residual_scale, attention_scale /* 0: 1/sqrt(head_dim) */,
        logit_scale, clip_qkv, attention_softcap, logit_softcap;
    bool tied;

    /* traits, copied from the family's row before its config is read */
    enum rwk_norm norm;
    enum rwk_block block;
    enum rwk_qkv qkv;
    enum rwk_qk_norm qk_norm;
    enum rwk_activation activation;
    uint32_t norms;
    bool gated, residual_from_norm;
    float norm_weight_offset;           /* 1: norms are stored as w - 1 */
    const char *position;               /* name of the position scheme */
    /* its details; n_heads, head_dim and the like are filled in at the end */
    struct rwk_position_request request;
    struct rwk_rope_keys rope;          /* how the family spells its rope keys */

    /* for `finish` only: raw values of keys that decide something; read by rows into these */
    bool flag[4];
    double number[2];

    /* by layer, [n_layers]; made after the config rows, before finish: window, attention_scale,
     * rope table 0 */
    struct rwk_layer_facts {
        uint64_t window;
        double attention_scale;
        int rope_table;
    } *layers;
};

enum rwk_key_type {
    RWK_KEY_U32,
    RWK_KEY_U64,
    RWK_KEY_F64,
    RWK_KEY_BOOL,
    RWK_KEY_ACTIVATION, /* a string -> enum rwk_activation */
    RWK_KEY_ONLY_NUMBER, /* must equal `fallback` if present: anything else is unsupported */
    RWK_KEY_ONLY_BOOL    /* the same for a boolean; null counts as absent */
};

enum { RWK_NULL_IS_OFF = 1 }; /* a key that is there and null means 0, not the fallback */

/* One config key. `keys`: alternatives separated by '|', the first that is present and not null
 * counts; dots descend into objects. */
struct rwk_config_row {
    const char *keys;
    enum rwk_key_type type;
    size_t field;           /* offset in struct rwk_facts */
    uint32_t flags;
    double fallback, min, max;
};
#define RWK_FIELD(name) offsetof(struct rwk_facts, name)

/* Dimensions that a weight can have. */
enum rwk_dimension {
    RWK_DIM_NONE,     /* a vector has one dimension only */
    RWK_DIM_HIDDEN, RWK_DIM_WORD, RWK_DIM_VOCAB, RWK_DIM_POSITIONS,
    RWK_DIM_Q, RWK_DIM_KV, RWK_DIM_QKV, RWK_DIM_HEAD,
    RWK_DIM_HEADS, RWK_DIM_KV_HEADS, /* how many there are */
    RWK_DIM_FFN, RWK_DIM_FFN2
};

enum {
    RWK_OPTIONAL = 1,       /* may be missing */
    RWK_TRANSPOSED = 2,     /* stored [in, out] */
    RWK_OR_TIED = 4,        /* the head: the embedding takes its place where the config ties them */
    RWK_PART_K = 8,         /* of the concatenated QKV bias: the keys' part */
    RWK_PART_V = 16,        /* the values' part */
    RWK_SPLIT_GATE_UP = 32, /* rows 0..ffn: gate, the rest: up */
    RWK_NORM_WEIGHT = 64,   /* norm_weight_offset is added */
    RWK_PER_HEAD = 128      /* the name has a second %u: one tensor for each query (or key) head */
};

/* One tensor. Name: %u stands for the layer; alternatives are separated by '|'. Without %u it is a
 * tensor of the whole model. Each is tried with and without the family's prefix. */
struct rwk_weight_row {
    const char *name;
    bool is_matrix;
    uint8_t slot;                 /* enum rwk_matrix_slot or rwk_vector_slot */
    enum rwk_dimension rows, cols;
    uint32_t flags;
};

struct rwk_arch {
    const char *name;
    const char *model_types;      /* values of "model_type", separated by '|' */
    const char *prefix;           /* such as "model." */
    struct rwk_facts traits;      /* starting values */
    const struct rwk_config_row *config; /* ends with keys NULL */
    const struct rwk_weight_row *weights; /* ends with name NULL */
    /* Completes the facts; config is the root object. May be NULL. */
    enum rwk_status (*finish)(struct rwk_facts *facts, const struct rwk_node *config,
                              const char *file, struct rwk_error *error);
};

/* registry.c: the family for a config, or an error that names model_type. */
enum rwk_status rwk_arch_find(const struct rwk_arch **ret_arch, const struct rwk_node *config,
                              const char *file, struct rwk_error *error);

/* facts.c: config -> facts. */
enum rwk_status rwk_facts_read(struct rwk_facts *ret_facts, const struct rwk_arch *arch,
                               const struct rwk_node *config, const char *file,
                               struct rwk_arena *arena, struct rwk_error *error);

/* position request of a config, by its family. */
enum rwk_status rwk_arch_position_request(struct rwk_position_request *ret, const char **ret_family,
                                          const struct rwk_node *config, const char *file,
                                          struct rwk_arena *arena, struct rwk_error *error);

struct rwk_weights_set;
struct rwk_quantizer;

/* What rwk_bind works on. Copies (widened vectors) go to the arena and are counted in
 * model->copied_bytes. */
struct rwk_binder {
    struct rwk_model *model;
    const struct rwk_arch *arch;
    const struct rwk_facts *facts;
    const struct rwk_weights_set *weights;
    bool *used;                   /* [n_tensors] set for each tensor that is bound */
    /* [n_tensors] the tensors that are, or were made, quantised matrices; others data NULL */
    struct rwk_matrix *quantized;
    struct rwk_arena *arena;
    struct rwk_quantizer *quantizer;
    enum rwk_element packed;      /* what tensors of dtype U8 hold: Q8 or Q4; F32: there are none */
    struct rwk_error *error;
    bool embedding_is_head;       /* rwk_bind's own */
};
/* bind.c: fills the model's matrices and vectors from the weights. */
enum rwk_status rwk_bind(struct rwk_binder *binder);

/* For finish functions: a per-layer list of strings ("layer_types"); NULL node: absent. */
enum rwk_status rwk_facts_windows_from_layer_types(struct rwk_facts *facts,
                                                   const struct rwk_node *config, const char *file,
                                                   struct rwk_error *error);

#endif
