/* One file, or the files of an index.
 *
 *   index: weight_map {tensor: file} -> the distinct files, opened and parsed -> for each entry the tensor of that file
 *
 * Both are looked up through one hash table of names (open addressing, xxHash). */
#include "loaders/shards.h"

#include <stdlib.h>
#include <string.h>
#include "loaders/json.h"
#include "runtime/base/hash.h"

static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

/* An entry of the weight map. */
struct entry {
    const char *tensor, *file;
    uint32_t tensor_size, file_index;
};

struct index {
    struct rwk_weights_set *set;
    const char *directory, *path;
    struct rwk_error *error;
    struct entry *entries;
    size_t n_entries, capacity;
};

/* ---- names ---- */

static enum rwk_status make_table(struct rwk_weights_set *set, struct rwk_error *error)
{
    set->n_buckets = 16;
    while (set->n_buckets < 2 * set->n_tensors)
        set->n_buckets *= 2;
    set->buckets = rwk_calloc(set->memory, set->n_buckets, sizeof *set->buckets);
    if (!set->buckets)
        return rwk_fail_nomem(error, set->n_buckets * sizeof *set->buckets);
    for (size_t i = 0; i < set->n_tensors; i++) {
        const struct rwk_tensor *t = &set->tensors[i];
        size_t at = rwk_hash(t->name, t->name_size) & (set->n_buckets - 1);
        while (set->buckets[at])
            at = (at + 1) & (set->n_buckets - 1);
        set->buckets[at] = (uint32_t)i + 1;
    }
    return RWK_STATUS_OK;
}

const struct rwk_tensor *rwk_weights_find(const struct rwk_weights_set *set, const char *name, size_t name_size)
{
    size_t at = rwk_hash(name, name_size) & (set->n_buckets - 1);
    for (; set->buckets[at]; at = (at + 1) & (set->n_buckets - 1)) {
        const struct rwk_tensor *t = &set->tensors[set->buckets[at] - 1];
        if (t->name_size == name_size && memcmp(t->name, name, name_size) == 0)
            return t;
    }
    return NULL;
}

/* ---- the index ---- */

static enum rwk_status take_string(struct index *x, struct rwk_json *json, const char **ret, uint32_t *ret_size)
{
    char *text = rwk_arena_alloc(&x->set->arena, json->raw_size + 1);
    if (!text)
        return rwk_fail_nomem(x->error, json->raw_size + 1);
    size_t n = rwk_json_decode(json, text);
    text[n] = '\0';
    if (n > UINT32_MAX || memchr(text, '\0', n))
        return rwk_json_fail(json, "a name holds a NUL character");
    *ret = text;
    if (ret_size)
        *ret_size = (uint32_t)n;
    return RWK_STATUS_OK;
}

static enum rwk_status read_weight_map(struct index *x, struct rwk_json *json)
{
    if (rwk_json_next(json) != RWK_JSON_OBJECT)
        return rwk_json_fail(json, "weight_map must be an object");
    while (rwk_json_next(json) == RWK_JSON_KEY) {
        struct entry e = { 0 };
        if (x->n_entries == x->capacity) {
            size_t capacity = x->capacity ? 2 * x->capacity : 256;
            struct entry *grown = rwk_realloc(x->set->memory, x->entries, capacity * sizeof *grown);
            if (!grown)
                return rwk_fail_nomem(x->error, capacity * sizeof *grown);
            x->entries = grown;
            x->capacity = capacity;
        }
        enum rwk_status status = take_string(x, json, &e.tensor, &e.tensor_size);
        if (!status && rwk_json_next(json) != RWK_JSON_STRING)
            return rwk_json_fail(json, "weight_map must name a file for each tensor");
        if (!status)
            status = take_string(x, json, &e.file, NULL);
        if (status)
            return status;
        x->entries[x->n_entries++] = e;
    }
    return json->status;
}

