/* Runs a model on threads of the host's: rwk_parallel_fn is all that the library asks of them.
 * usage: host_threads MODEL TEXT
 *
 * The host here is a small crew that waits for work. Each job is a range of tasks; every thread
 * takes the next few of them until none are left. */
#include <pthread.h>
#include <ropewalk/ropewalk.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_WORKERS = 3, TAKE = 4 };

static struct rwk_error error = { .size = sizeof error };

static void check(enum rwk_status status)
{
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
}

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rwk_task_fn fn; /* the present job */
    void *arg;
    uint32_t next, n_tasks;
    uint32_t running; /* tasks that were taken and are not done */
    int ending;
};

struct worker {
    struct crew *crew;
    uint32_t index;
    pthread_t thread;
};

/* Works on the present job until nothing is left to take. Called and left with the lock held. */
static void work(struct crew *crew, uint32_t worker)
{
    while (crew->next < crew->n_tasks) {
        uint32_t begin = crew->next;
        uint32_t end = crew->n_tasks - begin < TAKE ? crew->n_tasks : begin + TAKE;
        crew->next = end;
        crew->running++;
        pthread_mutex_unlock(&crew->lock);
        crew->fn(crew->arg, begin, end, worker); /* never the same index on two threads at once */
        pthread_mutex_lock(&crew->lock);
        crew->running--;
    }
    pthread_cond_broadcast(&crew->changed);
}

static void *run_worker(void *arg)
{
    struct worker *self = arg;
    struct crew *crew = self->crew;
    pthread_mutex_lock(&crew->lock);
    while (!crew->ending) {
        if (crew->next < crew->n_tasks)
            work(crew, self->index);
        else
            pthread_cond_wait(&crew->changed, &crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

/* What the library calls: all tasks are done when it returns. The caller is worker 0. */
static void parallel(void *user_data, uint32_t n_tasks, rwk_task_fn fn, void *arg)
{
    struct crew *crew = user_data;
    pthread_mutex_lock(&crew->lock);
    crew->fn = fn;
    crew->arg = arg;
    crew->next = 0;
    crew->n_tasks = n_tasks;
    pthread_cond_broadcast(&crew->changed);
    work(crew, 0);
    while (crew->running)
        pthread_cond_wait(&crew->changed, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

int main(int argc, char **argv)
{
    static struct crew crew = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                .changed = PTHREAD_COND_INITIALIZER };
    struct worker workers[N_WORKERS];
    struct rwk_model *model = NULL;
    struct rwk_tokenizer *tokenizer = NULL;
    struct rwk_session_options options;
    struct rwk_session *session = NULL;
    struct rwk_sampler *sampler = NULL;
    struct rwk_sample next;
    uint32_t ids[256];
    size_t n;

    if (argc != 3)
        return 2;
    for (uint32_t i = 1; i < N_WORKERS; i++) {
        workers[i] = (struct worker) { .crew = &crew, .index = i };
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0)
            return 1;
    }

    check(rwk_model_open(&model, argv[1], NULL, &error));
    check(rwk_tokenizer_open(&tokenizer, argv[1], NULL, &error));
    rwk_session_options_init(&options);
    options.parallel = parallel;
    options.parallel_data = &crew;
    options.n_workers = N_WORKERS;
    check(rwk_session_create(&session, model, &options, &error));
    check(rwk_sampler_create(&sampler, NULL, &error));
    check(rwk_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), RWK_ENCODE_ADD_SPECIAL, ids,
                               256, NULL, &n, &error));
    if (n == 0 || n > 256)
        return 1;
    check(rwk_session_eval(session, ids, n, 0, NULL, &error));
    for (int i = 0; i < 10; i++) { /* the same tokens as with any other number of threads */
        check(rwk_session_next(session, sampler, &next, &error));
        printf("%u ", next.token);
    }
    putchar('\n');

    rwk_sampler_close(&sampler);
    rwk_session_close(&session);
    rwk_tokenizer_close(&tokenizer);
    rwk_model_close(&model);
    pthread_mutex_lock(&crew.lock);
    crew.ending = 1;
    pthread_cond_broadcast(&crew.changed);
    pthread_mutex_unlock(&crew.lock);
    for (uint32_t i = 1; i < N_WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    return 0;
}
