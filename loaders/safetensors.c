/* Reading a safetensors header in one pass over its JSON:
 *
 *   length -> JSON events -> one struct rwk_tensor per member, each checked alone
 *          -> sorted by place -> their ranges must tile the data
 *
 * Memory is bounded by the header: nothing is allocated for a number that the file merely claims.
 * Refused although the reference takes them: names with NUL in them, and names given twice. */
#include "loaders/safetensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "loaders/grow.h"
#include "loaders/json.h"
#include "loaders/names.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors data is used as it lies in the file: little-endian machines only"
#endif

enum { LENGTH_SIZE = 8, MAX_HEADER = 100000000 };

static const struct {
    const char *name;
    enum rwk_dtype dtype;
    uint32_t bits;
} dtypes[] = {
    { "F32", RWK_DTYPE_F32, 32 },
    { "F16", RWK_DTYPE_F16, 16 },
    { "BF16", RWK_DTYPE_BF16, 16 },
    { "F64", RWK_DTYPE_F64, 64 },
    { "BOOL", RWK_DTYPE_BOOL, 8 },
    { "U8", RWK_DTYPE_U8, 8 },
    { "I8", RWK_DTYPE_I8, 8 },
    { "U16", RWK_DTYPE_U16, 16 },
    { "I16", RWK_DTYPE_I16, 16 },
    { "U32", RWK_DTYPE_U32, 32 },
    { "I32", RWK_DTYPE_I32, 32 },
    { "U64", RWK_DTYPE_U64, 64 },
    { "I64", RWK_DTYPE_I64, 64 },
    { "F8_E4M3", RWK_DTYPE_F8_E4M3, 8 },
    { "F8_E5M2", RWK_DTYPE_F8_E5M2, 8 },
    { "F8_E8M0", RWK_DTYPE_OTHER, 8 },
    { "F8_E4M3FNUZ", RWK_DTYPE_OTHER, 8 },
    { "F8_E5M2FNUZ", RWK_DTYPE_OTHER, 8 },
    { "F4", RWK_DTYPE_OTHER, 4 },
    { "F6_E2M3", RWK_DTYPE_OTHER, 6 },
    { "F6_E3M2", RWK_DTYPE_OTHER, 6 },
    { "C64", RWK_DTYPE_OTHER, 64 },
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
    struct rwk_names names;     /* name -> index of its tensor */
    struct rwk_tensor *tensors; /* [n_tensors], in the file's memory while it grows */
    size_t n_tensors, capacity;
    uint64_t *list; /* scratch for one list of integers */
    size_t list_capacity;
    const char *data; /* [data_size] */
    uint64_t data_size;
    size_t tensor_at; /* where in the file the present tensor's name stands */
};

/* ---- errors ---- */

static enum rwk_status nomem(struct parser *p, size_t size)
{
    return rwk_fail_nomem(p->error, size);
}

static enum rwk_status fail_at(struct parser *p, const struct rwk_tensor *t, uint64_t offset,
                               const char *format, ...) RWK_PRINTF(4, 5);
static enum rwk_status fail_at(struct parser *p, const struct rwk_tensor *t, uint64_t offset,
                               const char *format, ...)
{
    struct rwk_where where = { .file = p->file->path, .subject = t->name, .offset = offset };
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return rwk_fail_at(p->error, RWK_STATUS_FORMAT, &where, "%s", text);
}

/* What was read is not what the tensor's entry must hold there; a syntax error has been reported
 * already. */
static enum rwk_status unexpected(struct parser *p, const struct rwk_tensor *t, const char *what)
{
    return p->json.status ? p->json.status
                          : fail_at(p, t, p->json.base + p->json.event_at, "%s", what);
}

/* ---- one tensor ---- */

static enum rwk_status read_dtype(struct parser *p, const struct rwk_tensor *t, int *ret_row)
{
    if (rwk_json_next(&p->json) != RWK_JSON_STRING)
        return unexpected(p, t, "dtype must be a string");
    for (int i = 0; i < N_DTYPES; i++)
        if (rwk_json_equals(&p->json, dtypes[i].name)) {
            *ret_row = i;
            return RWK_STATUS_OK;
        }
    return fail_at(p, t, p->json.base + p->json.event_at, "unknown dtype \"%.*s\"",
                   (int)(p->json.raw_size < 64 ? p->json.raw_size : 64), p->json.raw);
}

