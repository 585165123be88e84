/* rope: the effective position plan, from a config alone. */
#include "tool.h"

static void print_list(const float *x, uint32_t n)
{
    putchar('[');
    for (uint32_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", stdout);
        print_float(stdout, x[i]);
    }
    putchar(']');
}

static void print_length(const char *key, uint64_t length)
{
    if (length == UINT64_MAX)
        printf(", \"%s\": null", key);
    else
        printf(", \"%s\": %llu", key, (unsigned long long)length);
}

static void print_json(const struct rwk_position_plan *plan, const struct rwk_position_info *info)
{
    printf("{\"family\": \"%s\", \"scheme\": \"%s\"", info->family, info->scheme);
    print_length("context", info->context);
    print_length("context_limit", info->context_limit);
    if (info->n_tables)
        printf(", \"interleaved\": %s", info->interleaved ? "true" : "false");
    printf(", \"tables\": {");
    for (uint32_t i = 0; i < info->n_tables; i++) {
        struct rwk_position_table t = { .size = sizeof t };
        rwk_position_get_table(plan, i, &t);
        printf("%s\"%s\": {\"rope_type\": \"%s\", \"theta\": ", i ? ", " : "", t.name, t.scaling);
        print_double(stdout, t.theta);
        printf(", \"factor\": ");
        print_double(stdout, t.factor);
        printf(", \"original_context\": %llu, \"attention_factor\": ", (unsigned long long)t.original_context);
        print_double(stdout, t.attention_factor);
        printf(", \"inv_freq\": ");
        print_list(t.inv_freq, t.n_pairs);
        if (t.long_inv_freq) {
            printf(", \"long_inv_freq\": ");
            print_list(t.long_inv_freq, t.n_pairs);
        }
        putchar('}');
    }
    putchar('}');
    if (info->n_slopes) {
        printf(", \"slopes\": ");
        print_list(info->slopes, info->n_slopes);
    }
    puts("}");
}

static void print_text(const struct rwk_position_plan *plan, const struct rwk_position_info *info)
{
    printf("family             %s\nscheme             %s\n", info->family, info->scheme);
    if (info->context != UINT64_MAX)
        printf("valid length       %llu%s\n", (unsigned long long)info->context,
               info->context_limit != UINT64_MAX ? " (a hard bound)" : "");
    for (uint32_t i = 0; i < info->n_tables; i++) {
        struct rwk_position_table t = { .size = sizeof t };
        rwk_position_get_table(plan, i, &t);
        printf("table              %s: %s, theta %.10g, factor %.10g, attention factor %.10g, pairs %s\n", t.name, t.scaling,
               t.theta, t.factor, t.attention_factor, info->interleaved ? "(2m, 2m+1)" : "(m, m + r/2)");
        if (t.original_context)
            printf("original length    %llu\n", (unsigned long long)t.original_context);
        for (uint32_t m = 0; m < t.n_pairs; m++) {
            printf("  inv_freq[%u] ", m);
            print_float(stdout, t.inv_freq[m]);
            if (t.long_inv_freq) {
                fputs("  long ", stdout);
                print_float(stdout, t.long_inv_freq[m]);
            }
            putchar('\n');
        }
    }
    for (uint32_t h = 0; h < info->n_slopes; h++) {
        printf("  slope[%u] ", h);
        print_float(stdout, info->slopes[h]);
        putchar('\n');
    }
}

int run_rope(const struct options *o)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_model_options mo;
    struct rwk_position_plan *plan = NULL;
    struct rwk_position_info info = { .size = sizeof info };
    model_options(o, o->n_rope_scaling ? o->rope_scaling[0] : NULL, &mo);
    if (rwk_position_resolve(&plan, o->arguments[0], &mo, &error))
        return fail_error(&error);
    rwk_position_get_info(plan, &info);
    (o->json ? print_json : print_text)(plan, &info);
    rwk_position_plan_close(&plan);
    return EXIT_DONE;
}
