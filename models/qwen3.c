/* Qwen3 (dense): LLaMA with a head size of its own and an RMS norm on each query and key head
 * before the rotation. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 4096, 32, 32, 128, 22016, 151936, 32768),
    RWK_QWEN_ROWS,
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_WEIGHT_ROWS,
    RWK_VECTOR("layers.%u.self_attn.q_norm.weight", RWK_V_Q_NORM, RWK_DIM_HEAD, 0),
    RWK_VECTOR("layers.%u.self_attn.k_norm.weight", RWK_V_K_NORM, RWK_DIM_HEAD, 0),
    { 0 },
};

const struct rwk_arch rwk_arch_qwen3 = {
    .name = "qwen3",
    .model_types = "qwen3",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .qk_norm = RWK_QK_NORM_RMS_HEAD },
    .config = config,
    .weights = weights,
    .finish = rwk_finish_qwen,
};
