/* What the two halves of the reader of tokenizer.json share: load_json.c (the file, vocabulary,
 * model) and load_steps.c. */
#ifndef RWK_TOKENIZER_LOAD_H
#define RWK_TOKENIZER_LOAD_H

#include "loaders/tokenizer/internal.h"

struct loader {
    struct rwk_tokenizer *t;
    const char *file;
    struct rwk_error *error;
};

static inline enum rwk_status rwk_load_unsupported(const struct loader *l, const char *what,
                                                   const char *name)
{
    return rwk_fail_on(l->error, RWK_STATUS_UNSUPPORTED, l->file, what,
                       "\"%.60s\" is not supported", name);
}

static inline enum rwk_status rwk_load_malformed(const struct loader *l, const char *subject,
                                                 const char *what)
{
    return rwk_fail_on(l->error, RWK_STATUS_FORMAT, l->file, subject, "%s", what);
}

static inline const char *rwk_node_text(const struct rwk_node *node, const char *key,
                                        const char *fallback, size_t *ret_size)
{
    const struct rwk_node *m = rwk_tree_member(node, key);
    if (m && m->type == RWK_JSON_STRING) {
        *ret_size = m->string_size;
        return m->string;
    }
    *ret_size = fallback ? strlen(fallback) : 0;
    return fallback;
}

static inline const char *rwk_node_type(const struct rwk_node *node)
{
    const struct rwk_node *type = rwk_tree_member(node, "type");
    return type && type->type == RWK_JSON_STRING ? type->string : "";
}

/* One step, without the Sequence around it. */
typedef enum rwk_status (*rwk_node_fn)(const struct loader *l, const struct rwk_node *node);
enum rwk_status rwk_read_normalizer(const struct loader *l, const struct rwk_node *node);
enum rwk_status rwk_read_pre_tokenizer(const struct loader *l, const struct rwk_node *node);
enum rwk_status rwk_read_post_processor(const struct loader *l, const struct rwk_node *node);
enum rwk_status rwk_read_decoder(const struct loader *l, const struct rwk_node *node);
/* A step or a Sequence of steps under `key`, nested to the depth that the JSON reader allows. NULL:
 * none. */
enum rwk_status rwk_read_each(const struct loader *l, const struct rwk_node *node, const char *key,
                              rwk_node_fn fn);

#endif
