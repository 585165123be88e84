/* Gemma 2: Gemma with norms before and after both sub-blocks, soft caps on scores and logits, and a
 * window on every other layer. */
#include "models/families.h"

#include <math.h>

enum { QUERY_SCALAR };

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(26, 2304, 8, 4, 256, 9216, 256000, 8192),
    RWK_GEMMA_ROWS(QUERY_SCALAR),
    { "attn_logit_softcapping", RWK_KEY_F64, RWK_FIELD(attention_softcap), RWK_NULL_IS_OFF, 50,
      1e-9, 1e9 },
    { "final_logit_softcapping", RWK_KEY_F64, RWK_FIELD(logit_softcap), RWK_NULL_IS_OFF, 30, 1e-9,
      1e9 },
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_GEMMA_WEIGHT_ROWS,
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    facts->embed_scale = sqrt(facts->hidden_size);
    for (uint32_t l = 0; l < facts->n_layers; l++) {
        facts->layers[l].attention_scale = 1 / sqrt(facts->number[QUERY_SCALAR]);
        facts->layers[l].window = l % 2 == 0 ? facts->window : 0;
    }
    return rwk_facts_windows_from_layer_types(facts, config_root, file, error);
}

const struct rwk_arch rwk_arch_gemma2 = {
    .name = "gemma2",
    .model_types = "gemma2",
    .prefix = "model.",
    .traits = { RWK_GEMMA_TRAITS },
    .config = config,
    .weights = weights,
    .finish = finish,
};
