/* The vector vocabulary in plain C: vectors of one float. */
#ifndef RWK_KERNELS_SIMD_SCALAR_H
#define RWK_KERNELS_SIMD_SCALAR_H
#include <math.h>
#include "runtime/base/half.h"
#define VF 1
#define TILE_ROWS 4
#define TILE_TOKENS 2
#define TILE_LANES 4
#define TILE_QUERIES 2
#define TILE_VECTORS 4
#define RWK_TABLE rwk_kernels_scalar
#define RWK_TABLE_NAME "scalar"
typedef float vf;
static inline vf vf_zero(void) { return 0; }
static inline vf vf_set1(float x) { return x; }
static inline vf vf_load(const float *p) { vf v; memcpy(&v, p, sizeof v); return v; }
static inline void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
static inline vf vf_load_n(const float *p, size_t n) { (void)n; return *p; }
static inline void vf_store_n(float *p, vf v, size_t n) { (void)n; *p = v; }
static inline vf vf_add(vf a, vf b) { return a + b; }
static inline vf vf_sub(vf a, vf b) { return a - b; }
static inline vf vf_mul(vf a, vf b) { return a * b; }
static inline vf vf_div(vf a, vf b) { return a / b; }
static inline vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf vf_max(vf a, vf b) { return a > b ? a : b; }
static inline vf vf_min(vf a, vf b) { return a < b ? a : b; }
static inline vf vf_abs(vf a) { return rwk_float_from_bits(rwk_float_bits(a) & 0x7fffffff); }
static inline vf vf_sign(vf a, vf b)
{
    return rwk_float_from_bits((rwk_float_bits(a) & 0x7fffffff) | (rwk_float_bits(b) & 0x80000000));
}
static inline vf vf_if_less(vf a, vf b, vf x, vf y) { return a < b ? x : y; }
static inline vf vf_ldexp(vf p, vf n)
{
    return rwk_float_from_bits(rwk_float_bits(p) + ((uint32_t)(int32_t)n << 23));
}
static inline float vf_sum(vf v) { return v; }
static inline float vf_hmax(vf v) { return v; }
static inline vf vf_from_f16(const void *p) { uint16_t h; memcpy(&h, p, 2); return rwk_f16_to_float(h); }
static inline vf vf_from_bf16(const void *p) { uint16_t h; memcpy(&h, p, 2); return rwk_bf16_to_float(h); }
static inline void vf_from_bf16_pair(const void *p, vf *even, vf *odd)
{
    *even = vf_from_bf16(p);
    *odd = vf_from_bf16((const char *)p + 2);
}
static inline void vf_to_f16(void *p, vf v) { uint16_t h = rwk_float_to_f16(v); memcpy(p, &h, 2); }
static inline void vf_to_bf16(void *p, vf v) { uint16_t h = rwk_float_to_bf16(v); memcpy(p, &h, 2); }
#endif
