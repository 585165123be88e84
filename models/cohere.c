/* Command R: one layer norm without bias for attention and feed-forward in parallel, rotation in
 * neighbouring pairs, scaled logits. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(40, 8192, 64, 0, 0, 22528, 256000, 8192),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("layer_norm_eps", 1e-5),
    RWK_NUMBER_ROW("logit_scale", logit_scale, 0.0625, -1e9, 1e9),
    RWK_FLAG_ROW("use_qk_norm", 0, 0),
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_LLAMA_FFN_ROWS,
    RWK_VECTOR("layers.%u.input_layernorm.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN, 0),
    { "layers.%u.self_attn.q_norm.weight", false, RWK_V_Q_NORM, RWK_DIM_HEADS, RWK_DIM_HEAD,
      RWK_OPTIONAL },
    { "layers.%u.self_attn.k_norm.weight", false, RWK_V_K_NORM, RWK_DIM_KV_HEADS, RWK_DIM_HEAD,
      RWK_OPTIONAL },
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    (void)config_root;
    (void)file;
    (void)error;
    facts->qk_norm = facts->flag[0] ? RWK_QK_NORM_LAYER_HEAD : RWK_QK_NORM_NONE;
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_cohere = {
    .name = "cohere",
    .model_types = "cohere",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .norm = RWK_NORM_LAYER, .block = RWK_BLOCK_PARALLEL,
                .rope = { .default_theta = 500000, .interleaved = true } },
    .config = config,
    .weights = weights,
    .finish = finish,
};
