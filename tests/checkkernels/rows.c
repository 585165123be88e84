/* Norms and element-wise operations on rows of every length, in place and not, at every alignment a
 * float can have. */
#include "check.h"

static bool near(float y, double right, double roundoffs, double scale)
{
    return fabs((double)y - right) <= roundoffs * ROUNDOFF * scale;
}

struct row {
    struct buffer x, y, w, b;
    uint32_t n;
};

static struct row row_open(struct context *c, uint32_t n)
{
    struct row r = { buffer_open(n * 4, 4, 0), buffer_open(n * 4, 4, 0), buffer_open(n * 4, 4, 0),
                     buffer_open(n * 4, 4, 0), n };
    random_floats(c, (float *)r.x.p, n, 1);
    random_floats(c, (float *)r.w.p, n, 1);
    random_floats(c, (float *)r.b.p, n, 1);
    return r;
}

static void row_close(struct context *c, struct row *r)
{
    claim(c,
          buffer_intact(&r->x) && buffer_intact(&r->y) && buffer_intact(&r->w) &&
              buffer_intact(&r->b),
          "rows of %u stay inside", r->n);
    buffer_close(&r->x);
    buffer_close(&r->y);
    buffer_close(&r->w);
    buffer_close(&r->b);
}

static void check_norms(struct context *c, uint32_t n)
{
    struct row r = row_open(c, n);
    const float *x = (float *)r.x.p, *w = (float *)r.w.p, *b = (float *)r.b.p, eps = 1e-5f;
    float *y = (float *)r.y.p;
    double squares = 0, sum = 0, variance = 0;
    for (uint32_t i = 0; i < n; i++) {
        squares += (double)x[i] * (double)x[i];
        sum += (double)x[i];
    }
    double mean = sum / n, rms = sqrt(squares / n + (double)eps);
    for (uint32_t i = 0; i < n; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean);
    double deviation = sqrt(variance / n + (double)eps);
    for (int with = 0; with < 2; with++) {
        c->k->rms_norm(y, x, with ? w : NULL, n, eps);
        for (uint32_t i = 0; i < n; i++) {
            double right = (double)x[i] / rms * (with ? (double)w[i] : 1);
            claim(c, near(y[i], right, 4, fabs(right)), "rms_norm of %u", n);
        }
        c->k->layer_norm(y, x, with ? w : NULL, with ? b : NULL, n, eps);
        for (uint32_t i = 0; i < n; i++) {
            double scale = with ? fabs((double)w[i]) : 1,
                   right = ((double)x[i] - mean) / deviation * (with ? (double)w[i] : 1);
            double shift = with ? (double)b[i] : 0;
            claim(c,
                  near(y[i], right + shift, 4,
                       fabs(right) + fabs(shift) + fabs(mean) / deviation * scale),
                  "layer_norm of %u", n);
        }
    }
    float *copy = malloc((n + 1) * sizeof *copy);
    memcpy(copy, x, n * sizeof *copy);
    c->k->layer_norm(copy, copy, w, b, n, eps);
    claim(c, memcmp(copy, y, n * sizeof *copy) == 0, "layer_norm of %u in place", n);
    free(copy);
    row_close(c, &r);
}