/* A list of plain non-negative integers into p->list. */
static enum rwk_status read_list(struct parser *p, const struct rwk_tensor *t, const char *what,
                                 size_t *ret_n)
{
    size_t n = 0;
    if (rwk_json_next(&p->json) != RWK_JSON_ARRAY)
        return unexpected(p, t, what);
    for (enum rwk_json_event event; (event = rwk_json_next(&p->json)) != RWK_JSON_ARRAY_END; n++) {
        uint64_t *list = rwk_grow(p->file->memory, p->list, n, &p->list_capacity, sizeof *list);
        if (!list)
            return nomem(p, 2 * n * sizeof *list);
        p->list = list;
        if (event != RWK_JSON_NUMBER || !rwk_json_uint64(&p->json, &p->list[n]))
            return unexpected(p, t, what);
    }
    *ret_n = n;
    return RWK_STATUS_OK;
}

static enum rwk_status read_shape(struct parser *p, struct rwk_tensor *t)
{
    size_t n = 0;
    enum rwk_status status = read_list(p, t, "shape must be a list of non-negative integers", &n);
    if (status)
        return status;
    uint64_t *shape = rwk_arena_alloc(p->arena, n * sizeof *shape);
    if (!shape)
        return nomem(p, n * sizeof *shape);
    if (n)
        memcpy(shape, p->list, n * sizeof *shape);
    t->shape = shape;
    t->n_dims = (uint32_t)n;
    return RWK_STATUS_OK;
}

static enum rwk_status read_offsets(struct parser *p, const struct rwk_tensor *t,
                                    uint64_t ret_offsets[2])
{
    static const char what[] = "data_offsets must be two non-negative integers";
    size_t n = 0;
    enum rwk_status status = read_list(p, t, what, &n);
    if (status || n != 2)
        return status ? status : unexpected(p, t, what);
    memcpy(ret_offsets, p->list, 2 * sizeof *p->list);
    return RWK_STATUS_OK;
}

/* Bytes of a shape; false when they do not fit, or do not fill whole bytes. As in the reference,
 * the product of all dimensions is formed in order, so that a zero does not excuse an overflow
 * before it. */
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

static enum rwk_status place(struct parser *p, struct rwk_tensor *t, int row,
                             const uint64_t offsets[2])
{
    unsigned long long begin = offsets[0], end = offsets[1], size = p->data_size;
    uint64_t bytes;
    if (begin > end)
        return fail_at(p, t, p->tensor_at, "its data ends (%llu) before it begins (%llu)", end,
                       begin);
    if (end > size)
        return fail_at(p, t, p->tensor_at,
                       "its data ends at %llu, but the file holds %llu bytes of data (truncated?)",
                       end, size);
    if (!shape_bytes(t, dtypes[row].bits, &bytes))
        return fail_at(p, t, p->tensor_at, "its shape has no size in bytes");
    if (bytes != end - begin)
        return fail_at(p, t, p->tensor_at,
                       "its shape and dtype %s need %llu bytes, but data_offsets spans %llu",
                       dtypes[row].name, (unsigned long long)bytes, end - begin);
    t->dtype = dtypes[row].dtype;
    t->data = p->data + begin;
    t->n_bytes = bytes;
    t->file = p->file;
    return RWK_STATUS_OK;
}

static enum rwk_status read_tensor(struct parser *p, struct rwk_tensor *t)
{
    enum { DTYPE, SHAPE, OFFSETS, N_FIELDS };
    static const char *const fields[] = { "dtype", "shape", "data_offsets" };
    bool seen[N_FIELDS] = { false };
    uint64_t offsets[2] = { 0, 0 };
    int row = 0;
    if (rwk_json_next(&p->json) != RWK_JSON_OBJECT)
        return unexpected(p, t, "a tensor's entry must be an object");
    while (rwk_json_next(&p->json) == RWK_JSON_KEY) {
        enum rwk_status status = RWK_STATUS_OK;
        int field = 0;
        while (field < N_FIELDS && !rwk_json_equals(&p->json, fields[field]))
            field++;
        if (field < N_FIELDS && seen[field])
            return unexpected(p, t, "a field occurs twice");
        if (field < N_FIELDS)
            seen[field] = true;
        if (field == DTYPE)
            status = read_dtype(p, t, &row);
        else if (field == SHAPE)
            status = read_shape(p, t);
        else if (field == OFFSETS)
            status = read_offsets(p, t, offsets);
        else
            rwk_json_skip(&p->json);
        if (status)
            return status;
    }
    for (int i = 0; i < N_FIELDS && !p->json.status; i++)
        if (!seen[i])
            return fail_at(p, t, p->tensor_at, "%s is missing", fields[i]);
    return p->json.status ? p->json.status : place(p, t, row, offsets);
}

