/* Config keys -> facts, by the family's rows.
 *
 *   for each row: the first of its keys that is present and not null -> checked type and range
 *       -> field, else the fallback
 *   then: what follows from other facts (head size, key/value heads), cross checks, and the
 *       family's finish
 *
 * Every refusal names the file, the key and what was found. */
#include "models/arch.h"

#include <math.h>
#include <string.h>

/* ---- one row ---- */

/* The next of the alternatives in a '|' list; false at its end. */
static bool next_name(const char **list, char *buffer, size_t capacity)
{
    size_t n = strcspn(*list, "|");
    if (!n || n >= capacity)
        return false;
    memcpy(buffer, *list, n);
    buffer[n] = '\0';
    *list += n + ((*list)[n] == '|');
    return true;
}

/* The first of the keys that is present and not null; *ret_null: one was there, but null. */
static const struct rwk_node *find_key(const struct rwk_node *config, const char *keys, char *key,
                                       size_t capacity, bool *ret_null)
{
    *ret_null = false;
    while (next_name(&keys, key, capacity)) {
        const struct rwk_node *node = rwk_tree_find(config, key);
        if (node && node->type != RWK_JSON_NULL)
            return node;
        *ret_null |= node != NULL;
    }
    return NULL;
}

static const struct {
    const char *name;
    enum rwk_activation activation;
} activation_names[] = {
    { "silu", RWK_ACT_SILU }, { "swish", RWK_ACT_SILU },
    { "relu", RWK_ACT_RELU }, { "relu2", RWK_ACT_RELU2 },
    { "gelu", RWK_ACT_GELU_ERF }, { "gelu_python", RWK_ACT_GELU_ERF },
    { "gelu_new", RWK_ACT_GELU_TANH }, { "gelu_fast", RWK_ACT_GELU_TANH },
    { "gelu_pytorch_tanh", RWK_ACT_GELU_TANH },
    { "quick_gelu", RWK_ACT_QUICK_GELU },
};

static enum rwk_status read_activation(const struct rwk_node *node, void *field, const char *file,
                                       const char *key, struct rwk_error *error)
{
    if (node->type != RWK_JSON_STRING)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, key,
                           "must be the name of an activation");
    for (size_t i = 0; i < sizeof activation_names / sizeof *activation_names; i++)
        if (strcmp(node->string, activation_names[i].name) == 0) {
            *(enum rwk_activation *)field = activation_names[i].activation;
            return RWK_STATUS_OK;
        }
    return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, key,
                       "activation \"%.60s\" is not supported", node->string);
}

static enum rwk_status read_number(const struct rwk_config_row *row, const struct rwk_node *node,
                                   void *field, const char *file, const char *key,
                                   struct rwk_error *error)
{
    if (node->type != RWK_JSON_NUMBER)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, key, "must be a number");
    bool whole = row->type == RWK_KEY_U32 || row->type == RWK_KEY_U64;
    if (whole && !node->is_integer)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, key, "must be an integer, is %.40s",
                           node->string);
    double value = whole ? (double)node->integer : node->number;
    if (!(value >= row->min && value <= row->max))
        return rwk_fail_on(error, RWK_STATUS_RANGE, file, key, "%.40s is out of range",
                           node->string);
    if (row->type == RWK_KEY_U32)
        *(uint32_t *)field = (uint32_t)node->integer;
    else if (row->type == RWK_KEY_U64)
        *(uint64_t *)field = (uint64_t)node->integer;
    else
        *(double *)field = value;
    return RWK_STATUS_OK;
}

/* A key that this library understands at one value only. */
static enum rwk_status check_only(const struct rwk_config_row *row, const struct rwk_node *node,
                                  const char *file, const char *key, struct rwk_error *error)
{
    bool same = row->type == RWK_KEY_ONLY_NUMBER
                    ? node->type == RWK_JSON_NUMBER && node->number == row->fallback
                    : node->type == (row->fallback != 0 ? RWK_JSON_TRUE : RWK_JSON_FALSE);
    return same ? RWK_STATUS_OK
                : rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, key,
                              "this value is not supported");
}

static void set_value(const struct rwk_config_row *row, double value, void *field)
{
    switch (row->type) {
    case RWK_KEY_U32: *(uint32_t *)field = (uint32_t)value; break;
    case RWK_KEY_U64: *(uint64_t *)field = (uint64_t)value; break;
    case RWK_KEY_F64: *(double *)field = value; break;
    case RWK_KEY_BOOL: *(bool *)field = value != 0; break;
    case RWK_KEY_ACTIVATION:
    case RWK_KEY_ONLY_NUMBER:
    case RWK_KEY_ONLY_BOOL:
        break; /* the trait stays */
    }
}

