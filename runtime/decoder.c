/* The forward pass, phase by phase. Row phases do what concerns one row alone; products and
 * attention are spread over all workers. One layer:
 *
 *   enter      normed = pre_a(x)
 *   product    qkv = W normed
 *   project    qkv += bias; clip; norm of q, k; rotate q, k; k, v -> cache
 *   attention  heads = softmax(q k) v
 *   product    branch = W_o heads
 *   join       x = x + r post_a(branch + bias)   (as the kind of block wants it)
 *              normed = what the ffn reads
 *   product    gate, up = W normed
 *   activate   up = act(gate + bias) (up + bias)
 *   product    branch = W_down up
 *   leave      x = x + r post_f(branch + bias);  normed = pre_a of the next layer
 *
 * with each row phase bringing its result into the form that the next product wants. */
#include "runtime/decoder.h"

#include <string.h>
#include "runtime/kernels/quantlayout.h"

enum { ROWS_INLINE = 3 }; /* up to so many rows, a barrier costs more than the row phase itself */

void rwk_pass_rows(const struct rwk_pass *pass, uint32_t n_rows, rwk_task_fn fn, void *arg)
{
    if (n_rows <= ROWS_INLINE)
        fn(arg, 0, n_rows, 0);
    else
        rwk_run(pass->executor, n_rows, fn, arg);
}

/* What a row phase of a layer works on. */
struct layer_job {
    const struct rwk_pass *pass;
    const struct rwk_layer *layer;
};

static void norm_row(const struct rwk_model *m, bool present, float *y, const float *x,
                     const float *w, const float *b)
{
    if (!present) {
        if (y != x)
            memcpy(y, x, m->hidden_size * sizeof *y);
    } else if (m->norm == RWK_NORM_RMS) {
        m->kernels->rms_norm(y, x, w, m->hidden_size, m->norm_eps);
    } else {
        m->kernels->layer_norm(y, x, w, b, m->hidden_size, m->norm_eps);
    }
}

static const struct rwk_matrix *first_projection(const struct rwk_layer *layer)
{
    return &layer->matrix[layer->matrix[RWK_M_QKV].data ? RWK_M_QKV : RWK_M_Q];
}

static const struct rwk_matrix *first_ffn(const struct rwk_model *m, const struct rwk_layer *layer)
{
    return &layer->matrix[m->gated ? RWK_M_GATE : RWK_M_UP];
}

static void add_bias(const struct rwk_model *m, float *y, const float *bias, uint32_t n)
{
    if (bias)
        m->kernels->add(y, bias, n);
}

/* ---- embedding ---- */

/* word embedding -> x, or -> normed where it must be projected first; the angles of the row's
 * position */
static void embed_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct rwk_pass *pass = arg;
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    const struct rwk_matrix *project = &m->matrix[RWK_M_PROJECT_IN];
    (void)worker;
    for (uint32_t t = begin; t < end; t++) {
        const struct rwk_row *row = &pass->rows[t];
        float *x = (project->data ? ws->normed : ws->x) + t * ws->x_stride;
        rwk_matrix_row(m->kernels, &m->matrix[RWK_M_EMBED], row->token, x);
        if (m->embed_scale != 1)
            m->kernels->scale(x, m->embed_scale, m->word_size);
        if (project->data)
            rwk_product_prepare(pass, project, t, x, m->word_size);
        for (uint32_t i = 0; i < m->position.n_rope; i++) {
            const struct rwk_rope_table *table = &m->position.rope[i];
            size_t at = ((size_t)t * m->position.n_rope + i) * ws->pairs_stride;
            m->kernels->angles(ws->cos + at, ws->sin + at, row->sequence->inv_freq[i],
                               (float)row->position, (float)table->attention_factor,
                               table->n_pairs);
        }
    }
}

