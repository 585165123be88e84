/* XGLM: pre-norm with biases everywhere, scaled embeddings, sinusoidal positions in the fairseq layout. */
#include "models/families.h"

#include <math.h>

static const struct rwk_config_row config[] = {
    { "num_layers|num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 24, 1, RWK_MAX_LAYERS },
    { "d_model|hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 1024, 1, RWK_MAX_WIDTH },
    { "attention_heads|num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 16, 1, RWK_MAX_WIDTH },
    { "ffn_dim", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 4096, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 256008, 1, INT32_MAX },
    { "max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 2048, 1, RWK_MAX_POSITIONS },
    RWK_ACTIVATION_ROW("activation_function"),
    RWK_FLAG_ROW("scale_embedding", 0, 1),
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("embed_tokens.weight"),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_NORM("layer_norm", RWK_V_FINAL_NORM, 0),
    RWK_QKVO_ROWS("layers.%u.self_attn.", "out_proj"),
    RWK_NORM("layers.%u.self_attn_layer_norm", RWK_V_ATTN_NORM, 0),
    RWK_NORM("layers.%u.final_layer_norm", RWK_V_FFN_NORM, 0),
    RWK_FFN_ROWS("layers.%u.fc1", "layers.%u.fc2"),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root, const char *file,
                              struct rwk_error *error)
{
    (void)config_root;
    (void)file;
    (void)error;
    if (facts->flag[0])
        facts->embed_scale = sqrt(facts->hidden_size);
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_xglm = {
    .name = "xglm",
    .model_types = "xglm",
    .prefix = "model.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .norm_eps = 1e-5, .activation = RWK_ACT_GELU_ERF,
                .norms = RWK_PRE_NORMS, .position = "sinusoidal",
                .request = { .sinusoid = RWK_SINUSOID_FAIRSEQ } },
    .config = config,
    .weights = weights,
    .finish = finish,
};
