/* OLMo 2: LLaMA with norms after the sub-blocks instead of before them, and an RMS norm over all
 * query and all key heads. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 4096, 32, 0, 0, 11008, 50304, 2048),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-5),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_LLAMA_FFN_ROWS,
    RWK_VECTOR("layers.%u.post_attention_layernorm.weight", RWK_V_ATTN_POST, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("layers.%u.post_feedforward_layernorm.weight", RWK_V_FFN_POST, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("layers.%u.self_attn.q_norm.weight", RWK_V_Q_NORM, RWK_DIM_Q, 0),
    RWK_VECTOR("layers.%u.self_attn.k_norm.weight", RWK_V_K_NORM, RWK_DIM_KV, 0),
    { 0 },
};

const struct rwk_arch rwk_arch_olmo2 = {
    .name = "olmo2",
    .model_types = "olmo2",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS,
                .norms = RWK_HAS_ATTN_POST | RWK_HAS_FFN_POST | RWK_HAS_FINAL_NORM,
                .qk_norm = RWK_QK_NORM_RMS_ALL },
    .config = config,
    .weights = weights,
};
