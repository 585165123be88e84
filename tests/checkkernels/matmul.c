/* Matrix products: against double, and bit for bit however tokens and rows are split.
 *
 * Bound: the error of a float32 sum of K products in lanes is at most about (K / lanes + log2 lanes
 * + 1) roundoffs of the sum of absolute terms; random rounding stays far below. The claims use 4
 * roundoffs, 8 where one lane runs over all of K.
 *
 * Quantised matrices are held against the numbers that their blocks stand for, times activations
 * quantised here by the formula of quant.h. The integers must agree exactly; what is left are
 * roundings of products with scales and of the sum over blocks: some roundoffs of the terms m q_x
 * and s q_w q_x by themselves, which cancel in part. The claims use 4 of these and 1 for the
 * activations' product with their scale, which is formed in float32 here. */
#include "check.h"
#include "runtime/base/half.h"
#include "runtime/kernels/quantlayout.h"

struct product {
    enum rwk_element e;
    bool transposed;
    uint32_t rows, cols, n_tokens;
    struct buffer w, scales, x, scratch;
    struct rwk_matrix matrix;
    size_t x_stride;
    double *weights; /* [rows][cols] */
    float *inputs;   /* [n_tokens][cols] */
};

/* A matrix as files hold it. */
static void open_stored(struct context *c, struct product *p)
{
    uint32_t outer = p->transposed ? p->cols : p->rows, inner = p->transposed ? p->rows : p->cols;
    size_t stride = inner + random_below(c, 3), size = rwk_element_bytes(p->e);
    size_t n = outer ? (outer - 1) * stride + inner : 0;
    p->w = buffer_open(n * size, 1,
                       0); /* ends at the end of memory, at whatever alignment that gives */
    if (random_below(c, 2)) {
        buffer_close(&p->w);
        p->w = buffer_open(n * size, 64, 1 + random_below(c, 63));
    }
    double *flat = malloc((n + 1) * sizeof *flat);
    random_elements(c, p->e, p->w.p, flat, n);
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t k = 0; k < p->cols; k++)
            p->weights[(size_t)r * p->cols + k] =
                flat[p->transposed ? k * stride + r : r * stride + k];
    free(flat);
    p->matrix.stride = stride;
}

/* A matrix quantised by the table; the numbers are read back through rwk_matrix_row. */
static void open_quantized(struct context *c, struct product *p)
{
    enum rwk_element stored = rwk_is_q8(p->e) ? RWK_ELEMENT_Q8 : RWK_ELEMENT_Q4;
    size_t groups = rwk_quant_groups(p->rows), blocks = rwk_quant_blocks(p->cols);
    p->w = buffer_open(groups * blocks * rwk_quant_block_bytes(p->e), 1, 0);
    p->scales = buffer_open(groups * blocks * rwk_quant_scale_bytes(), 1, 0);
    float *rows = calloc((size_t)groups * RWK_QUANT_ROWS * p->cols, sizeof *rows),
          *row = malloc(p->cols * sizeof *row);
    random_floats(c, rows, (size_t)p->rows * p->cols, 1);
    for (size_t g = 0; g < groups; g++)
        c->k->quantize[stored](p->w.p + g * blocks * rwk_quant_block_bytes(p->e),
                               p->scales.p + g * blocks * rwk_quant_scale_bytes(),
                               rows + g * RWK_QUANT_ROWS * p->cols, p->cols, p->cols);
    claim(c, buffer_intact(&p->w) && buffer_intact(&p->scales),
          "quantize %s stays inside its buffers", element_name(p->e));
    p->matrix.data = p->w.p;
    p->matrix.scales = p->scales.p;
    /* Half a step, of which there are 255 or 15 in the block's range; and what rounding to float16
     * does to the minimum and, as often as there are steps, to the scale: half an ulp, 2^-12 of a
     * normal number, 2^-25 of a subnormal one. */
    const double steps = stored == RWK_ELEMENT_Q8 ? 255 : 15;
    double worst = 0;
    for (uint32_t r = 0; r < p->rows; r++) {
        rwk_matrix_row(c->k, &p->matrix, r, row);
        for (uint32_t k = 0; k < p->cols; k += RWK_QUANT_BLOCK) {
            uint32_t end = k + RWK_QUANT_BLOCK < p->cols ? k + RWK_QUANT_BLOCK : p->cols;
            double low = INFINITY, high = -INFINITY;
            if (end == p->cols && p->cols % RWK_QUANT_BLOCK)
                low = high = 0; /* padded */
            for (uint32_t i = k; i < end; i++) {
                low = fmin(low, (double)rows[(size_t)r * p->cols + i]);
                high = fmax(high, (double)rows[(size_t)r * p->cols + i]);
            }
            const double top = fmax(fabs(low), fabs(high));
            const double allowed = 0.5001 * (high - low) / steps +
                                   (high - low + 2 * top) * 0x1p-11 + (steps + 1) * 0x1p-25;
            for (uint32_t i = k; i < end; i++) {
                worst = fmax(worst, fabs((double)rows[(size_t)r * p->cols + i] - (double)row[i]) /
                                        allowed);
                p->weights[(size_t)r * p->cols + i] = (double)row[i];
            }
        }
    }
    claim(c, worst <= 1, "quantize %s is off by %g of what rounding allows", element_name(p->e),
          worst);
    free(rows);
    free(row);
}

