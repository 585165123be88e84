/* A pool of threads; the protocol is in pool.h.
 *
 *   [0, n_tasks) is cut into one contiguous range a worker. A worker takes pieces from the front of its own range, then from
 *   the ranges of others. A range is one atomic 64-bit word, next << 32 | end, so taking a piece is one compare-and-swap. */
#include "runtime/base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "runtime/base/error.h"
#include "runtime/base/memory.h"

enum {
    PIECES = 8,            /* a worker's range is taken in about so many pieces */
    SPIN_NS = 60000,       /* how long a worker looks for the next job before it sleeps */
    YIELD_NS = 20000,      /* how long anybody spins before letting others have the processor */
    PAUSES = 32,           /* between two looks at the clock */
    STACK_BYTES = 1 << 20
};

/* Each on a cache line of its own. */
struct worker {
    _Alignas(64) atomic_ullong range;
    atomic_uint done;      /* the last epoch that this worker has finished */
    pthread_t thread;
    struct rwk_pool *pool;
    uint32_t index;
};

struct rwk_pool {
    _Alignas(64) atomic_uint epoch;   /* raised for each job */
    atomic_bool ending;
    _Alignas(64) pthread_mutex_t turn; /* one job at a time */
    pthread_mutex_t sleep_lock;
    pthread_cond_t wake;
    atomic_uint sleepers;
    rwk_task_fn fn;
    void *arg;
    uint32_t n_threads, n_started;
    struct rwk_memory memory;
    struct worker *workers;            /* [n_threads]; 0 is the caller */
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_a_little(void)
{
    for (int i = 0; i < PAUSES; i++) {
#if defined __x86_64__ || defined __i386__
        __builtin_ia32_pause();
#elif defined __aarch64__
        __asm__ volatile("yield");
#endif
    }
}

/* ---- one job ---- */

/* A piece of a worker's range; false when it is used up. */
static bool take(struct worker *worker, uint32_t piece, uint32_t *ret_begin, uint32_t *ret_end)
{
    unsigned long long range = atomic_load_explicit(&worker->range, memory_order_acquire);
    for (;;) {
        uint32_t next = (uint32_t)(range >> 32), end = (uint32_t)range;
        if (next >= end)
            return false;
        uint32_t to = end - next < piece ? end : next + piece;
        if (atomic_compare_exchange_weak_explicit(&worker->range, &range, (unsigned long long)to << 32 | end,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            *ret_begin = next;
            *ret_end = to;
            return true;
        }
    }
}

/* Works until nothing is left anywhere. */
static void work(struct rwk_pool *pool, uint32_t self)
{
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        struct worker *victim = &pool->workers[(self + i) % pool->n_threads];
        unsigned long long range = atomic_load_explicit(&victim->range, memory_order_acquire);
        uint32_t size = (uint32_t)range - (uint32_t)(range >> 32), begin, end;
        uint32_t piece = (uint32_t)(range >> 32) < (uint32_t)range && size / PIECES ? size / PIECES : 1;
        while (take(victim, piece, &begin, &end))
            pool->fn(pool->arg, begin, end, self);
    }
}

/* ---- the threads ---- */

/* Waits until the epoch leaves `seen`; spins for a while, then sleeps. */
static void await_job(struct rwk_pool *pool, uint32_t seen)
{
    uint64_t start = now();
    while (atomic_load_explicit(&pool->epoch, memory_order_acquire) == seen) {
        pause_a_little();
        uint64_t waited = now() - start;
        if (waited > SPIN_NS)
            break;
        if (waited > YIELD_NS)
            sched_yield();
    }
    if (atomic_load_explicit(&pool->epoch, memory_order_acquire) != seen)
        return;
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->epoch) == seen)
        pthread_cond_wait(&pool->wake, &pool->sleep_lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->sleep_lock);
}

static void *run_worker(void *arg)
{
    struct worker *self = arg;
    struct rwk_pool *pool = self->pool;
    for (uint32_t seen = 0;;) {
        await_job(pool, seen);
        seen++;
        if (atomic_load_explicit(&pool->ending, memory_order_acquire))
            return NULL;
        work(pool, self->index);
        atomic_store_explicit(&self->done, seen, memory_order_release);
    }
}

static void publish(struct rwk_pool *pool)
{
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->sleep_lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->sleep_lock);
    }
}

static void await_workers(struct rwk_pool *pool, uint32_t epoch)
{
    uint64_t start = now();
    for (uint32_t i = 1; i < pool->n_threads; i++)
        while (atomic_load_explicit(&pool->workers[i].done, memory_order_acquire) != epoch) {
            pause_a_little();
            if (now() - start > YIELD_NS)
                sched_yield();
        }
}