/* x += position; norm of the embedding */
static void place_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct rwk_pass *pass = arg;
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    const struct rwk_matrix *learned = &m->matrix[RWK_M_POSITION];
    (void)worker;
    for (uint32_t t = begin; t < end; t++) {
        uint64_t position = pass->rows[t].position;
        float *x = ws->x + t * ws->x_stride, *spare = ws->branch + t * ws->x_stride;
        if (learned->data) {
            rwk_matrix_row(m->kernels, learned, position + m->position.learned_offset, spare);
            m->kernels->add(x, spare, m->hidden_size);
        }
        if (m->position.scheme->embed)
            m->position.scheme->embed(&m->position, position, x);
        if (m->norms & RWK_HAS_EMBED_NORM)
            norm_row(m, true, x, x, m->vector[RWK_V_EMBED_NORM], m->vector[RWK_V_EMBED_NORM_BIAS]);
    }
}

static void embed(const struct rwk_pass *pass)
{
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    rwk_pass_rows(pass, pass->n_rows, embed_rows, (void *)pass);
    if (m->matrix[RWK_M_PROJECT_IN].data) {
        struct rwk_product in = { &m->matrix[RWK_M_PROJECT_IN], ws->x, ws->x_stride };
        rwk_product_run(pass, &in, 1, pass->n_rows, ws->normed, ws->x_stride, true);
    }
    rwk_pass_rows(pass, pass->n_rows, place_rows, (void *)pass);
}

/* ---- attention's side of a layer ---- */

static void enter_row(const struct rwk_pass *pass, const struct rwk_layer *layer, uint32_t t)
{
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    float *x = ws->x + t * ws->x_stride, *normed = ws->normed + t * ws->x_stride;
    norm_row(m, m->norms & RWK_HAS_ATTN_NORM, normed, x, layer->vector[RWK_V_ATTN_NORM],
             layer->vector[RWK_V_ATTN_NORM_BIAS]);
    rwk_product_prepare(pass, first_projection(layer), t, normed, m->hidden_size);
}

static void enter_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct layer_job *job = arg;
    (void)worker;
    for (uint32_t t = begin; t < end; t++)
        enter_row(job->pass, job->layer, t);
}

/* Heads of one kind (queries or keys) of a projected row: where each starts, and their norm's
 * weights. */
static void norm_heads(const struct rwk_model *m, float *row, const uint32_t *offset,
                       uint32_t n_heads, const float *w)
{
    uint32_t hd = m->head_dim;
    if (m->qk_norm ==
        RWK_QK_NORM_RMS_ALL) { /* the heads of a kind stand side by side where this is used */
        m->kernels->rms_norm(row + offset[0], row + offset[0], w, n_heads * hd, m->qk_norm_eps);
        return;
    }
    for (uint32_t h = 0; h < n_heads; h++) {
        float *head = row + offset[h];
        if (m->qk_norm == RWK_QK_NORM_RMS_HEAD)
            m->kernels->rms_norm(head, head, w, hd, m->qk_norm_eps);
        else
            m->kernels->layer_norm(head, head, w + (size_t)h * hd, NULL, hd, m->qk_norm_eps);
    }
}

static void rotate_heads(const struct rwk_pass *pass, const struct rwk_layer *layer, uint32_t t,
                         float *row, const uint32_t *offset, uint32_t n_heads)
{
    const struct rwk_model *m = pass->model;
    const struct rwk_workspace *ws = pass->ws;
    size_t at = ((size_t)t * m->position.n_rope + (size_t)layer->rope_table) * ws->pairs_stride;
    for (uint32_t h = 0; h < n_heads; h++)
        m->position.scheme->rotate(&m->position, m->kernels, (uint32_t)layer->rope_table,
                                   ws->cos + at, ws->sin + at, row + offset[h], 1, 0);
}

