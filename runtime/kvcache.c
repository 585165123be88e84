/* Stores and page tables; who may write where is said in kvcache.h. */
#include "runtime/kvcache.h"

#include <string.h>
#include "runtime/kernels/kvpage.h"

/* A slab: the link, then its pages' descriptors and data. */
struct slab {
    struct slab *next;
    struct rwk_kv_page *pages;
    unsigned char *data;
};

struct rwk_kv_store {
    struct rwk_memory memory; /* the store's own: it may outlive the session that made it */
    uint32_t n_caches;        /* under lock, like everything below */
    size_t n_pages;
    size_t page_bytes;
    struct slab *slabs;
    struct rwk_kv_page *free;
    atomic_flag lock; /* held for a few instructions: forks on other threads take and give pages */
};

/* Pages that a group needs at once: the whole context, or a window and one pass. */
static uint64_t pages_needed(uint64_t window, uint64_t context, uint32_t chunk)
{
    uint64_t all = (context + RWK_KEY_BLOCK - 1) / RWK_KEY_BLOCK;
    if (!window || window >= context)
        return all;
    uint64_t some = (window + chunk + RWK_KEY_BLOCK - 1) / RWK_KEY_BLOCK + 2;
    return some < all ? some : all;
}

static bool page_bytes(const struct rwk_model *model, enum rwk_element element, uint32_t n_layers,
                       size_t *ret)
{
    size_t pair =
        rwk_kv_key_bytes(element, model->head_dim) + rwk_kv_value_bytes(element, model->head_dim);
    return rwk_size_mul(pair, model->n_kv_heads, ret) && rwk_size_mul(*ret, n_layers, ret);
}

bool rwk_kv_cache_bytes(const struct rwk_model *model, enum rwk_element element, uint64_t context,
                        uint32_t chunk, size_t *ret_bytes, size_t *ret_table)
{
    size_t total = 0, table = 0;
    uint64_t n_blocks = (context + RWK_KEY_BLOCK - 1) / RWK_KEY_BLOCK;
    for (uint32_t g = 0; g < model->n_groups; g++) {
        uint64_t n = pages_needed(model->groups[g].window, context, chunk);
        size_t per_page;
        if (!page_bytes(model, element, model->groups[g].n_layers, &per_page) ||
            n_blocks > SIZE_MAX || !rwk_size_add_block(&total, 1, sizeof(struct rwk_kv_store)) ||
            !rwk_size_add_block(&total, 1, sizeof(struct slab)) ||
            !rwk_size_add_block(&total, (size_t)n, sizeof(struct rwk_kv_page)) ||
            !rwk_size_add_block(&total, (size_t)n, per_page) ||
            !rwk_size_add_block(&table, (size_t)n_blocks, sizeof(struct rwk_kv_page *)))
            return false;
    }
    *ret_table = table;
    return rwk_size_add(total, table, ret_bytes);
}

static void lock(struct rwk_kv_store *store)
{
    while (atomic_flag_test_and_set_explicit(&store->lock, memory_order_acquire))
        ;
}

static void unlock(struct rwk_kv_store *store)
{
    atomic_flag_clear_explicit(&store->lock, memory_order_release);
}

static void slab_free(struct rwk_memory *memory, struct slab *slab)
{
    if (!slab)
        return;
    rwk_free(memory, slab->data);
    rwk_free(memory, slab->pages);
    rwk_free(memory, slab);
}

static struct slab *slab_create(struct rwk_memory *memory, size_t n_pages, size_t bytes)
{
    size_t total;
    struct slab *slab = rwk_calloc(memory, 1, sizeof *slab);
    if (!slab || !rwk_size_mul(n_pages, bytes, &total) ||
        !(slab->pages = rwk_calloc(memory, n_pages, sizeof *slab->pages)) ||
        !(slab->data = rwk_alloc(memory, total))) {
        slab_free(memory, slab);
        return NULL;
    }
    for (size_t i = n_pages; i-- > 0;)
        slab->pages[i] =
            (struct rwk_kv_page) { .next_free = i + 1 < n_pages ? &slab->pages[i + 1] : NULL,
                                   .data = slab->data + i * bytes };
    return slab;
}

static void store_leave(struct rwk_kv_store *store)
{
    if (!store)
        return;
    lock(store);
    uint32_t left = --store->n_caches;
    unlock(store);
    if (left)
        return;
    struct rwk_memory memory;
    rwk_memory_init(&memory, &store->memory.host, 0);
    for (struct slab *slab = store->slabs, *next; slab; slab = next) {
        next = slab->next;
        slab_free(&memory, slab);
    }
    rwk_free(&memory, store);
}

