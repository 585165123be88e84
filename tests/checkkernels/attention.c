/* Attention over pages: against double; bit for bit whichever queries stand together and whoever
 * merges the pages; and blind to whatever lies in places of a page that a query does not see (they
 * hold NaN here). */
#include "check.h"
#include "runtime/kernels/kvpage.h"

enum { MAX_PAGES = 4 };

struct scene {
    enum rwk_element e;
    uint32_t head_dim, n_queries, n_pages, n_keys;
    size_t stride;
    struct buffer k[MAX_PAGES], v[MAX_PAGES], scratch;
    float *q, *bias;        /* [n_queries][stride], [pages][n_queries][64] */
    uint32_t *first, *last; /* [pages][n_queries] */
    float softcap;
};

static struct scene scene_open(struct context *c, enum rwk_element e, uint32_t head_dim,
                               uint32_t n_queries)
{
    struct scene s = { .e = e,
                       .head_dim = head_dim,
                       .n_queries = n_queries,
                       .n_pages = 1 + random_below(c, MAX_PAGES),
                       .stride = rwk_kv_value_stride(head_dim),
                       .softcap = random_below(c, 3) ? 0 : 5 };
    s.n_keys = (s.n_pages - 1) * RWK_KEY_BLOCK + 1 + random_below(c, RWK_KEY_BLOCK);
    s.scratch = buffer_aligned(RWK_KERNEL_SCRATCH);
    s.q = aligned_alloc(64, n_queries * s.stride * sizeof(float));
    random_floats(c, s.q, n_queries * s.stride, 1.5f / sqrtf(sqrtf((float)head_dim)));
    float *row = malloc(head_dim * sizeof *row);
    for (uint32_t b = 0; b < s.n_pages; b++) {
        s.k[b] = buffer_aligned(rwk_kv_key_bytes(e, head_dim));
        s.v[b] = buffer_aligned(rwk_kv_value_bytes(e, head_dim));
        memset(s.k[b].p, 0xff, s.k[b].size);
        memset(s.v[b].p, 0xff, s.v[b].size);
        for (uint32_t j = 0; j < RWK_KEY_BLOCK && b * RWK_KEY_BLOCK + j < s.n_keys; j++) {
            random_floats(c, row, head_dim, 1.5f / sqrtf(sqrtf((float)head_dim)));
            c->k->put_key[e](s.k[b].p, j, row, head_dim);
            random_floats(c, row, head_dim, 1);
            c->k->put_value[e](s.v[b].p, j, row, head_dim);
        }
    }
    free(row);
    size_t n = (size_t)s.n_pages * n_queries;
    s.first = malloc(n * sizeof *s.first);
    s.last = malloc(n * sizeof *s.last);
    s.bias = random_below(c, 2) ? malloc(n * RWK_KEY_BLOCK * sizeof *s.bias) : NULL;
    if (s.bias)
        random_floats(c, s.bias, n * RWK_KEY_BLOCK, 1);
    return s;
}

static void scene_close(struct context *c, struct scene *s)
{
    for (uint32_t b = 0; b < s->n_pages; b++) {
        claim(c, buffer_intact(&s->k[b]) && buffer_intact(&s->v[b]),
              "attention leaves pages alone");
        buffer_close(&s->k[b]);
        buffer_close(&s->v[b]);
    }
    claim(c, buffer_intact(&s->scratch), "attention stays inside its scratch");
    buffer_close(&s->scratch);
    free(s->q);
    free(s->bias);
    free(s->first);
    free(s->last);
}

/* Query i sees keys [end - width, end) of all, as rows of a prompt under a window do; or anything
 * at all. */
