/* The pool: every task runs once, whoever runs it; workers are exclusive; slow ones are robbed;
 * nobody waits for sleepers. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/pool.h"

enum { MAX_TASKS = 10007, MAX_WORKERS = 32 };

struct job {
    atomic_uint runs[MAX_TASKS];
    atomic_uint busy[MAX_WORKERS]; /* calls that run as this worker now */
    atomic_uint faults;
    uint32_t n_tasks, n_workers;
};

static void count(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct job *job = arg;
    if (begin >= end || end > job->n_tasks || worker >= job->n_workers ||
        atomic_fetch_add(&job->busy[worker], 1) != 0) {
        atomic_fetch_add(&job->faults, 1);
        return;
    }
    for (uint32_t i = begin; i < end; i++)
        atomic_fetch_add_explicit(&job->runs[i], 1, memory_order_relaxed);
    atomic_fetch_sub(&job->busy[worker], 1);
}

static struct job *job_open(uint32_t n_tasks, uint32_t n_workers)
{
    struct job *job = calloc(1, sizeof *job);
    job->n_tasks = n_tasks;
    job->n_workers = n_workers;
    return job;
}

/* Every task ran `times`; frees the job. */
static void job_close(struct job *job, uint32_t times)
{
    ck_assert_uint_eq(job->faults, 0);
    for (uint32_t i = 0; i < job->n_tasks; i++)
        ck_assert_uint_eq(job->runs[i], times);
    free(job);
}

static struct rwk_pool *pool_open(uint32_t n)
{
    struct rwk_pool *pool = NULL;
    ck_assert_int_eq(rwk_pool_create(&pool, n, NULL, NULL), RWK_STATUS_OK);
    ck_assert_uint_eq(rwk_pool_n_threads(pool), n);
    return pool;
}

START_TEST(runs_every_task_once)
{
    static const uint32_t threads[] = { 1, 2, 3, 7, 16 },
                          tasks[] = { 0, 1, 2, 3, 5, 16, 17, 100, MAX_TASKS };
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        struct rwk_pool *pool = pool_open(threads[i]);
        struct rwk_executor executor = { .pool = pool, .n_workers = threads[i] };
        for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++) {
            struct job *job = job_open(tasks[t], threads[i]);
            for (int times = 0; times < 20; times++)
                rwk_run(&executor, tasks[t], count, job);
            job_close(job, 20);
        }
        rwk_pool_close(&pool);
        ck_assert_ptr_null(pool);
    }
}
END_TEST

START_TEST(wakes_workers_that_sleep)
{
    struct rwk_pool *pool = pool_open(3);
    struct rwk_executor executor = { .pool = pool, .n_workers = 3 };
    struct job *job = job_open(300, 3);
    for (int i = 0; i < 200; i++) {
        rwk_run(&executor, 300, count, job);
        nanosleep(&(struct timespec) { .tv_nsec = (i % 5) * 50000L },
                  NULL); /* around the time that workers spin */
    }
    job_close(job, 200);
    rwk_pool_close(&pool);
}
END_TEST

START_TEST(ends_while_workers_sleep_or_spin)
{
    for (int i = 0; i < 100; i++) {
        struct rwk_pool *pool = pool_open(4);
        if (i % 2)
            nanosleep(&(struct timespec) { .tv_nsec = 200000 }, NULL);
        rwk_pool_close(&pool);
    }
}
END_TEST

struct caller {
    const struct rwk_executor *executor;
    struct job *job;
};

static void *call(void *arg)
{
    struct caller *caller = arg;
    for (int i = 0; i < 300; i++)
        rwk_run(caller->executor, caller->job->n_tasks, count, caller->job);
    return NULL;
}

START_TEST(concurrent_callers_take_turns)
{
    struct rwk_pool *pool = pool_open(3);
    struct rwk_executor executor = { .pool = pool, .n_workers = 3 };
    struct caller callers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        callers[i] = (struct caller) { &executor, job_open(50 + (uint32_t)i, 3) };
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        job_close(callers[i].job, 300);
    }
    rwk_pool_close(&pool);
}
END_TEST

/* Task 0 does not end before all others have: possible only if the rest of its worker's range is
 * taken by somebody else. */
enum { SLOW_TASKS = 32 };

static void wait_for_others(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    atomic_uint *done = arg;
    (void)worker;
    if (begin == 0)
        for (int i = 0; i < 20000 && atomic_load(done) < SLOW_TASKS - end; i++)
            nanosleep(&(struct timespec) { .tv_nsec = 1000000 }, NULL);
    if (begin == 0 && atomic_load(done) < SLOW_TASKS - end)
        return;
    atomic_fetch_add(done, end - begin);
}

START_TEST(takes_over_from_a_slow_worker)
{
    struct rwk_pool *pool = pool_open(2);
    struct rwk_executor executor = { .pool = pool, .n_workers = 2 };
    atomic_uint done = 0;
    rwk_run(&executor, SLOW_TASKS, wait_for_others, &done);
    ck_assert_uint_eq(done, SLOW_TASKS);
    rwk_pool_close(&pool);
}
END_TEST

static void halves(void *user_data, uint32_t n_tasks, rwk_task_fn fn, void *arg)
{
    ++*(int *)user_data;
    fn(arg, n_tasks / 2, n_tasks, 1);
    fn(arg, 0, n_tasks / 2, 0);
}