/* One more cache on the store, with room for its n_pages; false when memory was refused. */
static bool store_join(struct rwk_kv_store *store, size_t n_pages)
{
    lock(store);
    bool roomy = store->n_pages >= n_pages * (store->n_caches + 1);
    if (roomy)
        store->n_caches++;
    unlock(store);
    if (roomy)
        return true;
    struct slab *slab = slab_create(&store->memory, n_pages, store->page_bytes);
    if (!slab)
        return false;
    lock(store);
    slab->next = store->slabs;
    store->slabs = slab;
    slab->pages[n_pages - 1].next_free = store->free;
    store->free = slab->pages;
    store->n_pages += n_pages;
    store->n_caches++;
    unlock(store);
    return true;
}

static struct rwk_kv_store *store_create(const struct rwk_allocator *host, size_t bytes)
{
    struct rwk_memory memory;
    rwk_memory_init(&memory, host, 0);
    struct rwk_kv_store *store = rwk_calloc(&memory, 1, sizeof *store);
    if (!store)
        return NULL;
    rwk_memory_init(&store->memory, host, 0);
    store->page_bytes = bytes;
    atomic_flag_clear(&store->lock);
    return store;
}

/* NULL when none is free. */
static struct rwk_kv_page *page_take(struct rwk_kv_store *store)
{
    lock(store);
    struct rwk_kv_page *page = store->free;
    if (page)
        store->free = page->next_free;
    unlock(store);
    if (page)
        atomic_store_explicit(&page->references, 1, memory_order_relaxed);
    return page;
}

static void page_give(struct rwk_kv_store *store, struct rwk_kv_page *page)
{
    if (!page || atomic_fetch_sub_explicit(&page->references, 1, memory_order_acq_rel) != 1)
        return;
    lock(store);
    page->next_free = store->free;
    store->free = page;
    unlock(store);
}

/* Refers to all pages of the parent. */
static void share(struct rwk_kv_cache *cache, const struct rwk_kv_cache *parent, uint32_t group)
{
    cache->first_block[group] = parent->first_block[group];
    for (uint64_t b = 0; b < cache->n_blocks; b++)
        if ((cache->table[group][b] = parent->table[group][b]))
            atomic_fetch_add_explicit(&cache->table[group][b]->references, 1, memory_order_relaxed);
}

static bool init_group(struct rwk_kv_cache *cache, uint32_t group, uint64_t context, uint32_t chunk,
                       const struct rwk_kv_cache *parent)
{
    const struct rwk_kv_group *g = &cache->model->groups[group];
    size_t bytes = 0;
    page_bytes(cache->model, cache->element, g->n_layers, &bytes);
    cache->table[group] =
        rwk_calloc(cache->memory, (size_t)cache->n_blocks, sizeof *cache->table[group]);
    if (!cache->table[group])
        return false;
    struct rwk_kv_store *store =
        parent ? parent->store[group] : store_create(&cache->memory->host, bytes);
    if (!store)
        return false;
    if (!store_join(store, (size_t)pages_needed(g->window, context, chunk))) {
        if (!parent) {
            store->n_caches = 1;
            store_leave(store);
        }
        return false;
    }
    cache->store[group] = store;
    if (parent)
        share(cache, parent, group);
    return true;
}

enum rwk_status rwk_kv_cache_init(struct rwk_kv_cache *ret_cache, const struct rwk_model *model,
                                  enum rwk_element element, uint64_t context, uint32_t chunk,
                                  const struct rwk_kv_cache *parent, struct rwk_memory *memory,
                                  struct rwk_error *error)
{
    struct rwk_kv_cache cache = { .model = model,
                                  .memory = memory,
                                  .element = element,
                                  .n_blocks = (context + RWK_KEY_BLOCK - 1) / RWK_KEY_BLOCK,
                                  .key_bytes = rwk_kv_key_bytes(element, model->head_dim),
                                  .value_bytes = rwk_kv_value_bytes(element, model->head_dim) };
    size_t total, table;
    if (!rwk_kv_cache_bytes(model, element, context, chunk, &total, &table))
        return rwk_fail(error, RWK_STATUS_NOMEM, NULL,
                        "a cache of %llu positions exceeds the address space",
                        (unsigned long long)context);
    for (uint32_t g = 0; g < model->n_groups; g++)
        if (!init_group(&cache, g, context, chunk, parent)) {
            rwk_kv_cache_finish(&cache);
            return rwk_fail(error, RWK_STATUS_NOMEM, NULL,
                            "out of memory: a cache of %llu positions takes %zu bytes",
                            (unsigned long long)context, total);
        }
    *ret_cache = cache;
    return RWK_STATUS_OK;
}

void rwk_kv_cache_finish(struct rwk_kv_cache *cache)
{
    if (!cache->model)
        return;
    for (uint32_t g = 0; g < cache->model->n_groups; g++) {
        for (uint64_t b = 0; cache->store[g] && b < cache->n_blocks; b++)
            page_give(cache->store[g], cache->table[g][b]);
        rwk_free(cache->memory, cache->table[g]);
        store_leave(cache->store[g]);
    }
    *cache = (struct rwk_kv_cache) { 0 };
}

