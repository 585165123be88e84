/* Arcee AFM: LLaMA with a plain feed-forward of squared ReLU. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 2560, 32, 0, 0, 18432, 32000, 4096),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-5),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_FFN_ROWS("layers.%u.mlp.up_proj", "layers.%u.mlp.down_proj"),
    RWK_LLAMA_PRE_NORM_ROWS,
    { 0 },
};

const struct rwk_arch rwk_arch_arcee = {
    .name = "arcee",
    .model_types = "arcee",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .gated = false, .activation = RWK_ACT_RELU2 },
    .config = config,
    .weights = weights,
};
