/* Reading rope dictionaries: the same code for config.json and for the caller's JSON. */
#include "models/rope_keys.h"

#include <math.h>
#include <string.h>

struct reader {
    const struct rwk_node *config; /* root; NULL for the caller's dict */
    const char *file;
    struct rwk_arena *arena;
    struct rwk_error *error;
};

static bool present(const struct rwk_node *node) { return node && node->type != RWK_JSON_NULL; }

/* ---- typed members ---- */

static enum rwk_status number(const struct reader *r, const struct rwk_node *node, double *ret)
{
    if (!present(node))
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_NUMBER)
        return rwk_fail_on(r->error, RWK_STATUS_FORMAT, r->file, node->key, "must be a number");
    *ret = node->number;
    return RWK_STATUS_OK;
}

static enum rwk_status positions(const struct reader *r, const struct rwk_node *node, uint64_t *ret)
{
    if (!present(node))
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_NUMBER || !node->is_integer || node->integer <= 0)
        return rwk_fail_on(r->error, RWK_STATUS_FORMAT, r->file, node->key, "must be a positive integer");
    *ret = (uint64_t)node->integer;
    return RWK_STATUS_OK;
}

static enum rwk_status numbers(const struct reader *r, const struct rwk_node *node, const double **ret, uint32_t *ret_n)
{
    if (!present(node))
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_ARRAY)
        return rwk_fail_on(r->error, RWK_STATUS_FORMAT, r->file, node->key, "must be a list of numbers");
    double *list = rwk_arena_alloc(r->arena, (node->n_children + 1) * sizeof *list);
    uint32_t n = 0;
    if (!list)
        return rwk_fail_nomem(r->error, node->n_children * sizeof *list);
    for (const struct rwk_node *e = node->children; e; e = e->next) {
        if (e->type != RWK_JSON_NUMBER)
            return rwk_fail_on(r->error, RWK_STATUS_FORMAT, r->file, node->key, "must be a list of numbers");
        list[n++] = e->number;
    }
    *ret = list;
    *ret_n = n;
    return RWK_STATUS_OK;
}

/* First present of a '|' list of top-level keys. */
static const struct rwk_node *top_level(const struct reader *r, const char *keys)
{
    while (r->config && *keys) {
        char key[64];
        size_t n = strcspn(keys, "|");
        memcpy(key, keys, n);
        key[n] = '\0';
        if (present(rwk_tree_member(r->config, key)))
            return rwk_tree_member(r->config, key);
        keys += n + (keys[n] == '|');
    }
    return NULL;
}

/* ---- one dictionary ---- */

static enum rwk_status read_type(const struct reader *r, const struct rwk_node *dict, const struct rwk_rope_keys *keys,
                                 struct rwk_rope_request *q)
{
    const struct rwk_node *node = rwk_tree_member(dict, "rope_type");
    if (!present(node))
        node = rwk_tree_member(dict, "type");
    if (!present(node))
        return RWK_STATUS_OK;
    if (node->type != RWK_JSON_STRING)
        return rwk_fail_on(r->error, RWK_STATUS_FORMAT, r->file, node->key, "must be a string");
    bool renamed = keys->su_is_longrope && (strcmp(node->string, "su") == 0 || strcmp(node->string, "yarn") == 0);
    if (!rwk_rope_type_parse(renamed ? "longrope" : node->string, &q->type) || (r->config && q->type == RWK_ROPE_NTK))
        return rwk_fail_on(r->error, RWK_STATUS_UNSUPPORTED, r->file, node->key, "rope type \"%.40s\" is not supported",
                           node->string);
    return RWK_STATUS_OK;
}

static enum rwk_status require(const struct reader *r, const struct rwk_node *dict, const char *key,
                               enum rwk_rope_type type)
{
    if (present(rwk_tree_member(dict, key)))
        return RWK_STATUS_OK;
    return rwk_fail_on(r->error, RWK_STATUS_FORMAT, r->file, key, "is missing from the settings of rope type %s",
                       rwk_rope_type_name(type));
}

/* Keys that a type cannot do without. */
static enum rwk_status check_required(const struct reader *r, const struct rwk_node *dict, enum rwk_rope_type type)
{
    static const char *const required[RWK_N_ROPE_TYPES][4] = {
        [RWK_ROPE_LINEAR] = { "factor" }, [RWK_ROPE_DYNAMIC] = { "factor" }, [RWK_ROPE_NTK] = { "factor" },
        [RWK_ROPE_LLAMA3] = { "factor", "low_freq_factor", "high_freq_factor" },
        [RWK_ROPE_LONGROPE] = { "short_factor", "long_factor" },
    };
    enum rwk_status status = RWK_STATUS_OK;
    for (int i = 0; i < 4 && required[type][i] && !status; i++)
        status = require(r, dict, required[type][i], type);
    return status;
}

