/* A model directory with its matrices quantised, as a new directory: the small files copied,
 * config.json with our quantization_config, all weights in one model.safetensors (quantize.h has
 * its names and shapes). Opened again it is mapped and used in place, and gives the bits that
 * quantising at load gives. */
#include "models/open.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "loaders/grow.h"
#include "loaders/writer.h"
#include "models/quantize.h"

/* ---- a growing text ---- */

struct text {
    struct rwk_memory *memory;
    char *data;
    size_t size, capacity;
    bool failed;
};

static void put(struct text *text, const char *data, size_t size)
{
    for (size_t i = 0; i < size && !text->failed; i++) {
        char *grown = rwk_grow(text->memory, text->data, text->size, &text->capacity, 1);
        text->failed = !grown;
        text->data = grown ? grown : text->data;
        if (grown)
            text->data[text->size++] = data[i];
    }
}
static void put_string(struct text *text, const char *string)
{
    put(text, string, strlen(string));
}
static void put_number(struct text *text, uint64_t n)
{
    char digits[24];
    put(text, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n));
}
static void put_quoted(struct text *text, const char *string, size_t size)
{
    put_string(text, "\"");
    for (size_t i = 0; i < size; i++) {
        char escape[8];
        unsigned char c = (unsigned char)string[i];
        if (c < 0x20 || c == '"' || c == '\\')
            put(text, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
        else
            put(text, string + i, 1);
    }
    put_string(text, "\"");
}

/* ---- the weights ---- */

/* What one tensor of the new file holds. */
struct part {
    const struct rwk_tensor *source;
    const struct rwk_matrix *packed; /* or NULL: the source as it is */
    bool is_scales;                  /* of `packed`: scales, not data */
};

struct output {
    const struct rwk_opened *opened;
    struct text header;
    struct rwk_writer writer;
    struct rwk_progress progress; /* in bytes written */
    uint64_t offset;              /* where the next part's data begin */
};

static const void *part_data(const struct part *p, uint64_t *ret_size)
{
    *ret_size = !p->packed     ? p->source->n_bytes
                : p->is_scales ? rwk_quant_scales_bytes(p->packed)
                               : rwk_quant_data_bytes(p->packed);
    return !p->packed ? p->source->data : p->is_scales ? p->packed->scales : p->packed->data;
}

static void describe(struct output *out, const struct part *p)
{
    struct text *h = &out->header;
    uint64_t size;
    const struct rwk_matrix *m = p->packed;
    const uint64_t packed_shape[] = { m ? rwk_quant_groups(m->rows) : 0,
                                      m ? rwk_quant_blocks(m->cols) : 0,
                                      !m             ? 0
                                      : p->is_scales ? 2 * RWK_QUANT_ROWS
                                                     : rwk_quant_block_bytes(m->element) };
    const uint64_t *shape = m ? packed_shape : p->source->shape;
    part_data(p, &size);
    char name_end[] = RWK_QUANT_SCALES;
    if (out->offset > 0)
        put_string(h, ",");
    struct text name = { .memory = h->memory };
    put(&name, p->source->name, p->source->name_size);
    put_string(&name, p->is_scales ? name_end : "");
    put_quoted(h, name.data, name.size);
    h->failed |= name.failed;
    rwk_free(name.memory, name.data);
    put_string(h, ":{\"dtype\":\"");
    put_string(h, !m ? rwk_dtype_name(p->source->dtype) : p->is_scales ? "F16" : "U8");
    put_string(h, "\",\"shape\":[");
    for (uint32_t i = 0; i < (m ? 3 : p->source->n_dims); i++) {
        put_string(h, i ? "," : "");
        put_number(h, shape[i]);
    }
    put_string(h, "],\"data_offsets\":[");
    put_number(h, out->offset);
    put_string(h, ",");
    put_number(h, out->offset += size);
    put_string(h, "]}");
}

static void store(struct output *out, const struct part *p)
{
    enum { STEP = 16 << 20 };
    uint64_t size;
    const char *data = part_data(p, &size);
    for (uint64_t done = 0, n; done < size && !out->writer.os_error; done += n) {
        n = size - done < STEP ? size - done : STEP;
        rwk_writer_put(&out->writer, data + done, (size_t)n);
        if (!rwk_progress_add(&out->progress, n))
            out->writer.os_error = ECANCELED;
    }
}

/* Quantised data first and its scales, whose sizes are multiples of 32 bytes; then the rest. */
static void each_part(struct output *out, void (*visit)(struct output *out, const struct part *p))
{
    const struct rwk_opened *o = out->opened;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < o->weights.n_tensors; i++) {
            const struct rwk_matrix *packed = o->quantized[i].data ? &o->quantized[i] : NULL;
            if (o->used[i] && (packed != NULL) == (round < 2))
                visit(out, &(struct part) { &o->weights.tensors[i], packed, round == 1 });
        }
}

