/* The allocator behind a budget. Each block is preceded by a 64-byte header that holds its size, so
 * that a free needs the pointer only and alignment stays at 64 (a cache line, and the widest
 * vector). */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *user_data, size_t size, size_t alignment)
{
    void *pointer = NULL;
    (void)user_data;
    return posix_memalign(&pointer, alignment, size) == 0 ? pointer : NULL;
}

static void default_free(void *user_data, void *pointer, size_t size)
{
    (void)user_data;
    (void)size;
    free(pointer);
}

void rwk_memory_init(struct rwk_memory *memory, const struct rwk_allocator *allocator,
                     uint64_t budget)
{
    static const struct rwk_allocator defaults = { default_alloc, default_free, NULL };
    memory->host = allocator ? *allocator : defaults;
    memory->budget = budget ? budget : UINT64_MAX;
    atomic_init(&memory->used, 0);
    atomic_init(&memory->peak, 0);
}

/* Takes `size` from the budget, or refuses. */
static bool reserve(struct rwk_memory *memory, uint64_t size)
{
    unsigned long long used = atomic_load_explicit(&memory->used, memory_order_relaxed);
    do {
        if (size > memory->budget || used > memory->budget - size)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&memory->used, &used, used + size,
                                                    memory_order_relaxed, memory_order_relaxed));
    unsigned long long peak = atomic_load_explicit(&memory->peak, memory_order_relaxed);
    while (peak < used + size &&
           !atomic_compare_exchange_weak_explicit(&memory->peak, &peak, used + size,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return true;
}

void *rwk_alloc(struct rwk_memory *memory, size_t size)
{
    size_t total;
    if (!rwk_size_add(size, RWK_ALLOC_HEADER, &total) || !reserve(memory, total))
        return NULL;
    char *block = memory->host.alloc(memory->host.user_data, total, RWK_ALLOC_HEADER);
    if (!block) {
        atomic_fetch_sub_explicit(&memory->used, total, memory_order_relaxed);
        return NULL;
    }
    memcpy(block, &total, sizeof total);
    return block + RWK_ALLOC_HEADER;
}

void *rwk_calloc(struct rwk_memory *memory, size_t count, size_t size)
{
    size_t total;
    if (!rwk_size_mul(count, size, &total))
        return NULL;
    void *pointer = rwk_alloc(memory, total);
    return pointer ? memset(pointer, 0, total) : NULL;
}

void *rwk_realloc(struct rwk_memory *memory, void *pointer, size_t size)
{
    void *fresh = rwk_alloc(memory, size);
    if (!fresh || !pointer)
        return fresh;
    size_t old;
    memcpy(&old, (char *)pointer - RWK_ALLOC_HEADER, sizeof old);
    old -= RWK_ALLOC_HEADER;
    memcpy(fresh, pointer, old < size ? old : size);
    rwk_free(memory, pointer);
    return fresh;
}

void rwk_free(struct rwk_memory *memory, void *pointer)
{
    if (!pointer)
        return;
    char *block = (char *)pointer - RWK_ALLOC_HEADER;
    size_t total;
    memcpy(&total, block, sizeof total);
    memory->host.free(memory->host.user_data, block, total);
    atomic_fetch_sub_explicit(&memory->used, total, memory_order_relaxed);
}

/* An arena's block: the link, then the bytes. */
struct rwk_arena_block {
    struct rwk_arena_block *next;
    size_t reserved;
};

enum { ARENA_BLOCK = 64 << 10 };

void *rwk_arena_alloc(struct rwk_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = rwk_round_up(size, 16);
    if (!arena->blocks || arena->size - arena->used < size) {
        size_t fresh = size > ARENA_BLOCK / 4 ? size : ARENA_BLOCK;
        struct rwk_arena_block *block = rwk_alloc(arena->memory, sizeof *block + fresh);
        if (!block)
            return NULL;
        if (fresh == size && arena->blocks) {
            /* A large one goes behind the block that still has room. */
            block->next = arena->blocks->next;
            arena->blocks->next = block;
            return block + 1;
        }
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used = 0;
        arena->size = fresh;
    }
    void *pointer = (char *)(arena->blocks + 1) + arena->used;
    arena->used += size;
    return pointer;
}

void *rwk_arena_calloc(struct rwk_arena *arena, size_t count, size_t size)
{
    size_t total;
    if (!rwk_size_mul(count, size, &total))
        return NULL;
    void *pointer = rwk_arena_alloc(arena, total);
    return pointer ? memset(pointer, 0, total) : NULL;
}

char *rwk_arena_string(struct rwk_arena *arena, const char *text, size_t size)
{
    char *copy = size < SIZE_MAX ? rwk_arena_alloc(arena, size + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

void rwk_arena_finish(struct rwk_arena *arena)
{
    for (struct rwk_arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        rwk_free(arena->memory, block);
    }
    arena->blocks = NULL;
    arena->used = arena->size = 0;
}
