/* Opening a position plan, and its two forms: JSON (one object, keys as in docs/command.md) and
 * tables for people. */
#include "plan.h"

#include <inttypes.h>
#include "load.h"
#include "tool.h"

void plan_open(struct rwk_position_plan **ret_plan, struct rwk_position_info *ret_info,
               const struct options *o)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_model_options options;
    model_options(&options, o, rope_scaling_of(o));
    check(rwk_position_resolve(ret_plan, o->arguments[0], &options, &error), &error);
    *ret_info = (struct rwk_position_info){ .size = sizeof *ret_info };
    check(rwk_position_get_info(*ret_plan, ret_info), NULL);
}

static struct rwk_position_table table_of(const struct rwk_position_plan *plan, uint32_t index)
{
    struct rwk_position_table table = { .size = sizeof table };
    check(rwk_position_get_table(plan, index, &table), NULL);
    return table;
}

/* ---- JSON ---- */

static void json_table(struct json *json, const struct rwk_position_table *t)
{
    json_object(json, t->name);
    json_floats(json, "inv_freq", t->inv_freq, t->n_pairs);
    if (t->long_inv_freq)
        json_floats(json, "long_inv_freq", t->long_inv_freq, t->n_pairs);
    json_real(json, "attention_factor", t->attention_factor);
    json_string(json, "rope_type", t->scaling);
    json_real(json, "rope_theta", t->theta);
    json_real(json, "factor", t->factor);
    if (t->original_context)
        json_count(json, "original_max_position_embeddings", t->original_context);
    json_end(json, '}');
}

void plan_print_json(const struct rwk_position_plan *plan, const struct rwk_position_info *info)
{
    struct json json = { 0 };
    json_object(&json, NULL);
    json_string(&json, "scheme", info->scheme);
    json_string(&json, "family", info->family);
    json_bound(&json, "context", info->context);
    json_bound(&json, "context_limit", info->context_limit);
    if (info->n_tables)
        json_string(&json, "pairing", info->interleaved ? "interleaved" : "halves");
    json_object(&json, "tables");
    for (uint32_t i = 0; i < info->n_tables; i++) {
        struct rwk_position_table table = table_of(plan, i);
        json_table(&json, &table);
    }
    json_end(&json, '}');
    if (info->n_slopes)
        json_floats(&json, "slopes", info->slopes, info->n_slopes);
    json_end(&json, '}');
}

/* ---- for people ---- */

void print_bound(const char *label, uint64_t value)
{
    if (value == UINT64_MAX)
        out_print("%-20s without bound\n", label);
    else
        out_print("%-20s %" PRIu64 "\n", label, value);
}

/* One row per pair: its frequency and how many positions a full turn takes. */
static void print_table(const struct rwk_position_table *t)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    out_print("\ntable %s: %s, theta %s", t->name, t->scaling, format_double(a, t->theta));
    out_print(", factor %s, attention factor %s", format_double(a, t->factor),
              format_double(b, t->attention_factor));
    if (t->original_context)
        out_print(", original context %" PRIu64, t->original_context);
    out_print("\n%6s %16s %16s%s\n", "pair", "inv_freq", "wavelength",
              t->long_inv_freq ? "    long inv_freq" : "");
    for (uint32_t i = 0; i < t->n_pairs; i++) {
        out_print("%6u %16s %16.1f", i, format_float(a, t->inv_freq[i]),
                  2 * 3.14159265358979323846 / (double)t->inv_freq[i]);
        if (t->long_inv_freq)
            out_print(" %16s", format_float(a, t->long_inv_freq[i]));
        out_print("\n");
    }
}

void plan_print(const struct rwk_position_plan *plan, const struct rwk_position_info *info,
                bool tables)
{
    char number[NUMBER_SIZE];
    out_print("%-20s %s\n%-20s %s\n", "family", info->family, "positions", info->scheme);
    print_bound("context", info->context);
    if (info->context_limit != UINT64_MAX)
        print_bound("context limit", info->context_limit);
    if (info->n_tables)
        out_print("%-20s %s\n", "pairing", info->interleaved ? "interleaved" : "halves");
    for (uint32_t i = 0; tables && i < info->n_tables; i++) {
        struct rwk_position_table table = table_of(plan, i);
        print_table(&table);
    }
    if (tables && info->n_slopes) {
        out_print("\n%6s %16s\n", "head", "slope");
        for (uint32_t i = 0; i < info->n_slopes; i++)
            out_print("%6u %16s\n", i, format_float(number, info->slopes[i]));
    }
}
