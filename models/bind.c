/* Weight rows -> tensors of the files.
 *
 *   for each row (and layer): find the tensor by name -> check dtype and shape -> a view of the
 * mapping (matrices), or a float32 copy in the arena (vectors, which are small and need their
 * offset or their place in a joined vector)
 *
 * The first thing that does not fit is reported with the tensor's name, what was expected and what
 * was found. */
#include "models/arch.h"

#include <stdio.h>
#include <string.h>
#include "loaders/shards.h"
#include "models/quantize.h"

enum { NAME_SIZE = 192 };

/* ---- names ---- */

/* Formats one alternative of a row's name; the names are this project's own and short. */
static void format_name(char *buffer, const char *prefix, const char *name, size_t n,
                        uint32_t layer, uint32_t head)
{
    const uint32_t numbers[] = { layer, head };
    size_t at = (size_t)snprintf(buffer, NAME_SIZE, "%s", prefix), used = 0;
    for (size_t i = 0; i < n && at + 12 < NAME_SIZE; i++) {
        if (name[i] == '%' && used < 2) {
            at += (size_t)snprintf(buffer + at, NAME_SIZE - at, "%u", numbers[used++]);
            i++;
        } else {
            buffer[at++] = name[i];
        }
    }
    buffer[at] = '\0';
}

/* Tries every alternative with and without the prefix. `name` keeps the first that was tried, for
 * messages. */
static const struct rwk_tensor *find_tensor(const struct rwk_binder *b,
                                            const struct rwk_weight_row *row, uint32_t layer,
                                            uint32_t head, char *name)
{
    char attempt[NAME_SIZE];
    for (const char *list = row->name; *list;) {
        size_t n = strcspn(list, "|");
        for (int with_prefix = 1; with_prefix >= 0; with_prefix--) {
            format_name(attempt, with_prefix ? b->arch->prefix : "", list, n, layer, head);
            const struct rwk_tensor *tensor =
                rwk_weights_find(b->weights, attempt, strlen(attempt));
            if (tensor) {
                b->used[tensor - b->weights->tensors] = true;
                memcpy(name, attempt, sizeof attempt);
                return tensor;
            }
        }
        list += n + (list[n] == '|');
    }
    format_name(name, strchr(row->name, '%') ? b->arch->prefix : "", row->name,
                strcspn(row->name, "|"), layer, head);
    return NULL;
}

/* ---- shapes ---- */

static uint64_t dimension(const struct rwk_facts *f, enum rwk_dimension d)
{
    const uint64_t q = (uint64_t)f->n_heads * f->head_dim,
                   kv = (uint64_t)f->n_kv_heads * f->head_dim;
    const uint64_t sizes[] = {
        [RWK_DIM_NONE] = 1,
        [RWK_DIM_HIDDEN] = f->hidden_size,
        [RWK_DIM_WORD] = f->word_size,
        [RWK_DIM_VOCAB] = f->vocab_size,
        [RWK_DIM_POSITIONS] = f->max_positions + f->request.learned_offset,
        [RWK_DIM_Q] = q,
        [RWK_DIM_KV] = kv,
        [RWK_DIM_QKV] = q + 2 * kv,
        [RWK_DIM_HEAD] = f->head_dim,
        [RWK_DIM_HEADS] = f->n_heads,
        [RWK_DIM_KV_HEADS] = f->n_kv_heads,
        [RWK_DIM_FFN] = f->ffn_size,
        [RWK_DIM_FFN2] = 2 * (uint64_t)f->ffn_size,
    };
    return sizes[d];
}

static void format_shape(char *buffer, size_t size, const uint64_t *shape, uint32_t n)
{
    buffer[0] = '\0';
    for (uint32_t i = 0, at = 0; i < n && at < size - 24; i++)
        at += (uint32_t)snprintf(buffer + at, size - at, "%s%llu", i ? ", " : "",
                                 (unsigned long long)shape[i]);
}

static enum rwk_status check_shape(const struct rwk_binder *b, const struct rwk_tensor *t,
                                   const uint64_t *shape, uint32_t n_dims)
{
    if (t->n_dims == n_dims && memcmp(t->shape, shape, n_dims * sizeof *shape) == 0)
        return RWK_STATUS_OK;
    char found[96], wanted[96];
    format_shape(found, sizeof found, t->shape, t->n_dims);
    format_shape(wanted, sizeof wanted, shape, n_dims);
    return rwk_fail_on(b->error, RWK_STATUS_MISMATCH, t->file->path, t->name,
                       "has shape [%s], but the configuration asks for [%s]", found, wanted);
}

