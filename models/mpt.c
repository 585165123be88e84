/* MPT: ALiBi, layer norms without bias, no biases at all, projections clipped to clip_qkv.
 * attn_config.alibi_bias_max counts, as in the code that the models were trained with. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    { "n_layers|num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 24, 1, RWK_MAX_LAYERS },
    { "d_model|hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 2048, 1, RWK_MAX_WIDTH },
    { "n_heads|num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 16, 1, RWK_MAX_WIDTH },
    { "ffn_hidden_size", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 0, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 50368, 1, INT32_MAX },
    { "max_seq_len|max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 2048, 1,
      RWK_MAX_POSITIONS },
    RWK_EPS_ROW("layer_norm_epsilon", 1e-5),
    RWK_NUMBER_ROW("attn_config.clip_qkv", clip_qkv, 0, 1e-9, 1e9),
    RWK_NUMBER_ROW("attn_config.softmax_scale", attention_scale, 0, 1e-9, 1e9),
    RWK_NUMBER_ROW("attn_config.alibi_bias_max", request.alibi_bias_max, 8, 1e-9, 1e3),
    { "attn_config.alibi", RWK_KEY_ONLY_BOOL, 0, 0, 1, 0, 0 },
    { "attn_config.qk_ln", RWK_KEY_ONLY_BOOL, 0, 0, 0, 0, 0 },
    { "attn_config.prefix_lm", RWK_KEY_ONLY_BOOL, 0, 0, 0, 0, 0 },
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("wte.weight"),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_VECTOR("norm_f.weight", RWK_V_FINAL_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("blocks.%u.norm_1.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("blocks.%u.norm_2.weight", RWK_V_FFN_NORM, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("blocks.%u.attn.Wqkv.weight", RWK_M_QKV, RWK_DIM_QKV, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("blocks.%u.attn.out_proj.weight", RWK_M_O, RWK_DIM_HIDDEN, RWK_DIM_Q, 0),
    RWK_MATRIX("blocks.%u.ffn.up_proj.weight", RWK_M_UP, RWK_DIM_FFN, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("blocks.%u.ffn.down_proj.weight", RWK_M_DOWN, RWK_DIM_HIDDEN, RWK_DIM_FFN, 0),
    { 0 },
};

const struct rwk_arch rwk_arch_mpt = {
    .name = "mpt",
    .model_types = "mpt",
    .prefix = "transformer.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .qkv = RWK_QKV_CONCAT,
                .activation = RWK_ACT_GELU_ERF, .norms = RWK_PRE_NORMS, .position = "alibi",
                .request = { .alibi_scale = 1, .alibi_mpt_order = true } },
    .config = config,
    .weights = weights,
};
