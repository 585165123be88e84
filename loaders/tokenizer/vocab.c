/* Vocabulary, merges, added tokens and step lists while a tokenizer is loaded, and looking things
 * up afterwards. */
#include "loaders/tokenizer/internal.h"

#include "loaders/grow.h"

enum rwk_status rwk_vocab_init(struct rwk_tokenizer *t, uint32_t n_entries, struct rwk_error *error)
{
    if (n_entries > t->entries_capacity || !t->entries) {
        size_t capacity = n_entries + (size_t)n_entries / 2 + 64;
        struct rwk_entry *entries = rwk_realloc(&t->memory, t->entries, capacity * sizeof *entries);
        if (!entries)
            return rwk_fail_nomem(error, capacity * sizeof *entries);
        t->entries = entries;
        t->entries_capacity = capacity;
    }
    if (n_entries > t->n_entries) {
        memset(t->entries + t->n_entries, 0, (n_entries - t->n_entries) * sizeof *t->entries);
        t->n_entries = n_entries;
    }
    return RWK_STATUS_OK;
}

enum rwk_status rwk_vocab_put(struct rwk_tokenizer *t, uint32_t id, const char *text, size_t size,
                              struct rwk_error *error)
{
    enum rwk_status status = rwk_entry_put(t, id, text, size, error);
    uint32_t *known = status ? NULL : rwk_names_put(&t->vocab, t->entries[id].text, size, id);
    if (!status && !known)
        return rwk_fail_nomem(error, size);
    if (!status)
        *known = id;
    return status;
}

enum rwk_status rwk_entry_put(struct rwk_tokenizer *t, uint32_t id, const char *text, size_t size,
                              struct rwk_error *error)
{
    if (size > INT32_MAX)
        return rwk_fail(error, RWK_STATUS_FORMAT, NULL, "a piece of the vocabulary is too long");
    if (id >= t->n_entries) {
        enum rwk_status status = rwk_vocab_init(t, id + 1, error);
        if (status)
            return status;
    }
    char *copy = rwk_arena_string(&t->arena, text, size);
    if (!copy)
        return rwk_fail_nomem(error, size);
    t->entries[id] = (struct rwk_entry) { .text = copy, .size = (uint32_t)size, .exists = true };
    return RWK_STATUS_OK;
}

void rwk_vocab_finish(struct rwk_tokenizer *t)
{
    static const char digits[] = "0123456789ABCDEF";
    for (uint32_t code = 0; code < 512; code++) {
        char text[4];
        t->character_ids[code] = rwk_vocab_find(t, text, rwk_utf8_put(text, code));
    }
    for (int b = 0; b < 256; b++) {
        char name[] = { '<', '0', 'x', digits[b >> 4], digits[b & 15], '>' };
        t->byte_ids[b] = rwk_vocab_find(t, name, sizeof name);
        if (t->byte_ids[b] != RWK_TOKEN_NONE)
            t->entries[t->byte_ids[b]].byte = true;
    }
}

uint32_t rwk_vocab_find(const struct rwk_tokenizer *t, const char *text, size_t size)
{
    const uint32_t *id = rwk_names_find(&t->vocab, text, size);
    return id ? *id : RWK_TOKEN_NONE;
}

uint32_t rwk_tokenizer_find(const struct rwk_tokenizer *tokenizer, const char *piece, size_t size)
{
    const uint32_t *id = rwk_names_find(&tokenizer->added_names, piece, size);
    return id ? *id : rwk_vocab_find(tokenizer, piece, size);
}

/* ---- merges ---- */

static size_t merge_hash(const struct rwk_tokenizer *t, uint32_t left, uint32_t right)
{
    uint64_t key = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15ull;
    return (size_t)(key >> 20) & (t->n_merge_buckets - 1);
}

enum rwk_status rwk_merges_init(struct rwk_tokenizer *t, size_t n, struct rwk_error *error)
{
    size_t bytes;
    t->n_merge_buckets = 64;
    while (t->n_merge_buckets < 2 * n)
        t->n_merge_buckets *= 2;
    if (!rwk_size_mul(t->n_merge_buckets, sizeof *t->merges, &bytes) ||
        !(t->merges = rwk_alloc(&t->memory, bytes)))
        return rwk_fail_nomem(error, n * sizeof *t->merges);
    for (size_t i = 0; i < t->n_merge_buckets; i++)
        t->merges[i].rank = UINT32_MAX;
    return RWK_STATUS_OK;
}

