/* One file, or the files of an index.
 *
 *   index -> weight_map {tensor: file} -> entries and distinct files -> each file opened and parsed
 *         -> of its tensors those kept that the map assigns to this very file
 *         -> no entry may be left without its tensor */
#include "loaders/shards.h"

#include <string.h>
#include "loaders/grow.h"
#include "loaders/json.h"

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

/* An entry of the weight map. */
struct entry {
    const char *tensor;
    uint32_t file;
    bool found;
};

struct index {
    struct rwk_weights_set *set;
    struct rwk_error *error;
    struct rwk_json json;
    struct entry *entries; /* [n_entries], in the order of the map */
    size_t n_entries, entries_capacity;
    const char **files; /* [n_files] names, in the order in which the map first names them */
    size_t n_files, files_capacity;
    struct rwk_names by_tensor, by_file; /* -> entry, file */
};

/* ---- the index ---- */

/* The number of the file that the latest event names. */
static enum rwk_status read_file_name(struct index *x, uint32_t *ret_file)
{
    const char *name;
    size_t size = 0;
    if (rwk_json_next(&x->json) != RWK_JSON_STRING)
        return rwk_json_fail(&x->json, "weight_map must name a file for each tensor");
    enum rwk_status status = rwk_json_copy(&x->json, &x->set->arena, &name, &size);
    if (status)
        return status;
    if (!rwk_path_is_inside(name))
        return rwk_json_fail(&x->json, "\"%.200s\" is no name of a file inside the directory",
                             name);
    const char **files =
        rwk_grow(x->set->memory, x->files, x->n_files, &x->files_capacity, sizeof *files);
    if (!files)
        return rwk_fail_nomem(x->error, 2 * x->n_files * sizeof *files);
    x->files = files;
    uint32_t *number = rwk_names_put(&x->by_file, name, size, (uint32_t)x->n_files);
    if (!number)
        return rwk_fail_nomem(x->error, 2 * x->by_file.n_slots * sizeof *x->by_file.slots);
    if (*number == x->n_files)
        x->files[x->n_files++] = name;
    *ret_file = *number;
    return RWK_STATUS_OK;
}

static enum rwk_status read_entry(struct index *x)
{
    struct entry e = { 0 };
    size_t size = 0;
    enum rwk_status status = rwk_json_copy(&x->json, &x->set->arena, &e.tensor, &size);
    if (status)
        return status;
    struct entry *entries =
        rwk_grow(x->set->memory, x->entries, x->n_entries, &x->entries_capacity, sizeof e);
    if (!entries)
        return rwk_fail_nomem(x->error, 2 * x->n_entries * sizeof e);
    x->entries = entries;
    uint32_t *number = rwk_names_put(&x->by_tensor, e.tensor, size, (uint32_t)x->n_entries);
    if (!number)
        return rwk_fail_nomem(x->error, 2 * x->by_tensor.n_slots * sizeof *x->by_tensor.slots);
    if (*number != x->n_entries)
        return rwk_json_fail(&x->json, "weight_map names the tensor \"%.200s\" twice", e.tensor);
    status = read_file_name(x, &e.file);
    if (!status)
        x->entries[x->n_entries++] = e;
    return status;
}

static enum rwk_status read_weight_map(struct index *x)
{
    if (rwk_json_next(&x->json) != RWK_JSON_OBJECT)
        return rwk_json_fail(&x->json, "weight_map must be an object");
    while (rwk_json_next(&x->json) == RWK_JSON_KEY) {
        enum rwk_status status = read_entry(x);
        if (status)
            return status;
    }
    return x->json.status;
}

static enum rwk_status read_index(struct index *x)
{
    struct rwk_json *json = &x->json;
    bool found = false;
    if (rwk_json_next(json) != RWK_JSON_OBJECT)
        return rwk_json_fail(json, "the index must be an object");
    while (rwk_json_next(json) == RWK_JSON_KEY) {
        if (!rwk_json_equals(json, "weight_map")) {
            rwk_json_skip(json);
            continue;
        }
        if (found)
            return rwk_json_fail(json, "weight_map occurs twice");
        found = true;
        enum rwk_status status = read_weight_map(x);
        if (status)
            return status;
    }
    rwk_json_next(json); /* nothing but white space may follow */
    if (json->status)
        return json->status;
    return x->n_entries ? RWK_STATUS_OK
                        : rwk_fail_on(x->error, RWK_STATUS_FORMAT, json->file, "weight_map",
                                      "is missing or empty");
}