static void project_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct layer_job *job = arg;
    const struct rwk_pass *pass = job->pass;
    const struct rwk_model *m = pass->model;
    const struct rwk_layer *layer = job->layer;
    (void)worker;
    for (uint32_t t = begin; t < end; t++) {
        const struct rwk_row *place = &pass->rows[t];
        const struct rwk_kv_cache *cache = &place->sequence->cache;
        float *row = pass->ws->qkv + t * pass->ws->qkv_stride;
        add_bias(m, row, layer->vector[RWK_V_QKV_BIAS], rwk_qkv_size(m));
        if (m->clip_qkv > 0)
            m->kernels->clip(row, m->clip_qkv, rwk_qkv_size(m));
        if (m->qk_norm != RWK_QK_NORM_NONE) {
            norm_heads(m, row, m->q_offset, m->n_heads, layer->vector[RWK_V_Q_NORM]);
            norm_heads(m, row, m->k_offset, m->n_kv_heads, layer->vector[RWK_V_K_NORM]);
        }
        if (m->position.scheme->rotate && layer->rope_table != RWK_NO_ROPE) {
            rotate_heads(pass, layer, t, row, m->q_offset, m->n_heads);
            rotate_heads(pass, layer, t, row, m->k_offset, m->n_kv_heads);
        }
        uint32_t slot = (uint32_t)(place->position % RWK_KEY_BLOCK);
        for (uint32_t h = 0; h < m->n_kv_heads; h++) {
            unsigned char *page = rwk_kv_key_page(cache, layer, h, place->position / RWK_KEY_BLOCK);
            m->kernels->put_key[cache->element](page, slot, row + m->k_offset[h], m->head_dim);
            m->kernels->put_value[cache->element](page + cache->key_bytes, slot,
                                                  row + m->v_offset[h], m->head_dim);
        }
    }
}

/* x = base + r branch, where base is x or what the sub-block read */
static void add_branch(const struct rwk_model *m, float *x, const float *normed, float *branch)
{
    if (m->residual_from_norm)
        memcpy(x, normed, m->hidden_size * sizeof *x);
    if (m->residual_scale == 1)
        m->kernels->add(x, branch, m->hidden_size);
    else
        m->kernels->add_scaled(x, branch, m->residual_scale, m->hidden_size);
}

static void join_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct layer_job *job = arg;
    const struct rwk_pass *pass = job->pass;
    const struct rwk_model *m = pass->model;
    const struct rwk_layer *layer = job->layer;
    struct rwk_workspace *ws = pass->ws;
    const float *const *v = layer->vector;
    bool post = m->norms & RWK_HAS_ATTN_POST, pre = m->norms & RWK_HAS_FFN_NORM;
    (void)worker;
    for (uint32_t t = begin; t < end; t++) {
        float *x = ws->x + t * ws->x_stride, *normed = ws->normed + t * ws->x_stride,
              *branch = ws->branch + t * ws->x_stride;
        add_bias(m, branch, v[RWK_V_O_BIAS], m->hidden_size);
        if (post && m->block != RWK_BLOCK_POST_NORM)
            norm_row(m, true, branch, branch, v[RWK_V_ATTN_POST], v[RWK_V_ATTN_POST_BIAS]);
        if (m->block == RWK_BLOCK_PARALLEL_NORMS)
            norm_row(m, pre, normed, x, v[RWK_V_FFN_NORM], v[RWK_V_FFN_NORM_BIAS]);
        add_branch(m, x, normed, branch);
        if (m->block == RWK_BLOCK_POST_NORM)
            norm_row(m, post, x, x, v[RWK_V_ATTN_POST], v[RWK_V_ATTN_POST_BIAS]);
        if (m->block == RWK_BLOCK_SEQUENTIAL || m->block == RWK_BLOCK_POST_NORM)
            norm_row(m, pre, normed, x, v[RWK_V_FFN_NORM], v[RWK_V_FFN_NORM_BIAS]);
        rwk_product_prepare(pass, first_ffn(m, layer), t, normed, m->hidden_size);
    }
}