bool rwk_merges_put(struct rwk_tokenizer *t, const char *left, size_t left_size, const char *right,
                    size_t right_size, uint32_t rank)
{
    char joined[4096];
    size_t skip = right_size >= t->word_prefix_size && t->word_prefix_size &&
                          memcmp(right, t->word_prefix, t->word_prefix_size) == 0
                      ? t->word_prefix_size
                      : 0;
    if (left_size + right_size > sizeof joined)
        return false;
    memcpy(joined, left, left_size);
    memcpy(joined + left_size, right + skip, right_size - skip);
    struct rwk_merge m = { rwk_vocab_find(t, left, left_size), rwk_vocab_find(t, right, right_size),
                           rank, rwk_vocab_find(t, joined, left_size + right_size - skip) };
    if (m.left == RWK_TOKEN_NONE || m.right == RWK_TOKEN_NONE || m.result == RWK_TOKEN_NONE)
        return false;
    size_t at = merge_hash(t, m.left, m.right);
    for (; t->merges[at].rank != UINT32_MAX; at = (at + 1) & (t->n_merge_buckets - 1))
        if (t->merges[at].left == m.left && t->merges[at].right == m.right)
            break; /* given twice: the later counts */
    t->merges[at] = m;
    return true;
}

const struct rwk_merge *rwk_merge_find(const struct rwk_tokenizer *t, uint32_t left, uint32_t right)
{
    for (size_t at = merge_hash(t, left, right); t->merges[at].rank != UINT32_MAX;
         at = (at + 1) & (t->n_merge_buckets - 1))
        if (t->merges[at].left == left && t->merges[at].right == right)
            return &t->merges[at];
    return NULL;
}

/* ---- added tokens ---- */

enum rwk_status rwk_added_put(struct rwk_tokenizer *t, const struct rwk_added *token,
                              struct rwk_error *error)
{
    if (token->size == 0)
        return RWK_STATUS_OK;
    struct rwk_added *grown =
        rwk_grow(&t->memory, t->added, t->n_added, &t->added_capacity, sizeof *grown);
    const char *text = rwk_arena_string(&t->arena, token->text, token->size);
    uint32_t known = rwk_vocab_find(t, token->text, token->size);
    uint32_t *id = text ? rwk_names_put(&t->added_names, text, token->size,
                                        known == RWK_TOKEN_NONE ? token->id : known)
                        : NULL;
    t->added = grown ? grown : t->added;
    if (!grown || !id)
        return rwk_fail_nomem(error, token->size);
    /* The vocabulary's id counts, whatever the file says; then the first that was given. */
    if (*id > t->n_entries + 1000000u)
        return rwk_fail(error, RWK_STATUS_FORMAT, NULL,
                        "the added token \"%.60s\" has an impossible id", text);
    if (*id >= t->n_entries || !t->entries[*id].exists) {
        enum rwk_status status = rwk_entry_put(t, *id, token->text, token->size, error);
        if (status)
            return status;
    }
    struct rwk_entry *e = &t->entries[*id];
    if (!e->added_index) /* else it is given again: the flags change */
        e->added_index = (uint32_t)++t->n_added;
    struct rwk_added *a = &t->added[e->added_index - 1];
    *a = *token;
    a->text = text;
    a->id = *id;
    e->added = true;
    e->special |= token->special;
    return RWK_STATUS_OK;
}

/* Those that are normalized are searched for in their normalized spelling. */
static enum rwk_status place_added(struct rwk_tokenizer *t, struct rwk_matcher *matcher,
                                   uint32_t index, struct rwk_error *error)
{
    struct rwk_added *a = &t->added[index];
    struct rwk_text text = { .data = a->text, .size = a->size };
    enum rwk_status status = RWK_STATUS_OK;
    if (a->normalized && !a->verbatim)
        status = rwk_normalize(t, matcher, &t->memory, &text, error);
    if (!status && text.size &&
        !rwk_trie_insert(a->normalized ? &t->normalized_trie : &t->raw_trie, text.data, text.size,
                         index))
        status = rwk_fail_nomem(error, text.size);
    if (!status && text.data != a->text &&
        (text.size != a->size || memcmp(text.data, a->text, a->size) != 0)) {
        a->decoded = rwk_arena_string(&t->arena, text.data, text.size);
        a->decoded_size = (uint32_t)text.size;
        if (!a->decoded)
            status = rwk_fail_nomem(error, text.size);
    }
    rwk_text_finish(&text);
    return status;
}