/* Makes block b of a group a page that only this cache refers to. A fresh page is cleared, so that
 * no saved state holds what was in memory before.
 *
 * While forks on other threads are copying the same page, each of them holds one page more than its
 * share, and none may be free for a moment: then one of them is about to give its reference back.
 */
static void own_block(struct rwk_kv_cache *cache, uint32_t group, uint64_t b)
{
    struct rwk_kv_page **slot = &cache->table[group][b], *old = *slot, *fresh;
    do {
        if (old && atomic_load_explicit(&old->references, memory_order_acquire) == 1)
            return;
    } while (!(fresh = page_take(cache->store[group])));
    if (old)
        memcpy(fresh->data, old->data, cache->store[group]->page_bytes);
    else
        memset(fresh->data, 0, cache->store[group]->page_bytes);
    cache->n_copied += old != NULL;
    *slot = fresh;
    page_give(cache->store[group], old);
}

void rwk_kv_cache_reserve(struct rwk_kv_cache *cache, uint64_t begin, uint64_t end)
{
    for (uint32_t g = 0; g < cache->model->n_groups; g++) {
        uint64_t keep = rwk_window_begin(cache->model->groups[g].window, begin) / RWK_KEY_BLOCK;
        for (; cache->first_block[g] < keep; cache->first_block[g]++) {
            page_give(cache->store[g], cache->table[g][cache->first_block[g]]);
            cache->table[g][cache->first_block[g]] = NULL;
        }
        for (uint64_t b = begin / RWK_KEY_BLOCK; b * RWK_KEY_BLOCK < end; b++)
            own_block(cache, g, b);
    }
}

void rwk_kv_cache_truncate(struct rwk_kv_cache *cache, uint64_t position)
{
    for (uint32_t g = 0; g < cache->model->n_groups; g++) {
        uint64_t b = (position + RWK_KEY_BLOCK - 1) / RWK_KEY_BLOCK;
        for (b = b > cache->first_block[g] ? b : cache->first_block[g];
             b < cache->n_blocks && cache->table[g][b]; b++) {
            page_give(cache->store[g], cache->table[g][b]);
            cache->table[g][b] = NULL;
        }
        if (position == 0)
            cache->first_block[g] = 0;
    }
}

void rwk_kv_cache_drop(struct rwk_kv_cache *cache, uint64_t keep, uint64_t n)
{
    for (uint32_t g = 0; g < cache->model->n_groups; g++) {
        struct rwk_kv_page **table = cache->table[g];
        uint64_t first = cache->first_block[g];
        for (uint64_t b = keep; b < keep + n; b++)
            page_give(cache->store[g], table[b]);
        memmove(table + keep, table + keep + n,
                (size_t)(cache->n_blocks - keep - n) * sizeof *table);
        memset(table + (cache->n_blocks - n), 0, (size_t)n * sizeof *table);
        cache->first_block[g] = first <= keep ? first : first < keep + n ? keep : first - n;
    }
}

bool rwk_kv_cache_has_dropped(const struct rwk_kv_cache *cache, uint64_t position)
{
    for (uint32_t g = 0; g < cache->model->n_groups; g++)
        if (rwk_window_begin(cache->model->groups[g].window, position) / RWK_KEY_BLOCK <
            cache->first_block[g])
            return true;
    return false;
}

void rwk_kv_cache_visible(const struct rwk_kv_cache *cache, uint32_t group, uint64_t position,
                          uint64_t *ret_first, uint64_t *ret_end)
{
    *ret_first =
        position ? rwk_window_begin(cache->model->groups[group].window, position) / RWK_KEY_BLOCK
                 : 0;
    *ret_end = (position + RWK_KEY_BLOCK - 1) / RWK_KEY_BLOCK;
}

void rwk_kv_cache_restore(struct rwk_kv_cache *cache, uint64_t position)
{
    for (uint32_t g = 0; g < cache->model->n_groups; g++) {
        uint64_t end;
        rwk_kv_cache_visible(cache, g, position, &cache->first_block[g], &end);
        for (uint64_t b = cache->first_block[g]; b < end; b++)
            own_block(cache, g, b);
    }
}

void rwk_kv_cache_count(const struct rwk_kv_cache *cache, uint64_t *ret_pages, uint64_t *ret_shared)
{
    *ret_pages = *ret_shared = 0;
    for (uint32_t g = 0; g < cache->model->n_groups; g++)
        for (uint64_t b = cache->first_block[g]; b < cache->n_blocks; b++)
            if (cache->table[g][b]) {
                ++*ret_pages;
                *ret_shared +=
                    atomic_load_explicit(&cache->table[g][b]->references, memory_order_relaxed) > 1;
            }
}

size_t rwk_kv_cache_page_bytes(const struct rwk_kv_cache *cache, uint32_t group)
{
    return cache->store[group]->page_bytes;
}
