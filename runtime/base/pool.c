/* A pool of threads; the protocol is in pool.h.
 *
 *   [0, n_tasks) -> one contiguous range for each worker -> pieces from the front by its owner,
 * from the end by thieves
 *
 * A range is one atomic word, begin << 32 | end, so that taking a piece is one compare-and-swap. A
 * worker's state is one word too: 2 e when idle and done with epoch e, 2 e + 1 while it works in
 * it; every state has reached 2 e before epoch e + 1 is published, so that ranges and job are never
 * written while anybody reads them. */
#include "runtime/base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include "runtime/base/error.h"
#include "runtime/base/memory.h"

enum {
    MAX_THREADS = 1024,
    PIECES = 16,         /* in which an owner takes its range; a thief takes half as much at once */
    SPIN_NS = 60 * 1000, /* how long a worker looks for the next job before it sleeps */
    YIELD_NS = 20 * 1000, /* how long anybody spins before it offers its processor to others */
    PAUSES = 16,          /* between two looks at the clock */
    STACK_BYTES = 512 << 10
};

/* What is written by different threads lies on different cache lines. */
struct worker {
    _Alignas(64) atomic_ullong range;
    _Alignas(64) atomic_uint state;
    pthread_t thread;
    struct rwk_pool *pool;
    uint32_t index;
};

struct rwk_pool {
    _Alignas(64) atomic_uint epoch;
    atomic_bool ending;
    _Alignas(64) atomic_uint sleepers;
    pthread_mutex_t turn; /* one job at a time */
    pthread_mutex_t sleep_lock;
    pthread_cond_t wake;
    rwk_task_fn fn;
    void *arg;
    uint32_t piece;
    uint32_t n_threads, n_started;
    struct rwk_memory memory;
    struct worker *workers; /* [n_threads]; 0 is the caller */
};

/* ---- waiting ---- */

struct wait {
    struct timespec start;
};

static struct wait wait_begin(void)
{
    struct wait w;
    clock_gettime(CLOCK_MONOTONIC, &w.start);
    return w;
}

/* Pauses a little; after YIELD_NS lets others run. Returns the nanoseconds since the beginning. */
static int64_t wait_more(const struct wait *w)
{
    struct timespec t;
    for (int i = 0; i < PAUSES; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns =
        (int64_t)(t.tv_sec - w->start.tv_sec) * 1000000000 + (t.tv_nsec - w->start.tv_nsec);
    if (ns > YIELD_NS)
        sched_yield();
    return ns;
}

/* Returns once the epoch is no longer `seen`. The order of the writes to `sleepers` and `epoch`
 * against the reads of the other side is sequentially consistent: either the publisher sees the
 * sleeper, or the sleeper sees the new epoch. */
static unsigned await_epoch(struct rwk_pool *pool, unsigned seen)
{
    struct wait w = wait_begin();
    unsigned epoch;
    while ((epoch = atomic_load_explicit(&pool->epoch, memory_order_acquire)) == seen)
        if (wait_more(&w) > SPIN_NS)
            break;
    if (epoch != seen)
        return epoch;
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while ((epoch = atomic_load(&pool->epoch)) == seen)
        pthread_cond_wait(&pool->wake, &pool->sleep_lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->sleep_lock);
    return epoch;
}

static unsigned publish(struct rwk_pool *pool)
{
    unsigned epoch = atomic_fetch_add(&pool->epoch, 1) + 1;
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->sleep_lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->sleep_lock);
    }
    return epoch;
}

/* ---- one job ---- */

static unsigned long long range_of(uint64_t begin, uint64_t end)
{
    return (unsigned long long)(begin << 32 | end);
}

