/* What the kernels do in GB/s and GFLOP/s, beside what this machine reads and multiplies at most,
 * on one thread and on as many as rwk_default_threads says. Each figure is the best of some runs: a
 * shared machine only ever makes them worse. One thread is timed by the processor time that it
 * used, several by the clock. */
#include "check.h"

#include <time.h>
#include "runtime/base/pool.h"
#include "runtime/kernels/kvpage.h"
#include "runtime/kernels/quantlayout.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { GRAIN = 16 }; /* rows to a task, as the decoder cuts them */

static double now(bool alone)
{
    struct timespec t;
    clock_gettime(alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what the machine can do: sums of memory, and chains of fused multiply-adds ---- */

enum { CHAINS = 16 };
static volatile float sink;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void read_avx512(const float *p, size_t n)
{
    __m512i sum[4] = { _mm512_setzero_si512() };
    for (size_t i = 0; i < n; i += 64)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[j] = _mm512_xor_si512(sum[j], _mm512_load_si512(p + i + 16 * j));
    sink = (float)_mm512_reduce_add_epi32(
        _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3])));
}
__attribute__((target("avx2"))) static void read_avx2(const float *p, size_t n)
{
    __m256i sum[4] = { _mm256_setzero_si256() };
    for (size_t i = 0; i < n; i += 32)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[j] = _mm256_xor_si256(sum[j], _mm256_load_si256((const __m256i *)(p + i + 8 * j)));
    sum[0] = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
    sink = (float)_mm256_extract_epi32(sum[0], 0);
}
__attribute__((target("avx512f"))) static double fma_avx512(size_t n)
{
    __m512 c[CHAINS], x = _mm512_set1_ps(0.999f);
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++)
        c[i] = _mm512_set1_ps((float)i);
    for (size_t k = 0; k < n; k++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            c[i] = _mm512_fmadd_ps(c[i], x, x);
#pragma GCC unroll 16
    for (int i = 1; i < CHAINS; i++)
        c[0] = _mm512_add_ps(c[0], c[i]);
    sink = _mm512_reduce_add_ps(c[0]);
    return 2.0 * 16 * CHAINS * (double)n;
}
__attribute__((target("avx2,fma"))) static double fma_avx2(size_t n)
{
    enum { CHAINS_AVX2 = 12 };
    __m256 c[CHAINS_AVX2], x = _mm256_set1_ps(0.999f);
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS_AVX2; i++)
        c[i] = _mm256_set1_ps((float)i);
    for (size_t k = 0; k < n; k++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS_AVX2; i++)
            c[i] = _mm256_fmadd_ps(c[i], x, x);
#pragma GCC unroll 16
    for (int i = 1; i < CHAINS_AVX2; i++)
        c[0] = _mm256_add_ps(c[0], c[i]);
    sink = _mm256_cvtss_f32(c[0]);
    return 2.0 * 8 * CHAINS_AVX2 * (double)n;
}
#elif defined(__aarch64__)
static double fma_neon(size_t n)
{
    float32x4_t c[CHAINS], x = vdupq_n_f32(0.999f);
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++)
        c[i] = vdupq_n_f32((float)i);
    for (size_t k = 0; k < n; k++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            c[i] = vfmaq_f32(x, c[i], x);
#pragma GCC unroll 16
    for (int i = 1; i < CHAINS; i++)
        c[0] = vaddq_f32(c[0], c[i]);
    sink = vgetq_lane_f32(c[0], 0);
    return 2.0 * 4 * CHAINS * (double)n;
}
#endif

static void read_plain(const float *p, size_t n)
{
    uint64_t sum[8] = { 0 };
    for (size_t i = 0; i < n; i += 16) {
        uint64_t q[8];
        memcpy(q, p + i, sizeof q);
        for (int j = 0; j < 8; j++)
            sum[j] ^= q[j];
    }
    sink = (float)(sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7]);
}

