/* perplexity: exp of the mean negative log-probability (natural) of a text's tokens.
 *
 *   text -> ids once (special tokens as the tokenizer adds them) -> windows of `length`, `stride` apart -> each scored from an
 *   empty cache; every token of a window but its first counts, with a stride below the length only those that no earlier
 *   window has counted; an incomplete last window is left out. */
#include "tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LENGTHS = 16, N_BUCKETS = 8, MAX_RESULTS = 1024 };

struct result {
    const char *model, *scaling;
    uint64_t length, scored;
    double perplexity;
    double bucket_sum[N_BUCKETS];
    uint64_t bucket_n[N_BUCKETS];
};

struct run {
    const struct options *o;
    struct rwk_pool *pool;
    uint64_t lengths[MAX_LENGTHS];
    int n_lengths;
    const char *text;
    size_t text_size;
    struct result results[MAX_RESULTS];
    size_t n_results;
    struct rwk_error error;
};

static int parse_lengths(struct run *r)
{
    const char *p = r->o->lengths;
    while (p && *p) {
        char one[24];
        size_t n = strcspn(p, ",");
        if (n >= sizeof one || r->n_lengths == MAX_LENGTHS)
            return fail("length: \"%s\" is not understood", r->o->lengths);
        memcpy(one, p, n);
        one[n] = '\0';
        if (!parse_u64(one, &r->lengths[r->n_lengths]) || r->lengths[r->n_lengths] < 2 ||
            r->lengths[r->n_lengths] > 1000000000)
            return fail("length: \"%s\" is not a length of at least 2", one);
        r->n_lengths++;
        p += n + (p[n] == ',');
    }
    return EXIT_DONE;
}

static void show_progress(const struct run *r, const char *what, uint64_t done, uint64_t total, double start)
{
    if (r->o->quiet || !isatty(STDERR_FILENO))
        return;
    double left = done ? (seconds() - start) / (double)done * (double)(total - done) : 0;
    fprintf(stderr, done == total ? "\r\033[K" : "\r%s: window %llu of %llu, %.0f s left\033[K", what,
            (unsigned long long)done, (unsigned long long)total, left);
}

static int score_length(struct run *r, struct rwk_session *session, const uint32_t *ids, size_t n, struct result *res)
{
    uint64_t length = res->length, stride = r->o->stride ? r->o->stride : length;
    stride = stride < length ? stride : length;
    if (n < length)
        return fail("perplexity: nothing to score: the text has %zu tokens, less than one window of %llu", n,
                    (unsigned long long)length);
    uint64_t windows = (n - length) / stride + 1;
    double *logprobs = malloc(length * sizeof *logprobs), sum = 0, start = seconds();
    int status = logprobs ? EXIT_DONE : fail("out of memory");
    for (uint64_t w = 0; w < windows && !status; w++) {
        show_progress(r, res->model, w, windows, start);
        if (rwk_session_rewind(session, 0, &r->error) ||
            rwk_session_score(session, ids + w * stride, length, logprobs, &r->error))
            status = fail_error(&r->error);
        for (uint64_t i = w ? length - stride : 1; i < length && !status; i++) {
            if (i == 0)
                continue;
            uint64_t bucket = i * N_BUCKETS / length;
            sum += logprobs[i - 1];
            res->scored++;
            res->bucket_sum[bucket] += logprobs[i - 1];
            res->bucket_n[bucket]++;
        }
    }
    show_progress(r, res->model, windows, windows, start);
    free(logprobs);
    res->perplexity = exp(-sum / (double)res->scored);
    if (!status && !isfinite(res->perplexity))
        status = fail("perplexity: the model gives numbers that are not finite");
    return status;
}

