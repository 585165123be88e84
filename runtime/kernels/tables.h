/* The tables that were compiled in, and which of them this machine can run. */
#ifndef RWK_KERNELS_TABLES_H
#define RWK_KERNELS_TABLES_H

#include "runtime/kernels/kernels.h"

extern const struct rwk_kernels rwk_kernels_scalar, rwk_kernels_avx2, rwk_kernels_avx512,
    rwk_kernels_neon, rwk_kernels_dotprod;

#endif
