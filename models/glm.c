/* GLM-4 (the "glm" type): LLaMA with biases on q, k, v, gate and up in one matrix, and half of each
 * head rotated in neighbouring pairs. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(40, 4096, 32, 2, 128, 13696, 151552, 131072),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1.5625e-7),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_PRE_NORM_ROWS,
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_MATRIX("layers.%u.mlp.gate_up_proj.weight", RWK_M_GATE, RWK_DIM_FFN2, RWK_DIM_HIDDEN,
               RWK_SPLIT_GATE_UP),
    RWK_MATRIX("layers.%u.mlp.down_proj.weight", RWK_M_DOWN, RWK_DIM_HIDDEN, RWK_DIM_FFN, 0),
    { 0 },
};

const struct rwk_arch rwk_arch_glm = {
    .name = "glm",
    .model_types = "glm",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .rope = { .default_theta = 10000,
                                            .default_partial = 0.5,
                                            .partial_for_default = true,
                                            .interleaved = true } },
    .config = config,
    .weights = weights,
};
