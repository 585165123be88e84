/* A conversation: each turn the whole text so far is given to rwk_session_sync, which computes only
 * what is new. usage: chat MODEL TURN... */
#include <ropewalk/ropewalk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 2048, REPLY = 12 };

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
    struct rwk_session_options options;
    struct rwk_session *session = NULL;
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample next;
    static uint32_t ids[CAPACITY]; /* the conversation */
    size_t n = 0, more, reused;

    if (argc < 3)
        return 2;
    check(rwk_model_open(&model, argv[1], NULL, &error));
    check(rwk_tokenizer_open(&tokenizer, argv[1], NULL, &error));
    rwk_session_options_init(&options);
    options.context = CAPACITY;
    check(rwk_session_create(&session, model, &options, &error));
    check(rwk_sampler_create(&sampler, NULL, &error));

    for (int turn = 2; turn < argc; turn++) {
        uint32_t flags = turn == 2 ? RWK_ENCODE_ADD_SPECIAL : 0;
        check(rwk_tokenizer_encode(tokenizer, argv[turn], strlen(argv[turn]), flags, ids + n,
                                   CAPACITY - n, NULL, &more, &error));
        if (more + REPLY > CAPACITY - n)
            return 1;
        n += more;
        check(rwk_session_sync(session, ids, n, &reused, &error));
        printf("turn %d: %zu tokens, of which %zu were there already\n", turn - 1, n, reused);
        for (int i = 0; i < REPLY; i++) {
            check(rwk_session_next(session, sampler, &next, &error));
            ids[n++] = next.token;
        }
    }

    rwk_sampler_close(&sampler);
    rwk_session_close(&session);
    rwk_tokenizer_close(&tokenizer);
    rwk_model_close(&model);
    return 0;
}
