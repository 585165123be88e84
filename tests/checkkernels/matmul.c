/* Matrix products: against double, and bit for bit however tokens and rows are split.
 *
 * Bound: the error of a float32 sum of K products in lanes is at most about (K / lanes + log2 lanes + 1) roundoffs of the sum
 * of absolute terms; random rounding stays far below. The claims use 4 roundoffs, 8 where one lane runs over all of K. */
#include "check.h"

struct product {
    enum rwk_element e;
    bool transposed;
    uint32_t rows, cols, n_tokens;
    struct buffer w, x, scratch;
    struct rwk_matrix matrix;
    size_t x_stride;
    double *weights; /* [rows][cols] */
    float *inputs;   /* [n_tokens][cols] */
};

static struct product product_open(struct context *c, enum rwk_element e, bool transposed, uint32_t rows, uint32_t cols,
                                   uint32_t n_tokens)
{
    struct product p = { .e = e, .transposed = transposed, .rows = rows, .cols = cols, .n_tokens = n_tokens };
    uint32_t outer = transposed ? cols : rows, inner = transposed ? rows : cols;
    size_t stride = inner + random_below(c, 3), size = element_bytes(e);
    size_t n = outer ? (outer - 1) * stride + inner : 0;
    p.w = buffer_open(n * size, 1, 0); /* ends at the end of memory, at whatever alignment that gives */
    if (random_below(c, 2)) {
        buffer_close(&p.w);
        p.w = buffer_open(n * size, 64, 1 + random_below(c, 63));
    }
    double *flat = malloc((n + 1) * sizeof *flat);
    random_elements(c, e, p.w.p, flat, n);
    p.weights = malloc(((size_t)rows * cols + 1) * sizeof *p.weights);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < cols; k++)
            p.weights[(size_t)r * cols + k] = flat[transposed ? k * stride + r : r * stride + k];
    free(flat);
    p.inputs = malloc(((size_t)n_tokens * cols + 1) * sizeof *p.inputs);
    random_floats(c, p.inputs, (size_t)n_tokens * cols, 1);
    p.x_stride = c->k->prepared_size[e](cols);
    claim(c, p.x_stride % 64 == 0 && p.x_stride >= cols * sizeof(float), "prepared size of %u", cols);
    p.x = buffer_aligned(n_tokens * p.x_stride);
    for (uint32_t t = 0; t < n_tokens; t++)
        c->k->prepare[e](p.x.p + t * p.x_stride, p.inputs + (size_t)t * cols, cols);
    claim(c, buffer_intact(&p.x), "prepare %s stays inside %u", element_name(e), cols);
    p.scratch = buffer_aligned(RWK_KERNEL_SCRATCH);
    p.matrix = (struct rwk_matrix){ .data = p.w.p, .element = e, .transposed = transposed, .rows = rows, .cols = cols,
                                    .stride = stride };
    return p;
}

static void product_close(struct product *p)
{
    buffer_close(&p->w);
    buffer_close(&p->x);
    buffer_close(&p->scratch);
    free(p->weights);
    free(p->inputs);
}

static void run(struct context *c, struct product *p, float *y, size_t y_stride, uint32_t token, uint32_t n_tokens,
                uint32_t row_begin, uint32_t row_end)
{
    struct rwk_matmul m = { .w = &p->matrix, .x = p->x.p + token * p->x_stride, .x_stride = p->x_stride,
                            .y = y + token * y_stride, .y_stride = y_stride, .n_tokens = n_tokens };
    memset(p->scratch.p, 0xff, p->scratch.size); /* NaN, should anything be read before it is written */
    c->k->matmul[p->e][p->transposed](&m, row_begin, row_end, p->scratch.p);
}

