/* The inside of a tokenizer: what the files say, brought into one form.
 *
 *   text -> added tokens cut out -> normalizer steps -> added tokens again -> splitting steps ->
 * model on each piece -> ids
 *        -> post-processor;   ids -> pieces -> decoder steps -> text
 *
 * Every step type of every file format becomes one of a few primitives, so that loading is where
 * formats differ and running is not. A loaded tokenizer is constant; calls keep their buffers to
 * themselves. */
#ifndef RWK_TOKENIZER_INTERNAL_H
#define RWK_TOKENIZER_INTERNAL_H

#include <stdatomic.h>
#include <string.h>
#include "loaders/source.h"
#include "loaders/names.h"
#include "loaders/tree.h"
#include "runtime/base/utf8.h"

/* ---- growing buffers ---- */

/* Bytes, with an error that sticks: after a refused allocation every append does nothing. */
struct rwk_buffer {
    struct rwk_memory *memory;
    char *data;
    size_t size, capacity;
    bool failed;
};
bool rwk_buffer_reserve(struct rwk_buffer *b, size_t more);
void rwk_buffer_finish(struct rwk_buffer *b);
static inline void rwk_buffer_append(struct rwk_buffer *b, const void *data, size_t size)
{
    if (size == 0 || ((b->failed || b->capacity - b->size < size) && !rwk_buffer_reserve(b, size)))
        return;
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

/* Text under way, and the input bytes that each of its bytes stands for. A slice owns nothing; a
 * text that a step makes owns what it appends, and is ready to be read after rwk_text_ready. */
struct rwk_text {
    const char *data;
    size_t size;
    const struct rwk_span
        *spans; /* [size]; NULL: byte i stands for input byte base + i, or nobody asks */
    uint64_t base;
    bool with_spans;
    struct rwk_buffer own_bytes, own_spans;
};
void rwk_text_init(struct rwk_text *t, struct rwk_memory *memory, bool with_spans);
void rwk_text_finish(struct rwk_text *t);
/* False when memory ran out. */
bool rwk_text_ready(struct rwk_text *t);
struct rwk_text rwk_text_slice(const struct rwk_text *t, size_t begin, size_t end);
/* The input bytes that bytes [begin, end) stand for. */
struct rwk_span rwk_text_span(const struct rwk_text *t, size_t begin, size_t end);
/* Appends bytes that stand for `span`. */
void rwk_text_put(struct rwk_text *to, const char *bytes, size_t size, struct rwk_span span);
/* Appends bytes [begin, end) of another text. */
void rwk_text_copy(struct rwk_text *to, const struct rwk_text *from, size_t begin, size_t end);

struct rwk_slice {
    size_t begin, end;
};

/* ---- characters ---- */

/* Unicode's White_Space. */
static inline bool rwk_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

struct rwk_category_range {
    uint32_t first, last;
    char category[3];
};
extern const struct rwk_category_range rwk_new_categories[]; /* ascending */
extern const size_t rwk_n_new_categories;

/* ---- patterns ---- */

struct rwk_pattern;
/* Compiles an Oniguruma regex (or literal text); freed with the tokenizer's allocations through
 * rwk_pattern_free. */
enum rwk_status rwk_pattern_compile(struct rwk_pattern **ret, const char *source, size_t size,
                                    bool literal, struct rwk_memory *memory, const char *file,
                                    struct rwk_error *error);
void rwk_pattern_free(struct rwk_pattern *p);

/* What matching needs besides the pattern: one for each call. Zero-initialise, set memory, then
 * finish. */
struct rwk_matcher {
    struct rwk_memory *memory;
    void *general, *data, *context; /* PCRE2's, made when first needed */
};
void rwk_matcher_finish(struct rwk_matcher *m);
/* All matches in text[0..size), in order, as slices appended to `matches`; they may be empty. */
enum rwk_status rwk_pattern_matches(const struct rwk_pattern *p, struct rwk_matcher *matcher,
                                    const char *text, size_t size, struct rwk_buffer *matches,
                                    struct rwk_error *error);

/* ---- steps ---- */

enum rwk_step_kind {
    /* normalizers, text -> text */
    RWK_STEP_UNICODE, /* `option`: utf8proc options */
    RWK_STEP_LOWER,
    RWK_STEP_STRIP, /* flags: 1 left, 2 right */
    RWK_STEP_STRIP_ACCENTS,
    RWK_STEP_STRIP_NONSPACING,
    RWK_STEP_REPLACE,     /* pattern -> content */
    RWK_STEP_PREPEND,     /* content, unless the text is empty; option 1: even then */
    RWK_STEP_MAP_BYTES,   /* byte-level alphabet; also a splitting step */
    RWK_STEP_CHARSMAP,    /* a precompiled map as SentencePiece applies it: the longest prefix */
    RWK_STEP_PRECOMPILED, /* the same map as tokenizer.json has it: graphemes, then characters */
    RWK_STEP_NMT,
    RWK_STEP_BERT_CLEAN,
    RWK_STEP_BERT_CHINESE,
    RWK_STEP_SQUEEZE,  /* SentencePiece: blanks at both ends go, runs become one */
    RWK_STEP_TRIM_END, /* SentencePiece: content at the end goes */
    /* splitting, pieces -> pieces */
    RWK_STEP_SPLIT,        /* pattern, behaviour, invert */
    RWK_STEP_PREFIX_SPACE, /* each piece that does not start with a blank gets one */
    RWK_STEP_METASPACE,    /* blank -> content; option: enum rwk_prepend */
};
enum rwk_behaviour {
    RWK_REMOVED,
    RWK_ISOLATED,
    RWK_MERGED_WITH_PREVIOUS,
    RWK_MERGED_WITH_NEXT,
    RWK_CONTIGUOUS
};
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

/* ---- vocabulary ---- */

struct rwk_entry {
    const char *text;
    uint32_t size;
    bool exists, added, special, byte; /* byte: <0xHH> */
    uint32_t added_index;              /* of its rwk_added, counted from 1; 0: none */
    double score;
};

struct rwk_added {
    const char *text; /* as spelled */
    uint32_t size;
    uint32_t id;
    bool single_word, lstrip, rstrip, special;
    bool normalized;     /* searched for after normalization */
    bool verbatim;       /* searched for as spelled even then */
    const char *decoded; /* what it is in decoded text where that is not its spelling: the
                            normalized one; else NULL */
    uint32_t decoded_size;
};

/* A trie over bytes, for added tokens and Unigram pieces: edges in a hash table. Node 0 is the
 * root. */
struct rwk_edge {
    uint32_t node; /* UINT32_MAX: free */
    uint32_t child;
    unsigned char byte;
};
struct rwk_trie {
    struct rwk_memory *memory;
    struct rwk_edge *edges; /* [n_slots] */
    size_t n_slots, n_edges;
    struct rwk_buffer values; /* uint32_t for each node: value + 1, or 0 */
    bool first[256];          /* bytes that begin a key */
};
/* A key that is put again gets the newer value. False: out of memory. */
bool rwk_trie_insert(struct rwk_trie *trie, const char *text, size_t size, uint32_t value);
void rwk_trie_finish(struct rwk_trie *trie);
/* The child of a node, 0: none. */
static inline uint32_t rwk_trie_step(const struct rwk_trie *trie, uint32_t node, unsigned char byte)
{
    if (!trie->n_slots)
        return 0;
    size_t at =
        (size_t)(((uint64_t)node << 8 | byte) * 0x9e3779b97f4a7c15ull >> 24) & (trie->n_slots - 1);
    for (; trie->edges[at].node != UINT32_MAX; at = (at + 1) & (trie->n_slots - 1))
        if (trie->edges[at].node == node && trie->edges[at].byte == byte)
            return trie->edges[at].child;
    return 0;
}
/* What was put for the key that ends at a node: RWK_TOKEN_NONE if none does. */
static inline uint32_t rwk_trie_value(const struct rwk_trie *trie, uint32_t node)
{
    return ((const uint32_t *)(const void *)trie->values.data)[node] - 1;
}

enum rwk_model_kind { RWK_MODEL_BPE, RWK_MODEL_UNIGRAM, RWK_MODEL_WORDPIECE, RWK_MODEL_WORDLEVEL };

struct rwk_merge {
    uint32_t left, right, rank, result; /* rank UINT32_MAX: an empty bucket */
};

enum rwk_decode_kind {
    RWK_DECODE_BYTES,
    RWK_DECODE_BYTE_FALLBACK,
    RWK_DECODE_REPLACE,
    RWK_DECODE_FUSE,
    RWK_DECODE_STRIP,
    RWK_DECODE_METASPACE,
    RWK_DECODE_BPE,
    RWK_DECODE_WORDPIECE,
    RWK_DECODE_CTC,
    RWK_DECODE_LEADING_MARKS
};
struct rwk_decode_step {
    enum rwk_decode_kind kind;
    const char *from, *to;
    size_t from_size, to_size;
    uint32_t start, stop;        /* STRIP */
    struct rwk_pattern *pattern; /* REPLACE by pattern */
    int option; /* METASPACE: enum rwk_prepend; WORDPIECE, CTC: cleanup; LEADING_MARKS: all */
};

/* Offsets lose the blanks at a token's ends, as the ByteLevel and Roberta post-processors do. */
struct rwk_trim {
    bool wanted, prefix_space;
};

struct rwk_tokenizer {
    struct rwk_memory memory;
    struct rwk_arena arena;
    atomic_uint references;

    struct rwk_entry *entries; /* [n_entries] by id */
    uint32_t n_entries;
    size_t entries_capacity;
    struct rwk_names vocab;       /* the model's pieces -> id */
    struct rwk_names added_names; /* added tokens -> id */

    struct rwk_added *added;
    size_t n_added, added_capacity;
    struct rwk_trie raw_trie, normalized_trie; /* values: index into added */

    struct rwk_steps normalizer, splitter;
    size_t n_split_steps; /* steps of the splitter but a last MAP_BYTES, which is done piece by
                             piece */
    bool needs_spans;     /* a step asks where in the input a piece began */

    enum rwk_model_kind model;
    bool byte_fallback, fuse_unk, ignore_merges;
    bool spm;             /* from a SentencePiece file */
    const char *unk_name; /* NULL: the model has no unknown token */
    size_t unk_name_size;
    uint32_t unk;         /* RWK_TOKEN_NONE: none, or not in the vocabulary */
    const char *unk_text; /* what it is in decoded text; NULL: as spelled */
    size_t unk_text_size;
    const char *word_prefix, *word_suffix;
    size_t word_prefix_size, word_suffix_size;
    struct rwk_merge *merges; /* hash table */
    size_t n_merge_buckets;
    uint32_t character_ids[512]; /* the pieces of single characters below U+0200 */
    uint64_t *joins; /* BPE: which neighbouring characters some merge may join; NULL: not known. See
                        bpe.c */
    size_t n_join_bits;
    uint64_t *known;        /* [1024] bits: characters of the basic plane that are pieces */
    uint32_t byte_ids[256]; /* <0xHH>, RWK_TOKEN_NONE where missing */
    struct rwk_trie pieces; /* Unigram: values are ids */
    double min_score;
    uint64_t max_word; /* WordPiece: words of more characters are unknown */

    struct rwk_decode_step *decoder;
    size_t n_decoder;
    bool join_with_blank; /* no decoder at all */
    bool decodes_bytes;   /* <0xHH> is a byte to the decoder */

    uint32_t *prefix_ids, *suffix_ids; /* post-processor */
    size_t n_prefix, n_suffix;
    struct rwk_trim trim;
    uint32_t special[4];
};

/* The model's own id of a piece; added tokens that are no pieces of the model do not count.
 * RWK_TOKEN_NONE: none. */
uint32_t rwk_vocab_find(const struct rwk_tokenizer *t, const char *text, size_t size);
/* The merge of two neighbours, or NULL. */
const struct rwk_merge *rwk_merge_find(const struct rwk_tokenizer *t, uint32_t left,
                                       uint32_t right);

/* ---- encoding ---- */

/* One token of a piece: its bytes [begin, end) of the piece's text. */
struct rwk_token {
    uint32_t id, begin, end;
};

/* What a call of encode keeps to itself. */
struct rwk_work {
    const struct rwk_tokenizer *t;
    struct rwk_memory memory;
    struct rwk_error *error;
    uint32_t flags;
    bool with_spans;
    const char *input;
    struct rwk_buffer ids;   /* uint32_t */
    struct rwk_buffer spans; /* struct rwk_span, when wanted */
    struct rwk_matcher matcher;
    struct rwk_buffer matches, parts; /* splitting */
    struct rwk_buffer mapped;         /* a piece in the byte-level alphabet */
    struct rwk_buffer tokens;         /* struct rwk_token: the model's output for one piece */
    struct rwk_buffer scratch, heap;  /* the model's */
    /* Pieces seen before: hash table of slots into keys and into cached_tokens. */
    struct rwk_cache_slot *slots;
    size_t n_slots, n_used;
    struct rwk_buffer keys, cached_tokens;
};

/* Appends the tokens of a piece's text to work->tokens. */
enum rwk_status rwk_model_run(struct rwk_work *work, const char *text, size_t size);
enum rwk_status rwk_bpe_run(struct rwk_work *work, const char *text, size_t size);
enum rwk_status rwk_unigram_run(struct rwk_work *work, const char *text, size_t size);
void rwk_token_put(struct rwk_work *work, uint32_t id, size_t begin, size_t end);
/* The unknown token is needed, but there is none. */
enum rwk_status rwk_fail_unknown(const struct rwk_work *work);
/* How many bytes of text, at its start, can be encoded by themselves, whatever follows; `raw`:
 * bytes that the byte-level alphabet will be applied to. */
size_t rwk_bpe_part(const struct rwk_tokenizer *t, const char *text, size_t size, bool raw);

/* The pieces of a text that the splitting steps make, each given to the model; tokens go to
 * work->ids. */
enum rwk_status rwk_encode_chunk(struct rwk_work *work, const struct rwk_text *text);
/* Cuts added tokens out of a text; what lies between goes to `chunk`. */
typedef enum rwk_status (*rwk_chunk_fn)(struct rwk_work *work, const struct rwk_text *text);
enum rwk_status rwk_cut_added(struct rwk_work *work, const struct rwk_trie *trie,
                              const struct rwk_text *text, rwk_chunk_fn chunk);
/* A token for the result; text[0..size) is its spelling. */
void rwk_work_put(struct rwk_work *work, uint32_t id, struct rwk_span span, const char *text,
                  size_t size);

/* ---- the byte-level alphabet ---- */
extern const uint16_t rwk_byte_to_code[256];
/* The byte that a code point of the alphabet stands for, or -1. */
int rwk_code_to_byte(uint32_t code);
extern const char rwk_gpt2_pattern[];

/* ---- loading ---- */
enum rwk_status rwk_load_json(struct rwk_tokenizer *t, const struct rwk_files *files,
                              const char *name, struct rwk_error *error);
enum rwk_status rwk_load_two_files(struct rwk_tokenizer *t, const struct rwk_files *files,
                                   struct rwk_error *error);
enum rwk_status rwk_load_sentencepiece(struct rwk_tokenizer *t, const struct rwk_files *files,
                                       const char *name, struct rwk_error *error);
/* tokenizer_config.json and its kin: roles, and for files that do not say it themselves added
 * tokens and bos/eos. */
enum rwk_status rwk_load_config(struct rwk_tokenizer *t, const struct rwk_files *files,
                                bool complete, struct rwk_error *error);

/* Room for ids below n_entries. */
enum rwk_status rwk_vocab_init(struct rwk_tokenizer *t, uint32_t n_entries,
                               struct rwk_error *error);
/* A piece of the model; a piece that is put again gets the newer id. */
enum rwk_status rwk_vocab_put(struct rwk_tokenizer *t, uint32_t id, const char *text, size_t size,
                              struct rwk_error *error);
/* An id that the model does not make by itself. */
enum rwk_status rwk_entry_put(struct rwk_tokenizer *t, uint32_t id, const char *text, size_t size,
                              struct rwk_error *error);
/* After the last piece: what is looked up often. */
void rwk_vocab_finish(struct rwk_tokenizer *t);
enum rwk_status rwk_merges_init(struct rwk_tokenizer *t, size_t n, struct rwk_error *error);
/* False when a part or the result is not in the vocabulary. */
bool rwk_merges_put(struct rwk_tokenizer *t, const char *left, size_t left_size, const char *right,
                    size_t right_size, uint32_t rank);
/* After the last merge. */
enum rwk_status rwk_merges_finish(struct rwk_tokenizer *t, struct rwk_error *error);
enum rwk_status rwk_added_put(struct rwk_tokenizer *t, const struct rwk_added *token,
                              struct rwk_error *error);
/* The end of loading: added tokens are put where they are searched for. */
enum rwk_status rwk_tokenizer_finish(struct rwk_tokenizer *t, struct rwk_error *error);
enum rwk_status rwk_steps_add(struct rwk_tokenizer *t, struct rwk_steps *steps,
                              struct rwk_step step, struct rwk_error *error);
enum rwk_status rwk_decoder_add(struct rwk_tokenizer *t, struct rwk_decode_step step,
                                struct rwk_error *error);
enum rwk_status rwk_add_byte_level(struct rwk_tokenizer *t, bool prefix_space, bool use_regex,
                                   const char *file, struct rwk_error *error);

const char *rwk_decode_text(const struct rwk_tokenizer *t, uint32_t id, uint32_t flags,
                            size_t *ret_size);
enum rwk_status rwk_decode_append(const struct rwk_tokenizer *t, const uint32_t *ids, size_t n,
                                  uint32_t flags, struct rwk_buffer *out, struct rwk_error *error);
/* Runs the normalizer over a text, in place. */
enum rwk_status rwk_normalize(const struct rwk_tokenizer *t, struct rwk_matcher *matcher,
                              struct rwk_memory *memory, struct rwk_text *text,
                              struct rwk_error *error);

#endif
