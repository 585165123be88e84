/* GPT-2, DialoGPT, distilgpt2.
 *
 * x += c_proj(attention(ln_1(x)));  x += c_proj(gelu(c_fc(ln_2(x)))).  Learned positions; every
 * matrix of a layer is stored [in, out]; q, k and v are one matrix. Old files carry mask buffers
 * (h.*.attn.bias, masked_bias), which nothing here asks for.
 *
 * "position_embedding_type": "sinusoidal" is a key of this library's own: sines and cosines
 * interleaved as in "Attention Is All You Need" (3.5) in place of the wpe table; with
 * "scale_embedding" the token embedding is multiplied by sqrt(hidden). */
#include "models/families.h"

#include <math.h>
#include <string.h>

enum { SCALE_EMBEDDING, SCALE_ATTENTION, SCALE_BY_LAYER };

static const struct rwk_config_row config[] = {
    { "n_layer|num_hidden_layers", RWK_KEY_U32, RWK_FIELD(n_layers), 0, 12, 1, RWK_MAX_LAYERS },
    { "n_embd|hidden_size", RWK_KEY_U32, RWK_FIELD(hidden_size), 0, 768, 1, RWK_MAX_WIDTH },
    { "n_head|num_attention_heads", RWK_KEY_U32, RWK_FIELD(n_heads), 0, 12, 1, RWK_MAX_WIDTH },
    { "n_inner", RWK_KEY_U32, RWK_FIELD(ffn_size), 0, 0, 1, RWK_MAX_WIDTH },
    { "vocab_size", RWK_KEY_U32, RWK_FIELD(vocab_size), 0, 50257, 1, INT32_MAX },
    { "n_positions|max_position_embeddings|n_ctx", RWK_KEY_U64, RWK_FIELD(max_positions), 0, 1024,
      1, RWK_MAX_POSITIONS },
    { "activation_function", RWK_KEY_ACTIVATION, RWK_FIELD(activation), 0, 0, 0, 0 },
    { "layer_norm_epsilon", RWK_KEY_F64, RWK_FIELD(norm_eps), 0, 1e-5, 0, 1 },
    { "tie_word_embeddings", RWK_KEY_BOOL, RWK_FIELD(tied), 0, 1, 0, 0 },
    { "scale_embedding", RWK_KEY_BOOL, RWK_FIELD(flag[SCALE_EMBEDDING]), 0, 0, 0, 0 },
    { "scale_attn_weights", RWK_KEY_BOOL, RWK_FIELD(flag[SCALE_ATTENTION]), 0, 1, 0, 0 },
    { "scale_attn_by_inverse_layer_idx", RWK_KEY_BOOL, RWK_FIELD(flag[SCALE_BY_LAYER]), 0, 0, 0,
      0 },
    { "add_cross_attention", RWK_KEY_ONLY_BOOL, 0, 0, 0, 0, 0 },
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_MATRIX("wte.weight", RWK_M_EMBED, RWK_DIM_VOCAB, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("wpe.weight", RWK_M_POSITION, RWK_DIM_POSITIONS, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.ln_1.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.ln_1.bias", RWK_V_ATTN_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("h.%u.attn.c_attn.weight", RWK_M_QKV, RWK_DIM_QKV, RWK_DIM_HIDDEN, RWK_TRANSPOSED),
    RWK_VECTOR("h.%u.attn.c_attn.bias", RWK_V_QKV_BIAS, RWK_DIM_QKV, 0),
    RWK_MATRIX("h.%u.attn.c_proj.weight", RWK_M_O, RWK_DIM_HIDDEN, RWK_DIM_Q, RWK_TRANSPOSED),
    RWK_VECTOR("h.%u.attn.c_proj.bias", RWK_V_O_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.ln_2.weight", RWK_V_FFN_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("h.%u.ln_2.bias", RWK_V_FFN_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("h.%u.mlp.c_fc.weight", RWK_M_UP, RWK_DIM_FFN, RWK_DIM_HIDDEN, RWK_TRANSPOSED),
    RWK_VECTOR("h.%u.mlp.c_fc.bias", RWK_V_UP_BIAS, RWK_DIM_FFN, 0),
    RWK_MATRIX("h.%u.mlp.c_proj.weight", RWK_M_DOWN, RWK_DIM_HIDDEN, RWK_DIM_FFN, RWK_TRANSPOSED),
    RWK_VECTOR("h.%u.mlp.c_proj.bias", RWK_V_DOWN_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("ln_f.weight", RWK_V_FINAL_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("ln_f.bias", RWK_V_FINAL_NORM_BIAS, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("lm_head.weight", RWK_M_HEAD, RWK_DIM_VOCAB, RWK_DIM_HIDDEN, RWK_OR_TIED),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    const struct rwk_node *type = rwk_tree_member(config_root, "position_embedding_type");
    if (type && type->type != RWK_JSON_NULL) {
        bool sinusoidal = type->type == RWK_JSON_STRING && strcmp(type->string, "sinusoidal") == 0;
        if (!sinusoidal && (type->type != RWK_JSON_STRING || strcmp(type->string, "absolute") != 0))
            return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, type->key,
                               "must be \"absolute\" or \"sinusoidal\"");
        if (sinusoidal) {
            facts->position = "sinusoidal";
            facts->request.sinusoid = RWK_SINUSOID_INTERLEAVED;
        }
    }
    if (facts->flag[SCALE_EMBEDDING])
        facts->embed_scale = sqrt(facts->hidden_size);
    for (uint32_t l = 0; l < facts->n_layers; l++) {
        double scale = facts->flag[SCALE_ATTENTION] ? facts->attention_scale : 1;
        facts->layers[l].attention_scale = facts->flag[SCALE_BY_LAYER] ? scale / (l + 1) : scale;
    }
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_gpt2 = {
    .name = "gpt2",
    .model_types = "gpt2",
    .prefix = "transformer.",
    .traits = { .norm = RWK_NORM_LAYER,
                .block = RWK_BLOCK_SEQUENTIAL,
                .qkv = RWK_QKV_CONCAT,
                .activation = RWK_ACT_GELU_TANH,
                .embed_scale = 1,
                .residual_scale = 1,
                .logit_scale = 1,
                .norms = RWK_HAS_ATTN_NORM | RWK_HAS_FFN_NORM | RWK_HAS_FINAL_NORM,
                .position = "learned" },
    .config = config,
    .weights = weights,
    .finish = finish,
};
