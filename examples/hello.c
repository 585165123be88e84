/* Continues a text: all that an application needs. usage: hello MODEL TEXT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ropewalk/ropewalk.h>

static struct rwk_error error = { .size = sizeof error };

static void check(enum rwk_status status)
{
    if (status) {
        fprintf(stderr, "hello: %s\n", error.message);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct rwk_model *model = NULL;
    struct rwk_tokenizer *tokenizer = NULL;
    struct rwk_session *session = NULL;
    struct rwk_sampler *sampler = NULL;
    struct rwk_stream *stream = NULL;
    struct rwk_sample next;
    uint32_t ids[256];
    const char *text;
    size_t n, size;
    int stopped;

    if (argc != 3)
        return fprintf(stderr, "usage: hello MODEL TEXT\n"), 2;
    check(rwk_model_open(&model, argv[1], NULL, &error));
    check(rwk_tokenizer_open(&tokenizer, argv[1], NULL, &error));
    check(rwk_session_create(&session, model, NULL, &error));
    check(rwk_sampler_create(&sampler, NULL, &error)); /* NULL: the likeliest token each time */
    check(rwk_stream_create(&stream, tokenizer, RWK_DECODE_SKIP_SPECIAL, &error));
    check(rwk_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), RWK_ENCODE_ADD_SPECIAL, ids,
                               256, NULL, &n, &error));
    if (n == 0 || n > 256)
        return fprintf(stderr, "hello: the text has %zu tokens\n", n), 1;

    check(rwk_session_eval(session, ids, n, 0, NULL, &error));
    for (int i = 0; i < 32; i++) {
        check(rwk_session_next(session, sampler, &next, &error));
        check(rwk_stream_push(stream, next.token, &text, &size, &stopped, &error));
        fwrite(text, 1, size, stdout);
    }
    putchar('\n');
    rwk_stream_close(&stream);
    rwk_sampler_close(&sampler);
    rwk_session_close(&session);
    rwk_tokenizer_close(&tokenizer);
    rwk_model_close(&model);
    return 0;
}
