/* The attention core: every position scheme, cache type and shape of batch goes through here.
 *
 * Queries of consecutive rows that share a key/value head are handled together against one page of
 * the cache after the other, in ascending order:
 *
 *   q = scale * ws->qkv[row][q_offset[h]]                                   [n_queries][head_dim]
 *   for each page b: visible range of each query; bias of the scheme; kernels->attention
 *       -> running max, sum, out
 *   ws->heads[row][h * head_dim ..] = out / sum
 *
 * Pages are counted from position 0, never from the window or the chunk, and merged in ascending
 * order by one formula. So the bits do not depend on who did which pages: when there are too few
 * heads for the workers, single pages are computed apart and merged afterwards by the same formula
 * (a state that saw one page is exactly that page's partial result). */
#include "runtime/decoder.h"

#include <math.h>

static size_t v_stride(const struct rwk_model *m)
{
    return rwk_round_up(m->head_dim, RWK_VECTOR_FLOATS);
}

static uint32_t group_size(const struct rwk_model *m) { return m->n_heads / m->n_kv_heads; }

static uint32_t max_queries(const struct rwk_model *m)
{
    return group_size(m) > RWK_QUERY_BLOCK ? group_size(m) : RWK_QUERY_BLOCK;
}

/* A worker's own buffers for one unit and head. */
struct queries {
    uint32_t n;
    float *q;            /* [n][v_stride] */
    float *out;          /* [n][v_stride] */
    float *bias;         /* [n][RWK_KEY_BLOCK] */
    float *max, *sum;    /* [n] */
    uint32_t *first, *last;
};

size_t rwk_attention_query_bytes(const struct rwk_model *m)
{
    return rwk_round_up((2 * v_stride(m) + RWK_KEY_BLOCK + 4) * sizeof(float) *
                            rwk_round_up(max_queries(m), 16),
                        64);
}

static struct queries queries_at(const struct rwk_pass *pass, uint32_t worker)
{
    const struct rwk_model *m = pass->model;
    size_t n = rwk_round_up(max_queries(m), 16), vs = v_stride(m);
    float *p = (float *)(pass->ws->query_scratch + worker * pass->ws->query_bytes);
    struct queries q = { .q = p, .out = p + n * vs, .bias = p + 2 * n * vs };
    q.max = q.bias + n * RWK_KEY_BLOCK;
    q.sum = q.max + n;
    q.first = (uint32_t *)(q.sum + n);
    q.last = q.first + n;
    return q;
}

uint32_t rwk_attention_units(const struct rwk_pass *pass)
{
    uint32_t n = 0, most = RWK_QUERY_BLOCK / group_size(pass->model);
    most = most ? most : 1;
    for (uint32_t t = 0; t < pass->n_rows; n++) {
        struct rwk_attention_unit *unit = &pass->ws->units[n];
        *unit = (struct rwk_attention_unit){ t, 1 };
        for (t++; t < pass->n_rows && unit->n_rows < most &&
                  pass->rows[t].sequence == pass->rows[t - 1].sequence &&
                  pass->rows[t].position == pass->rows[t - 1].position + 1;
             t++)
            unit->n_rows++;
    }
    return n;
}

/* Query i of a unit is row i / group, head i % group of the key/value head. */
static void gather(const struct rwk_pass *pass, const struct rwk_layer *layer,
                   const struct rwk_attention_unit *unit, uint32_t kv_head, struct queries *qs)
{
    const struct rwk_model *m = pass->model;
    uint32_t group = group_size(m);
    qs->n = unit->n_rows * group;
    for (uint32_t i = 0; i < qs->n; i++) {
        const float *from = pass->ws->qkv + (unit->row_begin + i / group) * pass->ws->qkv_stride +
                            m->q_offset[kv_head * group + i % group];
        float *q = qs->q + i * v_stride(m);
        for (uint32_t d = 0; d < m->head_dim; d++)
            q[d] = from[d] * layer->attention_scale;
    }
}

static void reset(const struct rwk_model *m, uint32_t n, float *max, float *sum, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    for (size_t i = 0; i < n * v_stride(m); i++)
        out[i] = 0;
}

