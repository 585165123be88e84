/* Small JSON documents as trees: config.json and its kin, where keys are looked up by name. Built
 * from the pull reader without recursion; for large files (vocabularies, weight maps) use the
 * reader itself.
 *
 * Duplicate keys in one object are an error: which of the two was meant cannot be known. */
#ifndef RWK_LOADERS_TREE_H
#define RWK_LOADERS_TREE_H

#include "loaders/json.h"

struct rwk_node {
    enum rwk_json_event type; /* NULL, FALSE, TRUE, NUMBER, STRING, ARRAY or OBJECT */
    bool is_integer;    /* NUMBER: a whole value that int64 holds (4, 4.0 and 4e0 are the same) */
    const char *key;    /* NUL-terminated; NULL for elements of arrays and the root */
    const char *string; /* STRING: decoded, NUL-terminated; NUMBER: its spelling */
    size_t string_size;
    double number; /* NUMBER */
    int64_t integer;
    size_t offset; /* byte in the file */
    uint32_t n_children;
    struct rwk_node *children; /* first child, linked by next */
    struct rwk_node *next;
};

/* Parses text into nodes of the arena. `file` is for messages. *ret_root lives as long as the
 * arena. */
enum rwk_status rwk_tree_parse(struct rwk_node **ret_root, struct rwk_arena *arena,
                               const char *text, size_t size, const char *file,
                               struct rwk_error *error);

/* A member of an object by a dotted path ("rope_parameters.factor"); NULL when a part is missing or
 * node is NULL or not an object. A member that is null is returned as a node of type RWK_JSON_NULL.
 */
const struct rwk_node *rwk_tree_find(const struct rwk_node *node, const char *path);
/* The same by exact key, which may hold dots. */
const struct rwk_node *rwk_tree_member(const struct rwk_node *node, const char *key);

/* A boolean member; `fallback` where it is missing or null, false where it is anything but true. */
bool rwk_tree_flag(const struct rwk_node *node, const char *key, bool fallback);

#endif
