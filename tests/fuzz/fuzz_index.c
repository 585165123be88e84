/* Any bytes as model.safetensors.index.json beside two small shards: x with the tensors a and b, y
 * with b and c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "loaders/shards.h"

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[64];

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    REQUIRE(file && fwrite(bytes, 1, size, file) == size);
    REQUIRE(fclose(file) == 0);
}

static void write_shard(const char *name, char first, char second)
{
    static const char entry[] = "\"%c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}";
    char bytes[512];
    size_t n = 8;
    bytes[n++] = '{';
    n += (size_t)snprintf(bytes + n, 128, entry, first, 0, 1);
    bytes[n++] = ',';
    n += (size_t)snprintf(bytes + n, 128, entry, second, 1, 2);
    bytes[n++] = '}';
    memcpy(bytes, &(uint64_t) { n - 8 }, 8);
    bytes[n++] = first;
    bytes[n++] = second;
    write_file(name, bytes, n);
}

static void clean_up(void)
{
    static const char *const names[] = { "x", "y", "model.safetensors.index.json" };
    for (size_t i = 0; i < 3; i++)
        remove(path_of(names[i]));
    rmdir(directory);
}

static void prepare(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(directory, sizeof directory, "%s/ropewalk-fuzz-XXXXXX", base);
    REQUIRE(mkdtemp(directory) && atexit(clean_up) == 0);
    write_shard("x", 'a', 'b');
    write_shard("y", 'b', 'c');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int prepared;
    if (!prepared++)
        prepare();
    struct rwk_memory memory;
    struct rwk_weights_set set = { 0 };
    struct rwk_error error = { .size = sizeof error };
    rwk_memory_init(&memory, NULL, 0);
    write_file("model.safetensors.index.json", data, size);
    struct rwk_files files = rwk_files_of(directory, &memory);
    enum rwk_status status = rwk_weights_open(&set, &files, RWK_LOAD_READ, &error);
    if (status == RWK_STATUS_OK) {
        REQUIRE(set.n_tensors > 0 && set.n_tensors <= 3 && set.n_files > 0 && set.n_files <= 2);
        for (size_t i = 0; i < set.n_tensors; i++) {
            const struct rwk_tensor *t = &set.tensors[i];
            REQUIRE(rwk_weights_find(&set, t->name, t->name_size) == t);
            REQUIRE(*(const char *)t->data == *t->name);
        }
    } else {
        REQUIRE(!set.memory && !strncmp(error.message, directory, strlen(directory)));
    }
    rwk_weights_close(&set);
    REQUIRE(atomic_load(&memory.used) == 0);
    return 0;
}
