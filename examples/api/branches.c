/* Several continuations of one text: the text is computed once and forked, then all branches take
 * their steps together, in one pass over the weights. One of them is saved to a file and read back.
 * usage: branches MODEL TEXT FILE */
#include <ropewalk/ropewalk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3, STEPS = 12 };

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
    struct rwk_model_info info = { .size = sizeof info };
    struct rwk_tokenizer *tokenizer = NULL;
    struct rwk_session *branches[N] = { NULL }, *loaded = NULL;
    struct rwk_sampler *samplers[N] = { NULL };
    struct rwk_session_stats stats = { .size = sizeof stats };
    uint32_t ids[256], next[N];
    char text[1024];
    size_t n, size;

    if (argc != 4)
        return 2;
    check(rwk_model_open(&model, argv[1], NULL, &error));
    check(rwk_model_get_info(model, &info));
    check(rwk_tokenizer_open(&tokenizer, argv[1], NULL, &error));
    check(rwk_session_create(&branches[0], model, NULL, &error));
    check(rwk_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), RWK_ENCODE_ADD_SPECIAL, ids,
                               256, NULL, &n, &error));
    if (n == 0 || n > 256)
        return 1;
    check(rwk_session_eval(branches[0], ids, n, 0, NULL, &error));
    for (int i = 1; i < N; i++)
        check(rwk_session_fork(&branches[i], branches[0], &error)); /* copies no keys or values */

    for (int i = 0; i < N; i++) {
        struct rwk_sampler_options how;
        rwk_sampler_options_init(&how);
        how.temperature = 1;
        how.seed = (uint64_t)i;
        check(rwk_sampler_create(&samplers[i], &how, &error));
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++) {
            struct rwk_sample sample;
            check(rwk_sampler_sample(samplers[i], rwk_session_logits(branches[i], RWK_LAST),
                                     info.vocab_size, NULL, 0, &sample, &error));
            next[i] = sample.token;
        }
        check(rwk_step(branches, next, N, &error));
    }
    for (int i = 0; i < N; i++) {
        check(rwk_tokenizer_decode(tokenizer, rwk_session_tokens(branches[i]) + n, STEPS,
                                   RWK_DECODE_SKIP_SPECIAL, text, sizeof text, &size, &error));
        printf("%d:%.*s\n", i, (int)(size < sizeof text ? size : sizeof text), text);
    }
    check(rwk_session_get_stats(branches[0], &stats));
    printf("passes over the weights: %llu\n", (unsigned long long)stats.passes);

    check(rwk_session_save_file(branches[1], argv[3], &error));
    check(rwk_session_load_file(&loaded, model, NULL, argv[3], &error));
    printf("loaded: %s\n", memcmp(rwk_session_logits(loaded, RWK_LAST),
                                  rwk_session_logits(branches[1], RWK_LAST),
                                  info.vocab_size * sizeof(float)) == 0
                               ? "the same logits"
                               : "other logits");

    rwk_session_close(&loaded);
    for (int i = 0; i < N; i++) {
        rwk_sampler_close(&samplers[i]);
        rwk_session_close(&branches[i]);
    }
    rwk_tokenizer_close(&tokenizer);
    rwk_model_close(&model);
    return 0;
}