static void choose_ranges(struct context *c, struct scene *s, bool causal)
{
    uint32_t window = random_below(c, 2) ? UINT32_MAX : 1 + random_below(c, s->n_keys),
             group = 1 + random_below(c, 4);
    for (uint32_t i = 0; i < s->n_queries; i++) {
        uint32_t row = i / group, rows = (s->n_queries + group - 1) / group;
        uint32_t end = s->n_keys > rows - 1 - row ? s->n_keys - (rows - 1 - row) : 1,
                 begin = end > window ? end - window : 0;
        if (!causal) {
            begin = random_below(c, s->n_keys);
            end = begin + 1 + random_below(c, s->n_keys - begin);
        }
        for (uint32_t b = 0; b < s->n_pages; b++) {
            uint32_t from = b * RWK_KEY_BLOCK, to = from + RWK_KEY_BLOCK;
            s->first[b * s->n_queries + i] = begin < from ? 0
                                             : begin < to ? begin - from
                                                          : RWK_KEY_BLOCK;
            s->last[b * s->n_queries + i] = end < from ? 0 : end < to ? end - from : RWK_KEY_BLOCK;
        }
    }
}

struct state {
    float *max, *sum, *out;
};

static struct state state_open(const struct scene *s)
{
    struct state st = { malloc(s->n_queries * 4), calloc(s->n_queries, 4),
                        aligned_alloc(64, s->n_queries * s->stride * 4) };
    for (uint32_t i = 0; i < s->n_queries; i++)
        st.max[i] = -INFINITY;
    memset(st.out, 0, s->n_queries * s->stride * 4);
    return st;
}

static void state_close(struct state *st)
{
    free(st->max);
    free(st->sum);
    free(st->out);
}

/* Queries [i, i + n) over page b. */
static void attend(struct context *c, struct scene *s, struct state *st, uint32_t b, uint32_t i,
                   uint32_t n)
{
    size_t at = (size_t)b * s->n_queries + i;
    struct rwk_attention_block block = {
        .q = s->q + i * s->stride,
        .q_stride = s->stride,
        .k = s->k[b].p,
        .v = s->v[b].p,
        .element = s->e,
        .head_dim = s->head_dim,
        .v_stride = (uint32_t)s->stride,
        .n_queries = n,
        .first = s->first + at,
        .last = s->last + at,
        .bias = s->bias ? s->bias + at * RWK_KEY_BLOCK : NULL,
        .softcap = s->softcap,
        .max = st->max + i,
        .sum = st->sum + i,
        .out = st->out + i * s->stride,
    };
    memset(s->scratch.p, 0xff, s->scratch.size);
    c->k->attention(&block, s->scratch.p);
}

static double stored(const struct scene *s, bool value, uint32_t key, uint32_t d)
{
    uint32_t b = key / RWK_KEY_BLOCK, j = key % RWK_KEY_BLOCK;
    if (s->e == RWK_ELEMENT_Q8)
        return kv_value_q8(value ? s->v[b].p : s->k[b].p, value, s->head_dim, j, d);
    return element_value(s->e, value ? s->v[b].p : s->k[b].p,
                         value ? j * s->stride + d : d * RWK_KEY_BLOCK + j);
}

static bool seen(const struct scene *s, uint32_t i, uint32_t key)
{
    uint32_t b = key / RWK_KEY_BLOCK, j = key % RWK_KEY_BLOCK;
    return j >= s->first[b * s->n_queries + i] && j < s->last[b * s->n_queries + i];
}

/* *terms is raised to the sum of its absolute terms. */
static double score(const struct scene *s, uint32_t i, uint32_t key, double *terms)
{
    double sum = 0, absolute = 0;
    for (uint32_t d = 0; d < s->head_dim; d++) {
        double term = (double)s->q[i * s->stride + d] * stored(s, false, key, d);
        sum += term;
        absolute += fabs(term);
    }
    *terms = fmax(*terms, absolute);
    if (s->softcap > 0)
        sum = (double)s->softcap * tanh(sum / (double)s->softcap);
    if (s->bias)
        sum += (double)s->bias[(((size_t)key / RWK_KEY_BLOCK) * s->n_queries + i) * RWK_KEY_BLOCK +
                               key % RWK_KEY_BLOCK];
    return sum;
}

/* Scores err by some roundoffs of their terms, weights by as much relatively, and exp and the
 * values' sum add their own. */
