/* Reading a safetensors header in one pass over its JSON:
 *
 *   length -> JSON events -> one struct rwk_tensor per member -> sorted by place -> ranges must tile the data -> names unique
 *
 * Memory is bounded by the header: nothing is allocated for a number that the file merely claims. */
#include "loaders/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include "loaders/json.h"

enum { MAX_HEADER = 100000000 };

static const struct {
    const char *name;
    enum rwk_dtype dtype;
    uint32_t bits;
} dtypes[] = {
    { "F32", RWK_DTYPE_F32, 32 }, { "F16", RWK_DTYPE_F16, 16 }, { "BF16", RWK_DTYPE_BF16, 16 },
    { "F64", RWK_DTYPE_F64, 64 }, { "BOOL", RWK_DTYPE_BOOL, 8 }, { "U8", RWK_DTYPE_U8, 8 },
    { "I8", RWK_DTYPE_I8, 8 }, { "U16", RWK_DTYPE_U16, 16 }, { "I16", RWK_DTYPE_I16, 16 },
    { "U32", RWK_DTYPE_U32, 32 }, { "I32", RWK_DTYPE_I32, 32 }, { "U64", RWK_DTYPE_U64, 64 },
    { "I64", RWK_DTYPE_I64, 64 }, { "F8_E4M3", RWK_DTYPE_F8_E4M3, 8 }, { "F8_E5M2", RWK_DTYPE_F8_E5M2, 8 },
    { "F8_E8M0", RWK_DTYPE_OTHER, 8 }, { "C64", RWK_DTYPE_OTHER, 64 }, { "F4", RWK_DTYPE_OTHER, 4 },
    { "F6_E2M3", RWK_DTYPE_OTHER, 6 }, { "F6_E3M2", RWK_DTYPE_OTHER, 6 },
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

const char *rwk_dtype_name(enum rwk_dtype dtype)
{
    for (int i = 0; i < N_DTYPES && dtype != RWK_DTYPE_OTHER; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return dtype == RWK_DTYPE_OTHER ? "other" : "?";
}

uint32_t rwk_dtype_bits(enum rwk_dtype dtype)
{
    for (int i = 0; i < N_DTYPES && dtype != RWK_DTYPE_OTHER; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].bits;
    return 0;
}

struct parser {
    struct rwk_json json;
    const struct rwk_file *file;
    struct rwk_arena *arena;
    struct rwk_error *error;
    struct rwk_tensor *tensors;  /* in the file's memory while it grows */
    size_t n_tensors, capacity;
    uint64_t *dims;              /* scratch for one shape */
    size_t dims_capacity;
    uint64_t data_size;
    const char *data;
};

/* ---- one tensor ---- */

static enum rwk_status fail_tensor(struct parser *p, const struct rwk_tensor *t, enum rwk_status status, const char *what)
{
    struct rwk_where where = { .file = p->file->path, .subject = t->name, .offset = 8 + p->json.event_at };
    return rwk_fail_at(p->error, status, &where, "%s", what);
}

static enum rwk_status nomem(struct parser *p, size_t size) { return rwk_fail_nomem(p->error, size); }

static enum rwk_status read_dtype(struct parser *p, struct rwk_tensor *t, uint32_t *ret_bits)
{
    if (rwk_json_next(&p->json) != RWK_JSON_STRING)
        return rwk_json_fail(&p->json, "dtype must be a string");
    for (int i = 0; i < N_DTYPES; i++)
        if (rwk_json_equals(&p->json, dtypes[i].name)) {
            t->dtype = dtypes[i].dtype;
            *ret_bits = dtypes[i].bits;
            return RWK_STATUS_OK;
        }
    return fail_tensor(p, t, RWK_STATUS_FORMAT, "unknown dtype");
}

/* A list of plain non-negative integers into p->dims. */
static enum rwk_status read_list(struct parser *p, const char *what, size_t *ret_n)
{
    size_t n = 0;
    if (rwk_json_next(&p->json) != RWK_JSON_ARRAY)
        return rwk_json_fail(&p->json, "%s must be a list", what);
    for (enum rwk_json_event event; (event = rwk_json_next(&p->json)) != RWK_JSON_ARRAY_END; n++) {
        if (n == p->dims_capacity) {
            size_t capacity = n ? 2 * n : 16;
            uint64_t *dims = rwk_realloc(p->file->memory, p->dims, capacity * sizeof *dims);
            if (!dims)
                return nomem(p, capacity * sizeof *dims);
            p->dims = dims;
            p->dims_capacity = capacity;
        }
        if (event != RWK_JSON_NUMBER || !rwk_json_uint64(&p->json, &p->dims[n]))
            return rwk_json_fail(&p->json, "%s must hold non-negative integers", what);
    }
    *ret_n = n;
    return RWK_STATUS_OK;
}

static enum rwk_status keep_shape(struct parser *p, struct rwk_tensor *t, size_t n)
{
    uint64_t *shape = rwk_arena_alloc(p->arena, (n + 1) * sizeof *shape);
    if (!shape)
        return nomem(p, n * sizeof *shape);
    if (n)
        memcpy(shape, p->dims, n * sizeof *shape);
    t->shape = shape;
    t->n_dims = (uint32_t)n;
    return RWK_STATUS_OK;
}

/* Bytes of a shape; false when they do not fit, or do not fill whole bytes. As in the reference, the product of all
 * dimensions is formed in order, so that a zero does not excuse an overflow before it. */
static bool shape_bytes(const struct rwk_tensor *t, uint32_t bits, uint64_t *ret)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n))
            return false;
    if (__builtin_mul_overflow(n, bits, &n) || n % 8)
        return false;
    *ret = n / 8;
    return true;
}

