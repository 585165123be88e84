/* Reading rope dictionaries: the same rows for config.json and for the caller's JSON.
 *
 *   dicts of a table -> rope_type -> the rows that this type reads -> theta, original length,
 *   rotated share
 *
 * From a config, keys that the type does not read are passed over, as the reference does; from
 * the caller they are errors. */
#include "models/rope_keys.h"

#include <math.h>
#include <string.h>

static const char full[] = "full_attention", sliding[] = "sliding_attention",
                  option[] = "rope-scaling", original_key[] = "original_max_position_embeddings";

/* Where the settings of one table are looked up: the first dict that has a key counts. */
struct reader {
    const struct rwk_node *dicts[2];
    const struct rwk_node *config; /* top level; NULL: the caller's dict */
    const struct rwk_node *layers; /* what holds the dicts of the layer types, or NULL */
    const char *file;
    struct rwk_arena *arena;
    struct rwk_error *error;
};

static bool is_present(const struct rwk_node *node)
{
    return node && node->type != RWK_JSON_NULL;
}

static const struct rwk_node *find(const struct reader *r, const char *key)
{
    for (int i = 0; i < 2; i++)
        if (is_present(rwk_tree_member(r->dicts[i], key)))
            return rwk_tree_member(r->dicts[i], key);
    return NULL;
}

/* First present of a '|' list of top-level keys. */
static const struct rwk_node *find_top(const struct reader *r, const char *keys)
{
    for (; r->config && *keys; keys += *keys == '|') {
        char key[64];
        size_t n = strcspn(keys, "|");
        if (n < sizeof key) {
            memcpy(key, keys, n);
            key[n] = '\0';
            if (is_present(rwk_tree_member(r->config, key)))
                return rwk_tree_member(r->config, key);
        }
        keys += n;
    }
    return NULL;
}

static enum rwk_status refuse(const struct reader *r, enum rwk_status status, const char *key,
                              const char *what)
{
    return r->config ? rwk_fail_on(r->error, status, r->file, key, "%s", what)
                     : rwk_fail_on(r->error, status, NULL, option, "\"%.60s\" %s", key, what);
}

/* ---- typed values; an absent node leaves *ret as it is ---- */

static enum rwk_status read_number(const struct reader *r, const struct rwk_node *node, double *ret)
{
    if (!is_present(node))
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_NUMBER)
        return refuse(r, RWK_STATUS_FORMAT, node->key, "must be a number");
    *ret = node->number;
    return RWK_STATUS_OK;
}

static enum rwk_status read_count(const struct reader *r, const struct rwk_node *node,
                                  uint64_t *ret)
{
    if (!is_present(node))
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_NUMBER || !node->is_integer || node->integer <= 0)
        return refuse(r, RWK_STATUS_FORMAT, node->key, "must be a positive integer");
    *ret = (uint64_t)node->integer;
    return RWK_STATUS_OK;
}

static enum rwk_status read_list(const struct reader *r, const struct rwk_node *node,
                                 const double **ret, uint32_t *ret_n)
{
    if (!is_present(node))
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_ARRAY)
        return refuse(r, RWK_STATUS_FORMAT, node->key, "must be a list of numbers");
    double *list = rwk_arena_calloc(r->arena, node->n_children, sizeof *list);
    uint32_t n = 0;
    if (!list)
        return rwk_fail_nomem(r->error, node->n_children * sizeof *list);
    for (const struct rwk_node *e = node->children; e; e = e->next) {
        if (e->type != RWK_JSON_NUMBER)
            return refuse(r, RWK_STATUS_FORMAT, node->key, "must be a list of numbers");
        list[n++] = e->number;
    }
    *ret = list;
    *ret_n = n;
    return RWK_STATUS_OK;
}

static enum rwk_status read_flag(const struct reader *r, const struct rwk_node *node, bool *ret)
{
    if (!is_present(node))
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_TRUE && node->type != RWK_JSON_FALSE)
        return refuse(r, RWK_STATUS_FORMAT, node->key, "must be true or false");
    *ret = node->type == RWK_JSON_TRUE;
    return RWK_STATUS_OK;
}

