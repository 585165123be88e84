/* bench: prefill and decode speed, beside what the memory gives. */
#include "tool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, compare);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- what the machine gives ---- */

struct reader {
    const uint64_t *data;
    size_t n;
    uint64_t sum;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    uint64_t s[8] = { 0 };
    for (size_t i = 0; i + 8 <= r->n; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] += r->data[i + (size_t)k];
    for (int k = 0; k < 8; k++)
        r->sum += s[k];
    return NULL;
}

/* Bytes a second that `threads` readers get from memory: the best of three runs over 256 MiB each. */
static double read_bandwidth(uint32_t threads)
{
    enum { BYTES = 256 << 20, MOST = 64 };
    struct reader readers[MOST];
    pthread_t ids[MOST];
    double best = 0;
    threads = threads < MOST ? threads : MOST;
    uint64_t *data = malloc((size_t)BYTES * threads);
    if (!data)
        return 0;
    memset(data, 1, (size_t)BYTES * threads);
    for (int run = 0; run < 3; run++) {
        double start = seconds();
        uint32_t started = 0;
        for (; started < threads; started++) {
            readers[started] = (struct reader){ data + (size_t)started * (BYTES / 8), BYTES / 8, 0 };
            if (pthread_create(&ids[started], NULL, read_all, &readers[started]))
                break;
        }
        for (uint32_t i = 0; i < started; i++)
            pthread_join(ids[i], NULL);
        double rate = (double)BYTES * started / (seconds() - start);
        best = rate > best ? rate : best;
    }
    free(data);
    return best;
}

/* ---- the model ---- */

struct bench {
    const struct options *o;
    struct rwk_pool *pool;
    struct rwk_model *model;
    struct rwk_session *session;
    struct rwk_model_info info;
    struct rwk_error error;
    uint32_t *ids;
    size_t n_prompt, n_new;
    double load_ms, prefill, decode;
};

/* One measurement: an empty cache, the prompt, then the cache rewound to its first token and n_new steps. */
static bool measure(struct bench *b, double *ret_prefill, double *ret_decode)
{
    if (rwk_session_rewind(b->session, 0, &b->error))
        return false;
    double start = seconds();
    if (rwk_session_eval(b->session, b->ids, b->n_prompt, 0, NULL, &b->error))
        return false;
    *ret_prefill = (double)b->n_prompt / (seconds() - start);
    if (rwk_session_rewind(b->session, 0, &b->error) || rwk_session_eval(b->session, b->ids, 1, 0, NULL, &b->error))
        return false;
    start = seconds();
    for (size_t i = 0; i < b->n_new; i++)
        if (rwk_session_eval(b->session, &b->ids[i % b->n_prompt], 1, 0, NULL, &b->error))
            return false;
    *ret_decode = b->n_new ? (double)b->n_new / (seconds() - start) : 0;
    return true;
}

static int measure_all(struct bench *b)
{
    size_t n = b->o->repeat;
    double *prefill = calloc(n + 1, sizeof *prefill), *decode = calloc(n + 1, sizeof *decode);
    bool good = prefill && decode;
    for (size_t i = 0; good && i <= n; i++) /* the first one warms up */
        good = measure(b, &prefill[i], &decode[i]);
    if (good) {
        b->prefill = median(prefill + 1, n);
        b->decode = median(decode + 1, n);
    }
    free(prefill);
    free(decode);
    return good ? EXIT_DONE : fail_error(&b->error);
}

static int set_up(struct bench *b)
{
    struct rwk_model_options mo;
    struct rwk_session_options so;
    double start = seconds();
    int status = open_pool(b->o, &b->pool);
    if (status)
        return status;
    model_options(b->o, b->o->n_rope_scaling ? b->o->rope_scaling[0] : NULL, &mo);
    mo.pool = b->pool;
    if (rwk_model_open(&b->model, b->o->arguments[0], &mo, &b->error))
        return fail_error(&b->error);
    session_options(b->o, b->pool, &so);
    uint64_t needed = (b->n_prompt > b->n_new + 1 ? b->n_prompt : b->n_new + 1);
    so.context = so.context > needed ? so.context : needed;
    if ((status = check_context(b->o, b->model, so.context)))
        return status;
    if (rwk_session_create(&b->session, b->model, &so, &b->error))
        return fail_error(&b->error);
    b->info.size = sizeof b->info;
    rwk_model_get_info(b->model, &b->info);
    for (size_t i = 0; i < b->n_prompt; i++)
        b->ids[i] = (uint32_t)((i * 7919 + 11) % b->info.vocab_size);
    if (rwk_session_eval(b->session, b->ids, 1, 0, NULL, &b->error))
        return fail_error(&b->error);
    b->load_ms = 1e3 * (seconds() - start);
    return EXIT_DONE;
}

static void print_result(const struct bench *b)
{
    uint32_t threads = rwk_pool_n_threads(b->pool);
    double weights = (double)(b->info.mapped_bytes + b->info.copied_bytes), limit = read_bandwidth(threads);
    double read = b->decode * weights / 1e9, flops = 2e-9 * (double)b->info.n_parameters * b->prefill;
    if (!b->o->json) {
        printf("%s, %u threads, %s kernels\n", b->info.family, threads, b->info.isa);
        printf("prefill  %9.1f tokens/s  (%zu tokens, %.1f GFLOP/s)\n", b->prefill, b->n_prompt, flops);
        printf("decode   %9.1f tokens/s  (%zu tokens, %.2f GB/s of %.2f that the memory gives)\n", b->decode, b->n_new, read,
               limit / 1e9);
        printf("load     %9.1f ms to the first token\n", b->load_ms);
        return;
    }
    const struct {
        const char *key;
        double value;
    } rows[] = { { "prefill_tokens_per_s", b->prefill }, { "decode_tokens_per_s", b->decode }, { "load_ms", b->load_ms },
                 { "decode_gb_per_s", read }, { "memory_gb_per_s", limit / 1e9 }, { "prefill_gflop_per_s", flops } };
    printf("{\"family\": \"%s\", \"isa\": \"%s\", \"threads\": %u", b->info.family, b->info.isa, threads);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        printf(", \"%s\": ", rows[i].key);
        print_double(stdout, rows[i].value);
    }
    puts("}");
}

int run_bench(const struct options *o)
{
    struct bench b = { .o = o, .n_prompt = o->prompt_tokens, .error = { .size = sizeof b.error },
                       .n_new = options_given(o, "max-new-tokens") ? o->max_new_tokens : 64 };
    b.ids = malloc(b.n_prompt * sizeof *b.ids);
    int status = b.ids ? set_up(&b) : fail("out of memory");
    if (!status)
        status = measure_all(&b);
    if (!status)
        print_result(&b);
    rwk_session_close(&b.session);
    rwk_model_close(&b.model);
    rwk_pool_close(&b.pool);
    free(b.ids);
    return status;
}
