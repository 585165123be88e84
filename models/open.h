/* What models/ keeps behind an open model. */
#ifndef RWK_MODELS_OPEN_H
#define RWK_MODELS_OPEN_H

#include "loaders/shards.h"
#include "models/arch.h"

struct rwk_opened {
    struct rwk_model model;
    struct rwk_memory memory;
    struct rwk_arena arena; /* config, facts, position tables, widened vectors */
    struct rwk_weights_set weights;
    bool *used;                   /* [weights.n_tensors] */
    struct rwk_matrix *quantized; /* [weights.n_tensors] those that are quantised matrices now;
                                     others have no data */
    enum rwk_element packed; /* what quantised tensors of the files hold; F32: there are none */
    const struct rwk_arch *arch;
    uint64_t quantized_bytes; /* of weights quantised at load, scales included */
    bool plans_only;          /* opened to be asked, not to be used: nothing is quantised */
};

/* A JSON file of the source (name NULL: the source's path itself) as a tree in the arena. */
enum rwk_status rwk_config_load(const struct rwk_node **ret_root, const char **ret_path,
                                const struct rwk_files *files, const char *name,
                                struct rwk_arena *arena, struct rwk_error *error);

/* rwk_model_open_source; plans_only as above. */
enum rwk_status rwk_opened_open(struct rwk_opened **ret_opened, const struct rwk_source *source,
                                const struct rwk_model_options *options, bool plans_only,
                                struct rwk_error *error);

/* What a model's results depend on, as a number (fingerprint.c). */
uint64_t rwk_fingerprint(const struct rwk_opened *opened);

enum rwk_status rwk_facts_position(struct rwk_position_request *ret, const struct rwk_facts *facts,
                                   const struct rwk_node *config, const char *file,
                                   struct rwk_arena *arena, struct rwk_error *error);

#endif