/* One page against all queries, merged into the state max, sum, out. */
static void attend_block(const struct rwk_pass *pass, const struct rwk_layer *layer,
                         const struct rwk_attention_unit *unit, uint32_t kv_head, uint64_t block,
                         const struct queries *qs, float *max, float *sum, float *out,
                         uint32_t worker)
{
    const struct rwk_model *m = pass->model;
    const struct rwk_row *rows = pass->rows + unit->row_begin;
    const struct rwk_kv_cache *cache = &rows->sequence->cache;
    const unsigned char *page = rwk_kv_key_page(cache, layer, kv_head, block);
    uint64_t begin = block * RWK_KEY_BLOCK;
    uint32_t group = group_size(m);
    for (uint32_t i = 0; i < qs->n; i++) {
        uint64_t position = rows[i / group].position,
                 from = rwk_window_begin(layer->window, position);
        qs->first[i] = from > begin
                           ? (uint32_t)(from - begin < RWK_KEY_BLOCK ? from - begin : RWK_KEY_BLOCK)
                           : 0;
        qs->last[i] = position < begin
                          ? 0
                          : (uint32_t)(position - begin < RWK_KEY_BLOCK ? position - begin + 1
                                                                        : RWK_KEY_BLOCK);
        if (m->position.scheme->bias)
            m->position.scheme->bias(&m->position, kv_head * group + i % group, position, begin,
                                     qs->bias + (size_t)i * RWK_KEY_BLOCK);
    }
    struct rwk_attention_block b = {
        .q = qs->q,
        .q_stride = v_stride(m),
        .k = page,
        .v = page + cache->key_bytes,
        .element = cache->element,
        .head_dim = m->head_dim,
        .v_stride = (uint32_t)v_stride(m),
        .n_queries = qs->n,
        .first = qs->first,
        .last = qs->last,
        .bias = m->position.scheme->bias ? qs->bias : NULL,
        .softcap = m->attention_softcap,
        .max = max,
        .sum = sum,
        .out = out,
    };
    m->kernels->attention(&b, pass->ws->kernel_scratch + (size_t)worker * RWK_KERNEL_SCRATCH);
}

/* heads = out / sum */
static void scatter(const struct rwk_pass *pass, const struct rwk_attention_unit *unit,
                    uint32_t kv_head, const struct queries *qs, const float *sum, const float *out)
{
    const struct rwk_model *m = pass->model;
    uint32_t group = group_size(m);
    for (uint32_t i = 0; i < qs->n; i++) {
        float *to = pass->ws->heads + (unit->row_begin + i / group) * pass->ws->heads_stride +
                    (size_t)(kv_head * group + i % group) * m->head_dim;
        const float *from = out + i * v_stride(m);
        for (uint32_t d = 0; d < m->head_dim; d++)
            to[d] = from[d] / sum[i];
    }
}

/* First and one past the last page that any row of the unit sees. */
static uint64_t blocks_begin(const struct rwk_pass *pass, const struct rwk_layer *layer,
                             const struct rwk_attention_unit *u)
{
    return rwk_window_begin(layer->window, pass->rows[u->row_begin].position) / RWK_KEY_BLOCK;
}

static uint64_t blocks_end(const struct rwk_pass *pass, const struct rwk_attention_unit *u)
{
    return pass->rows[u->row_begin + u->n_rows - 1].position / RWK_KEY_BLOCK + 1;
}

struct attention_job {
    const struct rwk_pass *pass;
    const struct rwk_layer *layer;
    uint32_t n_blocks; /* split: pages of the longest unit */
};

/* Task: (unit, key/value head), all pages. */
static void attend_whole(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct attention_job *job = arg;
    const struct rwk_pass *pass = job->pass;
    struct queries qs = queries_at(pass, worker);
    for (uint32_t task = begin; task < end && !rwk_pass_cancelled(pass); task++) {
        const struct rwk_attention_unit *unit = &pass->ws->units[task / pass->model->n_kv_heads];
        uint32_t kv_head = task % pass->model->n_kv_heads;
        gather(pass, job->layer, unit, kv_head, &qs);
        reset(pass->model, qs.n, qs.max, qs.sum, qs.out);
        for (uint64_t b = blocks_begin(pass, job->layer, unit); b < blocks_end(pass, unit); b++)
            attend_block(pass, job->layer, unit, kv_head, b, &qs, qs.max, qs.sum, qs.out, worker);
        scatter(pass, unit, kv_head, &qs, qs.sum, qs.out);
    }
}

