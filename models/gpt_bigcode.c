/* StarCoder, SantaCoder: GPT-2 with ordinary matrices and one key/value head for all queries (or,
 * without multi_query, one each). */
#include "models/families.h"

enum { MULTI_QUERY, SCALE };

static const struct rwk_config_row config[] = {
    { "n_layer|num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 12, 1, RWK_MAX_LAYERS },
    { "n_embd|hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 768, 1, RWK_MAX_WIDTH },
    { "n_head|num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 12, 1, RWK_MAX_WIDTH },
    { "n_inner", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 0, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 50257, 1, INT32_MAX },
    { "n_positions|max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 1024, 1,
      RWK_MAX_POSITIONS },
    RWK_ACTIVATION_ROW("activation_function"),
    RWK_EPS_ROW("layer_norm_epsilon", 1e-5),
    RWK_FLAG_ROW("multi_query", MULTI_QUERY, 1),
    RWK_FLAG_ROW("scale_attn_weights", SCALE, 1),
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
    RWK_LINEAR("h.%u.attn.c_attn", RWK_M_QKV, RWK_V_QKV_BIAS, RWK_DIM_QKV, RWK_DIM_HIDDEN, 0),
    RWK_LINEAR("h.%u.attn.c_proj", RWK_M_O, RWK_V_O_BIAS, RWK_DIM_HIDDEN, RWK_DIM_Q, 0),
    RWK_FFN_ROWS("h.%u.mlp.c_fc", "h.%u.mlp.c_proj"),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    (void)config_root;
    (void)file;
    (void)error;
    facts->n_kv_heads = facts->flag[MULTI_QUERY] ? 1 : facts->n_heads;
    for (uint32_t l = 0; l < facts->n_layers && !facts->flag[SCALE]; l++)
        facts->layers[l].attention_scale = 1;
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_gpt_bigcode = {
    .name = "gpt_bigcode",
    .model_types = "gpt_bigcode",
    .prefix = "transformer.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .qkv = RWK_QKV_GROUPS,
                .activation = RWK_ACT_GELU_TANH, .norms = RWK_PRE_NORMS, .position = "learned" },
    .config = config,
    .weights = weights,
    .finish = finish,
};
