/* generate: prompt -> ids -> session -> draw, step, print, until something ends it. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_NEW_TOKENS = 128 };

struct job {
    const struct options *o;
    struct rwk_model *model;
    struct rwk_tokenizer *tokenizer; /* NULL when ids go in and come out */
    struct rwk_pool *pool;
    struct rwk_session *session;
    struct rwk_sampler *sampler;
    struct rwk_stream *stream;
    struct rwk_generation_defaults defaults;
    uint32_t *prompt, *generated;
    size_t n_prompt, n_generated, max_new;
    const char *stop_reason;
    char *text;                      /* --json: what would have been streamed */
    size_t text_size, text_capacity;
    double load_s, prefill_s, decode_s;
    struct rwk_error error;
};

static int fail_job(struct job *j) { return fail_error(&j->error); }

/* ---- prompt ---- */

/* An empty prompt starts from the beginning token, or the end token where there is none (GPT-2). */
static int start_token(struct job *j)
{
    uint32_t id = j->defaults.bos_token;
    if (id == RWK_TOKEN_NONE && j->tokenizer)
        id = rwk_tokenizer_special(j->tokenizer, RWK_SPECIAL_BOS);
    if (id == RWK_TOKEN_NONE && j->defaults.n_eos_tokens)
        id = j->defaults.eos_tokens[0];
    if (id == RWK_TOKEN_NONE)
        return fail("prompt: it is empty, and the model names no token to start from");
    free(j->prompt);
    j->prompt = malloc(sizeof *j->prompt);
    if (!j->prompt)
        return fail("out of memory");
    j->prompt[0] = id;
    j->n_prompt = 1;
    return EXIT_DONE;
}

static int read_prompt(struct job *j)
{
    const struct options *o = j->o;
    const char *text = o->n_arguments > 1 ? o->arguments[1] : NULL;
    char *owned = NULL;
    size_t size = text ? strlen(text) : 0;
    int status = EXIT_DONE;
    if (text && (o->ids || o->ids_file))
        return fail("ids: a prompt was given, too");
    if (o->ids) {
        status = parse_ids(o->ids, strlen(o->ids), &j->prompt, &j->n_prompt);
    } else {
        if (!text) {
            status = read_whole(o->ids_file ? o->ids_file : "-", &owned, &size);
            text = owned;
        }
        if (!status)
            status = o->ids_file ? parse_ids(text, size, &j->prompt, &j->n_prompt)
                                 : encode_text(j->tokenizer, text, size, RWK_ENCODE_ADD_SPECIAL, &j->prompt, &j->n_prompt);
    }
    free(owned);
    return !status && j->n_prompt == 0 ? start_token(j) : status;
}

/* ---- set-up ---- */

static int make_sampler(struct job *j)
{
    const struct options *o = j->o;
    const struct rwk_generation_defaults *d = &j->defaults;
    static const char *const asks[] = { "temperature", "top-k", "top-p", "min-p", "seed" };
    struct rwk_sampler_options so;
    bool sample = d->do_sample;
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        sample |= options_given(o, asks[i]);
    rwk_sampler_options_init(&so);
    so.repetition_penalty = options_given(o, "repetition-penalty") ? o->repetition_penalty : d->repetition_penalty;
    so.seed = o->seed;
    if (sample && !o->greedy) {
        so.temperature = options_given(o, "temperature") ? o->temperature : d->temperature;
        so.top_k = options_given(o, "top-k") ? (int32_t)o->top_k : d->top_k;
        so.top_p = options_given(o, "top-p") ? o->top_p : d->top_p;
        so.min_p = options_given(o, "min-p") ? o->min_p : d->min_p;
    }
    return rwk_sampler_create(&j->sampler, &so, &j->error) ? fail_job(j) : EXIT_DONE;
}

