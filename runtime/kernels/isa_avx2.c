/* Kernels for avx2; see table.h. */
#include "runtime/kernels/simd_avx2.h"
#include "runtime/kernels/table.h"
