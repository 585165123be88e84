/* Choosing a table: rows sorted best first, each with what it needs of processor and operating system. */
#include "runtime/kernels/kernels.h"

extern const struct rwk_kernels rwk_kernels_scalar;
#ifdef RWK_HAVE_AVX2
extern const struct rwk_kernels rwk_kernels_avx2;
#endif
#ifdef RWK_HAVE_AVX512
extern const struct rwk_kernels rwk_kernels_avx512;
#endif
#ifdef RWK_HAVE_NEON
extern const struct rwk_kernels rwk_kernels_neon;
#endif

static bool always(void) { return true; }

#if defined RWK_HAVE_AVX2 || defined RWK_HAVE_AVX512
/* The compiler's run-time asks the operating system, too (XGETBV), before it says yes to vector state. */
static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
#endif

#ifdef RWK_HAVE_AVX512
static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static const struct {
    enum rwk_cpu level;
    const struct rwk_kernels *table;
    bool (*is_supported)(void);
} tables[] = {
#ifdef RWK_HAVE_AVX512
    { RWK_CPU_AVX512, &rwk_kernels_avx512, has_avx512 },
#endif
#ifdef RWK_HAVE_AVX2
    { RWK_CPU_AVX2, &rwk_kernels_avx2, has_avx2 },
#endif
#ifdef RWK_HAVE_NEON
    { RWK_CPU_NEON, &rwk_kernels_neon, always },
#endif
    { RWK_CPU_SCALAR, &rwk_kernels_scalar, always },
};

const struct rwk_kernels *rwk_kernels_get(enum rwk_cpu level)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if ((level == RWK_CPU_AUTO || level == tables[i].level) && tables[i].is_supported())
            return tables[i].table;
    return NULL;
}