/* What a row of activations stands for once it is quantised. */
static void quantize_inputs(float *x, uint32_t n, float most)
{
    for (uint32_t k = 0; k < n; k += RWK_QUANT_BLOCK) {
        float top = 0;
        for (uint32_t i = k; i < n && i < k + RWK_QUANT_BLOCK; i++)
            top = fmaxf(top, fabsf(x[i]));
        for (uint32_t i = k; i < n && i < k + RWK_QUANT_BLOCK; i++)
            x[i] = top > 0 ? nearbyintf(x[i] * (most / top)) * (top / most) : 0;
    }
}

static struct product product_open(struct context *c, enum rwk_element e, bool transposed,
                                   uint32_t rows, uint32_t cols, uint32_t n_tokens)
{
    struct product p = {
        .e = e, .transposed = transposed, .rows = rows, .cols = cols, .n_tokens = n_tokens
    };
    p.weights = malloc(((size_t)rows * cols + 1) * sizeof *p.weights);
    p.matrix =
        (struct rwk_matrix) { .element = e, .transposed = transposed, .rows = rows, .cols = cols };
    if (rwk_is_quantized(e))
        open_quantized(c, &p);
    else
        open_stored(c, &p);
    p.matrix.data = p.w.p;
    p.inputs = malloc(((size_t)n_tokens * cols + 1) * sizeof *p.inputs);
    random_floats(c, p.inputs, (size_t)n_tokens * cols, 1);
    p.x_stride = c->k->prepared_size[e](cols);
    claim(c, p.x_stride % 64 == 0 && p.x_stride >= cols, "prepared size of %u", cols);
    p.x = buffer_aligned(n_tokens * p.x_stride);
    for (uint32_t t = 0; t < n_tokens; t++) {
        c->k->prepare[e](p.x.p + t * p.x_stride, p.inputs + (size_t)t * cols, cols);
        if (e == RWK_ELEMENT_Q8 || e == RWK_ELEMENT_Q4)
            quantize_inputs(p.inputs + (size_t)t * cols, cols, e == RWK_ELEMENT_Q8 ? 2047 : 127);
    }
    claim(c, buffer_intact(&p.x), "prepare %s stays inside %u", element_name(e), cols);
    p.scratch = buffer_aligned(RWK_KERNEL_SCRATCH);
    return p;
}

static void product_close(struct product *p)
{
    buffer_close(&p->w);
    buffer_close(&p->scales);
    buffer_close(&p->x);
    buffer_close(&p->scratch);
    free(p->weights);
    free(p->inputs);
}

static void run(struct context *c, struct product *p, float *y, size_t y_stride, uint32_t token,
                uint32_t n_tokens, uint32_t row_begin, uint32_t row_end)
{
    struct rwk_matmul m = { .w = &p->matrix,
                            .x = p->x.p + token * p->x_stride,
                            .x_stride = p->x_stride,
                            .y = y + token * y_stride,
                            .y_stride = y_stride,
                            .n_tokens = n_tokens };
    memset(p->scratch.p, 0xff,
           p->scratch.size); /* NaN, should anything be read before it is written */
    c->k->matmul[p->e][p->transposed](&m, row_begin, row_end, p->scratch.p);
}

/* The minimum of the block that an element lies in; 0 where there are none. */
static double least_of(const struct product *p, uint32_t row, uint32_t column)
{
    if (p->e != RWK_ELEMENT_Q8 && p->e != RWK_ELEMENT_Q4)
        return 0;
    size_t block = row / RWK_QUANT_ROWS * rwk_quant_blocks(p->cols) + column / RWK_QUANT_BLOCK;
    uint16_t half;
    memcpy(&half,
           p->scales.p + block * rwk_quant_scale_bytes() +
               2 * (RWK_QUANT_ROWS + row % RWK_QUANT_ROWS),
           sizeof half);
    return (double)rwk_f16_to_float(half);
}

