/* What a directory, a config.json or a weight file holds. Which of the three it is: a directory; a
 * name that ends in .json; else a safetensors file. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include "checksum.h"
#include "commands.h"
#include "load.h"
#include "output.h"
#include "plan.h"
#include "tool.h"

/* Tensors come from a model or from one file; both are read through this. */
struct tensor_list {
    size_t n;
    const struct rwk_model *model;
    const struct rwk_tensor_file *file;
};

static struct rwk_tensor_info tensor_of(const struct tensor_list *list, size_t index)
{
    struct rwk_tensor_info t = { 0 };
    check(list->model ? rwk_model_get_tensor(list->model, index, &t)
                      : rwk_tensor_file_get(list->file, index, &t), NULL);
    return t;
}

static void json_tensors(struct json *json, const struct tensor_list *list)
{
    json_array(json, "tensors");
    for (size_t i = 0; i < list->n; i++) {
        struct rwk_tensor_info t = tensor_of(list, i);
        json_object(json, NULL);
        json_string(json, "name", t.name);
        json_string(json, "dtype", rwk_dtype_name(t.dtype));
        json_array(json, "shape");
        for (uint32_t d = 0; d < t.n_dims; d++)
            json_count(json, NULL, t.shape[d]);
        json_end(json, ']');
        json_count(json, "bytes", t.n_bytes);
        if (list->model) {
            json_string(json, "file", t.file);
            json_flag(json, "used", t.used);
        }
        json_end(json, '}');
    }
    json_end(json, ']');
}

/* A name from a file may hold anything; control characters must not reach the terminal. */
static void print_name(const char *name)
{
    for (; *name; name++)
        out_write((unsigned char)*name < 0x20 || *name == 0x7f ? "?" : name, 1);
}

static void print_tensors(const struct tensor_list *list)
{
    out_print("\n%-8s %14s  %-24s name\n", "dtype", "bytes", "shape");
    for (size_t i = 0; i < list->n; i++) {
        struct rwk_tensor_info t = tensor_of(list, i);
        char shape[128] = "[";
        size_t used = 1;
        for (uint32_t d = 0; d < t.n_dims && used < sizeof shape - 32; d++)
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRIu64, d ? ", " : "",
                                     t.shape[d]);
        snprintf(shape + used, sizeof shape - used, "]");
        out_print("%-8s %14" PRIu64 "  %-24s ", rwk_dtype_name(t.dtype), t.n_bytes, shape);
        print_name(t.name);
        out_print("%s\n", list->model && !t.used ? " (not used)" : "");
    }
}

/* ---- a model directory ---- */

struct inspected {
    struct rwk_model_info info;
    struct rwk_memory_plan memory;
    uint64_t context; /* that the memory plan is for */
    struct tensor_list tensors;
};

/* Label and key of every number, once for both forms. */
struct number_row {
    const char *key, *label;
    size_t offset;
    bool wide; /* uint64_t, UINT64_MAX: without bound */
};
#define INFO(name, label, wide) { #name, label, offsetof(struct inspected, info.name), wide }
#define MEMORY(name, label) { #name, label, offsetof(struct inspected, memory.name), true }
static const struct number_row numbers[] = {
    INFO(n_parameters, "parameters", true),
    INFO(n_layers, "layers", false),
    INFO(hidden_size, "hidden size", false),
    INFO(n_heads, "heads", false),
    INFO(n_kv_heads, "key/value heads", false),
    INFO(head_dim, "head dimension", false),
    INFO(intermediate_size, "feed-forward size", false),
    INFO(vocab_size, "vocabulary", false),
    INFO(context, "context", true),
    INFO(context_limit, "context limit", true),
};
static const struct number_row memory_numbers[] = {
    { "context", "for a context of", offsetof(struct inspected, context), true },
    MEMORY(mapped_bytes, "weights mapped"),
    MEMORY(copied_bytes, "weights copied"),
    MEMORY(kv_bytes, "keys and values"),
    MEMORY(scratch_bytes, "scratch"),
    MEMORY(total_bytes, "allocated in all"),
};

