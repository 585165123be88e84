/* System calls and allocations that fail on demand, below the library: the test program is linked
 * with --wrap for each of the names in faults.c. Counts what is open, mapped and held, so that a
 * leak shows as a number. For one thread. */
#ifndef RWK_TESTS_FAULTS_H
#define RWK_TESTS_FAULTS_H

#include <stdbool.h>
#include <ropewalk/ropewalk.h>

/* The kinds of calls that can be told to fail. */
enum fault_kind {
    FAULT_OPEN = 1,
    FAULT_EXAMINE = 2, /* stat, lstat, fstat */
    FAULT_READ = 4,
    FAULT_MAP = 8,     /* mmap, mlock */
    FAULT_THREAD = 16, /* pthread_create */
    FAULT_MALLOC = 32, /* what the library's own allocator asks of the system */
    FAULT_HOST = 64,   /* an allocation through fault_allocator() */
    FAULT_WRITE = 128  /* write, fsync, rename, mkdir */
};

struct faults {
    unsigned kinds;   /* which of them fail, and are counted in n_calls */
    long refuse;      /* the call that fails, from 0; -1: none */
    int os_error;     /* with this errno; a read with 0 finds the end of the file instead */
    bool once_only;   /* only that call; else every one from there on */
    bool trickle;     /* reads give one byte at a time, and every second is interrupted */
    long n_calls;     /* so far */
    long n_files, n_mappings, n_blocks; /* now open, mapped, held through fault_allocator() */
    size_t bytes, peak;                 /* held through fault_allocator() */
};
extern struct faults faults;

/* The first call of these kinds after this one that fails is number `refuse`. */
void faults_begin(unsigned kinds, long refuse, int os_error);
/* No more failures. Whether one took place. */
bool faults_end(void);

/* A host's allocator that takes part. */
const struct rwk_allocator *fault_allocator(void);

#endif
