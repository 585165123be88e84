/* Kernels for neon; see table.h. */
#include "runtime/kernels/simd_neon.h"
#include "runtime/kernels/table.h"