static enum rwk_status element_of(const struct rwk_binder *b, const struct rwk_tensor *t,
                                  enum rwk_element *ret)
{
    switch (t->dtype) {
    case RWK_DTYPE_F32:
        *ret = RWK_ELEMENT_F32;
        return RWK_STATUS_OK;
    case RWK_DTYPE_F16:
        *ret = RWK_ELEMENT_F16;
        return RWK_STATUS_OK;
    case RWK_DTYPE_BF16:
        *ret = RWK_ELEMENT_BF16;
        return RWK_STATUS_OK;
    default:
        return rwk_fail_on(b->error, RWK_STATUS_UNSUPPORTED, t->file->path, t->name,
                           "weights of dtype %s are not supported", rwk_dtype_name(t->dtype));
    }
}

/* ---- matrices ---- */

static enum rwk_status missing(const struct rwk_binder *b, const char *name)
{
    return rwk_fail_on(b->error, RWK_STATUS_MISMATCH,
                       b->weights->n_files ? b->weights->files[0].path : NULL, name,
                       "the tensor is missing");
}

static bool is_global(const struct rwk_weight_row *row)
{
    return !strchr(row->name, '%');
}

/* Tables of rows are looked up, never multiplied, unless the head is one of them. */
static bool is_multiplied(const struct rwk_binder *b, const struct rwk_weight_row *row)
{
    return !is_global(row) ||
           (row->slot != RWK_M_POSITION && (row->slot != RWK_M_EMBED || b->embedding_is_head));
}

/* A gate and up stored as one matrix, that can be cut between two groups of rows. */
static bool splits_evenly(const struct rwk_weight_row *row, uint64_t rows)
{
    return !(row->flags & RWK_SPLIT_GATE_UP) || rows / 2 % RWK_QUANT_ROWS == 0;
}

static enum rwk_status view_stored(const struct rwk_binder *b, const struct rwk_weight_row *row,
                                   const struct rwk_tensor *t, struct rwk_matrix *whole)
{
    whole->transposed = row->flags & RWK_TRANSPOSED;
    const uint64_t outer = whole->transposed ? whole->cols : whole->rows;
    const uint64_t inner = whole->transposed ? whole->rows : whole->cols;
    enum rwk_status status = check_shape(b, t, (const uint64_t[]) { outer, inner }, 2);
    if (!status)
        status = element_of(b, t, &whole->element);
    whole->data = t->data;
    whole->stride = (size_t)inner;
    return status;
}

static enum rwk_status view_packed(const struct rwk_binder *b, const struct rwk_weight_row *row,
                                   const struct rwk_tensor *t, struct rwk_matrix *whole)
{
    char name[NAME_SIZE + sizeof RWK_QUANT_SCALES];
    const uint64_t groups = rwk_quant_groups(whole->rows), blocks = rwk_quant_blocks(whole->cols);
    whole->element = b->packed;
    enum rwk_status status = check_shape(
        b, t, (const uint64_t[]) { groups, blocks, rwk_quant_block_bytes(b->packed) }, 3);
    if (status)
        return status;
    int size = snprintf(name, sizeof name, "%s%s", t->name, RWK_QUANT_SCALES);
    const struct rwk_tensor *scales = rwk_weights_find(b->weights, name, (size_t)size);
    if (!scales)
        return missing(b, name);
    b->used[scales - b->weights->tensors] = true;
    if (scales->dtype != RWK_DTYPE_F16)
        return rwk_fail_on(b->error, RWK_STATUS_MISMATCH, scales->file->path, name,
                           "has dtype %s instead of F16", rwk_dtype_name(scales->dtype));
    if (!is_multiplied(b, row) || !splits_evenly(row, whole->rows))
        return rwk_fail_on(b->error, RWK_STATUS_UNSUPPORTED, t->file->path, t->name,
                           "cannot be a quantised matrix");
    whole->data = t->data;
    whole->scales = scales->data;
    return check_shape(b, scales, (const uint64_t[]) { groups, blocks, 2 * RWK_QUANT_ROWS }, 3);
}

/* The lower half of the rows of a matrix. */
static void take_lower_half(struct rwk_matrix *m)
{
    if (rwk_is_quantized(m->element)) {
        const size_t blocks = rwk_quant_groups(m->rows / 2) * rwk_quant_blocks(m->cols);
        m->data = (const char *)m->data + blocks * rwk_quant_block_bytes(m->element);
        m->scales = (const char *)m->scales + blocks * rwk_quant_scale_bytes();
    } else {
        const size_t size = rwk_element_bytes(m->element);
        m->data = (const char *)m->data + m->rows / 2 * (m->transposed ? 1 : m->stride) * size;
    }
    m->rows /= 2;
}