START_TEST(lends_work_to_the_host)
{
    int calls = 0;
    struct rwk_executor executor = { .parallel = halves, .parallel_data = &calls, .n_workers = 2 };
    struct job *job = job_open(10, 2);
    rwk_run(&executor, 10, count, job);
    ck_assert_int_eq(calls, 1);
    job_close(job, 1);
}
END_TEST

START_TEST(works_alone_without_an_executor)
{
    struct rwk_executor executor = { .n_workers = 1 };
    struct job *job = job_open(10, 1);
    rwk_run(&executor, 10, count, job);
    job_close(job, 1);
}
END_TEST

START_TEST(refuses_no_threads_and_too_many)
{
    struct rwk_pool *pool = NULL;
    struct rwk_error error = { .size = sizeof error };
    ck_assert_int_eq(rwk_pool_create(&pool, 0, NULL, &error), RWK_STATUS_RANGE);
    ck_assert_str_eq(error.subject, "threads");
    ck_assert_int_eq(rwk_pool_create(&pool, 5000, NULL, &error), RWK_STATUS_RANGE);
    ck_assert_ptr_null(pool);
    rwk_pool_close(&pool);
    rwk_pool_close(NULL);
}
END_TEST

/* An allocator that gives `left` blocks and counts those it has out. */
struct stingy {
    int left, out;
};

static void *stingy_alloc(void *user_data, size_t size, size_t alignment)
{
    struct stingy *s = user_data;
    void *p = s->left-- > 0
                  ? aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                  : NULL;
    s->out += p != NULL;
    return p;
}

static void stingy_free(void *user_data, void *pointer, size_t size)
{
    struct stingy *s = user_data;
    (void)size;
    s->out--;
    free(pointer);
}

START_TEST(survives_every_refused_allocation)
{
    for (int left = 0; left < 2; left++) {
        struct stingy s = { .left = left };
        struct rwk_allocator allocator = { stingy_alloc, stingy_free, &s };
        struct rwk_pool *pool = NULL;
        ck_assert_int_eq(rwk_pool_create(&pool, 2, &allocator, NULL), RWK_STATUS_NOMEM);
        ck_assert_ptr_null(pool);
        ck_assert_int_eq(s.out, 0);
    }
    struct stingy s = { .left = 2 };
    struct rwk_allocator allocator = { stingy_alloc, stingy_free, &s };
    struct rwk_pool *pool = NULL;
    ck_assert_int_eq(rwk_pool_create(&pool, 2, &allocator, NULL), RWK_STATUS_OK);
    rwk_pool_close(&pool);
    ck_assert_int_eq(s.out, 0);
}
END_TEST

/* Where each worker ran. */
struct places {
    atomic_int cpu[4];
};

static void note_place(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct places *places = arg;
    struct timespec t = { .tv_nsec = 100000 };
    for (; begin < end; begin++)
        nanosleep(&t, NULL); /* so that every worker gets some */
    atomic_store(&places->cpu[worker], sched_getcpu());
}

START_TEST(workers_run_where_they_are_bound)
{
    struct rwk_error error = { .size = sizeof error };
    cpu_set_t mask;
    uint32_t last = 0, nowhere = CPU_SETSIZE - 1;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    for (uint32_t i = 0; i < CPU_SETSIZE; i++)
        last = CPU_ISSET(i, &mask) ? i : last;
    struct rwk_pool *pool = pool_open(4);
    struct rwk_executor executor = { .pool = pool, .n_workers = 4 };
    struct places places = { { -1, -1, -1, -1 } };
    ck_assert_int_eq(rwk_pool_pin(pool, &last, 1, &error), RWK_STATUS_OK);
    int seen = 0;
    for (int i = 0; i < 50; i++)
        rwk_run(&executor, 400, note_place, &places);
    for (int w = 1; w < 4; w++) {
        int cpu = atomic_load(&places.cpu[w]);
        seen += cpu >= 0;
        ck_assert_msg(cpu < 0 || cpu == (int)last, "worker %d ran on %d, not on %u", w, cpu, last);
    }
    ck_assert_int_gt(seen, 0);
    ck_assert_int_eq(rwk_pool_pin(pool, &nowhere, 1, &error), RWK_STATUS_RANGE);
    ck_assert_str_eq(error.subject, "cpus");
    ck_assert_int_eq(rwk_pool_pin(pool, NULL, 0, &error), RWK_STATUS_RANGE);
    rwk_pool_close(&pool);
}
END_TEST

START_TEST(default_threads_stay_within_the_affinity_mask)
{
    cpu_set_t before, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    ck_assert_uint_ge(rwk_default_threads(), 1);
    ck_assert_uint_le(rwk_default_threads(), (unsigned)CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_uint_eq(rwk_default_threads(), 1);
    sched_setaffinity(0, sizeof before, &before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tc = tcase_create("pool");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, runs_every_task_once);
    tcase_add_test(tc, wakes_workers_that_sleep);
    tcase_add_test(tc, ends_while_workers_sleep_or_spin);
    tcase_add_test(tc, concurrent_callers_take_turns);
    tcase_add_test(tc, takes_over_from_a_slow_worker);
    tcase_add_test(tc, lends_work_to_the_host);
    tcase_add_test(tc, works_alone_without_an_executor);
    tcase_add_test(tc, refuses_no_threads_and_too_many);
    tcase_add_test(tc, survives_every_refused_allocation);
    tcase_add_test(tc, workers_run_where_they_are_bound);
    tcase_add_test(tc, default_threads_stay_within_the_affinity_mask);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
