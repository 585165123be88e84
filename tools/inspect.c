/* inspect: a model directory, one config.json, or one safetensors file. */
#include "tool.h"

#include <string.h>
#include <sys/stat.h>

static void print_tensor(const struct rwk_tensor_info *t)
{
    printf("  %-8s [", rwk_dtype_name((enum rwk_dtype)t->dtype));
    for (uint32_t i = 0; i < t->n_dims; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)t->shape[i]);
    printf("] ");
    print_json_string(stdout, t->name, strlen(t->name));
    putchar('\n');
}

static int inspect_file(const struct options *o)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_tensor_file *file = NULL;
    if (rwk_tensor_file_open(&file, o->arguments[0], NULL, &error))
        return fail_error(&error);
    size_t n = rwk_tensor_file_n_tensors(file);
    uint64_t bytes = 0;
    struct rwk_tensor_info t;
    for (size_t i = 0; i < n; i++) {
        rwk_tensor_file_get(file, i, &t);
        bytes += t.n_bytes;
    }
    if (o->json)
        printf("{\"tensors\": %zu, \"bytes\": %llu}\n", n, (unsigned long long)bytes);
    else
        printf("%zu tensors, %llu bytes\n", n, (unsigned long long)bytes);
    for (size_t i = 0; i < n && !o->json; i++) {
        rwk_tensor_file_get(file, i, &t);
        print_tensor(&t);
    }
    rwk_tensor_file_close(&file);
    return EXIT_DONE;
}

static int inspect_config(const struct options *o)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_position_plan *plan = NULL;
    struct rwk_position_info info = { .size = sizeof info };
    struct rwk_model_options mo;
    model_options(o, o->n_rope_scaling ? o->rope_scaling[0] : NULL, &mo);
    if (rwk_position_resolve(&plan, o->arguments[0], &mo, &error))
        return fail_error(&error);
    rwk_position_get_info(plan, &info);
    printf(o->json ? "{\"family\": \"%s\", \"positions\": \"%s\"}\n" : "family      %s\npositions   %s\n", info.family,
           info.scheme);
    rwk_position_plan_close(&plan);
    return EXIT_DONE;
}

static void print_model(const struct options *o, const struct rwk_model *model, const struct rwk_model_info *m,
                        const struct rwk_memory_plan *plan)
{
    if (o->json) {
        printf("{\"family\": \"%s\", \"positions\": \"%s\", \"isa\": \"%s\", \"layers\": %u, \"hidden_size\": %u, "
               "\"heads\": %u, \"kv_heads\": %u, \"head_dim\": %u, \"intermediate_size\": %u, \"vocab_size\": %u, "
               "\"parameters\": %llu, \"tensors\": %zu, \"mapped_bytes\": %llu, \"copied_bytes\": %llu, \"kv_bytes\": %llu, "
               "\"scratch_bytes\": %llu}\n", m->family, m->position_scheme, m->isa, m->n_layers, m->hidden_size, m->n_heads,
               m->n_kv_heads, m->head_dim, m->intermediate_size, m->vocab_size, (unsigned long long)m->n_parameters,
               rwk_model_n_tensors(model), (unsigned long long)plan->mapped_bytes, (unsigned long long)plan->copied_bytes,
               (unsigned long long)plan->kv_bytes, (unsigned long long)plan->scratch_bytes);
        return;
    }
    printf("family      %s\npositions   %s", m->family, m->position_scheme);
    if (m->context != UINT64_MAX)
        printf(", %llu%s", (unsigned long long)m->context, m->context_limit != UINT64_MAX ? " at most" : "");
    printf("\nshape       %u layers, hidden %u, %u heads (%u key/value) of %u, feed-forward %u, vocabulary %u\n", m->n_layers,
           m->hidden_size, m->n_heads, m->n_kv_heads, m->head_dim, m->intermediate_size, m->vocab_size);
    printf("parameters  %llu in %zu tensors\n", (unsigned long long)m->n_parameters, rwk_model_n_tensors(model));
    printf("kernels     %s\n", m->isa);
    printf("memory      %llu bytes mapped, %llu copied; a session: %llu cache, %llu scratch\n",
           (unsigned long long)plan->mapped_bytes, (unsigned long long)plan->copied_bytes,
           (unsigned long long)plan->kv_bytes, (unsigned long long)plan->scratch_bytes);
    for (size_t i = 0; o->tensors && i < rwk_model_n_tensors(model); i++) {
        struct rwk_tensor_info t;
        rwk_model_get_tensor(model, i, &t);
        print_tensor(&t);
    }
}

static int inspect_model(const struct options *o)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_model *model = NULL;
    struct rwk_model_options mo;
    struct rwk_session_options so;
    struct rwk_model_info info = { .size = sizeof info };
    struct rwk_memory_plan plan = { .size = sizeof plan };
    model_options(o, o->n_rope_scaling ? o->rope_scaling[0] : NULL, &mo);
    mo.prefetch = RWK_PREFETCH_NONE;
    if (rwk_model_open(&model, o->arguments[0], &mo, &error))
        return fail_error(&error);
    session_options(o, NULL, &so);
    rwk_model_get_info(model, &info);
    int status = EXIT_DONE;
    if (rwk_session_plan(model, &so, &plan, &error))
        status = fail_error(&error);
    else
        print_model(o, model, &info, &plan);
    rwk_model_close(&model);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

int run_inspect(const struct options *o)
{
    struct stat st;
    const char *path = o->arguments[0];
    bool directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (directory)
        return inspect_model(o);
    return ends_with(path, ".json") ? inspect_config(o) : inspect_file(o);
}