/* ---- the feed-forward side ---- */

static void activate_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct layer_job *job = arg;
    const struct rwk_pass *pass = job->pass;
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    (void)worker;
    for (uint32_t t = begin; t < end; t++) {
        float *up = ws->up + t * ws->ffn_stride, *gate = ws->gate + t * ws->ffn_stride;
        add_bias(m, up, job->layer->vector[RWK_V_UP_BIAS], m->ffn_size);
        if (m->gated) {
            add_bias(m, gate, job->layer->vector[RWK_V_GATE_BIAS], m->ffn_size);
            m->kernels->gate[m->activation](up, gate, up, m->ffn_size);
        } else {
            m->kernels->activate[m->activation](up, up, m->ffn_size);
        }
        rwk_product_prepare(pass, &job->layer->matrix[RWK_M_DOWN], t, up, m->ffn_size);
    }
}

static void leave_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct layer_job *job = arg;
    const struct rwk_pass *pass = job->pass;
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    const float *const *v = job->layer->vector;
    bool post = m->norms & RWK_HAS_FFN_POST, last = job->layer == &m->layers[m->n_layers - 1];
    (void)worker;
    for (uint32_t t = begin; t < end; t++) {
        float *x = ws->x + t * ws->x_stride, *branch = ws->branch + t * ws->x_stride;
        add_bias(m, branch, v[RWK_V_DOWN_BIAS], m->hidden_size);
        if (post && m->block != RWK_BLOCK_POST_NORM)
            norm_row(m, true, branch, branch, v[RWK_V_FFN_POST], v[RWK_V_FFN_POST_BIAS]);
        add_branch(m, x, ws->normed + t * ws->x_stride, branch);
        if (m->block == RWK_BLOCK_POST_NORM)
            norm_row(m, post, x, x, v[RWK_V_FFN_POST], v[RWK_V_FFN_POST_BIAS]);
        if (!last)
            enter_row(pass, job->layer + 1, t);
    }
}

static void run_layer(const struct rwk_pass *pass, const struct rwk_layer *layer, uint32_t n_units)
{
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    struct layer_job job = { pass, layer };
    const struct rwk_matrix *w = layer->matrix;
    uint32_t n = pass->n_rows, q = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;

    struct rwk_product qkv[3] = { { &w[RWK_M_Q], ws->qkv, ws->qkv_stride },
                                  { &w[RWK_M_K], ws->qkv + q, ws->qkv_stride },
                                  { &w[RWK_M_V], ws->qkv + q + kv, ws->qkv_stride } };
    struct rwk_product fused = { &w[RWK_M_QKV], ws->qkv, ws->qkv_stride };
    bool is_fused = w[RWK_M_QKV].data != NULL;
    rwk_product_run(pass, is_fused ? &fused : qkv, is_fused ? 1 : 3, n, ws->normed, ws->x_stride,
                    true);
    rwk_pass_rows(pass, n, project_rows, &job);
    rwk_attention_run(pass, layer, n_units);
    struct rwk_product o = { &w[RWK_M_O], ws->branch, ws->x_stride };
    rwk_product_run(pass, &o, 1, n, ws->heads, ws->heads_stride, false);
    rwk_pass_rows(pass, n, join_rows, &job);

    struct rwk_product ffn[2] = { { &w[RWK_M_GATE], ws->gate, ws->ffn_stride },
                                  { &w[RWK_M_UP], ws->up, ws->ffn_stride } };
    rwk_product_run(pass, m->gated ? ffn : ffn + 1, m->gated ? 2 : 1, n, ws->normed, ws->x_stride,
                    true);
    rwk_pass_rows(pass, n, activate_rows, &job);
    struct rwk_product down = { &w[RWK_M_DOWN], ws->branch, ws->x_stride };
    rwk_product_run(pass, &down, 1, n, ws->up, ws->ffn_stride, true);
    rwk_pass_rows(pass, n, leave_rows, &job);
}

