/* Matrices quantised while a model is opened, and the names under which quantised ones lie in
 * files.
 *
 * In files: a tensor NAME of dtype U8 and shape [groups, blocks, block bytes], and NAME + ".scales"
 * of dtype F16 and shape [groups, blocks, 32], laid out as quantlayout.h says; config.json has
 *   "quantization_config": {"quant_method": "ropewalk", "bits": 8 or 4} */
#ifndef RWK_MODELS_QUANTIZE_H
#define RWK_MODELS_QUANTIZE_H

#include "loaders/safetensors.h"
#include "loaders/tree.h"
#include "runtime/base/pool.h"
#include "runtime/base/progress.h"
#include "runtime/kernels/quantlayout.h"

#define RWK_QUANT_METHOD "ropewalk"
#define RWK_QUANT_SCALES ".scales"

struct rwk_quantizer {
    enum rwk_element element; /* Q8 or Q4; F32: nothing is quantised */
    const struct rwk_kernels *kernels;
    struct rwk_executor executor;
    struct rwk_memory *memory;     /* for scratch, released again */
    struct rwk_arena *arena;       /* for the quantised matrices */
    struct rwk_progress *progress; /* in bytes read; may be NULL */
    uint64_t bytes;                /* made so far, scales included */
    bool plans_only; /* counts bytes, makes nothing; the matrices must not be used then */
};

/* *matrix, as files hold it, becomes its quantised form in the arena. Scratch: 16 rows of floats
 * for each worker. Errors: NOMEM, CANCELLED. */
enum rwk_status rwk_quantize_matrix(struct rwk_quantizer *q, struct rwk_matrix *matrix,
                                    struct rwk_error *error);

/* Bytes of a quantised matrix's data, and of its scales. */
size_t rwk_quant_data_bytes(const struct rwk_matrix *matrix);
size_t rwk_quant_scales_bytes(const struct rwk_matrix *matrix);

/* What config.json says of quantised weights: *ret is Q8 or Q4 where they are ours, F32 where there
 * are none; UNSUPPORTED, naming the method, where they are another tool's. */
enum rwk_status rwk_quant_config(enum rwk_element *ret, const struct rwk_node *config,
                                 const char *file, struct rwk_error *error);

#endif
