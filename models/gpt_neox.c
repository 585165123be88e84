/* Pythia, GPT-NeoX, RedPajama, OpenAssistant: two layer norms in parallel (or one after the other),
 * q, k, v of each head side by side. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(44, 6144, 64, 0, 0, 24576, 50432, 2048),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("layer_norm_eps", 1e-5),
    RWK_FLAG_ROW("use_parallel_residual", 0, 1),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("embed_in.weight"),
    RWK_HEAD_ROW("embed_out.weight|lm_head.weight"),
    RWK_NORM("final_layer_norm", RWK_V_FINAL_NORM, 0),
    RWK_NORM("layers.%u.input_layernorm", RWK_V_ATTN_NORM, 0),
    RWK_NORM("layers.%u.post_attention_layernorm", RWK_V_FFN_NORM, 0),
    RWK_LINEAR("layers.%u.attention.query_key_value", RWK_M_QKV, RWK_V_QKV_BIAS, RWK_DIM_QKV,
               RWK_DIM_HIDDEN, 0),
    RWK_LINEAR("layers.%u.attention.dense", RWK_M_O, RWK_V_O_BIAS, RWK_DIM_HIDDEN, RWK_DIM_Q, 0),
    RWK_FFN_ROWS("layers.%u.mlp.dense_h_to_4h", "layers.%u.mlp.dense_4h_to_h"),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    (void)config_root;
    (void)file;
    (void)error;
    facts->block = facts->flag[0] ? RWK_BLOCK_PARALLEL_NORMS : RWK_BLOCK_SEQUENTIAL;
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_gpt_neox = {
    .name = "gpt_neox",
    .model_types = "gpt_neox",
    .prefix = "gpt_neox.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .qkv = RWK_QKV_GROUPS,
                .activation = RWK_ACT_GELU_ERF, .norms = RWK_PRE_NORMS, .position = "rope",
                .rope = { .default_theta = 10000,
                          .theta_keys = "rope_theta|rotary_emb_base",
                          .partial_keys = "partial_rotary_factor|rotary_pct",
                          .default_partial = 0.25,
                          .partial_for_default = true } },
    .config = config,
    .weights = weights,
    .finish = finish,
};
