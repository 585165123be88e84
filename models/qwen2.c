/* Qwen1.5, Qwen2, Qwen2.5: LLaMA with biases on q, k and v. Layers from max_window_layers on slide
 * where use_sliding_window is set. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 4096, 32, 32, 0, 22016, 151936, 32768),
    RWK_QWEN_ROWS,
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_WEIGHT_ROWS,
    { 0 },
};

const struct rwk_arch rwk_arch_qwen2 = {
    .name = "qwen2",
    .model_types = "qwen2",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS },
    .config = config,
    .weights = weights,
    .finish = rwk_finish_qwen,
};
