/* How fast a model runs here: prefill of P tokens and decoding of N, each R times after one pass
 * for warming up, and the medians of the R. Beside them what the work amounts to:
 *
 *   decode   bytes read per token = weights that a token passes through + the cache, half grown;
 *            GB/s beside the rate at which all threads together can read memory
 *   prefill  GFLOP/s = 2 * weights of the matrix products * tokens / time (attention's own
 *            products are left out, and the output head counts once: only the last token of a
 *            prompt has logits)
 *
 * Tables of which a token reads one row only (embeddings, learned positions) are not counted. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "commands.h"
#include "load.h"
#include "output.h"
#include "progress.h"
#include "tool.h"

#define READ_BYTES (UINT64_C(256) << 20) /* far beyond any cache */
#define READ_PASSES 3

struct rates {
    double median, best;
};

struct work {
    uint64_t weight_bytes;  /* read per decoded token */
    double layer_weights;   /* multiplied by every token */
    double head_weights;    /* multiplied where logits are wanted */
};

struct bench {
    const struct options *o;
    struct rwk_pool *pool;
    struct rwk_model *model;
    struct rwk_model_info info;
    struct rwk_memory_plan memory;
    struct rwk_session *session;
    uint32_t *tokens;       /* [prompt_tokens] */
    uint32_t *depth_tokens; /* [depth] */
    struct work work;
    struct progress progress;
    double load_ms;
    struct rates prefill, decode; /* tokens/s */
    double kv_bytes;              /* read per decoded token, on average */
    double read_gb_per_s;
};

/* ---- what a token has to read and multiply ---- */

/* Weights of a matrix; quantised ones lie in groups of 16 rows by blocks of 32 columns. */
static double weights_of(const struct rwk_tensor_info *t)
{
    double size = t->n_dims >= 2 ? (double)t->shape[0] * (double)t->shape[1] : 0;
    return t->n_dims == 2 ? size : t->n_dims == 3 && t->dtype == RWK_DTYPE_U8 ? size * 16 * 32 : 0;
}

static bool is_embedding(const struct rwk_tensor_info *t, const struct rwk_model_info *info)
{
    return weights_of(t) > 0 &&
           t->shape[0] == (t->n_dims == 2 ? info->vocab_size : (info->vocab_size + 15) / 16);
}

/* The table of learned positions has a few rows more than positions in some families. */
static bool is_position_table(const struct rwk_tensor_info *t, const struct rwk_model_info *info)
{
    return t->n_dims == 2 && !strcmp(info->position_scheme, "learned") &&
           t->shape[0] >= info->context_limit && t->shape[0] - info->context_limit <= 2;
}

/* Of the tables that are looked up, an embedding that is the output head too is read whole, so of
 * all tensors of that shape one counts. A projection may have a position table's shape, but then
 * also its size: leaving out any one of them is the same. */
static struct work work_of(const struct rwk_model *model, const struct rwk_model_info *info)
{
    struct work w = { 0 };
    bool positions_seen = false;
    for (size_t i = 0; i < rwk_model_n_tensors(model); i++) {
        struct rwk_tensor_info t;
        check(rwk_model_get_tensor(model, i, &t), NULL);
        double weights = weights_of(&t);
        if (!t.used || (is_embedding(&t, info) && w.head_weights > 0))
            continue;
        if (!positions_seen && is_position_table(&t, info)) {
            positions_seen = true;
            continue;
        }
        w.weight_bytes += t.n_bytes;
        if (is_embedding(&t, info))
            w.head_weights = weights;
        else
            w.layer_weights += weights;
    }
    return w;
}

/* ---- memory bandwidth ---- */

struct reader {
    const uint64_t *words;
    size_t n;
    uint64_t sum;
};

