/* Work spread over threads: the host's executor, a pool of ours, or the calling thread.
 *
 *   rwk_run(executor, n_tasks, fn, arg): fn on disjoint ranges covering [0, n_tasks), on up to
 * n_workers workers; returns when all are done.
 *
 * Who makes each transition, in a pool of n threads (n - 1 of ours and the caller):
 *   caller    writes the job and every worker's range, then publishes it by raising `epoch`; works
 * on it as worker 0; when nothing is left to take, closes the epoch for workers that have not
 * entered it (idle -> idle) and waits for those that have to leave. worker i  waits for the epoch
 * to move: spins for a bounded time, then sleeps; enters the epoch (idle -> busy), works until
 * nothing is left to take, and leaves it (busy -> idle). If the caller was faster it goes on
 * waiting. So a thread that the system does not let run costs nothing but its absence. Ranges are
 * contiguous and static first, then stolen in small pieces from the ends of others; results never
 * depend on who ran what. */
#ifndef RWK_BASE_POOL_H
#define RWK_BASE_POOL_H

#include <ropewalk/ropewalk.h>

struct rwk_executor {
    struct rwk_pool *pool; /* or NULL */
    rwk_parallel_fn
        parallel; /* or NULL; pool and parallel both NULL: the calling thread, n_workers = 1 */
    void *parallel_data;
    uint32_t n_workers;
};

void rwk_run(const struct rwk_executor *executor, uint32_t n_tasks, rwk_task_fn fn, void *arg);

#endif
