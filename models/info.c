/* What can be asked of an open model. Structs grow with the library: only what the caller's `size`
 * covers is written. */
#include "models/open.h"

#include <string.h>

static void copy_out(void *ret, const void *value, size_t size)
{
    uint32_t room;
    memcpy(&room, ret, sizeof room);
    size_t n = room < size ? room : size;
    if (n > sizeof room) /* `size` itself stays the caller's */
        memcpy((char *)ret + sizeof room, (const char *)value + sizeof room, n - sizeof room);
}

enum rwk_status rwk_model_get_info(const struct rwk_model *model, struct rwk_model_info *ret_info)
{
    const struct rwk_opened *o = model->owner;
    struct rwk_model_info info = {
        .n_layers = model->n_layers,
        .hidden_size = model->hidden_size,
        .n_heads = model->n_heads,
        .n_kv_heads = model->n_kv_heads,
        .head_dim = model->head_dim,
        .intermediate_size = model->ffn_size,
        .vocab_size = model->vocab_size,
        .context = model->position.context,
        .context_limit = model->position.context_limit,
        .n_parameters = model->n_parameters,
        .mapped_bytes = model->mapped_bytes,
        .copied_bytes = model->copied_bytes,
        .family = o->arch->name,
        .position_scheme = model->position.scheme->name,
        .isa = model->kernels->name,
    };
    copy_out(ret_info, &info, sizeof info);
    return RWK_STATUS_OK;
}

size_t rwk_model_n_tensors(const struct rwk_model *model)
{
    return ((const struct rwk_opened *)model->owner)->weights.n_tensors;
}

enum rwk_status rwk_model_get_tensor(const struct rwk_model *model, size_t index,
                                     struct rwk_tensor_info *ret_info)
{
    const struct rwk_opened *o = model->owner;
    if (index >= o->weights.n_tensors)
        return RWK_STATUS_RANGE;
    const struct rwk_tensor *t = &o->weights.tensors[index];
    *ret_info = (struct rwk_tensor_info){ .name = t->name,
                                          .file = t->file->path,
                                          .dtype = t->dtype,
                                          .n_dims = t->n_dims,
                                          .shape = t->shape,
                                          .data = t->data,
                                          .n_bytes = t->n_bytes,
                                          .used = o->used[index] };
    return RWK_STATUS_OK;
}

enum rwk_status rwk_model_get_generation_defaults(const struct rwk_model *model,
                                                  struct rwk_generation_defaults *ret_defaults)
{
    copy_out(ret_defaults, &model->generation, sizeof model->generation);
    return RWK_STATUS_OK;
}
