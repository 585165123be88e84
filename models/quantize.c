/* See quantize.h. One group of rows after the other, spread over the workers: widened into the
 * worker's scratch, quantised into its place. What a group becomes depends on its own numbers only.
 */
#include "models/quantize.h"

#include <string.h>
#include "runtime/base/error.h"

enum { GROUPS_AT_ONCE = 256 }; /* between two reports of progress */

size_t rwk_quant_data_bytes(const struct rwk_matrix *m)
{
    return rwk_quant_groups(m->rows) * rwk_quant_blocks(m->cols) *
           rwk_quant_block_bytes(m->element);
}

size_t rwk_quant_scales_bytes(const struct rwk_matrix *m)
{
    return rwk_quant_groups(m->rows) * rwk_quant_blocks(m->cols) * rwk_quant_scale_bytes();
}

struct quantize_job {
    const struct rwk_quantizer *q;
    const struct rwk_matrix *from, *to;
    float *scratch; /* [workers][RWK_QUANT_ROWS][stride] */
    size_t stride;
    uint32_t first; /* group of task 0 */
};

/* Rows [row, row + RWK_QUANT_ROWS) as floats; rows beyond the matrix are zero. */
static void widen_group(const struct quantize_job *job, size_t row, float *to)
{
    const struct rwk_matrix *w = job->from;
    size_t n = w->rows - row < RWK_QUANT_ROWS ? w->rows - row : RWK_QUANT_ROWS;
    if (n < RWK_QUANT_ROWS)
        memset(to, 0, RWK_QUANT_ROWS * job->stride * sizeof *to);
    if (!w->transposed) {
        for (size_t r = 0; r < n; r++)
            rwk_matrix_row(job->q->kernels, w, row + r, to + r * job->stride);
        return;
    }
    /* Stored by columns: of each, the numbers of these rows. */
    const size_t size = rwk_element_bytes(w->element);
    for (size_t k = 0; k < w->cols; k++) {
        float column[RWK_QUANT_ROWS];
        job->q->kernels->widen[w->element](column,
                                           (const char *)w->data + (k * w->stride + row) * size, n);
        for (size_t r = 0; r < n; r++)
            to[r * job->stride + k] = column[r];
    }
}

static void quantize_groups(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct quantize_job *job = arg;
    float *rows = job->scratch + worker * RWK_QUANT_ROWS * job->stride;
    const size_t blocks = rwk_quant_blocks(job->to->cols);
    for (size_t g = job->first + begin; g < job->first + end; g++) {
        widen_group(job, g * RWK_QUANT_ROWS, rows);
        job->q->kernels->quantize[job->to->element](
            (unsigned char *)job->to->data + g * blocks * rwk_quant_block_bytes(job->to->element),
            (unsigned char *)job->to->scales + g * blocks * rwk_quant_scale_bytes(), rows,
            job->stride, job->to->cols);
    }
}

enum rwk_status rwk_quantize_matrix(struct rwk_quantizer *q, struct rwk_matrix *matrix,
                                    struct rwk_error *error)
{
    struct rwk_matrix to = { .element = q->element, .rows = matrix->rows, .cols = matrix->cols };
    const size_t data = rwk_quant_data_bytes(&to), scales = rwk_quant_scales_bytes(&to), line = 64;
    q->bytes += data + scales;
    if (q->plans_only) {
        to.data = matrix->data;
        *matrix = to;
        return RWK_STATUS_OK;
    }
    unsigned char *block = rwk_arena_alloc(q->arena, data + scales + line);
    struct quantize_job job = {
        .q = q, .from = matrix, .to = &to, .stride = rwk_round_up(matrix->cols, RWK_VECTOR_FLOATS)
    };
    job.scratch = rwk_alloc(q->memory, q->executor.n_workers * RWK_QUANT_ROWS * job.stride *
                                           sizeof *job.scratch);
    if (!block || !job.scratch) {
        rwk_free(q->memory, job.scratch);
        return rwk_fail_nomem(error, data + scales);
    }
    to.data = block + (line - (uintptr_t)block % line) % line;
    to.scales = (const char *)to.data + data;
    enum rwk_status status = RWK_STATUS_OK;
    const uint32_t groups = (uint32_t)rwk_quant_groups(to.rows);
    const uint64_t bytes =
        (uint64_t)matrix->rows * matrix->cols * rwk_element_bytes(matrix->element);
    for (; job.first < groups && !status; job.first += GROUPS_AT_ONCE) {
        uint32_t left = groups - job.first, n = left < GROUPS_AT_ONCE ? left : GROUPS_AT_ONCE;
        rwk_run(&q->executor, n, quantize_groups, &job);
        const uint64_t before = bytes * job.first / groups,
                       after = bytes * (job.first + n) / groups;
        if (!rwk_progress_add(q->progress, after - before))
            status = rwk_fail(error, RWK_STATUS_CANCELLED, NULL, "opening the model was cancelled");
    }
    rwk_free(q->memory, job.scratch);
    if (status)
        return status;
    *matrix = to;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_quant_config(enum rwk_element *ret, const struct rwk_node *config,
                                 const char *file, struct rwk_error *error)
{
    static const char *const keys[] = { "quantization_config", "quantization",
                                        "compression_config" };
    *ret = RWK_ELEMENT_F32;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct rwk_node *node = rwk_tree_member(config, keys[i]);
        const struct rwk_node *method = rwk_tree_find(node, "quant_method"),
                              *bits = rwk_tree_find(node, "bits");
        if (!node || node->type == RWK_JSON_NULL)
            continue;
        bool named = method && method->type == RWK_JSON_STRING;
        if (!named || strcmp(method->string, RWK_QUANT_METHOD) != 0)
            return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, keys[i],
                               "weights quantised by \"%.40s\" are not "
                               "supported",
                               named ? method->string : "?");
        if (!bits || !bits->is_integer || (bits->integer != 8 && bits->integer != 4))
            return rwk_fail_on(error, RWK_STATUS_FORMAT, file, keys[i], "\"bits\" must be 8 or 4");
        *ret = bits->integer == 8 ? RWK_ELEMENT_Q8 : RWK_ELEMENT_Q4;
    }
    return RWK_STATUS_OK;
}