/* A piece from the front (owner) or the end (thief) of a range; false when it is used up. */
static bool take(struct worker *worker, uint32_t piece, bool front, uint32_t *ret_begin,
                 uint32_t *ret_end)
{
    unsigned long long range = atomic_load_explicit(&worker->range, memory_order_relaxed), left;
    do {
        uint32_t begin = (uint32_t)(range >> 32), end = (uint32_t)range;
        if (begin >= end)
            return false;
        uint32_t n = end - begin < piece ? end - begin : piece;
        *ret_begin = front ? begin : end - n;
        *ret_end = *ret_begin + n;
        left = front ? range_of(begin + n, end) : range_of(begin, end - n);
    } while (!atomic_compare_exchange_weak_explicit(&worker->range, &range, left,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Works until nothing is left to take anywhere. */
static void work(struct rwk_pool *pool, uint32_t self)
{
    uint32_t begin, end, theft = pool->piece > 1 ? pool->piece / 2 : 1;
    while (take(&pool->workers[self], pool->piece, true, &begin, &end))
        pool->fn(pool->arg, begin, end, self);
    for (uint32_t i = 1; i < pool->n_threads; i++)
        while (take(&pool->workers[(self + i) % pool->n_threads], theft, false, &begin, &end))
            pool->fn(pool->arg, begin, end, self);
}

static void *run_worker(void *arg)
{
    struct worker *self = arg;
    struct rwk_pool *pool = self->pool;
    for (unsigned epoch = 0;;) {
        epoch = await_epoch(pool, epoch);
        if (atomic_load(&pool->ending))
            return NULL;
        unsigned idle = 2 * (epoch - 1);
        if (!atomic_compare_exchange_strong_explicit(&self->state, &idle, 2 * epoch + 1,
                                                     memory_order_acquire, memory_order_relaxed))
            continue; /* too late for this one */
        work(pool, self->index);
        atomic_store_explicit(&self->state, 2 * epoch, memory_order_release);
    }
}

static void close_epoch(struct rwk_pool *pool, unsigned epoch)
{
    struct wait w = wait_begin();
    for (uint32_t i = 1; i < pool->n_threads; i++) {
        struct worker *worker = &pool->workers[i];
        unsigned idle = 2 * (epoch - 1);
        if (atomic_compare_exchange_strong_explicit(&worker->state, &idle, 2 * epoch,
                                                    memory_order_relaxed, memory_order_relaxed))
            continue;
        while (atomic_load_explicit(&worker->state, memory_order_acquire) != 2 * epoch)
            wait_more(&w);
    }
}

static void run_on_pool(struct rwk_pool *pool, uint32_t n_tasks, rwk_task_fn fn, void *arg)
{
    uint64_t n = pool->n_threads;
    pthread_mutex_lock(&pool->turn);
    pool->fn = fn;
    pool->arg = arg;
    pool->piece = n_tasks / pool->n_threads / PIECES;
    pool->piece += pool->piece == 0;
    for (uint64_t i = 0; i < n; i++)
        atomic_store_explicit(&pool->workers[i].range,
                              range_of(n_tasks * i / n, n_tasks * (i + 1) / n),
                              memory_order_relaxed);
    unsigned epoch = publish(pool);
    work(pool, 0);
    close_epoch(pool, epoch);
    pthread_mutex_unlock(&pool->turn);
}

void rwk_run(const struct rwk_executor *executor, uint32_t n_tasks, rwk_task_fn fn, void *arg)
{
    if (n_tasks == 0)
        return;
    if (executor->pool && executor->pool->n_threads > 1 && n_tasks > 1)
        run_on_pool(executor->pool, n_tasks, fn, arg);
    else if (executor->parallel && n_tasks > 1)
        executor->parallel(executor->parallel_data, n_tasks, fn, arg);
    else
        fn(arg, 0, n_tasks, 0);
}

/* ---- life ---- */

/* Starts the threads, with all signals blocked: the host's handlers are not for them. */
static int start_workers(struct rwk_pool *pool)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int code = pthread_attr_init(&attributes);
    if (code)
        return code;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 1; i < pool->n_threads && !code; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i;
        code = pthread_create(&worker->thread, &attributes, run_worker, worker);
        pool->n_started += code == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return code;
}

enum rwk_status rwk_pool_create(struct rwk_pool **ret_pool, uint32_t n_threads,
                                const struct rwk_allocator *allocator, struct rwk_error *error)
{
    struct rwk_memory memory;
    if (n_threads == 0 || n_threads > MAX_THREADS)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "threads", "%u is not between 1 and %d",
                           n_threads, MAX_THREADS);
    rwk_memory_init(&memory, allocator, 0);
    struct rwk_pool *pool = rwk_calloc(&memory, 1, sizeof *pool);
    struct worker *workers = rwk_calloc(&memory, n_threads, sizeof *workers);
    if (!pool || !workers) {
        rwk_free(&memory, workers);
        rwk_free(&memory, pool);
        return rwk_fail_nomem(error, sizeof *pool + n_threads * sizeof *workers);
    }
    rwk_memory_init(&pool->memory, allocator, 0);
    pool->workers = workers;
    pool->n_threads = n_threads;
    pthread_mutex_init(&pool->turn, NULL);
    pthread_mutex_init(&pool->sleep_lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    int code = start_workers(pool);
    if (code) {
        rwk_pool_close(&pool);
        return rwk_fail_at(error, RWK_STATUS_NOMEM,
                           &(struct rwk_where) { .offset = RWK_NO_OFFSET, .os_error = code },
                           "a thread could not be started");
    }
    *ret_pool = pool;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_pool_pin(struct rwk_pool *pool, const uint32_t *cpus, uint32_t n_cpus,
                             struct rwk_error *error)
{
    if (n_cpus == 0)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "cpus", "no processors are given");
#ifdef __linux__
    for (uint32_t i = 1; i <= pool->n_started; i++) {
        uint32_t cpu = cpus[i % n_cpus];
        cpu_set_t set;
        CPU_ZERO(&set);
        if (cpu < CPU_SETSIZE)
            CPU_SET(cpu, &set);
        int code = pthread_setaffinity_np(pool->workers[i].thread, sizeof set, &set);
        if (code)
            return rwk_fail_at(error, RWK_STATUS_RANGE,
                               &(struct rwk_where) {
                                   .subject = "cpus", .offset = RWK_NO_OFFSET, .os_error = code },
                               "worker %u cannot be bound to processor %u", i, cpu);
    }
    return RWK_STATUS_OK;
#else
    (void)pool;
    (void)cpus;
    return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, "cpus",
                       "threads cannot be bound on this system");
#endif
}

void rwk_pool_close(struct rwk_pool **pool)
{
    struct rwk_pool *p = pool ? *pool : NULL;
    if (!p)
        return;
    atomic_store(&p->ending, true);
    publish(p);
    for (uint32_t i = 1; i <= p->n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_mutex_destroy(&p->turn);
    pthread_mutex_destroy(&p->sleep_lock);
    pthread_cond_destroy(&p->wake);
    struct rwk_memory memory;
    rwk_memory_init(&memory, &p->memory.host, 0);
    rwk_free(&memory, p->workers);
    rwk_free(&memory, p);
    *pool = NULL;
}

uint32_t rwk_pool_n_threads(const struct rwk_pool *pool)
{
    return pool->n_threads;
}
