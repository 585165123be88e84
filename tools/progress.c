/* done, total -> "label  42%  3 s left", rewritten at most ten times a second. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>
#include "tool.h"

#define REDRAW_SECONDS 0.1

static bool line_is_shown;

void progress_start(struct progress *progress, const char *label, bool quiet)
{
    double t = now();
    *progress = (struct progress){ .label = label, .shown = !quiet && isatty(STDERR_FILENO),
                                   .started = t, .drawn = t };
}

int progress_update(void *data, uint64_t done, uint64_t total)
{
    struct progress *p = data;
    double t = now();
    if (!p->shown || t - p->drawn < REDRAW_SECONDS)
        return 0;
    done += p->base;
    total = p->total ? p->total : total;
    double part = total ? (double)done / (double)total : 0;
    p->drawn = t;
    line_is_shown = true;
    fprintf(stderr, "\r%s %3.0f%%", p->label, 100 * part);
    if (part > 0)
        fprintf(stderr, "  %.0f s left", (t - p->started) * (1 - part) / part);
    fputs("\033[K", stderr);
    fflush(stderr);
    return 0;
}

void progress_clear(void)
{
    if (!line_is_shown)
        return;
    fputs("\r\033[K", stderr);
    line_is_shown = false;
}