static enum rwk_status bind_matrix(const struct rwk_binder *b, const struct rwk_weight_row *row,
                                   const struct rwk_tensor *t, struct rwk_matrix *slots)
{
    struct rwk_matrix whole = { .rows = (uint32_t)dimension(b->facts, row->rows),
                                .cols = (uint32_t)dimension(b->facts, row->cols) };
    bool packed = b->packed != RWK_ELEMENT_F32 && t->dtype == RWK_DTYPE_U8;
    enum rwk_status status =
        packed ? view_packed(b, row, t, &whole) : view_stored(b, row, t, &whole);
    if (!status && !packed && b->quantizer->element != RWK_ELEMENT_F32 && is_multiplied(b, row) &&
        splits_evenly(row, whole.rows)) {
        status = rwk_quantize_matrix(b->quantizer, &whole, b->error);
        rwk_file_release(t->file, t->data, (size_t)t->n_bytes);
    }
    if (status)
        return status;
    b->model->n_quantized += rwk_is_quantized(whole.element);
    if (rwk_is_quantized(whole.element))
        b->quantized[t - b->weights->tensors] = whole;
    if (row->flags & RWK_SPLIT_GATE_UP) {
        slots[RWK_M_UP] = slots[RWK_M_GATE] = whole;
        slots[RWK_M_GATE].rows /= 2;
        take_lower_half(&slots[RWK_M_UP]);
    } else {
        slots[row->slot] = whole;
    }
    return RWK_STATUS_OK;
}

/* ---- vectors ---- */

/* Floats of the vector that a slot holds when all its parts are there. */
static size_t vector_size(const struct rwk_binder *b, const struct rwk_weight_row *row)
{
    if (row->flags & RWK_PER_HEAD)
        return (size_t)(dimension(b->facts, row->rows) * b->facts->head_dim);
    if (row->slot == RWK_V_QKV_BIAS && strchr(row->name, '%'))
        return rwk_qkv_size(b->model);
    return (size_t)(dimension(b->facts, row->rows) * dimension(b->facts, row->cols));
}

/* Where a part begins in its slot's vector. */
static size_t vector_offset(const struct rwk_binder *b, const struct rwk_weight_row *row,
                            uint32_t head)
{
    size_t q = (size_t)dimension(b->facts, RWK_DIM_Q), kv = (size_t)dimension(b->facts, RWK_DIM_KV);
    return row->flags & RWK_PART_K     ? q
           : row->flags & RWK_PART_V   ? q + kv
           : row->flags & RWK_PER_HEAD ? (size_t)head * b->facts->head_dim
                                       : 0;
}

static enum rwk_status bind_vector(const struct rwk_binder *b, const struct rwk_weight_row *row,
                                   const struct rwk_tensor *t, uint32_t head, const float **slot)
{
    enum rwk_element element = RWK_ELEMENT_F32;
    uint64_t rows = row->flags & RWK_PER_HEAD ? b->facts->head_dim : dimension(b->facts, row->rows);
    uint64_t cols = row->cols != RWK_DIM_NONE ? dimension(b->facts, row->cols) : 0;
    enum rwk_status status = check_shape(b, t, (const uint64_t[]) { rows, cols }, cols ? 2 : 1);
    if (!status)
        status = element_of(b, t, &element);
    if (status)
        return status;
    size_t n = (size_t)(rows * (cols ? cols : 1)), whole = vector_size(b, row);
    float *vector = (float *)*slot;
    if (!vector) {
        vector = rwk_arena_calloc(b->arena, rwk_round_up(whole, RWK_VECTOR_FLOATS), sizeof *vector);
        if (!vector)
            return rwk_fail_nomem(b->error, whole * sizeof *vector);
        b->model->copied_bytes += whole * sizeof *vector;
        *slot = vector;
    }
    float *part = vector + vector_offset(b, row, head);
    b->model->kernels->widen[element](part, t->data, n);
    if (row->flags & RWK_NORM_WEIGHT && b->facts->norm_weight_offset != 0)
        for (size_t i = 0; i < n; i++)
            part[i] += b->facts->norm_weight_offset;
    return RWK_STATUS_OK;
}

/* ---- rows ---- */