static void check_product(struct context *c, enum rwk_element e, bool transposed, uint32_t rows, uint32_t cols, uint32_t n_tokens)
{
    struct product p = product_open(c, e, transposed, rows, cols, n_tokens);
    size_t y_stride = rows + random_below(c, 5), y_size = ((n_tokens - 1) * y_stride + rows) * sizeof(float);
    struct buffer whole = buffer_open(y_size, 4, 0), split = buffer_open(y_size, 4, 0);
    float *y = (float *)whole.p, *z = (float *)split.p;
    char name[96];
    snprintf(name, sizeof name, "matmul %s%s [%u][%u] x %u", element_name(e), transposed ? " transposed" : "", rows, cols, n_tokens);

    run(c, &p, y, y_stride, 0, n_tokens, 0, rows);
    claim(c, buffer_intact(&whole) && buffer_intact(&p.scratch), "%s stays inside its buffers", name);
    double bound = (transposed ? 8 : 4) * ROUNDOFF, worst = 0;
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t r = 0; r < rows; r++) {
            double sum = 0, absolute = 0;
            for (uint32_t k = 0; k < cols; k++) {
                double term = p.weights[(size_t)r * cols + k] * (double)p.inputs[(size_t)t * cols + k];
                sum += term;
                absolute += fabs(term);
            }
            double error = fabs((double)y[t * y_stride + r] - sum);
            if (!(error <= worst * (absolute + 1e-30)))
                worst = error / (absolute + 1e-30);
        }
    claim(c, worst <= bound, "%s errs by %.1f roundoffs of its terms", name, worst / ROUNDOFF);

    /* Tokens and rows cut at random. */
    for (uint32_t t = 0, n; t < n_tokens; t += n) {
        n = 1 + random_below(c, n_tokens - t < 14 ? n_tokens - t : 14);
        for (uint32_t r = 0, m; r < rows; r += m) {
            m = 1 + random_below(c, rows - r);
            run(c, &p, z, y_stride, t, n, r, r + m);
        }
    }
    claim(c, buffer_intact(&split), "%s in pieces stays inside its buffers", name);
    bool same = true;
    for (uint32_t t = 0; t < n_tokens; t++)
        same = same && memcmp(y + t * y_stride, z + t * y_stride, rows * sizeof *y) == 0;
    claim(c, same, "%s gives the same bits in pieces", name);
    buffer_close(&whole);
    buffer_close(&split);
    product_close(&p);
}

/* y outside the columns asked for is not touched. */
static void check_untouched(struct context *c, enum rwk_element e, bool transposed)
{
    struct product p = product_open(c, e, transposed, 70, 33, 8);
    struct buffer out = buffer_open(8 * 70 * sizeof(float), 4, 0);
    for (uint32_t n = 1; n <= 8; n++) {
        memset(out.p, 0xa5, out.size);
        run(c, &p, (float *)out.p, 70, 0, n, 3, 69);
        bool untouched = true;
        for (uint32_t i = 0; i < 8 * 70; i++)
            if (i / 70 >= n || i % 70 < 3 || i % 70 >= 69)
                untouched = untouched && memcmp(out.p + 4 * i, "\xa5\xa5\xa5\xa5", 4) == 0;
        claim(c, untouched, "matmul %s%s x %u writes only its rows", element_name(e), transposed ? " transposed" : "", n);
    }
    buffer_close(&out);
    product_close(&p);
}

void check_matmul(struct context *c)
{
    static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 52, 64, 67, 97, 127, 129, 257 };
    static const uint32_t tokens[] = { 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 19, 97 };
    for (enum rwk_element e = RWK_ELEMENT_F32; e <= RWK_ELEMENT_BF16; e++)
        for (int transposed = 0; transposed < 2; transposed++) {
            for (size_t i = 0; i < COUNT(sizes); i++)
                for (size_t t = 0; t < COUNT(tokens); t++)
                    check_product(c, e, transposed, sizes[random_below(c, COUNT(sizes))], sizes[i], tokens[t]);
            /* beyond the blocks of K, rows and tokens */
            check_product(c, e, transposed, 37, 1023, 7);
            check_product(c, e, transposed, 37, 1025, 13);
            check_product(c, e, transposed, 11, 2048, 9);
            check_product(c, e, transposed, 67, 4099, 7);
            check_product(c, e, transposed, 5, 14337, 8);
            check_product(c, e, transposed, 3, 300, 211);
            check_untouched(c, e, transposed);
        }
}
