/* What the model thinks of each token of a text: its log-probability, its rank, and the likeliest
 * token in its place; at the end the perplexity. usage: score MODEL TEXT */
#include <math.h>
#include <ropewalk/ropewalk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 256 };

static struct rwk_error error = { .size = sizeof error };

static void check(enum rwk_status status)
{
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
}

static void print_piece(const struct rwk_tokenizer *tokenizer, uint32_t id)
{
    struct rwk_piece piece;
    check(rwk_tokenizer_piece(tokenizer, id, &piece));
    printf("  %-14.*s", (int)piece.size, piece.text);
}

int main(int argc, char **argv)
{
    struct rwk_model *model = NULL;
    struct rwk_tokenizer *tokenizer = NULL;
    struct rwk_session *session = NULL;
    struct rwk_sample scores[CAPACITY], best[CAPACITY]; /* one likeliest token for each place */
    uint32_t ids[CAPACITY];
    size_t n;
    double sum = 0;

    if (argc != 3)
        return 2;
    check(rwk_model_open(&model, argv[1], NULL, &error));
    check(rwk_tokenizer_open(&tokenizer, argv[1], NULL, &error));
    check(rwk_session_create(&session, model, NULL, &error));
    check(rwk_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), RWK_ENCODE_ADD_SPECIAL, ids,
                               CAPACITY, NULL, &n, &error));
    if (n < 2 || n > CAPACITY)
        return 1;

    check(rwk_session_score_top(session, ids, n, 1, scores, best, &error));
    for (size_t i = 0; i + 1 < n; i++) { /* scores[i] is that of ids[i + 1] */
        printf("%9.4f  rank %-5u", scores[i].logprob, scores[i].rank);
        print_piece(tokenizer, scores[i].token);
        print_piece(tokenizer, best[i].token);
        putchar('\n');
        sum += scores[i].logprob;
    }
    printf("perplexity %.4f\n", exp(-sum / (double)(n - 1)));

    rwk_session_close(&session);
    rwk_tokenizer_close(&tokenizer);
    rwk_model_close(&model);
    return 0;
}
