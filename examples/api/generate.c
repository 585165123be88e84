/* Continues a text by 20 tokens and prints the whole. usage: generate MODEL TEXT */
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

int main(int argc, char **argv)
{
    struct rwk_model *model = NULL;
    struct rwk_tokenizer *tokenizer = NULL;
    struct rwk_session *session = NULL;
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample next;
    uint32_t ids[256];
    char text[4096];
    size_t n, size;

    if (argc != 3)
        return 2;
    check(rwk_model_open(&model, argv[1], NULL, &error));
    check(rwk_tokenizer_open(&tokenizer, argv[1], NULL, &error));
    check(rwk_session_create(&session, model, NULL, &error));
    check(rwk_sampler_create(&sampler, NULL, &error)); /* greedy */

    check(rwk_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), RWK_ENCODE_ADD_SPECIAL, ids,
                               256, NULL, &n, &error));
    if (n == 0 || n > 256) /* n is what is needed: a real program would make room and ask again */
        return 1;
    check(rwk_session_eval(session, ids, n, 0, NULL, &error));
    for (int i = 0; i < 20; i++)
        check(rwk_session_next(session, sampler, &next, &error));

    check(rwk_tokenizer_decode(tokenizer, rwk_session_tokens(session),
                               (size_t)rwk_session_position(session), RWK_DECODE_SKIP_SPECIAL,
                               text, sizeof text, &size, &error));
    printf("%.*s\n", (int)(size < sizeof text ? size : sizeof text), text);

    rwk_sampler_close(&sampler);
    rwk_session_close(&session);
    rwk_tokenizer_close(&tokenizer);
    rwk_model_close(&model);
    return 0;
}
