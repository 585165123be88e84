/* Which table a level of the processor stands for. Rows are sorted best first; a row is to be had
 * when it was compiled in and processor and operating system both offer what its code needs
 * (__builtin_cpu_supports asks XGETBV whether the system saves the wide registers). */
#include "runtime/kernels/tables.h"

#include <stddef.h>
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(RWK_HAVE_AVX2) || defined(RWK_HAVE_AVX512)
#include <cpuid.h>

/* Not every compiler's builtin knows F16C, which needs no other registers than AVX. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

#if defined(__aarch64__) && defined(__linux__)
static bool has_dotprod(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}
#else
static inline bool has_dotprod(void)
{
    return false;
}
#endif

static bool always(void)
{
    return true;
}

static const struct {
    enum rwk_cpu level;
    const struct rwk_kernels *table;
    bool (*offered)(void);
} rows[] = {
#ifdef RWK_HAVE_AVX512
    { RWK_CPU_AVX512, &rwk_kernels_avx512, has_avx512 },
#endif
#ifdef RWK_HAVE_AVX2
    { RWK_CPU_AVX2, &rwk_kernels_avx2, has_avx2 },
#endif
#ifdef RWK_HAVE_DOTPROD
    { RWK_CPU_NEON, &rwk_kernels_dotprod, has_dotprod },
#endif
#ifdef RWK_HAVE_NEON
    { RWK_CPU_NEON, &rwk_kernels_neon, always }, /* part of the architecture */
#endif
    { RWK_CPU_SCALAR, &rwk_kernels_scalar, always },
};

const struct rwk_kernels *rwk_kernels_get(enum rwk_cpu level)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((level == RWK_CPU_AUTO || level == rows[i].level) && rows[i].offered())
            return rows[i].table;
    return NULL;
}
