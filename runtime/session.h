/* The inside of a session; see session.c for its invariants. */
#ifndef RWK_RUNTIME_SESSION_H
#define RWK_RUNTIME_SESSION_H

#include "runtime/decoder.h"

struct rwk_session {
    struct rwk_model *model;         /* retained */
    struct rwk_memory memory;
    struct rwk_session_options options;
    struct rwk_executor executor;
    struct rwk_sequence sequence;
    uint64_t context;
    uint32_t chunk;
    bool wide;                       /* float32 activations even where weights are quantised */

    uint32_t *tokens;                /* [context] */
    uint64_t position, n_cached, epoch;

    struct rwk_workspace workspace;  /* views of workspace_block */
    void *workspace_block;
    struct rwk_row *rows;            /* [chunk] */

    float *logits;                   /* [logits_capacity][vocab] */
    size_t logits_capacity, n_logits;
    uint64_t call_first;             /* position of the last call's first token */
    uint64_t logits_first;           /* position of the token that logits row 0 belongs to */

    double *scores;                  /* of a running score call, the caller's [score_n - 1] */
    size_t score_n;

    atomic_int cancel;
    atomic_flag busy;
};

#endif
