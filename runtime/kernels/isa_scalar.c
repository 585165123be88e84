/* Kernels for scalar; see table.h. */
#include "runtime/kernels/simd_scalar.h"
#include "runtime/kernels/table.h"
