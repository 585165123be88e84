/* Config keys of rotary positions, of both generations, and the caller's choice at load time ->
 * rope requests.
 *
 *   new   rope_parameters: { rope_type, rope_theta, partial_rotary_factor, factor, ... }, or such a
 *         dict for each layer type
 *   old   rope_theta, partial_rotary_factor, rope_scaling: null | { type | rope_type, factor, ... }
 *
 * Precedence, as in the reference implementation; null counts as absent:
 *   1. the dict is rope_scaling unless it is absent or empty, else rope_parameters
 *   2. theta and rotated share: inside the dict, else top level, else the family's default
 *   3. rope_type before type before "default"
 *   4. original_max_position_embeddings (llama3, yarn, longrope): top level, else inside the dict,
 *      else max_position_embeddings */
#ifndef RWK_MODELS_ROPE_KEYS_H
#define RWK_MODELS_ROPE_KEYS_H

#include "loaders/tree.h"
#include "runtime/position/position.h"

/* How a family spells and defaults its keys. */
struct rwk_rope_keys {
    double default_theta;
    const char *theta_keys;     /* top level, separated by '|'; NULL: "rope_theta" */
    const char *partial_keys;   /* the same for the rotated share; NULL: "partial_rotary_factor" */
    double default_partial;     /* 0: 1 */
    bool partial_for_default;   /* the share counts also where nothing is scaled */
    bool fixed_theta;           /* theta is default_theta whatever the config says */
    const char *rotary_dim_key; /* rotated dimensions as a number of their own (GPT-J), or NULL */
    uint32_t default_rotary_dim;
    bool interleaved;
    bool su_is_longrope; /* old names of Phi-3: "su" and "yarn" mean longrope */
    /* What a missing top-level original_max_position_embeddings is (Phi-3: 4096), also before one
     * inside the dict; 0: not there. */
    uint64_t default_original;
    /* Two tables, "full_attention" and "sliding_attention". Of the old generation the latter has
     * only its theta, and rope_scaling belongs to the former, where it also goes before what
     * rope_parameters says. */
    bool by_layer_type;
    const char *local_theta_key;
    double default_local_theta;
};

/* Fills request->rope and request->file from the config (the rest of the request is there
 * already). */
enum rwk_status rwk_rope_keys_read(struct rwk_position_request *request,
                                   const struct rwk_node *config, const char *file,
                                   const struct rwk_rope_keys *keys, struct rwk_arena *arena,
                                   struct rwk_error *error);

/* Lets the caller's rope_scaling, rope_theta and original_context replace what the config says.
 * In a model with two tables they mean the first, as the config's keys of these names do; a
 * rope_scaling by layer type, as in rope_parameters, reaches both. Whatever would not take effect
 * is an error that names the option. */
enum rwk_status rwk_rope_keys_override(struct rwk_position_request *request,
                                       const struct rwk_model_options *options,
                                       struct rwk_arena *arena, struct rwk_error *error);

#endif