/* ---- the rows: which types read a key, and which cannot do without ---- */

enum kind { NUMBER, POSITIVE, LIST, FLAG };
#define TYPE(name) (1u << RWK_ROPE_##name)
/* What is computed from the original length. */
#define ORIGINAL_TYPES (TYPE(YARN) | TYPE(LLAMA3) | TYPE(LONGROPE))
#define FIELD(name) offsetof(struct rwk_rope_request, name)

static const struct row {
    const char *key;
    enum kind kind;
    size_t field, n_field; /* n_field: a list's length */
    unsigned read_by, needed_by;
} rows[] = {
    { "factor", POSITIVE, FIELD(factor), 0, ~TYPE(DEFAULT), ~(TYPE(DEFAULT) | TYPE(LONGROPE)) },
    { "attention_factor", POSITIVE, FIELD(attention_factor), 0, TYPE(YARN) | TYPE(LONGROPE), 0 },
    { "beta_fast", NUMBER, FIELD(beta_fast), 0, TYPE(YARN), 0 },
    { "beta_slow", NUMBER, FIELD(beta_slow), 0, TYPE(YARN), 0 },
    { "mscale", NUMBER, FIELD(mscale), 0, TYPE(YARN), 0 },
    { "mscale_all_dim", NUMBER, FIELD(mscale_all_dim), 0, TYPE(YARN), 0 },
    { "truncate", FLAG, FIELD(truncate), 0, TYPE(YARN), 0 },
    { "low_freq_factor", POSITIVE, FIELD(low_freq_factor), 0, TYPE(LLAMA3), TYPE(LLAMA3) },
    { "high_freq_factor", POSITIVE, FIELD(high_freq_factor), 0, TYPE(LLAMA3), TYPE(LLAMA3) },
    { "short_factor", LIST, FIELD(short_factor), FIELD(n_short), TYPE(LONGROPE), TYPE(LONGROPE) },
    { "long_factor", LIST, FIELD(long_factor), FIELD(n_long), TYPE(LONGROPE), TYPE(LONGROPE) },
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static enum rwk_status read_row(const struct reader *r, const struct row *row,
                                struct rwk_rope_request *q)
{
    void *field = (char *)q + row->field;
    const struct rwk_node *node = find(r, row->key);
    bool exists = rwk_tree_member(r->dicts[0], row->key) || rwk_tree_member(r->dicts[1], row->key);
    if (!exists && row->needed_by >> q->type & 1)
        return refuse(r, RWK_STATUS_FORMAT, row->key, "is missing");
    if (row->kind == LIST)
        return read_list(r, node, field, (uint32_t *)(void *)((char *)q + row->n_field));
    /* with dicts by layer type, the reference looks for flags beside them, not inside */
    if (row->kind == FLAG)
        return read_flag(r, r->layers ? rwk_tree_member(r->layers, row->key) : node, field);
    enum rwk_status status = read_number(r, node, field);
    if (!status && node && row->kind == POSITIVE && !(node->number > 0))
        return refuse(r, RWK_STATUS_RANGE, row->key, "must be positive");
    return status;
}

static enum rwk_status read_type(const struct reader *r, const struct rwk_rope_keys *keys,
                                 struct rwk_rope_request *q)
{
    const struct rwk_node *node = find(r, "rope_type");
    if (!node)
        node = find(r, "type");
    if (!node)
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_STRING)
        return refuse(r, RWK_STATUS_FORMAT, node->key, "must be a string");
    bool renamed = keys->su_is_longrope &&
                   (strcmp(node->string, "su") == 0 || strcmp(node->string, "yarn") == 0);
    if (rwk_rope_type_parse(renamed ? "longrope" : node->string, &q->type))
        return RWK_STATUS_OK;
    return rwk_fail_on(r->error, RWK_STATUS_UNSUPPORTED, r->config ? r->file : NULL,
                       r->config ? node->key : option, "rope type \"%.40s\" is not supported",
                       node->string);
}