static enum rwk_status place(struct parser *p, struct rwk_tensor *t, uint32_t bits, const uint64_t offsets[2])
{
    uint64_t bytes;
    if (offsets[0] > offsets[1])
        return fail_tensor(p, t, RWK_STATUS_FORMAT, "its data ends before it begins");
    if (offsets[1] > p->data_size)
        return fail_tensor(p, t, RWK_STATUS_FORMAT, "its data lies beyond the end of the file");
    if (!shape_bytes(t, bits, &bytes))
        return fail_tensor(p, t, RWK_STATUS_FORMAT, "its shape has no size in bytes");
    if (bytes != offsets[1] - offsets[0])
        return fail_tensor(p, t, RWK_STATUS_FORMAT, "its shape and dtype do not match the size of its data");
    t->data = p->data + offsets[0];
    t->n_bytes = bytes;
    t->file = p->file;
    return RWK_STATUS_OK;
}

enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4 };

static enum rwk_status read_tensor(struct parser *p, struct rwk_tensor *t)
{
    uint32_t seen = 0, bits = 0;
    uint64_t offsets[2] = { 0, 0 };
    size_t n;
    if (rwk_json_next(&p->json) != RWK_JSON_OBJECT)
        return rwk_json_fail(&p->json, "tensor \"%.100s\" must be an object", t->name);
    for (enum rwk_json_event event; (event = rwk_json_next(&p->json)) == RWK_JSON_KEY;) {
        enum rwk_status status = RWK_STATUS_OK;
        uint32_t key = rwk_json_equals(&p->json, "dtype") ? SEEN_DTYPE : rwk_json_equals(&p->json, "shape") ? SEEN_SHAPE :
                       rwk_json_equals(&p->json, "data_offsets") ? SEEN_OFFSETS : 0;
        if (seen & key)
            return fail_tensor(p, t, RWK_STATUS_FORMAT, "a key occurs twice");
        seen |= key;
        if (key == SEEN_DTYPE)
            status = read_dtype(p, t, &bits);
        else if (key == SEEN_SHAPE && !(status = read_list(p, "shape", &n)))
            status = keep_shape(p, t, n);
        else if (key == SEEN_OFFSETS && !(status = read_list(p, "data_offsets", &n))) {
            if (n != 2)
                return fail_tensor(p, t, RWK_STATUS_FORMAT, "data_offsets must be two numbers");
            memcpy(offsets, p->dims, sizeof offsets);
        } else if (!key && !rwk_json_skip(&p->json))
            return p->json.status;
        if (status)
            return status;
    }
    if (p->json.status)
        return p->json.status;
    if (seen != (SEEN_DTYPE | SEEN_SHAPE | SEEN_OFFSETS))
        return fail_tensor(p, t, RWK_STATUS_FORMAT, "dtype, shape or data_offsets is missing");
    return place(p, t, bits, offsets);
}

