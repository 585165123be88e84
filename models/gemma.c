/* Gemma 1: LLaMA with norms stored as w - 1, the embedding multiplied by sqrt(hidden), and a head
 * size of its own. The name "gelu" has always meant the tanh form here. */
#include "models/families.h"

#include <math.h>

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(28, 3072, 16, 16, 256, 24576, 256000, 8192),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-6),
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_WEIGHT_ROWS,
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    (void)config_root;
    (void)file;
    (void)error;
    facts->embed_scale = sqrt(facts->hidden_size);
    if (facts->activation == RWK_ACT_GELU_ERF)
        facts->activation = RWK_ACT_GELU_TANH;
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_gemma = {
    .name = "gemma",
    .model_types = "gemma",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .activation = RWK_ACT_GELU_TANH, .norm_weight_offset = 1 },
    .config = config,
    .weights = weights,
    .finish = finish,
};