/* original_max_position_embeddings, for the types that use it. Of the caller's dict only what
 * stands there. */
static enum rwk_status read_original(const struct reader *r, const struct rwk_rope_keys *keys,
                                     uint64_t max_position_embeddings, struct rwk_rope_request *q)
{
    bool is_needed = ORIGINAL_TYPES >> q->type & 1;
    const struct rwk_node *inner = find(r, original_key),
                          *top = r->layers ? NULL : find_top(r, original_key);
    if (r->config && !is_needed)
        return RWK_STATUS_OK;
    if (r->config)
        q->original_context = max_position_embeddings;
    if (keys->default_original) {
        /* stands at the top level even where the config does not spell it out */
        q->original_context = keys->default_original;
        inner = NULL;
    }
    return read_count(r, top ? top : inner, &q->original_context);
}

static enum rwk_status read_theta(const struct reader *r, const struct rwk_rope_keys *keys,
                                  struct rwk_rope_request *q)
{
    const struct rwk_node *theta = find(r, "rope_theta");
    q->theta = keys->default_theta;
    if (keys->fixed_theta)
        return RWK_STATUS_OK;
    return read_number(
        r, theta ? theta : find_top(r, keys->theta_keys ? keys->theta_keys : "rope_theta"),
        &q->theta);
}

static enum rwk_status read_rotary_dim(const struct reader *r, const struct rwk_rope_keys *keys,
                                       uint32_t head_dim, struct rwk_rope_request *q)
{
    if (keys->rotary_dim_key) {
        uint64_t n = keys->default_rotary_dim;
        enum rwk_status status = read_count(r, find_top(r, keys->rotary_dim_key), &n);
        q->rotary_dim = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
        return status;
    }
    const char *names = keys->partial_keys ? keys->partial_keys : "partial_rotary_factor";
    const struct rwk_node *node = find(r, "partial_rotary_factor");
    double share = keys->default_partial > 0 ? keys->default_partial : 1;
    if (!node)
        node = find_top(r, names);
    enum rwk_status status = read_number(r, node, &share);
    if (status)
        return status;
    if (!(share > 0 && share <= 1))
        return refuse(r, RWK_STATUS_RANGE, node ? node->key : names,
                      "must be above 0 and at most 1");
    if (!keys->partial_for_default && q->type != RWK_ROPE_DEFAULT && share != 1)
        return refuse(r, RWK_STATUS_UNSUPPORTED, node ? node->key : names,
                      "has no meaning where this family's rope is scaled");
    q->rotary_dim = keys->partial_for_default ? (uint32_t)(head_dim * share) : head_dim;
    return RWK_STATUS_OK;
}

static enum rwk_status read_table(const struct reader *r, const struct rwk_rope_keys *keys,
                                  const struct rwk_position_request *request,
                                  struct rwk_rope_request *q)
{
    for (int i = 0; i < 2; i++)
        if (is_present(r->dicts[i]) && r->dicts[i]->type != RWK_JSON_OBJECT)
            return refuse(r, RWK_STATUS_FORMAT, r->dicts[i]->key, "must be an object");
    q->interleaved = keys->interleaved;
    q->truncate = true;
    enum rwk_status status = read_type(r, keys, q);
    for (size_t i = 0; i < N_ROWS && !status; i++)
        if (rows[i].read_by >> q->type & 1)
            status = read_row(r, &rows[i], q);
    if (!status)
        status = read_theta(r, keys, q);
    if (!status)
        status = read_original(r, keys, request->max_position_embeddings, q);
    return status ? status : read_rotary_dim(r, keys, request->head_dim, q);
}

/* ---- config ---- */

/* Neither absent nor one of the values that count as nothing. */
static bool is_truthy(const struct rwk_node *node)
{
    return is_present(node) && node->type != RWK_JSON_FALSE &&
           !(node->type == RWK_JSON_OBJECT && !node->n_children);
}

