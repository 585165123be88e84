/* The harness of checkkernels: random numbers, guarded buffers, verdicts.
 *
 * A guarded buffer ends where the readable memory ends, as closely as its alignment allows, so that
 * a read or write past it faults; what lies between, and before it, is filled with canaries. */
#ifndef CHECKKERNELS_CHECK_H
#define CHECKKERNELS_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/kernels/kernels.h"

#define ROUNDOFF 0x1p-24 /* half an ulp of a float32 near 1 */
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What is being checked; verdicts name it. */
struct context {
    const struct rwk_kernels *k;
    uint64_t seed;
    unsigned failures, claims;
};

uint64_t random_bits(struct context *c);
uint32_t random_below(struct context *c, uint32_t n);
float random_float(struct context *c, float scale); /* normal-like, symmetric */
void random_floats(struct context *c, float *x, size_t n, float scale);

/* False: reads past a buffer do not fault. For emulators that read what an instruction masks out
 * (QEMU 7 does). */
extern bool guard_pages;

struct buffer {
    unsigned char *p; /* the bytes given out */
    size_t size;
    unsigned char *map;
    size_t map_size;
};
/* `size` bytes at an address that is `offset` beyond a multiple of `align`. */
struct buffer buffer_open(size_t size, size_t align, size_t offset);
/* Buffers of ours are aligned; weights need not be. */
static inline struct buffer buffer_aligned(size_t size)
{
    return buffer_open(size, 64, 0);
}
bool buffer_intact(const struct buffer *b);
void buffer_close(struct buffer *b);

/* Records a claim; a false one is printed with its description. Returns `holds`. */
bool claim(struct context *c, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Distance of y from x in units in the last place of the float nearest to x. */
double ulps(float y, double x);

const char *element_name(enum rwk_element e);
/* n random elements of a stored type at dst; the numbers they stand for to `ret`, if not NULL. */
void random_elements(struct context *c, enum rwk_element e, void *dst, double *ret, size_t n);
double element_value(enum rwk_element e, const void *src, size_t i);

/* What place d of key or value j stands for in a page of a quantised cache (kvpage.h). */
double kv_value_q8(const void *page, bool value, uint32_t head_dim, uint32_t j, uint32_t d);

/* The checks, one file each; every function of the table is judged by one of them. */
void check_matmul(struct context *c);
void check_convert(struct context *c);
void check_attention(struct context *c);
void check_rows(struct context *c);
void check_math(struct context *c);

/* Figures instead of verdicts. */
int bench(const char *filter);

#endif
