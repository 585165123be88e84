/* One safetensors file on its own, behind the public interface. */
#include "loaders/safetensors.h"

struct rwk_tensor_file {
    struct rwk_memory memory;
    struct rwk_arena arena;
    struct rwk_file file;
    struct rwk_tensor *tensors;
    size_t n_tensors;
};

enum rwk_status rwk_tensor_file_open(struct rwk_tensor_file **ret_file, const char *path,
                                     const struct rwk_allocator *allocator, struct rwk_error *error)
{
    struct rwk_memory memory;
    rwk_memory_init(&memory, allocator, 0);
    struct rwk_tensor_file *f = rwk_calloc(&memory, 1, sizeof *f);
    if (!f)
        return rwk_fail_nomem(error, sizeof *f);
    rwk_memory_init(&f->memory, allocator, 0);
    f->arena.memory = &f->memory;
    enum rwk_status status = rwk_file_open(&f->file, path, RWK_LOAD_MAP, &f->memory, error);
    if (!status)
        status = rwk_safetensors_parse(&f->tensors, &f->n_tensors, &f->file, &f->arena, error);
    if (status) {
        rwk_tensor_file_close(&f);
        return status;
    }
    *ret_file = f;
    return RWK_STATUS_OK;
}

void rwk_tensor_file_close(struct rwk_tensor_file **file)
{
    struct rwk_tensor_file *f = file ? *file : NULL;
    if (!f)
        return;
    struct rwk_memory memory;
    rwk_memory_init(&memory, &f->memory.host, 0);
    rwk_file_close(&f->file);
    rwk_arena_finish(&f->arena);
    rwk_free(&memory, f);
    *file = NULL;
}

size_t rwk_tensor_file_n_tensors(const struct rwk_tensor_file *file)
{
    return file->n_tensors;
}

enum rwk_status rwk_tensor_file_get(const struct rwk_tensor_file *file, size_t index,
                                    struct rwk_tensor_info *ret_info)
{
    if (index >= file->n_tensors)
        return RWK_STATUS_RANGE;
    const struct rwk_tensor *t = &file->tensors[index];
    *ret_info = (struct rwk_tensor_info) { .name = t->name,
                                           .file = t->file->path,
                                           .dtype = t->dtype,
                                           .n_dims = t->n_dims,
                                           .shape = t->shape,
                                           .data = t->data,
                                           .n_bytes = t->n_bytes };
    return RWK_STATUS_OK;
}
