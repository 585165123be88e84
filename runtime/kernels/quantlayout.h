/* How a quantised matrix lies in memory and in files. RWK_QUANT_ROWS rows (outputs) make a group, RWK_QUANT_BLOCK columns
 * (inputs) a block; each row of a block has one scale s, and its numbers q stand for s q.
 *
 *   data    [groups][blocks][block bytes]      scales   [groups][blocks][RWK_QUANT_ROWS] float16
 *
 *   Q8  512 bytes: [8 steps][16 rows][4]    column 4 step + i     int8, -127..127
 *   Q4  256 bytes: [4 steps][16 rows][4]    column 4 step + i     lower 4 bits, q + 8
 *                                           column 16 + 4 step + i   upper 4 bits
 *
 * Four columns of each of 16 rows side by side are what one dot-product instruction takes of a vector of any width, so that
 * every lane is one row and nothing is ever summed across lanes. Rows and columns that the matrix does not have are zero. */
#ifndef RWK_KERNELS_QUANTLAYOUT_H
#define RWK_KERNELS_QUANTLAYOUT_H

#include "runtime/kernels/kernels.h"

enum { RWK_QUANT_ROWS = 16, RWK_QUANT_BLOCK = 32 };

static inline bool rwk_is_quantized(enum rwk_element e) { return e >= RWK_ELEMENT_Q8; }
static inline bool rwk_is_q8(enum rwk_element e) { return e == RWK_ELEMENT_Q8 || e == RWK_ELEMENT_Q8_WIDE; }
static inline size_t rwk_quant_groups(size_t rows) { return (rows + RWK_QUANT_ROWS - 1) / RWK_QUANT_ROWS; }
static inline size_t rwk_quant_blocks(size_t cols) { return (cols + RWK_QUANT_BLOCK - 1) / RWK_QUANT_BLOCK; }
/* Bytes of a block of one group, without its scales, and of these. */
static inline size_t rwk_quant_block_bytes(enum rwk_element e)
{
    return RWK_QUANT_ROWS * RWK_QUANT_BLOCK / (rwk_is_q8(e) ? 1 : 2);
}
static inline size_t rwk_quant_scale_bytes(void) { return RWK_QUANT_ROWS * sizeof(uint16_t); }

/* Element [row][0 .. cols-1] of a matrix as floats, whatever it is stored as. */
void rwk_matrix_row(const struct rwk_kernels *kernels, const struct rwk_matrix *matrix, size_t row, float *y);

#endif