/* ---- logits ---- */

struct head_job {
    const struct rwk_pass *pass;
    const uint32_t *wanted; /* rows of this group */
};

/* normed[i] = final norm of the i-th wanted row, ready for the next product */
static void final_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct head_job *job = arg;
    const struct rwk_pass *pass = job->pass;
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    const struct rwk_matrix *project = &m->matrix[RWK_M_PROJECT_OUT];
    (void)worker;
    for (uint32_t i = begin; i < end; i++) {
        float *normed = ws->normed + i * ws->x_stride;
        norm_row(m, m->norms & RWK_HAS_FINAL_NORM, normed, ws->x + job->wanted[i] * ws->x_stride,
                 m->vector[RWK_V_FINAL_NORM], m->vector[RWK_V_FINAL_NORM_BIAS]);
        rwk_product_prepare(pass, project->data ? project : &m->matrix[RWK_M_HEAD], i, normed,
                            m->hidden_size);
    }
}

static void logits_rows(void *arg, uint32_t begin, uint32_t end, uint32_t worker)
{
    const struct head_job *job = arg;
    const struct rwk_pass *pass = job->pass;
    const struct rwk_model *m = pass->model;
    (void)worker;
    for (uint32_t i = begin; i < end; i++) {
        float *logits = pass->ws->logits + i * pass->ws->logits_stride;
        add_bias(m, logits, m->vector[RWK_V_HEAD_BIAS], m->vocab_size);
        if (m->logit_scale != 1)
            m->kernels->scale(logits, m->logit_scale, m->vocab_size);
        if (m->logit_softcap > 0)
            m->kernels->softcap(logits, m->logit_softcap, m->vocab_size);
        pass->on_logits(pass->on_logits_arg, job->wanted[i], logits);
    }
}

static void run_head(const struct rwk_pass *pass, const uint32_t *wanted, uint32_t n)
{
    const struct rwk_model *m = pass->model;
    struct rwk_workspace *ws = pass->ws;
    struct head_job job = { pass, wanted };
    rwk_pass_rows(pass, n, final_rows, &job);
    const float *x = ws->normed;
    bool prepared = true;
    if (m->matrix[RWK_M_PROJECT_OUT].data) {
        struct rwk_product out = { &m->matrix[RWK_M_PROJECT_OUT], ws->branch, ws->x_stride };
        rwk_product_run(pass, &out, 1, n, x, ws->x_stride, true);
        x = ws->branch;
        prepared = false;
    }
    struct rwk_product head = { &m->matrix[RWK_M_HEAD], ws->logits, ws->logits_stride };
    rwk_product_run(pass, &head, 1, n, x, ws->x_stride, prepared);
    if (!rwk_pass_cancelled(pass))
        rwk_pass_rows(pass, n, logits_rows, &job);
}

bool rwk_forward(const struct rwk_pass *pass)
{
    const struct rwk_model *m = pass->model;
    uint32_t n_units = rwk_attention_units(pass), n_wanted = 0;
    embed(pass);
    struct layer_job first = { pass, m->layers };
    rwk_pass_rows(pass, pass->n_rows, enter_rows, &first);
    for (uint32_t l = 0; l < m->n_layers && !rwk_pass_cancelled(pass); l++)
        run_layer(pass, &m->layers[l], n_units);
    for (uint32_t t = 0; t < pass->n_rows; t++)
        if (pass->rows[t].wants_logits)
            pass->ws->wanted[n_wanted++] = t;
    for (uint32_t i = 0; i < n_wanted && !rwk_pass_cancelled(pass); i += RWK_LOGIT_ROWS)
        run_head(pass, pass->ws->wanted + i,
                 n_wanted - i < RWK_LOGIT_ROWS ? n_wanted - i : RWK_LOGIT_ROWS);
    return !rwk_pass_cancelled(pass);
}
