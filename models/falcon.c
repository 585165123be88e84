/* Falcon, in four kinds: 7b (one norm, parallel, one key/value head), 40b and 180b
 * (new_decoder_architecture: two norms, groups), 11b (the same with one norm), rw (ALiBi, one
 * sub-block after the other, one key/value head each). */
#include "models/families.h"

#include <math.h>

enum { NEW, MULTI_QUERY, PARALLEL, ALIBI };
enum { NORMS };

static const struct rwk_config_row config[] = {
    { "num_hidden_layers|n_layer", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 32, 1, RWK_MAX_LAYERS },
    { "hidden_size|n_embed", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 4544, 1, RWK_MAX_WIDTH },
    { "num_attention_heads|n_head", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 71, 1, RWK_MAX_WIDTH },
    { "ffn_hidden_size", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 0, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 65024, 1, INT32_MAX },
    { "max_position_embeddings", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 2048, 1,
      RWK_MAX_POSITIONS },
    { "num_kv_heads", RWK_KEY_U32, RWK_FIELD(n_kv_heads), 0, 0, 1, RWK_MAX_WIDTH },
    RWK_ACTIVATION_ROW("activation"),
    RWK_EPS_ROW("layer_norm_epsilon", 1e-5),
    RWK_FLAG_ROW("new_decoder_architecture", NEW, 0),
    RWK_FLAG_ROW("multi_query", MULTI_QUERY, 1),
    RWK_FLAG_ROW("parallel_attn", PARALLEL, 1),
    RWK_FLAG_ROW("alibi", ALIBI, 0),
    RWK_NUMBER_ROW("num_ln_in_parallel_attn", number[NORMS], 2, 1, 2),
    RWK_TIED_ROW(1),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_EMBED_ROW("word_embeddings.weight"),
    RWK_HEAD_ROW("lm_head.weight"),
    RWK_NORM("ln_f", RWK_V_FINAL_NORM, 0),
    RWK_VECTOR("h.%u.input_layernorm.weight|h.%u.ln_attn.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN,
               0),
    RWK_VECTOR("h.%u.input_layernorm.bias|h.%u.ln_attn.bias", RWK_V_ATTN_NORM_BIAS, RWK_DIM_HIDDEN,
               RWK_OPTIONAL),
    RWK_VECTOR("h.%u.post_attention_layernorm.weight|h.%u.ln_mlp.weight", RWK_V_FFN_NORM,
               RWK_DIM_HIDDEN, RWK_OPTIONAL),
    RWK_VECTOR("h.%u.post_attention_layernorm.bias|h.%u.ln_mlp.bias", RWK_V_FFN_NORM_BIAS,
               RWK_DIM_HIDDEN, RWK_OPTIONAL),
    RWK_LINEAR("h.%u.self_attention.query_key_value", RWK_M_QKV, RWK_V_QKV_BIAS, RWK_DIM_QKV,
               RWK_DIM_HIDDEN, 0),
    RWK_LINEAR("h.%u.self_attention.dense", RWK_M_O, RWK_V_O_BIAS, RWK_DIM_HIDDEN, RWK_DIM_Q, 0),
    RWK_FFN_ROWS("h.%u.mlp.dense_h_to_4h", "h.%u.mlp.dense_4h_to_h"),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    (void)config_root;
    (void)file;
    (void)error;
    bool is_new = facts->flag[NEW], two = is_new && facts->number[NORMS] == 2;
    if (!is_new)
        facts->n_kv_heads = facts->flag[MULTI_QUERY] ? 1 : facts->n_heads;
    facts->block = two ? RWK_BLOCK_PARALLEL_NORMS
                 : is_new || facts->flag[PARALLEL] ? RWK_BLOCK_PARALLEL : RWK_BLOCK_SEQUENTIAL;
    if (facts->flag[ALIBI])
        facts->position = "alibi";
    facts->request.alibi_scale = (float)(1 / sqrt(facts->head_dim));
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_falcon = {
    .name = "falcon",
    .model_types = "falcon",
    .prefix = "transformer.",
    .traits = { RWK_PLAIN_SCALES, .norm = RWK_NORM_LAYER, .qkv = RWK_QKV_GROUPS,
                .activation = RWK_ACT_GELU_ERF, .norms = RWK_PRE_NORMS, .position = "rope",
                .rope = { .default_theta = 10000 },
                .request = { .alibi_bias_max = 8, .alibi_bf16 = true } },
    .config = config,
    .weights = weights,
    .finish = finish,
};
