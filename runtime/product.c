/* Matrix products of a pass: rows of activations are brought into the form that the weights'
 * element type wants, then the output rows of up to three matrices are spread over the workers in
 * one parallel region.
 *
 *   x [rows][n] --prepare--> prepared [rows] --matmul, ranges of outputs--> y_i [rows][rows of w_i]
 */
#include "runtime/decoder.h"

enum {
    PRODUCT_GRAIN = 16, /* output rows to a task */
    PRODUCT_STEP = 256  /* output rows between two looks at the cancel flag */
};

/* How this pass multiplies with w. */
static enum rwk_element element_of(const struct rwk_pass *pass, const struct rwk_matrix *w)
{
    static const enum rwk_element wide[RWK_N_ELEMENTS] = { [RWK_ELEMENT_F32] = RWK_ELEMENT_F32,
                                                           [RWK_ELEMENT_F16] = RWK_ELEMENT_F16,
                                                           [RWK_ELEMENT_BF16] = RWK_ELEMENT_BF16,
                                                           [RWK_ELEMENT_Q8] = RWK_ELEMENT_Q8_WIDE,
                                                           [RWK_ELEMENT_Q4] = RWK_ELEMENT_Q4_WIDE };
    return pass->wide ? wide[w->element] : w->element;
}

void rwk_product_prepare(const struct rwk_pass *pass, const struct rwk_matrix *w, uint32_t row,
                         const float *x, uint32_t n)
{
    struct rwk_workspace *ws = pass->ws;
    pass->model->kernels->prepare[element_of(pass, w)](ws->prepared + row * ws->prepared_stride, x,
                                                       n);
}

struct prepare_job {
    const struct rwk_pass *pass;
    const struct rwk_matrix *w;
    const float *x;
    size_t x_stride;
};

static void prepare_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct prepare_job *job = arg;
    (void)worker;
    for (uint32_t t = begin; t < end; t++)
        rwk_product_prepare(job->pass, job->w, t, job->x + t * job->x_stride, job->w->cols);
}

struct product_job {
    const struct rwk_pass *pass;
    const struct rwk_product *products;
    uint32_t n_products;
    uint32_t n_rows;
};

static uint32_t n_tasks(const struct rwk_matrix *w)
{
    return (w->rows + PRODUCT_GRAIN - 1) / PRODUCT_GRAIN;
}

static void multiply(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct product_job *job = arg;
    const struct rwk_workspace *ws = job->pass->ws;
    void *scratch = ws->kernel_scratch + (size_t)worker * RWK_KERNEL_SCRATCH;
    uint32_t first = 0; /* task at which the present matrix begins */
    for (uint32_t i = 0; i < job->n_products; first += n_tasks(job->products[i++].w)) {
        const struct rwk_product *p = &job->products[i];
        uint32_t last = first + n_tasks(p->w);
        if (begin >= last || end <= first)
            continue;
        struct rwk_matmul m = { .w = p->w,
                                .x = ws->prepared,
                                .x_stride = ws->prepared_stride,
                                .y = p->y,
                                .y_stride = p->y_stride,
                                .n_tokens = job->n_rows };
        uint32_t from = ((begin > first ? begin : first) - first) * PRODUCT_GRAIN;
        uint32_t to = ((end < last ? end : last) - first) * PRODUCT_GRAIN;
        to = to < p->w->rows ? to : p->w->rows;
        for (uint32_t r = from; r < to && !rwk_pass_cancelled(job->pass); r += PRODUCT_STEP)
            job->pass->model->kernels->matmul[element_of(job->pass, p->w)][p->w->transposed](
                &m, r, to - r < PRODUCT_STEP ? to : r + PRODUCT_STEP, scratch);
    }
}

void rwk_product_run(const struct rwk_pass *pass, const struct rwk_product *products,
                     uint32_t n_products, uint32_t n_rows, const float *x, size_t x_stride,
                     bool prepared)
{
    for (uint32_t i = 0, next; i < n_products; i = next) {
        /* Matrices of one element type share the prepared rows and the parallel region. */
        uint32_t tasks = n_tasks(products[i].w);
        for (next = i + 1; next < n_products && products[next].w->element == products[i].w->element;
             next++)
            tasks += n_tasks(products[next].w);
        if (i > 0 || !prepared) {
            struct prepare_job prepare = { pass, products[i].w, x, x_stride };
            rwk_pass_rows(pass, n_rows, prepare_rows, &prepare);
        }
        struct product_job job = { pass, products + i, next - i, n_rows };
        rwk_run(pass->executor, tasks, multiply, &job);
    }
}
