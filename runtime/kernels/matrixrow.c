/* See quantlayout.h. */
#include "runtime/kernels/quantlayout.h"

#include "runtime/base/half.h"

static void unpack_row(const struct rwk_matrix *m, size_t row, float *y)
{
    const size_t group = row / RWK_QUANT_ROWS, r = row % RWK_QUANT_ROWS, blocks = rwk_quant_blocks(m->cols);
    const size_t size = rwk_quant_block_bytes(m->element);
    const bool q8 = rwk_is_q8(m->element);
    for (size_t k = 0; k < m->cols; k++) {
        const size_t block = group * blocks + k / RWK_QUANT_BLOCK, column = k % RWK_QUANT_BLOCK;
        const unsigned char *data = (const unsigned char *)m->data + block * size;
        const size_t step = q8 ? column / 4 : column % 16 / 4, at = (step * RWK_QUANT_ROWS + r) * 4 + column % 4;
        const unsigned char *half = (const unsigned char *)m->scales + block * rwk_quant_scale_bytes() + 2 * r;
        const int q = q8 ? (int8_t)data[at] : (data[at] >> (column < 16 ? 0 : 4) & 15) - 8;
        y[k] = rwk_f16_to_float((uint16_t)(half[0] | half[1] << 8)) * (float)q;
    }
}

void rwk_matrix_row(const struct rwk_kernels *kernels, const struct rwk_matrix *m, size_t row, float *y)
{
    static const unsigned char bytes[] = { [RWK_ELEMENT_F32] = 4, [RWK_ELEMENT_F16] = 2, [RWK_ELEMENT_BF16] = 2 };
    if (rwk_is_quantized(m->element))
        unpack_row(m, row, y);
    else
        kernels->widen[m->element](y, (const char *)m->data + row * m->stride * bytes[m->element], m->cols);
}
