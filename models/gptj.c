/* GPT-J: one layer norm for attention and feed-forward in parallel, rotation of rotary_dim
 * dimensions in neighbouring pairs at base 10000. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    { "n_layer|num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 28, 1, RWK_MAX_LAYERS },
    { "n_embd|hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 4096, 1, RWK_MAX_WIDTH },
    { "n_head|num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 16, 1, RWK_MAX_WIDTH },
    { "n_inner", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 0, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 50400, 1, INT32_MAX },
    { "n_positions|max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 2048, 1,
      RWK_MAX_POSITIONS },
    RWK_ACTIVATION_ROW("activation_function"),
    RWK_EPS_ROW("layer_norm_epsilon", 1e-5),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("wte.weight"),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_VECTOR("lm_head.bias", RWK_V_HEAD_BIAS, RWK_DIM_VOCAB, RWK_OPTIONAL),
    RWK_VECTOR("ln_f.weight", RWK_V_FINAL_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("ln_f.bias", RWK_V_FINAL_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_NORM("h.%u.ln_1", RWK_V_ATTN_NORM, 0),
    RWK_QKVO_ROWS("h.%u.attn.", "out_proj"),
    RWK_FFN_ROWS("h.%u.mlp.fc_in", "h.%u.mlp.fc_out"),
    { 0 },
};

const struct rwk_arch rwk_arch_gptj = {
    .name = "gptj",
    .model_types = "gptj",
    .prefix = "transformer.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .block = RWK_BLOCK_PARALLEL,
                .activation = RWK_ACT_GELU_TANH, .norms = RWK_PRE_NORMS, .position = "rope",
                .rope = { .default_theta = 10000,
                          .fixed_theta = true,
                          .rotary_dim_key = "rotary_dim",
                          .default_rotary_dim = 64,
                          .interleaved = true } },
    .config = config,
    .weights = weights,
};