static enum rwk_status write_weights(struct output *out, const char *path, struct rwk_arena *arena,
                                     struct rwk_error *error)
{
    struct text *h = &out->header;
    put_string(h, "{\"__metadata__\":{\"format\":\"pt\"}");
    const size_t empty = h->size;
    put_string(h, ",");
    each_part(out, describe);
    if (h->size == empty + 1)
        h->size = empty;
    put_string(h, "}");
    while (h->size % 64 != 56 && !h->failed) /* the data begin on a cache line */
        put_string(h, " ");
    if (h->failed)
        return rwk_fail_nomem(error, h->capacity);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)h->size >> 8 * i);
    enum rwk_status status = rwk_writer_open(&out->writer, path, 0666, arena, error);
    if (status)
        return status;
    out->progress.done = sizeof length + h->size;
    out->progress.total = out->progress.done + out->offset;
    rwk_writer_put(&out->writer, length, sizeof length);
    rwk_writer_put(&out->writer, h->data, h->size);
    each_part(out, store);
    if (out->writer.os_error == ECANCELED) {
        rwk_writer_abandon(&out->writer);
        return rwk_fail(error, RWK_STATUS_CANCELLED, path, "writing was cancelled");
    }
    return rwk_writer_commit(&out->writer, error);
}

/* ---- the other files ---- */

