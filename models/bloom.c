/* BLOOM and BLOOMZ: ALiBi positions, a norm on the embedding, q, k and v of each head side by side
 * in one matrix; the feed-forward is 4 x hidden with the tanh form of GELU.
 * "apply_residual_connection_post_layernorm" takes the residual after the norm. pretraining_tp and
 * slow_but_exact only reorder sums. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    { "n_layer|num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 2, 1, RWK_MAX_LAYERS },
    { "hidden_size|n_embed", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 64, 1, RWK_MAX_WIDTH },
    { "n_head|num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 8, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 250880, 1, INT32_MAX },
    { "layer_norm_epsilon", RWK_KEY_F64, RWK_FIELD(norm_eps), 0, 1e-5, 0, 1 },
    { "apply_residual_connection_post_layernorm", RWK_KEY_BOOL, RWK_FIELD(residual_from_norm), 0, 0,
      0, 0 },
    { "tie_word_embeddings", RWK_KEY_BOOL, RWK_FIELD(tied), 0, 1, 0, 0 },
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_MATRIX("word_embeddings.weight", RWK_M_EMBED, RWK_DIM_VOCAB, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("word_embeddings_layernorm.weight", RWK_V_EMBED_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("word_embeddings_layernorm.bias", RWK_V_EMBED_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.input_layernorm.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.input_layernorm.bias", RWK_V_ATTN_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("h.%u.self_attention.query_key_value.weight", RWK_M_QKV, RWK_DIM_QKV, RWK_DIM_HIDDEN,
               0),
    RWK_VECTOR("h.%u.self_attention.query_key_value.bias", RWK_V_QKV_BIAS, RWK_DIM_QKV, 0),
    RWK_MATRIX("h.%u.self_attention.dense.weight", RWK_M_O, RWK_DIM_HIDDEN, RWK_DIM_Q, 0),
    RWK_VECTOR("h.%u.self_attention.dense.bias", RWK_V_O_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.post_attention_layernorm.weight", RWK_V_FFN_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.post_attention_layernorm.bias", RWK_V_FFN_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("h.%u.mlp.dense_h_to_4h.weight", RWK_M_UP, RWK_DIM_FFN, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.mlp.dense_h_to_4h.bias", RWK_V_UP_BIAS, RWK_DIM_FFN, 0),
    RWK_MATRIX("h.%u.mlp.dense_4h_to_h.weight", RWK_M_DOWN, RWK_DIM_HIDDEN, RWK_DIM_FFN, 0),
    RWK_VECTOR("h.%u.mlp.dense_4h_to_h.bias", RWK_V_DOWN_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("ln_f.weight", RWK_V_FINAL_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("ln_f.bias", RWK_V_FINAL_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("lm_head.weight", RWK_M_HEAD, RWK_DIM_VOCAB, RWK_DIM_HIDDEN, RWK_OR_TIED),
    { 0 },
};

const struct rwk_arch rwk_arch_bloom = {
    .name = "bloom",
    .model_types = "bloom",
    .prefix = "transformer.",
    .traits = { .norm = RWK_NORM_LAYER,
                .block = RWK_BLOCK_SEQUENTIAL,
                .qkv = RWK_QKV_GROUPS,
                .activation = RWK_ACT_GELU_TANH,
                .embed_scale = 1,
                .residual_scale = 1,
                .logit_scale = 1,
                .norms =
                    RWK_HAS_EMBED_NORM | RWK_HAS_ATTN_NORM | RWK_HAS_FFN_NORM | RWK_HAS_FINAL_NORM,
                .position = "alibi",
                .request = { .alibi_bias_max = 8, .alibi_scale = 1 } },
    .config = config,
    .weights = weights,
};