static enum rwk_status read_numbers(const struct reader *r, const struct rwk_node *dict, struct rwk_rope_request *q)
{
    const struct {
        const char *key;
        double *field;
    } rows[] = {
        { "factor", &q->factor }, { "attention_factor", &q->attention_factor }, { "beta_fast", &q->beta_fast },
        { "beta_slow", &q->beta_slow }, { "mscale", &q->mscale }, { "mscale_all_dim", &q->mscale_all_dim },
        { "low_freq_factor", &q->low_freq_factor }, { "high_freq_factor", &q->high_freq_factor },
    };
    enum rwk_status status = RWK_STATUS_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
        status = number(r, rwk_tree_member(dict, rows[i].key), rows[i].field);
    if (!status)
        status = numbers(r, rwk_tree_member(dict, "short_factor"), &q->short_factor, &q->n_short);
    if (!status)
        status = numbers(r, rwk_tree_member(dict, "long_factor"), &q->long_factor, &q->n_long);
    const struct rwk_node *truncate = rwk_tree_member(dict, "truncate");
    q->truncate = !truncate || truncate->type != RWK_JSON_FALSE;
    return status;
}

/* original_max_position_embeddings, for the types that it means something to. */
static enum rwk_status read_original(const struct reader *r, const struct rwk_node *dict, const struct rwk_rope_keys *keys,
                                     uint64_t otherwise, struct rwk_rope_request *q)
{
    static const char key[] = "original_max_position_embeddings";
    const struct rwk_node *node = rwk_tree_member(r->config, key);
    uint64_t original = otherwise;
    bool takes = q->type == RWK_ROPE_YARN || q->type == RWK_ROPE_LLAMA3 || q->type == RWK_ROPE_LONGROPE;
    if (r->config && !takes)
        return RWK_STATUS_OK;
    if (!present(node) && keys->default_original)
        original = keys->default_original;
    else if (!present(node))
        node = rwk_tree_member(dict, key);
    enum rwk_status status = positions(r, node, &original);
    if (!status && (takes || present(node)))
        q->original_context = original;
    return status;
}

static enum rwk_status read_rotary_dim(const struct reader *r, const struct rwk_node *dict, const struct rwk_rope_keys *keys,
                                       uint32_t head_dim, struct rwk_rope_request *q)
{
    double partial = keys->default_partial ? keys->default_partial : 1;
    if (keys->rotary_dim_key) {
        uint64_t r_dim = keys->default_rotary_dim;
        enum rwk_status status = positions(r, top_level(r, keys->rotary_dim_key), &r_dim);
        q->rotary_dim = r_dim < UINT32_MAX ? (uint32_t)r_dim : UINT32_MAX;
        return status;
    }
    const struct rwk_node *node = rwk_tree_member(dict, "partial_rotary_factor");
    if (!present(node))
        node = top_level(r, keys->partial_keys ? keys->partial_keys : "partial_rotary_factor");
    enum rwk_status status = number(r, node, &partial);
    if (status)
        return status;
    if (!(partial > 0 && partial <= 1))
        return rwk_fail_on(r->error, RWK_STATUS_RANGE, r->file, node ? node->key : "partial_rotary_factor",
                           "must be above 0 and at most 1");
    if (!keys->partial_for_default && q->type != RWK_ROPE_DEFAULT && partial != 1)
        return rwk_fail_on(r->error, RWK_STATUS_UNSUPPORTED, r->file, "partial_rotary_factor", "a scaled rope of a part of "
                           "the head is not known for this family");
    q->rotary_dim = keys->partial_for_default ? (uint32_t)(head_dim * partial) : head_dim;
    return RWK_STATUS_OK;
}