/* Mean far larger than the deviation: what one pass over x would lose. */
static void check_offset(struct context *c)
{
    float x[100], y[100];
    double mean = 0, variance = 0;
    for (int i = 0; i < 100; i++)
        mean += (double)(x[i] = 4096 + random_float(c, 1)) / 100;
    for (int i = 0; i < 100; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / 100;
    c->k->layer_norm(y, x, NULL, NULL, 100, 0);
    for (int i = 0; i < 100; i++) /* the mean itself is a float32 */
        claim(c, near(y[i], ((double)x[i] - mean) / sqrt(variance), 2, 4096 / sqrt(variance)),
              "layer_norm of a far mean");
}

static void check_elementwise(struct context *c, uint32_t n)
{
    struct row r = row_open(c, n);
    const float *x = (float *)r.x.p, *w = (float *)r.w.p;
    float *y = (float *)r.y.p;
    float s = random_float(c, 1), limit = 0.4f;
    bool right = true;
    memcpy(y, w, n * sizeof *y);
    c->k->add(y, x, n);
    for (uint32_t i = 0; i < n; i++)
        right = right && y[i] == w[i] + x[i];
    memcpy(y, w, n * sizeof *y);
    c->k->add_scaled(y, x, s, n);
    for (uint32_t i = 0; i < n; i++)
        right = right && near(y[i], (double)w[i] + (double)s * (double)x[i], 2,
                              fabs((double)w[i]) + fabs((double)(s * x[i])));
    memcpy(y, w, n * sizeof *y);
    c->k->scale(y, s, n);
    for (uint32_t i = 0; i < n; i++)
        right = right && y[i] == w[i] * s;
    memcpy(y, w, n * sizeof *y);
    c->k->clip(y, limit, n);
    for (uint32_t i = 0; i < n; i++)
        right = right && y[i] == (w[i] > limit ? limit : w[i] < -limit ? -limit : w[i]);
    for (int a = 0; a < RWK_N_ACTIVATIONS; a++) {
        float *z = malloc((n + 1) * sizeof *z);
        c->k->activate[a](z, x, n);
        c->k->gate[a](y, x, w, n);
        for (uint32_t i = 0; i < n; i++)
            right = right && y[i] == z[i] * w[i];
        free(z);
    }
    claim(c, right, "element-wise operations on %u", n);
    row_close(c, &r);
}

static void check_rotations(struct context *c, uint32_t n_pairs)
{
    struct row r = row_open(c, 2 * n_pairs);
    const float *x = (float *)r.x.p, *cosine = (float *)r.w.p, *sine = (float *)r.b.p;
    float *y = (float *)r.y.p;
    for (int half = 0; half < 2; half++) {
        memcpy(y, x, 2 * n_pairs * sizeof *y);
        (half ? c->k->rotate_half : c->k->rotate_pair)(y, cosine, sine, n_pairs);
        for (uint32_t m = 0; m < n_pairs; m++) {
            uint32_t i = half ? m : 2 * m, j = half ? m + n_pairs : 2 * m + 1;
            double a = (double)x[i], b = (double)x[j], co = (double)cosine[m], si = (double)sine[m];
            claim(c,
                  near(y[i], a * co - b * si, 3, fabs(a * co) + fabs(b * si)) &&
                      near(y[j], b * co + a * si, 3, fabs(b * co) + fabs(a * si)),
                  "rotate %s of %u", half ? "half" : "pair", n_pairs);
        }
    }
    row_close(c, &r);
}

static void check_log_sum(struct context *c, uint32_t n)
{
    struct row r = row_open(c, n);
    float *x = (float *)r.x.p, max, right_max = -INFINITY;
    double sum, right = 0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= 20;
        right_max = x[i] > right_max ? x[i] : right_max;
    }
    for (uint32_t i = 0; i < n; i++)
        right += exp((double)x[i] - (double)right_max);
    c->k->log_sum(x, n, &max, &sum);
    claim(c, n == 0 || (max == right_max && fabs(sum - right) <= 8 * ROUNDOFF * right),
          "log_sum of %u: %g, not %g", n, sum, right);
    if (n > 0) {
        x[n / 2] = NAN;
        c->k->log_sum(x, n, &max, &sum);
        claim(c, isnan(sum), "log_sum of %u with NaN", n);
    }
    row_close(c, &r);
}

void check_rows(struct context *c)
{
    for (uint32_t n = 0; n < 100; n++) {
        if (n > 0)
            check_norms(c, n);
        check_elementwise(c, n);
        check_rotations(c, n);
        check_log_sum(c, n);
    }
    check_norms(c, 4096);
    check_norms(c, 5003);
    check_log_sum(c, 50257);
    check_offset(c);
}
