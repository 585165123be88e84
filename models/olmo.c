/* OLMo 1: LLaMA with layer norms that have no weights, and projections clipped to clip_qkv. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 4096, 32, 0, 0, 11008, 50304, 2048),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_NUMBER_ROW("clip_qkv", clip_qkv, 0, 1e-9, 1e9),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("embed_tokens.weight"),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_LLAMA_FFN_ROWS,
    { 0 },
};

const struct rwk_arch rwk_arch_olmo = {
    .name = "olmo",
    .model_types = "olmo",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .norm = RWK_NORM_LAYER, .norm_eps = 1e-5 },
    .config = config,
    .weights = weights,
};
