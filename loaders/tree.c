/* Trees of small documents: nodes are linked as the reader's events come; the parents of the
 * present node stand on a stack of the reader's bounded depth. */
#include "loaders/tree.h"

#include <string.h>
#include "loaders/names.h"

struct builder {
    struct rwk_json json;
    struct rwk_arena *arena;
    struct rwk_node *parent[RWK_JSON_DEPTH];
    struct rwk_node *last[RWK_JSON_DEPTH]; /* latest child of each parent */
};

static enum rwk_status nomem(struct builder *b)
{
    return rwk_fail_nomem(b->json.error, sizeof(struct rwk_node));
}

static enum rwk_status take_number(struct builder *b, struct rwk_node *node)
{
    if (!rwk_json_double(&b->json, &node->number))
        return rwk_json_fail(&b->json, "the number %.*s is out of range",
                             (int)(b->json.raw_size < 40 ? b->json.raw_size : 40), b->json.raw);
    node->is_integer = rwk_json_int64(&b->json, &node->integer);
    if (!node->is_integer && node->number >= -0x1p63 && node->number < 0x1p63) {
        node->integer = (int64_t)node->number;
        node->is_integer = (double)node->integer == node->number;
    }
    node->string = rwk_arena_string(b->arena, b->json.raw, b->json.raw_size);
    node->string_size = b->json.raw_size;
    return node->string ? RWK_STATUS_OK : nomem(b);
}

/* Called at an object's end. */
static enum rwk_status check_duplicates(struct builder *b, const struct rwk_node *object)
{
    struct rwk_names names = { .memory = b->arena->memory };
    enum rwk_status status = RWK_STATUS_OK;
    uint32_t n = 0;
    for (const struct rwk_node *child = object->children; child && !status;
         child = child->next, n++) {
        const uint32_t *number = rwk_names_put(&names, child->key, strlen(child->key), n);
        if (!number) {
            status = nomem(b);
        } else if (*number != n) {
            struct rwk_where where = { .file = b->json.file,
                                       .subject = child->key,
                                       .offset = child->offset };
            status = rwk_fail_at(b->json.error, RWK_STATUS_FORMAT, &where,
                                 "the key occurs twice in one object");
        }
    }
    rwk_names_finish(&names);
    return status;
}

/* Hangs a node for `event` under the present parent. */
static enum rwk_status add_node(struct builder *b, enum rwk_json_event event, const char *key,
                                uint32_t depth, struct rwk_node **ret)
{
    struct rwk_node *node = rwk_arena_calloc(b->arena, 1, sizeof *node);
    if (!node)
        return nomem(b);
    node->type = event;
    node->key = key;
    node->offset = b->json.event_at;
    if (depth > 0) {
        struct rwk_node *parent = b->parent[depth - 1];
        *(b->last[depth - 1] ? &b->last[depth - 1]->next : &parent->children) = node;
        b->last[depth - 1] = node;
        parent->n_children++;
    }
    *ret = node;
    return event == RWK_JSON_STRING
               ? rwk_json_copy(&b->json, b->arena, &node->string, &node->string_size)
           : event == RWK_JSON_NUMBER ? take_number(b, node)
                                      : RWK_STATUS_OK;
}

enum rwk_status rwk_tree_parse(struct rwk_node **ret_root, struct rwk_arena *arena,
                               const char *text, size_t size, const char *file,
                               struct rwk_error *error)
{
    struct builder b = { .arena = arena };
    struct rwk_node *root = NULL;
    const char *key = NULL;
    enum rwk_status status = RWK_STATUS_OK;
    rwk_json_init(&b.json, text, size, true, file, error);
    for (;;) {
        uint32_t depth = b.json.depth;
        enum rwk_json_event event = rwk_json_next(&b.json);
        if (event == RWK_JSON_ERROR)
            return b.json.status;
        if (event == RWK_JSON_END)
            break;
        if (event == RWK_JSON_ARRAY_END)
            continue;
        if (event == RWK_JSON_KEY) {
            size_t n;
            status = rwk_json_copy(&b.json, arena, &key, &n);
        } else if (event == RWK_JSON_OBJECT_END) {
            status = check_duplicates(&b, b.parent[depth - 1]);
        } else {
            struct rwk_node *node = NULL;
            status = add_node(&b, event, key, depth, &node);
            key = NULL;
            root = root ? root : node;
            if (!status && (event == RWK_JSON_ARRAY || event == RWK_JSON_OBJECT)) {
                b.parent[depth] = node;
                b.last[depth] = NULL;
            }
        }
        if (status)
            return status;
    }
    *ret_root = root;
    return RWK_STATUS_OK;
}

static const struct rwk_node *member(const struct rwk_node *node, const char *key, size_t size)
{
    if (!node || node->type != RWK_JSON_OBJECT)
        return NULL;
    for (const struct rwk_node *child = node->children; child; child = child->next)
        if (strncmp(child->key, key, size) == 0 && child->key[size] == '\0')
            return child;
    return NULL;
}

const struct rwk_node *rwk_tree_member(const struct rwk_node *node, const char *key)
{
    return member(node, key, strlen(key));
}

const struct rwk_node *rwk_tree_find(const struct rwk_node *node, const char *path)
{
    while (*path && node) {
        size_t n = strcspn(path, ".");
        node = member(node, path, n);
        path += n + (path[n] == '.');
    }
    return node;
}

bool rwk_tree_flag(const struct rwk_node *node, const char *key, bool fallback)
{
    const struct rwk_node *m = rwk_tree_member(node, key);
    return m && m->type != RWK_JSON_NULL ? m->type == RWK_JSON_TRUE : fallback;
}
