/* Opening a model: where files and engine meet.
 *
 *   directory -> config.json -> family -> facts -> position plan -> weights (mapped) -> bound rows
 * -> struct rwk_model
 *
 * The public object is the engine's model with this file's part behind `owner`: the files, the
 * arena that holds everything small, and which tensors are in use. */
#include "models/open.h"

#include <string.h>
#include "models/quantize.h"

void rwk_model_options_init(struct rwk_model_options *options)
{
    *options = (struct rwk_model_options) { .size = sizeof *options };
}

/* ---- config.json and its kin ---- */

enum rwk_status rwk_config_load(const struct rwk_node **ret_root, const char **ret_path,
                                const struct rwk_files *files, const char *name,
                                struct rwk_arena *arena, struct rwk_error *error)
{
    struct rwk_file file = { 0 };
    struct rwk_node *root = NULL;
    struct rwk_files quiet = *files; /* too small to tell of its progress */
    quiet.progress = NULL;
    enum rwk_status status = rwk_files_open(&file, &quiet, name, RWK_LOAD_READ, error);
    if (status)
        return status;
    const char *path = rwk_arena_string(arena, file.path, strlen(file.path));
    status = path ? rwk_tree_parse(&root, arena, file.data, file.size, path, error)
                  : rwk_fail_nomem(error, strlen(file.path));
    rwk_file_close(&file);
    if (status)
        return status;
    *ret_root = root;
    *ret_path = path;
    return RWK_STATUS_OK;
}

/* ---- generation defaults ---- */

static void read_double(const struct rwk_node *root, const char *key, double *field)
{
    const struct rwk_node *node = rwk_tree_member(root, key);
    if (node && node->type == RWK_JSON_NUMBER)
        *field = node->number;
}

static bool read_u32(const struct rwk_node *node, uint32_t *ret)
{
    if (!node || node->type != RWK_JSON_NUMBER || !node->is_integer || node->integer < 0 ||
        node->integer > INT32_MAX)
        return false;
    *ret = (uint32_t)node->integer;
    return true;
}

/* eos_token_id: one id or a list. */
static enum rwk_status read_eos(const struct rwk_node *node, struct rwk_generation_defaults *g,
                                struct rwk_arena *arena, struct rwk_error *error)
{
    if (!node || (node->type != RWK_JSON_NUMBER && node->type != RWK_JSON_ARRAY))
        return RWK_STATUS_OK;
    uint32_t n = node->type == RWK_JSON_ARRAY ? node->n_children : 1, kept = 0;
    uint32_t *ids = rwk_arena_alloc(arena, (n + 1) * sizeof *ids);
    if (!ids)
        return rwk_fail_nomem(error, (n + 1) * sizeof *ids);
    for (const struct rwk_node *id = node->type == RWK_JSON_ARRAY ? node->children : node;
         id && kept < n; id = id->next)
        kept += read_u32(id, &ids[kept]);
    g->eos_tokens = ids;
    g->n_eos_tokens = kept;
    return RWK_STATUS_OK;
}

static enum rwk_status read_generation(struct rwk_model *model, const struct rwk_files *files,
                                       const struct rwk_node *config, struct rwk_arena *arena,
                                       struct rwk_error *error)
{
    struct rwk_generation_defaults *g = &model->generation;
    const struct rwk_node *root = config;
    const char *path;
    enum rwk_status status = RWK_STATUS_OK;
    if (rwk_files_have(files, "generation_config.json"))
        status = rwk_config_load(&root, &path, files, "generation_config.json", arena, error);
    if (status)
        return status;
    *g = (struct rwk_generation_defaults) { .temperature = 1,
                                            .top_p = 1,
                                            .repetition_penalty = 1,
                                            .top_k = 50,
                                            .bos_token = RWK_TOKEN_NONE };
    const struct rwk_node *sample = rwk_tree_member(root, "do_sample");
    uint32_t top_k = 50;
    g->do_sample = sample && sample->type == RWK_JSON_TRUE;
    read_u32(rwk_tree_member(root, "max_new_tokens"), &g->max_new_tokens);
    read_u32(rwk_tree_member(root, "top_k"), &top_k);
    g->top_k = (int32_t)top_k;
    read_double(root, "temperature", &g->temperature);
    read_double(root, "top_p", &g->top_p);
    read_double(root, "min_p", &g->min_p);
    read_double(root, "repetition_penalty", &g->repetition_penalty);
    if (!read_u32(rwk_tree_member(root, "bos_token_id"), &g->bos_token))
        read_u32(rwk_tree_member(config, "bos_token_id"), &g->bos_token);
    const struct rwk_node *eos = rwk_tree_member(root, "eos_token_id");
    return read_eos(eos && eos->type != RWK_JSON_NULL ? eos
                                                      : rwk_tree_member(config, "eos_token_id"),
                    g, arena, error);
}

