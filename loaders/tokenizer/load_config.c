/* What stands beside the tokenizer's own file: tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json.
 *
 * Roles (bos, eos, unk, pad) always come from here. Where the tokenizer's file is not complete
 * (vocab.json with merges.txt, tokenizer.model) added tokens and whether bos and eos are added come
 * from here, too. */
#include "loaders/tokenizer/internal.h"

#include <string.h>

static enum rwk_status load(struct rwk_tokenizer *t, const struct rwk_files *files,
                            const char *name, const struct rwk_node **ret, struct rwk_error *error)
{
    struct rwk_file file = { 0 };
    struct rwk_node *root = NULL;
    *ret = NULL;
    if (!rwk_files_have(files, name))
        return RWK_STATUS_OK;
    enum rwk_status status = rwk_files_open(&file, files, name, RWK_LOAD_READ, error);
    if (!status)
        status = rwk_tree_parse(&root, &t->arena, file.data, file.size, file.path, error);
    rwk_file_close(&file);
    *ret = root;
    return status;
}

/* A token is spelled as a string or as an object with "content". */
static const struct rwk_node *token(const struct rwk_node *root, const char *key)
{
    const struct rwk_node *node = rwk_tree_member(root, key);
    if (node && node->type == RWK_JSON_OBJECT)
        node = rwk_tree_member(node, "content");
    return node && node->type == RWK_JSON_STRING ? node : NULL;
}

static const char *const roles[] = { [RWK_SPECIAL_BOS] = "bos_token",
                                     [RWK_SPECIAL_EOS] = "eos_token",
                                     [RWK_SPECIAL_UNK] = "unk_token",
                                     [RWK_SPECIAL_PAD] = "pad_token" };

static enum rwk_status put(struct rwk_tokenizer *t, const char *text, size_t size, uint32_t id,
                           const struct rwk_node *flags, bool special, struct rwk_error *error)
{
    struct rwk_added a = { .text = text,
                           .size = (uint32_t)size,
                           .id = id,
                           .special = rwk_tree_flag(flags, "special", special),
                           .single_word = rwk_tree_flag(flags, "single_word", false),
                           .lstrip = rwk_tree_flag(flags, "lstrip", false),
                           .rstrip = rwk_tree_flag(flags, "rstrip", false) };
    return rwk_added_put(t, &a, error);
}

static enum rwk_status added_of(struct rwk_tokenizer *t, const struct rwk_node *config,
                                const struct rwk_node *map, const struct rwk_node *added,
                                struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    const struct rwk_node *decoder = rwk_tree_member(config, "added_tokens_decoder");
    for (const struct rwk_node *e = decoder && decoder->type == RWK_JSON_OBJECT ? decoder->children
                                                                                : NULL;
         e && !status; e = e->next) {
        const struct rwk_node *content = rwk_tree_member(e, "content");
        uint64_t id = 0;
        for (const char *p = e->key; *p >= '0' && *p <= '9' && id < INT32_MAX; p++)
            id = id * 10 + (uint64_t)(*p - '0');
        if (content && content->type == RWK_JSON_STRING && id < INT32_MAX)
            status = put(t, content->string, content->string_size, (uint32_t)id, e, false, error);
    }
    for (const struct rwk_node *e = added && added->type == RWK_JSON_OBJECT ? added->children
                                                                            : NULL;
         e && !status; e = e->next)
        if (e->is_integer && e->integer >= 0 && e->integer < INT32_MAX)
            status = put(t, e->key, strlen(e->key), (uint32_t)e->integer, NULL, false, error);
    const struct rwk_node *sources[] = { config, map };
    for (int s = 0; s < 2 && !t->spm;
         s++) /* SentencePiece's control pieces cannot be written in text */
        for (size_t i = 0; i < 4 && !status; i++) {
            const struct rwk_node *node = token(sources[s], roles[i]);
            uint32_t id =
                node ? rwk_tokenizer_find(t, node->string, node->string_size) : RWK_TOKEN_NONE;
            if (id != RWK_TOKEN_NONE)
                status = put(t, node->string, node->string_size, id, NULL, true, error);
        }
    static const char end_of_text[] =
        "<|endoftext|>"; /* GPT-2's files do not say that it is special */
    uint32_t id = rwk_tokenizer_find(t, end_of_text, sizeof end_of_text - 1);
    if (!status && !t->spm && id != RWK_TOKEN_NONE)
        status = put(t, end_of_text, sizeof end_of_text - 1, id, NULL, true, error);
    return status;
}

static enum rwk_status add_ends(struct rwk_tokenizer *t, const struct rwk_node *config,
                                struct rwk_error *error)
{
    const struct {
        const char *key;
        enum rwk_special role;
        bool fallback;
        uint32_t **ids;
        size_t *n;
    } rows[] = { { "add_bos_token", RWK_SPECIAL_BOS, t->spm, &t->prefix_ids, &t->n_prefix },
                 { "add_eos_token", RWK_SPECIAL_EOS, false, &t->suffix_ids, &t->n_suffix } };
    for (int i = 0; i < 2; i++) {
        if (!rwk_tree_flag(config, rows[i].key, rows[i].fallback) ||
            t->special[rows[i].role] == RWK_TOKEN_NONE)
            continue;
        uint32_t *ids = rwk_alloc(&t->memory, sizeof *ids);
        if (!ids)
            return rwk_fail_nomem(error, sizeof *ids);
        *ids = t->special[rows[i].role];
        *rows[i].ids = ids;
        *rows[i].n = 1;
    }
    return RWK_STATUS_OK;
}

enum rwk_status rwk_load_config(struct rwk_tokenizer *t, const struct rwk_files *files,
                                bool complete, struct rwk_error *error)
{
    const struct rwk_node *config, *map, *added = NULL;
    enum rwk_status status = load(t, files, "tokenizer_config.json", &config, error);
    if (!status)
        status = load(t, files, "special_tokens_map.json", &map, error);
    if (!status && !complete)
        status = load(t, files, "added_tokens.json", &added, error);
    if (!status && !complete)
        status = added_of(t, config, map, added, error);
    if (status)
        return status;
    for (size_t i = 0; i < 4; i++) {
        const struct rwk_node *node = token(config, roles[i]);
        node = node ? node : token(map, roles[i]);
        if (node)
            t->special[i] = rwk_tokenizer_find(t, node->string, node->string_size);
    }
    if (!complete)
        status = add_ends(t, config, error);
    if (!status && !complete)
        status = rwk_tokenizer_finish(t, error);
    return status;
}
