/* The key/value cache: pages of RWK_KEY_BLOCK positions counted from 0, which are also attention's
 * key blocks.
 *
 *   session -> table of pages per group [n_blocks] -> page -> [layer of the group][kv head]
 *           -> K page, V page (kernels/kvpage.h)
 *
 * Pages come from a store, which holds as many as its sessions can need at once: a session brings
 * one slab, each fork one more. A page has a count of the sessions that refer to it: a fork shares
 * all pages, and who writes to a shared page copies it first. A group with a window gives back
 * pages that no later query can see.
 *
 * Invariants: 1. block b of a table holds positions 64 b .. 64 b + 63, or is NULL; 2. a page with a
 * count of 1 is written by its one session only; 3. a store holds pages_needed pages for each cache
 * on it, so taking one never fails. */
#ifndef RWK_RUNTIME_KVCACHE_H
#define RWK_RUNTIME_KVCACHE_H

#include "runtime/model.h"

struct rwk_kv_store;

struct rwk_kv_page {
    struct rwk_kv_page *next_free;
    unsigned char *data;
    atomic_uint references;
};

struct rwk_kv_cache {
    const struct rwk_model *model;
    struct rwk_memory *memory;
    enum rwk_element element;
    uint64_t n_blocks;             /* of the context */
    size_t key_bytes, value_bytes; /* of one head's K and V page */
    struct rwk_kv_store *store[RWK_MAX_KV_GROUPS];
    struct rwk_kv_page **table[RWK_MAX_KV_GROUPS]; /* [n_blocks] */
    uint64_t first_block[RWK_MAX_KV_GROUPS];       /* blocks below it were given back */
    uint64_t n_copied;                             /* pages copied before they were written to */
};

/* What a cache of `context` positions asks the allocator for, for passes of at most `chunk` rows:
 * *ret_table of it from the memory given to rwk_kv_cache_init, the rest for a store. False when it
 * does not fit size_t. */
bool rwk_kv_cache_bytes(const struct rwk_model *model, enum rwk_element element, uint64_t context,
                        uint32_t chunk, size_t *ret_bytes, size_t *ret_table);
/* An empty cache. `parent` NULL, or a cache of the same shape whose pages the new one refers to
 * from the start. */
enum rwk_status rwk_kv_cache_init(struct rwk_kv_cache *ret_cache, const struct rwk_model *model,
                                  enum rwk_element element, uint64_t context, uint32_t chunk,
                                  const struct rwk_kv_cache *parent, struct rwk_memory *memory,
                                  struct rwk_error *error);
void rwk_kv_cache_finish(struct rwk_kv_cache *cache); /* zeroed objects are fine */

/* Makes positions [begin, end) of the context writable, giving back what no query from `begin` on
 * can see. Copies shared pages. */
void rwk_kv_cache_reserve(struct rwk_kv_cache *cache, uint64_t begin, uint64_t end);
/* Gives back the blocks that lie wholly at or beyond `position`. */
void rwk_kv_cache_truncate(struct rwk_kv_cache *cache, uint64_t position);
/* Gives back n blocks from block `keep` on and moves the later ones down to their place. */
void rwk_kv_cache_drop(struct rwk_kv_cache *cache, uint64_t keep, uint64_t n);
/* Whether keys that a query at `position` needs were given back. */
bool rwk_kv_cache_has_dropped(const struct rwk_kv_cache *cache, uint64_t position);

/* Blocks [first, end) of a group that a query at `position` needs of the positions before it. */
void rwk_kv_cache_visible(const struct rwk_kv_cache *cache, uint32_t group, uint64_t position,
                          uint64_t *ret_first, uint64_t *ret_end);
/* Gives an empty cache these blocks of all groups, cleared. */
void rwk_kv_cache_restore(struct rwk_kv_cache *cache, uint64_t position);
/* Pages that the cache refers to, and how many of them others refer to, too. */
void rwk_kv_cache_count(const struct rwk_kv_cache *cache, uint64_t *ret_pages,
                        uint64_t *ret_shared);
/* Bytes of one page of a group; page b of it is cache->table[group][b]. */
size_t rwk_kv_cache_page_bytes(const struct rwk_kv_cache *cache, uint32_t group);

/* The K page of a layer's head for a block; its V page follows at + key_bytes. */
static inline unsigned char *rwk_kv_key_page(const struct rwk_kv_cache *cache,
                                             const struct rwk_layer *layer, uint32_t head,
                                             uint64_t block)
{
    size_t pair = cache->key_bytes + cache->value_bytes;
    return cache->table[layer->group][block]->data +
           ((size_t)layer->index_in_group * cache->model->n_kv_heads + head) * pair;
}

/* The first position that a query at `position` sees in a layer of this window. */
static inline uint64_t rwk_window_begin(uint64_t window, uint64_t position)
{
    return window && position + 1 > window ? position + 1 - window : 0;
}

#endif