static enum rwk_status read_metadata(struct parser *p)
{
    enum rwk_json_event event = rwk_json_next(&p->json);
    if (event == RWK_JSON_NULL)
        return RWK_STATUS_OK;
    if (event != RWK_JSON_OBJECT)
        return rwk_json_fail(&p->json, "__metadata__ must be an object");
    while ((event = rwk_json_next(&p->json)) == RWK_JSON_KEY)
        if (rwk_json_next(&p->json) != RWK_JSON_STRING)
            return rwk_json_fail(&p->json, "__metadata__ must hold strings");
    return p->json.status;
}

static enum rwk_status read_name(struct parser *p, struct rwk_tensor *t)
{
    char *name = rwk_arena_alloc(p->arena, p->json.raw_size + 1);
    if (!name)
        return nomem(p, p->json.raw_size + 1);
    size_t n = rwk_json_decode(&p->json, name);
    name[n] = '\0';
    if (n > UINT32_MAX || memchr(name, '\0', n))
        return rwk_json_fail(&p->json, "a tensor's name holds a NUL character");
    t->name = name;
    t->name_size = (uint32_t)n;
    return RWK_STATUS_OK;
}

static enum rwk_status read_header(struct parser *p)
{
    enum rwk_json_event event;
    bool metadata = false;
    if (rwk_json_next(&p->json) != RWK_JSON_OBJECT)
        return rwk_json_fail(&p->json, "the header must be an object");
    while ((event = rwk_json_next(&p->json)) == RWK_JSON_KEY) {
        enum rwk_status status;
        if (rwk_json_equals(&p->json, "__metadata__")) {
            if (metadata)
                return rwk_json_fail(&p->json, "__metadata__ occurs twice");
            metadata = true;
            status = read_metadata(p);
        } else {
            if (p->n_tensors == p->capacity) {
                size_t capacity = p->capacity ? 2 * p->capacity : 64;
                struct rwk_tensor *grown = rwk_realloc(p->file->memory, p->tensors, capacity * sizeof *grown);
                if (!grown)
                    return nomem(p, capacity * sizeof *grown);
                p->tensors = grown;
                p->capacity = capacity;
            }
            struct rwk_tensor t = { 0 };
            status = read_name(p, &t);
            if (!status)
                status = read_tensor(p, &t);
            if (!status)
                p->tensors[p->n_tensors++] = t;
        }
        if (status)
            return status;
    }
    if (event != RWK_JSON_ERROR)
        event = rwk_json_next(&p->json);
    return p->json.status;
}

/* ---- all tensors ---- */

static int by_place(const void *a, const void *b)
{
    const struct rwk_tensor *x = a, *y = b;
    const char *px = x->data, *py = y->data;
    if (px != py)
        return px < py ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes; /* empty ones first */
}

static enum rwk_status check_tiling(struct parser *p)
{
    const char *at = p->data;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct rwk_tensor *t = &p->tensors[i];
        if (t->data != at)
            return rwk_fail_on(p->error, RWK_STATUS_FORMAT, p->file->path, t->name, (const char *)t->data < at ?
                               "its data overlaps another tensor's" : "a gap lies before its data");
        at += t->n_bytes;
    }
    if (at != p->data + p->data_size)
        return rwk_fail(p->error, RWK_STATUS_FORMAT, p->file->path, "%llu bytes follow the last tensor",
                        (unsigned long long)(p->data + p->data_size - at));
    return RWK_STATUS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct rwk_tensor *const *)a)->name, (*(const struct rwk_tensor *const *)b)->name);
}

