/* Samples a continuation and prints it piece by piece, up to a full stop, the model's end token or
 * 100 tokens. usage: stream MODEL TEXT SEED */
#include <ropewalk/ropewalk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rwk_error error = { .size = sizeof error };

static void check(enum rwk_status status)
{
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
}

static int is_end(const struct rwk_generation_defaults *defaults, uint32_t token)
{
    for (uint32_t i = 0; i < defaults->n_eos_tokens; i++)
        if (defaults->eos_tokens[i] == token)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    struct rwk_model *model = NULL;
    struct rwk_tokenizer *tokenizer = NULL;
    struct rwk_session *session = NULL;
    struct rwk_sampler_options how;
    struct rwk_sampler *sampler = NULL;
    struct rwk_stream *stream = NULL;
    struct rwk_generation_defaults defaults = { .size = sizeof defaults };
    struct rwk_sample next;
    uint32_t ids[256];
    size_t n, size;
    const char *text;
    int stopped = 0;

    if (argc != 4)
        return 2;
    check(rwk_model_open(&model, argv[1], NULL, &error));
    check(rwk_model_get_generation_defaults(model, &defaults));
    check(rwk_tokenizer_open(&tokenizer, argv[1], NULL, &error));
    check(rwk_session_create(&session, model, NULL, &error));

    rwk_sampler_options_init(&how);
    how.temperature = 0.8;
    how.top_p = 0.95;
    check(rwk_sampler_options_set(&how, "seed", argv[3], &error)); /* every option has words, too */
    check(rwk_sampler_create(&sampler, &how, &error));

    check(rwk_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), RWK_ENCODE_ADD_SPECIAL, ids,
                               256, NULL, &n, &error));
    if (n == 0 || n > 256)
        return 1;
    check(rwk_stream_create(&stream, tokenizer, RWK_DECODE_SKIP_SPECIAL, &error));
    check(rwk_stream_add_stop(stream, ".", 1, &error));
    check(rwk_stream_prime(stream, ids, n, &error)); /* so that blanks come out right */
    check(rwk_session_eval(session, ids, n, 0, NULL, &error));

    for (int i = 0; i < 100 && !stopped; i++) {
        check(rwk_session_next(session, sampler, &next, &error));
        if (is_end(&defaults, next.token))
            break;
        check(rwk_stream_push(stream, next.token, &text, &size, &stopped, &error));
        fwrite(text, 1, size, stdout); /* whole characters only, nothing of the stop text */
        fflush(stdout);
    }
    check(rwk_stream_flush(stream, &text, &size, &error));
    fwrite(text, 1, size, stdout);
    putchar('\n');

    rwk_stream_close(&stream);
    rwk_sampler_close(&sampler);
    rwk_session_close(&session);
    rwk_tokenizer_close(&tokenizer);
    rwk_model_close(&model);
    return 0;
}
