/* `finish` functions that more than one family uses. */
#include "models/families.h"

#include <math.h>

enum rwk_status rwk_finish_qwen(struct rwk_facts *facts, const struct rwk_node *config,
                                const char *file, struct rwk_error *error)
{
    facts->window = facts->flag[RWK_FLAG_USE_WINDOW] ? facts->window : 0;
    for (uint32_t l = 0; l < facts->n_layers; l++)
        facts->layers[l].window =
            l >= facts->number[RWK_NUMBER_MAX_WINDOW_LAYERS] ? facts->window : 0;
    return rwk_facts_windows_from_layer_types(facts, config, file, error);
}

enum rwk_status rwk_finish_scale_embedding(struct rwk_facts *facts, const struct rwk_node *config,
                                           const char *file, struct rwk_error *error)
{
    (void)config;
    (void)file;
    (void)error;
    if (facts->flag[RWK_FLAG_SCALE_EMBEDDING])
        facts->embed_scale = sqrt(facts->hidden_size);
    return RWK_STATUS_OK;
}
