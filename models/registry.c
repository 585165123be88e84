/* The families, and finding one for a config. families.list has a line for each. */
#include "models/arch.h"

#include <string.h>

#define FAMILY(name) extern const struct rwk_arch rwk_arch_##name;
#include "models/families.list"
#undef FAMILY

static const struct rwk_arch *const archs[] = {
#define FAMILY(name) &rwk_arch_##name,
#include "models/families.list"
#undef FAMILY
};

static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (; *list; list += strcspn(list, "|"), list += *list == '|')
        if (strncmp(list, name, n) == 0 && (list[n] == '|' || list[n] == '\0'))
            return true;
    return false;
}

enum rwk_status rwk_arch_find(const struct rwk_arch **ret_arch, const struct rwk_node *config,
                              const char *file, struct rwk_error *error)
{
    if (config->type != RWK_JSON_OBJECT)
        return rwk_fail(error, RWK_STATUS_FORMAT, file,
                        "not a model configuration: the file must hold a JSON object");
    const struct rwk_node *type = rwk_tree_member(config, "model_type");
    if (!type || type->type == RWK_JSON_NULL)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, "model_type", "the key is missing");
    if (type->type != RWK_JSON_STRING)
        return rwk_fail_on(error, RWK_STATUS_FORMAT, file, "model_type", "must be a string");
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (is_listed(archs[i]->model_types, type->string)) {
            *ret_arch = archs[i];
            return RWK_STATUS_OK;
        }
    return rwk_fail_on(error, RWK_STATUS_UNSUPPORTED, file, "model_type",
                       "\"%.60s\" is not a supported family", type->string);
}
