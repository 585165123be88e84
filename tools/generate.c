/* prompt -> ids -> prefill -> (logits -> sampler -> id -> stream decoder -> text), one token at a
 * time.
 *
 * Where it ends: at the model's end token ("eos"), a stop text ("stop_text"), the number of tokens
 * asked for ("length"), or the context ("context"). A prompt of P tokens in a context of C leaves
 * room for C - P + 1: the last token's own position is never evaluated. The end token and the stop
 * text are no part of the result. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "commands.h"
#include "ids.h"
#include "load.h"
#include "output.h"
#include "progress.h"
#include "tool.h"

#define DEFAULT_TOKENS 128

struct generation {
    const struct options *o;
    struct rwk_pool *pool;
    struct rwk_model *model;
    struct rwk_model_info info;
    struct rwk_generation_defaults defaults;
    struct rwk_tokenizer *tokenizer; /* NULL where neither text comes in nor goes out */
    struct rwk_stream *stream;       /* NULL without text or stop texts */
    struct rwk_session *session;
    struct rwk_sampler *sampler;
    struct rwk_sampler_options sampling;

    struct ids prompt, ids; /* ids: the continuation */
    uint64_t wanted;        /* tokens asked for */
    uint64_t context;
    char *text;             /* [text_size] of the continuation; kept for --json only */
    size_t text_size, text_capacity;
    uint32_t stop_token;
    const char *stop_reason;
    double load_seconds, prompt_seconds, decode_seconds;
};

/* ---- prompt ---- */

/* What an empty prompt begins with: the token for the beginning, or, as GPT-2 does it, for the
 * end. */
static uint32_t first_token(const struct generation *g)
{
    uint32_t candidates[] = {
        g->tokenizer ? rwk_tokenizer_special(g->tokenizer, RWK_SPECIAL_BOS) : RWK_TOKEN_NONE,
        g->defaults.bos_token,
        g->tokenizer ? rwk_tokenizer_special(g->tokenizer, RWK_SPECIAL_EOS) : RWK_TOKEN_NONE,
        g->defaults.n_eos_tokens ? g->defaults.eos_tokens[0] : RWK_TOKEN_NONE,
    };
    for (size_t i = 0; i < COUNT_OF(candidates); i++)
        if (candidates[i] != RWK_TOKEN_NONE)
            return candidates[i];
    die("%s: the prompt is empty and the model names no token to begin with", g->o->arguments[0]);
}

/* A beginning-of-sequence token that the user typed and one that the tokenizer put before it are
 * one. */
static void drop_doubled_bos(struct generation *g)
{
    uint32_t bos = rwk_tokenizer_special(g->tokenizer, RWK_SPECIAL_BOS);
    struct ids *p = &g->prompt;
    if (p->n < 2 || bos == RWK_TOKEN_NONE || p->items[0] != bos || p->items[1] != bos)
        return;
    p->n--;
    memmove(p->items, p->items + 1, p->n * sizeof *p->items);
}

static void prompt_read(struct generation *g)
{
    const struct options *o = g->o;
    size_t size;
    char *owned = NULL;
    if (o->ids) {
        ids_parse(&g->prompt, o->ids, strlen(o->ids), "--ids");
    } else if (o->ids_file) {
        owned = read_whole(o->ids_file, &size);
        ids_parse(&g->prompt, owned, size, o->ids_file);
    } else {
        const char *text = o->n_arguments > 1 ? o->arguments[1] : NULL;
        if (!text)
            text = owned = read_whole(NULL, &size);
        else
            size = strlen(text);
        encode(&g->prompt, NULL, g->tokenizer, text, size, RWK_ENCODE_ADD_SPECIAL);
        drop_doubled_bos(g);
    }
    free(owned);
    if (!g->prompt.n)
        ids_append(&g->prompt, first_token(g));
}

/* ---- settings ---- */

static bool samples(const struct options *o, const struct rwk_generation_defaults *defaults)
{
    static const enum option_id asking[] = { OPTION_TEMPERATURE, OPTION_TOP_K, OPTION_TOP_P,
                                             OPTION_MIN_P, OPTION_SEED };
    if (o->greedy)
        return false;
    for (size_t i = 0; i < COUNT_OF(asking); i++)
        if (options_given(o, asking[i]))
            return true;
    return defaults->do_sample != 0;
}

/* Small enough to be typed again. */
static uint64_t fresh_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        die("no random seed to be had: give --seed");
    return seed;
}