static void run_pool(struct rwk_pool *pool, uint32_t n_tasks, rwk_task_fn fn, void *arg)
{
    pthread_mutex_lock(&pool->turn);
    pool->fn = fn;
    pool->arg = arg;
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        uint64_t begin = (uint64_t)n_tasks * i / pool->n_threads, end = (uint64_t)n_tasks * (i + 1) / pool->n_threads;
        atomic_store_explicit(&pool->workers[i].range, begin << 32 | end, memory_order_relaxed);
    }
    publish(pool);
    work(pool, 0);
    await_workers(pool, atomic_load_explicit(&pool->epoch, memory_order_relaxed));
    pthread_mutex_unlock(&pool->turn);
}

void rwk_run(const struct rwk_executor *executor, uint32_t n_tasks, rwk_task_fn fn, void *arg)
{
    if (n_tasks == 0)
        return;
    if (executor->pool && executor->n_workers > 1 && n_tasks > 1)
        run_pool(executor->pool, n_tasks, fn, arg);
    else if (executor->parallel && n_tasks > 1)
        executor->parallel(executor->parallel_data, n_tasks, fn, arg);
    else
        fn(arg, 0, n_tasks, 0);
}

/* ---- life ---- */

enum rwk_status rwk_pool_create(struct rwk_pool **ret_pool, uint32_t n_threads, const struct rwk_allocator *allocator,
                                struct rwk_error *error)
{
    struct rwk_memory memory;
    pthread_attr_t attributes;
    if (n_threads == 0 || n_threads > 1024)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "threads", "%u is not between 1 and 1024", n_threads);
    rwk_memory_init(&memory, allocator, 0);
    struct rwk_pool *pool = rwk_calloc(&memory, 1, sizeof *pool);
    if (!pool)
        return rwk_fail_nomem(error, sizeof *pool);
    rwk_memory_init(&pool->memory, allocator, 0);
    pool->workers = rwk_calloc(&pool->memory, n_threads, sizeof *pool->workers);
    pool->n_threads = n_threads;
    pool->n_started = 1;
    pthread_mutex_init(&pool->turn, NULL);
    pthread_mutex_init(&pool->sleep_lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    if (!pool->workers) {
        rwk_pool_close(&pool);
        return rwk_fail_nomem(error, n_threads * sizeof *pool->workers);
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int code = 0;
    for (uint32_t i = 1; i < n_threads && !code; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        code = pthread_create(&pool->workers[i].thread, &attributes, run_worker, &pool->workers[i]);
        pool->n_started += code == 0;
    }
    pthread_attr_destroy(&attributes);
    if (code) {
        rwk_pool_close(&pool);
        return rwk_fail_at(error, RWK_STATUS_NOMEM, &(struct rwk_where){ .offset = RWK_NO_OFFSET, .os_error = code },
                           "a thread could not be started");
    }
    *ret_pool = pool;
    return RWK_STATUS_OK;
}

void rwk_pool_close(struct rwk_pool **pool)
{
    struct rwk_pool *p = pool ? *pool : NULL;
    struct rwk_memory memory;
    if (!p)
        return;
    atomic_store(&p->ending, true);
    publish(p);
    for (uint32_t i = 1; p->workers && i < p->n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_mutex_destroy(&p->turn);
    pthread_mutex_destroy(&p->sleep_lock);
    pthread_cond_destroy(&p->wake);
    rwk_free(&p->memory, p->workers);
    rwk_memory_init(&memory, &p->memory.host, 0);
    rwk_free(&memory, p);
    *pool = NULL;
}

uint32_t rwk_pool_n_threads(const struct rwk_pool *pool) { return pool->n_threads; }

/* ---- how many ---- */

/* Processors that a cgroup's quota comes to, rounded down; 0: none, or not known. */
static uint32_t quota(const char *path, const char *period_path)
{
    char text[64] = "";
    long long limit = 0, period = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    if (period_path) { /* version 1: two files */
        sscanf(text, "%lld", &limit);
        if (!(f = fopen(period_path, "re")))
            return 0;
        n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = '\0';
        sscanf(text, "%lld", &period);
    } else if (sscanf(text, "%lld %lld", &limit, &period) != 2) { /* "max 100000": none */
        return 0;
    }
    return limit > 0 && period > 0 ? (uint32_t)(limit / period > 0 ? limit / period : 1) : 0;
}

uint32_t rwk_default_threads(void)
{
    cpu_set_t set;
    uint32_t n = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    uint32_t limits[] = { quota("/sys/fs/cgroup/cpu.max", NULL),
                          quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us") };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        n = limits[i] && limits[i] < n ? limits[i] : n;
    return n ? n : 1;
}