/* ---- position ---- */

enum rwk_status rwk_facts_position(struct rwk_position_request *ret, const struct rwk_facts *facts,
                                   const struct rwk_node *config, const char *file,
                                   struct rwk_arena *arena, struct rwk_error *error)
{
    *ret = facts->request;
    ret->scheme = facts->position;
    ret->file = file;
    ret->hidden_size = facts->hidden_size;
    ret->n_heads = facts->n_heads;
    ret->head_dim = facts->head_dim;
    ret->max_position_embeddings = facts->max_positions;
    ret->learned_rows = facts->max_positions;
    if (strcmp(facts->position, "rope") != 0)
        return RWK_STATUS_OK;
    return rwk_rope_keys_read(ret, config, file, &facts->rope, arena, error);
}

enum rwk_status rwk_arch_position_request(struct rwk_position_request *ret, const char **ret_family,
                                          const struct rwk_node *config, const char *file,
                                          struct rwk_arena *arena, struct rwk_error *error)
{
    const struct rwk_arch *arch;
    struct rwk_facts facts;
    enum rwk_status status = rwk_arch_find(&arch, config, file, error);
    if (!status)
        status = rwk_facts_read(&facts, arch, config, file, arena, error);
    if (!status)
        status = rwk_facts_position(ret, &facts, config, file, arena, error);
    if (!status)
        *ret_family = arch->name;
    return status;
}

/* ---- the engine's model ---- */

static void copy_traits(struct rwk_model *m, const struct rwk_facts *f)
{
    m->n_layers = f->n_layers;
    m->hidden_size = f->hidden_size;
    m->word_size = f->word_size;
    m->n_heads = f->n_heads;
    m->n_kv_heads = f->n_kv_heads;
    m->head_dim = f->head_dim;
    m->ffn_size = f->ffn_size;
    m->vocab_size = f->vocab_size;
    m->norm = f->norm;
    m->block = f->block;
    m->qk_norm = f->qk_norm;
    m->activation = f->activation;
    m->norms = f->norms;
    m->norm_eps = m->qk_norm_eps = (float)f->norm_eps;
    m->gated = f->gated;
    m->residual_from_norm = f->residual_from_norm;
    m->embed_scale = (float)f->embed_scale;
    m->residual_scale = (float)f->residual_scale;
    m->clip_qkv = (float)f->clip_qkv;
    m->attention_softcap = (float)f->attention_softcap;
    m->logit_scale = (float)f->logit_scale;
    m->logit_softcap = (float)f->logit_softcap;
}

