/* LLaMA and what follows it to the letter: Llama 1 to 3.x, TinyLlama, SmolLM, Yi, Vicuna, CodeLlama, deepseek-coder.
 *
 * x += o(attention(rms(x)));  x += down(silu(gate(rms(x))) * up(rms(x)));  rotary positions in halves; grouped queries.
 * q, k, v and o have biases where the file holds them (attention_bias), the feed-forward likewise (mlp_bias). */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_LLAMA_SHAPE_ROWS,
    { "hidden_act", RWK_KEY_ACTIVATION, RWK_FIELD(activation), 0, 0, 0, 0 },
    { "rms_norm_eps", RWK_KEY_F64, RWK_FIELD(norm_eps), 0, 1e-6, 0, 1 },
    { "tie_word_embeddings", RWK_KEY_BOOL, RWK_FIELD(tied), 0, 0, 0, 0 },
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_LLAMA_FFN_ROWS,
    RWK_LLAMA_PRE_NORM_ROWS,
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
