/* Mistral 7B, Nemo, Devstral, Dolphin: LLaMA with a sliding window on every layer (until
 * "sliding_window": null) and a head size of its own. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 4096, 32, 8, 0, 14336, 32000, 131072),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-6),
    RWK_WINDOW_ROW(4096),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_WEIGHT_ROWS,
    { 0 },
};

const struct rwk_arch rwk_arch_mistral = {
    .name = "mistral",
    .model_types = "mistral",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS },
    .config = config,
    .weights = weights,
};
