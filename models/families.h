/* What many families share: the spelling of LLaMA's config keys and tensors, which most later ones took over, as rows and
 * traits to be put into their tables. */
#ifndef RWK_MODELS_FAMILIES_H
#define RWK_MODELS_FAMILIES_H

#include "models/arch.h"

/* Bounds that no real model comes near; they keep products of sizes inside 64 bits. */
#define RWK_MAX_LAYERS 16384
#define RWK_MAX_WIDTH 16777216
#define RWK_MAX_POSITIONS 1099511627776.0

#define RWK_LLAMA_SHAPE_ROWS \
    { "num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), RWK_REQUIRED, 0, 1, RWK_MAX_LAYERS }, \
    { "hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), RWK_REQUIRED, 0, 1, RWK_MAX_WIDTH }, \
    { "num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), RWK_REQUIRED, 0, 1, RWK_MAX_WIDTH }, \
    { "num_key_value_heads", RWK_KEY_U32, RWK_FIELD(n_kv_heads), 0, 0, 1, RWK_MAX_WIDTH }, \
    { "head_dim", RWK_KEY_U32, RWK_FIELD(head_dim), 0, 0, 1, RWK_MAX_WIDTH }, \
    { "intermediate_size", RWK_KEY_U32, RWK_FIELD(ffn_size), RWK_REQUIRED, 0, 1, RWK_MAX_WIDTH }, \
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), RWK_REQUIRED, 0, 1, INT32_MAX }, \
    { "max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 2048, 1, RWK_MAX_POSITIONS }

#define RWK_LLAMA_TRAITS \
    .norm = RWK_NORM_RMS, .block = RWK_BLOCK_SEQUENTIAL, .qkv = RWK_QKV_CONCAT, .gated = true, \
    .activation = RWK_ACT_SILU, .embed_scale = 1, .residual_scale = 1, .logit_scale = 1, \
    .norms = RWK_HAS_ATTN_NORM | RWK_HAS_FFN_NORM | RWK_HAS_FINAL_NORM, \
    .position = "rope", .rope = { .default_theta = 10000 }

#define RWK_MATRIX(name, slot, rows, cols, flags) { name, true, slot, rows, cols, flags }
#define RWK_VECTOR(name, slot, size, flags) { name, false, slot, size, RWK_DIM_NONE, flags }

#define RWK_LLAMA_EMBED_ROWS \
    RWK_MATRIX("embed_tokens.weight", RWK_M_EMBED, RWK_DIM_VOCAB, RWK_DIM_WORD, 0), \
    RWK_MATRIX("lm_head.weight", RWK_M_HEAD, RWK_DIM_VOCAB, RWK_DIM_WORD, RWK_OR_TIED), \
    RWK_VECTOR("norm.weight", RWK_V_FINAL_NORM, RWK_DIM_HIDDEN, RWK_NORM_WEIGHT)

#define RWK_LLAMA_ATTENTION_ROWS \
    RWK_MATRIX("layers.%u.self_attn.q_proj.weight", RWK_M_Q, RWK_DIM_Q, RWK_DIM_HIDDEN, 0), \
    RWK_MATRIX("layers.%u.self_attn.k_proj.weight", RWK_M_K, RWK_DIM_KV, RWK_DIM_HIDDEN, 0), \
    RWK_MATRIX("layers.%u.self_attn.v_proj.weight", RWK_M_V, RWK_DIM_KV, RWK_DIM_HIDDEN, 0), \
    RWK_MATRIX("layers.%u.self_attn.o_proj.weight", RWK_M_O, RWK_DIM_HIDDEN, RWK_DIM_Q, 0), \
    RWK_VECTOR("layers.%u.self_attn.q_proj.bias", RWK_V_QKV_BIAS, RWK_DIM_Q, RWK_OPTIONAL), \
    RWK_VECTOR("layers.%u.self_attn.k_proj.bias", RWK_V_QKV_BIAS, RWK_DIM_KV, RWK_OPTIONAL | RWK_PART_K), \
    RWK_VECTOR("layers.%u.self_attn.v_proj.bias", RWK_V_QKV_BIAS, RWK_DIM_KV, RWK_OPTIONAL | RWK_PART_V), \
    RWK_VECTOR("layers.%u.self_attn.o_proj.bias", RWK_V_O_BIAS, RWK_DIM_HIDDEN, RWK_OPTIONAL)

#define RWK_LLAMA_FFN_ROWS \
    RWK_MATRIX("layers.%u.mlp.gate_proj.weight", RWK_M_GATE, RWK_DIM_FFN, RWK_DIM_HIDDEN, 0), \
    RWK_MATRIX("layers.%u.mlp.up_proj.weight", RWK_M_UP, RWK_DIM_FFN, RWK_DIM_HIDDEN, 0), \
    RWK_MATRIX("layers.%u.mlp.down_proj.weight", RWK_M_DOWN, RWK_DIM_HIDDEN, RWK_DIM_FFN, 0), \
    RWK_VECTOR("layers.%u.mlp.gate_proj.bias", RWK_V_GATE_BIAS, RWK_DIM_FFN, RWK_OPTIONAL), \
    RWK_VECTOR("layers.%u.mlp.up_proj.bias", RWK_V_UP_BIAS, RWK_DIM_FFN, RWK_OPTIONAL), \
    RWK_VECTOR("layers.%u.mlp.down_proj.bias", RWK_V_DOWN_BIAS, RWK_DIM_HIDDEN, RWK_OPTIONAL)

#define RWK_LLAMA_PRE_NORM_ROWS \
    RWK_VECTOR("layers.%u.input_layernorm.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN, RWK_NORM_WEIGHT), \
    RWK_VECTOR("layers.%u.post_attention_layernorm.weight", RWK_V_FFN_NORM, RWK_DIM_HIDDEN, RWK_NORM_WEIGHT)

#endif
