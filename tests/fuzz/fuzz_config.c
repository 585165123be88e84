/* Any bytes as config.json (and generation_config.json) of a directory that holds, as zeros, the
 * weights of a dozen families: the position plan, the binding, one token through what opens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ropewalk/ropewalk.h>

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

enum { MEMORY_LIMIT = 256 << 20, MAX_TENSORS = 1024, MAX_HEADER = 1 << 20 };

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

/* ---- the weights ---- */

struct header {
    char text[MAX_HEADER];
    size_t size;
    uint64_t offset; /* of the next tensor in the data */
};

/* One more entry, unless there is one of this name. */
static void add_tensor(struct header *h, const struct rwk_tensor_info *t)
{
    char key[256];
    snprintf(key, sizeof key, "\"%s\":", t->name);
    if (strstr(h->text, key))
        return;
    size_t room = sizeof h->text - h->size;
    int n = snprintf(h->text + h->size, room, "%c%s{\"dtype\":\"%s\",\"shape\":[",
                     h->size ? ',' : '{', key, rwk_dtype_name(t->dtype));
    for (uint32_t d = 0; d < t->n_dims; d++)
        n += snprintf(h->text + h->size + n, room - (size_t)n, "%s%llu", d ? "," : "",
                      (unsigned long long)t->shape[d]);
    n += snprintf(h->text + h->size + n, room - (size_t)n, "],\"data_offsets\":[%llu,%llu]}",
                  (unsigned long long)h->offset, (unsigned long long)(h->offset + t->n_bytes));
    REQUIRE((size_t)n < room - 1);
    h->size += (size_t)n;
    h->offset += t->n_bytes;
}

static void write_weights(void)
{
    static const char *const checkpoints[] = {
        "llama-yarn", "gpt2", "bloom",  "gpt_neox", "opt",          "gemma3_text", "qwen3",
        "falcon-new", "mpt",  "cohere", "stablelm", "phi3-partial", "olmo2"
    };
    static struct header header;
    for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++) {
        char path[512];
        struct rwk_tensor_file *file = NULL;
        struct rwk_tensor_info tensor = { 0 };
        snprintf(path, sizeof path, RWK_TEST_DATA "/checkpoints/%s/model.safetensors",
                 checkpoints[i]);
        REQUIRE(rwk_tensor_file_open(&file, path, NULL, NULL) == RWK_STATUS_OK);
        for (size_t k = 0; k < rwk_tensor_file_n_tensors(file); k++) {
            rwk_tensor_file_get(file, k, &tensor);
            add_tensor(&header, &tensor);
        }
        rwk_tensor_file_close(&file);
    }
    header.text[header.size++] = '}';
    FILE *file = fopen(path_of("model.safetensors"), "wb");
    uint64_t size = header.size;
    REQUIRE(file && fwrite(&size, 8, 1, file) == 1 &&
            fwrite(header.text, 1, header.size, file) == header.size);
    REQUIRE(fflush(file) == 0 &&
            ftruncate(fileno(file), (off_t)(8 + header.size + header.offset)) == 0);
    REQUIRE(fclose(file) == 0);
}

static void clean_up(void)
{
    static const char *const names[] = { "config.json", "generation_config.json",
                                         "model.safetensors" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(path_of(names[i]));
    rmdir(directory);
}

static void prepare(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(directory, sizeof directory, "%s/ropewalk-fuzz-XXXXXX", base);
    REQUIRE(mkdtemp(directory) && atexit(clean_up) == 0);
    write_weights();
}

/* ---- memory ---- */

static size_t held;
static int refused;

static void *bounded_alloc(void *user_data, size_t size, size_t alignment)
{
    void *pointer = NULL;
    (void)user_data;
    if (size > MEMORY_LIMIT - held) {
        refused = 1;
        return NULL;
    }
    REQUIRE(posix_memalign(&pointer, alignment, size) == 0);
    held += size;
    return pointer;
}

static void bounded_free(void *user_data, void *pointer, size_t size)
{
    (void)user_data;
    held -= size;
    free(pointer);
}

static const struct rwk_allocator allocator = { bounded_alloc, bounded_free, NULL };

/* ---- what is tried ---- */

static void check(enum rwk_status status, const struct rwk_error *error)
{
    if (!status)
        return;
    REQUIRE(status == RWK_STATUS_FORMAT || status == RWK_STATUS_UNSUPPORTED ||
            status == RWK_STATUS_MISMATCH || status == RWK_STATUS_RANGE ||
            (status == RWK_STATUS_NOMEM && refused));
    REQUIRE(error->message[0] && !strchr(error->message, '\n'));
}

static void evaluate(struct rwk_model *model)
{
    struct rwk_error error = { .size = sizeof error };
    struct rwk_session_options options;
    struct rwk_session *session = NULL;
    uint32_t token = 0;
    rwk_session_options_init(&options);
    options.allocator = &allocator;
    options.context = 1;
    enum rwk_status status = rwk_session_create(&session, model, &options, &error);
    check(status, &error);
    if (status)
        return;
    REQUIRE(rwk_session_eval(session, &token, 1, 0, NULL, &error) == RWK_STATUS_OK);
    REQUIRE(rwk_session_logits(session, 0) != NULL);
    rwk_session_close(&session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int prepared;
    struct rwk_error error = { .size = sizeof error };
    struct rwk_model_options options;
    struct rwk_position_plan *plan = NULL;
    struct rwk_model *model = NULL;
    if (!prepared++)
        prepare();
    refused = 0;
    write_file("config.json", data, size);
    write_file("generation_config.json", data, size);
    rwk_model_options_init(&options);
    options.allocator = &allocator;
    enum rwk_status status = rwk_position_resolve(&plan, directory, &options, &error);
    check(status, &error);
    REQUIRE(!status == !!plan);
    rwk_position_plan_close(&plan);
    if (!status) {
        status = rwk_model_open(&model, directory, &options, &error);
        check(status, &error);
        REQUIRE(!status == !!model);
        if (!status)
            evaluate(model);
        rwk_model_close(&model);
    }
    REQUIRE(held == 0);
    return 0;
}