static enum rwk_status read_dict(const struct reader *r, const struct rwk_node *dict, const struct rwk_rope_keys *keys,
                                 const struct rwk_position_request *request, struct rwk_rope_request *q)
{
    if (present(dict) && dict->type != RWK_JSON_OBJECT)
        return rwk_fail_on(r->error, RWK_STATUS_FORMAT, r->file, dict->key, "must be an object");
    q->theta = keys->default_theta;
    q->interleaved = keys->interleaved;
    enum rwk_status status = read_type(r, dict, keys, q);
    if (!status)
        status = check_required(r, dict, q->type);
    if (!status)
        status = read_numbers(r, dict, q);
    if (!status && !keys->fixed_theta) {
        const struct rwk_node *theta = rwk_tree_member(dict, "rope_theta");
        status = number(r, present(theta) ? theta : top_level(r, keys->theta_keys ? keys->theta_keys : "rope_theta"),
                        &q->theta);
    }
    if (!status)
        status = read_original(r, dict, keys, request->max_position_embeddings, q);
    return status ? status : read_rotary_dim(r, dict, keys, request->head_dim, q);
}

/* ---- config ---- */

static bool is_truthy(const struct rwk_node *node)
{
    return present(node) && !(node->type == RWK_JSON_OBJECT && node->n_children == 0) && node->type != RWK_JSON_FALSE;
}

enum rwk_status rwk_rope_keys_read(struct rwk_position_request *request, const struct rwk_node *config, const char *file,
                                   const struct rwk_rope_keys *keys, struct rwk_arena *arena, struct rwk_error *error)
{
    static const char full[] = "full_attention", sliding[] = "sliding_attention";
    struct reader r = { config, file, arena, error };
    const struct rwk_node *dict = rwk_tree_member(config, "rope_scaling");
    if (!is_truthy(dict))
        dict = rwk_tree_member(config, "rope_parameters");
    const struct rwk_node *of_full = rwk_tree_member(dict, full), *of_sliding = rwk_tree_member(dict, sliding);
    bool nested = of_full || of_sliding;
    request->n_rope = keys->by_layer_type ? 2 : 1;
    request->rope[0].name = keys->by_layer_type ? full : "all";
    request->rope[1].name = sliding;
    if (nested && !keys->by_layer_type)
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, dict->key, "settings by layer type are not known for this "
                           "family");
    enum rwk_status status = read_dict(&r, nested ? of_full : dict, keys, request, &request->rope[0]);
    if (!status && keys->by_layer_type) {
        struct rwk_rope_keys local = *keys;
        local.default_theta = keys->default_local_theta;
        local.theta_keys = keys->local_theta_key;
        status = read_dict(&r, of_sliding, &local, request, &request->rope[1]);
    }
    return status;
}

/* ---- the caller's choice ---- */

/* "yarn:4" as the object that it stands for. */
static enum rwk_status expand_short(char *json, size_t capacity, const char *spec, struct rwk_error *error)
{
    size_t n = strcspn(spec, ":"), used;
    const char *factor = spec + n + (spec[n] == ':');
    char name[16];
    enum rwk_rope_type type = RWK_ROPE_DEFAULT;
    static const char quoted[] = "\"rope_type\": \"", low_high[] = ", \"low_freq_factor\": 1, \"high_freq_factor\": 4";
    if (n >= sizeof name || strlen(factor) > 24)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-scaling", "\"%.60s\" is not understood", spec);
    memcpy(name, spec, n);
    name[n] = '\0';
    if (strcmp(name, "none") == 0)
        memcpy(name, "default", sizeof "default");
    if (!rwk_rope_type_parse(name, &type) || type == RWK_ROPE_LONGROPE)
        return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, NULL, "rope-scaling", "\"%.60s\" is no scaling with a short form",
                           spec);
    if ((type == RWK_ROPE_DEFAULT) != (*factor == '\0') || (type == RWK_ROPE_DEFAULT && spec[n]))
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-scaling", type == RWK_ROPE_DEFAULT ?
                           "\"%.60s\" takes no factor" : "\"%.60s\" needs a factor, as in \"yarn:4\"", spec);
    if (strspn(factor, "0123456789.") != strlen(factor))
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-scaling", "\"%.60s\": the factor is not a number", spec);
    const char *parts[] = { "{", quoted, name, "\"", *factor ? ", \"factor\": " : "", factor,
                            type == RWK_ROPE_LLAMA3 ? low_high : "", "}" };
    used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i]);
        if (used + length + 1 > capacity)
            return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-scaling", "is too long");
        memcpy(json + used, parts[i], length);
        used += length;
    }
    json[used] = '\0';
    return RWK_STATUS_OK;
}

