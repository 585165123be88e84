/* Open addressing with linear probing, at most half full; xxHash of the bytes. */
#include "loaders/names.h"

#include <string.h>
#include "runtime/base/hash.h"

/* The slot that holds the name, or the free one where it belongs. */
static struct rwk_name *slot_of(struct rwk_name *slots, size_t n_slots, const char *text,
                                size_t size)
{
    size_t at = rwk_hash(text, size) & (n_slots - 1);
    while (slots[at].text && (slots[at].size != size || memcmp(slots[at].text, text, size) != 0))
        at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

bool rwk_names_reserve(struct rwk_names *names, size_t n_names)
{
    size_t n_slots = names->n_slots ? names->n_slots : 16;
    while (n_slots < 2 * n_names)
        n_slots *= 2;
    if (n_slots == names->n_slots)
        return true;
    struct rwk_name *slots = rwk_calloc(names->memory, n_slots, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < names->n_slots; i++)
        if (names->slots[i].text)
            *slot_of(slots, n_slots, names->slots[i].text, names->slots[i].size) = names->slots[i];
    rwk_free(names->memory, names->slots);
    names->slots = slots;
    names->n_slots = n_slots;
    return true;
}

uint32_t *rwk_names_put(struct rwk_names *names, const char *text, size_t size, uint32_t value)
{
    if (!rwk_names_reserve(names, names->n_names + 1))
        return NULL;
    struct rwk_name *slot = slot_of(names->slots, names->n_slots, text, size);
    if (!slot->text) {
        *slot = (struct rwk_name) { .text = text, .size = (uint32_t)size, .value = value };
        names->n_names++;
    }
    return &slot->value;
}

const uint32_t *rwk_names_find(const struct rwk_names *names, const char *text, size_t size)
{
    if (!names->n_slots)
        return NULL;
    const struct rwk_name *slot = slot_of(names->slots, names->n_slots, text, size);
    return slot->text ? &slot->value : NULL;
}

void rwk_names_finish(struct rwk_names *names)
{
    rwk_free(names->memory, names->slots);
    *names = (struct rwk_names) { 0 };
}
