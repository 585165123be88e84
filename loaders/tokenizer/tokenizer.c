/* Opening, sharing and asking a tokenizer. */
#include "loaders/tokenizer/internal.h"

void rwk_tokenizer_options_init(struct rwk_tokenizer_options *options)
{
    *options = (struct rwk_tokenizer_options) { .size = sizeof *options };
}

static void destroy(struct rwk_tokenizer *t)
{
    struct rwk_memory memory;
    for (size_t i = 0; i < t->normalizer.n; i++)
        rwk_pattern_free(t->normalizer.items[i].pattern);
    for (size_t i = 0; i < t->splitter.n; i++)
        rwk_pattern_free(t->splitter.items[i].pattern);
    for (size_t i = 0; i < t->n_decoder; i++)
        rwk_pattern_free(t->decoder[i].pattern);
    void *blocks[] = {
        t->normalizer.items, t->splitter.items, t->decoder, t->entries,    t->added,
        t->merges,           t->joins,          t->known,   t->prefix_ids, t->suffix_ids
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        rwk_free(&t->memory, blocks[i]);
    struct rwk_trie *const tries[] = { &t->raw_trie, &t->normalized_trie, &t->pieces };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        rwk_trie_finish(tries[i]);
    rwk_names_finish(&t->vocab);
    rwk_names_finish(&t->added_names);
    rwk_arena_finish(&t->arena);
    rwk_memory_init(&memory, &t->memory.host, 0);
    rwk_free(&memory, t);
}

static enum rwk_status load_directory(struct rwk_tokenizer *t, const struct rwk_files *files,
                                      struct rwk_error *error)
{
    bool complete = rwk_files_have(files, "tokenizer.json");
    enum rwk_status status;
    if (complete)
        status = rwk_load_json(t, files, "tokenizer.json", error);
    else if (rwk_files_have(files, "vocab.json") && rwk_files_have(files, "merges.txt"))
        status = rwk_load_two_files(t, files, error);
    else if (rwk_files_have(files, "tokenizer.model"))
        status = rwk_load_sentencepiece(t, files, "tokenizer.model", error);
    else
        return rwk_fail(error, RWK_STATUS_IO, files->label,
                        "holds no tokenizer: neither tokenizer.json, nor vocab.json with "
                        "merges.txt, nor tokenizer.model");
    return status ? status : rwk_load_config(t, files, complete, error);
}

static enum rwk_status load(struct rwk_tokenizer *t, const struct rwk_files *files,
                            struct rwk_error *error)
{
    size_t n = strlen(files->label);
    if (files->is_directory)
        return load_directory(t, files, error);
    if (n > 6 && strcmp(files->label + n - 6, ".model") == 0) {
        enum rwk_status status = rwk_load_sentencepiece(t, files, NULL, error);
        return status ? status : rwk_tokenizer_finish(t, error);
    }
    return rwk_load_json(t, files, NULL, error);
}

enum rwk_status rwk_tokenizer_open(struct rwk_tokenizer **ret_tokenizer, const char *path,
                                   const struct rwk_tokenizer_options *options,
                                   struct rwk_error *error)
{
    struct rwk_source source = { .size = sizeof source, .path = path };
    return rwk_tokenizer_open_source(ret_tokenizer, &source, options, error);
}

enum rwk_status rwk_tokenizer_open_source(struct rwk_tokenizer **ret_tokenizer,
                                          const struct rwk_source *source,
                                          const struct rwk_tokenizer_options *options,
                                          struct rwk_error *error)
{
    struct rwk_tokenizer_options o;
    struct rwk_memory memory;
    struct rwk_files files;
    rwk_tokenizer_options_init(&o);
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    rwk_memory_init(&memory, o.allocator, 0);
    struct rwk_tokenizer *t = rwk_calloc(&memory, 1, sizeof *t);
    if (!t)
        return rwk_fail_nomem(error, sizeof *t);
    rwk_memory_init(&t->memory, o.allocator, o.memory_budget);
    t->arena.memory = &t->memory;
    t->vocab.memory = t->added_names.memory = &t->memory;
    struct rwk_trie *const tries[] = { &t->raw_trie, &t->normalized_trie, &t->pieces };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        tries[i]->memory = tries[i]->values.memory = &t->memory;
    t->unk = RWK_TOKEN_NONE;
    memset(t->special, 0xff, sizeof t->special);
    memset(t->byte_ids, 0xff, sizeof t->byte_ids);
    atomic_init(&t->references, 1);
    enum rwk_status status = rwk_files_init(&files, source, &t->memory, NULL, error);
    if (!status)
        status = load(t, &files, error);
    if (status) {
        destroy(t);
        return status;
    }
    *ret_tokenizer = t;
    return RWK_STATUS_OK;
}

struct rwk_tokenizer *rwk_tokenizer_retain(struct rwk_tokenizer *tokenizer)
{
    atomic_fetch_add_explicit(&tokenizer->references, 1, memory_order_relaxed);
    return tokenizer;
}

void rwk_tokenizer_close(struct rwk_tokenizer **tokenizer)
{
    struct rwk_tokenizer *t = tokenizer ? *tokenizer : NULL;
    if (!t)
        return;
    *tokenizer = NULL;
    if (atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) == 1)
        destroy(t);
}

uint32_t rwk_tokenizer_n_tokens(const struct rwk_tokenizer *tokenizer)
{
    return tokenizer->n_entries;
}

uint32_t rwk_tokenizer_special(const struct rwk_tokenizer *tokenizer, enum rwk_special role)
{
    return (unsigned)role < 4 ? tokenizer->special[role] : RWK_TOKEN_NONE;
}

enum rwk_status rwk_tokenizer_piece(const struct rwk_tokenizer *tokenizer, uint32_t id,
                                    struct rwk_piece *ret_piece)
{
    if (id >= tokenizer->n_entries || !tokenizer->entries[id].exists)
        return RWK_STATUS_RANGE;
    const struct rwk_entry *e = &tokenizer->entries[id];
    *ret_piece = (struct rwk_piece) {
        .text = e->text, .size = e->size, .added = e->added, .special = e->special
    };
    return RWK_STATUS_OK;
}
