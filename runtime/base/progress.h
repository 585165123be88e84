/* Progress of long work, told to the host, which may ask to stop. */
#ifndef RWK_BASE_PROGRESS_H
#define RWK_BASE_PROGRESS_H

#include <stdbool.h>
#include <ropewalk/ropewalk.h>

struct rwk_progress {
    rwk_progress_fn fn; /* NULL: nobody wants to know */
    void *fn_data;
    uint64_t done, total;
};

/* n more are done; false when the host asks to stop. `progress` may be NULL. */
static inline bool rwk_progress_add(struct rwk_progress *progress, uint64_t n)
{
    if (!progress)
        return true;
    progress->done += n;
    return !progress->fn || !progress->fn(progress->fn_data, progress->done, progress->total);
}

#endif