static int make_stream(struct job *j)
{
    if (!j->tokenizer)
        return j->o->n_stop ? fail("stop: there is no tokenizer to find texts with") : EXIT_DONE;
    if (rwk_stream_create(&j->stream, j->tokenizer, RWK_DECODE_SKIP_SPECIAL, &j->error))
        return fail_job(j);
    for (int i = 0; i < j->o->n_stop; i++)
        if (rwk_stream_add_stop(j->stream, j->o->stop[i], strlen(j->o->stop[i]), &j->error))
            return fail_job(j);
    return rwk_stream_prime(j->stream, j->prompt, j->n_prompt, &j->error) ? fail_job(j) : EXIT_DONE;
}

/* How many tokens may come, and a session with room for them. */
static int make_session(struct job *j)
{
    const struct options *o = j->o;
    struct rwk_model_info info = { .size = sizeof info };
    struct rwk_session_options so;
    rwk_model_get_info(j->model, &info);
    j->max_new = options_given(o, "max-new-tokens") ? o->max_new_tokens :
                 j->defaults.max_new_tokens ? j->defaults.max_new_tokens : DEFAULT_NEW_TOKENS;
    uint64_t context = o->context ? o->context : info.context;
    if (o->context) {
        int status = check_context(o, j->model, o->context);
        if (status)
            return status;
    }
    if (j->n_prompt > context)
        return fail("prompt: %zu tokens do not fit a context of %llu", j->n_prompt, (unsigned long long)context);
    session_options(o, j->pool, &so);
    /* The last generated token's own position is never used. Tokens asked for in so many words may go beyond what the plan
     * is made for, where no table ends. */
    uint64_t wanted = j->n_prompt + (j->max_new ? j->max_new - 1 : 0);
    if (wanted > context && !o->context && options_given(o, "max-new-tokens") && info.context_limit == UINT64_MAX) {
        context = wanted;
        check_context(o, j->model, context);
    }
    so.context = wanted < context ? wanted : context;
    if (rwk_session_create(&j->session, j->model, &so, &j->error))
        return fail_job(j);
    j->generated = malloc((j->max_new + 1) * sizeof *j->generated);
    return j->generated ? EXIT_DONE : fail("out of memory");
}

static int set_up(struct job *j)
{
    const struct options *o = j->o;
    struct rwk_model_options mo;
    double start = seconds();
    int status = open_pool(o, &j->pool);
    if (status)
        return status;
    model_options(o, o->n_rope_scaling ? o->rope_scaling[0] : NULL, &mo);
    mo.pool = j->pool;
    if (rwk_model_open(&j->model, o->arguments[0], &mo, &j->error))
        return fail_job(j);
    j->defaults.size = sizeof j->defaults;
    rwk_model_get_generation_defaults(j->model, &j->defaults);
    bool ids_only = (o->ids || o->ids_file) && o->print_ids;
    if (!ids_only && rwk_tokenizer_open(&j->tokenizer, o->arguments[0], NULL, &j->error))
        return fail_job(j);
    j->load_s = seconds() - start;
    if ((status = read_prompt(j)) || (status = make_sampler(j)) || (status = make_stream(j)))
        return status;
    return make_session(j);
}

/* ---- output ---- */

static int put_text(struct job *j, const char *text, size_t size)
{
    if (!size || j->o->print_ids)
        return EXIT_DONE;
    if (j->o->json) {
        if (j->text_size + size > j->text_capacity) {
            size_t capacity = 2 * (j->text_size + size) + 256;
            char *grown = realloc(j->text, capacity);
            if (!grown)
                return fail("out of memory");
            j->text = grown;
            j->text_capacity = capacity;
        }
        memcpy(j->text + j->text_size, text, size);
        j->text_size += size;
        return EXIT_DONE;
    }
    fwrite(text, 1, size, stdout);
    return finish_output(EXIT_DONE);
}

static bool is_eos(const struct job *j, uint32_t id)
{
    for (uint32_t i = 0; i < j->defaults.n_eos_tokens && !j->o->ignore_eos; i++)
        if (j->defaults.eos_tokens[i] == id)
            return true;
    return false;
}

