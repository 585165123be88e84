/* Position schemes: how a token's place enters the computation. One file and one table row each;
 * the attention core and the decoder consult the hooks of the row, never its name.
 *
 *   request (what config and caller ask for) -> rwk_position_prepare -> plan (tables) -> hooks
 *
 * Formulas, papers and traps stand in each scheme's file. */
#ifndef RWK_POSITION_POSITION_H
#define RWK_POSITION_POSITION_H

#include "runtime/base/error.h"
#include "runtime/base/memory.h"
#include "runtime/kernels/kernels.h"

enum rwk_rope_type {
    RWK_ROPE_DEFAULT,
    RWK_ROPE_LINEAR,
    RWK_ROPE_DYNAMIC,
    RWK_ROPE_NTK,
    RWK_ROPE_YARN,
    RWK_ROPE_LLAMA3,
    RWK_ROPE_LONGROPE,
    RWK_N_ROPE_TYPES
};

/* One set of frequencies as asked for. Numbers that were not given are 0 unless said otherwise. */
struct rwk_rope_request {
    const char *name; /* "all" or the layer type */
    enum rwk_rope_type type;
    double theta;
    double factor;               /* 0: not given */
    uint64_t original_context;   /* original_max_position_embeddings; 0 where it has no meaning */
    uint32_t rotary_dim;         /* r: even, <= head_dim */
    bool interleaved;            /* pairs (2m, 2m+1) instead of (m, m + r/2) */
    double attention_factor;     /* 0: compute */
    double beta_fast, beta_slow; /* yarn; 0: 32 and 1 */
    double mscale, mscale_all_dim;
    bool truncate;                            /* yarn; default true */
    double low_freq_factor, high_freq_factor; /* llama3 */
    const double *short_factor, *long_factor; /* longrope, [rotary_dim / 2] */
    uint32_t n_short, n_long;                 /* their lengths, checked against rotary_dim / 2 */
};

enum rwk_sinusoid {
    RWK_SINUSOID_INTERLEAVED, /* sin, cos alternating (original paper) */
    RWK_SINUSOID_HALVES,      /* all sines, then all cosines, paper frequencies */
    RWK_SINUSOID_FAIRSEQ      /* halves with exponent m / (d/2 - 1) and position + 2 (XGLM) */
};

enum { RWK_MAX_ROPE_TABLES = 4 };

/* Everything a plan is made from. Filled by models/, which knows config keys; strings and arrays
 * are borrowed. */
struct rwk_position_request {
    const char *scheme; /* "none", "learned", "sinusoidal", "rope", "alibi" */
    const char *file;   /* where the numbers come from, for messages; NULL: from the caller */
    uint32_t hidden_size, n_heads, head_dim;
    uint64_t max_position_embeddings; /* 0: the family has none */

    uint32_t learned_offset; /* learned: row = position + offset (OPT: 2) */
    uint64_t learned_rows;   /* positions that the table holds, offset not counted */
    enum rwk_sinusoid sinusoid;

    struct rwk_rope_request rope[RWK_MAX_ROPE_TABLES];
    uint32_t n_rope;
    uint64_t trained_context; /* what a scaling chosen at load time extends; 0: not chosen */

    double alibi_bias_max; /* 8 unless the family says otherwise */
    bool alibi_mpt_order;  /* MPT's order of slopes for head counts that are no power of two */
    bool alibi_bf16;       /* falcon: slope and product rounded to bfloat16 */
    float alibi_scale; /* the bias is multiplied by it (falcon: 1/sqrt(head_dim)); 1 otherwise */
};

/* One frequency table, ready for use. */
struct rwk_rope_table {
    const char *name;
    enum rwk_rope_type type;
    uint32_t n_pairs;
    bool interleaved;
    float *inv_freq;      /* [n_pairs], at the shortest length */
    float *long_inv_freq; /* longrope: beyond original_context; else NULL */
    double theta, factor, attention_factor;
    uint64_t original_context;
    uint64_t max_position_embeddings; /* dynamic: M, beyond which theta grows */
};

struct rwk_position_plan;

/* A row of the table of schemes. Hooks that a scheme does not have are NULL. */
struct rwk_position_scheme {
    const char *name;
    bool shifts; /* keys and values do not depend on their own position, so they may be moved */
    /* Checks the request, computes the tables, sets context and context_limit. */
    enum rwk_status (*prepare)(struct rwk_position_plan *plan,
                               const struct rwk_position_request *request, struct rwk_arena *arena,
                               struct rwk_error *error);
    /* x[hidden_size] += the embedding of `position` (sinusoidal). */
    void (*embed)(const struct rwk_position_plan *plan, uint64_t position, float *x);
    /* Turns q or k: n_heads heads of head_dim floats, `stride` floats apart, by the angles of
     * kernels->angles. */
    void (*rotate)(const struct rwk_position_plan *plan, const struct rwk_kernels *kernels,
                   uint32_t table, const float *cos, const float *sin, float *x, uint32_t n_heads,
                   size_t stride);
    /* ret_bias[RWK_KEY_BLOCK] = what is added to the scores of `head` for a query at q_position
     * and the keys key_begin .. key_begin + 63. */
    void (*bias)(const struct rwk_position_plan *plan, uint32_t head, uint64_t q_position,
                 uint64_t key_begin, float *ret_bias);
};

struct rwk_position_plan {
    const struct rwk_position_scheme *scheme;
    const char *family; /* set by models/ */
    uint32_t hidden_size, n_heads, head_dim;
    uint64_t context;       /* valid length; UINT64_MAX: no bound of its own */
    uint64_t context_limit; /* hard bound; UINT64_MAX: none */
    uint64_t max_position_embeddings;
    uint32_t learned_offset;
    enum rwk_sinusoid sinusoid;
    float *sinusoid_freq; /* [hidden_size / 2] float32 */
    struct rwk_rope_table rope[RWK_MAX_ROPE_TABLES];
    uint32_t n_rope;
    float *slopes; /* alibi: [n_heads] */
    bool alibi_bf16;
    float alibi_scale;
};

/* Makes a plan; its tables live in the arena. Errors: UNSUPPORTED (unknown scheme), RANGE or
 * FORMAT for numbers that make no plan, each naming the key. */
enum rwk_status rwk_position_prepare(struct rwk_position_plan *ret_plan,
                                     const struct rwk_position_request *request,
                                     struct rwk_arena *arena, struct rwk_error *error);

/* "default", "linear" ... <-> enum; false when unknown. */
const char *rwk_rope_type_name(enum rwk_rope_type type);
bool rwk_rope_type_parse(const char *name, enum rwk_rope_type *ret_type);

/* A number that tells which frequencies are in force when `length` tokens are seen at once. Equal
 * numbers: equal frequencies, so what was computed stays valid. It is the shortest length that
 * has the frequencies of this one: 0 below any threshold and for static schemes always;
 * original_context + 1 beyond longrope's; the length itself beyond dynamic's. With several tables
 * the largest of theirs, which leads each of them to its own again. */
uint64_t rwk_position_epoch(const struct rwk_position_plan *plan, uint64_t length);

/* The frequencies of one table in an epoch, into inv_freq[n_pairs]. */
void rwk_position_frequencies(const struct rwk_position_plan *plan, uint32_t table, uint64_t epoch,
                              float *inv_freq);

#endif
