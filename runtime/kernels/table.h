/* The table of one instruction set. Included once, after its vocabulary, by isa_*.c. */
#include "runtime/kernels/kvpage.h"
#include "runtime/kernels/angles.h"

#include <math.h>
#include <string.h>

#include "runtime/kernels/ops_math.h"
#include "runtime/kernels/ops_rows.h"
#include "runtime/kernels/ops_matmul.h"
#include "runtime/kernels/ops_attention.h"

extern const struct rwk_kernels RWK_TABLE;

#define BY_ELEMENT(f) { [RWK_ELEMENT_F32] = f##_f32, [RWK_ELEMENT_F16] = f##_f16, [RWK_ELEMENT_BF16] = f##_bf16 }
#define BY_ACTIVATION(f)                                                                                      \
    { [RWK_ACT_SILU] = f##_silu, [RWK_ACT_RELU] = f##_relu, [RWK_ACT_GELU_ERF] = f##_gelu_erf,                \
      [RWK_ACT_GELU_TANH] = f##_gelu_tanh, [RWK_ACT_QUICK_GELU] = f##_quick_gelu, [RWK_ACT_RELU2] = f##_relu2 }

const struct rwk_kernels RWK_TABLE = {
    .name = RWK_TABLE_NAME,
    .prepared_size = { prepared_plain, prepared_plain, prepared_plain },
    .prepare = { [RWK_ELEMENT_F32] = prepare_plain, [RWK_ELEMENT_F16] = prepare_plain, [RWK_ELEMENT_BF16] = prepare_bf16 },
    .matmul = { [RWK_ELEMENT_F32] = { matmul_f32, matmul_transposed_f32 },
                [RWK_ELEMENT_F16] = { matmul_f16, matmul_transposed_f16 },
                [RWK_ELEMENT_BF16] = { matmul_bf16, matmul_transposed_bf16 } },
    .widen = BY_ELEMENT(widen),
    .narrow = BY_ELEMENT(narrow),
    .put_key = BY_ELEMENT(put_key),
    .put_value = BY_ELEMENT(put_value),
    .attention = attention,
    .attention_merge = attention_merge,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .activate = BY_ACTIVATION(activate),
    .gate = BY_ACTIVATION(gate),
    .add = add,
    .add_scaled = add_scaled,
    .scale = scale,
    .clip = clip,
    .softcap = softcap,
    .rotate_half = rotate_half,
    .rotate_pair = rotate_pair,
    .angles = rwk_angles,
    .log_sum = log_sum,
};