static enum rwk_status read_index(struct index *x, const struct rwk_file *file)
{
    struct rwk_json json;
    bool found = false;
    rwk_json_init(&json, file->data, file->size, true, file->path, x->error);
    if (rwk_json_next(&json) != RWK_JSON_OBJECT)
        return rwk_json_fail(&json, "the index must be an object");
    while (rwk_json_next(&json) == RWK_JSON_KEY) {
        enum rwk_status status = RWK_STATUS_OK;
        if (rwk_json_equals(&json, "weight_map")) {
            if (found)
                return rwk_json_fail(&json, "weight_map occurs twice");
            found = true;
            status = read_weight_map(x, &json);
        } else if (!rwk_json_skip(&json)) {
            status = json.status;
        }
        if (status)
            return status;
    }
    if (!json.status)
        rwk_json_next(&json);
    if (json.status)
        return json.status;
    if (!found || !x->n_entries)
        return rwk_fail_on(x->error, RWK_STATUS_FORMAT, file->path, "weight_map", "is missing or empty");
    return RWK_STATUS_OK;
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->tensor, ((const struct entry *)b)->tensor);
}

static int by_file(const void *a, const void *b)
{
    int order = strcmp(((const struct entry *)a)->file, ((const struct entry *)b)->file);
    return order ? order : by_tensor(a, b);
}

/* Sorts the entries by file, refuses names given twice, and numbers the distinct files. */
static enum rwk_status sort_entries(struct index *x, size_t *ret_files)
{
    size_t n_files = 0;
    qsort(x->entries, x->n_entries, sizeof *x->entries, by_tensor);
    for (size_t i = 1; i < x->n_entries; i++)
        if (strcmp(x->entries[i - 1].tensor, x->entries[i].tensor) == 0)
            return rwk_fail_on(x->error, RWK_STATUS_FORMAT, x->path, x->entries[i].tensor, "occurs twice in weight_map");
    qsort(x->entries, x->n_entries, sizeof *x->entries, by_file);
    for (size_t i = 0; i < x->n_entries; i++) {
        if (i == 0 || strcmp(x->entries[i - 1].file, x->entries[i].file) != 0)
            n_files++;
        x->entries[i].file_index = (uint32_t)n_files - 1;
    }
    *ret_files = n_files;
    return RWK_STATUS_OK;
}

static enum rwk_status open_file(struct rwk_weights_set *set, const char *directory, const char *name,
                                 enum rwk_load_mode mode, struct rwk_tensor **ret_tensors, size_t *ret_n,
                                 struct rwk_error *error)
{
    char *path;
    struct rwk_file *file = &set->files[set->n_files];
    enum rwk_status status = rwk_path_join(&path, &set->arena, directory, name, error);
    if (!status)
        status = rwk_file_open(file, path, mode, set->memory, error);
    if (status)
        return status;
    set->n_files++;
    return rwk_safetensors_parse(ret_tensors, ret_n, file, &set->arena, error);
}

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp(((const struct rwk_tensor *)a)->name, ((const struct rwk_tensor *)b)->name);
}

/* Takes from one parsed file exactly the tensors that the entries [begin, end) name; both lists are walked in name order. */
static enum rwk_status take_tensors(struct index *x, size_t begin, size_t end, struct rwk_tensor *tensors, size_t n)
{
    size_t at = 0;
    if (n)
        qsort(tensors, n, sizeof *tensors, by_tensor_name);
    for (size_t i = begin; i < end; i++) {
        int order = 1;
        while (at < n && (order = strcmp(tensors[at].name, x->entries[i].tensor)) < 0)
            at++;
        if (at == n || order != 0)
            return rwk_fail_on(x->error, RWK_STATUS_MISMATCH, x->set->files[x->set->n_files - 1].path, x->entries[i].tensor,
                               "the index says that this file holds the tensor, but it does not");
        x->set->tensors[x->set->n_tensors++] = tensors[at++];
    }
    return RWK_STATUS_OK;
}