/* Where each head's query, key and value stand in the projected row. */
static enum rwk_status place_heads(struct rwk_model *m, enum rwk_qkv layout,
                                   struct rwk_arena *arena, struct rwk_error *error)
{
    uint32_t hd = m->head_dim, group = m->n_heads / m->n_kv_heads, q = m->n_heads * hd,
             kv = m->n_kv_heads * hd;
    size_t n = (size_t)m->n_heads + 2 * m->n_kv_heads;
    uint32_t *offsets = rwk_arena_alloc(arena, n * sizeof *offsets);
    if (!offsets)
        return rwk_fail_nomem(error, n * sizeof *offsets);
    uint32_t *k = offsets + m->n_heads, *v = k + m->n_kv_heads;
    for (uint32_t h = 0; h < m->n_heads; h++)
        offsets[h] = layout == RWK_QKV_CONCAT ? h * hd : (h / group * (group + 2) + h % group) * hd;
    for (uint32_t g = 0; g < m->n_kv_heads; g++) {
        k[g] = layout == RWK_QKV_CONCAT ? q + g * hd : (g * (group + 2) + group) * hd;
        v[g] = layout == RWK_QKV_CONCAT ? q + kv + g * hd : k[g] + hd;
    }
    m->q_offset = offsets;
    m->k_offset = k;
    m->v_offset = v;
    return RWK_STATUS_OK;
}

/* Layers, and the groups that their windows make of the cache. */
static enum rwk_status make_layers(struct rwk_model *m, const struct rwk_facts *f, const char *file,
                                   struct rwk_arena *arena, struct rwk_error *error)
{
    m->layers = rwk_arena_calloc(arena, m->n_layers, sizeof *m->layers);
    if (!m->layers)
        return rwk_fail_nomem(error, m->n_layers * sizeof *m->layers);
    for (uint32_t l = 0; l < m->n_layers; l++) {
        struct rwk_layer *layer = &m->layers[l];
        layer->attention_scale = (float)f->layers[l].attention_scale;
        layer->rope_table = f->layers[l].rope_table;
        layer->window = f->layers[l].window;
        uint32_t g = 0;
        while (g < m->n_groups && m->groups[g].window != layer->window)
            g++;
        if (g == RWK_MAX_KV_GROUPS)
            return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, "sliding_window",
                               "more than %d different windows", RWK_MAX_KV_GROUPS);
        if (g == m->n_groups)
            m->groups[m->n_groups++] = (struct rwk_kv_group) { .window = layer->window };
        layer->group = g;
        layer->index_in_group = m->groups[g].n_layers++;
    }
    return RWK_STATUS_OK;
}

static void destroy(struct rwk_model *model)
{
    struct rwk_opened *opened = model->owner;
    struct rwk_memory memory;
    rwk_weights_close(&opened->weights);
    rwk_arena_finish(&opened->arena);
    rwk_memory_init(&memory, &opened->memory.host, 0);
    rwk_free(&memory, opened);
}

/* Whether tensor i is the scales of quantised weights in the files. */
static bool is_scales(const struct rwk_opened *o, size_t i)
{
    const struct rwk_tensor *t = &o->weights.tensors[i];
    const size_t n = sizeof RWK_QUANT_SCALES - 1;
    if (t->name_size <= n || memcmp(t->name + t->name_size - n, RWK_QUANT_SCALES, n) != 0)
        return false;
    const struct rwk_tensor *of = rwk_weights_find(&o->weights, t->name, t->name_size - n);
    return of && o->quantized[of - o->weights.tensors].data;
}

static enum rwk_status check_files(const struct rwk_model *model, struct rwk_error *error)
{
    const struct rwk_opened *o = model->owner;
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = 0; i < o->weights.n_files && !status; i++)
        status = rwk_file_check(&o->weights.files[i], error);
    return status;
}

static uint64_t count_parameters(const struct rwk_opened *o)
{
    uint64_t n = 0;
    for (size_t i = 0; i < o->weights.n_tensors; i++)
        if (o->quantized[i].data)
            n += (uint64_t)o->quantized[i].rows * o->quantized[i].cols;
        else if (o->used[i] && !is_scales(o, i))
            n += o->weights.tensors[i].n_bytes * 8 / rwk_dtype_bits(o->weights.tensors[i].dtype);
    return n;
}

/* How much of the files will be read by quantising, for progress: matrices in floating point. */
static uint64_t bytes_to_quantize(const struct rwk_weights_set *weights)
{
    uint64_t n = 0;
    for (size_t i = 0; i < weights->n_tensors; i++)
        if (weights->tensors[i].n_dims == 2)
            n += weights->tensors[i].n_bytes;
    return n;
}

