/* Memory of one object (model, tokenizer, session): the host's allocator behind a budget, and an
 * arena for the many small things that live exactly as long as the object. */
#ifndef RWK_BASE_MEMORY_H
#define RWK_BASE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ropewalk/ropewalk.h>

struct rwk_memory {
    struct rwk_allocator host;
    uint64_t budget;    /* bytes, UINT64_MAX: none */
    atomic_ullong used; /* bytes now allocated, headers included */
    atomic_ullong peak;
};

/* allocator NULL: malloc; budget 0: none. */
void rwk_memory_init(struct rwk_memory *memory, const struct rwk_allocator *allocator,
                     uint64_t budget);

/* 64-byte aligned, contents undefined; NULL when refused. Size 0 gives a valid pointer.
 * Thread-safe. */
void *rwk_alloc(struct rwk_memory *memory, size_t size);
/* count * size bytes set to zero; NULL also when the product overflows. */
void *rwk_calloc(struct rwk_memory *memory, size_t count, size_t size);
/* Grows or shrinks, keeping the contents; on failure the old block stays. pointer may be NULL. */
void *rwk_realloc(struct rwk_memory *memory, void *pointer, size_t size);
/* NULL is fine. */
void rwk_free(struct rwk_memory *memory, void *pointer);

/* Bump allocation; everything goes at once. Not thread-safe. Zero-initialise, then set `memory`. */
struct rwk_arena {
    struct rwk_memory *memory;
    struct rwk_arena_block *blocks;
    size_t used, size; /* of the first block */
};
void *rwk_arena_alloc(struct rwk_arena *arena,
                      size_t size); /* 16-byte aligned; NULL when refused */
void *rwk_arena_calloc(struct rwk_arena *arena, size_t count, size_t size);
char *rwk_arena_string(struct rwk_arena *arena, const char *text,
                       size_t size); /* a NUL-terminated copy */
void rwk_arena_finish(struct rwk_arena *arena);

/* Checked size arithmetic: false when the result does not fit, *ret then untouched. */
static inline bool rwk_size_mul(size_t a, size_t b, size_t *ret)
{
    size_t r;
    return !__builtin_mul_overflow(a, b, &r) && (*ret = r, true);
}
static inline bool rwk_size_add(size_t a, size_t b, size_t *ret)
{
    size_t r;
    return !__builtin_add_overflow(a, b, &r) && (*ret = r, true);
}
/* *total += what the host is asked for by rwk_alloc(count * size). */
enum { RWK_ALLOC_HEADER = 64 };
static inline bool rwk_size_add_block(size_t *total, size_t count, size_t size)
{
    size_t bytes;
    return rwk_size_mul(count, size, &bytes) && rwk_size_add(bytes, RWK_ALLOC_HEADER, &bytes) &&
           rwk_size_add(*total, bytes, total);
}
static inline size_t rwk_round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

#endif
