/* StableLM 2 and 3B: LLaMA with layer norms and a quarter of each head rotated; some with a
 * parallel feed-forward, some with a layer norm for each query and key head. */
#include "models/families.h"

enum { PARALLEL, QK_NORM };

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 2560, 32, 32, 0, 6912, 50304, 4096),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("layer_norm_eps", 1e-5),
    RWK_FLAG_ROW("use_parallel_residual", PARALLEL, 0),
    RWK_FLAG_ROW("qk_layernorm", QK_NORM, 0),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_ATTENTION_ROWS,
    RWK_LLAMA_FFN_ROWS,
    RWK_VECTOR("layers.%u.input_layernorm.weight", RWK_V_ATTN_NORM, RWK_DIM_HIDDEN, 0),
    RWK_VECTOR("layers.%u.post_attention_layernorm.weight", RWK_V_FFN_NORM, RWK_DIM_HIDDEN,
               RWK_OPTIONAL),
    RWK_LLAMA_NORM_BIAS_ROWS,
    RWK_VECTOR("layers.%u.self_attn.q_layernorm.norms.%u.weight", RWK_V_Q_NORM, RWK_DIM_HEADS,
               RWK_OPTIONAL | RWK_PER_HEAD),
    RWK_VECTOR("layers.%u.self_attn.k_layernorm.norms.%u.weight", RWK_V_K_NORM, RWK_DIM_KV_HEADS,
               RWK_OPTIONAL | RWK_PER_HEAD),
    { 0 },
};

static enum rwk_status finish(struct rwk_facts *facts, const struct rwk_node *config_root,
                              const char *file, struct rwk_error *error)
{
    (void)config_root;
    (void)file;
    (void)error;
    facts->block = facts->flag[PARALLEL] ? RWK_BLOCK_PARALLEL : RWK_BLOCK_SEQUENTIAL;
    facts->qk_norm = facts->flag[QK_NORM] ? RWK_QK_NORM_LAYER_HEAD : RWK_QK_NORM_NONE;
    return RWK_STATUS_OK;
}

const struct rwk_arch rwk_arch_stablelm = {
    .name = "stablelm",
    .model_types = "stablelm",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .norm = RWK_NORM_LAYER,
                .rope = { .default_theta = 10000,
                          .default_partial = 0.25,
                          .partial_for_default = true } },
    .config = config,
    .weights = weights,
    .finish = finish,
};
