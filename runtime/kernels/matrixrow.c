/* See quantlayout.h. */
#include "runtime/kernels/quantlayout.h"

#include "runtime/base/half.h"

static float half_at(const unsigned char *p)
{
    return rwk_f16_to_float((uint16_t)(p[0] | p[1] << 8));
}

static void unpack_row(const struct rwk_matrix *m, size_t row, float *y)
{
    const size_t r = row % RWK_QUANT_ROWS, first = row / RWK_QUANT_ROWS * rwk_quant_blocks(m->cols);
    for (size_t k = 0; k < m->cols; k++) {
        const size_t block = first + k / RWK_QUANT_BLOCK, column = k % RWK_QUANT_BLOCK;
        const unsigned char *data =
            (const unsigned char *)m->data + block * rwk_quant_block_bytes(m->element);
        const unsigned char *scales =
            (const unsigned char *)m->scales + block * rwk_quant_scale_bytes();
        const unsigned q = data[rwk_quant_place(m->element, r, column)];
        y[k] = half_at(scales + 2 * (RWK_QUANT_ROWS + r)) +
               half_at(scales + 2 * r) * (float)(rwk_is_q8(m->element) ? q
                                                 : column < 16         ? q & 15
                                                                       : q >> 4);
    }
}

void rwk_matrix_row(const struct rwk_kernels *kernels, const struct rwk_matrix *m, size_t row,
                    float *y)
{
    if (rwk_is_quantized(m->element))
        unpack_row(m, row, y);
    else
        kernels->widen[m->element](
            y, (const char *)m->data + row * m->stride * rwk_element_bytes(m->element), m->cols);
}
