/* Phi-3, Phi-3.5, Phi-4-mini: LLaMA with q, k, v in one matrix, gate and up in another, LongRoPE,
 * and a rotated part of the head. */
#include "models/families.h"

static const struct rwk_config_row config[] = {
    RWK_SHAPE_ROWS(32, 3072, 32, 0, 0, 8192, 32064, 4096),
    RWK_ACTIVATION_ROW("hidden_act"),
    RWK_EPS_ROW("rms_norm_eps", 1e-5),
    RWK_WINDOW_ROW(0),
    RWK_TIED_ROW(0),
    { 0 },
};

static const struct rwk_weight_row weights[] = {
    RWK_LLAMA_EMBED_ROWS,
    RWK_LLAMA_PRE_NORM_ROWS,
    RWK_MATRIX("layers.%u.self_attn.qkv_proj.weight", RWK_M_QKV, RWK_DIM_QKV, RWK_DIM_HIDDEN, 0),
    RWK_MATRIX("layers.%u.self_attn.o_proj.weight", RWK_M_O, RWK_DIM_HIDDEN, RWK_DIM_Q, 0),
    RWK_MATRIX("layers.%u.mlp.gate_up_proj.weight", RWK_M_GATE, RWK_DIM_FFN2, RWK_DIM_HIDDEN,
               RWK_SPLIT_GATE_UP),
    RWK_MATRIX("layers.%u.mlp.down_proj.weight", RWK_M_DOWN, RWK_DIM_HIDDEN, RWK_DIM_FFN, 0),
    { 0 },
};

const struct rwk_arch rwk_arch_phi3 = {
    .name = "phi3",
    .model_types = "phi3",
    .prefix = "model.",
    .traits = { RWK_LLAMA_TRAITS, .rope = { .default_theta = 10000,
                                            .partial_for_default = true,
                                            .su_is_longrope = true,
                                            .default_original = 4096 } },
    .config = config,
    .weights = weights,
};
