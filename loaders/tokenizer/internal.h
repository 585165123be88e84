/* The inside of a tokenizer: what the files say, brought into one form.
 *
 *   text -> added tokens cut out -> normalizer steps -> added tokens again -> splitting steps -> model on each piece -> ids
 *        -> post-processor;   ids -> pieces -> decoder steps -> text
 *
 * Every step type of every file format becomes one of a few primitives, so that loading is where formats differ and running
 * is not. A loaded tokenizer is constant; calls keep their buffers to themselves. */
#ifndef RWK_TOKENIZER_INTERNAL_H
#define RWK_TOKENIZER_INTERNAL_H

#include <stdatomic.h>
#include "loaders/source.h"
#include "loaders/tree.h"

/* ---- growing buffers ---- */

/* Bytes, with an error that sticks: after a refused allocation every append does nothing. */
struct rwk_buffer {
    struct rwk_memory *memory;
    char *data;
    size_t size, capacity;
    bool failed;
};
bool rwk_buffer_reserve(struct rwk_buffer *b, size_t more);
void rwk_buffer_append(struct rwk_buffer *b, const void *data, size_t size);
void rwk_buffer_finish(struct rwk_buffer *b);

/* Text under way, and for each byte the input bytes that it stands for (NULL when nobody asks for offsets). */
struct rwk_text {
    struct rwk_buffer bytes;
    struct rwk_buffer spans; /* struct rwk_span for each byte, when wanted */
    bool with_spans;
};
void rwk_text_init(struct rwk_text *t, struct rwk_memory *memory, bool with_spans);
void rwk_text_finish(struct rwk_text *t);
void rwk_text_clear(struct rwk_text *t);
bool rwk_text_failed(const struct rwk_text *t);
/* Appends bytes that stand for bytes [begin, end) of another text. */
void rwk_text_put(struct rwk_text *to, const char *bytes, size_t size, const struct rwk_text *from, size_t begin, size_t end);
/* Appends a slice of another text, byte for byte. */
void rwk_text_copy(struct rwk_text *to, const struct rwk_text *from, size_t begin, size_t end);

struct rwk_slice {
    size_t begin, end;
};

/* ---- characters ---- */

/* Bytes of the character at p (at least 1), and its code point; text is valid UTF-8. */
size_t rwk_utf8_next(const char *p, const char *end, uint32_t *ret_code);
size_t rwk_utf8_put(char *p, uint32_t code);
/* Length of the valid character at p, 0 if there is none; *ret_incomplete: the text ends inside a character. */
size_t rwk_utf8_valid(const char *p, size_t left, bool *ret_incomplete);

/* Unicode's White_Space. */
static inline bool rwk_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* ---- patterns ---- */

struct rwk_pattern;
/* Compiles an Oniguruma regex (or literal text); freed with the tokenizer's allocations through rwk_pattern_free. */
enum rwk_status rwk_pattern_compile(struct rwk_pattern **ret, const char *source, size_t size, bool literal,
                                    struct rwk_memory *memory, const char *file, struct rwk_error *error);
void rwk_pattern_free(struct rwk_pattern *p);
/* All matches in text[0..size), in order, as slices appended to `matches`. */
enum rwk_status rwk_pattern_matches(const struct rwk_pattern *p, const char *text, size_t size, struct rwk_buffer *matches,
                                    struct rwk_error *error);

/* ---- steps ---- */

enum rwk_step_kind {
    /* normalizers, text -> text */
    RWK_STEP_UNICODE,     /* `option`: utf8proc options */
    RWK_STEP_LOWER,
    RWK_STEP_STRIP,       /* flags: 1 left, 2 right */
    RWK_STEP_STRIP_ACCENTS,
    RWK_STEP_REPLACE,     /* pattern -> content */
    RWK_STEP_PREPEND,     /* content, unless empty */
    RWK_STEP_MAP_BYTES,   /* byte-level alphabet; also a splitting step */
    RWK_STEP_CHARSMAP,    /* SentencePiece's precompiled map */
    RWK_STEP_NMT,
    RWK_STEP_BERT_CLEAN,
    RWK_STEP_BERT_CHINESE,
    RWK_STEP_SQUEEZE,     /* SentencePiece: blanks at both ends go, runs become one */
    /* splitting, pieces -> pieces */
    RWK_STEP_SPLIT,       /* pattern, behaviour, invert */
    RWK_STEP_PREFIX_SPACE,/* each piece that does not start with a blank gets one */
    RWK_STEP_METASPACE,   /* blank -> content; option: enum rwk_prepend */
};
enum rwk_behaviour { RWK_REMOVED, RWK_ISOLATED, RWK_MERGED_WITH_PREVIOUS, RWK_MERGED_WITH_NEXT, RWK_CONTIGUOUS };
enum rwk_prepend { RWK_PREPEND_ALWAYS, RWK_PREPEND_FIRST, RWK_PREPEND_NEVER };

