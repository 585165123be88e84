/* Stops a long prompt half way, twice: from the progress callback, and from another thread. What
 * was done stays and is not done again. usage: cancel MODEL */
#include <pthread.h>
#include <ropewalk/ropewalk.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_TOKENS = 400, CHUNK = 50 };

static struct rwk_error error = { .size = sizeof error };

static void check(enum rwk_status status)
{
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
}

/* Called after each chunk, on the thread that called the library. */
static int progress(void *user_data, uint64_t done, uint64_t total)
{
    int *stop_at = user_data;
    return *stop_at && done >= (uint64_t)*stop_at && done < total; /* not 0: stop */
}

static void *impatient(void *session)
{
    rwk_session_cancel(session); /* honoured within a part of a matrix product */
    return NULL;
}

int main(int argc, char **argv)
{
    struct rwk_model *model = NULL;
    struct rwk_model_info info = { .size = sizeof info };
    struct rwk_session_options options;
    struct rwk_session *session = NULL;
    static uint32_t ids[N_TOKENS];
    size_t done = 0, at = 0;
    int stop_at = 150;
    pthread_t thread;

    if (argc != 2)
        return 2;
    check(rwk_model_open(&model, argv[1], NULL, &error));
    check(rwk_model_get_info(model, &info));
    for (uint32_t i = 0; i < N_TOKENS; i++)
        ids[i] = (i * 7 + 3) % info.vocab_size;
    rwk_session_options_init(&options);
    options.context = N_TOKENS;
    options.chunk = CHUNK;
    options.progress = progress;
    options.progress_data = &stop_at;
    check(rwk_session_create(&session, model, &options, &error));

    if (rwk_session_eval(session, ids, N_TOKENS, 0, &done, &error) != RWK_STATUS_CANCELLED)
        return 1;
    at += done;
    printf("the callback stopped it after %zu tokens\n", at);

    stop_at = 0;
    if (pthread_create(&thread, NULL, impatient, session) != 0)
        return 1;
    while (at < N_TOKENS) { /* go on with what is left, however often it is stopped */
        enum rwk_status status =
            rwk_session_eval(session, ids + at, N_TOKENS - at, 0, &done, &error);
        if (status != RWK_STATUS_CANCELLED)
            check(status);
        at += done;
    }
    pthread_join(thread, NULL);
    printf("all %llu tokens are there\n", (unsigned long long)rwk_session_position(session));

    rwk_session_close(&session);
    rwk_model_close(&model);
    return 0;
}