static void check_query(struct context *c, const struct scene *s, const struct state *st,
                        uint32_t i, const char *name)
{
    double max = -INFINITY, sum = 0, score_terms = 0, *p = calloc(s->n_keys, sizeof *p);
    for (uint32_t j = 0; j < s->n_keys; j++)
        if (seen(s, i, j))
            max = fmax(max, p[j] = score(s, i, j, &score_terms));
    for (uint32_t j = 0; j < s->n_keys; j++)
        sum += p[j] = seen(s, i, j) ? exp(p[j] - max) : 0;
    double worst = 0;
    for (uint32_t d = 0; d < s->head_dim && sum > 0; d++) {
        double right = 0, terms = 0;
        for (uint32_t j = 0; j < s->n_keys; j++) {
            double v = p[j] > 0 ? stored(s, true, j, d) : 0;
            right += p[j] / sum * v;
            terms += p[j] / sum * fabs(v);
        }
        double error = fabs((double)(st->out[i * s->stride + d] / st->sum[i]) - right) /
                       (terms + 1e-30); /* all may be zero */
        worst = error > worst || isnan(error) ? error : worst;
    }
    double bound = 16 + 4 * score_terms;
    claim(c, worst <= bound * ROUNDOFF, "%s errs by %.1f roundoffs of its terms, not %.1f", name,
          worst / ROUNDOFF, bound);
    for (size_t d = s->head_dim; d < s->stride; d++)
        claim(c, st->out[i * s->stride + d] == 0, "%s leaves the padding zero", name);
    free(p);
}

static bool same_state(const struct scene *s, const struct state *a, const struct state *b)
{
    return memcmp(a->max, b->max, s->n_queries * 4) == 0 &&
           memcmp(a->sum, b->sum, s->n_queries * 4) == 0 &&
           memcmp(a->out, b->out, s->n_queries * s->stride * 4) == 0;
}

static void check_scene(struct context *c, enum rwk_element e, uint32_t head_dim,
                        uint32_t n_queries, bool causal)
{
    struct scene s = scene_open(c, e, head_dim, n_queries);
    char name[96];
    choose_ranges(c, &s, causal);
    snprintf(name, sizeof name, "attention %s head_dim %u, %u queries, %u keys", element_name(e),
             head_dim, n_queries, s.n_keys);
    struct state together = state_open(&s), alone = state_open(&s), merged = state_open(&s);
    for (uint32_t b = 0; b < s.n_pages; b++)
        attend(c, &s, &together, b, 0, n_queries);
    for (uint32_t i = 0; i < n_queries; i++)
        check_query(c, &s, &together, i, name);

    for (uint32_t i = 0, n; i < n_queries; i += n) {
        n = 1 + random_below(c, n_queries - i);
        for (uint32_t b = 0; b < s.n_pages; b++)
            attend(c, &s, &alone, b, i, n);
    }
    claim(c, same_state(&s, &together, &alone), "%s gives the same bits in pieces", name);

    for (uint32_t b = 0; b < s.n_pages; b++) {
        struct state page = state_open(&s);
        attend(c, &s, &page, b, 0, n_queries);
        for (uint32_t i = 0; i < n_queries; i++)
            c->k->attention_merge(&merged.max[i], &merged.sum[i], merged.out + i * s.stride,
                                  page.max[i], page.sum[i], page.out + i * s.stride,
                                  (uint32_t)s.stride);
        state_close(&page);
    }
    claim(c, same_state(&s, &together, &merged),
          "%s gives the same bits when pages are merged later", name);
    state_close(&together);
    state_close(&alone);
    state_close(&merged);
    scene_close(c, &s);
}

void check_attention(struct context *c)
{
    static const uint32_t head_dims[] = { 1, 4, 13, 16, 20, 31, 64, 80, 96, 128, 129, 256, 300 };
    static const uint32_t queries[] = { 1, 2, 3, 4, 5, 6, 7, 8, 13, 32 };
    for (enum rwk_element e = RWK_ELEMENT_F32; e <= RWK_ELEMENT_Q8; e++)
        for (size_t h = 0; h < COUNT(head_dims); h++)
            for (size_t q = 0; q < COUNT(queries); q++)
                check_scene(c, e, head_dims[h], queries[q], random_below(c, 4) > 0);
    check_scene(c, RWK_ELEMENT_F16, 2000, 9, true); /* too large to be widened whole */
}
