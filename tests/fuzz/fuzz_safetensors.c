/* Any bytes as a safetensors file: the invariants that loaders/safetensors.h promises, and memory
 * bounded by the file. */
#include <stdlib.h>
#include <string.h>
#include "loaders/safetensors.h"

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensors(const struct rwk_tensor *tensors, size_t n, const struct rwk_file *file)
{
    uint64_t header;
    memcpy(&header, file->data, 8);
    const char *at = (const char *)file->data + 8 + header;
    for (size_t i = 0; i < n; i++) {
        const struct rwk_tensor *t = &tensors[i];
        uint64_t n_elements = 1;
        for (uint32_t k = 0; k < t->n_dims; k++)
            REQUIRE(!__builtin_mul_overflow(n_elements, t->shape[k], &n_elements));
        REQUIRE(strlen(t->name) == t->name_size && t->data == at && t->file == file);
        REQUIRE(t->dtype == RWK_DTYPE_OTHER ||
                t->n_bytes == n_elements * rwk_dtype_bits(t->dtype) / 8);
        for (size_t k = 0; k < i && n < 100; k++)
            REQUIRE(strcmp(t->name, tensors[k].name) != 0);
        at += t->n_bytes;
    }
    REQUIRE(at == (const char *)file->data + file->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rwk_memory memory;
    struct rwk_error error = { .size = sizeof error };
    struct rwk_tensor *tensors = NULL;
    size_t n = 0;
    rwk_memory_init(&memory, NULL, 0);
    struct rwk_arena arena = { .memory = &memory };
    struct rwk_file file = { .path = "fuzz", .data = data, .size = size, .memory = &memory };
    enum rwk_status status = rwk_safetensors_parse(&tensors, &n, &file, &arena, &error);
    if (status == RWK_STATUS_OK)
        check_tensors(tensors, n, &file);
    else
        REQUIRE(status == RWK_STATUS_FORMAT && !tensors && !strncmp(error.message, "fuzz: ", 6));
    REQUIRE(atomic_load(&memory.peak) <= 256 * 1024 + 16 * (uint64_t)size);
    rwk_arena_finish(&arena);
    REQUIRE(atomic_load(&memory.used) == 0);
    return 0;
}
