/* What `perplexity` measured, between the measuring (perplexity.c) and its four forms
 * (perplexity_report.c). */
#ifndef PERPLEXITY_H
#define PERPLEXITY_H

#include <stddef.h>
#include <stdint.h>
#include "options.h"

/* Scored tokens by position in the window: positions [begin, end). */
struct bucket {
    uint64_t begin, end;
    uint64_t n_tokens;
    double nll; /* sum of -ln(probability) */
};

/* One model under one scaling at one length. */
struct measurement {
    const char *model;
    const char *rope_scaling; /* NULL: as the model's config says */
    uint64_t length, n_windows;
    struct bucket all;
    struct bucket *buckets; /* [n_buckets] */
    size_t n_buckets;
};

struct measurements {
    struct measurement *items;
    size_t n, capacity;
};

/* exp(nll / n_tokens) */
double perplexity_of(const struct bucket *bucket);

/* Refuses, before any work, a plot that could not be drawn. */
void report_check(const struct options *options);
/* Prints the table or JSON, and writes the CSV and the plot asked for. */
void report(const struct measurements *m, const struct options *options);

#endif
