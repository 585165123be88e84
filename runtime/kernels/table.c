/* The table of one instruction set, with everything it points to: compiled once for each (simd.h),
 * with that set's flags. No other object of the library contains its instructions. */
#include "runtime/kernels/activation.h"
#include "runtime/kernels/angles.h"
#include "runtime/kernels/attention.h"
#include "runtime/kernels/convert.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/kernels/kvput.h"
#include "runtime/kernels/matmul.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/panel.h"
#include "runtime/kernels/quant.h"
#include "runtime/kernels/rotate.h"
#include "runtime/kernels/tables.h"

#define FOR_ELEMENTS(f32, f16, bf16, q8, q4, wide)                                                 \
    {                                                                                              \
        [RWK_ELEMENT_F32] = f32, [RWK_ELEMENT_F16] = f16, [RWK_ELEMENT_BF16] = bf16,               \
        [RWK_ELEMENT_Q8] = q8, [RWK_ELEMENT_Q4] = q4, [RWK_ELEMENT_Q8_WIDE] = wide,                \
        [RWK_ELEMENT_Q4_WIDE] = wide                                                               \
    }
#define FOR_FLOATS(name)                                                                           \
    {                                                                                              \
        [RWK_ELEMENT_F32] = name##_f32, [RWK_ELEMENT_F16] = name##_f16,                            \
        [RWK_ELEMENT_BF16] = name##_bf16                                                           \
    }
#define FOR_CACHE(name)                                                                            \
    {                                                                                              \
        [RWK_ELEMENT_F32] = name##_f32, [RWK_ELEMENT_F16] = name##_f16,                            \
        [RWK_ELEMENT_BF16] = name##_bf16, [RWK_ELEMENT_Q8] = name##_q8                             \
    }
#define FOR_ACTIVATIONS(name)                                                                      \
    {                                                                                              \
        [RWK_ACT_SILU] = name##_silu, [RWK_ACT_RELU] = name##_relu,                                \
        [RWK_ACT_GELU_ERF] = name##_gelu_erf, [RWK_ACT_GELU_TANH] = name##_gelu_tanh,              \
        [RWK_ACT_QUICK_GELU] = name##_quick_gelu, [RWK_ACT_RELU2] = name##_relu2                   \
    }

const struct rwk_kernels RWK_ISA(rwk_kernels) = {
    .name = RWK_ISA_NAME,
    .prepared_size = FOR_ELEMENTS(prepared_size, prepared_size, prepared_size, prepared_size_q8,
                                  prepared_size_q4, prepared_size),
    .prepare = FOR_ELEMENTS(prepare_plain, prepare_plain, prepare_paired, prepare_q8, prepare_q4,
                            prepare_plain),
    .matmul = {
        [RWK_ELEMENT_F32] = { matmul_f32, matmul_transposed_f32 },
        [RWK_ELEMENT_F16] = { matmul_f16, matmul_transposed_f16 },
        [RWK_ELEMENT_BF16] = { matmul_bf16, matmul_transposed_bf16 },
        [RWK_ELEMENT_Q8] = { matmul_q8 },
        [RWK_ELEMENT_Q4] = { matmul_q4 },
        [RWK_ELEMENT_Q8_WIDE] = { matmul_q8_wide },
        [RWK_ELEMENT_Q4_WIDE] = { matmul_q4_wide },
    },
    .quantize = { [RWK_ELEMENT_Q8] = quantize_q8, [RWK_ELEMENT_Q4] = quantize_q4 },
    .widen = FOR_FLOATS(widen),
    .narrow = FOR_FLOATS(narrow),
    .put_key = FOR_CACHE(put_key),
    .put_value = FOR_CACHE(put_value),
    .attention = attention,
    .attention_merge = attention_merge,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .activate = FOR_ACTIVATIONS(activate),
    .gate = FOR_ACTIVATIONS(gate),
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
