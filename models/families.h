/* What many families share: the spelling of LLaMA's config keys and tensors, which most later ones
 * took over, as rows and traits to be put into their tables. */
#ifndef RWK_MODELS_FAMILIES_H
#define RWK_MODELS_FAMILIES_H

#include "models/arch.h"

/* Bounds that no real model comes near; they keep products of sizes inside 64 bits. */
#define RWK_MAX_LAYERS 16384
#define RWK_MAX_WIDTH 16777216
#define RWK_MAX_POSITIONS 1099511627776.0

/* Shapes under LLaMA's names; the numbers are the class defaults of the reference. */
#define RWK_SHAPE_ROWS(layers, hidden, heads, kv_heads, dim, ffn, vocab, positions) \
    { "num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, layers, 1, RWK_MAX_LAYERS }, \
    { "hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, hidden, 1, RWK_MAX_WIDTH }, \
    { "num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, heads, 1, RWK_MAX_WIDTH }, \
    { "num_key_value_heads", RWK_KEY_U32, RWK_FIELD(n_kv_heads), 0, kv_heads, 1, RWK_MAX_WIDTH }, \
    { "head_dim", RWK_KEY_U32, RWK_FIELD(head_dim), 0, dim, 1, RWK_MAX_WIDTH }, \
    { "intermediate_size", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, ffn, 1, RWK_MAX_WIDTH }, \
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, vocab, 1, INT32_MAX }, \
    { "max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, positions, 1, \
      RWK_MAX_POSITIONS }
#define RWK_EPS_ROW(key, value) { key, RWK_KEY_F64, RWK_FIELD(norm_eps), 0, value, 0, 1 }
#define RWK_TIED_ROW(value) { "tie_word_embeddings", RWK_KEY_BOOL, RWK_FIELD(tied), 0, value, 0, 0 }
#define RWK_ACTIVATION_ROW(key) { key, RWK_KEY_ACTIVATION, RWK_FIELD(activation), 0, 0, 0, 0 }
#define RWK_NUMBER_ROW(key, name, value, least, most) \
    { key, RWK_KEY_F64, RWK_FIELD(name), 0, value, least, most }
#define RWK_FLAG_ROW(key, which, value) \
    { key, RWK_KEY_BOOL, RWK_FIELD(flag[which]), 0, value, 0, 0 }
/* A window that is on unless the config says null. */
#define RWK_WINDOW_ROW(value) \
    { "sliding_window", RWK_KEY_U64, RWK_FIELD(window), RWK_NULL_IS_OFF, value, 1, \
      RWK_MAX_POSITIONS }

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
    RWK_VECTOR("layers.%u.self_attn.k_proj.bias", RWK_V_QKV_BIAS, RWK_DIM_KV, \
               RWK_OPTIONAL | RWK_PART_K), \
    RWK_VECTOR("layers.%u.self_attn.v_proj.bias", RWK_V_QKV_BIAS, RWK_DIM_KV, \
               RWK_OPTIONAL | RWK_PART_V), \
    RWK_VECTOR("layers.%u.self_attn.o_proj.bias", RWK_V_O_BIAS, RWK_DIM_HIDDEN, RWK_OPTIONAL)

#define RWK_LLAMA_FFN_ROWS \
    RWK_MATRIX("layers.%u.mlp.gate_proj.weight", RWK_M_GATE, RWK_DIM_FFN, RWK_DIM_HIDDEN, 0), \
    RWK_MATRIX("layers.%u.mlp.up_proj.weight", RWK_M_UP, RWK_DIM_FFN, RWK_DIM_HIDDEN, 0), \
    RWK_MATRIX("layers.%u.mlp.down_proj.weight", RWK_M_DOWN, RWK_DIM_HIDDEN, RWK_DIM_FFN, 0), \
    RWK_VECTOR("layers.%u.mlp.gate_proj.bias", RWK_V_GATE_BIAS, RWK_DIM_FFN, RWK_OPTIONAL), \
    RWK_VECTOR("layers.%u.mlp.up_proj.bias", RWK_V_UP_BIAS, RWK_DIM_FFN, RWK_OPTIONAL), \
    RWK_VECTOR("layers.%u.mlp.down_proj.bias", RWK_V_DOWN_BIAS, RWK_DIM_HIDDEN, RWK_OPTIONAL)