static enum rwk_status read_row(struct rwk_facts *facts, const struct rwk_config_row *row,
                                const struct rwk_node *config, const char *file,
                                struct rwk_error *error)
{
    char key[96];
    void *field = (char *)facts + row->field;
    bool null;
    const struct rwk_node *node = find_key(config, row->keys, key, sizeof key, &null);
    if (!node) {
        set_value(row, null && row->flags & RWK_NULL_IS_OFF ? 0 : row->fallback, field);
        return RWK_STATUS_OK;
    }
    switch (row->type) {
    case RWK_KEY_U32: case RWK_KEY_U64: case RWK_KEY_F64:
        return read_number(row, node, field, file, key, error);
    case RWK_KEY_BOOL:
        if (node->type != RWK_JSON_TRUE && node->type != RWK_JSON_FALSE)
            return rwk_fail_on(error, RWK_STATUS_FORMAT, file, key, "must be true or false");
        *(bool *)field = node->type == RWK_JSON_TRUE;
        return RWK_STATUS_OK;
    case RWK_KEY_ACTIVATION:
        return read_activation(node, field, file, key, error);
    case RWK_KEY_ONLY_NUMBER: case RWK_KEY_ONLY_BOOL:
        return check_only(row, node, file, key, error);
    }
    return RWK_STATUS_OK;
}

/* ---- what follows ---- */

static enum rwk_status complete_shapes(struct rwk_facts *f, const char *file,
                                       struct rwk_error *error)
{
    if (!f->n_kv_heads)
        f->n_kv_heads = f->n_heads;
    if (f->n_kv_heads > f->n_heads || f->n_heads % f->n_kv_heads)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, "num_key_value_heads",
                           "%u query heads cannot share %u key/value heads", f->n_heads,
                           f->n_kv_heads);
    if (!f->head_dim && f->hidden_size % f->n_heads)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, "hidden_size",
                           "%u is not divisible by %u heads", f->hidden_size, f->n_heads);
    if (!f->head_dim)
        f->head_dim = f->hidden_size / f->n_heads;
    if (!f->word_size)
        f->word_size = f->hidden_size;
    if (!f->ffn_size)
        f->ffn_size = 4 * f->hidden_size;
    uint64_t q = (uint64_t)f->n_heads * f->head_dim,
             all = q + 2 * (uint64_t)f->n_kv_heads * f->head_dim;
    if (all > INT32_MAX || f->ffn_size > INT32_MAX / 2)
        return rwk_fail_on(error, RWK_STATUS_RANGE, file, "head_dim",
                           "%u heads of %u are more than can be handled", f->n_heads, f->head_dim);
    if (!f->attention_scale)
        f->attention_scale = 1 / sqrt(f->head_dim);
    return RWK_STATUS_OK;
}

enum rwk_status rwk_facts_read(struct rwk_facts *ret_facts, const struct rwk_arch *arch,
                               const struct rwk_node *config, const char *file,
                               struct rwk_arena *arena, struct rwk_error *error)
{
    struct rwk_facts facts = arch->traits;
    enum rwk_status status = RWK_STATUS_OK;
    for (const struct rwk_config_row *row = arch->config; row->keys && !status; row++)
        status = read_row(&facts, row, config, file, error);
    if (!status)
        status = complete_shapes(&facts, file, error);
    if (status)
        return status;
    facts.layers = rwk_arena_calloc(arena, facts.n_layers, sizeof *facts.layers);
    if (!facts.layers)
        return rwk_fail_nomem(error, facts.n_layers * sizeof *facts.layers);
    for (uint32_t l = 0; l < facts.n_layers; l++)
        facts.layers[l] = (struct rwk_layer_facts){ facts.window, facts.attention_scale, 0 };
    if (arch->finish)
        status = arch->finish(&facts, config, file, error);
    if (!status)
        *ret_facts = facts;
    return status;
}

enum rwk_status rwk_facts_windows_from_layer_types(struct rwk_facts *facts,
                                                   const struct rwk_node *config, const char *file,
                                                   struct rwk_error *error)
{
    const struct rwk_node *types = rwk_tree_member(config, "layer_types");
    if (!types || types->type == RWK_JSON_NULL)
        return RWK_STATUS_OK;
    if (types->type != RWK_JSON_ARRAY || types->n_children != facts->n_layers)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, "layer_types",
                           "must be a list of %u layer types", facts->n_layers);
    uint32_t l = 0;
    for (const struct rwk_node *type = types->children; type; type = type->next, l++) {
        bool slides =
            type->type == RWK_JSON_STRING && strcmp(type->string, "sliding_attention") == 0;
        if (!slides &&
            (type->type != RWK_JSON_STRING || strcmp(type->string, "full_attention") != 0))
            return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, "layer_types",
                               "layer type \"%.40s\" is not supported",
                               type->type == RWK_JSON_STRING ? type->string : "?");
        facts->layers[l].window = slides ? facts->window : 0;
    }
    return RWK_STATUS_OK;
}