static bool is_by_layer_type(const struct rwk_node *dict)
{
    return rwk_tree_member(dict, full) || rwk_tree_member(dict, sliding);
}

static enum rwk_status read_one(struct rwk_position_request *request, struct reader *r,
                                const struct rwk_node *scaling, const struct rwk_node *parameters,
                                const struct rwk_rope_keys *keys)
{
    r->dicts[0] = is_truthy(scaling) ? scaling : parameters;
    if (is_by_layer_type(r->dicts[0]))
        return refuse(r, RWK_STATUS_UNSUPPORTED, r->dicts[0]->key,
                      "settings by layer type are not known in this family");
    request->n_rope = 1;
    request->rope[0] = (struct rwk_rope_request) { .name = "all" };
    return read_table(r, keys, request, &request->rope[0]);
}

static enum rwk_status read_two(struct rwk_position_request *request, struct reader *r,
                                const struct rwk_node *scaling, const struct rwk_node *parameters,
                                const struct rwk_rope_keys *keys)
{
    static const struct rwk_node none = { .type = RWK_JSON_OBJECT };
    struct rwk_rope_keys local = *keys;
    local.default_theta = keys->default_local_theta;
    local.theta_keys = keys->local_theta_key;
    if (is_by_layer_type(scaling))
        return refuse(r, RWK_STATUS_UNSUPPORTED, scaling->key,
                      "settings by layer type belong into rope_parameters");
    if (is_truthy(parameters) && !is_by_layer_type(parameters))
        return refuse(r, RWK_STATUS_UNSUPPORTED, parameters->key,
                      "must hold the settings of full_attention and sliding_attention");
    r->layers = is_present(parameters) ? parameters : &none;
    r->dicts[0] = scaling;
    r->dicts[1] = rwk_tree_member(parameters, full);
    request->n_rope = 2;
    request->rope[0] = (struct rwk_rope_request) { .name = full };
    request->rope[1] = (struct rwk_rope_request) { .name = sliding };
    enum rwk_status status = read_table(r, keys, request, &request->rope[0]);
    r->dicts[0] = rwk_tree_member(parameters, sliding);
    r->dicts[1] = NULL;
    return status ? status : read_table(r, &local, request, &request->rope[1]);
}

enum rwk_status rwk_rope_keys_read(struct rwk_position_request *request,
                                   const struct rwk_node *config, const char *file,
                                   const struct rwk_rope_keys *keys, struct rwk_arena *arena,
                                   struct rwk_error *error)
{
    struct rwk_position_request changed = *request;
    struct reader r = { .config = config, .file = file, .arena = arena, .error = error };
    const struct rwk_node *scaling = rwk_tree_member(config, "rope_scaling"),
                          *parameters = rwk_tree_member(config, "rope_parameters");
    changed.file = file;
    enum rwk_status status =
        (keys->by_layer_type ? read_two : read_one)(&changed, &r, scaling, parameters, keys);
    if (!status)
        *request = changed;
    return status;
}

/* ---- the caller's choice ---- */

/* "yarn:4" */
static enum rwk_status read_short(struct rwk_rope_request *q, const char *spec,
                                  struct rwk_arena *arena, struct rwk_error *error)
{
    char name[16];
    size_t n = strcspn(spec, ":");
    if (strcmp(spec, "none") == 0)
        return RWK_STATUS_OK; /* q->type is the default one */
    memcpy(name, spec, n < sizeof name ? n : 0);
    name[n < sizeof name ? n : 0] = '\0';
    if (!rwk_rope_type_parse(name, &q->type) || q->type == RWK_ROPE_DEFAULT ||
        q->type == RWK_ROPE_LONGROPE)
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, option,
                           "\"%.60s\" is not understood: give linear:F, ntk:F, dynamic:F, yarn:F, "
                           "llama3:F, none, or a JSON object",
                           spec);
    struct rwk_node *factor = NULL;
    const char *text = spec + n + (spec[n] == ':');
    if (rwk_tree_parse(&factor, arena, text, strlen(text), NULL, NULL) == RWK_STATUS_NOMEM)
        return rwk_fail_nomem(error, sizeof *factor);
    if (!factor || factor->type != RWK_JSON_NUMBER)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, option,
                           "\"%.60s\" needs a number as its factor, as in \"yarn:4\"", spec);
    q->factor = factor->number;
    if (q->type == RWK_ROPE_LLAMA3) {
        q->low_freq_factor = 1;
        q->high_freq_factor = 4;
    }
    return RWK_STATUS_OK;
}

