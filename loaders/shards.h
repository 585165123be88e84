/* The weights of a source: model.safetensors, or the shards that model.safetensors.index.json
 * names. The index is the authority: exactly the files of its weight_map are opened, and each
 * tensor is taken from the file it names; other tensors of those files, and other files, are left
 * aside. Both present: model.safetensors wins, as in the reference. */
#ifndef RWK_LOADERS_SHARDS_H
#define RWK_LOADERS_SHARDS_H

#include "loaders/names.h"
#include "loaders/safetensors.h"
#include "loaders/source.h"

struct rwk_weights_set {
    struct rwk_memory *memory;
    struct rwk_arena arena;
    struct rwk_file *files; /* [n_files] */
    size_t n_files;
    struct rwk_tensor *tensors; /* [n_tensors], by file (in the index's order), then data */
    size_t n_tensors;
    struct rwk_names names; /* tensor -> index */
};

/* The set keeps to the memory of `files`, whose progress counts the bytes that are read. */
enum rwk_status rwk_weights_open(struct rwk_weights_set *ret_set, const struct rwk_files *files,
                                 enum rwk_load_mode load_mode, struct rwk_error *error);
void rwk_weights_close(struct rwk_weights_set *set); /* zeroed objects are fine */

/* NULL when there is no such tensor. */
const struct rwk_tensor *rwk_weights_find(const struct rwk_weights_set *set, const char *name,
                                          size_t name_size);

#endif
