/* The inside of a session; see session.c for its invariants. Parts in files of their own: score.c,
 * step.c (several sessions in one pass), state.c (saving and loading). */
#ifndef RWK_RUNTIME_SESSION_H
#define RWK_RUNTIME_SESSION_H

#include "runtime/decoder.h"

struct rwk_session {
    struct rwk_model *model; /* retained */
    struct rwk_memory memory;
    struct rwk_session_options options;
    struct rwk_executor executor;
    struct rwk_sequence sequence;
    uint64_t context;
    uint32_t chunk;
    bool wide;           /* float32 activations even where weights are quantised */
    size_t shared_bytes; /* asked of the allocator, but not counted by `memory` */

    uint32_t *tokens; /* [context] */
    uint64_t position, n_cached, epoch;
    uint64_t n_exact; /* tokens before it were computed as one pass would; UINT64_MAX: all */

    struct rwk_workspace workspace; /* views of workspace_block */
    void *workspace_block;
    struct rwk_row *rows; /* [chunk] */

    float *logits; /* [logits_capacity][vocab] */
    size_t logits_capacity, n_logits;
    uint64_t call_first;   /* position of the last call's first token */
    uint64_t logits_first; /* position of the token that logits row 0 belongs to */

    struct rwk_session_stats stats; /* counters only; rwk_session_get_stats fills in the rest */

    atomic_int cancel;
    atomic_flag busy;
};

/* One owner at a time: BUSY, or the session until it is left. */
enum rwk_status rwk_session_enter(struct rwk_session *session, struct rwk_error *error);
void rwk_session_leave(struct rwk_session *session);

/* What follows is for who has entered. */

/* Whether tokens[0..n) can follow `position` tokens: RANGE or CONTEXT_FULL. */
enum rwk_status rwk_session_check_tokens(const struct rwk_session *session, uint64_t position,
                                         const uint32_t *tokens, size_t n, struct rwk_error *error);
/* Appends and computes checked tokens; the sequence then ends at what is whole. on_logits: called
 * for the tokens from position logits_from on; the logits then count as kept, from that position
 * on. */
enum rwk_status rwk_session_append(struct rwk_session *session, const uint32_t *tokens, size_t n,
                                   uint64_t logits_from, rwk_logits_fn on_logits,
                                   void *on_logits_arg, size_t *ret_done, struct rwk_error *error);
/* rwk_session_eval. */
enum rwk_status rwk_session_evaluate(struct rwk_session *session, const uint32_t *tokens, size_t n,
                                     uint32_t flags, size_t *ret_done, struct rwk_error *error);
void rwk_session_rewind_to(struct rwk_session *session, uint64_t position);
/* How far the cache serves a sequence of `length` tokens that agrees with it on the first n_cached.
 */
uint64_t rwk_session_usable_cache(const struct rwk_session *session, uint64_t length);
/* Brings the frequencies of an epoch (rwk_position_epoch) into force. */
void rwk_session_set_epoch(struct rwk_session *session, uint64_t epoch);
/* Saving and loading through streams of a file whose name goes into messages (NULL: of none). */
enum rwk_status rwk_session_save_named(struct rwk_session *session, rwk_write_fn write,
                                       void *write_data, const char *file, struct rwk_error *error);
enum rwk_status rwk_session_load_named(struct rwk_session **ret_session, struct rwk_model *model,
                                       const struct rwk_session_options *options, rwk_read_fn read,
                                       void *read_data, const char *file, struct rwk_error *error);
/* Nanoseconds of a clock that only goes forward. */
uint64_t rwk_session_clock(void);

#endif