static uint64_t number_of(const struct inspected *x, const struct number_row *row)
{
    uint64_t wide;
    uint32_t narrow;
    if (!row->wide) {
        memcpy(&narrow, (const char *)x + row->offset, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, (const char *)x + row->offset, sizeof wide);
    return wide;
}

static void json_numbers(struct json *json, const struct inspected *x,
                         const struct number_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        json_bound(json, rows[i].key, number_of(x, &rows[i]));
}

static void print_numbers(const struct inspected *x, const struct number_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        print_bound(rows[i].label, number_of(x, &rows[i]));
}

static void print_model(const struct inspected *x, const struct options *o)
{
    struct json json = { 0 };
    if (!o->json) {
        out_print("%-20s %s\n%-20s %s\n%-20s %s\n", "family", x->info.family, "positions",
                  x->info.position_scheme, "kernels", x->info.isa);
        print_numbers(x, numbers, COUNT_OF(numbers));
        out_print("%-20s %zu\n\nmemory in bytes\n", "tensors", x->tensors.n);
        print_numbers(x, memory_numbers, COUNT_OF(memory_numbers));
        if (o->tensors)
            print_tensors(&x->tensors);
        return;
    }
    json_object(&json, NULL);
    json_string(&json, "path", o->arguments[0]);
    json_string(&json, "family", x->info.family);
    json_string(&json, "position_scheme", x->info.position_scheme);
    json_string(&json, "isa", x->info.isa);
    json_numbers(&json, x, numbers, COUNT_OF(numbers));
    json_count(&json, "n_tensors", x->tensors.n);
    json_object(&json, "memory");
    json_numbers(&json, x, memory_numbers, COUNT_OF(memory_numbers));
    json_end(&json, '}');
    if (o->tensors)
        json_tensors(&json, &x->tensors);
    json_end(&json, '}');
}

static void inspect_model(const struct options *o)
{
    struct rwk_error error = ERROR_INIT;
    struct inspected x = { .memory.size = sizeof x.memory };
    struct rwk_session_options s;
    struct rwk_pool *pool = pool_open(o);
    struct rwk_model *model = model_open(o->arguments[0], o, rope_scaling_of(o), pool);
    model_info(model, &x.info);
    x.context = context_limit(&x.info, o);
    x.tensors = (struct tensor_list){ .n = rwk_model_n_tensors(model), .model = model };
    context_notice(&x.info, o, x.context);
    session_options(&s, o, x.context, pool);
    check(rwk_session_plan(model, &s, &x.memory, &error), &error);
    print_model(&x, o);
    rwk_model_close(&model);
    rwk_pool_close(&pool);
}

/* ---- a bare configuration, a weight file ---- */

static void inspect_config(const struct options *o)
{
    struct rwk_position_plan *plan = NULL;
    struct rwk_position_info info;
    plan_open(&plan, &info, o);
    if (o->json)
        plan_print_json(plan, &info);
    else
        plan_print(plan, &info, false);
    rwk_position_plan_close(&plan);
}

static void inspect_tensor_file(const struct options *o)
{
    struct rwk_error error = ERROR_INIT;
    struct rwk_tensor_file *file = NULL;
    struct json json = { 0 };
    check(rwk_tensor_file_open(&file, o->arguments[0], NULL, &error), &error);
    struct tensor_list list = { .n = rwk_tensor_file_n_tensors(file), .file = file };
    if (o->json) {
        json_object(&json, NULL);
        json_string(&json, "path", o->arguments[0]);
        json_count(&json, "n_tensors", list.n);
        json_tensors(&json, &list);
        json_end(&json, '}');
    } else {
        out_print("%-20s %zu\n", "tensors", list.n);
        print_tensors(&list);
    }
    rwk_tensor_file_close(&file);
}

int run_inspect(const struct options *o)
{
    const char *path = o->arguments[0], *dot = strrchr(path, '.');
    struct stat s;
    bool directory = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    if (o->verify && !directory)
        die("%s: --verify is for model directories", path);
    if (o->verify)
        checksum_verify(path, o);
    if (directory)
        inspect_model(o);
    else if (dot && !strcmp(dot, ".json"))
        inspect_config(o);
    else
        inspect_tensor_file(o);
    return EXIT_DONE;
}
