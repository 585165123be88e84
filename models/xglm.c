/* XGLM: pre-norm with biases everywhere, scaled embeddings, sinusoidal positions in the fairseq
 * layout. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    { "num_layers|num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 24, 1, RWK_MAX_LAYERS },
    { "d_model|hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 1024, 1, RWK_MAX_WIDTH },
    { "attention_heads|num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 16, 1,
      RWK_MAX_WIDTH },
    { "ffn_dim", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 4096, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 256008, 1, INT32_MAX },
    { "max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 2048, 1,
      RWK_MAX_POSITIONS },
    RWK_ACTIVATION_ROW("activation_function"),
    RWK_FLAG_ROW("scale_embedding", RWK_FLAG_SCALE_EMBEDDING, 1),
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("embed_tokens.weight"),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_FAIRSEQ_WEIGHT_ROWS,
    { 0 },
};

const struct rwk_arch rwk_arch_xglm = {
    .name = "xglm",
    .model_types = "xglm",
    .prefix = "model.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .norm_eps = 1e-5,
                .activation = RWK_ACT_GELU_ERF, .norms = RWK_PRE_NORMS, .position = "sinusoidal",
                .request = { .sinusoid = RWK_SINUSOID_FAIRSEQ } },
    .config = config,
    .weights = weights,
    .finish = rwk_finish_scale_embedding,
};