static double fma_plain(size_t n)
{
    float c[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        c[i] = (float)i;
    for (size_t k = 0; k < n; k++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            c[i] = c[i] * 0.999f + 0.999f;
    for (int i = 0; i < CHAINS; i++)
        sink = c[i];
    return 2.0 * CHAINS * (double)n;
}

struct machine {
    void (*read)(const float *p, size_t n);
    double (*fma)(size_t n);
};

static struct machine machine_for(const char *table)
{
#if defined(__x86_64__)
    if (strcmp(table, "avx512") == 0)
        return (struct machine) { read_avx512, fma_avx512 };
    if (strcmp(table, "avx2") == 0)
        return (struct machine) { read_avx2, fma_avx2 };
#elif defined(__aarch64__)
    if (strcmp(table, "neon") == 0)
        return (struct machine) { read_plain, fma_neon };
#endif
    return (struct machine) { read_plain, fma_plain };
}

/* ---- running things ---- */

struct bench {
    const struct rwk_kernels *k;
    struct machine machine;
    struct rwk_executor executor;
    const char *filter;
    double read_gbs, fma_gflops; /* of the machine, with these threads */
    unsigned char *memory;       /* large, touched */
    size_t memory_size;
    unsigned char *scratch;
};

/* Seconds of the best run. */
static double best_time(const struct bench *b, void (*fn)(void *), void *arg)
{
    bool alone = b->executor.n_workers == 1;
    double best = INFINITY, spent = 0;
    for (int i = 0; i < 1000 && (i < 3 || spent < 0.4); i++) {
        double start = now(alone);
        fn(arg);
        double t = now(alone) - start;
        best = t < best ? t : best;
        spent += t;
    }
    return best;
}

struct limit_job {
    struct bench *b;
    size_t bytes;
};

static void read_task(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct limit_job *job = arg;
    (void)worker;
    job->b->machine.read((const float *)(job->b->memory + (size_t)begin * 65536),
                         (size_t)(end - begin) * 16384);
}
static void read_all(void *arg)
{
    struct limit_job *job = arg;
    rwk_run(&job->b->executor, (uint32_t)(job->bytes / 65536), read_task, job);
}
static void fma_task(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct limit_job *job = arg;
    (void)worker;
    for (uint32_t i = begin; i < end; i++)
        job->b->machine.fma(100000);
}
static void fma_all(void *arg)
{
    struct limit_job *job = arg;
    rwk_run(&job->b->executor, 64, fma_task, job);
}

static void measure_limits(struct bench *b)
{
    struct limit_job job = { b, b->memory_size };
    b->read_gbs = (double)b->memory_size / best_time(b, read_all, &job) * 1e-9;
    b->fma_gflops = b->machine.fma(100000) * 64 / best_time(b, fma_all, &job) * 1e-9;
    printf("%s, %u thread(s): reads %.1f GB/s, multiplies %.0f GFLOP/s\n", b->k->name,
           b->executor.n_workers, b->read_gbs, b->fma_gflops);
}

/* ---- matrix products ---- */

struct product_job {
    struct bench *b;
    struct rwk_matmul m;
};

static void product_task(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct product_job *job = arg;
    const struct rwk_matrix *w = job->m.w;
    uint32_t last = end * GRAIN < w->rows ? end * GRAIN : w->rows;
    for (uint32_t r = begin * GRAIN; r < last; r += 256)
        job->b->k->matmul[w->element][w->transposed](&job->m, r, last - r < 256 ? last : r + 256,
                                                     job->b->scratch +
                                                         (size_t)worker * RWK_KERNEL_SCRATCH);
}
static void product_all(void *arg)
{
    struct product_job *job = arg;
    rwk_run(&job->b->executor, (job->m.w->rows + GRAIN - 1) / GRAIN, product_task, job);
}

/* All matrices that fit the memory, one after the other: weights come from DRAM, as in a model. */
struct model_job {
    struct product_job product;
    struct rwk_matrix w;
    size_t matrix_bytes, scales_at, n_matrices;
};
static void model_all(void *arg)
{
    struct model_job *job = arg;
    for (size_t i = 0; i < job->n_matrices; i++) {
        job->w.data = job->product.b->memory + i * job->matrix_bytes;
        job->w.scales =
            (const char *)job->w.data + job->scales_at; /* read by quantised elements only */
        product_all(&job->product);
    }
}

static size_t data_bytes(enum rwk_element e, size_t rows, size_t cols)
{
    return rwk_is_quantized(e)
               ? rwk_quant_groups(rows) * rwk_quant_blocks(cols) * rwk_quant_block_bytes(e)
               : rows * cols * rwk_element_bytes(e);
}
static size_t matrix_bytes(enum rwk_element e, size_t rows, size_t cols)
{
    return data_bytes(e, rows, cols) +
           (rwk_is_quantized(e)
                ? rwk_quant_groups(rows) * rwk_quant_blocks(cols) * rwk_quant_scale_bytes()
                : 0);
}

static void bench_product(struct bench *b, enum rwk_element e, bool transposed, uint32_t rows,
                          uint32_t cols, uint32_t n_tokens)
{
    char name[64];
    snprintf(name, sizeof name, "matmul %s%s [%u][%u] x %u", element_name(e),
             transposed ? "^T" : "", rows, cols, n_tokens);
    if (!strstr(name, b->filter))
        return;
    size_t x_stride = b->k->prepared_size[e](cols);
    unsigned char *x = aligned_alloc(64, n_tokens * x_stride);
    float *y = aligned_alloc(64, (size_t)n_tokens * rows * sizeof *y),
          *row = calloc(cols, sizeof *row);
    struct context c = { .seed = 1 };
    random_floats(&c, row, cols, 1);
    for (uint32_t t = 0; t < n_tokens; t++)
        b->k->prepare[e](x + t * x_stride, row, cols);
    struct model_job job = { .product = { b,
                                          { .x = x,
                                            .x_stride = x_stride,
                                            .y = y,
                                            .y_stride = rows,
                                            .n_tokens = n_tokens } },
                             .w = { .element = e,
                                    .transposed = transposed,
                                    .rows = rows,
                                    .cols = cols,
                                    .stride = transposed ? rows : cols },
                             .matrix_bytes = matrix_bytes(e, rows, cols) };
    job.product.m.w = &job.w;
    job.scales_at = data_bytes(e, rows, cols);
    job.n_matrices = b->memory_size / job.matrix_bytes;
    size_t enough =
        (size_t)(2e11 / (2.0 * rows * cols * n_tokens)) + 1; /* a fraction of a second's work */
    job.n_matrices = job.n_matrices < enough ? job.n_matrices : enough;
    double t = best_time(b, model_all, &job) / (double)job.n_matrices;
    double gbs = (double)job.matrix_bytes / t * 1e-9,
           gflops = 2.0 * rows * cols * n_tokens / t * 1e-9;
    printf("  %-36s %7.2f GB/s %3.0f %%   %7.1f GFLOP/s %3.0f %%\n", name, gbs,
           100 * gbs / b->read_gbs, gflops, 100 * gflops / b->fma_gflops);
    free(x);
    free(y);
    free(row);
}

/* ---- attention: n_queries against a full page in cache, one thread ---- */

struct attention_job {
    struct bench *b;
    struct rwk_attention_block block;
    size_t k_bytes, pair_bytes, n_pages;
};
static void attention_all(void *arg)
{
    struct attention_job *job = arg;
    for (size_t i = 0; i < job->n_pages; i++) {
        job->block.k = job->b->memory + i * job->pair_bytes;
        job->block.v = job->b->memory + i * job->pair_bytes + job->k_bytes;
        job->b->k->attention(&job->block, job->b->scratch);
    }
}

static void bench_attention(struct bench *b, enum rwk_element e, uint32_t head_dim, uint32_t n,
                            size_t n_pages)
{
    char name[64];
    snprintf(name, sizeof name, "attention %s %u, %u queries, %zu pages", element_name(e), head_dim,
             n, n_pages);
    if (!strstr(name, b->filter) || b->executor.n_workers > 1)
        return;
    size_t stride = rwk_kv_value_stride(head_dim);
    float *q = aligned_alloc(64, n * stride * 4), *out = aligned_alloc(64, n * stride * 4), max[64],
          sum[64];
    uint32_t first[64] = { 0 }, last[64];
    struct context c = { .seed = 1 };
    random_floats(&c, q, n * stride, 0.01f);
    memset(out, 0, n * stride * 4);
    for (uint32_t i = 0; i < n; i++) {
        max[i] = 0;
        sum[i] = 1;
        last[i] = RWK_KEY_BLOCK;
    }
    struct attention_job job = { b,
                                 { .q = q,
                                   .q_stride = stride,
                                   .element = e,
                                   .head_dim = head_dim,
                                   .v_stride = (uint32_t)stride,
                                   .n_queries = n,
                                   .first = first,
                                   .last = last,
                                   .max = max,
                                   .sum = sum,
                                   .out = out },
                                 rwk_kv_key_bytes(e, head_dim),
                                 rwk_kv_key_bytes(e, head_dim) + rwk_kv_value_bytes(e, head_dim),
                                 n_pages };
    double t = best_time(b, attention_all, &job) / (double)n_pages;
    double gbs = (double)job.pair_bytes / t * 1e-9,
           gflops = 4.0 * RWK_KEY_BLOCK * head_dim * n / t * 1e-9;
    printf("  %-36s %7.2f GB/s %3.0f %%   %7.1f GFLOP/s %3.0f %%\n", name, gbs,
           100 * gbs / b->read_gbs, gflops, 100 * gflops / b->fma_gflops);
    free(q);
    free(out);
}

/* ---- rows ---- */

struct row_job {
    struct bench *b;
    float *x, *y;
    uint32_t n, which;
};
static void row_all(void *arg)
{
    struct row_job *job = arg;
    const struct rwk_kernels *k = job->b->k;
    double sum;
    float max;
    for (int i = 0; i < 100; i++) {
        if (job->which < RWK_N_ACTIVATIONS)
            k->activate[job->which](job->y, job->x, job->n);
        else if (job->which == RWK_N_ACTIVATIONS)
            k->rms_norm(job->y, job->x, job->x, job->n, 1e-5f);
        else if (job->which == RWK_N_ACTIVATIONS + 1)
            k->layer_norm(job->y, job->x, job->x, job->x, job->n, 1e-5f);
        else
            k->log_sum(job->x, job->n, &max, &sum);
    }
}
static void bench_rows(struct bench *b)
{
    static const char *const names[] = { "silu",      "relu",       "gelu_erf",
                                         "gelu_tanh", "quick_gelu", "relu2",
                                         "rms_norm",  "layer_norm", "log_sum" };
    struct context c = { .seed = 1 };
    struct row_job job = { b, aligned_alloc(64, 16384), aligned_alloc(64, 16384), 4096, 0 };
    random_floats(&c, job.x, job.n, 2);
    for (; job.which < COUNT(names); job.which++)
        if (b->executor.n_workers == 1 && strstr(names[job.which], b->filter))
            printf("  %-36s %7.2f ns/element\n", names[job.which],
                   best_time(b, row_all, &job) / 100 / job.n * 1e9);
    free(job.x);
    free(job.y);
}

static void nothing(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    (void)arg, (void)begin, (void)end, (void)worker;
}
static void empty_runs(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < 1000; i++)
        rwk_run(&b->executor, 64, nothing, NULL);
}

static void bench_table(struct bench *b)
{
    static const struct {
        uint32_t rows, cols;
    } shapes[] = { { 576, 576 },   { 1536, 576 },   { 576, 1536 },
                   { 4096, 4096 }, { 14336, 4096 }, { 4096, 14336 } };
    static const uint32_t tokens[] = { 1, 2, 4, 8, 16, 64, 512 };
    measure_limits(b);
    if (b->executor.n_workers > 1 && strstr("empty run", b->filter))
        printf("  an empty run takes %.2f us\n", best_time(b, empty_runs, b) * 1e3);
    for (enum rwk_element e = RWK_ELEMENT_F32; e < RWK_N_ELEMENTS; e++)
        for (size_t t = 0; t < COUNT(tokens); t++)
            for (size_t s = 0; s < COUNT(shapes); s++)
                bench_product(b, e, false, shapes[s].rows, shapes[s].cols, tokens[t]);
    for (size_t t = 0; t < COUNT(tokens); t++) {
        bench_product(b, RWK_ELEMENT_F32, true, 768, 3072, tokens[t]);
        bench_product(b, RWK_ELEMENT_F32, true, 3072, 768, tokens[t]);
    }
    for (enum rwk_element e = RWK_ELEMENT_F32; e <= RWK_ELEMENT_BF16; e++)
        for (uint32_t head_dim = 64; head_dim <= 128; head_dim *= 2) {
            bench_attention(b, e, head_dim, 1, 4096);
            bench_attention(b, e, head_dim, 4, 4096);
            bench_attention(b, e, head_dim, 6, 32);
            bench_attention(b, e, head_dim, 32, 32);
        }
    bench_rows(b);
}

int bench(const char *filter)
{
    static const enum rwk_cpu levels[] = { RWK_CPU_SCALAR, RWK_CPU_AVX2, RWK_CPU_AVX512,
                                           RWK_CPU_NEON };
    uint32_t threads = rwk_default_threads();
    struct bench b = { .filter = filter, .memory_size = (size_t)1 << 30 };
    struct rwk_pool *pool = NULL;
    if (rwk_pool_create(&pool, threads, NULL, NULL))
        return 1;
    b.memory = aligned_alloc(65536, b.memory_size);
    b.scratch = aligned_alloc(64, (size_t)threads * RWK_KERNEL_SCRATCH);
    for (size_t i = 0; i < b.memory_size; i += 4) /* small numbers in every element type */
        memcpy(b.memory + i, &(uint32_t) { 0x2c002c00u }, 4);
    const char *only = getenv("CHECKKERNELS_CPU");
    for (size_t i = 0; i < COUNT(levels); i++) {
        b.k = rwk_kernels_get(levels[i]);
        if (!b.k || (only && strcmp(only, b.k->name) != 0))
            continue;
        b.machine = machine_for(b.k->name);
        b.executor = (struct rwk_executor) { .n_workers = 1 };
        bench_table(&b);
        b.executor = (struct rwk_executor) { .pool = pool, .n_workers = threads };
        if (threads > 1)
            bench_table(&b);
    }
    free(b.memory);
    free(b.scratch);
    rwk_pool_close(&pool);
    return 0;
}
