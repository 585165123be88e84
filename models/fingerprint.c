/* A number for what a model's results depend on, so that a saved state is not continued with
 * another model: shapes, traits, the position plan that is in force, how weights are held, and of
 * every tensor its name, size and ends. Not all bytes: that would read the whole model at every
 * opening. */
#include <string.h>
#include "models/open.h"
#include "runtime/base/hash.h"

static void add(uint64_t *h, const void *data, size_t size)
{
    const uint64_t parts[2] = { *h, size ? rwk_hash(data, size) : 0 };
    *h = rwk_hash(parts, sizeof parts);
}

static void add_number(uint64_t *h, double x)
{
    add(h, &x, sizeof x);
}

static void add_text(uint64_t *h, const char *text)
{
    add(h, text, strlen(text));
}

static void add_traits(uint64_t *h, const struct rwk_model *m)
{
    const double numbers[] = {
        m->n_layers,
        m->hidden_size,
        m->word_size,
        m->n_heads,
        m->n_kv_heads,
        m->head_dim,
        m->ffn_size,
        m->vocab_size,
        m->norm,
        m->block,
        m->qk_norm,
        m->activation,
        m->norms,
        m->norm_eps,
        m->qk_norm_eps,
        m->gated,
        m->residual_from_norm,
        m->embed_scale,
        m->residual_scale,
        m->clip_qkv,
        m->attention_softcap,
        m->logit_scale,
        m->logit_softcap,
    };
    add(h, numbers, sizeof numbers);
    for (uint32_t l = 0; l < m->n_layers; l++) {
        const struct rwk_layer *layer = &m->layers[l];
        add_number(h, layer->attention_scale);
        add_number(h, layer->rope_table);
        add_number(h, (double)layer->window);
        for (int i = 0; i < RWK_N_LAYER_MATRICES; i++)
            add_number(h, layer->matrix[i].data ? (double)layer->matrix[i].element : -1.0);
    }
    for (int i = 0; i < RWK_N_GLOBAL_MATRICES; i++)
        add_number(h, m->matrix[i].data ? (double)m->matrix[i].element : -1.0);
}

static void add_position(uint64_t *h, const struct rwk_position_plan *p)
{
    const double numbers[] = { p->learned_offset, p->sinusoid, p->alibi_bf16,
                               p->alibi_scale,    p->n_rope,   (double)p->max_position_embeddings };
    add_text(h, p->scheme->name);
    add(h, numbers, sizeof numbers);
    if (p->slopes)
        add(h, p->slopes, p->n_heads * sizeof *p->slopes);
    for (uint32_t i = 0; i < p->n_rope; i++) {
        const struct rwk_rope_table *t = &p->rope[i];
        const double table[] = { t->type,
                                 t->n_pairs,
                                 t->interleaved,
                                 t->theta,
                                 t->factor,
                                 t->attention_factor,
                                 (double)t->original_context,
                                 (double)t->max_position_embeddings };
        add(h, table, sizeof table);
        add(h, t->inv_freq, t->n_pairs * sizeof *t->inv_freq);
        if (t->long_inv_freq)
            add(h, t->long_inv_freq, t->n_pairs * sizeof *t->long_inv_freq);
    }
}

static void add_tensor(uint64_t *h, const struct rwk_tensor *t)
{
    size_t end = t->n_bytes < 64 ? (size_t)t->n_bytes : 64;
    add(h, t->name, t->name_size);
    add_number(h, t->dtype);
    add(h, t->shape, t->n_dims * sizeof *t->shape);
    add(h, t->data, end);
    add(h, (const char *)t->data + t->n_bytes - end, end);
}

uint64_t rwk_fingerprint(const struct rwk_opened *o)
{
    uint64_t h = 0;
    add_traits(&h, &o->model);
    add_position(&h, &o->model.position);
    for (size_t i = 0; i < o->weights.n_tensors; i++)
        if (o->used[i])
            add_tensor(&h, &o->weights.tensors[i]);
    return h;
}