static void sampler_open(struct generation *g)
{
    const struct options *o = g->o;
    const struct rwk_generation_defaults *d = &g->defaults;
    struct rwk_error error = ERROR_INIT;
    struct rwk_sampler_options *s = &g->sampling;
    rwk_sampler_options_init(s);
    s->repetition_penalty =
        options_given(o, OPTION_REPETITION_PENALTY) ? o->repetition_penalty : d->repetition_penalty;
    if (samples(o, d)) {
        s->temperature = options_given(o, OPTION_TEMPERATURE) ? o->temperature : d->temperature;
        s->top_k = options_given(o, OPTION_TOP_K) ? (int32_t)o->top_k : d->top_k;
        s->top_p = options_given(o, OPTION_TOP_P) ? o->top_p : d->top_p;
        s->min_p = options_given(o, OPTION_MIN_P) ? o->min_p : d->min_p;
        s->seed = options_given(o, OPTION_SEED) ? o->seed : fresh_seed();
    }
    check(rwk_sampler_create(&g->sampler, s, &error), &error);
}

static void stream_open(struct generation *g)
{
    struct rwk_error error = ERROR_INIT;
    if (!g->tokenizer || (g->o->print_ids && !g->o->stop.n))
        return;
    check(rwk_stream_create(&g->stream, g->tokenizer, RWK_DECODE_SKIP_SPECIAL, &error), &error);
    for (size_t i = 0; i < g->o->stop.n; i++) {
        const char *stop = g->o->stop.items[i];
        check(rwk_stream_add_stop(g->stream, stop, strlen(stop), &error), &error);
    }
    check(rwk_stream_prime(g->stream, g->prompt.items, g->prompt.n, &error), &error);
}

/* The cache is made as large as this run can need, not as large as the model would allow. */
static void generation_session(struct generation *g)
{
    struct rwk_session_options s;
    struct progress progress;
    uint64_t limit = context_limit(&g->info, g->o);
    if (g->prompt.n > limit)
        die("the prompt has %zu tokens, the context %" PRIu64 "%s", g->prompt.n, limit,
            !g->o->context && limit < g->info.context_limit ? " (-c sets another)" : "");
    /* Tokens asked for in so many words may go beyond what the plan is made for. */
    if (!g->o->context && options_given(g->o, OPTION_TOKENS) && limit < CONTEXT_BOUND)
        limit = g->info.context_limit < CONTEXT_BOUND ? g->info.context_limit : CONTEXT_BOUND;
    g->context = g->prompt.n + g->wanted - (g->wanted > 0);
    if (g->o->context || g->context > limit)
        g->context = limit;
    context_notice(&g->info, g->o, g->context);
    progress_start(&progress, "prompt", g->o->quiet);
    session_options(&s, g->o, g->context, g->pool);
    s.progress = progress_update;
    s.progress_data = &progress;
    g->session = session_open(g->model, &s);
    g->load_seconds = now() - process_started;
    struct rwk_error error = ERROR_INIT;
    check(rwk_session_eval(g->session, g->prompt.items, g->prompt.n, 0, NULL, &error), &error);
    progress_clear();
    g->prompt_seconds = now() - process_started - g->load_seconds;
}

static void generation_open(struct generation *g)
{
    const struct options *o = g->o;
    bool text_in = !o->ids && !o->ids_file;
    g->pool = pool_open(o);
    g->model = model_open(o->arguments[0], o, rope_scaling_of(o), g->pool);
    model_info(g->model, &g->info);
    g->defaults = (struct rwk_generation_defaults){ .size = sizeof g->defaults };
    check(rwk_model_get_generation_defaults(g->model, &g->defaults), NULL);
    if (text_in || !o->print_ids || o->stop.n)
        g->tokenizer = tokenizer_open(o->arguments[0]);
    g->wanted = options_given(o, OPTION_TOKENS)   ? o->n_tokens
                : g->defaults.max_new_tokens ? g->defaults.max_new_tokens
                                             : DEFAULT_TOKENS;
    prompt_read(g);
    sampler_open(g);
    stream_open(g);
    generation_session(g);
}

/* ---- output ---- */

static void emit_text(struct generation *g, const char *text, size_t size)
{
    if (g->o->json) {
        reserve(&g->text, &g->text_capacity, g->text_size + size, 1);
        memcpy(g->text + g->text_size, text, size);
        g->text_size += size;
    } else if (!g->o->print_ids && size) {
        out_write(text, size);
        out_flush();
    }
}

/* Takes one token of the continuation. False when a stop text was met. */
static bool emit(struct generation *g, uint32_t id)
{
    struct rwk_error error = ERROR_INIT;
    const char *text = NULL;
    size_t size = 0;
    int stopped = 0;
    ids_append(&g->ids, id);
    if (g->stream) {
        check(rwk_stream_push(g->stream, id, &text, &size, &stopped, &error), &error);
        emit_text(g, text, size);
    }
    if (g->o->print_ids && !g->o->json) {
        out_print("%s%u", g->ids.n > 1 ? " " : "", id);
        out_flush();
    }
    return !stopped;
}

