/* StarCoder2: LLaMA attention with biases, layer norms, a plain feed-forward. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(30, 3072, 24, 2, 0, 12288, 49152, 4096),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("norm_epsilon", 1e-5),
    RWK_WINDOW_ROW(0),
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_FFN_ROWS("layers.%u.mlp.c_fc", "layers.%u.mlp.c_proj"),
    RWK_LLAMA_PRE_NORM_ROWS,
    RWK_LLAMA_NORM_BIAS_ROWS,
    { 0 },
};

const struct rwk_arch rwk_arch_starcoder2 = {
    .name = "starcoder2",
    .model_types = "starcoder2",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .norm = RWK_NORM_LAYER, .gated = false,
                .activation = RWK_ACT_GELU_TANH },
    .config = config,
    .weights = weights,
};