/* ---- the header ---- */

static enum rwk_status read_name(struct parser *p, struct rwk_tensor *t)
{
    size_t n = 0;
    enum rwk_status status = rwk_json_copy(&p->json, p->arena, &t->name, &n);
    if (status)
        return status;
    t->name_size = (uint32_t)n;
    p->tensor_at = p->json.base + p->json.event_at;
    uint32_t *index = rwk_names_put(&p->names, t->name, n, (uint32_t)p->n_tensors);
    if (!index)
        return nomem(p, 2 * p->names.n_slots * sizeof *p->names.slots);
    return *index == p->n_tensors ? RWK_STATUS_OK : unexpected(p, t, "the tensor occurs twice");
}

static enum rwk_status add_tensor(struct parser *p)
{
    struct rwk_tensor t = { 0 };
    struct rwk_tensor *tensors =
        rwk_grow(p->file->memory, p->tensors, p->n_tensors, &p->capacity, sizeof t);
    if (!tensors)
        return nomem(p, 2 * p->n_tensors * sizeof t);
    p->tensors = tensors;
    enum rwk_status status = read_name(p, &t);
    if (!status)
        status = read_tensor(p, &t);
    if (!status)
        p->tensors[p->n_tensors++] = t;
    return status;
}

static enum rwk_status read_metadata(struct parser *p)
{
    enum rwk_json_event event = rwk_json_next(&p->json);
    if (event == RWK_JSON_NULL)
        return RWK_STATUS_OK;
    if (event != RWK_JSON_OBJECT)
        return rwk_json_fail(&p->json, "__metadata__ must be an object");
    while (rwk_json_next(&p->json) == RWK_JSON_KEY)
        if (rwk_json_next(&p->json) != RWK_JSON_STRING)
            return rwk_json_fail(&p->json, "__metadata__ must hold strings");
    return p->json.status;
}

static enum rwk_status read_header(struct parser *p)
{
    bool metadata = false;
    if (rwk_json_next(&p->json) != RWK_JSON_OBJECT)
        return rwk_json_fail(&p->json, "the header must be an object");
    while (rwk_json_next(&p->json) == RWK_JSON_KEY) {
        bool is_metadata = rwk_json_equals(&p->json, "__metadata__");
        if (is_metadata && metadata)
            return rwk_json_fail(&p->json, "__metadata__ occurs twice");
        metadata |= is_metadata;
        enum rwk_status status = is_metadata ? read_metadata(p) : add_tensor(p);
        if (status)
            return status;
    }
    rwk_json_next(&p->json); /* nothing but white space may follow */
    return p->json.status;
}

/* ---- all tensors ---- */

/* Order of data; of two that begin at one place the empty one first. */
static bool before(const struct rwk_tensor *a, const struct rwk_tensor *b)
{
    const char *x = a->data, *y = b->data;
    return x != y ? x < y : a->n_bytes < b->n_bytes;
}

/* Lets element `at` of a heap [n] (the last in order on top) sink to where it belongs. */
static void sink(struct rwk_tensor *tensors, size_t at, size_t n)
{
    struct rwk_tensor t = tensors[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && before(&tensors[child], &tensors[child + 1]);
        if (!before(&t, &tensors[child]))
            break;
        tensors[at] = tensors[child];
    }
    tensors[at] = t;
}

/* Heapsort: in place, since the C library's qsort may allocate behind the host's allocator. Most
 * files are in order. */
static void sort_by_place(struct rwk_tensor *tensors, size_t n)
{
    size_t i = 1;
    while (i < n && !before(&tensors[i], &tensors[i - 1]))
        i++;
    if (i >= n)
        return;
    for (i = n / 2; i > 0; i--)
        sink(tensors, i - 1, n);
    for (i = n - 1; i > 0; i--) {
        struct rwk_tensor last = tensors[0];
        tensors[0] = tensors[i];
        tensors[i] = last;
        sink(tensors, 0, i);
    }
}