struct rwk_step {
    enum rwk_step_kind kind;
    int option;
    bool invert;
    struct rwk_pattern *pattern;
    const char *content;
    size_t content_size;
};

struct rwk_steps {
    struct rwk_step *items; /* in the tokenizer's memory */
    size_t n, capacity;
};

enum rwk_status rwk_normalize_step(const struct rwk_step *step, const struct rwk_text *from, struct rwk_text *to,
                                   struct rwk_error *error);

/* ---- vocabulary ---- */

struct rwk_entry {
    const char *text;
    uint32_t size;
    bool exists, added, special, byte; /* byte: <0xHH> */
    float score;
};

struct rwk_added {
    const char *text;   /* as searched: normalized for normalized ones */
    uint32_t size;
    uint32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
};

/* A trie over bytes, for added tokens and Unigram prefixes: nodes with sorted children would be slower to build. */
struct rwk_trie {
    struct rwk_buffer nodes;     /* struct rwk_trie_node */
    uint32_t root[256];
};
struct rwk_trie_node {
    uint32_t value;              /* id + 1, or 0 */
    uint32_t first_child, next;  /* indices, 0: none */
    unsigned char byte;
};
bool rwk_trie_insert(struct rwk_trie *trie, const char *text, size_t size, uint32_t value);
static inline uint32_t rwk_trie_step(const struct rwk_trie *trie, uint32_t node, unsigned char byte)
{
    const struct rwk_trie_node *nodes = (const struct rwk_trie_node *)trie->nodes.data;
    uint32_t child = node ? nodes[node].first_child : trie->root[byte];
    while (child && node && nodes[child].byte != byte)
        child = nodes[child].next;
    return child;
}

enum rwk_model_kind { RWK_MODEL_BPE, RWK_MODEL_UNIGRAM, RWK_MODEL_WORDPIECE, RWK_MODEL_WORDLEVEL };

struct rwk_merge {
    uint32_t left, right, rank, result; /* rank UINT32_MAX: an empty bucket */
};

enum rwk_decode_kind {
    RWK_DECODE_BYTES, RWK_DECODE_BYTE_FALLBACK, RWK_DECODE_REPLACE, RWK_DECODE_FUSE, RWK_DECODE_STRIP, RWK_DECODE_METASPACE,
    RWK_DECODE_BPE, RWK_DECODE_WORDPIECE
};
struct rwk_decode_step {
    enum rwk_decode_kind kind;
    const char *from, *to;
    size_t from_size, to_size;
    uint32_t start, stop;        /* STRIP */
    struct rwk_pattern *pattern; /* REPLACE by pattern */
    int option;                  /* METASPACE: enum rwk_prepend; WORDPIECE: cleanup */
};

struct rwk_tokenizer {
    struct rwk_memory memory;
    struct rwk_arena arena;
    atomic_uint references;

    struct rwk_entry *entries;   /* [n_entries] by id */
    uint32_t n_entries;
    uint32_t *buckets;           /* piece -> id + 1 */
    size_t n_buckets;

    struct rwk_added *added;
    size_t n_added, added_capacity;
    struct rwk_trie raw_trie, normalized_trie; /* values: index into added + 1 */

    struct rwk_steps normalizer, splitter;

    enum rwk_model_kind model;
    bool byte_fallback, fuse_unk, ignore_merges;
    bool spm;                    /* pieces are merged by score, as SentencePiece does */
    uint32_t unk;                /* RWK_TOKEN_NONE: none */
    const char *word_prefix, *word_suffix;
    size_t word_prefix_size, word_suffix_size;
    struct rwk_merge *merges;    /* hash table */
    size_t n_merge_buckets;
    uint32_t byte_ids[256];      /* <0xHH>, RWK_TOKEN_NONE where missing */
    struct rwk_trie pieces;      /* Unigram: values id + 1 */
    float min_score;
    uint32_t max_word;           /* WordPiece: longer words are unknown */