/* Keys that would not take effect are refused, so that a slip of the pen is not passed over. */
static enum rwk_status check_keys(const struct reader *r, enum rwk_rope_type type)
{
    for (const struct rwk_node *member = r->dicts[0]->children; member; member = member->next) {
        const char *key = member->key;
        bool fits = !strcmp(key, "rope_type") || !strcmp(key, "type") ||
                    !strcmp(key, "rope_theta") ||
                    (!strcmp(key, original_key) && type != RWK_ROPE_DEFAULT);
        for (size_t i = 0; i < N_ROWS && !fits; i++)
            fits = strcmp(rows[i].key, key) == 0 && rows[i].read_by >> type & 1;
        if (!fits)
            return rwk_fail_on(r->error, RWK_STATUS_RANGE, NULL, option,
                               "\"%.60s\" has no effect on rope type %s", key,
                               rwk_rope_type_name(type));
    }
    return RWK_STATUS_OK;
}

static enum rwk_status read_dict(struct rwk_rope_request *q,
                                 const struct rwk_position_request *request,
                                 const struct rwk_node *dict, struct rwk_arena *arena,
                                 struct rwk_error *error)
{
    struct rwk_rope_keys keys = { .default_theta = q->theta, .interleaved = q->interleaved };
    struct reader r = { .dicts = { dict }, .file = option, .arena = arena, .error = error };
    if (!find(&r, "rope_type") && !find(&r, "type"))
        return refuse(&r, RWK_STATUS_RANGE, "rope_type", "is missing");
    enum rwk_status status = read_type(&r, &keys, q);
    if (!status)
        status = check_keys(&r, q->type);
    return status ? status : read_table(&r, &keys, request, q);
}

/* The scaling of one table: from `dict`, or from the short form where that is NULL. */
static enum rwk_status choose_table(struct rwk_position_request *request, uint32_t table,
                                    const struct rwk_node *dict,
                                    const struct rwk_model_options *options,
                                    struct rwk_arena *arena, struct rwk_error *error)
{
    struct rwk_rope_request *old = &request->rope[table];
    struct rwk_rope_request q = {
        .name = old->name, .theta = old->theta, .interleaved = old->interleaved, .truncate = true
    };
    enum rwk_status status = dict ? read_dict(&q, request, dict, arena, error)
                                  : read_short(&q, options->rope_scaling, arena, error);
    bool has_factor = q.type != RWK_ROPE_DEFAULT && !(dict && q.factor == 0);
    if (!status && has_factor && !(q.factor >= 1))
        status = rwk_fail_on(error, RWK_STATUS_RANGE, NULL, option,
                             "a factor below 1 would shorten the context");
    if (!status && table == 0 && options->rope_theta != 0 && q.theta != old->theta)
        status = rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-theta",
                             "is given twice: rope-scaling has one, too");
    if (!status && table == 0 && options->original_context && q.original_context)
        status = rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "original-context",
                             "is given twice: rope-scaling has one, too");
    if (status)
        return status;
    q.rotary_dim = old->rotary_dim;
    uint64_t trained = old->original_context && q.type != RWK_ROPE_DYNAMIC
                           ? old->original_context
                           : request->max_position_embeddings;
    if (!q.original_context && ORIGINAL_TYPES >> q.type & 1)
        q.original_context = trained;
    if (table == 0)
        request->trained_context = q.original_context ? q.original_context : trained;
    if (!((ORIGINAL_TYPES | TYPE(DYNAMIC)) >> q.type & 1))
        q.original_context = 0; /* has done its part in the trained length */
    request->file = NULL;
    *old = q;
    return RWK_STATUS_OK;
}