/* Keys that would not take effect are refused, so that a slip of the pen is not passed over. */
static enum rwk_status check_keys(const struct rwk_node *dict, enum rwk_rope_type type, struct rwk_error *error)
{
    enum { ANY = -1, SCALED = -2 };
    static const struct {
        const char *key;
        int types; /* a bit set of types, or for all */
    } known[] = {
        { "rope_type", ANY }, { "type", ANY }, { "rope_theta", ANY }, { "factor", SCALED },
        { "original_max_position_embeddings", SCALED }, { "attention_factor", 1 << RWK_ROPE_YARN | 1 << RWK_ROPE_LONGROPE },
        { "beta_fast", 1 << RWK_ROPE_YARN }, { "beta_slow", 1 << RWK_ROPE_YARN }, { "mscale", 1 << RWK_ROPE_YARN },
        { "mscale_all_dim", 1 << RWK_ROPE_YARN }, { "truncate", 1 << RWK_ROPE_YARN },
        { "low_freq_factor", 1 << RWK_ROPE_LLAMA3 }, { "high_freq_factor", 1 << RWK_ROPE_LLAMA3 },
        { "short_factor", 1 << RWK_ROPE_LONGROPE }, { "long_factor", 1 << RWK_ROPE_LONGROPE },
    };
    for (const struct rwk_node *member = dict->children; member; member = member->next) {
        bool fits = false;
        for (size_t i = 0; i < sizeof known / sizeof *known && !fits; i++)
            fits = strcmp(known[i].key, member->key) == 0 &&
                   (known[i].types == ANY || (known[i].types == SCALED ? type != RWK_ROPE_DEFAULT
                                                                       : (known[i].types >> type & 1)));
        if (!fits)
            return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-scaling", "\"%.60s\" has no effect on rope type %s",
                               member->key, rwk_rope_type_name(type));
    }
    return RWK_STATUS_OK;
}

static enum rwk_status override_scaling(struct rwk_position_request *request, const char *spec, struct rwk_arena *arena,
                                        struct rwk_error *error)
{
    char expanded[192];
    struct rwk_node *dict = NULL;
    struct rwk_rope_request *old = &request->rope[0], fresh = { .name = old->name };
    struct reader r = { NULL, "rope-scaling", arena, error };
    struct rwk_rope_keys keys = { .default_theta = old->theta, .interleaved = old->interleaved };
    uint64_t trained = old->original_context ? old->original_context : request->max_position_embeddings;
    struct rwk_position_request base = *request;
    if (spec[strspn(spec, " \t\n\r")] != '{') {
        enum rwk_status status = expand_short(expanded, sizeof expanded, spec, error);
        if (status)
            return status;
        spec = expanded;
    }
    enum rwk_status status = rwk_tree_parse(&dict, arena, spec, strlen(spec), "rope-scaling", error);
    if (!status && rwk_tree_member(dict, "rope_type") == NULL && rwk_tree_member(dict, "type") == NULL)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-scaling", "\"rope_type\" is missing");
    base.max_position_embeddings = trained; /* what a missing original length stands for */
    if (!status)
        status = read_dict(&r, dict, &keys, &base, &fresh);
    if (!status)
        status = check_keys(dict, fresh.type, error);
    if (!status && fresh.factor && !(fresh.factor >= 1))
        status = rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-scaling", "a factor below 1 would shorten the context");
    if (status)
        return status;
    fresh.rotary_dim = old->rotary_dim;
    *old = fresh;
    request->trained_context = fresh.original_context ? fresh.original_context : trained;
    return RWK_STATUS_OK;
}

enum rwk_status rwk_rope_keys_override(struct rwk_position_request *request, const struct rwk_model_options *options,
                                       struct rwk_arena *arena, struct rwk_error *error)
{
    const char *option = options->rope_scaling ? "rope-scaling" : options->rope_theta != 0 ? "rope-theta" :
                         options->original_context ? "original-context" : NULL;
    enum rwk_status status = RWK_STATUS_OK;
    if (!option)
        return RWK_STATUS_OK;
    if (strcmp(request->scheme, "rope") != 0)
        return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, option, "does not apply: this model's positions are %s, not rotary",
                           request->scheme);
    if (options->rope_scaling)
        status = override_scaling(request, options->rope_scaling, arena, error);
    struct rwk_rope_request *q = &request->rope[0];
    if (!status && options->rope_theta != 0) {
        if (!(options->rope_theta > 0) || !isfinite(options->rope_theta))
            return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "rope-theta", "must be a positive number");
        q->theta = options->rope_theta;
    }
    if (!status && options->original_context) {
        if (q->type == RWK_ROPE_DEFAULT)
            return rwk_fail_on(error, RWK_STATUS_RANGE, NULL, "original-context", "has no effect without a scaling");
        q->original_context = options->original_context;
        if (request->trained_context)
            request->trained_context = options->original_context;
    }
    return status;
}