static enum rwk_status open_shards(struct index *x, enum rwk_load_mode mode)
{
    struct rwk_weights_set *set = x->set;
    size_t n_files = 0;
    enum rwk_status status = sort_entries(x, &n_files);
    if (status)
        return status;
    set->files = rwk_calloc(set->memory, n_files, sizeof *set->files);
    set->tensors = rwk_calloc(set->memory, x->n_entries, sizeof *set->tensors);
    if (!set->files || !set->tensors)
        return rwk_fail_nomem(x->error, x->n_entries * sizeof *set->tensors);
    for (size_t begin = 0, end; begin < x->n_entries && !status; begin = end) {
        struct rwk_tensor *tensors = NULL;
        size_t n = 0;
        for (end = begin; end < x->n_entries && x->entries[end].file_index == x->entries[begin].file_index;)
            end++;
        status = open_file(set, x->directory, x->entries[begin].file, mode, &tensors, &n, x->error);
        if (!status)
            status = take_tensors(x, begin, end, tensors, n);
    }
    return status;
}

static enum rwk_status open_index(struct rwk_weights_set *set, const char *directory, const char *path,
                                  enum rwk_load_mode mode, struct rwk_error *error)
{
    struct rwk_file file = { 0 };
    struct index x = { .set = set, .directory = directory, .path = path, .error = error };
    enum rwk_status status = rwk_file_open(&file, path, RWK_LOAD_READ, set->memory, error);
    if (!status)
        status = read_index(&x, &file);
    if (!status)
        status = open_shards(&x, mode);
    rwk_file_close(&file);
    rwk_free(set->memory, x.entries);
    return status;
}

static enum rwk_status open_single(struct rwk_weights_set *set, const char *directory, enum rwk_load_mode mode,
                                   struct rwk_error *error)
{
    struct rwk_tensor *tensors = NULL;
    size_t n = 0;
    set->files = rwk_calloc(set->memory, 1, sizeof *set->files);
    if (!set->files)
        return rwk_fail_nomem(error, sizeof *set->files);
    enum rwk_status status = open_file(set, directory, single_name, mode, &tensors, &n, error);
    if (status)
        return status;
    set->tensors = rwk_calloc(set->memory, n + 1, sizeof *set->tensors);
    if (!set->tensors)
        return rwk_fail_nomem(error, n * sizeof *set->tensors);
    if (n)
        memcpy(set->tensors, tensors, n * sizeof *tensors);
    set->n_tensors = n;
    return RWK_STATUS_OK;
}

static enum rwk_status no_weights(struct rwk_weights_set *set, const char *directory, struct rwk_error *error)
{
    static const char *const others[] = { "pytorch_model.bin", "pytorch_model.bin.index.json" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *path;
        if (rwk_path_join(&path, &set->arena, directory, others[i], NULL) == RWK_STATUS_OK && rwk_path_exists(path))
            return rwk_fail(error, RWK_STATUS_UNSUPPORTED, directory, "only safetensors weights are read, and the directory "
                            "holds %s only", others[i]);
    }
    return rwk_fail(error, RWK_STATUS_IO, directory, "holds neither %s nor %s", single_name, index_name);
}

enum rwk_status rwk_weights_open(struct rwk_weights_set *ret_set, const char *directory, enum rwk_load_mode load_mode,
                                 struct rwk_memory *memory, struct rwk_error *error)
{
    struct rwk_weights_set set = { .memory = memory, .arena = { .memory = memory } };
    char *single = NULL, *index = NULL;
    enum rwk_status status = rwk_path_join(&single, &set.arena, directory, single_name, error);
    if (!status)
        status = rwk_path_join(&index, &set.arena, directory, index_name, error);
    if (!status) {
        if (rwk_path_exists(single))
            status = open_single(&set, directory, load_mode, error);
        else if (rwk_path_exists(index))
            status = open_index(&set, directory, index, load_mode, error);
        else
            status = no_weights(&set, directory, error);
    }
    if (!status)
        status = make_table(&set, error);
    if (status) {
        rwk_weights_close(&set);
        return status;
    }
    *ret_set = set;
    /* The tensors point at their files; both live in allocations that did not move. */
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
    rwk_free(set->memory, set->buckets);
    rwk_arena_finish(&set->arena);
    *set = (struct rwk_weights_set){ 0 };
}