/* { "full_attention": {...}, "sliding_attention": {...} }: what is not named stays as it is. */
static enum rwk_status choose_by_layer_type(struct rwk_position_request *request,
                                            const struct rwk_node *layers,
                                            const struct rwk_model_options *options,
                                            struct rwk_arena *arena, struct rwk_error *error)
{
    enum rwk_status status = RWK_STATUS_OK;
    for (const struct rwk_node *dict = layers->children; dict && !status; dict = dict->next) {
        uint32_t table = 0;
        while (table < request->n_rope && strcmp(request->rope[table].name, dict->key) != 0)
            table++;
        if (table == request->n_rope)
            return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, option,
                               "this model has no frequencies of \"%.60s\"", dict->key);
        status = choose_table(request, table, dict, options, arena, error);
    }
    return status;
}

/* Of two tables a scaling without layer types means the first, as rope_scaling does in a config:
 * layers with a window never look further than it. Where the config scales those, too, nobody can
 * tell what is meant for them. */
static enum rwk_status choose_scaling(struct rwk_position_request *request,
                                      const struct rwk_model_options *options,
                                      struct rwk_arena *arena, struct rwk_error *error)
{
    const char *spec = options->rope_scaling;
    struct rwk_node *dict = NULL;
    enum rwk_status status = RWK_STATUS_OK;
    if (spec[strspn(spec, " \t\r\n")] == '{')
        status = rwk_tree_parse(&dict, arena, spec, strlen(spec), option, error);
    if (status)
        return status;
    if (is_by_layer_type(dict))
        return choose_by_layer_type(request, dict, options, arena, error);
    for (uint32_t i = 1; i < request->n_rope; i++)
        if (request->rope[i].type != RWK_ROPE_DEFAULT)
            return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, option,
                               "this model's %s layers are scaled as well: give "
                               "{\"%s\": {...}, \"%s\": {...}}",
                               request->rope[i].name, full, sliding);
    return choose_table(request, 0, dict, options, arena, error);
}

static enum rwk_status choose_theta(struct rwk_rope_request *q, double theta,
                                    struct rwk_error *error)
{
    if (!(theta > 0) || !isfinite(theta))
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-theta",
                           "must be a positive number");
    q->theta = theta;
    return RWK_STATUS_OK;
}

static enum rwk_status choose_original(struct rwk_position_request *request, uint64_t original,
                                       struct rwk_error *error)
{
    struct rwk_rope_request *q = &request->rope[0];
    bool kept = (ORIGINAL_TYPES | TYPE(DYNAMIC)) >> q->type & 1;
    if (q->type == RWK_ROPE_DEFAULT || !(kept || request->trained_context))
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "original-context",
                           "has no effect on rope type %s of this model",
                           rwk_rope_type_name(q->type));
    if (kept)
        q->original_context = original;
    if (request->trained_context)
        request->trained_context = original;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_rope_keys_override(struct rwk_position_request *request,
                                       const struct rwk_model_options *options,
                                       struct rwk_arena *arena, struct rwk_error *error)
{
    const char *given = options->rope_scaling       ? option
                        : options->rope_theta != 0  ? "rope-theta"
                        : options->original_context ? "original-context"
                                                    : NULL;
    struct rwk_position_request changed = *request;
    enum rwk_status status = RWK_STATUS_OK;
    if (!given)
        return RWK_STATUS_OK;
    if (strcmp(request->scheme, "rope") != 0)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, given,
                           "does not apply to %s positions, which this model has",
                           strcmp(request->scheme, "none") == 0 ? "no" : request->scheme);
    if (options->rope_scaling)
        status = choose_scaling(&changed, options, arena, error);
    if (!status && options->rope_theta != 0)
        status = choose_theta(&changed.rope[0], options->rope_theta, error);
    if (!status && options->original_context)
        status = choose_original(&changed, options->original_context, error);
    if (!status)
        *request = changed;
    return status;
}
