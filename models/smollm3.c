/* SmolLM3: LLaMA with layers that have no positions at all ("no_rope_layers": 0 stands for such a
 * layer). */
#include "models/families.h"

enum { USE_WINDOW = 0, INTERVAL = 0 };

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(36, 2048, 16, 4, 0, 11008, 128256, 32768),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-6),
    RWK_WINDOW_ROW(0),
    RWK_FLAG_ROW("use_sliding_window", USE_WINDOW, 0),
    RWK_NUMBER_ROW("no_rope_layer_interval", number[INTERVAL], 4, 1, 1e6),
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
    const struct rwk_node *list = rwk_tree_member(config_root, "no_rope_layers"), *use;
    bool given = list && list->type == RWK_JSON_ARRAY && list->n_children > 0;
    if (given && list->n_children != facts->n_layers)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, list->key,
                           "must have one entry for each of %u layers", facts->n_layers);
    use = given ? list->children : NULL;
    facts->window = facts->flag[USE_WINDOW] ? facts->window : 0;
    for (uint32_t l = 0; l < facts->n_layers; l++) {
        bool rope = use ? use->type == RWK_JSON_NUMBER && use->integer != 0
                        : (l + 1) % (uint32_t)facts->number[INTERVAL] != 0;
        facts->layers[l].rope_table = rope ? 0 : RWK_NO_ROPE;
        facts->layers[l].window = rope ? 0 : facts->window;
        use = use ? use->next : NULL;
    }
    return rwk_facts_windows_from_layer_types(facts, config_root, file, error);
}

const struct rwk_arch rwk_arch_smollm3 = {
    .name = "smollm3",
    .model_types = "smollm3",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .rope = { .default_theta = 2e6 } },
    .config = config,
    .weights = weights,
    .finish = finish,
};