static enum rwk_status bind_weights(struct rwk_opened *o, const struct rwk_facts *facts,
                                    const char *file, const struct rwk_model_options *options,
                                    struct rwk_progress *progress, struct rwk_error *error)
{
    static const enum rwk_element elements[] = { [RWK_WEIGHTS_AS_STORED] = RWK_ELEMENT_F32,
                                                 [RWK_WEIGHTS_Q8] = RWK_ELEMENT_Q8,
                                                 [RWK_WEIGHTS_Q4] = RWK_ELEMENT_Q4 };
    const uint32_t n_workers = options->pool ? rwk_pool_n_threads(options->pool) : 1;
    struct rwk_quantizer quantizer = { .element = elements[options->weights],
                                       .kernels = o->model.kernels,
                                       .executor = { .pool = options->pool,
                                                     .n_workers = n_workers },
                                       .memory = &o->memory,
                                       .arena = &o->arena,
                                       .progress = progress,
                                       .plans_only = o->plans_only };
    struct rwk_binder binder = { .model = &o->model,
                                 .arch = o->arch,
                                 .facts = facts,
                                 .weights = &o->weights,
                                 .arena = &o->arena,
                                 .quantizer = &quantizer,
                                 .packed = o->packed,
                                 .error = error };
    if (o->packed != RWK_ELEMENT_F32 && quantizer.element != RWK_ELEMENT_F32 &&
        quantizer.element != o->packed)
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, "weights",
                           "the files hold weights of %d bits already",
                           o->packed == RWK_ELEMENT_Q8 ? 8 : 4);
    binder.used = o->used = rwk_arena_calloc(&o->arena, o->weights.n_tensors + 1, sizeof *o->used);
    binder.quantized = o->quantized =
        rwk_arena_calloc(&o->arena, o->weights.n_tensors + 1, sizeof *o->quantized);
    if (!o->used || !o->quantized)
        return rwk_fail_nomem(error, o->weights.n_tensors * sizeof *o->quantized);
    if (quantizer.element != RWK_ELEMENT_F32 && o->packed == RWK_ELEMENT_F32)
        progress->total += bytes_to_quantize(&o->weights);
    enum rwk_status status = rwk_bind(&binder);
    o->quantized_bytes = quantizer.bytes;
    o->model.copied_bytes += quantizer.bytes;
    return status;
}

static enum rwk_status open_parts(struct rwk_opened *o, const struct rwk_files *files,
                                  const struct rwk_model_options *options, struct rwk_error *error)
{
    struct rwk_model *m = &o->model;
    const struct rwk_node *config;
    const char *file;
    const struct rwk_arch *arch;
    struct rwk_facts facts;
    struct rwk_position_request request;
    if (!files->is_directory)
        return rwk_path_fail_directory(files->label, error);
    m->kernels = rwk_kernels_get((enum rwk_cpu)options->cpu);
    if (!m->kernels)
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, "cpu",
                           "this machine lacks the instructions asked for");
    enum rwk_status status =
        rwk_config_load(&config, &file, files, "config.json", &o->arena, error);
    if (!status)
        status = rwk_arch_find(&arch, config, file, error);
    if (!status)
        status = rwk_quant_config(&o->packed, config, file, error);
    if (!status)
        status = rwk_facts_read(&facts, arch, config, file, &o->arena, error);
    if (!status)
        status = rwk_facts_position(&request, &facts, config, file, &o->arena, error);
    if (!status)
        status = rwk_rope_keys_override(&request, options, &o->arena, error);
    if (!status)
        status = rwk_position_prepare(&m->position, &request, &o->arena, error);
    if (status)
        return status;
    o->arch = arch;
    m->position.family = arch->name;
    copy_traits(m, &facts);
    status = place_heads(m, facts.qkv, &o->arena, error);
    if (!status)
        status = make_layers(m, &facts, file, &o->arena, error);
    if (!status)
        status =
            rwk_weights_open(&o->weights, files, (enum rwk_load_mode)options->load_mode, error);
    if (status)
        return status;
    status = bind_weights(o, &facts, file, options, files->progress, error);
    if (!status)
        status = read_generation(m, files, config, &o->arena, error);
    return status;
}

