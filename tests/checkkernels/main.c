/* checkkernels: judges every function of every kernel table that this machine offers, lowest level
 * first, against arithmetic in double, and its outputs against each other where the contract
 * demands the same bits.
 *
 *   checkkernels [--seed N] [--cpu NAME] [--unguarded]    verdicts; exit status 1 if any claim is
 * false checkkernels --bench [FILTER]                         GB/s and GFLOP/s beside what the
 * machine reads and multiplies at most */
#include "check.h"

static const struct {
    enum rwk_cpu level;
    const char *name;
} levels[] = { { RWK_CPU_SCALAR, "scalar" },
               { RWK_CPU_AVX2, "avx2" },
               { RWK_CPU_AVX512, "avx512" },
               { RWK_CPU_NEON, "neon" } };

static const struct {
    const char *name;
    void (*run)(struct context *c);
} checks[] = {
    { "convert", check_convert }, { "math", check_math },           { "rows", check_rows },
    { "matmul", check_matmul },   { "attention", check_attention },
};

static unsigned check_level(const struct rwk_kernels *k, uint64_t seed)
{
    unsigned failures = 0;
    for (size_t i = 0; i < COUNT(checks); i++) {
        struct context c = { .k = k, .seed = seed + i };
        checks[i].run(&c);
        printf("%-7s %-10s %u claims, %u failed\n", k->name, checks[i].name, c.claims, c.failures);
        fflush(stdout);
        failures += c.failures;
    }
    return failures;
}

int main(int argc, char **argv)
{
    uint64_t seed = 20240229;
    const char *only = NULL;
    unsigned failures = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0)
            return bench(i + 1 < argc ? argv[i + 1] : "");
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--unguarded") == 0)
            guard_pages = false;
        else if (strcmp(argv[i], "--cpu") == 0 && i + 1 < argc)
            only = argv[++i];
        else
            return fprintf(stderr, "usage: checkkernels [--seed N] [--cpu NAME] [--unguarded] | "
                                   "--bench [FILTER]\n"),
                   2;
    }
    printf("seed %llu\n", (unsigned long long)seed);
    const struct rwk_kernels *best = NULL;
    for (size_t i = 0; i < COUNT(levels); i++) {
        const struct rwk_kernels *k = rwk_kernels_get(levels[i].level);
        best = k ? k : best;
        if (only && strcmp(only, levels[i].name) != 0)
            continue;
        if (k)
            failures += check_level(k, seed);
        else
            printf("%-7s skipped: not to be had here\n", levels[i].name);
    }
    if (rwk_kernels_get(RWK_CPU_AUTO) != best) {
        printf("FAILED auto is %s, not %s\n", rwk_kernels_get(RWK_CPU_AUTO)->name, best->name);
        failures++;
    }
    printf(failures ? "%u FAILED\n" : "ok\n", failures);
    return failures != 0;
}
