/* Phi-1, 1.5, 2: one layer norm for attention and feed-forward in parallel, biases everywhere, half
 * of each head rotated. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(24, 2048, 32, 0, 0, 8192, 51200, 2048),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("layer_norm_eps", 1e-5),
    { "qk_layernorm", RWK_KEY_ONLY_BOOL, 0, 0, 0, 0, 0 },
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("embed_tokens.weight"),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_VECTOR("lm_head.bias", RWK_V_HEAD_BIAS, RWK_DIM_VOCAB, RWK_OPTIONAL),
    RWK_NORM("final_layernorm", RWK_V_FINAL_NORM, 0),
    RWK_NORM("layers.%u.input_layernorm", RWK_V_ATTN_NORM, 0),
    RWK_QKVO_ROWS("layers.%u.self_attn.", "dense"),
    RWK_FFN_ROWS("layers.%u.mlp.fc1", "layers.%u.mlp.fc2"),
    { 0 },
};

const struct rwk_arch rwk_arch_phi = {
    .name = "phi",
    .model_types = "phi",
    .prefix = "model.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .block = RWK_BLOCK_PARALLEL,
                .activation = RWK_ACT_GELU_TANH, .norms = RWK_PRE_NORMS, .position = "rope",
                .rope = { .default_theta = 10000,
                          .default_partial = 0.5,
                          .partial_for_default = true } },
    .config = config,
    .weights = weights,
};
