/* Progress of long work: one line on standard error that is rewritten in place, only where that is
 * a terminal. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label;
    bool shown;     /* standard error is a terminal and nobody asked for quiet */
    double started;
    double drawn;   /* when the line was last written */
    uint64_t base;  /* done in earlier calls of the same work: added to what a callback reports */
    uint64_t total; /* 0: the callback's own */
};

void progress_start(struct progress *progress, const char *label, bool quiet);
/* An rwk_progress_fn; `progress` is a struct progress. Never cancels. */
int progress_update(void *progress, uint64_t done, uint64_t total);
/* Wipes the line. Nothing where none is shown. */
void progress_clear(void);

#endif