/* ---- the files ---- */

/* A file that will be read counts as work to do. */
static void expect(const struct rwk_files *files, const char *name, enum rwk_load_mode mode)
{
    if (files->progress && mode == RWK_LOAD_READ)
        files->progress->total += rwk_files_size(files, name);
}

/* Opens and parses one more file of the set, whose `files` have room for it. */
static enum rwk_status open_file(struct rwk_weights_set *set, const struct rwk_files *files,
                                 const char *name, enum rwk_load_mode mode,
                                 struct rwk_tensor **ret_tensors, size_t *ret_n,
                                 struct rwk_error *error)
{
    struct rwk_file *file = &set->files[set->n_files];
    enum rwk_status status = rwk_files_open(file, files, name, mode, error);
    if (status)
        return status;
    set->n_files++;
    return rwk_safetensors_parse(ret_tensors, ret_n, file, &set->arena, error);
}

/* Keeps those of the latest file's tensors that the map assigns to it. */
static void take_tensors(struct index *x, const struct rwk_tensor *tensors, size_t n)
{
    struct rwk_weights_set *set = x->set;
    for (size_t i = 0; i < n; i++) {
        const uint32_t *number =
            rwk_names_find(&x->by_tensor, tensors[i].name, tensors[i].name_size);
        if (number && x->entries[*number].file == set->n_files - 1) {
            x->entries[*number].found = true;
            set->tensors[set->n_tensors++] = tensors[i];
        }
    }
}

static enum rwk_status open_shards(struct index *x, const struct rwk_files *files,
                                   enum rwk_load_mode mode)
{
    struct rwk_weights_set *set = x->set;
    set->files = rwk_calloc(set->memory, x->n_files, sizeof *set->files);
    set->tensors = rwk_calloc(set->memory, x->n_entries, sizeof *set->tensors);
    if (!set->files || !set->tensors)
        return rwk_fail_nomem(x->error, x->n_entries * sizeof *set->tensors);
    for (size_t i = 0; i < x->n_files; i++)
        expect(files, x->files[i], mode);
    for (size_t i = 0; i < x->n_files; i++) {
        struct rwk_tensor *tensors = NULL;
        size_t n = 0;
        enum rwk_status status =
            open_file(set, files, x->files[i], mode, &tensors, &n, x->error);
        if (status)
            return status;
        take_tensors(x, tensors, n);
    }
    for (size_t i = 0; i < x->n_entries; i++)
        if (!x->entries[i].found)
            return rwk_fail_on(x->error, RWK_STATUS_MISMATCH, set->files[x->entries[i].file].path,
                               x->entries[i].tensor,
                               "%s says that this file holds the tensor, but it does not",
                               index_name);
    return RWK_STATUS_OK;
}

static enum rwk_status open_index(struct rwk_weights_set *set, const struct rwk_files *files,
                                  enum rwk_load_mode mode, struct rwk_error *error)
{
    struct rwk_file file = { 0 };
    struct rwk_files quiet = *files; /* the index is not weights: no progress */
    quiet.progress = NULL;
    enum rwk_status status = rwk_files_open(&file, &quiet, index_name, RWK_LOAD_READ, error);
    if (status)
        return status;
    struct index x = {
        .set = set, .error = error, .by_tensor.memory = set->memory, .by_file.memory = set->memory
    };
    rwk_json_init(&x.json, file.data, file.size, true, file.path, error);
    status = read_index(&x);
    if (!status)
        status = open_shards(&x, files, mode);
    rwk_names_finish(&x.by_tensor);
    rwk_names_finish(&x.by_file);
    rwk_free(set->memory, x.entries);
    rwk_free(set->memory, x.files);
    rwk_file_close(&file);
    return status;
}