static enum rwk_status check_names(struct parser *p)
{
    const struct rwk_tensor **sorted = rwk_alloc(p->file->memory, (p->n_tensors + 1) * sizeof *sorted);
    if (!sorted)
        return nomem(p, p->n_tensors * sizeof *sorted);
    for (size_t i = 0; i < p->n_tensors; i++)
        sorted[i] = &p->tensors[i];
    qsort(sorted, p->n_tensors, sizeof *sorted, by_name);
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = 1; i < p->n_tensors && !status; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = rwk_fail_on(p->error, RWK_STATUS_FORMAT, p->file->path, sorted[i]->name, "the tensor occurs twice");
    rwk_free(p->file->memory, sorted);
    return status;
}

/* What people end up with under this name when a download went wrong. */
static const char *impostor(const struct rwk_file *file)
{
    static const struct {
        const char *start, *what;
    } known[] = {
        { "version https://git-lfs", "is a Git LFS pointer: the file itself was not downloaded" },
        { "<!DOCTYPE", "is a web page, not a safetensors file" },
        { "<!doctype", "is a web page, not a safetensors file" },
        { "<html", "is a web page, not a safetensors file" },
        { "PK\003\004", "is a zip archive (perhaps a PyTorch file), not a safetensors file" },
        { "GGUF", "is a GGUF file, not a safetensors file" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].start);
        if (file->size >= n && memcmp(file->data, known[i].start, n) == 0)
            return known[i].what;
    }
    return NULL;
}

static enum rwk_status header_length(const struct rwk_file *file, uint64_t *ret, struct rwk_error *error)
{
    const unsigned char *bytes = file->data;
    const char *what = impostor(file);
    uint64_t n = 0;
    if (what)
        return rwk_fail(error, RWK_STATUS_FORMAT, file->path, "%s", what);
    if (file->size < 8)
        return rwk_fail(error, RWK_STATUS_FORMAT, file->path, "%zu bytes are too few for a safetensors file", file->size);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | bytes[i];
    if (n > MAX_HEADER)
        return rwk_fail(error, RWK_STATUS_FORMAT, file->path, "not a safetensors file: a header of %llu bytes is beyond "
                        "the format's limit", (unsigned long long)n);
    if (n == 0 || n > file->size - 8)
        return rwk_fail(error, RWK_STATUS_FORMAT, file->path, "the header of %llu bytes does not fit a file of %zu bytes "
                        "(truncated?)", (unsigned long long)n, file->size);
    *ret = n;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_safetensors_parse(struct rwk_tensor **ret_tensors, size_t *ret_count, const struct rwk_file *file,
                                      struct rwk_arena *arena, struct rwk_error *error)
{
    uint64_t n = 0;
    enum rwk_status status = header_length(file, &n, error);
    if (status)
        return status;
    struct parser p = { .file = file, .arena = arena, .error = error, .data = (const char *)file->data + 8 + n,
                        .data_size = file->size - 8 - n };
    rwk_json_init(&p.json, (const char *)file->data + 8, (size_t)n, false, file->path, error);
    status = read_header(&p);
    if (!status && p.n_tensors)
        qsort(p.tensors, p.n_tensors, sizeof *p.tensors, by_place);
    if (!status)
        status = check_tiling(&p);
    if (!status)
        status = check_names(&p);
    if (!status) {
        struct rwk_tensor *kept = rwk_arena_alloc(arena, (p.n_tensors + 1) * sizeof *kept);
        if (!kept) {
            status = nomem(&p, p.n_tensors * sizeof *kept);
        } else {
            if (p.n_tensors)
                memcpy(kept, p.tensors, p.n_tensors * sizeof *kept);
            *ret_tensors = kept;
            *ret_count = p.n_tensors;
        }
    }
    rwk_free(file->memory, p.tensors);
    rwk_free(file->memory, p.dims);
    return status;
}