static int put_token(struct job *j, uint32_t id)
{
    const char *text = "";
    size_t size = 0;
    int stopped = 0;
    if (j->o->print_ids && !j->o->json) {
        printf("%s%u", j->n_generated > 1 ? " " : "", id);
        return finish_output(EXIT_DONE);
    }
    if (!j->stream)
        return EXIT_DONE;
    if (rwk_stream_push(j->stream, id, &text, &size, &stopped, &j->error))
        return fail_job(j);
    if (stopped)
        j->stop_reason = "stop_text";
    return put_text(j, text, size);
}

static int flush_text(struct job *j)
{
    const char *text = "";
    size_t size = 0;
    if (!j->stream || (j->stop_reason && strcmp(j->stop_reason, "stop_text") == 0))
        return EXIT_DONE;
    return rwk_stream_flush(j->stream, &text, &size, &j->error) ? fail_job(j) : put_text(j, text, size);
}

static void print_result(const struct job *j)
{
    printf("{\"text\": ");
    print_json_string(stdout, j->text ? j->text : "", j->text_size);
    printf(", \"ids\": [");
    for (size_t i = 0; i < j->n_generated; i++)
        printf("%s%u", i ? ", " : "", j->generated[i]);
    printf("], \"stop_reason\": \"%s\", \"prompt_tokens\": %zu, \"generated_tokens\": %zu, \"load_s\": ", j->stop_reason,
           j->n_prompt, j->n_generated);
    print_double(stdout, j->load_s);
    printf(", \"prefill_s\": ");
    print_double(stdout, j->prefill_s);
    printf(", \"decode_s\": ");
    print_double(stdout, j->decode_s);
    puts("}");
}

/* ---- the loop ---- */

static int next_token(struct job *j, uint32_t *ret)
{
    struct rwk_model_info info = { .size = sizeof info };
    struct rwk_sample sample;
    uint64_t position = rwk_session_position(j->session);
    size_t last = j->n_generated ? 0 : j->n_prompt - 1;
    rwk_model_get_info(j->model, &info);
    if (rwk_sampler_sample(j->sampler, rwk_session_logits(j->session, last), info.vocab_size,
                           rwk_session_tokens(j->session), (size_t)position, &sample, &j->error))
        return fail_job(j);
    *ret = sample.token;
    return EXIT_DONE;
}

static int run_loop(struct job *j)
{
    double start = seconds();
    if (rwk_session_eval(j->session, j->prompt, j->n_prompt, 0, NULL, &j->error))
        return fail_job(j);
    j->prefill_s = seconds() - start;
    start = seconds();
    while (!j->stop_reason) {
        uint32_t id;
        if (j->n_generated == j->max_new) {
            j->stop_reason = "length";
            break;
        }
        int status = next_token(j, &id);
        if (status)
            return status;
        j->generated[j->n_generated++] = id;
        if (is_eos(j, id))
            j->stop_reason = "eos";
        else if ((status = put_token(j, id)))
            return status;
        if (j->stop_reason || j->n_generated == j->max_new)
            continue;
        if (rwk_session_position(j->session) == rwk_session_context(j->session)) {
            j->stop_reason = "context";
            notice(j->o, "stopped: the context of %llu positions is full",
                   (unsigned long long)rwk_session_context(j->session));
        } else if (rwk_session_eval(j->session, &id, 1, 0, NULL, &j->error)) {
            return fail_job(j);
        }
    }
    j->decode_s = seconds() - start;
    return flush_text(j);
}

int run_generate(const struct options *o)
{
    struct job j = { .o = o, .error = { .size = sizeof j.error } };
    int status = set_up(&j);
    if (!status)
        status = run_loop(&j);
    if (!status && o->json)
        print_result(&j);
    else if (j.n_generated)
        putchar('\n');
    rwk_stream_close(&j.stream);
    rwk_sampler_close(&j.sampler);
    rwk_session_close(&j.session);
    rwk_tokenizer_close(&j.tokenizer);
    rwk_model_close(&j.model);
    rwk_pool_close(&j.pool);
    free(j.prompt);
    free(j.generated);
    free(j.text);
    return status;
}