static void check_product(struct context *c, enum rwk_element e, bool transposed, uint32_t rows,
                          uint32_t cols, uint32_t n_tokens)
{
    struct product p = product_open(c, e, transposed, rows, cols, n_tokens);
    size_t y_stride = rows + random_below(c, 5),
           y_size = ((n_tokens - 1) * y_stride + rows) * sizeof(float);
    struct buffer whole = buffer_open(y_size, 4, 0), split = buffer_open(y_size, 4, 0);
    float *y = (float *)whole.p, *z = (float *)split.p;
    char name[96];
    snprintf(name, sizeof name, "matmul %s%s [%u][%u] x %u", element_name(e),
             transposed ? " transposed" : "", rows, cols, n_tokens);

    run(c, &p, y, y_stride, 0, n_tokens, 0, rows);
    claim(c, buffer_intact(&whole) && buffer_intact(&p.scratch), "%s stays inside its buffers",
          name);
    bool one_lane = transposed || e == RWK_ELEMENT_Q8_WIDE || e == RWK_ELEMENT_Q4_WIDE;
    double bound = (one_lane ? 8 : rwk_is_quantized(e) ? 5 : 4) * ROUNDOFF, worst = 0;
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t r = 0; r < rows; r++) {
            double sum = 0, absolute = 0;
            for (uint32_t k = 0; k < cols; k++) {
                double term =
                    p.weights[(size_t)r * cols + k] * (double)p.inputs[(size_t)t * cols + k];
                sum += term;
                absolute += fabs(term) +
                            2 * fabs(least_of(&p, r, k) * (double)p.inputs[(size_t)t * cols + k]);
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
            if (rwk_is_quantized(e))
                m = m + RWK_QUANT_ROWS - 1 < rows - r
                        ? (m + RWK_QUANT_ROWS - 1) / RWK_QUANT_ROWS * RWK_QUANT_ROWS
                        : rows - r;
            m = m < rows - r ? m : rows - r;
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
    const uint32_t begin = rwk_is_quantized(e) ? 16 : 3, end = rwk_is_quantized(e) ? 64 : 69;
    struct product p = product_open(c, e, transposed, 70, 33, 8);
    struct buffer out = buffer_open(8 * 70 * sizeof(float), 4, 0);
    for (uint32_t n = 1; n <= 8; n++) {
        memset(out.p, 0xa5, out.size);
        run(c, &p, (float *)out.p, 70, 0, n, begin, end);
        bool untouched = true;
        for (uint32_t i = 0; i < 8 * 70; i++)
            if (i / 70 >= n || i % 70 < begin || i % 70 >= end)
                untouched = untouched && memcmp(out.p + 4 * i, "\xa5\xa5\xa5\xa5", 4) == 0;
        claim(c, untouched, "matmul %s%s x %u writes only its rows", element_name(e),
              transposed ? " transposed" : "", n);
    }
    buffer_close(&out);
    product_close(&p);
}

/* Numbers that are not finite show in every output that they are part of, and in no other. */
static void check_taint(struct context *c, enum rwk_element e)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct product p = product_open(c, e, false, 20, 70, 2);
        float y[2][20];
        bool seen = true;
        p.inputs[40] = bad[i];
        c->k->prepare[e](p.x.p, p.inputs, 70);
        run(c, &p, y[0], 20, 0, 2, 0, 20);
        for (int r = 0; r < 20; r++)
            seen = seen && !isfinite(y[0][r]) && isfinite(y[1][r]);
        claim(c, seen, "%s passes on %f in activations", element_name(e), (double)bad[i]);
        product_close(&p);
    }
}

void check_matmul(struct context *c)
{
    static const uint32_t sizes[] = { 1,  2,  3,  4,  5,  7,  8,  9,  13,  15,  16,
                                      17, 31, 32, 33, 52, 64, 67, 97, 127, 129, 257 };
    static const uint32_t tokens[] = { 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 19, 97 };
    for (enum rwk_element e = RWK_ELEMENT_F32; e < RWK_N_ELEMENTS; e++) {
        check_taint(c, e);
        for (int transposed = 0; transposed < (rwk_is_quantized(e) ? 1 : 2); transposed++) {
            for (size_t i = 0; i < COUNT(sizes); i++)
                for (size_t t = 0; t < COUNT(tokens); t++)
                    check_product(c, e, transposed, sizes[random_below(c, COUNT(sizes))], sizes[i],
                                  tokens[t]);
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
}