static int score_model(struct run *r, const char *path, const char *scaling, const uint32_t *ids, size_t n)
{
    struct rwk_model_options mo;
    struct rwk_session_options so;
    struct rwk_model *model = NULL;
    struct rwk_session *session = NULL;
    struct rwk_model_info info = { .size = sizeof info };
    model_options(r->o, scaling, &mo);
    mo.pool = r->pool;
    if (rwk_model_open(&model, path, &mo, &r->error))
        return fail_error(&r->error);
    rwk_model_get_info(model, &info);
    uint64_t own = info.context < 4096 ? info.context : 4096, longest = 0;
    int n_lengths = r->n_lengths ? r->n_lengths : 1, status = EXIT_DONE;
    for (int i = 0; i < n_lengths; i++) {
        uint64_t length = r->n_lengths ? r->lengths[i] : own;
        longest = length > longest ? length : longest;
    }
    if (longest > info.context_limit)
        status = fail("length: windows of %llu are wanted, but the table of positions of %s ends at %llu",
                      (unsigned long long)longest, path, (unsigned long long)info.context_limit);
    session_options(r->o, r->pool, &so);
    so.context = longest;
    if (!status && rwk_session_create(&session, model, &so, &r->error))
        status = fail_error(&r->error);
    for (int i = 0; i < n_lengths && !status; i++) {
        if (r->n_results == MAX_RESULTS) {
            status = fail("perplexity: too many combinations");
            break;
        }
        struct result *res = &r->results[r->n_results++];
        *res = (struct result){ .model = path, .scaling = scaling ? scaling : "config",
                                .length = r->n_lengths ? r->lengths[i] : own };
        status = score_length(r, session, ids, n, res);
    }
    rwk_session_close(&session);
    rwk_model_close(&model);
    return status;
}

static int run_model(struct run *r, const char *path)
{
    struct rwk_tokenizer *tokenizer = NULL;
    uint32_t *ids = NULL;
    size_t n = 0;
    if (rwk_tokenizer_open(&tokenizer, path, NULL, &r->error))
        return fail_error(&r->error);
    int status = encode_text(tokenizer, r->text, r->text_size, RWK_ENCODE_ADD_SPECIAL, &ids, &n);
    rwk_tokenizer_close(&tokenizer);
    if (!status && r->o->max_tokens && r->o->max_tokens < n)
        n = r->o->max_tokens;
    if (!status && n < 2)
        status = fail("perplexity: nothing to score: the text has %zu tokens", n);
    if (!status && r->o->n_rope_scaling == 0)
        status = score_model(r, path, NULL, ids, n);
    for (int i = 0; i < r->o->n_rope_scaling && !status; i++)
        status = score_model(r, path, strcmp(r->o->rope_scaling[i], "config") == 0 ? NULL : r->o->rope_scaling[i], ids, n);
    free(ids);
    return status;
}

/* ---- output ---- */

static void print_table(const struct run *r, FILE *to)
{
    fprintf(to, "%-12s %10s %8s %10s  %s\n", "perplexity", "length", "tokens", "scaling", "model");
    for (size_t i = 0; i < r->n_results; i++) {
        const struct result *res = &r->results[i];
        fprintf(to, "%-12.4f %10llu %8llu %10s  %s\n", res->perplexity, (unsigned long long)res->length,
                (unsigned long long)res->scored, res->scaling, res->model);
        for (int b = 0; r->o->buckets && b < N_BUCKETS; b++)
            if (res->bucket_n[b])
                fprintf(to, "    positions %6llu.. %10.4f\n", (unsigned long long)(res->length * (uint64_t)b / N_BUCKETS),
                        exp(-res->bucket_sum[b] / (double)res->bucket_n[b]));
    }
}

