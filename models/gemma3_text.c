/* Gemma 3, text: Gemma 2 without the cap on scores, with RMS norms on query and key heads, and two
 * ropes: sliding layers unscaled at a base of their own, every sixth layer full. */
#include "models/families.h"

#include <math.h>

enum { QUERY_SCALAR, PATTERN };
enum { FULL_TABLE, SLIDING_TABLE };

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(26, 2304, 8, 4, 256, 9216, 262208, 131072),
    RWK_GEMMA_ROWS(QUERY_SCALAR),
    { "final_logit_softcapping", RWK_KEY_F64, RWK_FIELD(logit_softcap), RWK_NULL_IS_OFF, 0, 1e-9,
      1e9 },
    RWK_NUMBER_ROW("sliding_window_pattern|_sliding_window_pattern", number[PATTERN], 6, 1, 1e6),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_GEMMA_WEIGHT_ROWS,
    RWK_VECTOR("layers.%u.self_attn.q_norm.weight", RWK_V_Q_NORM, RWK_DIM_HEAD, RWK_NORM_WEIGHT),
    RWK_VECTOR("layers.%u.self_attn.k_norm.weight", RWK_V_K_NORM, RWK_DIM_HEAD, RWK_NORM_WEIGHT),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    facts->embed_scale = sqrt(facts->hidden_size);
    for (uint32_t l = 0; l < facts->n_layers; l++) {
        facts->layers[l].attention_scale = 1 / sqrt(facts->number[QUERY_SCALAR]);
        facts->layers[l].window = (l + 1) % (uint32_t)facts->number[PATTERN] ? facts->window : 0;
    }
    enum rwk_status status = rwk_facts_windows_from_layer_types(facts, config_root, file, error);
    for (uint32_t l = 0; l < facts->n_layers; l++)
        facts->layers[l].rope_table = facts->layers[l].window ? SLIDING_TABLE : FULL_TABLE;
    return status;
}

const struct rwk_arch rwk_arch_gemma3_text = {
    .name = "gemma3_text",
    .model_types = "gemma3_text",
    .prefix = "model.",
    .traits = { RWK_GEMMA_TRAITS, .qk_norm = RWK_QK_NORM_RMS_HEAD,
                .rope = { .default_theta = 1e6,
                          .by_layer_type = true,
                          .local_theta_key = "rope_local_base_freq",
                          .default_local_theta = 1e4 } },
    .config = config,
    .weights = weights,
    .finish = finish,
};
