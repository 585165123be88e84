/* Granite 3.x (dense): LLaMA with multipliers on embedding, attention scores, residuals
 * and logits. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 4096, 32, 0, 0, 11008, 32000, 2048),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-6),
    RWK_NUMBER_ROW("embedding_multiplier", embed_scale, 1, -1e9, 1e9),
    RWK_NUMBER_ROW("residual_multiplier", residual_scale, 1, -1e9, 1e9),
    RWK_NUMBER_ROW("attention_multiplier", attention_scale, 1, 1e-9, 1e9),
    RWK_NUMBER_ROW("logits_scaling", number[0], 1, 1e-9, 1e9),
    RWK_TIED_ROW(0),
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
    facts->logit_scale = 1 / facts->number[0];
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_granite = {
    .name = "granite",
    .model_types = "granite",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS },
    .config = config,
    .weights = weights,
    .finish = finish,
};