/* Counts the weight files' bytes by how they are held, and has those that are mapped brought in. */
static enum rwk_status take_files(struct rwk_opened *o, const struct rwk_model_options *options,
                                  struct rwk_progress *progress, struct rwk_error *error)
{
    struct rwk_model *m = &o->model;
    for (size_t i = 0; i < o->weights.n_files; i++)
        *(o->weights.files[i].load_mode == RWK_LOAD_READ ? &m->copied_bytes : &m->mapped_bytes) +=
            o->weights.files[i].size;
    if (options->prefetch == RWK_PREFETCH_NOW)
        progress->total += m->mapped_bytes;
    for (size_t i = 0; i < o->weights.n_files; i++)
        if (!rwk_file_prefetch(&o->weights.files[i], 0, o->weights.files[i].size,
                               (enum rwk_prefetch)options->prefetch, progress))
            return rwk_fail(error, RWK_STATUS_CANCELLED, o->weights.files[i].path,
                            "loading was cancelled");
    return RWK_STATUS_OK;
}

static void finish_open(struct rwk_opened *o)
{
    struct rwk_model *m = &o->model;
    m->n_parameters = count_parameters(o);
    m->fingerprint = rwk_fingerprint(o);
    m->allocated_bytes = atomic_load(&o->memory.used) + sizeof *o + RWK_ALLOC_HEADER;
    m->owner = o;
    m->destroy = destroy;
    m->check = check_files;
    atomic_init(&m->references, 1);
}

enum rwk_status rwk_model_open(struct rwk_model **ret_model, const char *path,
                               const struct rwk_model_options *options, struct rwk_error *error)
{
    struct rwk_source source = { .size = sizeof source, .path = path };
    return rwk_model_open_source(ret_model, &source, options, error);
}

enum rwk_status rwk_model_open_source(struct rwk_model **ret_model, const struct rwk_source *source,
                                      const struct rwk_model_options *options,
                                      struct rwk_error *error)
{
    struct rwk_opened *opened;
    enum rwk_status status = rwk_opened_open(&opened, source, options, false, error);
    if (!status)
        *ret_model = &opened->model;
    return status;
}

enum rwk_status rwk_opened_open(struct rwk_opened **ret_opened, const struct rwk_source *source,
                                const struct rwk_model_options *options, bool plans_only,
                                struct rwk_error *error)
{
    struct rwk_model_options o;
    struct rwk_memory memory;
    struct rwk_files files;
    rwk_model_options_init(&o);
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    if (o.load_mode > RWK_LOAD_MAP_LOCK || o.prefetch > RWK_PREFETCH_NOW ||
        o.weights > RWK_WEIGHTS_Q4 || o.cpu > RWK_CPU_NEON)
        return rwk_fail(error, RWK_STATUS_RANGE, NULL, "an option of the model is out of range");
    rwk_memory_init(&memory, o.allocator, 0);
    struct rwk_opened *opened = rwk_calloc(&memory, 1, sizeof *opened);
    if (!opened)
        return rwk_fail_nomem(error, sizeof *opened);
    rwk_memory_init(&opened->memory, o.allocator, o.memory_budget);
    opened->arena.memory = &opened->memory;
    opened->model.owner = opened;
    opened->plans_only = plans_only;
    struct rwk_progress progress = { .fn = o.progress, .fn_data = o.progress_data };
    enum rwk_status status = rwk_files_init(&files, source, &opened->memory, &progress, error);
    if (!status)
        status = open_parts(opened, &files, &o, error);
    if (!status)
        status = take_files(opened, &o, &progress, error);
    if (status) {
        destroy(&opened->model);
        return status;
    }
    finish_open(opened);
    *ret_opened = opened;
    return RWK_STATUS_OK;
}
