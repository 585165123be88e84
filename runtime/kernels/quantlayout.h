/* How a quantised matrix lies in memory and in files. RWK_QUANT_ROWS rows (outputs) make a group,
 * RWK_QUANT_BLOCK columns (inputs) a block; each row of a block has a scale s and a minimum m, and
 * its numbers q stand for m + s q.
 *
 *   data    [groups][blocks][block bytes]      scales   [groups][blocks][2: s, m][RWK_QUANT_ROWS]
 * float16
 *
 *   Q8  512 bytes: [8 steps][16 rows][4]    columns 4 step + 0, 2, 1, 3    q of 0..255
 *   Q4  256 bytes: [4 steps][16 rows][4]    columns 4 step + 0, 1, 2, 3    lower 4 bits: q of 0..15
 *                                           the same + 16                  upper 4 bits
 *
 * Four columns of each of 16 rows side by side are what one dot-product instruction takes of a
 * vector of any width, so that every lane is one row and nothing is ever summed across lanes; of Q8
 * every other byte, widened to 16 bits, are two neighbouring columns. Rows and columns that the
 * matrix does not have are zero. A minimum of its own makes the whole range of q count where a
 * block's numbers are not centred. */
#ifndef RWK_KERNELS_QUANTLAYOUT_H
#define RWK_KERNELS_QUANTLAYOUT_H

#include "runtime/kernels/kernels.h"

enum { RWK_QUANT_ROWS = 16, RWK_QUANT_BLOCK = 32 };

static inline bool rwk_is_quantized(enum rwk_element e)
{
    return e >= RWK_ELEMENT_Q8;
}
static inline bool rwk_is_q8(enum rwk_element e)
{
    return e == RWK_ELEMENT_Q8 || e == RWK_ELEMENT_Q8_WIDE;
}
static inline size_t rwk_quant_groups(size_t rows)
{
    return (rows + RWK_QUANT_ROWS - 1) / RWK_QUANT_ROWS;
}
static inline size_t rwk_quant_blocks(size_t cols)
{
    return (cols + RWK_QUANT_BLOCK - 1) / RWK_QUANT_BLOCK;
}
/* Bytes of a block of one group, without its scales, and of these. */
static inline size_t rwk_quant_block_bytes(enum rwk_element e)
{
    return RWK_QUANT_ROWS * RWK_QUANT_BLOCK / (rwk_is_q8(e) ? 1 : 2);
}
static inline size_t rwk_quant_scale_bytes(void)
{
    return 2 * RWK_QUANT_ROWS * sizeof(uint16_t);
}
/* Where column 0..31 of a row lies in the data of a block. */
static inline size_t rwk_quant_place(enum rwk_element e, size_t row, size_t column)
{
    const size_t byte = column % 4, step = rwk_is_q8(e) ? column / 4 : column % 16 / 4;
    return (step * RWK_QUANT_ROWS + row) * 4 +
           (rwk_is_q8(e) && (byte == 1 || byte == 2) ? 3 - byte : byte);
}

/* Element [row][0 .. cols-1] of a matrix as floats, whatever it is stored as. */
void rwk_matrix_row(const struct rwk_kernels *kernels, const struct rwk_matrix *matrix, size_t row,
                    float *y);

#endif