/* States of single pages: [task][block][query] outs, then the maxima and sums in the same order. */
struct partials {
    float *out, *max, *sum;
};

static struct partials partials_at(const struct attention_job *job, uint32_t task, uint64_t block)
{
    const struct rwk_model *m = job->pass->model;
    struct rwk_workspace *ws = job->pass->ws;
    size_t index = ((size_t)task * job->n_blocks + block) * group_size(m);
    float *max = ws->partial + ws->partial_capacity * v_stride(m);
    return (struct partials) { ws->partial + index * v_stride(m), max + index,
                               max + ws->partial_capacity + index };
}

/* Task: (unit, key/value head, page). */
static void attend_page(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct attention_job *job = arg;
    const struct rwk_pass *pass = job->pass;
    struct queries qs = queries_at(pass, worker);
    uint32_t gathered = UINT32_MAX;
    for (uint32_t task = begin; task < end && !rwk_pass_cancelled(pass); task++) {
        uint32_t head_task = task / job->n_blocks, kv_head = head_task % pass->model->n_kv_heads;
        const struct rwk_attention_unit *unit =
            &pass->ws->units[head_task / pass->model->n_kv_heads];
        uint64_t block = blocks_begin(pass, job->layer, unit) + task % job->n_blocks;
        if (block >= blocks_end(pass, unit))
            continue;
        if (head_task != gathered)
            gather(pass, job->layer, unit, kv_head, &qs);
        gathered = head_task;
        struct partials p = partials_at(job, head_task, task % job->n_blocks);
        reset(pass->model, qs.n, p.max, p.sum, p.out);
        attend_block(pass, job->layer, unit, kv_head, block, &qs, p.max, p.sum, p.out, worker);
    }
}

/* Merges the pages of each (unit, key/value head) into the first one's state, ascending. */
static void merge_pages(const struct attention_job *job, uint32_t n_head_tasks)
{
    const struct rwk_pass *pass = job->pass;
    const struct rwk_model *m = pass->model;
    for (uint32_t task = 0; task < n_head_tasks; task++) {
        const struct rwk_attention_unit *unit = &pass->ws->units[task / m->n_kv_heads];
        uint64_t n = blocks_end(pass, unit) - blocks_begin(pass, job->layer, unit);
        struct partials all = partials_at(job, task, 0);
        struct queries qs = { .n = group_size(m) };
        for (uint64_t b = 1; b < n; b++) {
            struct partials p = partials_at(job, task, b);
            for (uint32_t i = 0; i < qs.n; i++)
                m->kernels->attention_merge(&all.max[i], &all.sum[i], all.out + i * v_stride(m),
                                            p.max[i], p.sum[i], p.out + i * v_stride(m),
                                            (uint32_t)v_stride(m));
        }
        scatter(pass, unit, task % m->n_kv_heads, &qs, all.sum, all.out);
    }
}

void rwk_attention_run(const struct rwk_pass *pass, const struct rwk_layer *layer, uint32_t n_units)
{
    const struct rwk_model *m = pass->model;
    struct attention_job job = { pass, layer, 0 };
    uint32_t n_head_tasks = n_units * m->n_kv_heads;
    for (uint32_t u = 0; u < n_units; u++) {
        const struct rwk_attention_unit *unit = &pass->ws->units[u];
        uint64_t n = blocks_end(pass, unit) - blocks_begin(pass, layer, unit);
        job.n_blocks = n > job.n_blocks ? (uint32_t)n : job.n_blocks;
    }
    bool single_rows = n_units == pass->n_rows;
    size_t states = (size_t)n_head_tasks * job.n_blocks * group_size(m);
    if (single_rows && pass->executor->n_workers > 1 &&
        n_head_tasks < 2 * pass->executor->n_workers && job.n_blocks > 1 &&
        states <= pass->ws->partial_capacity) {
        rwk_run(pass->executor, n_head_tasks * job.n_blocks, attend_page, &job);
        merge_pages(&job, n_head_tasks);
    } else {
        rwk_run(pass->executor, n_head_tasks, attend_whole, &job);
    }
}