#define RWK_LLAMA_PRE_NORM_ROWS \
    RWK_VECTOR("layers.%u.input_layernorm.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN, \
               RWK_NORM_WEIGHT), \
    RWK_VECTOR("layers.%u.post_attention_layernorm.weight", RWK_V_FFN_NORM, RWK_DIM_HIDDEN, \
               RWK_NORM_WEIGHT)


/* The same norms with biases, for families that took LLaMA's names but not its RMS norm. */
#define RWK_LLAMA_NORM_BIAS_ROWS \
    RWK_VECTOR("norm.bias", RWK_V_FINAL_NORM_BIAS, RWK_DIM_HIDDEN, RWK_OPTIONAL), \
    RWK_VECTOR("layers.%u.input_layernorm.bias", RWK_V_ATTN_NORM_BIAS, RWK_DIM_HIDDEN, \
               RWK_OPTIONAL), \
    RWK_VECTOR("layers.%u.post_attention_layernorm.bias", RWK_V_FFN_NORM_BIAS, RWK_DIM_HIDDEN, \
               RWK_OPTIONAL)

/* A matrix and its bias, where the file has one. */
#define RWK_LINEAR(name, slot, bias_slot, rows, cols, flags) \
    RWK_MATRIX(name ".weight", slot, rows, cols, flags), \
    RWK_VECTOR(name ".bias", bias_slot, rows, RWK_OPTIONAL)
/* A norm's weight and bias, where the file has them. */
#define RWK_NORM(name, slot, flags) \
    RWK_VECTOR(name ".weight", slot, RWK_DIM_HIDDEN, flags), \
    RWK_VECTOR(name ".bias", (slot) + 1, RWK_DIM_HIDDEN, RWK_OPTIONAL)

/* q, k, v and o as separate matrices below `base`, the last under a name of its own. */
#define RWK_QKVO_ROWS(base, o) \
    RWK_LINEAR(base "q_proj", RWK_M_Q, RWK_V_QKV_BIAS, RWK_DIM_Q, RWK_DIM_HIDDEN, 0), \
    RWK_MATRIX(base "k_proj.weight", RWK_M_K, RWK_DIM_KV, RWK_DIM_HIDDEN, 0), \
    RWK_VECTOR(base "k_proj.bias", RWK_V_QKV_BIAS, RWK_DIM_KV, RWK_OPTIONAL | RWK_PART_K), \
    RWK_MATRIX(base "v_proj.weight", RWK_M_V, RWK_DIM_KV, RWK_DIM_HIDDEN, 0), \
    RWK_VECTOR(base "v_proj.bias", RWK_V_QKV_BIAS, RWK_DIM_KV, RWK_OPTIONAL | RWK_PART_V), \
    RWK_LINEAR(base o, RWK_M_O, RWK_V_O_BIAS, RWK_DIM_HIDDEN, RWK_DIM_Q, 0)
#define RWK_FFN_ROWS(up, down) \
    RWK_LINEAR(up, RWK_M_UP, RWK_V_UP_BIAS, RWK_DIM_FFN, RWK_DIM_HIDDEN, 0), \
    RWK_LINEAR(down, RWK_M_DOWN, RWK_V_DOWN_BIAS, RWK_DIM_HIDDEN, RWK_DIM_FFN, 0)
#define RWK_HEAD_ROW(name) RWK_MATRIX(name, RWK_M_HEAD, RWK_DIM_VOCAB, RWK_DIM_WORD, RWK_OR_TIED)
#define RWK_EMBED_ROW(name) RWK_MATRIX(name, RWK_M_EMBED, RWK_DIM_VOCAB, RWK_DIM_WORD, 0)
#define RWK_POSITION_ROW(name) \
    RWK_MATRIX(name, RWK_M_POSITION, RWK_DIM_POSITIONS, RWK_DIM_HIDDEN, 0)

/* Scales that do nothing. */
#define RWK_PLAIN_SCALES .embed_scale = 1, .residual_scale = 1, .logit_scale = 1
#define RWK_PRE_NORMS RWK_HAS_ATTN_NORM | RWK_HAS_FFN_NORM | RWK_HAS_FINAL_NORM

/* ---- what a few families share with each other ---- */

/* LLaMA to the letter. */
#define RWK_LLAMA_WEIGHT_ROWS \
    RWK_LLAMA_EMBED_ROWS, \
    RWK_LLAMA_ATTENTION_ROWS, \
    RWK_LLAMA_FFN_ROWS, \
    RWK_LLAMA_PRE_NORM_ROWS

/* Qwen2 and 3: windows from a layer on, if they are used at all. */
enum { RWK_FLAG_USE_WINDOW = 0, RWK_NUMBER_MAX_WINDOW_LAYERS = 0 };
#define RWK_QWEN_ROWS \
    RWK_ACTIVATION_ROW("hidden_act"), \
    RWK_EPS_ROW("rms_norm_eps", 1e-6), \
    RWK_WINDOW_ROW(4096), \
    RWK_FLAG_ROW("use_sliding_window", RWK_FLAG_USE_WINDOW, 0), \
    RWK_NUMBER_ROW("max_window_layers", number[RWK_NUMBER_MAX_WINDOW_LAYERS], 28, 0, 1e9), \
    RWK_TIED_ROW(0)
enum rwk_status rwk_finish_qwen(struct rwk_facts *facts, const struct rwk_node *config,
                                const char *file, struct rwk_error *error);

/* Gemma 2 and 3: norms before and after both sub-blocks. `scalar`: the number that
 * query_pre_attn_scalar goes to. */
#define RWK_GEMMA_ROWS(scalar) \
    RWK_ACTIVATION_ROW("hidden_activation"), \
    RWK_EPS_ROW("rms_norm_eps", 1e-6), \
    RWK_NUMBER_ROW("query_pre_attn_scalar", number[scalar], 256, 1e-9, 1e9), \
    RWK_WINDOW_ROW(4096), \
    RWK_TIED_ROW(1), \
    { "use_bidirectional_attention", RWK_KEY_ONLY_BOOL, 0, 0, 0, 0, 0 }
#define RWK_GEMMA_WEIGHT_ROWS \
    RWK_LLAMA_EMBED_ROWS, \
    RWK_LLAMA_ATTENTION_ROWS, \
    RWK_LLAMA_FFN_ROWS, \
    RWK_VECTOR("layers.%u.input_layernorm.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN, \
               RWK_NORM_WEIGHT), \
    RWK_VECTOR("layers.%u.post_attention_layernorm.weight", RWK_V_ATTN_POST, RWK_DIM_HIDDEN, \
               RWK_NORM_WEIGHT), \
    RWK_VECTOR("layers.%u.pre_feedforward_layernorm.weight", RWK_V_FFN_NORM, RWK_DIM_HIDDEN, \
               RWK_NORM_WEIGHT), \
    RWK_VECTOR("layers.%u.post_feedforward_layernorm.weight", RWK_V_FFN_POST, RWK_DIM_HIDDEN, \
               RWK_NORM_WEIGHT)
#define RWK_GEMMA_TRAITS \
    RWK_LLAMA_TRAITS, .activation = RWK_ACT_GELU_TANH, .norm_weight_offset = 1, \
                .norms = RWK_PRE_NORMS | RWK_HAS_ATTN_POST | RWK_HAS_FFN_POST

/* XGLM and BioGPT, which came from fairseq. */
enum { RWK_FLAG_SCALE_EMBEDDING = 0 };
#define RWK_FAIRSEQ_WEIGHT_ROWS \
    RWK_NORM("layer_norm", RWK_V_FINAL_NORM, 0), \
    RWK_QKVO_ROWS("layers.%u.self_attn.", "out_proj"), \
    RWK_NORM("layers.%u.self_attn_layer_norm", RWK_V_ATTN_NORM, 0), \
    RWK_NORM("layers.%u.final_layer_norm", RWK_V_FFN_NORM, 0), \
    RWK_FFN_ROWS("layers.%u.fc1", "layers.%u.fc2")
enum rwk_status rwk_finish_scale_embedding(struct rwk_facts *facts, const struct rwk_node *config,
                                           const char *file, struct rwk_error *error);

#endif
