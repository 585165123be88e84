/* Qwen3 (dense): LLaMA with a head size of its own and an RMS norm on each query and key head before the rotation. */
#include "models/families.h"

enum { USE_WINDOW = 0, MAX_WINDOW_LAYERS = 0 };

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 4096, 32, 32, 128, 22016, 151936, 32768),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-6),
    RWK_WINDOW_ROW(4096),
    RWK_FLAG_ROW("use_sliding_window", USE_WINDOW, 0),
    RWK_NUMBER_ROW("max_window_layers", number[MAX_WINDOW_LAYERS], 28, 0, 1e9),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_LLAMA_FFN_ROWS,
    RWK_LLAMA_PRE_NORM_ROWS,
    RWK_VECTOR("layers.%u.self_attn.q_norm.weight", RWK_V_Q_NORM, RWK_DIM_HEAD, 0),
    RWK_VECTOR("layers.%u.self_attn.k_norm.weight", RWK_V_K_NORM, RWK_DIM_HEAD, 0),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root, const char *file,
                              struct rwk_error *error)
{
    const uint64_t window = facts->flag[USE_WINDOW] ? facts->window : 0;
    facts->window = window;
    for (uint32_t l = 0; l < facts->n_layers; l++)
        facts->layers[l].window = l >= facts->number[MAX_WINDOW_LAYERS] ? window : 0;
    return rwk_facts_windows_from_layer_types(facts, config_root, file, error);
}

const struct rwk_arch rwk_arch_qwen3 = {
    .name = "qwen3",
    .model_types = "qwen3",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .qk_norm = RWK_QK_NORM_RMS_HEAD },
    .config = config,
    .weights = weights,
    .finish = finish,
};
