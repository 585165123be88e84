/* OPT: learned positions from row 2 on; 350m takes its norms after the sub-blocks and embeds in a
 * narrower width that is projected in and out. */
#include "models/families.h"

enum { BEFORE, NO_FINAL };

static const struct rwk_config_row config[] = {
    { "num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 12, 1, RWK_MAX_LAYERS },
    { "hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 768, 1, RWK_MAX_WIDTH },
    { "num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 12, 1, RWK_MAX_WIDTH },
    { "ffn_dim", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 3072, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 50272, 1, INT32_MAX },
    { "max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 2048, 1,
      RWK_MAX_POSITIONS },
    { "word_embed_proj_dim", RWK_KEY_U32, RWK_FIELD(word_size), 0, 0, 1, RWK_MAX_WIDTH },
    RWK_ACTIVATION_ROW("activation_function"),
    RWK_FLAG_ROW("do_layer_norm_before", BEFORE, 1),
    RWK_FLAG_ROW("_remove_final_layer_norm", NO_FINAL, 0),
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("decoder.embed_tokens.weight"),
    RWK_POSITION_ROW("decoder.embed_positions.weight"),
    RWK_MATRIX("decoder.project_in.weight", RWK_M_PROJECT_IN, RWK_DIM_HIDDEN, RWK_DIM_WORD,
               RWK_OPTIONAL),
    RWK_MATRIX("decoder.project_out.weight", RWK_M_PROJECT_OUT, RWK_DIM_WORD, RWK_DIM_HIDDEN,
               RWK_OPTIONAL),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_NORM("decoder.final_layer_norm", RWK_V_FINAL_NORM, RWK_OPTIONAL),
    RWK_QKVO_ROWS("decoder.layers.%u.self_attn.", "out_proj"),
    RWK_NORM("decoder.layers.%u.self_attn_layer_norm", RWK_V_ATTN_NORM, RWK_OPTIONAL),
    RWK_NORM("decoder.layers.%u.self_attn_layer_norm", RWK_V_ATTN_POST, RWK_OPTIONAL),
    RWK_NORM("decoder.layers.%u.final_layer_norm", RWK_V_FFN_NORM, RWK_OPTIONAL),
    RWK_NORM("decoder.layers.%u.final_layer_norm", RWK_V_FFN_POST, RWK_OPTIONAL),
    RWK_FFN_ROWS("decoder.layers.%u.fc1", "decoder.layers.%u.fc2"),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    (void)config_root;
    (void)file;
    (void)error;
    bool before = facts->flag[BEFORE];
    facts->block = before ? RWK_BLOCK_SEQUENTIAL : RWK_BLOCK_POST_NORM;
    facts->norms =
        before ? RWK_HAS_ATTN_NORM | RWK_HAS_FFN_NORM : RWK_HAS_ATTN_POST | RWK_HAS_FFN_POST;
    if (before && !facts->flag[NO_FINAL])
        facts->norms |= RWK_HAS_FINAL_NORM;
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_opt = {
    .name = "opt",
    .model_types = "opt",
    .prefix = "model.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .norm_eps = 1e-5,
                .activation = RWK_ACT_RELU, .position = "learned",
                .request = { .learned_offset = 2 } },
    .config = config,
    .weights = weights,
    .finish = finish,
};
