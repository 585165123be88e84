/* Config keys of rotary positions, of both generations, and the caller's choice at load time -> rope requests. */
#ifndef RWK_MODELS_ROPE_KEYS_H
#define RWK_MODELS_ROPE_KEYS_H

#include "loaders/tree.h"
#include "runtime/position/position.h"

/* How a family spells and defaults its keys. */
struct rwk_rope_keys {
    double default_theta;
    const char *theta_keys;      /* top-level names, separated by '|'; NULL: "rope_theta" */
    const char *partial_keys;    /* the same for the rotated share of a head; NULL: "partial_rotary_factor" */
    double default_partial;      /* 0: 1 */
    bool partial_for_default;    /* the share counts also where nothing is scaled */
    bool fixed_theta;            /* theta is default_theta whatever the config says */
    const char *rotary_dim_key;  /* the rotated dimensions as a number of their own (GPT-J), or NULL */
    uint32_t default_rotary_dim;
    bool interleaved;
    uint64_t default_original;   /* a class default that counts like a top-level key (Phi-3: 4096); 0: none */
    bool su_is_longrope;         /* old names of Phi-3: "su" and "yarn" mean longrope */
    /* Two tables, "full_attention" and "sliding_attention"; the latter's theta when the config is of the old generation. */
    bool by_layer_type;
    const char *local_theta_key;
    double default_local_theta;
};

/* Fills request->rope from the config (the rest of the request is there already). Precedence, as in the reference: the dict
 * is rope_scaling if it is there and not empty, else rope_parameters; theta and share inside the dict, else top-level, else
 * the default; rope_type before type; a top-level original_max_position_embeddings before the inner one. */
enum rwk_status rwk_rope_keys_read(struct rwk_position_request *request, const struct rwk_node *config, const char *file,
                                   const struct rwk_rope_keys *keys, struct rwk_arena *arena, struct rwk_error *error);

/* Lets the caller's rope_scaling, rope_theta and original_context replace what the config says. Whatever would not take
 * effect is an error. */
enum rwk_status rwk_rope_keys_override(struct rwk_position_request *request, const struct rwk_model_options *options,
                                       struct rwk_arena *arena, struct rwk_error *error);

#endif