static void emit_rest(struct generation *g)
{
    struct rwk_error error = ERROR_INIT;
    const char *text = NULL;
    size_t size = 0;
    if (g->stream && strcmp(g->stop_reason, "stop_text") != 0) {
        check(rwk_stream_flush(g->stream, &text, &size, &error), &error);
        emit_text(g, text, size);
    }
    if (!g->o->json && g->ids.n && (g->o->print_ids || out_is_terminal()))
        out_write("\n", 1);
}

static double rate(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }

static void print_result(const struct generation *g)
{
    struct json json = { 0 };
    json_object(&json, NULL);
    if (g->stream && !g->o->print_ids)
        json_text(&json, "text", g->text, g->text_size);
    else
        json_null(&json, "text");
    json_ids(&json, "ids", g->ids.items, g->ids.n);
    json_string(&json, "stop_reason", g->stop_reason);
    if (g->stop_token != RWK_TOKEN_NONE)
        json_count(&json, "stop_token", g->stop_token);
    json_count(&json, "prompt_tokens", g->prompt.n);
    json_count(&json, "new_tokens", g->ids.n);
    json_count(&json, "context", g->context);
    json_flag(&json, "sampled", g->sampling.temperature > 0);
    if (g->sampling.temperature > 0)
        json_count(&json, "seed", g->sampling.seed);
    json_string(&json, "isa", g->info.isa);
    json_real(&json, "load_ms", 1e3 * g->load_seconds);
    json_real(&json, "prompt_ms", 1e3 * g->prompt_seconds);
    json_real(&json, "decode_ms", 1e3 * g->decode_seconds);
    json_real(&json, "prompt_tokens_per_s", rate((double)g->prompt.n, g->prompt_seconds));
    json_real(&json, "decode_tokens_per_s", rate((double)g->ids.n, g->decode_seconds));
    json_end(&json, '}');
}

/* ---- the loop ---- */

static bool is_eos(const struct generation *g, uint32_t id)
{
    for (uint32_t i = 0; i < g->defaults.n_eos_tokens; i++)
        if (g->defaults.eos_tokens[i] == id)
            return !g->o->ignore_eos;
    return false;
}

/* Draws and gives out tokens until there is a reason to stop, which it returns. */
static const char *run(struct generation *g)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_sample sample;
    size_t last = g->prompt.n - 1; /* of the latest eval's tokens */
    while (g->ids.n < g->wanted) {
        uint64_t position = rwk_session_position(g->session);
        check(rwk_sampler_sample(g->sampler, rwk_session_logits(g->session, last),
                                 g->info.vocab_size, rwk_session_tokens(g->session), position,
                                 &sample, &error),
              &error);
        if (is_eos(g, sample.token)) {
            g->stop_token = sample.token;
            return "eos";
        }
        if (!emit(g, sample.token))
            return "stop_text";
        if (g->ids.n == g->wanted)
            break;
        if (position == rwk_session_context(g->session))
            return "context";
        check(rwk_session_eval(g->session, &sample.token, 1, 0, NULL, &error), &error);
        last = 0;
    }
    return "length";
}

static void generation_close(struct generation *g)
{
    rwk_stream_close(&g->stream);
    rwk_sampler_close(&g->sampler);
    rwk_session_close(&g->session);
    rwk_tokenizer_close(&g->tokenizer);
    rwk_model_close(&g->model);
    rwk_pool_close(&g->pool);
    ids_finish(&g->prompt);
    ids_finish(&g->ids);
    free(g->text);
}

static void check_options(const struct options *o)
{
    static const enum option_id sampling[] = { OPTION_TEMPERATURE, OPTION_TOP_K, OPTION_TOP_P,
                                               OPTION_MIN_P };
    if ((o->n_arguments > 1) + (o->ids != NULL) + (o->ids_file != NULL) > 1)
        usage_error("generate", "more than one prompt: give PROMPT, --ids or --ids-file");
    for (size_t i = 0; o->greedy && i < COUNT_OF(sampling); i++)
        if (options_given(o, sampling[i]))
            usage_error("generate", "--greedy: not together with options for sampling");
}

int run_generate(const struct options *o)
{
    struct generation g = { .o = o, .stop_token = RWK_TOKEN_NONE };
    check_options(o);
    generation_open(&g);
    double started = now();
    g.stop_reason = run(&g);
    g.decode_seconds = now() - started;
    emit_rest(&g);
    if (o->json)
        print_result(&g);
    out_flush();
    if (!strcmp(g.stop_reason, "context") && !o->quiet)
        warn("notice: stopped after %zu of %" PRIu64
             " tokens, at the end of the context of %" PRIu64,
             g.ids.n, g.wanted, g.context);
    generation_close(&g);
    return EXIT_DONE;
}