    struct rwk_decode_step *decoder;
    size_t n_decoder;
    bool join_with_blank;        /* no decoder at all */

    uint32_t *prefix_ids, *suffix_ids; /* post-processor */
    size_t n_prefix, n_suffix;
    uint32_t special[4];
};

uint32_t rwk_vocab_find(const struct rwk_tokenizer *t, const char *text, size_t size);
/* The merge of two neighbours, or NULL. */
const struct rwk_merge *rwk_merge_find(const struct rwk_tokenizer *t, uint32_t left, uint32_t right);

/* Ids under way. */
struct rwk_ids {
    struct rwk_buffer ids;   /* uint32_t */
    struct rwk_buffer spans; /* struct rwk_span, when wanted */
};
/* The model on one piece of text. */
enum rwk_status rwk_model_run(const struct rwk_tokenizer *t, const struct rwk_text *text, struct rwk_slice piece,
                              struct rwk_ids *ids, struct rwk_error *error);
enum rwk_status rwk_unigram_run(const struct rwk_tokenizer *t, const struct rwk_text *text, struct rwk_slice piece,
                                struct rwk_ids *ids, struct rwk_error *error);
void rwk_ids_put(struct rwk_ids *ids, uint32_t id, const struct rwk_text *text, size_t begin, size_t end);

/* ---- the byte-level alphabet ---- */
extern const uint16_t rwk_byte_to_code[256];
/* The byte that a code point of the alphabet stands for, or -1. */
int rwk_code_to_byte(uint32_t code);
extern const char rwk_gpt2_pattern[];

/* ---- loading ---- */
enum rwk_status rwk_load_json(struct rwk_tokenizer *t, const struct rwk_files *files, const char *name, struct rwk_error *error);
enum rwk_status rwk_load_two_files(struct rwk_tokenizer *t, const struct rwk_files *files, struct rwk_error *error);
enum rwk_status rwk_load_sentencepiece(struct rwk_tokenizer *t, const struct rwk_files *files, const char *name, struct rwk_error *error);
/* tokenizer_config.json and its kin: roles, and for files that do not say it themselves added tokens and bos/eos. */
enum rwk_status rwk_load_config(struct rwk_tokenizer *t, const struct rwk_files *files, bool complete, struct rwk_error *error);

enum rwk_status rwk_vocab_init(struct rwk_tokenizer *t, uint32_t n_entries, struct rwk_error *error);
enum rwk_status rwk_vocab_put(struct rwk_tokenizer *t, uint32_t id, const char *text, size_t size, struct rwk_error *error);
enum rwk_status rwk_vocab_index(struct rwk_tokenizer *t, struct rwk_error *error);
enum rwk_status rwk_merges_init(struct rwk_tokenizer *t, size_t n, struct rwk_error *error);
/* False when a part or the result is not in the vocabulary. */
bool rwk_merges_put(struct rwk_tokenizer *t, const char *left, size_t left_size, const char *right, size_t right_size,
                    uint32_t rank);
enum rwk_status rwk_added_put(struct rwk_tokenizer *t, const struct rwk_added *token, struct rwk_error *error);
enum rwk_status rwk_added_finish(struct rwk_tokenizer *t, struct rwk_error *error);
enum rwk_status rwk_steps_add(struct rwk_tokenizer *t, struct rwk_steps *steps, struct rwk_step step, struct rwk_error *error);
enum rwk_status rwk_decoder_add(struct rwk_tokenizer *t, struct rwk_decode_step step, struct rwk_error *error);
enum rwk_status rwk_add_byte_level(struct rwk_tokenizer *t, bool prefix_space, bool use_regex, const char *file,
                                   struct rwk_error *error);

enum rwk_status rwk_decode_append(const struct rwk_tokenizer *t, const uint32_t *ids, size_t n, uint32_t flags,
                                  struct rwk_buffer *out, struct rwk_error *error);
enum rwk_status rwk_normalize(const struct rwk_tokenizer *t, struct rwk_text *text, struct rwk_error *error);

#endif