static enum rwk_status open_single(struct rwk_weights_set *set, const struct rwk_files *files,
                                   enum rwk_load_mode mode, struct rwk_error *error)
{
    struct rwk_tensor *tensors = NULL;
    size_t n = 0;
    set->files = rwk_calloc(set->memory, 1, sizeof *set->files);
    if (!set->files)
        return rwk_fail_nomem(error, sizeof *set->files);
    expect(files, single_name, mode);
    enum rwk_status status = open_file(set, files, single_name, mode, &tensors, &n, error);
    if (status)
        return status;
    set->tensors = rwk_calloc(set->memory, n, sizeof *set->tensors);
    if (!set->tensors)
        return rwk_fail_nomem(error, n * sizeof *set->tensors);
    if (n)
        memcpy(set->tensors, tensors, n * sizeof *tensors);
    set->n_tensors = n;
    return RWK_STATUS_OK;
}

/* What to say of a source that has neither. */
static enum rwk_status no_weights(const struct rwk_files *files, struct rwk_error *error)
{
    static const char *const others[] = { "pytorch_model.bin", "pytorch_model.bin.index.json",
                                          "tf_model.h5", "flax_model.msgpack" };
    if (!files->is_directory)
        return rwk_fail(error, RWK_STATUS_IO, files->label,
                        rwk_path_exists(files->label) ? "is not a directory" : "does not exist");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (rwk_files_have(files, others[i]))
            return rwk_fail(error, RWK_STATUS_UNSUPPORTED, files->label,
                            "holds %s, but only safetensors weights are read (%s "
                            "or %s)",
                            others[i], single_name, index_name);
    return rwk_fail(error, RWK_STATUS_IO, files->label, "holds neither %s nor %s", single_name,
                    index_name);
}

/* ---- the set ---- */

static enum rwk_status open_any(struct rwk_weights_set *set, const struct rwk_files *files,
                                enum rwk_load_mode mode, struct rwk_error *error)
{
    return rwk_files_have(files, single_name)  ? open_single(set, files, mode, error)
           : rwk_files_have(files, index_name) ? open_index(set, files, mode, error)
                                               : no_weights(files, error);
}

static enum rwk_status name_tensors(struct rwk_weights_set *set, struct rwk_error *error)
{
    for (size_t i = 0; i < set->n_tensors; i++)
        if (!rwk_names_put(&set->names, set->tensors[i].name, set->tensors[i].name_size,
                           (uint32_t)i))
            return rwk_fail_nomem(error, 2 * set->names.n_slots * sizeof *set->names.slots);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_weights_open(struct rwk_weights_set *ret_set, const struct rwk_files *files,
                                 enum rwk_load_mode load_mode, struct rwk_error *error)
{
    struct rwk_memory *memory = files->memory;
    struct rwk_weights_set set = { .memory = memory,
                                   .arena = { .memory = memory },
                                   .names = { .memory = memory } };
    enum rwk_status status = open_any(&set, files, load_mode, error);
    if (!status)
        status = name_tensors(&set, error);
    if (status) {
        rwk_weights_close(&set);
        return status;
    }
    *ret_set =
        set; /* the tensors point at files in an allocation of their own, which does not move */
    return RWK_STATUS_OK;
}

void rwk_weights_close(struct rwk_weights_set *set)
{
    if (!set->memory)
        return;
    for (size_t i = 0; i < set->n_files; i++)
        rwk_file_close(&set->files[i]);
    rwk_free(set->memory, set->files);
    rwk_free(set->memory, set->tensors);
    rwk_names_finish(&set->names);
    rwk_arena_finish(&set->arena);
    *set = (struct rwk_weights_set) { 0 };
}

const struct rwk_tensor *rwk_weights_find(const struct rwk_weights_set *set, const char *name,
                                          size_t name_size)
{
    const uint32_t *index = rwk_names_find(&set->names, name, name_size);
    return index ? &set->tensors[*index] : NULL;
}