static enum rwk_status check_tiling(struct parser *p)
{
    const char *start = p->file->data, *at = p->data, *end = p->data + p->data_size;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct rwk_tensor *t = &p->tensors[i];
        const char *data = t->data;
        if (data < at)
            return fail_at(p, t, (uint64_t)(data - start), "its data overlaps that of \"%.100s\"",
                           t[-1].name);
        if (data > at)
            return fail_at(p, t, (uint64_t)(at - start), "a gap of %llu bytes lies before its data",
                           (unsigned long long)(data - at));
        at += t->n_bytes;
    }
    struct rwk_where where = { .file = p->file->path, .offset = (uint64_t)(at - start) };
    return at == end ? RWK_STATUS_OK
                     : rwk_fail_at(p->error, RWK_STATUS_FORMAT, &where,
                                   "%llu bytes follow the last tensor's data",
                                   (unsigned long long)(end - at));
}

/* ---- the file ---- */

/* What people end up with under this name when a download went wrong; all of these begin like a
 * header of absurd length. */
static const char *impostor(const struct rwk_file *file)
{
    static const struct {
        const char *start, *what;
    } known[] = {
        { "version https://git-lfs", "is a Git LFS pointer: the file itself was not downloaded" },
        { "<!DOCTYPE", "is a web page, not a safetensors file" },
        { "<!doctype", "is a web page, not a safetensors file" },
        { "<html", "is a web page, not a safetensors file" },
        { "../", "holds the text of a symbolic link, not a safetensors file" },
        { "PK\003\004", "is a zip archive (perhaps of PyTorch), not a safetensors file" },
        { "GGUF", "is a GGUF file, not a safetensors file" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].start);
        if (file->size >= n && memcmp(file->data, known[i].start, n) == 0)
            return known[i].what;
    }
    return NULL;
}

static enum rwk_status header_length(const struct rwk_file *file, size_t *ret,
                                     struct rwk_error *error)
{
    struct rwk_where where = { .file = file->path };
    uint64_t n = 0;
    if (file->size < LENGTH_SIZE)
        return rwk_fail(error, RWK_STATUS_FORMAT, file->path,
                        "%zu bytes are too few for a safetensors file", file->size);
    memcpy(&n, file->data, LENGTH_SIZE);
    if (n > MAX_HEADER) {
        const char *what = impostor(file);
        if (what)
            return rwk_fail(error, RWK_STATUS_FORMAT, file->path, "%s", what);
        return rwk_fail_at(error, RWK_STATUS_FORMAT, &where,
                           "is not a safetensors file: a header of %llu bytes is beyond "
                           "the format's limit",
                           (unsigned long long)n);
    }
    if (n == 0 || n > file->size - LENGTH_SIZE)
        return rwk_fail_at(error, RWK_STATUS_FORMAT, &where,
                           "a header of %llu bytes does not fit a file of %zu bytes%s",
                           (unsigned long long)n, file->size, n ? " (truncated?)" : "");
    *ret = (size_t)n;
    return RWK_STATUS_OK;
}

static enum rwk_status parse(struct parser *p, struct rwk_tensor **ret_tensors)
{
    enum rwk_status status = read_header(p);
    if (status)
        return status;
    sort_by_place(p->tensors, p->n_tensors);
    status = check_tiling(p);
    if (status)
        return status;
    size_t size = p->n_tensors * sizeof *p->tensors;
    struct rwk_tensor *kept = NULL;
    if (size) {
        kept = rwk_arena_alloc(p->arena, size);
        if (!kept)
            return nomem(p, size);
        memcpy(kept, p->tensors, size);
    }
    *ret_tensors = kept;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_safetensors_parse(struct rwk_tensor **ret_tensors, size_t *ret_count,
                                      const struct rwk_file *file, struct rwk_arena *arena,
                                      struct rwk_error *error)
{
    size_t n = 0;
    enum rwk_status status = header_length(file, &n, error);
    if (status)
        return status;
    const char *header = (const char *)file->data + LENGTH_SIZE;
    struct parser p = { .file = file,
                        .arena = arena,
                        .error = error,
                        .names.memory = file->memory,
                        .data = header + n,
                        .data_size = file->size - LENGTH_SIZE - n };
    rwk_json_init(&p.json, header, n, false, file->path, error);
    p.json.base = LENGTH_SIZE;
    status = parse(&p, ret_tensors);
    if (!status)
        *ret_count = p.n_tensors;
    rwk_names_finish(&p.names);
    rwk_free(file->memory, p.tensors);
    rwk_free(file->memory, p.list);
    return status;
}