static enum rwk_status bind_row(const struct rwk_binder *b, const struct rwk_weight_row *row,
                                uint32_t layer, struct rwk_matrix *matrices, const float **vectors)
{
    char name[NAME_SIZE];
    uint32_t parts = row->flags & RWK_PER_HEAD ? (uint32_t)dimension(b->facts, row->rows) : 1;
    for (uint32_t part = 0; part < parts; part++) {
        const struct rwk_tensor *t = find_tensor(b, row, layer, part, name);
        char first[NAME_SIZE];
        if (layer > 0 && row->flags & RWK_OPTIONAL && !t != !find_tensor(b, row, 0, part, first))
            return missing(b, t ? first : name); /* some layers have it and some do not */
        if (!t && part == 0 && row->flags & (RWK_OPTIONAL | RWK_OR_TIED))
            return RWK_STATUS_OK;
        if (!t)
            return missing(b, name);
        enum rwk_status status = row->is_matrix ? bind_matrix(b, row, t, matrices)
                                                : bind_vector(b, row, t, part, &vectors[row->slot]);
        if (status)
            return status;
    }
    return RWK_STATUS_OK;
}

/* The embedding and the head: either stands in for the other where the configuration ties them.
 * Where both are in the file each keeps its own, as the reference does. */
static enum rwk_status tie(const struct rwk_binder *b)
{
    struct rwk_matrix *embed = &b->model->matrix[RWK_M_EMBED],
                      *head = &b->model->matrix[RWK_M_HEAD];
    if (!head->data && b->facts->tied)
        *head = *embed;
    if (!embed->data && b->facts->tied)
        *embed = *head;
    for (const struct rwk_weight_row *row = b->arch->weights; row->name; row++) {
        if (row->is_matrix && is_global(row) &&
            (row->slot == RWK_M_EMBED || row->slot == RWK_M_HEAD) &&
            !b->model->matrix[row->slot].data) {
            char name[NAME_SIZE];
            find_tensor(b, row, 0, 0, name);
            return missing(b, name);
        }
    }
    return RWK_STATUS_OK;
}

static bool wanted(const struct rwk_binder *b, const struct rwk_weight_row *row)
{
    return !(is_global(row) && row->is_matrix && row->slot == RWK_M_POSITION &&
             strcmp(b->facts->position, "learned") != 0);
}

/* Whether the configuration asks for what some members of the family lack: without it the pass
 * would compute something else, or have nothing to read. */
static bool needed(const struct rwk_facts *f, const struct rwk_weight_row *row)
{
    const bool of_layer[RWK_N_LAYER_VECTORS] = {
        [RWK_V_ATTN_NORM] = f->norms & RWK_HAS_ATTN_NORM,
        [RWK_V_ATTN_POST] = f->norms & RWK_HAS_ATTN_POST,
        [RWK_V_FFN_NORM] = f->norms & RWK_HAS_FFN_NORM && f->block != RWK_BLOCK_PARALLEL,
        [RWK_V_FFN_POST] = f->norms & RWK_HAS_FFN_POST,
        [RWK_V_Q_NORM] = f->qk_norm != RWK_QK_NORM_NONE,
        [RWK_V_K_NORM] = f->qk_norm != RWK_QK_NORM_NONE,
    };
    if (row->is_matrix)
        return is_global(row) && f->word_size != f->hidden_size &&
               (row->slot == RWK_M_PROJECT_IN || row->slot == RWK_M_PROJECT_OUT);
    if (is_global(row))
        return row->slot == RWK_V_FINAL_NORM && f->norms & RWK_HAS_FINAL_NORM;
    return of_layer[row->slot];
}

/* The head has no tensor of its own, and the embedding takes its place. */
static bool embedding_is_head(const struct rwk_binder *b)
{
    char name[NAME_SIZE];
    for (const struct rwk_weight_row *row = b->arch->weights; row->name; row++)
        if (row->is_matrix && is_global(row) && row->slot == RWK_M_HEAD &&
            find_tensor(b, row, 0, 0, name))
            return false;
    return b->facts->tied;
}

enum rwk_status rwk_bind(struct rwk_binder *b)
{
    struct rwk_model *model = b->model;
    enum rwk_status status = RWK_STATUS_OK;
    b->embedding_is_head = embedding_is_head(b);
    for (const struct rwk_weight_row *r = b->arch->weights; r->name && !status; r++) {
        struct rwk_weight_row row = *r;
        if (!wanted(b, &row))
            continue;
        if (needed(b->facts, &row))
            row.flags &= ~(unsigned)RWK_OPTIONAL;
        if (is_global(&row)) {
            if (row.is_matrix && row.slot == RWK_M_EMBED && b->facts->tied)
                row.flags |= RWK_OR_TIED;
            status = bind_row(b, &row, 0, model->matrix, model->vector);
            continue;
        }
        for (uint32_t l = 0; l < b->facts->n_layers && !status; l++)
            status = bind_row(b, &row, l, model->layers[l].matrix, model->layers[l].vector);
    }
    return status ? status : tie(b);
}