enum rwk_status rwk_tokenizer_finish(struct rwk_tokenizer *t, struct rwk_error *error)
{
    struct rwk_matcher matcher = { .memory = &t->memory };
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = t->n_added; i > 0 && !status;
         i--) /* of two with one spelling the first counts */
        status = place_added(t, &matcher, (uint32_t)i - 1, error);
    rwk_matcher_finish(&matcher);
    t->n_split_steps = t->splitter.n;
    if (t->splitter.n && t->splitter.items[t->splitter.n - 1].kind == RWK_STEP_MAP_BYTES)
        t->n_split_steps--;
    for (size_t i = 0; i < t->splitter.n; i++)
        t->needs_spans |= t->splitter.items[i].kind == RWK_STEP_METASPACE &&
                          t->splitter.items[i].option == RWK_PREPEND_FIRST && t->normalizer.n > 0;
    return status;
}

/* ---- steps ---- */

enum rwk_status rwk_steps_add(struct rwk_tokenizer *t, struct rwk_steps *steps,
                              struct rwk_step step, struct rwk_error *error)
{
    struct rwk_step *items =
        rwk_grow(&t->memory, steps->items, steps->n, &steps->capacity, sizeof *items);
    if (!items) {
        rwk_pattern_free(step.pattern);
        return rwk_fail_nomem(error, (steps->n + 1) * sizeof *items);
    }
    steps->items = items;
    steps->items[steps->n++] = step;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_decoder_add(struct rwk_tokenizer *t, struct rwk_decode_step step,
                                struct rwk_error *error)
{
    struct rwk_decode_step *steps =
        rwk_realloc(&t->memory, t->decoder, (t->n_decoder + 1) * sizeof *steps);
    if (!steps) {
        rwk_pattern_free(step.pattern);
        return rwk_fail_nomem(error, (t->n_decoder + 1) * sizeof *steps);
    }
    t->decoder = steps;
    t->decodes_bytes |= step.kind == RWK_DECODE_BYTE_FALLBACK;
    t->decoder[t->n_decoder++] = step;
    return RWK_STATUS_OK;
}

/* ---- the byte-level alphabet of GPT-2: printable Latin-1 for itself, the rest from U+0100 on ----
 */

#define R(a) a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7
const uint16_t rwk_byte_to_code[256] = {
    R(256), R(264), R(272), R(280), 288,    33,     34,     35,     36,     37,     38,     39,
    R(40),  R(48),  R(56),  R(64),  R(72),  R(80),  R(88),  R(96),  R(104), R(112), 120,    121,
    122,    123,    124,    125,    126,    289,    R(290), R(298), R(306), R(314), 322,    161,
    162,    163,    164,    165,    166,    167,    168,    169,    170,    171,    172,    323,
    174,    175,    R(176), R(184), R(192), R(200), R(208), R(216), R(224), R(232), R(240), R(248),
};
#undef R

int rwk_code_to_byte(uint32_t code)
{
    if (code < 256 && rwk_byte_to_code[code] == code)
        return (int)code;
    if (code >= 256 && code <= 288)
        return (int)code - 256;
    if (code >= 289 && code <= 322)
        return (int)code - 289 + 127;
    return code == 323 ? 173 : -1;
}

const char rwk_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

enum rwk_status rwk_add_byte_level(struct rwk_tokenizer *t, bool prefix_space, bool use_regex,
                                   const char *file, struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    struct rwk_step split = { .kind = RWK_STEP_SPLIT, .option = RWK_ISOLATED };
    if (prefix_space)
        status = rwk_steps_add(t, &t->splitter, (struct rwk_step) { .kind = RWK_STEP_PREFIX_SPACE },
                               error);
    if (!status && use_regex) {
        status = rwk_pattern_compile(&split.pattern, rwk_gpt2_pattern, strlen(rwk_gpt2_pattern),
                                     false, &t->memory, file, error);
        if (!status)
            status = rwk_steps_add(t, &t->splitter, split, error);
    }
    return status ? status
                  : rwk_steps_add(t, &t->splitter, (struct rwk_step) { .kind = RWK_STEP_MAP_BYTES },
                                  error);
}