static void print_json(const struct run *r)
{
    printf("{\"results\": [");
    for (size_t i = 0; i < r->n_results; i++) {
        const struct result *res = &r->results[i];
        printf("%s{\"model\": ", i ? ", " : "");
        print_json_string(stdout, res->model, strlen(res->model));
        printf(", \"rope_scaling\": ");
        print_json_string(stdout, res->scaling, strlen(res->scaling));
        printf(", \"length\": %llu, \"tokens\": %llu, \"perplexity\": ", (unsigned long long)res->length,
               (unsigned long long)res->scored);
        print_double(stdout, res->perplexity);
        printf(", \"buckets\": [");
        for (int b = 0; b < N_BUCKETS; b++) {
            fputs(b ? ", " : "", stdout);
            print_double(stdout, res->bucket_n[b] ? exp(-res->bucket_sum[b] / (double)res->bucket_n[b]) : NAN);
        }
        printf("]}");
    }
    puts("]}");
}

static int write_csv(const struct run *r, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return fail("%s: cannot be written", path);
    fprintf(f, "model,rope_scaling,length,tokens,perplexity\n");
    for (size_t i = 0; i < r->n_results; i++)
        fprintf(f, "\"%s\",\"%s\",%llu,%llu,%.6f\n", r->results[i].model, r->results[i].scaling,
                (unsigned long long)r->results[i].length, (unsigned long long)r->results[i].scored,
                r->results[i].perplexity);
    bool bad = ferror(f);
    return fclose(f) || bad ? fail("%s: cannot be written", path) : EXIT_DONE;
}

/* One line for each model and scaling, through gnuplot. */
static int draw_plot(const struct run *r, const char *path)
{
    size_t n = strlen(path);
    bool svg = n > 4 && strcmp(path + n - 4, ".svg") == 0;
    if (!svg && !(n > 4 && strcmp(path + n - 4, ".png") == 0))
        return fail("plot: %s must end in .svg or .png", path);
    FILE *g = popen("gnuplot 2>/dev/null", "w");
    if (!g)
        return fail("plot: gnuplot could not be started");
    fprintf(g, "set terminal %s size 900,560\nset output '%s'\nset logscale x 2\nset xlabel 'window length'\n"
            "set ylabel 'perplexity'\nset key outside right\nset grid\nplot ", svg ? "svg" : "pngcairo", path);
    for (size_t i = 0, line = 0; i < r->n_results; i++)
        if (i == 0 || r->results[i].model != r->results[i - 1].model || r->results[i].scaling != r->results[i - 1].scaling) {
            const char *base = strrchr(r->results[i].model, '/');
            fprintf(g, "%s'-' with linespoints title \"%s %s\" noenhanced", line++ ? ", " : "",
                    base && base[1] ? base + 1 : r->results[i].model,
                    strcmp(r->results[i].scaling, "config") == 0 ? "" : r->results[i].scaling);
        }
    fputc('\n', g);
    for (size_t i = 0; i < r->n_results; i++) {
        fprintf(g, "%llu %.6f\n", (unsigned long long)r->results[i].length, r->results[i].perplexity);
        if (i + 1 == r->n_results || r->results[i].model != r->results[i + 1].model ||
            r->results[i].scaling != r->results[i + 1].scaling)
            fprintf(g, "e\n");
    }
    return pclose(g) == 0 ? EXIT_DONE : fail("plot: gnuplot is not installed or failed");
}

int run_perplexity(const struct options *o)
{
    struct run *r = calloc(1, sizeof *r);
    char *text = NULL;
    if (!r)
        return fail("out of memory");
    r->o = o;
    r->error.size = sizeof r->error;
    int status = parse_lengths(r);
    if (!status)
        status = read_whole(o->arguments[o->n_arguments - 1], &text, &r->text_size);
    r->text = text;
    if (!status)
        status = open_pool(o, &r->pool);
    for (int i = 0; i + 1 < o->n_arguments && !status; i++)
        status = run_model(r, o->arguments[i]);
    if (!status && o->json)
        print_json(r);
    else if (!status)
        print_table(r, stdout);
    if (!status && o->csv)
        status = write_csv(r, o->csv);
    if (!status && o->plot)
        status = draw_plot(r, o->plot);
    rwk_pool_close(&r->pool);
    free(text);
    free(r);
    return status;
}