static void *read_words(void *data)
{
    struct reader *r = data;
    uint64_t sum[8] = { 0 };
    for (size_t i = 0; i + 8 <= r->n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sum[k] += r->words[i + k];
    for (size_t k = 0; k < 8; k++)
        r->sum += sum[k];
    return NULL;
}

/* One pass of n threads over the words; its seconds. */
static double read_pass(const uint64_t *words, size_t n_words, uint32_t n)
{
    pthread_t *threads = allocate(n, sizeof *threads);
    struct reader *readers = allocate(n, sizeof *readers);
    size_t share = n_words / n;
    volatile uint64_t sum = 0;
    double started = now();
    for (uint32_t i = 0; i < n; i++) {
        readers[i] = (struct reader){ words + i * share, share, 0 };
        if (pthread_create(&threads[i], NULL, read_words, &readers[i]) != 0)
            die("a thread could not be started");
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        sum += readers[i].sum;
    }
    double seconds = now() - started;
    free(threads);
    free(readers);
    return seconds;
}

static double measure_reading(uint32_t n_threads)
{
    size_t n_words = READ_BYTES / sizeof(uint64_t);
    uint64_t *words = allocate(n_words, sizeof *words);
    double best = 0;
    memset(words, 1, READ_BYTES); /* pages that were never written are all the same one */
    for (int i = 0; i < READ_PASSES; i++) {
        double seconds = read_pass(words, n_words, n_threads);
        best = i == 0 || seconds < best ? seconds : best;
    }
    free(words);
    return (double)READ_BYTES / best / 1e9;
}

/* ---- the model ---- */

static void forget(struct bench *b)
{
    struct rwk_error error = ERROR_INIT;
    check(rwk_session_rewind(b->session, 0, &error), &error);
}

static double time_prefill(struct bench *b)
{
    struct rwk_error error = ERROR_INIT;
    forget(b);
    double started = now();
    check(rwk_session_eval(b->session, b->tokens, b->o->prompt_tokens, 0, NULL, &error), &error);
    return now() - started;
}

/* After `depth` tokens, which a first call evaluates and later ones go back to. */
static double time_decode(struct bench *b)
{
    struct rwk_error error = ERROR_INIT;
    uint64_t depth = b->o->depth;
    if (rwk_session_position(b->session) == depth + b->o->decode_tokens) {
        check(rwk_session_rewind(b->session, depth, &error), &error);
    } else {
        forget(b);
        for (uint64_t i = 0; i < depth; i++)
            b->depth_tokens[i] = b->tokens[i % b->o->prompt_tokens];
        check(rwk_session_eval(b->session, b->depth_tokens, depth, 0, NULL, &error), &error);
    }
    double started = now();
    for (uint64_t i = 0; i < b->o->decode_tokens; i++)
        check(rwk_session_eval(b->session, &b->tokens[i % b->o->prompt_tokens], 1, 0, NULL, &error),
              &error);
    return now() - started;
}

static int compare_doubles(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static struct rates measure(struct bench *b, double (*run)(struct bench *), uint64_t n_tokens)
{
    uint64_t n = b->o->repeat;
    double *seconds = allocate(n, sizeof *seconds);
    for (uint64_t i = 0; i < n; i++) {
        seconds[i] = run(b);
        progress_update(&b->progress, i + 1, n);
    }
    qsort(seconds, n, sizeof *seconds, compare_doubles);
    double middle = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
    struct rates rates = { (double)n_tokens / middle, (double)n_tokens / seconds[0] };
    free(seconds);
    return rates;
}

static void bench_open(struct bench *b)
{
    const struct options *o = b->o;
    struct rwk_error error = ERROR_INIT;
    struct rwk_session_options s;
    uint64_t most = o->decode_tokens + o->depth;
    b->pool = pool_open(o);
    b->model = model_open(o->arguments[0], o, rope_scaling_of(o), b->pool);
    model_info(b->model, &b->info);
    most = o->prompt_tokens > most ? o->prompt_tokens : most;
    context_notice(&b->info, o, most);
    session_options(&s, o, most, b->pool);
    b->memory.size = sizeof b->memory;
    check(rwk_session_plan(b->model, &s, &b->memory, &error), &error);
    b->session = session_open(b->model, &s);
    b->load_ms = 1e3 * (now() - process_started);
    b->tokens = allocate(o->prompt_tokens, sizeof *b->tokens);
    b->depth_tokens = allocate(o->depth, sizeof *b->depth_tokens);
    uint32_t vocabulary = b->info.vocab_size < 40000 ? b->info.vocab_size : 40000;
    for (uint64_t i = 0; i < o->prompt_tokens; i++)
        b->tokens[i] = (uint32_t)((i * 7919 + 11) % vocabulary);
    b->work = work_of(b->model, &b->info);
    if (o->weights != RWK_WEIGHTS_AS_STORED)
        b->work.weight_bytes = b->info.copied_bytes;
    b->kv_bytes = (double)b->memory.kv_bytes / (double)most *
                  ((double)o->depth + (double)o->decode_tokens / 2);
}

static double decode_gb_per_s(const struct bench *b)
{
    return ((double)b->work.weight_bytes + b->kv_bytes) * b->decode.median / 1e9;
}

static double prefill_gflops(const struct bench *b)
{
    double p = (double)b->o->prompt_tokens;
    return 2 * (b->work.layer_weights * p + b->work.head_weights) / (p / b->prefill.median) / 1e9;
}

static void print_result(const struct bench *b)
{
    const struct options *o = b->o;
    uint32_t threads = b->pool ? rwk_pool_n_threads(b->pool) : 1;
    struct json json = { 0 };
    if (!o->json) {
        out_print("%s: %s, weights %s, %s, threads %u\n", o->arguments[0], b->info.family,
                  options_choice(o, OPTION_WEIGHTS), b->info.isa, threads);
        out_print("load     %9.1f ms\n", b->load_ms);
        out_print("prefill  %9.1f tokens/s (best %.1f) of %" PRIu64 " tokens: %.1f GFLOP/s\n",
                  b->prefill.median, b->prefill.best, o->prompt_tokens, prefill_gflops(b));
        out_print("decode   %9.1f tokens/s (best %.1f) of %" PRIu64
                  " tokens: %.1f MB per token, %.1f GB/s; "
                  "this machine reads %.1f GB/s\n",
                  b->decode.median, b->decode.best, o->decode_tokens,
                  ((double)b->work.weight_bytes + b->kv_bytes) / 1e6, decode_gb_per_s(b),
                  b->read_gb_per_s);
        return;
    }
    json_object(&json, NULL);
    json_string(&json, "model", o->arguments[0]);
    json_string(&json, "family", b->info.family);
    json_string(&json, "isa", b->info.isa);
    json_string(&json, "weights", options_choice(o, OPTION_WEIGHTS));
    json_string(&json, "kv_type", options_choice(o, OPTION_KV_TYPE));
    json_count(&json, "threads", threads);
    json_count(&json, "prompt_tokens", o->prompt_tokens);
    json_count(&json, "decode_tokens", o->decode_tokens);
    json_count(&json, "depth", o->depth);
    json_count(&json, "repeat", o->repeat);
    json_real(&json, "load_ms", b->load_ms);
    json_real(&json, "prefill_tokens_per_s", b->prefill.median);
    json_real(&json, "prefill_tokens_per_s_best", b->prefill.best);
    json_real(&json, "prefill_gflop_per_s", prefill_gflops(b));
    json_real(&json, "decode_tokens_per_s", b->decode.median);
    json_real(&json, "decode_tokens_per_s_best", b->decode.best);
    json_real(&json, "decode_bytes_per_token", (double)b->work.weight_bytes + b->kv_bytes);
    json_real(&json, "decode_gb_per_s", decode_gb_per_s(b));
    json_real(&json, "memory_read_gb_per_s", b->read_gb_per_s);
    json_end(&json, '}');
}

int run_bench(const struct options *o)
{
    struct bench b = { .o = o };
    bench_open(&b);
    progress_start(&b.progress, "bench", o->quiet);
    time_prefill(&b); /* pages come in, caches and clocks warm up */
    b.prefill = measure(&b, time_prefill, o->prompt_tokens);
    b.decode = measure(&b, time_decode, o->decode_tokens);
    progress_clear();
    rwk_session_close(&b.session);
    b.read_gb_per_s = measure_reading(b.pool ? rwk_pool_n_threads(b.pool) : 1);
    print_result(&b);
    rwk_model_close(&b.model);
    rwk_pool_close(&b.pool);
    free(b.tokens);
    free(b.depth_tokens);
    return EXIT_DONE;
}
