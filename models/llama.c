/* LLaMA and what follows it to the letter: Llama 1 to 3.x, TinyLlama, SmolLM, Yi, Vicuna,
 * CodeLlama, deepseek-coder.
 *
 * x += o(attention(rms(x)));  x += down(silu(gate(rms(x))) * up(rms(x)));  rotary positions in
 * halves; grouped queries. q, k, v and o have biases where the file holds them (attention_bias),
 * the feed-forward likewise (mlp_bias). */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 4096, 32, 0, 0, 11008, 32000, 2048),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-6),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_WEIGHT_ROWS,
    { 0 },
};

const struct rwk_arch rwk_arch_llama = {
    .name = "llama",
    .model_types = "llama",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS },
    .config = config,
    .weights = weights,
};