static enum rwk_status write_file(const char *path, const char *data, size_t size, const char *more,
                                  struct rwk_arena *arena, struct rwk_error *error)
{
    struct rwk_writer writer;
    enum rwk_status status = rwk_writer_open(&writer, path, 0666, arena, error);
    if (status)
        return status;
    rwk_writer_put(&writer, data, size);
    rwk_writer_put(&writer, more, strlen(more));
    return rwk_writer_commit(&writer, error);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* What a model's directory holds beside weights. */
static bool is_companion(const char *name)
{
    static const char *const ends[] = { ".json", ".txt",    ".model", ".jinja",
                                        ".md",   "LICENSE", "NOTICE" };
    if (name[0] == '.' || ends_with(name, ".index.json") || strcmp(name, "config.json") == 0)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* `cut` says how much of the text is kept (NULL: all); `more` follows it. */
static enum rwk_status copy_file(const char *from, const char *to, const char *name,
                                 size_t (*cut)(const char *text, size_t size), const char *more,
                                 struct rwk_arena *arena, struct rwk_error *error)
{
    char *source, *target;
    struct rwk_file file = { 0 };
    enum rwk_status status = rwk_path_join(&source, arena, from, name, error);
    if (!status)
        status = rwk_path_join(&target, arena, to, name, error);
    if (!status)
        status = rwk_file_open(&file, source, RWK_LOAD_READ, arena->memory, error);
    if (!status)
        status = write_file(target, file.data, cut ? cut(file.data, file.size) : file.size, more,
                            arena, error);
    rwk_file_close(&file);
    return status;
}

static enum rwk_status copy_companions(const char *from, const char *to, struct rwk_arena *arena,
                                       struct rwk_error *error)
{
    DIR *directory = opendir(from);
    struct rwk_where where = { .file = from, .offset = RWK_NO_OFFSET, .os_error = errno };
    enum rwk_status status = RWK_STATUS_OK;
    if (!directory)
        return rwk_fail_at(error, RWK_STATUS_IO, &where, "cannot be read");
    for (struct dirent *entry; !status && (entry = readdir(directory));)
        if (is_companion(entry->d_name))
            status = copy_file(from, to, entry->d_name, NULL, "", arena, error);
    closedir(directory);
    return status;
}

/* An object's text without the brace that closes it; that it has one is known, it was parsed. */
static size_t cut_brace(const char *text, size_t size)
{
    while (size > 0 && text[size - 1] != '}')
        size--;
    size -= size > 0;
    while (size > 0 && strchr(" \t\r\n", text[size - 1]))
        size--;
    return size;
}

/* The object of config.json with one member more at its end. */
static enum rwk_status write_config(const char *from, const char *to, enum rwk_element element,
                                    struct rwk_arena *arena, struct rwk_error *error)
{
    char more[160];
    snprintf(more, sizeof more,
             ",\n  \"quantization_config\": {\"quant_method\": \"%s\", \"bits\": %d, "
             "\"block_size\": %d}\n}\n",
             RWK_QUANT_METHOD, rwk_is_q8(element) ? 8 : 4, RWK_QUANT_BLOCK);
    return copy_file(from, to, "config.json", cut_brace, more, arena, error);
}

/* ---- all of it ---- */

static enum rwk_status make_directory(const char *path, struct rwk_arena *arena,
                                      struct rwk_error *error)
{
    static const char *const ours[] = { "config.json", "model.safetensors",
                                        "model.safetensors.index.json" };
    struct rwk_where where = { .file = path, .offset = RWK_NO_OFFSET };
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        where.os_error = errno;
        return rwk_fail_at(error, RWK_STATUS_IO, &where, "cannot be made");
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        char *there;
        enum rwk_status status = rwk_path_join(&there, arena, path, ours[i], error);
        if (status)
            return status;
        if (rwk_path_exists(there))
            return rwk_fail(error, RWK_STATUS_IO, there, "is there already");
    }
    return RWK_STATUS_OK;
}

enum rwk_status rwk_quantize(const char *from, const char *to,
                             const struct rwk_model_options *options, struct rwk_error *error)
{
    struct rwk_model *model = NULL;
    struct rwk_memory memory;
    struct rwk_arena arena = { .memory = &memory };
    char *weights;
    if (!options || (options->weights != RWK_WEIGHTS_Q8 && options->weights != RWK_WEIGHTS_Q4))
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "weights", "q8 or q4 must be asked for");
    enum rwk_status status = rwk_model_open(&model, from, options, error);
    if (status)
        return status;
    rwk_memory_init(&memory, options->allocator, 0);
    const struct rwk_opened *o = model->owner;
    struct output out = { .opened = o,
                          .header = { .memory = &memory },
                          .progress = { .fn = options->progress,
                                        .fn_data = options->progress_data } };
    if (o->packed != RWK_ELEMENT_F32)
        status = rwk_fail(error, RWK_STATUS_UNSUPPORTED, from, "is quantised already");
    if (!status)
        status = make_directory(to, &arena, error);
    if (!status)
        status = copy_companions(from, to, &arena, error);
    if (!status)
        status = rwk_path_join(&weights, &arena, to, "model.safetensors", error);
    if (!status)
        status = write_weights(&out, weights, &arena, error);
    if (!status) /* last: without it the directory is no model */
        status = write_config(from, to,
                              options->weights == RWK_WEIGHTS_Q8 ? RWK_ELEMENT_Q8 : RWK_ELEMENT_Q4,
                              &arena, error);
    rwk_free(&memory, out.header.data);
    rwk_arena_finish(&arena);
    rwk_model_close(&model);
    return status;
}
