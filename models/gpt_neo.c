/* GPT-Neo: GPT-2 with ordinary matrices, attention scores that are not scaled, and every other
 * layer local. */
#include "models/families.h"

#include <string.h>

static bool is_local(const struct rwk_node *kind)
{
    return kind->type == RWK_JSON_STRING && strcmp(kind->string, "local") == 0;
}

static const struct rwk_config_row config[] = {
    { "num_layers|num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 24, 1, RWK_MAX_LAYERS },
    { "hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 2048, 1, RWK_MAX_WIDTH },
    { "num_heads|num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 16, 1, RWK_MAX_WIDTH },
    { "intermediate_size", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 0, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 50257, 1, INT32_MAX },
    { "max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 2048, 1,
      RWK_MAX_POSITIONS },
    { "window_size", RWK_KEY_U64, RWK_FIELD(window), 0, 256, 1, RWK_MAX_POSITIONS },
    RWK_ACTIVATION_ROW("activation_function"),
    RWK_EPS_ROW("layer_norm_epsilon", 1e-5),
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("wte.weight"),
    RWK_POSITION_ROW("wpe.weight"),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_VECTOR("ln_f.weight", RWK_V_FINAL_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("ln_f.bias", RWK_V_FINAL_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_NORM("h.%u.ln_1", RWK_V_ATTN_NORM, 0),
    RWK_NORM("h.%u.ln_2", RWK_V_FFN_NORM, 0),
    RWK_QKVO_ROWS("h.%u.attn.attention.", "out_proj"),
    RWK_FFN_ROWS("h.%u.mlp.c_fc", "h.%u.mlp.c_proj"),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    const struct rwk_node *types = rwk_tree_member(config_root, "attention_types");
    if (types && types->type != RWK_JSON_ARRAY)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, "attention_types", "must be a list");
    uint32_t l = 0;
    for (const struct rwk_node *run = types ? types->children : NULL; run; run = run->next) {
        const struct rwk_node *kinds = run->children, *times = kinds ? kinds->next : NULL;
        if (run->type != RWK_JSON_ARRAY || !times || kinds->type != RWK_JSON_ARRAY ||
            !kinds->children || !times->is_integer)
            return rwk_fail_on(error, RWK_STATUS_FORMAT, file, "attention_types",
                               "must hold [[kinds], times] pairs");
        for (int64_t i = 0; i < times->integer && l < facts->n_layers; i++)
            for (const struct rwk_node *kind = kinds->children; kind && l < facts->n_layers;
                 kind = kind->next)
                facts->layers[l++].window = is_local(kind) ? facts->window : 0;
    }
    for (bool local = false; !types && l < facts->n_layers; local = !local)
        facts->layers[l++].window = local ? facts->window : 0;
    return l == facts->n_layers ? RWK_STATUS_OK
                                : rwk_fail_on(error, RWK_STATUS_FORMAT, file, "attention_types",
                                              "names %u of %u layers", l, facts->n_layers);
}

const struct rwk_arch rwk_arch_gpt_neo = {
    .name = "gpt_neo",
    .model_types = "gpt_neo",
    .prefix = "transformer.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .activation = RWK_ACT_GELU_TANH,
                .norms = RWK_PRE_NORMS, .attention_scale = 1, .position = "learned" },
    .config = config,
    .weights = weights,
    .finish = finish,
};
