/* Kernels for avx512; see table.h. */
#include "runtime/kernels/simd_avx512.h"
#include "runtime/kernels/table.h"
