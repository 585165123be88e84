/* Lists of token ids as people and programs write them: "1 2 3", "1, 2, 3" or "[1, 2, 3]". */
#ifndef IDS_H
#define IDS_H

#include <stddef.h>
#include <stdint.h>

struct ids {
    uint32_t *items;
    size_t n;
    size_t capacity;
};

/* Replaces ids with those in text[0..size); `where` begins the message should the text be no such
 * list. */
void ids_parse(struct ids *ids, const char *text, size_t size, const char *where);
void ids_append(struct ids *ids, uint32_t id);
void ids_finish(struct ids *ids);

#endif
